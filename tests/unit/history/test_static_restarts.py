"""Ownership of static members that restart: the member id of the moment is the owner."""

from __future__ import annotations

from dataclasses import replace

from tests.support.captured import group_records, history
from tests.support.simulated_histories import generation, member

from partage.history.events import OWNER, CurrentAssignment, Generation
from partage.history.ownership import Interval, OwnershipIntervals
from partage.history.records import LogPosition


def _intervals(*found) -> list[Interval]:
    owned = OwnershipIntervals(lambda *_: None)
    rows = [i for one in found for i in owned.process_item(one)] + list(owned.finish_intervals())
    return sorted(rows, key=lambda i: (i.partition, i.from_ms))


def _rewritten(number: int, time_ms: int, *ids: tuple[int, str]) -> Generation:
    """Return a generation of one static member that is written again under other ids."""
    made = generation(number, time_ms, [member("a-1", [0, 1], instance="a")])
    states = tuple(
        (
            LogPosition(0, number + i),
            at,
            replace(made.first, members=(member(new, [0, 1], instance="a"),)),
        )
        for i, (at, new) in enumerate(ids, 1)
    )
    return replace(made, last=states[-1][2], rewrites=states)


def test_the_interval_of_a_static_member_ends_at_its_restart() -> None:
    """The id before the restart owns until then, the new id from then on."""
    found = _intervals(_rewritten(1, 1_000, (3_000, "a-2"), (7_000, "a-3")))
    rows = [(i.partition, i.member, i.from_ms, i.to_ms) for i in found]
    assert rows == [
        (p, *one)
        for p in (0, 1)
        for one in (("a-1", 1_000, 3_000), ("a-2", 3_000, 7_000), ("a-3", 7_000, None))
    ]
    assert {(i.instance, i.from_generation) for i in found} == {("a", 1)}


def test_a_new_id_in_the_next_generation_begins_an_interval() -> None:
    """A static member may come back in a rebalance of others: its new id owns from there."""
    first = generation(1, 1_000, [member("a-1", [0], instance="a")])
    then = generation(2, 5_000, [member("a-2", [0], instance="a")], before=first)
    same = generation(3, 6_000, [member("a-2", [0], instance="a")], before=then)
    rows = [(i.member, i.from_ms, i.to_ms) for i in _intervals(first, then, same)]
    assert rows == [("a-1", 1_000, 5_000), ("a-2", 5_000, None)]


def test_two_restarts_at_one_time_leave_no_empty_interval() -> None:
    """The id that lasted for no time owns nothing."""
    found = _intervals(_rewritten(1, 1_000, (3_000, "a-2"), (3_000, "a-3")))
    rows = [(i.member, i.from_ms, i.to_ms) for i in found if i.partition == 0]
    assert rows == [("a-1", 1_000, 3_000), ("a-3", 3_000, None)]


def test_a_static_member_of_a_consumer_group_owns_under_its_new_id() -> None:
    """KIP-848: the assignment moves to the new id in one batch of records."""

    def held(offset: int, who: str, *numbers: int) -> CurrentAssignment:
        parts = tuple((OWNER, None, "t", p) for p in numbers)
        at = 1_000 if offset == 1 else 4_000
        return CurrentAssignment(0, LogPosition(0, offset), at, 2, who, "a", 2, parts)

    found = _intervals(held(1, "old", 0), held(2, "old"), held(3, "new", 0))
    rows = [(i.member, i.from_ms, i.to_ms) for i in found]
    assert rows == [("old", 1_000, 4_000), ("new", 4_000, None)]


def test_recorded_restarts_change_the_owner() -> None:
    """Right after each recorded restart the new id owns, and the id before it does not."""
    restarted = 0
    for group in group_records():
        found = [f for f in history(group)[1] if isinstance(f, Generation)]
        rows = _intervals(*history(group)[1])
        for one in found:
            before = {m.owner_identity: m.id for m in one.first.members}
            for _, at_ms, state in one.rewrites:
                for m in (
                    m for m in state.members if m.assigned and before[m.owner_identity] != m.id
                ):
                    owners = {
                        i.member for i in rows
                        if i.instance == m.instance and i.from_ms <= at_ms
                        and (i.to_ms is None or i.to_ms > at_ms)
                    }  # fmt: skip
                    assert owners == {m.id}, group
                    restarted += 1
                before = {m.owner_identity: m.id for m in state.members}
    assert restarted
