"""Limits on a run's groups, and their outcomes as JUnit XML."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("pyarrow")

from tests.support.compared_runs import made_run

from partage.report.checks import (
    PASSED,
    UNKNOWN,
    VIOLATED,
    Limits,
    RunCheck,
    check_groups,
)
from partage.report.rates import read_recording
from partage.tables.escaping import escape_document_text

#: A name with everything that XML must escape, and a character that it does not have.
NASTY = "a<b>&\"'\x1b\x9b\u202e]]>\n"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """`busy`: 2 % unread, 20 rebalances, a storm; `calm`: 0.1 %, 2; the others lack generations."""
    first = {"cause_kind": "first"}
    storm = [{"unread": 7.2, "storm": 0}] * 3
    gap = {"unread": 1.0, "gap_before": 30}
    groups = {
        "busy": [first, *storm, *({"unread": 7.2} for _ in range(17))],
        "calm": [first, {"unread": 3.6}, {"unread": 3.6}],
        NASTY: [first, gap],
        "worse than known": [first, gap, *({"unread": 40.0} for _ in range(12))],
    }
    return read_recording(made_run(tmp_path_factory.mktemp("run") / "out", groups))


LIMITS = Limits(max_unread=0.01, max_rebalances=10, no_storms=True)


def test_each_limit_has_an_outcome_for_each_group(recording) -> None:
    """Limits hold, are exceeded, or the log does not show it; certain excess fails all the same."""
    found = {(one.group, one.limit): one.status for one in check_groups(recording, LIMITS)}
    limits = ("max-unread", "max-rebalances", "no-storms")
    assert [found["busy", limit] for limit in limits] == [VIOLATED] * 3
    assert [found["calm", limit] for limit in limits] == [PASSED] * 3
    assert [found[NASTY, limit] for limit in limits] == [UNKNOWN] * 3
    # 12 of 44 generations are recorded, and those alone exceed two limits.
    assert [found["worse than known", limit] for limit in limits] == [VIOLATED, VIOLATED, UNKNOWN]


def test_a_check_prints_its_counts_and_the_first_failures(recording) -> None:
    """A notebook shows some lines, and no control character of a group's name."""
    check = RunCheck(recording, tuple(check_groups(recording, LIMITS)))
    first, *lines = repr(check).splitlines()
    assert first.endswith(": failed (3 passed, 5 failed, 4 unknown)")
    assert 1 <= len(lines) <= 10
    assert any(line.startswith("failed  busy  max-unread: ") for line in lines)
    assert escape_document_text(repr(check)) == repr(check)


def test_only_given_limits_and_groups_are_checked(recording) -> None:
    """One limit and one group make one outcome."""
    (one,) = check_groups(recording, Limits(max_rebalances=20), ["busy"])
    assert (one.status, one.value, one.bound) == (PASSED, 20.0, 20)


def test_the_text_has_value_limit_and_excess(recording) -> None:
    """Plain words on what exceeded which limit by how much, and why something is unknown."""
    text = {(one.group, one.limit): one.text for one in check_groups(recording, LIMITS)}
    assert (
        "20 rebalances in 1 h are 20/h, limit 10/h: 2 times the limit"
        in text["busy", "max-rebalances"]
    )
    assert text["busy", "max-unread"].startswith("2 % of its consuming time")
    assert text["busy", "no-storms"] == "1 rebalance storm of 3 rebalances in all, limit 0"
    assert text[NASTY, "max-unread"].startswith("unknown: the log has 6% of its generations")
    near = check_groups(recording, Limits(max_unread=0.0195), ["busy"])
    assert near[0].status == VIOLATED
    assert near[0].text.endswith("the interval contains the limit")


@pytest.mark.parametrize("unknown_passes", [True, False])
def test_junit_xml_is_well_formed_for_every_name(recording, unknown_passes) -> None:
    """Names survive as text; counts fit the cases; unknown is an error or skipped."""
    outcomes = check_groups(recording, LIMITS)
    document = RunCheck(recording, tuple(outcomes), unknown_passes).to_junit()
    suite = ET.fromstring(document).find("testsuite")  # noqa: S314 - our own
    assert suite is not None
    assert suite.get("tests") == str(len(outcomes)) == "12"
    names = {case.get("name") for case in suite}
    assert "a<b>&\"'\\x1b\\x9b\\u202e]]>\n" in names
    tags = [child.tag for case in suite for child in case if child.tag != "system-out"]
    other = "skipped" if unknown_passes else "error"
    assert tags.count("failure") == int(suite.get("failures")) == 5
    assert tags.count(other) == len(tags) - 5 == 4
    assert (suite.get("errors"), suite.get("skipped")) == (
        ("0", "4") if unknown_passes else ("4", "0")
    )


def test_the_document_counts_outcomes(recording) -> None:
    """JSON has each check, and the number by status."""
    found = RunCheck(recording, tuple(check_groups(recording, LIMITS))).to_dict()
    assert found["checks_by_status"] == {"passed": 3, "failed": 5, "unknown": 4}
    assert (found["format"], found["passed"], len(found["checks"])) == ("partage-check", False, 12)
