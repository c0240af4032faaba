"""Groups followed while their log is read: the events of a replay of the same capture."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from functools import cache

import pytest
from tests.support.live_batches import SESSION_MS, follow, log_batches, some_groups
from tests.support.recordings import Recording, json_lines, recording

from partage.errors import InvalidCaptureError
from partage.history.clusters import ClusterHistory, TopicNames
from partage.history.events import Event, Generation, LifecycleEvent, derive_events
from partage.history.live_groups import (
    HOLD_MS,
    GroupChange,
    LiveGroups,
    RebalanceOpened,
    RebalanceSettled,
)
from partage.history.records import GroupRecord
from partage.history.state_store import pack_state
from partage.jobs.replay.capture import read_context

#: Groups of the sample by protocol: classic, static, consumer, migrated, share, deleted, streams.
GROUPS = ("checkout-workers", "pos-terminals", "ship-join", "work-queue-2", "one-off #1")
NAMES = ["seed-11", "sample"]


@cache
def found(name: str) -> Recording:
    return some_groups(name, GROUPS) if name == "sample" else recording(name)


@cache
def watched(name: str) -> tuple[LiveGroups, list]:
    """A recording followed batch by batch: all groups, or some groups of the sample."""
    return follow(found(name), log_batches(found(name)))


def rebalances_of(name: str) -> dict[str, list[Generation]]:
    return {group: some for group, some in found(name).rebalances.items() if some}


def of_kind(name: str, kind: type) -> dict[str, list]:
    events = defaultdict(list)
    for one in watched(name)[1]:
        if isinstance(one, kind):
            events[one.group].append(one)
    return events


@pytest.mark.parametrize("name", NAMES)
def test_a_live_capture_reports_the_rebalances_of_a_replay(name) -> None:
    """Each rebalance of the batch history opens once, with the same causes and the same members."""
    assert not watched(name)[0].failed
    opened, wanted = of_kind(name, RebalanceOpened), rebalances_of(name)
    assert opened.keys() == wanted.keys()
    for group, rebalances in wanted.items():
        live = [one.generation for one in opened[group]]
        assert [one.position for one in live] == [one.position for one in rebalances]
        for mine, theirs in zip(live, rebalances, strict=True):
            assert mine.causes == theirs.causes, (group, mine.generation_number)
            assert [m.id for m in mine.first.members] == [m.id for m in theirs.first.members]


@pytest.mark.parametrize("name", NAMES)
def test_each_rebalance_settles_once_with_the_unread_time_of_a_replay(name) -> None:
    """Causes are final; unread time is the replay's, if need be by a revision when the next begins."""
    settled = of_kind(name, RebalanceSettled)
    assert {one.how for some in settled.values() for one in some} >= {"consumed", "superseded"}
    for group, rebalances in rebalances_of(name).items():
        first = {one.generation.position: one for one in settled[group] if one.how != "revised"}
        assert len(first) == len(rebalances)
        last = {one.generation.position: one for one in settled[group]}
        for theirs in rebalances[:-1]:  # what follows the last one, nothing has completed
            one = last[theirs.position]
            assert one.generation.causes == theirs.causes
            assert one.unread == theirs.unread
            if one.how == "revised":
                assert theirs.unread.best >= one.reported == first[theirs.position].unread.best


@pytest.mark.parametrize("name", NAMES)
def test_a_live_capture_reports_the_other_events_of_a_replay(name) -> None:
    """Creations, deletions, migrations, coordinator moves and restarts equal those of the replay."""
    live = of_kind(name, GroupChange)
    for group, items in found(name).histories.items():
        wanted = []
        for item in items:
            if isinstance(item, LifecycleEvent):
                wanted += derive_events(item)
            elif isinstance(item, Event):
                wanted.append(item)
        mine = [one.event for one in live.get(group, [])]
        assert sorted(mine, key=repr) == sorted(wanted, key=repr), group


def test_a_watch_that_is_stored_and_resumed_reports_the_same_events() -> None:
    """Broken off at many places, it yields what it yields in one go; storms are not stored."""

    def shown(events: list) -> list[dict]:
        return [one.to_json() | {"storm": None} for one in events]

    broken = follow(found("seed-11"), log_batches(found("seed-11")), every=150)[1]
    assert shown(broken) == shown(watched("seed-11")[1])


def test_a_damaged_state_of_a_watch_is_refused() -> None:
    """Bytes of another kind raise an error of ours."""
    for blob in (
        b"",
        pack_state([1]),
        pack_state((1, 2, 3, 4, 5)),
        watched("sample")[0].to_bytes()[:99],
    ):
        with pytest.raises(InvalidCaptureError, match="rebuild it from the log"):
            LiveGroups().restore_state(blob)


def test_every_event_is_one_line_of_json() -> None:
    """An event has plain values only, and names its group and generation."""
    for one in watched("seed-11")[1]:
        line = json.dumps(one.to_json())
        assert {"event", "time_ms", "group", "incarnation", "generation"} <= json.loads(line).keys()


