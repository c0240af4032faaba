from __future__ import annotations

import pytest
from tests.support.captured import generations, group_records, history, lines, parsed

from partage.history.classic_groups import ClassicGroup, ClassicRecord
from partage.history.events import Generation, LifecycleEvent
from partage.history.records import ClassicState, LogPosition, assigned_partitions


def state(generation: int, strategy: str | None = "range") -> ClassicState:
    return ClassicState("consumer", generation, strategy, None, None, ())


def record(offset: int, what: ClassicState | None = None, **more) -> ClassicRecord:
    return ClassicRecord(LogPosition(0, offset), offset, what, **more)


def fed(*records: ClassicRecord) -> list[Generation | LifecycleEvent]:
    group = ClassicGroup()
    return [f for r in records for f in group.process_record(r)] + list(group.finish_generations())


def test_every_classic_group_has_the_generations_that_the_recording_counted() -> None:
    """Distinct generations a group equal the recording's own count, for all 25 groups."""
    wanted = {
        name.removeprefix("classic "): n
        for name, n in parsed("summary.json")["rebalances"].items()
        if name.startswith("classic ")
    }
    found = {g: len({x.generation_number for x in generations(g)}) for g in group_records()}
    assert {g: n for g, n in found.items() if n} == wanted
    assert sum(wanted.values()) == 476


def test_the_last_generation_is_what_the_admin_api_described() -> None:
    """Final members and assignments equal the description of every classic group."""
    checked = 0
    for described in lines("describe.jsonl"):
        if described.get("type") != "Classic" or "error" in described:
            continue
        if described["group"] not in group_records():  # it has offsets only
            assert not described["members"]
            continue
        last = generations(described["group"])[-1].last
        wanted = {
            m["member"]: {(t, p) for t, ps in m["assignment"].items() for p in ps}
            for m in described["members"]
        }
        assert {m.id: set(assigned_partitions(m)) for m in last.members} == wanted
        checked += bool(wanted)
    assert checked == 20


def test_a_group_that_was_deleted_begins_again() -> None:
    """A group deleted and made anew has two lives, each with its own generations from 1."""
    rebuilt, found = history("one-off #1")
    assert [(g.incarnation, g.generation_number) for g in generations("one-off #1")] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 4),
        (1, 1),
        (1, 2),
        (1, 3),
    ]
    assert [f.what for f in found if isinstance(f, LifecycleEvent)] == ["created", "deleted"] * 2
    assert rebuilt.missing_before == rebuilt.missing_within == 0


def test_a_migrated_group_goes_on_where_its_epochs_ended() -> None:
    """Epochs of the consumer protocol between two classic stretches are no missing generations."""
    rebuilt, found = history("checkout-workers")
    numbers = [g.generation_number for g in generations("checkout-workers")]
    assert numbers == [*range(1, 16), *range(31, 35)]
    assert [f.what for f in found if isinstance(f, LifecycleEvent)] == ["created", "migrated"]
    assert {g.incarnation for g in generations("checkout-workers")} == {0}
    assert (rebuilt.missing_before, rebuilt.missing_within) == (0, 0)


def test_an_assignment_written_again_is_no_rebalance() -> None:
    """A static member that restarts has its generation written again; that is one generation."""
    ninth = next(g for g in generations("c-index") if g.generation_number == 9)
    assert ninth.records == 5
    assert {m.owner_identity for m in ninth.first.members} == {
        m.owner_identity for m in ninth.last.members
    }
    assert {m.id for m in ninth.first.members} != {m.id for m in ninth.last.members}


def test_generations_without_a_record_are_counted() -> None:
    """A skipped number is missing within; what was before the first record is missing before."""
    found = fed(record(5, state(7)), record(6, state(8)), record(9, state(11)))
    assert [g.gap_before for g in found if isinstance(g, Generation)] == [6, 0, 2]
    group = ClassicGroup()
    for r in (record(5, state(7)), record(6, state(8)), record(9, state(11))):
        list(group.process_record(r))
    assert (group.missing_before, group.missing_within) == (6, 2)


def test_a_generation_knows_the_one_before_it() -> None:
    """Each generation has its predecessor, and no longer chain behind it."""
    first, second, third = (
        f for f in fed(record(1, state(1)), record(2, state(2)), record(3, state(3)))
    )
    assert isinstance(third, Generation)
    assert first.previous is None
    assert third.previous is not None
    assert third.previous.generation_number == second.generation_number
    assert third.previous.previous is None


def test_a_record_twice_in_the_capture_is_one() -> None:
    """The same place again is skipped; an earlier place is a mistake of the caller."""
    group = ClassicGroup()
    list(group.process_record(record(5, state(1))))
    assert list(group.process_record(record(5, state(1)))) == []
    with pytest.raises(ValueError, match="was fed after"):
        list(group.process_record(record(4, state(1))))


def test_a_tombstone_is_judged_by_what_follows() -> None:
    """Followed by the new protocol it is a migration; by nothing or a new life, a deletion."""
    deleted = fed(record(1, state(3)), record(2))
    moved = fed(record(1, state(3)), record(2), record(3, epoch=4, other=True), record(9, state(6)))
    assert [f.what for f in deleted if isinstance(f, LifecycleEvent)] == ["deleted"]
    assert [f.what for f in moved if isinstance(f, LifecycleEvent)] == ["migrated"]
    last = moved[-1]
    assert isinstance(last, Generation)
    assert (last.incarnation, last.gap_before) == (0, 1)
