"""Groups followed while their log is read: the events of a replay of the same capture."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache

import pytest
from tests.support.live_batches import follow, log_batches, some_groups
from tests.support.recordings import Recording, json_lines, recording

from partage.errors import InvalidCaptureError
from partage.history.clusters import ClusterHistory, TopicNames
from partage.history.events import Event, Generation, LifecycleEvent, derive_events
from partage.history.live_groups import (
    GroupChange,
    LiveGroups,
    RebalanceOpened,
    RebalanceSettled,
)
from partage.history.state_store import pack_state

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
            assert mine.causes == theirs.causes, (group, mine.number)
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
            LiveGroups().resume(blob)


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
        grown.append(state)
        assert grown.index.topics[: len(before.topics)] == before.topics
        for name, topic in state["topics"].items():
            assert grown.at(state["ts_ms"]).partitions_of(name).size == len(topic["partitions"])
            assert names.name_of(topic["id"]) == name
    assert grown.times == whole.times
    assert grown.index.topics == whole.index.topics
    assert grown.index.first_partition.tolist() == whole.index.first_partition.tolist()
    assert grown.broker_changes == whole.broker_changes
