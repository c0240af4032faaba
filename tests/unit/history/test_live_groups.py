"""Groups followed while their log is read: the events of a replay of the same capture."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache

import pytest
from tests.support.live_batches import batches_of, follow, log_batches
from tests.support.rebuilt import rebuilt
from tests.support.recordings import json_lines, recording

from partage.history.clusters import ClusterHistory, TopicNames
from partage.history.events import Event, Generation, LifecycleEvent, derive_events
from partage.history.live_groups import (
    GroupChange,
    LiveGroups,
    RebalanceOpened,
    RebalanceSettled,
)

#: Groups of the sample by protocol: classic, static, consumer, migrated, share, deleted, streams.
GROUPS = ("checkout-workers", "pos-terminals", "ship-join", "work-queue-2", "one-off #1")
NAMES = ["seed-11", "sample"]


@cache
def watched(name: str) -> tuple[LiveGroups, list]:
    """A recording followed batch by batch: all groups, or some groups of the sample."""
    return follow(name, batches_of(name, GROUPS) if name == "sample" else log_batches(name))


@cache
def replayed(name: str) -> dict[str, tuple]:
    """What the histories of the same groups yield when they are rebuilt as a whole."""
    if name == "sample":
        return {group: rebuilt(group)[1] for group in GROUPS}
    return recording(name).histories


def rebalances_of(name: str) -> dict[str, list[Generation]]:
    found = {
        group: [one for one in items if isinstance(one, Generation)]
        for group, items in replayed(name).items()
    }
    return {group: some for group, some in found.items() if some}


def of_kind(name: str, kind: type) -> dict[str, list]:
    found = defaultdict(list)
    for one in watched(name)[1]:
        if isinstance(one, kind):
            found[one.group].append(one)
    return found


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
def test_each_rebalance_settles_once_with_the_final_causes(name) -> None:
    """Each opened rebalance settles, and its unread time is the replay's where it was superseded."""
    settled = of_kind(name, RebalanceSettled)
    for group, rebalances in rebalances_of(name).items():
        mine = {one.generation.position: one for one in settled[group]}
        assert len(mine) == len(settled[group]) == len(rebalances)
        for found in rebalances:
            one = mine[found.position]
            assert one.generation.causes == found.causes
            if one.how == "superseded":
                assert one.unread == found.unread


@pytest.mark.parametrize("name", NAMES)
def test_a_live_capture_reports_the_other_events_of_a_replay(name) -> None:
    """Creations, deletions, migrations, coordinator moves and restarts equal those of the replay."""
    live = of_kind(name, GroupChange)
    for group, items in replayed(name).items():
        wanted = []
        for item in items:
            if isinstance(item, LifecycleEvent):
                wanted += derive_events(item)
            elif isinstance(item, Event):
                wanted.append(item)
        mine = [one.event for one in live.get(group, [])]
        assert sorted(mine, key=repr) == sorted(wanted, key=repr), group


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