def test_states_that_are_appended_give_the_clusters_of_the_whole_history() -> None:
    """Numbers never change while states arrive, and each moment has the same partitions."""
    states = json_lines(recording("sample").capture, "cluster.jsonl")
    whole, grown = ClusterHistory(states), ClusterHistory([])
    names = TopicNames(grown)
    for state in states:
        before = grown.index
        grown.append_metadata(state)
        assert grown.index.topics[: len(before.topics)] == before.topics
        for name, topic in state["topics"].items():
            assert grown.cluster_at(state["ts_ms"]).partitions_of(name).size == len(
                topic["partitions"]
            )
            assert names.name_of(topic["id"]) == name
    assert grown.times == whole.times
    assert grown.index.topics == whole.index.topics
    assert grown.index.first_partition.tolist() == whole.index.first_partition.tolist()
    assert grown.broker_changes == whole.broker_changes


@pytest.mark.parametrize("kill_at", [100, 475, 700, 1_275])
def test_what_was_open_at_a_kill_settles_in_the_next_process(kill_at) -> None:
    """Each rebalance that an event announced settles once, in one of both processes.

    What static members add later is reported too, if the first process has reported the end.
    """
    found = recording("seed-11")
    batches = log_batches(found)[:1_400]
    before, after = batches[:kill_at], batches[kill_at:]
    first = _fresh(_feed(_groups(found), before)[0])
    live = _groups(found)
    live.announced_from = dict.fromkeys(range(50), 0)
    live.fresh_from = dict.fromkeys(range(50), 1 << 60)
    live.fresh_from |= {batch.partition: batch.base_offset for batch in reversed(after)}
    live.queue_batches(before, 0)
    now = max(batch.max_timestamp_ms for batch in before)
    assert not _fresh(list(live.replay(now)))
    second, now = _feed(live, after, now)
    events = first + _fresh(second + list(live.process_remaining_records(now)))
    whole, now = _feed(whole_live := _groups(found), batches)
    expected = _last_settled(whole + list(whole_live.process_remaining_records(now)))
    killed = max(batch.max_timestamp_ms for batch in before)
    lost = {_place(one) for one in whole if _is_rebalance(one)
            and killed - 2 * HOLD_MS < _time_ms(one) <= killed}  # fmt: skip
    announced = {_place(one) for one in events if isinstance(one, RebalanceOpened)} - lost
    settled = _last_settled(events)
    assert len(announced) > 3 * len(lost)
    assert settled.keys() - lost == announced
    assert {key: settled[key].unread for key in announced} == {
        key: expected[key].unread for key in announced
    }
    assert {_place(one) for one in first if isinstance(one, RebalanceOpened)} & {
        _place(one) for one in events[len(first) :] if isinstance(one, RebalanceSettled)
    }


def test_rebalances_without_commits_do_not_end_again_after_a_restart() -> None:
    """In a rebuilt history, rebalances end by the clock of the log, and are not reported again."""
    batches = log_batches(recording("seed-11"))[:1_400]
    live = _groups(recording("seed-11"))
    live.announced_from = dict.fromkeys(range(50), 0)
    live.fresh_from = dict.fromkeys(range(50), 1 << 60)
    live.queue_batches(batches, 0)
    newest = max(one.item.timestamp_ms for one in live._held)
    live._held = deque(
        one for one in live._held
        if newest - one.item.timestamp_ms > (70_000 if isinstance(one.item, GroupRecord) else 90_000)
        or one.item.timestamp_ms == newest
    )  # fmt: skip
    past = list(live.replay(newest + 86_400_000))
    assert any(isinstance(one, RebalanceSettled) and one.how == "timeout" for one in past)
    assert not _fresh(past)
    later = live.process_due_records(newest + 86_400_000)
    assert not [one for one in later if isinstance(one, RebalanceSettled)]


def _groups(found: Recording) -> LiveGroups:
    live = LiveGroups(SESSION_MS, read_context(found.capture).initial_delay_ms)
    for state in json_lines(found.capture, "cluster.jsonl"):
        live.add_state(state)
    return live


def _feed(live: LiveGroups, batches: list, now: int = 0) -> tuple[list, int]:
    """All events of batches that are fed one by one, and the time of the last one."""
    events = []
    for batch in batches:
        now = max(now, batch.max_timestamp_ms)
        live.queue_batches([batch], now)
        events += live.process_due_records(now)
    return events, now


def _fresh(events: list) -> list:
    return [one for one in events if one.fresh]


def _is_rebalance(event: object) -> bool:
    return isinstance(event, RebalanceOpened | RebalanceSettled)


def _time_ms(event: RebalanceOpened | RebalanceSettled) -> int:
    return event.time_ms if isinstance(event, RebalanceSettled) else event.generation.timestamp_ms


def _place(event: RebalanceOpened | RebalanceSettled) -> tuple:
    return event.group, event.generation.position


def _last_settled(events: list) -> dict:
    return {_place(one): one for one in events if isinstance(one, RebalanceSettled)}
