"""The drawing of who owned what: exact where it is small, binned where it is large."""

from __future__ import annotations

import numpy as np
import pytest

from partage.report.timeline import MOST_ROWS, Owned, drawn


def owned(*intervals, partitions: int) -> Owned:
    row, owner, start, end = (np.array(c, np.int64) for c in zip(*intervals, strict=True))
    names = [f"m{i}" for i in range(int(owner.max()) + 1)]
    return Owned(row, owner, start, end, [("t", p) for p in range(partitions)], names)


def boxes(found) -> list[list[int]]:
    flat = found["boxes"]
    return [flat[i : i + 5] for i in range(0, len(flat), 5)]


def test_a_small_group_is_drawn_exactly() -> None:
    """Every interval is a box of its own, cut at the ends of the drawing."""
    found = drawn(owned((0, 0, 50, 500), (1, 1, 200, 9_999), partitions=2), 100, 1_100, 100)
    assert found["exact"]
    assert boxes(found) == [[0, 0, 400, 0, 100], [1, 100, 1_000, 1, 100]]
    assert found["rows"] == [["t", 0, "t", 0], ["t", 1, "t", 1]]


@pytest.mark.parametrize("partitions", [3, 49, 1_000, 10_000])
def test_any_size_keeps_its_budget_and_its_partitions(partitions) -> None:
    """Three to ten thousand partitions: as many boxes as allowed, each partition in one row."""
    chance = np.random.default_rng(5)
    intervals = [
        (p, int(o), 1_000 * k, 1_000 * (k + 1))
        for p in range(partitions)
        for k, o in enumerate(chance.integers(0, 9, 12))
    ]
    found = drawn(owned(*intervals, partitions=partitions), 0, 12_000, 2_000)
    assert len(boxes(found)) <= 2_000
    assert len(found["rows"]) == min(partitions, MOST_ROWS)
    assert found["rows"][0][1] == 0
    assert found["rows"][-1][3] == partitions - 1
    assert all(a[3] + 1 == b[1] for a, b in zip(found["rows"], found["rows"][1:], strict=False))
    for row, start, end, owner, share in boxes(found):
        assert 0 <= row < len(found["rows"])
        assert 0 <= start < end <= 12_000
        assert 0 <= owner < 9
        assert 1 <= share <= 100


def test_a_bin_shows_who_owned_most_of_it() -> None:
    """Three of four partitions of a row: three quarters, and the fourth is not shown."""
    intervals = [(p, 1 if p % 4 == 0 else 0, 0, 1_000) for p in range(4 * MOST_ROWS)]
    found = drawn(owned(*intervals, partitions=4 * MOST_ROWS), 0, 1_000, 500)
    assert not found["exact"]
    assert {(b[3], b[4]) for b in boxes(found)} == {(0, 75)}
    assert len(boxes(found)) == MOST_ROWS


def test_two_owners_at_once_are_shown_as_shares() -> None:
    """Share groups: a partition with two members is half of each, not one over the other."""
    found = drawn(owned((0, 0, 0, 100), (0, 1, 0, 100), partitions=1), 0, 100, 100)
    assert not found["exact"]
    assert all(b[4] == 50 for b in boxes(found))


def test_time_in_which_nobody_owned_stays_empty() -> None:
    """A gap between two owners is a gap in the drawing, binned or not."""
    size = MOST_ROWS * 2
    intervals = [(p, 0, 0, 400) for p in range(size)] + [(p, 0, 600, 1_000) for p in range(size)]
    found = drawn(owned(*intervals, partitions=size), 0, 1_000, 5_000)
    assert not [b for b in boxes(found) if b[1] < 500 < b[2]]


def test_nothing_owned_is_no_drawing() -> None:
    """A group without ownership has neither rows nor boxes."""
    empty = np.zeros(0, np.int64)
    found = drawn(Owned(empty, empty, empty, empty, [], []), 0, 10, 100)
    assert (found["rows"], found["boxes"]) == ([], [])
