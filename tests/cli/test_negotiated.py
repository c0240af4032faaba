"""`partage assign` for problems whose members list strategies, lists with commas, and classes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from partage.cli import assign, console
from partage.cli.app import app

CLASS = "partage.groups.roundrobin:RoundRobin"


def run(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(app, list(arguments), input=stdin)


def problem(*lists: object, **more: object) -> str:
    """A problem whose members m0, m1, ... list strategies."""
    members = [
        {"id": f"m{i}", "topics": ["t", "u"], "strategies": names} for i, names in enumerate(lists)
    ]
    return json.dumps({"topics": {"t": 3, "u": 3}, "members": members, **more})


LISTS = (["sticky", "roundrobin"], "roundrobin,range,sticky", ["roundrobin", "sticky"])


def test_assign_chooses_as_the_coordinator_does() -> None:
    """The strategy with the most votes decides; JSON has the votes and the reason."""
    found = json.loads(run("assign", "-", stdin=problem(*LISTS)).stdout)
    assert found["strategy"] == "roundrobin"
    assert found["negotiation"] == {
        "protocol": "roundrobin",
        "leader": "m0",
        "candidates": ["sticky", "roundrobin"],
        "votes": {"sticky": 1, "roundrobin": 2},
        "reason": "2 of 3 members prefer it among those that all support (others: sticky 1)",
    }
    (line,) = run("assign", "--jsonl", stdin=problem(*LISTS)).stdout.splitlines()
    assert json.loads(line)["negotiation"]["protocol"] == "roundrobin"


def test_the_reason_stands_under_the_table(monkeypatch) -> None:
    """On a terminal the choice is explained in one line."""
    for module in (assign, console):
        monkeypatch.setattr(module, "is_terminal", lambda: True)
    shown = run("assign", "-", stdin=problem(*LISTS)).stdout.replace("\n", " ")
    assert "negotiated roundrobin: 2 of 3 members prefer it" in shown


@pytest.mark.parametrize(
    ("arguments", "more"), [((), {"strategy": "range"}), (("-s", "range"), {"strategy": "fair"})]
)
def test_a_named_strategy_goes_before_the_lists(arguments, more) -> None:
    """The command's strategy first, then the problem's; nothing is negotiated then."""
    found = json.loads(run("assign", "-", *arguments, stdin=problem(*LISTS, **more)).stdout)
    assert (found["strategy"], "negotiation" in found) == ("range", False)


def test_members_without_a_common_strategy_are_an_error() -> None:
    """The member that the coordinator refuses is named, with what the others support."""
    done = run("assign", "-", stdin=problem(["range"], ["sticky"]))
    assert done.exit_code == 1
    assert (
        "m1 cannot join the group (inconsistent group protocol): it supports sticky" in done.stderr
    )
    assert "that all other members support are range" in done.stderr


def test_lists_with_commas_and_classes_on_the_command_line() -> None:
    """`-s a,b` needs both names and takes the first; `-s module:Class` loads a strategy."""
    text = problem((), ())
    assert (
        json.loads(run("assign", "-", "-s", "fair, range", stdin=text).stdout)["strategy"] == "fair"
    )
    wrong = run("assign", "-", "-s", "fair,rnage", stdin=text)
    assert (wrong.exit_code, "no strategy named 'rnage'" in wrong.stderr) == (1, True)
    by_class = json.loads(run("assign", "-", "-s", CLASS, stdin=text).stdout)
    assert by_class["strategy"] == "roundrobin"
    rows = json.loads(run("compare", "-", "-s", f"range,{CLASS}", "--json", stdin=text).stdout)
    assert [row["strategy"] for row in rows] == ["range", CLASS]
    assert "RoundRobinAssignor" in run("strategies", CLASS).stdout


def test_a_problem_may_not_name_a_class() -> None:
    """Reading a file imports nothing."""
    for text in (problem((), (), strategy=CLASS), problem([CLASS], [CLASS])):
        done = run("assign", "-", stdin=text)
        assert done.exit_code == 1
        assert f"no strategy named '{CLASS}'" in done.stderr
