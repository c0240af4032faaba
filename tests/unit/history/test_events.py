from __future__ import annotations

from tests.support.captured import clusters, generations, group_records, history, lines
from tests.support.rebuilt import rebuilt

from partage.history.clusters import ClusterHistory
from partage.history.events import (
    INFERRED,
    RECORDED,
    Event,
    Generation,
    LifecycleEvent,
    derive_events,
)
from partage.history.ownership import OwnershipIntervals


def events(group: str):
    lives = (f for f in rebuilt(group)[1] if isinstance(f, Generation | LifecycleEvent))
    return [e for f in lives for e in derive_events(f)]


def test_joins_and_leaves_add_up() -> None:
    """In each group's life, who joined or came back and did not go is there at the end."""
    for group in ("billing", "c-index", "clicks-sessionizer", "fulfilment-static-2", "polyglot"):
        there: set[str] = set()
        for event in events(group):
            who = event.instance or event.member
            if event.event == "join":
                assert who not in there
                there.add(who)
            elif event.event == "bounce":
                was = event.detail.split(",")[0].removeprefix("was ")
                there = (there - {was}) | {who}
            elif event.event in ("leave", "expiry"):
                there.remove(who)
        assert there == {m.owner_identity for m in generations(group)[-1].last.members}, group


def test_what_a_record_says_is_recorded_the_rest_inferred() -> None:
    """Rebalances are recorded; who joined, went or restarted is inferred from two records."""
    found = events("c-index")
    by_source = {s: {e.event for e in found if e.source == s} for s in (RECORDED, INFERRED)}
    assert by_source[RECORDED] == {"created", "rebalance", "rewritten", "emptied"}
    assert by_source[INFERRED] >= {"join", "expiry", "restart"}
    assert {e.source for e in events("clicks-v2") if e.event == "join"} >= {RECORDED}


def test_a_bounce_of_a_static_member_is_a_restart() -> None:
    """Members that the recording bounced under one instance id restart, and do not leave."""
    bounced = {
        e["id"] for e in lines("events.jsonl") if e["what"] == "bounce" and e["group"] == "c-index"
    }
    assert bounced
    found = events("c-index")
    assert sum(e.event == "restart" for e in found) >= 1


def test_ownership_has_no_overlap_and_no_hole_of_its_own() -> None:
    """Of one partition no two eager intervals overlap, and each ends after it began."""
    times = {}
    for group in ("billing", "mailer", "sensor-archive"):
        owned = OwnershipIntervals(lambda topic, _: topic)
        rows = [i for f in history(group)[1] for i in owned.process_item(f)] + list(
            owned.finish_intervals()
        )
        for i in sorted(rows, key=lambda i: i.from_generation):
            key = group, i.topic, i.partition
            assert times.get(key, -1) <= i.from_generation
            times[key] = i.to_generation if i.to_generation is not None else 10**9
            assert i.to_ms is None or i.to_ms >= i.from_ms


def test_a_topic_made_anew_is_another_topic() -> None:
    """Under one name, a deleted topic and the one made later have two numbers and two ids."""
    index = clusters().index
    twice = [t for t in set(index.topics) if index.topics.count(t) == 2]
    assert twice == ["tmp.doomed"]
    first, last = (i for i, name in enumerate(index.topics) if name == "tmp.doomed")
    assert index.ids[first] != index.ids[last]
    assert clusters().cluster_at(clusters().times[-1]).topic("tmp.doomed") == last


def test_a_topic_that_grew_has_changed() -> None:
    """Between two states, growing, vanishing and appearing topics are found, others not."""
    states = [{"ts_ms": i, "brokers": [], "topics": t} for i, t in enumerate([
        {"a": {"id": "1", "partitions": [{"p": 0}]}, "b": {"id": "2", "partitions": [{"p": 0}]}},
        {"a": {"id": "1", "partitions": [{"p": 0}, {"p": 1}]}, "c": {"id": "3", "partitions": []}},
    ])]  # fmt: skip
    found = ClusterHistory(states)
    assert found.find_changed_topics(["a", "b", "c", "d"], 0, 1) == ("a", "b", "c")
    assert found.find_changed_topics(["a"], 1, 1) == ()
    assert isinstance(generations("billing")[0], Generation)


def test_coordinators_move_when_a_broker_stops_and_when_it_is_back() -> None:
    """Groups of two log partitions had another coordinator for a while; others had not."""
    done = {e["what"]: e["ts_ms"] for e in lines("events.jsonl") if e["what"].startswith("broker")}
    moved: dict[int, set[str]] = {}
    for group in group_records():
        for event in rebuilt(group)[1]:
            if isinstance(event, Event) and event.event == "coordinator":
                moved.setdefault(event.position.partition, set()).add(group)
                assert event.source == RECORDED
                if event.detail == "leader epoch 0 to 1":
                    assert 0 < event.time_ms - done["broker_stop"] < 10_000
                else:
                    assert event.detail == "leader epoch 1 to 2"
                    assert 0 < event.time_ms - done["broker_start"] < 40_000
    assert set(moved) == {1, 4}
