"""The sentences of a report: each says what its figures say."""

from __future__ import annotations

import pytest
from tests.support.made_groups import figures, lost, made_group, made_run

from partage.report import messages
from partage.report.advice import total_savings
from partage.report.json_document import json_document
from partage.report.limit_notes import limit_notes
from partage.report.messages import simulated_note
from partage.report.run import CauseShare, FigureRange, PolicyFigures
from partage.tables.statuses import RECORDED


def lead_of(run) -> str:
    return messages.opening_sentences(run, *total_savings(run))


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        (lost(600, 1_300), "Rebalances caused 10 to 21.7\xa0partition-minutes of downtime in 8\xa0min 21\xa0s."),
        (lost(0, 0), "Rebalances caused no downtime in"),
        (figures(RECORDED, moved=9), "4 rebalances of 1 group in 8\xa0min 21\xa0s moved 9 partitions."),
        (figures(RECORDED), "moved no partition."),
        (figures(RECORDED, done=0), "none could be replayed."),
    ],
)  # fmt: skip
def test_the_headline_says_what_the_figures_say(recorded, said) -> None:
    """The headline has downtime if known, otherwise moves, otherwise that nothing was replayed."""
    assert said in messages.run_headline(made_run(made_group("g", recorded)))


def test_the_headline_without_rebalances() -> None:
    """The headline of a log without groups says that no group rebalanced."""
    assert messages.run_headline(made_run()) == "No group rebalanced in this log."


def test_the_lead_names_where_and_why() -> None:
    """The lead names a single worst group; otherwise it counts those with half of the downtime."""
    causes = (
        CauseShare("bounce", 3, timed=3, low=8.0, high=75.0),
        CauseShare("first", 1, timed=1, low=2.0, high=25.0),
    )
    groups = [made_group("big", lost(10, 90)), made_group("small", lost(1, 10))]
    text = lead_of(made_run(*groups, causes=causes))
    assert text.startswith(
        "8 rebalances in 2 groups. 90\xa0% to 90.9\xa0% of the downtime is in group big."
    )
    assert (
        "Main cause: a member left and rejoined within its session timeout "
        "(75\xa0% to 80\xa0% of the downtime)." in text
    )
    alike = [made_group(f"g{i}", lost(1, 10)) for i in range(4)]
    assert "50\xa0% of the downtime is in 2 groups." in lead_of(made_run(*alike))


def test_both_ends_are_named_where_they_differ() -> None:
    """If bounds disagree on the main cause, the lead names both causes."""
    causes = (
        CauseShare("leave", 3, timed=3, low=1.0, high=60.0),
        CauseShare("expiry", 1, timed=1, low=9.0, high=40.0),
    )
    text = lead_of(made_run(made_group("g", lost(10, 100)), causes=causes))
    assert "by the upper bounds: a member left (10\xa0% to 60\xa0%" in text
    assert (
        "by the lower bounds: a member was evicted by session timeout (40\xa0% to 90\xa0%)" in text
    )


def test_what_is_savable_stands_in_the_lead() -> None:
    """The lead has the possible saving as a range, with the number of groups."""
    own = figures("own", stopped_known=4, saved_known=4)
    better = figures("consumer/uniform", stopped_known=4, saved_known=4, saved_low=20.0, saved_high=60.0,
                     saved_against_own_known=4, saved_against_own_low=20.0, saved_against_own_high=60.0)  # fmt: skip
    group = made_group("g", lost(30, 90), own, better)
    said = "in 1 group would have saved 40\xa0partition-seconds (20 to 60)."
    assert said in lead_of(made_run(group))


def test_notes_say_what_limits_the_figures() -> None:
    """Missing generations, batches, metadata and downtime have a note each."""
    group = made_group("g", figures(RECORDED))
    found = " ".join(
        limit_notes(made_run(group, missing_within=3, transactions="unknown: no batches.parquet",
                       cluster_states=0))
    )  # fmt: skip
    for part in ("3 rebalances happened that the log no longer has", "batches.parquet",
                 "partition counts are inferred", "Downtime is unknown"):  # fmt: skip
        assert part in found
    exact = PolicyFigures.from_sums(
        RECORDED, rows=4, done=4, stopped_known=4, stopped_low=1, stopped_high=2
    )
    assert limit_notes(made_run(made_group("g", exact))) == []
    half = PolicyFigures.from_sums(
        RECORDED, rows=4, done=4, stopped_known=3, stopped_low=1, stopped_high=2
    )
    assert limit_notes(made_run(made_group("g", half)))[0].startswith(
        "The downtime of 1 rebalance is unknown"
    )


@pytest.mark.parametrize(
    ("stopped", "long", "short"),
    [
        (None, "unknown", "unknown"),
        (FigureRange(0, 0), "none", "0"),
        (FigureRange(1, 1), "1\xa0partition-second", "1\xa0p·s"),
        (FigureRange(5, 5), "5\xa0partition-seconds", "5\xa0p·s"),
        (FigureRange(0, 119), "0 to 119\xa0partition-seconds", "0–119\xa0p·s"),
        (FigureRange(60, 7_199), "1 to 120\xa0partition-minutes", "1–120\xa0p·min"),
        (FigureRange(3_600, 360_000), "1 to 100\xa0partition-hours", "1–100\xa0p·h"),
        (FigureRange(-30, 60), "−30 to 60\xa0partition-seconds", "−30 to 60\xa0p·s"),
    ],
)
def test_a_range_has_the_unit_of_its_upper_end(stopped, long, short) -> None:
    """A range has seconds, minutes or hours, one number for equal bounds, no dash after a minus."""
    assert messages.format_range(stopped) == long
    assert messages.format_range(stopped, short=True) == short


def test_a_selected_part_of_a_capture_has_a_note() -> None:
    """A note names the selected groups and time, and says if the selection is empty."""
    asked = {"groups": ["orders-*"], "from_ms": 1_795_208_700_000}
    some, none = made_run(made_group("orders-1", lost(1, 2))), made_run()
    for run in (some, none):
        run.summary["selection"] = asked
    part = "selected part of the capture: groups orders-*, from 2026-11-20 21:05:00 UTC."
    assert limit_notes(some)[0].endswith(part)
    assert limit_notes(none)[0].endswith(f"{part} The capture has nothing in this part.")


def test_poor_coverage_stands_at_the_head() -> None:
    """With low coverage, headline and lead say that the cost is unknown, and how to record more."""
    quiet = made_group("g", lost(0, 0), coverage=0.05)
    run = made_run(quiet, rebalances=4, missing_before=60, missing_within=16)
    assert messages.run_headline(run) == (
        "The cost of rebalances is unknown: the log contains only 5.0\xa0% of 80 known rebalances."
    )
    for part in ("capture --follow", "min.compaction.lag.ms"):
        assert part in lead_of(run)
    assert (run.downtime_bounds, quiet.downtime_bounds) == (None, None)
    found = json_document(run)
    assert found["lost_partition_seconds"] is None
    assert found["groups"][0]["lost_partition_seconds"] is None
    assert found["coverage"]["share"] == 0.05
    assert "capture --follow" in found["coverage"]["what_to_do"]
    assert found["rebalances"] == {"known": 80, "in_log": 4, "simulated": 4}


def test_the_counts_of_rebalances_are_explained() -> None:
    """A note explains recorded, simulated and a policy's own rebalances."""
    run = made_run(made_group("g", lost(1, 2)), rebalances=6)
    text = simulated_note(run)
    assert text.startswith("4 of 6 recorded rebalances are simulated. The others have no members")
    assert "second steps" in text
    assert simulated_note(made_run()) == ""
