"""Options have one meaning in all commands, and help loads few modules."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from partage.cli.app import app
from partage.cli.options import ClusterOptions, with_options

#: Libraries that no help text needs, besides those of `test_help_is_quick`.
HEAVY = {"numpy", "numba", "pyarrow", "pyspark", "jinja2", "pandas", "kafka"}
#: Our own modules outside `partage.cli` that the command line may import for a help text.
OURS = {
    "partage", "partage.capture", "partage.capture.durable", "partage.capture.secrets",
    "partage.errors",
}  # fmt: skip
#: Commands that read a running cluster.
ON_A_CLUSTER = [
    "capture", "groups", "replay", "keys", "audit", "place", "watch", "forecast", "size",
    *(f"reassign {one}" for one in ("rebalance", "add-broker", "drain-broker", "replace-broker",
                                    "change-rf", "fix-racks", "elect-leaders")),
]  # fmt: skip


def commands(path: str = "", command: Any = None) -> Iterator[tuple[str, Any]]:
    """Yield the path and the command of each subcommand."""
    found = typer.main.get_command(app) if command is None else command
    inner = getattr(found, "commands", {})
    if not inner:
        yield path.strip(), found
    for name, one in inner.items():
        yield from commands(f"{path} {name}", one)


def options() -> Iterator[tuple[str, Any]]:
    """Yield each option of each command with the command's path."""
    for path, command in commands():
        yield from ((path, one) for one in command.params if one.opts[0].startswith("-"))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_a_short_option_stands_for_one_long_option() -> None:
    """No letter has two meanings, and no long option has two letters."""
    meanings: dict[str, set[str]] = defaultdict(set)
    letters: dict[str, set[str]] = defaultdict(set)
    for _, one in options():
        long = next(name for name in one.opts if name.startswith("--"))
        for name in one.opts:
            if not name.startswith("--"):
                meanings[name].add(long)
                letters[long].add(name)
    assert meanings["-b"] == {"--bootstrap-server"}
    assert {name: longs for name, longs in meanings.items() if len(longs) > 1} == {}
    assert {long: names for long, names in letters.items() if len(names) > 1} == {}


def test_a_long_option_has_one_meaning_and_one_letter_wherever_it_is() -> None:
    """The first sentence of an option's help and its letters are the same in all commands."""
    meanings: dict[str, set[tuple[str, tuple[str, ...]]]] = defaultdict(set)
    for path, one in options():
        long = next(name for name in one.opts if name.startswith("--"))
        assert one.help, f"{path} {long} has no help"
        first = one.help.split(". ")[0].split("; ")[0].rstrip(".")
        meanings[long].add((first, tuple(sorted(one.opts))))
    assert {long: found for long, found in meanings.items() if len(found) > 1} == {}


def test_every_command_on_a_cluster_names_it_alike() -> None:
    """`-b`, `--command-config` and `-X` name a cluster wherever one is read."""
    wanted = {"--bootstrap-server", "-b", "--command-config", "--property", "-X"}
    found = {path for path, command in commands()
             if wanted <= {name for one in command.params for name in one.opts}}  # fmt: skip
    assert found == set(ON_A_CLUSTER)


def test_json_is_asked_for_alike() -> None:
    """Each command that prints a result has `--json`; three have a reason not to."""
    without = {path for path, command in commands()
               if not any("--json" in one.opts for one in command.params)}  # fmt: skip
    # The demo opens a page, and decode prints nothing but JSON lines.
    assert without == {"demo", "decode"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay", "--out", "x"], "give CAPTURE or --bootstrap-server"),
        (["replay", "here", "-b", "b:9092", "--out", "x"], "not both"),
        (["audit", "-b", "b:9092"], "--bootstrap-server needs topics"),
        (["keys", "-b", "b:9092"], "go together"),
        (["keys", "in.csv", "--topic", "t"], "go together"),
        (["groups"], "give the cluster"),
        (["place"], "give BROKERS or --bootstrap-server"),
        (["reassign", "rebalance"], "give CLUSTER or --bootstrap-server"),
        (["reassign", "rebalance", "here", "-b", "b:9092"], "not both"),
    ],
)
def test_a_cluster_is_named_once(arguments: list[str], message: str) -> None:
    """An argument and `--bootstrap-server` together, or neither, are wrong usage."""
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())


def test_an_address_is_made_of_the_options() -> None:
    """`-b` and `--topic` name the same input as kafka://."""
    cluster = ClusterOptions(bootstrap_server="b1:9092,b2:9092")
    assert cluster.input_or_cluster(None, "INPUT") == "kafka://b1:9092,b2:9092"
    assert cluster.input_or_cluster(None, "INPUT", ["t", "u"]) == "kafka://b1:9092,b2:9092/t,u"
    assert ClusterOptions().input_or_cluster("folder", "INPUT") == "folder"


def test_an_option_without_a_value_keeps_its_name() -> None:
    """The annotation of a parameter with default None still has its option, on Python 3.10 too."""

    @with_options
    def command(*, to: Annotated[str | None, typer.Option("--out")] = None) -> None: ...

    (parameter,) = inspect.signature(command).parameters.values()
    assert isinstance(parameter.annotation.__metadata__[0], typer.models.OptionInfo)


def test_help_loads_few_modules() -> None:
    """The list of commands needs typer and rich; neither NumPy nor any package that decides."""
    script = (
        "import json, sys; sys.argv = ['partage', '--help']\n"
        "from partage.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, text=True
    )
    assert "reassign" in done.stdout
    loaded = json.loads(done.stderr)
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()
    ours = {name for name in loaded if name.split(".")[0] == "partage"}
    assert {name for name in ours if not name.startswith("partage.cli")} <= OURS
