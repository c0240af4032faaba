"""The timeline of ownership: exact for a small group, in bins for a large one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from partage.report.group_details import member_labels
from partage.report.timeline import (
    MAX_BINNED_ROWS,
    OwnedIntervals,
    UnreadTimes,
    count_partition_changes,
    draw_timeline,
)


def owned(*intervals, partitions: int) -> OwnedIntervals:
    row, owner, start, end = (np.array(c, np.int64) for c in zip(*intervals, strict=True))
    names = [f"m{i}" for i in range(int(owner.max()) + 1)]
    return OwnedIntervals(row, owner, start, end, [("t", p) for p in range(partitions)], names)


def boxes(found) -> list[list[int]]:
    columns = [found["boxes"][name] for name in ("row", "start", "end", "owner", "share")]
    return [list(box) for box in zip(*columns, strict=True)]


def rows(found) -> list[list]:
    names = ("first_topic", "first_partition", "last_topic", "last_partition")
    return [list(row) for row in zip(*(found["rows"].get(name, []) for name in names), strict=True)]


def test_a_small_group_is_drawn_exactly() -> None:
    """Every interval is a box of its own, cut at the ends of the drawing."""
    found = draw_timeline(owned((0, 0, 50, 500), (1, 1, 200, 9_999), partitions=2), 100, 1_100, 100)
    assert found["exact"]
    assert boxes(found) == [[0, 0, 400, 0, 100], [1, 100, 1_000, 1, 100]]
    assert rows(found) == [["t", 0, "t", 0], ["t", 1, "t", 1]]


@pytest.mark.parametrize("partitions", [3, 49, 1_000, 10_000])
def test_any_size_keeps_its_budget_and_its_partitions(partitions) -> None:
    """Three to ten thousand partitions: as many boxes as allowed, each partition in one row."""
    chance = np.random.default_rng(5)
    intervals = [
        (p, int(o), 1_000 * k, 1_000 * (k + 1))
        for p in range(partitions)
        for k, o in enumerate(chance.integers(0, 9, 12))
    ]
    found = draw_timeline(owned(*intervals, partitions=partitions), 0, 12_000, 2_000)
    assert len(boxes(found)) <= 2_000
    assert len(rows(found)) == (partitions if partitions <= 200 else MAX_BINNED_ROWS)
    assert rows(found)[0][1] == 0
    assert rows(found)[-1][3] == partitions - 1
    assert all(a[3] + 1 == b[1] for a, b in pairwise(rows(found)))
    for row, start, end, owner, share in boxes(found):
        assert 0 <= row < len(rows(found))
        assert 0 <= start < end <= 12_000
        assert 0 <= owner < 9
        assert 1 <= share <= 100


def test_a_bin_shows_its_main_owner() -> None:
    """A member that owns three of four partitions of a row has a box with 75 %; the other has none."""
    intervals = [(p, 1 if p % 4 == 0 else 0, 0, 1_000) for p in range(4 * MAX_BINNED_ROWS)]
    found = draw_timeline(owned(*intervals, partitions=4 * MAX_BINNED_ROWS), 0, 1_000, 500)
    assert not found["exact"]
    assert {(b[3], b[4]) for b in boxes(found)} == {(0, 75)}
    assert len(boxes(found)) == MAX_BINNED_ROWS


def test_two_owners_at_once_are_shown_as_shares() -> None:
    """In a share group, a partition with two owners shows 50 % for each."""
    found = draw_timeline(owned((0, 0, 0, 100), (0, 1, 0, 100), partitions=1), 0, 100, 100)
    assert not found["exact"]
    assert all(b[4] == 50 for b in boxes(found))


def test_time_without_an_owner_stays_empty() -> None:
    """A gap between two owners is a gap in the drawing, binned or not."""
    size = MAX_BINNED_ROWS * 2
    intervals = [(p, 0, 0, 400) for p in range(size)] + [(p, 0, 600, 1_000) for p in range(size)]
    found = draw_timeline(owned(*intervals, partitions=size), 0, 1_000, 700)
    assert not [b for b in boxes(found) if b[1] < 500 < b[2]]


def test_nothing_owned_is_no_drawing() -> None:
    """A group without ownership has neither rows nor boxes."""
    empty = np.zeros(0, np.int64)
    found = draw_timeline(OwnedIntervals(empty, empty, empty, empty, [], []), 0, 10, 100)
    assert (rows(found), boxes(found)) == ([], [])


def test_members_are_named_by_client_and_host() -> None:
    """A member has its client id and host; a static member its instance id in front of them."""
    members = pa.table({
        "group": ["g", "g", "g"], "member": ["c-1-uuid", "c-1-uuid", "c-2-uuid"],
        "instance": [None, None, "i-2"], "client_id": ["c-1", "c-1", "c-2"],
        "client_host": ["/10.0.0.1", "/10.0.0.1", "/10.0.0.2"],
    })  # fmt: skip
    assert member_labels(members) == {
        ("g", "c-1-uuid"): "c-1 /10.0.0.1", ("g", "i-2"): "i-2 (c-2 /10.0.0.2)",
    }  # fmt: skip


def unread_times(*times) -> UnreadTimes:
    """Times without a reader: partition, until, the length with its 10th and 90th percentile, and
    perhaps a time apart.
    """
    whole = [one if len(one) == 7 else (*one, one[1], one[1]) for one in times]
    return UnreadTimes(*(np.array(c, np.int64) for c in zip(*whole, strict=True)))


def unread_of(found) -> list[tuple]:
    names = ("row", "start", "end", "certain", "share")
    return [*zip(*(found["unread"][name] for name in names), strict=True)]


def test_unread_time_is_certain_before_it_is_possible() -> None:
    """The last 20 ms before the assignment are certain, the 30 ms before them are possible."""
    intervals = owned((0, 0, 0, 100), (1, 0, 0, 100), partitions=2)
    found = draw_timeline(intervals, 0, 100, 100, unread_times((1, 90, 35, 20, 50)))
    assert unread_of(found) == [(1, 70, 90, True, 100), (1, 40, 70, False, 100)]
    assert found["unread_exact"]


def test_time_without_a_subscriber_is_left_out_of_unread_time() -> None:
    """Unread from 10 to 30 and from 80 to 90 ms: 20 ms are certain, up to 40 ms are possible."""
    intervals = owned((0, 0, 0, 100), (1, 0, 0, 100), partitions=2)
    times = unread_times((1, 90, 30, 20, 40, 30, 80))
    found = draw_timeline(intervals, 0, 100, 100, times)
    assert sorted(unread_of(found)) == [
        (1, 0, 20, False, 100), (1, 20, 30, True, 100), (1, 80, 90, True, 100),
    ]  # fmt: skip
    share = found["unread_share"]
    drawn = dict(zip(share["at"], share["percent"], strict=True))
    assert drawn[0] == 0
    assert 100 * sum(
        percent / 100 * (end - start)
        for (start, percent), end in zip(drawn.items(), [*share["at"][1:], 100], strict=True)
    ) == pytest.approx(50 * 30, rel=0.1)


def test_the_share_without_a_reader_has_the_estimate_as_its_area() -> None:
    """Half of four partitions for 35 of 240 ms; the line has a value where it changes only."""
    times = [(p, 100, 35, 20, 50) for p in (0, 1)]
    intervals = owned(*((p, 0, 0, 240) for p in range(4)), partitions=4)
    found = draw_timeline(intervals, 0, 240, 100, unread_times(*times))
    assert found["unread_share"] == {"at": [0, 65, 100], "percent": [0, 50, 0]}


def test_many_unread_times_are_drawn_in_bins() -> None:
    """Rows of several partitions show the share of them that had no reader."""
    size = 2 * MAX_BINNED_ROWS
    times = [(p, 500, 250, 250, 250) for p in range(0, size, 2)]
    intervals = owned(*((p, 0, 0, 1_000) for p in range(size)), partitions=size)
    found = draw_timeline(intervals, 0, 1_000, 700, unread_times(*times))
    assert not found["unread_exact"]
    assert {
        (start, end, share) for _, start, end, certain, share in unread_of(found) if certain
    } == {(250, 500, 50)}


@pytest.mark.parametrize("partitions", [499, 500])
def test_five_hundred_partitions_have_a_row_each(partitions) -> None:
    """A row per partition, and boxes within the budget."""
    intervals = [(p, k % 3, 100 * k, 100 * k + 100) for p in range(partitions) for k in range(5)]
    found = draw_timeline(owned(*intervals, partitions=partitions), 0, 500, 6_000)
    assert found["exact"]
    assert len(rows(found)) == partitions


def test_without_estimates_there_is_no_line() -> None:
    """A run that an older Partage wrote has no table of unread times."""
    found = draw_timeline(owned((0, 0, 0, 100), partitions=1), 0, 100, 100)
    assert (found["unread"], found["unread_share"]) == ({}, {})


def test_a_rebalance_has_what_members_owned_before_and_after() -> None:
    """A member of a consumer group takes over later than the record of its rebalance."""
    history = owned((0, 0, 0, 100), (1, 0, 0, 900), (0, 1, 140, 900), (2, 2, 0, 900), partitions=3)
    found = [
        *count_partition_changes([{"time_ms": 100}, {"time_ms": 500}], [100, 500], history, 900)
    ]
    assert found == [
        {"step": 0, "owner": 0, "before": 2, "after": 1, "lost": 1, "gained": 0},
        {"step": 0, "owner": 1, "before": 0, "after": 1, "lost": 0, "gained": 1},
    ]  # fmt: skip


def test_a_partition_that_stays_is_neither_lost_nor_gained() -> None:
    """Two successive intervals of one owner are one: an eager rebalance assigns it again."""
    history = owned((0, 0, 0, 100), (0, 0, 100, 900), partitions=1)
    assert [*count_partition_changes([{"time_ms": 100}], [100], history, 900)] == []
