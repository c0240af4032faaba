"""Logs as they come: compacted, cut, doubled, without metadata, with clocks that go backwards."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.support.captured import clusters, group_records
from tests.support.rebuilt import rebalances, record

from partage.history.agreement import UNEXPLAINED, check_agreement
from partage.history.clusters import ClusterHistory
from partage.history.events import CurrentAssignment, Generation, LifecycleEvent, derive_events
from partage.history.group_history import GroupHistory, HistoryItem
from partage.history.ownership import Interval, OwnershipIntervals
from partage.history.records import LogPosition

Rows = list[dict]


def live(
    rows: Rows, known: ClusterHistory | None = None
) -> tuple[GroupHistory, list[Generation], list[Interval]]:
    """A group's history from some rows, every part of it made."""
    history = GroupHistory(clusters() if known is None else known)
    found: list[HistoryItem] = [f for row in rows for f in history.process_record(record(row))]
    found += history.finish_history()
    owned = OwnershipIntervals(history.topics.id_of)
    lives = [f for f in found if isinstance(f, Generation | LifecycleEvent | CurrentAssignment)]
    intervals = [i for f in lives for i in owned.process_item(f)] + list(owned.finish_intervals())
    assert all(list(derive_events(f)) for f in lives if not isinstance(f, CurrentAssignment))
    return history, [f for f in found if isinstance(f, Generation)], intervals


def compacted(rows: Rows) -> Rows:
    """What the log cleaner leaves: the newest record of each key, in its place."""
    last = {}
    for i, row in enumerate(rows):
        last[row["type"], json.dumps(row["key"], sort_keys=True)] = i
    kept = set(last.values())
    return [row for i, row in enumerate(rows) if i in kept]


def backwards(rows: Rows) -> Rows:
    return [
        {**r, "timestamp_ms": r["timestamp_ms"] - i * 7_000 % 100_000} for i, r in enumerate(rows)
    ]


@pytest.mark.parametrize(
    "spoil", [compacted, backwards, lambda rows: rows[len(rows) // 2 :], lambda rows: rows[::3]]
)
def test_no_log_is_too_poor(spoil: Callable[[Rows], Rows]) -> None:
    """Whatever is missing, each group has a history: intervals end after they began, and no
    number is made of what is not there.
    """
    for rows in group_records().values():
        history, found, intervals = live(spoil(rows))
        assert history.missing_before >= 0
        assert history.missing_within >= 0
        assert all(i.to_ms is None or i.to_ms >= i.from_ms for i in intervals)
        assert all(f.causes for f in found)


def test_a_compacted_log_knows_what_it_lacks() -> None:
    """A live cluster keeps a group's newest generation; the others are counted as missing."""
    recorded = missing = 0
    for group, rows in group_records().items():
        history, found, _ = live(compacted(rows))
        assert len(found) <= 1
        if found:
            last = rebalances(group)[-1]
            assert found[0].generation_number == last.generation_number
            assert {m.id: m.assigned for m in found[0].last.members} == {
                m.id: m.assigned for m in last.last.members
            }
            assert {
                m.id: m.subscription and m.subscription.topics for m in found[0].first.members
            } == {m.id: m.subscription and m.subscription.topics for m in last.last.members}
        recorded += len(found)
        missing += history.missing_before + history.missing_within
    assert recorded == 34
    assert 600 < missing < 688


def test_the_same_records_twice_are_one_history() -> None:
    """A capture given twice over has the same generations as one."""
    for group in ("checkout-workers", "work-queue", "ship-join", "billing"):
        rows = group_records()[group]
        once, twice = (live(r)[1] for r in (rows, [r for r in rows for _ in (0, 1)]))
        assert once == twice


def test_records_that_go_back_are_refused() -> None:
    """Records out of order are an error of the caller and raise one."""
    rows = group_records()["billing"]
    history = GroupHistory(clusters())
    list(history.process_record(record(rows[5])))
    with pytest.raises(ValueError, match="was fed after"):
        list(history.process_record(record(rows[4])))


def test_from_the_middle_of_its_life_nothing_is_judged_by_guess() -> None:
    """Where the log begins later than a group, few verdicts are left, and next to none is wrong."""
    wrong = asked = 0
    for rows in group_records().values():
        for found in live(rows[len(rows) // 2 :])[1]:
            if found.protocol in ("consumer", "share") and found.first.members:
                verdict = check_agreement(found, clusters())
                asked += verdict.agrees is not None
                wrong += verdict.why == UNEXPLAINED
    assert asked >= 20
    assert wrong <= 1


def test_members_from_before_the_log_are_there_without_a_subscription() -> None:
    """A member whose own record is not in the log is shown with what it was given, and why."""
    rows = group_records()["clicks-v2"]
    found = live(rows[len(rows) // 2 :])[1]
    strangers = [m for f in found for m in f.first.members if m.subscription is None]
    assert strangers
    assert all("before the log begins" in (m.damage or "") for m in strangers)


def test_without_metadata_ids_are_their_own_names() -> None:
    """Nobody says what a topic id is called: it stands for itself; classic groups have names."""
    nothing = ClusterHistory([])
    topics = {t for f in live(group_records()["clicks-v2"], nothing)[1]
              for m in f.first.members for t, _ in m.assigned}  # fmt: skip
    assert len(topics) == 2
    assert all(len(t) == 22 for t in topics)
    names = {t for f in live(group_records()["billing"], nothing)[1]
             for m in f.first.members for t, _ in m.assigned}  # fmt: skip
    assert names == {"orders", "payments.v2"}
    shared = {t for f in live(group_records()["work-queue"], nothing)[1]
              for m in f.first.members for t, _ in m.assigned}  # fmt: skip
    assert shared == {"inventory.snapshots.EU", "payments.v2"}, "share state names its ids"


def test_a_topic_made_anew_with_fewer_partitions_is_owned_anew() -> None:
    """tmp.doomed had seven partitions, and five in its second life, under another id."""
    _, _, intervals = live(group_records()["regex-watch"])
    of = [i for i in intervals if i.topic == "tmp.doomed"]
    ids = list(dict.fromkeys(i.topic_id for i in sorted(of, key=lambda i: i.from_ms)))
    assert len(ids) == 2
    numbers = [{i.partition for i in of if i.topic_id == one} for one in ids]
    assert numbers == [set(range(7)), set(range(5))]
    first_ends = max(i.to_ms or 0 for i in of if i.topic_id == ids[0])
    assert first_ends <= min(i.from_ms for i in of if i.topic_id == ids[1])


def test_places_order_a_history_and_times_do_not() -> None:
    """With all times reversed the same generations come out in the same order."""
    rows = group_records()["stock-levels"]
    back = [{**r, "timestamp_ms": -r["timestamp_ms"]} for r in rows]
    once, other = (live(r)[1] for r in (rows, back))
    assert [f.generation_number for f in once] == [f.generation_number for f in other]
    assert all(isinstance(f.position, LogPosition) for f in other)
