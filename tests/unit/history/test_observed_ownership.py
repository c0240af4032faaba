"""Ownership as rebuilt, against what the members themselves saw: `observed.jsonl`."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise

from tests.support.captured import group_records, lines
from tests.support.rebuilt import rebalances, rebuilt

from partage.history.events import CurrentAssignment, Generation, LifecycleEvent
from partage.history.ownership import Interval, OwnershipIntervals

#: Between the coordinator's record and the member's callback: a heartbeat, and a busy machine.
_APART_MS = 2_500


@cache
def intervals(group: str) -> tuple[Interval, ...]:
    history, found = rebuilt(group)
    owned = OwnershipIntervals(history.topics.id_of)
    rows = [
        i
        for f in found
        if isinstance(f, Generation | LifecycleEvent | CurrentAssignment)
        for i in owned.process_item(f)
    ]
    return (*rows, *owned.finish_intervals())


def held_near(mine: list[Interval], time_ms: int, owned: set[tuple[str, int]]) -> bool:
    """Return whether a member had exactly these partitions around a time."""
    edges = {t for i in mine for t in (i.from_ms, i.to_ms) if t is not None}
    first = time_ms - _APART_MS
    times = [first, *(t for t in edges if first <= t <= time_ms + _APART_MS)]
    return any(
        {(i.topic, i.partition) for i in mine if i.from_ms <= t and (i.to_ms or t + 1) > t} == owned
        for t in times
    )


def test_members_saw_what_the_log_says() -> None:
    """Of 1,186 assignments that Java members reported at least 1,180 are in the intervals."""
    seen: Counter = Counter()
    for event in lines("observed.jsonl"):
        if event["ev"] != "assigned" or not {"owned", "member"} <= event.keys():
            continue
        group, member = event["group"], event["member"]
        instances = {
            m.instance for f in rebalances(group)
            for m in (*f.first.members, *f.last.members) if m.id == member
        } - {None}  # fmt: skip
        mine = [
            i for i in intervals(group)
            if i.role == "owner" and (i.member == member or i.instance in instances)
        ]  # fmt: skip
        owned = {(topic, p) for topic, numbers in event["owned"] for p in numbers}
        seen[held_near(mine, event["ts_ms"], owned)] += 1
    assert sum(seen.values()) == 1_186
    assert seen[True] >= 1_180


def test_what_lasts_is_what_was_described() -> None:
    """Intervals without an end are the described assignments of all groups, roles included."""
    checked = 0
    for described in lines("describe.jsonl"):
        group = described["group"]
        if "error" in described or group not in group_records() or described["type"] == "Streams":
            continue
        lasting = {
            (i.topic, i.partition, i.instance or i.member)
            for i in intervals(group) if i.to_ms is None and i.role == "owner"
        }  # fmt: skip
        wanted = {
            (topic, p, m.get("instance") or m["member"])
            for m in described["members"]
            for topic, numbers in m["assignment"].items()
            for p in numbers
        }
        assert lasting == wanted, group
        checked += len(wanted)
    assert checked > 800


def test_a_partition_is_released_before_it_is_owned_again() -> None:
    """In a consumer group no two members own one partition at once, and what is released is with
    its old member until then (KIP-848).
    """
    for group in ("clicks-v2", "near-readers", "stock-levels", "py-next"):
        by_partition: dict = {}
        for i in intervals(group):
            if i.role in ("owner", "releasing"):
                by_partition.setdefault((i.topic, i.partition), []).append(i)
        for rows in by_partition.values():
            rows.sort(key=lambda i: (i.from_ms, i.to_ms or 2**62))
            for a, b in pairwise(rows):
                assert a.to_ms is not None
                assert a.to_ms <= b.from_ms


def test_ownership_outlasts_a_migration() -> None:
    """Members that are there before and after keep their intervals: nothing ends in between."""
    times = [f.timestamp_ms for f in rebalances("checkout-workers") if f.taken_over]
    assert len(times) == 2
    for at in times:
        over = [
            i for i in intervals("checkout-workers")
            if i.role == "owner" and i.from_ms < at and (i.to_ms is None or i.to_ms > at)
        ]  # fmt: skip
        assert over
        assert not [i for i in intervals("checkout-workers") if i.from_ms == i.to_ms == at]
