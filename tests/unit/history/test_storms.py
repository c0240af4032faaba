"""Storms: what makes one, what belongs to one, and that the tracker forgets."""

from __future__ import annotations

import pytest

from partage.history.storms import LEAST_WINDOW_MS, StormTracker


def storms(times, windows, counts=None):
    """The storm of each rebalance of a history, None for those in none."""
    tracker, found = StormTracker(), []
    own = [True] * len(times) if counts is None else counts
    for i, (time, window, cause) in enumerate(zip(times, windows, own, strict=True)):
        found.extend(tracker.add_rebalance(i, time, window, counts=cause))
    return [storm for _, storm in (*found, *tracker.finish_storms())]


S = 1_000


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([], []),
        ([0, 1], [None, None]),
        ([0, 1, 2], [0, 0, 0]),
        ([0, 10, 20], [None, None, None]),
        ([0, 5, 10], [0, 0, 0]),
        # Windows that overlap are one storm, however long it lasts.
        ([0, 5, 10, 15, 20], [0] * 5),
        # Two storms, and a calm time between them.
        ([0, 1, 2, 50, 100, 101, 102], [0, 0, 0, None, 1, 1, 1]),
        # Clocks that go backwards do not end a storm.
        ([10, 9, 8], [0, 0, 0]),
    ],
)
def test_three_within_a_session_timeout_are_a_storm(times, found) -> None:
    """Three or more within ten seconds, here; what is farther apart is none."""
    assert storms([t * S for t in times], [10 * S] * len(times)) == found


def test_second_steps_belong_to_a_storm_but_make_none() -> None:
    """Cooperative follow-ups between causes get the storm's number; alone they are no storm."""
    times = [0, 1, 2, 3, 4]
    counts = [True, False, True, False, True]
    assert storms(times, [10 * S] * 5, counts) == [0] * 5
    assert storms(times[:3], [10 * S] * 3, [True, False, False]) == [None] * 3


def test_without_a_session_timeout_kafkas_default_counts() -> None:
    """An empty group has no member to ask."""
    assert storms([0, LEAST_WINDOW_MS // 2, LEAST_WINDOW_MS], [None] * 3) == [0, 0, 0]
    assert storms([0, LEAST_WINDOW_MS // 2, LEAST_WINDOW_MS + 1], [0] * 3) == [None] * 3


def test_the_tracker_keeps_one_window() -> None:
    """Memory does not grow with the history: what is decided leaves at once, in order."""
    tracker: StormTracker[int] = StormTracker()
    out = []
    for i in range(10_000):
        out += [kept for kept, _ in tracker.add_rebalance(i, i * 6 * S, 10 * S)]
        assert len(tracker._pending) <= 3
    assert out + [kept for kept, _ in tracker.finish_storms()] == list(range(10_000))
