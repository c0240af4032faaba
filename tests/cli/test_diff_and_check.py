"""`partage diff` and `partage check`: output, exit codes and files."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("pyarrow")

from tests.support.compared_runs import made_run
from tests.support.published import published, summary
from typer.testing import CliRunner

from partage.cli.app import app

FIRST = {"cause_kind": "first"}
BUSY = [FIRST, *({"unread": 40.0, "cause_kind": "expiry"} for _ in range(40))]
CALM = [FIRST, *({"unread": 4.0} for _ in range(4))]
GAP = [FIRST, {"unread": 1.0, "gap_before": 30}]


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    busy = made_run(folder / "busy", {"billing": BUSY, "audit": CALM, "dark": GAP})
    calm = made_run(folder / "calm", {"billing": CALM, "audit": CALM, "dark": GAP}, hours=2)
    dark = made_run(folder / "dark", {"dark": GAP})
    return {path.name: str(path) for path in (busy, calm, dark)}


def test_diff_prints_a_verdict_groups_causes_and_settings(runs) -> None:
    """A sentence, a row for each group, causes, and why a group is unknown."""
    done = run("diff", runs["busy"], runs["calm"])
    assert done.exit_code == 0, done.stderr
    for words in ("better, outside the noise", "billing", "within noise", "session timeout",
                  "dark: unknown; before and after: the log has 6% of its generations",
                  "3 groups in both runs: 1 better, 0 worse, 1 within noise, 1 unknown"):  # fmt: skip
        assert words in done.stdout, words


def test_diff_fails_if_asked_to(runs) -> None:
    """3 if a group got worse, 0 if it got better, 5 if no group is known; JSON all the same."""
    worse = run("diff", runs["calm"], runs["busy"], "--fail-if-worse", "--json")
    assert (worse.exit_code, json.loads(worse.stdout)["verdict"]) == (3, "worse")
    assert run("diff", runs["calm"], runs["busy"]).exit_code == 0
    assert run("diff", runs["busy"], runs["calm"], "--fail-if-worse").exit_code == 0
    of_one = run("diff", runs["calm"], runs["busy"], "--fail-if-worse", "--group", "audit")
    assert of_one.exit_code == 0
    dark = run("diff", runs["busy"], runs["dark"], "--fail-if-worse")
    assert dark.exit_code == 5
    assert "only before: audit, billing" in dark.stdout


def test_an_earlier_run_is_named_by_its_folder(runs, tmp_path) -> None:
    """`OUT/runs/ID` is a run of OUT; an unknown one is an error of one line."""
    one = json.loads(run("diff", f"{runs['busy']}/runs/busy", runs["calm"], "--json").stdout)
    assert one["before"]["run_id"] == "busy"
    missing = run("diff", f"{runs['busy']}/runs/none", runs["calm"])
    assert (missing.exit_code, len(missing.stderr.strip().splitlines())) == (1, 1)
    assert run("diff", str(tmp_path), runs["calm"]).exit_code == 1
    misspelt = run("diff", runs["busy"], runs["calm"], "--group", "biling")
    assert "did you mean billing?" in misspelt.stderr


def test_check_ends_with_3_if_a_limit_is_exceeded(runs, tmp_path) -> None:
    """Failures are printed in words, JUnit XML is written, and the counts stand at the end."""
    file = tmp_path / "junit.xml"
    limits = ("--max-unread", "1%", "--max-rebalances", "10/h", "--no-storms")
    done = run("check", runs["busy"], *limits, "--junit", str(file))
    assert done.exit_code == 3
    assert "failed  billing  max-rebalances: 40 rebalances in 1 h are 40/h" in done.stdout
    assert "9 checks of 3 groups: 4 passed, 2 failed, 3 unknown" in done.stdout
    assert ET.parse(file).getroot().get("failures") == "2"  # noqa: S314 - our own file


def test_check_treats_unknown_as_asked(runs) -> None:
    """Exit code 5 by default; 0 with --unknown pass, or without the group."""
    limits = ("check", runs["calm"], "--max-unread", "5%")
    assert run(*limits).exit_code == 5
    assert run(*limits, "--unknown", "pass").exit_code == 0
    assert run(*limits, "--group", "[!d]*").exit_code == 0
    assert json.loads(run(*limits, "--json").stdout)["passed"] is False
    assert json.loads(run(*limits, "--json", "--unknown", "pass").stdout)["passed"] is True


def test_a_run_without_groups_passes_no_check(tmp_path) -> None:
    """Exit code 5, and an error in JUnit XML: a gate must not pass without a comparison."""
    empty, file = str(made_run(tmp_path / "empty", {})), tmp_path / "junit.xml"
    done = run("check", empty, "--no-storms", "--junit", str(file))
    assert done.exit_code == 5
    assert "unknown groups: unknown: the run has no group" in done.stdout
    assert "1 check of 0 groups: 0 passed, 0 failed, 1 unknown" in done.stdout
    (case,) = ET.parse(file).getroot().iter("testcase")  # noqa: S314 - our own file
    assert (case.get("name"), case[0].tag) == ("run", "error")
    assert run("check", empty, "--no-storms", "--unknown", "pass").exit_code == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("first_ms", "x"), ("last_ms", []), ("rebalances", None), ("missing_within", "x")],
)
def test_a_damaged_summary_is_an_error_that_names_the_field(tmp_path, name, value) -> None:
    """One line with the folder and the field, and no mistake of Partage."""
    cover = summary()["coverage"] | {name: value}
    folder = str(published(tmp_path / "run", coverage=cover))
    for done in (run("check", folder, "--no-storms"), run("diff", folder, folder)):
        assert done.exit_code == 1
        assert f"has no number {name}; run partage replay again" in done.stderr


def test_diff_prints_a_run_without_ownership(runs, tmp_path) -> None:
    """Without assigned time there is no interval of the unread share."""
    folder = made_run(tmp_path / "run", {"billing": BUSY, "audit": CALM})
    manifest = folder / "manifest.json"
    found = json.loads(manifest.read_text())
    del found["tables"]["ownership"]
    manifest.write_text(json.dumps(found))
    done = run("diff", str(folder), runs["busy"])
    assert (done.exit_code, done.stderr) == (0, "")


def test_a_run_of_one_instant_has_no_rates(tmp_path) -> None:
    """The reason is the missing time, not a missing estimate."""
    folder = made_run(tmp_path / "run", {"billing": [FIRST]}, hours=0)
    done = run("check", str(folder), "--max-rebalances", "1/h")
    assert done.exit_code == 5
    assert "unknown: its records are all of one instant" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give --max-unread, --max-rebalances or --no-storms"),
        (["--max-unread", "0.01"], "must be a share from 0% to 100%"),
        (["--max-unread", "101%"], "must be a share from 0% to 100%"),
        (["--max-rebalances", "10"], "must be a number by min, h or d"),
        (["--max-rebalances", "ten/h"], "must be a number by min, h or d"),
    ],
)
def test_a_limit_needs_its_unit(runs, arguments, said) -> None:
    """Wrong usage ends with 2 and names the option."""
    done = run("check", runs["calm"], *arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())
