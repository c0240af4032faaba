"""Causes against what was really done to the members: `events.jsonl` of the recording."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from tests.support.captured import clusters, group_records, lines
from tests.support.commit_runs import CommitRun, stretch_of
from tests.support.rebuilt import rebalances
from tests.support.simulated_histories import generation, history, member, metadata, topics

from partage.history.causes import CauseFinder
from partage.history.clusters import ClusterHistory
from partage.history.departures import DepartedMembers
from partage.history.events import Cause, Generation
from partage.history.pauses import PauseTracker
from partage.simulation.recorded_rebalances import recorded_rebalances
from partage.tables.statuses import CAUSE_KINDS

#: A member is evicted at most this long after it was killed or frozen, stalled or left.
_WITHIN_MS = 40_000


def done_to(group: str, cause: Cause, done: list[dict], instances: dict) -> str | None:
    """What the recording last did to the member of a cause before it."""
    names = set(re.findall(r"m\d+", f"{cause.detail or ''} {cause.member or ''}"))
    last = None
    for event in done:
        if not event["ts_ms"] <= cause.time_ms + 300 or cause.time_ms - event["ts_ms"] > _WITHIN_MS:
            continue
        same = event.get("id") in names
        if cause.instance is not None:
            mine = event.get("instance") or instances.get((group, event.get("id")))
            same = same or mine == cause.instance
        last = event if same else last
    return None if last is None else last["what"]


def judged() -> Counter:
    what = ("leave", "kill", "freeze", "bounce", "stall", "admin.remove_static")
    all_done = [e for e in lines("events.jsonl") if "group" in e]
    instances = {(e["group"], e["id"]): e.get("instance") for e in all_done if e["what"] == "add"}
    found: Counter = Counter()
    for group in group_records():
        done = [e for e in all_done if e["group"] == group and e["what"] in what]
        for rebalance in rebalances(group):
            for cause in rebalance.causes:
                if cause.kind in ("leave", "expiry", "poll", "bounce"):
                    did = done_to(group, cause, done, instances)
                    found[cause.kind, did, cause.instance is not None] += 1
    return found


def test_the_killed_expire_and_who_leaves_leaves() -> None:
    """Nine of ten members that were killed or frozen expired; of dynamic ones that left, left."""
    found = judged()
    put_out = sum(
        n for (k, did, _), n in found.items() if did in ("kill", "freeze") and k != "leave"
    )
    not_seen = sum(
        n for (k, did, _), n in found.items() if did in ("kill", "freeze") and k == "leave"
    )
    assert put_out >= 45
    assert not_seen <= 0.1 * put_out
    left = found["leave", "leave", False]
    wrong = found["expiry", "leave", False]
    assert left >= 95
    assert wrong <= 0.05 * left


def test_static_members_do_not_leave() -> None:
    """A classic static member that is closed stays a member until its session ends (KIP-345)."""
    closed = {k: n for (k, did, static), n in judged().items() if did == "leave" and static}
    assert closed.get("expiry", 0) >= 5


def test_bounces_are_found() -> None:
    """Members that rejoined within their session timeout are distinguished from new ones."""
    found = [
        c for g in group_records() for f in rebalances(g) for c in f.causes if c.kind == "bounce"
    ]
    assert len(found) >= 1
    assert all(c.was is not None and "was " in (c.detail or "") for c in found)


def test_a_poll_timeout_differs_from_a_session_timeout() -> None:
    """Members that the recording kept from polling for longer than they may; few others."""
    found = judged()
    stalled = sum(n for (k, did, _), n in found.items() if k == "poll" and did == "stall")
    others = sum(n for (k, did, _), n in found.items() if k == "poll" and did != "stall")
    assert stalled >= 5
    assert others <= 2


def test_a_return_after_being_put_out_is_no_bounce() -> None:
    """With an instance id the same timeout would have evicted it: it joins again."""
    back = [
        c for g in group_records() for f in rebalances(g) for c in f.causes
        if c.kind == "join" and re.search("session timeout expired|, evicted", c.detail or "")
    ]  # fmt: skip
    assert len(back) >= 10
    assert all(c.was is not None for c in back)


def test_a_rejoined_member_is_named_once() -> None:
    """Causes and simulation name the same members, also where two of a name are away."""
    for group in group_records():
        found = rebalances(group)
        former_ids = {
            (f.generation_number, c.member): c.was
            for f in found
            for c in f.causes
            if c.was is not None
        }
        absences = [a for r in recorded_rebalances(found, clusters()) for a in r.departures]
        for away in absences:
            if away.as_member is not None:
                assert former_ids[away.back[1], away.as_member.id] == away.member.id


def test_every_rebalance_has_causes_in_their_order() -> None:
    """The first cause is the one that counts most; each says whether it was recorded."""
    for group in group_records():
        for found in rebalances(group):
            ranks = [CAUSE_KINDS.index(c.kind) for c in found.causes]
            assert ranks
            assert ranks == sorted(ranks)
            assert {c.source for c in found.causes} <= {"recorded", "inferred"}


def test_few_causes_stay_unknown() -> None:
    """Of 688 rebalances at most 1 % have no cause; most requests are those that were enforced."""
    found = Counter(f.causes[0].kind for g in group_records() for f in rebalances(g))
    assert found["unknown"] <= 7
    enforced = [(e["group"], e["ts_ms"]) for e in lines("events.jsonl") if e["what"] == "enforce"]
    near = sum(
        any(g == group and -500 <= f.timestamp_ms - ts <= 20_000 for g, ts in enforced)
        for group in group_records()
        for f in rebalances(group)
        if f.causes[0].kind == "request"
    )
    assert near >= 8


def test_second_steps_are_marked_with_their_cause() -> None:
    """62 of 176 cooperative rebalances have the same members and more partitions than before.

    60 are second steps and say of which rebalance; the two others gave out topics that the
    leader had not seen, or that had just grown.
    """
    found = [
        f for g in group_records() for f in rebalances(g)
        if f.first.strategy == "cooperative-sticky" and f.previous is not None
    ]  # fmt: skip
    assert len(found) == 176
    kinds = Counter(f.causes[0].kind for f in found if _filled_in(f))
    assert kinds == {"follow-up": 60, "topics": 2}
    steps = [f for f in found if f.causes[0].kind == "follow-up"]
    assert len(steps) == 60
    for f in steps:
        assert f.causes[0].detail.startswith(
            f"second step of generation {f.previous.generation_number} ("
        )


def _filled_in(found: Generation) -> bool:
    """The expected value is counted here, not by a function of the library."""
    before, now = found.previous.last.members, found.first.members

    def wants(members) -> dict:
        return {m.instance or m.id: sorted(set(m.subscription.topics)) for m in members}

    def count(members) -> int:
        return len({(t, p) for m in members for t, ps in m.assigned for p in ps})

    return wants(before) == wants(now) and count(now) > count(before)


def test_topics_that_grew_or_went_are_causes() -> None:
    """The recording grew two topics, deleted and recreated one; subscribers rebalanced."""
    done = [e for e in lines("events.jsonl") if e["what"] in ("admin.grow", "admin.delete_topic")]
    assert len(done) == 3
    for event in done:
        topic = event["topic"]
        near = [
            f for g in group_records() for f in rebalances(g)
            if 0 <= f.timestamp_ms - event["ts_ms"] <= 15_000
            and any(m.subscription and topic in m.subscription.topics for m in f.first.members)
            and any(c.kind == "topics" for c in f.causes)
        ]  # fmt: skip
        assert near, topic


def test_subscriptions_that_changed_are_causes() -> None:
    """Most of the recording's nineteen changes of subscription are found as such."""
    done = [(e["group"], e["ts_ms"]) for e in lines("events.jsonl") if e["what"] == "resub"]
    found = [
        (g, c.time_ms) for g in group_records() for f in rebalances(g)
        for c in f.causes if c.kind == "resubscription"
    ]  # fmt: skip
    near = [d for d in done if any(d[0] == g and -500 <= t - d[1] <= 20_000 for g, t in found)]
    assert len(done) == 19
    assert len(near) >= 15


@pytest.mark.parametrize(("last_of_b", "ended", "kind"), [
    (10_000, 40_000, "leave"),  # b stopped when a left, and the rebalance took half a minute
    (16_000, 16_500, "expiry"),  # b went on until a was missed
    (16_000, 45_000, "expiry"),
])  # fmt: skip
def test_a_rebalance_that_takes_long_is_no_silence(last_of_b, ended, kind) -> None:
    """Silence counts until the others stopped for the rebalance, not until its record."""
    commits = PauseTracker()
    for p, last in ((0, 10_000), (1, last_of_b)):
        for ms in range(0, last + 1, 1_000):
            commits.process_commit_stretch(stretch_of(CommitRun.of("g", "t", p, ms, ms)))
    found = history((500, [member("a", (0,)), member("b", (1,))]), (ended, [member("b", (0, 1))]))
    (cause,) = CauseFinder(topics(t=2), commits).find_causes(found[1], found[0])
    assert cause.kind == kind


def offsets_log(*leaders: tuple[int, int]) -> ClusterHistory:
    """Metadata in which partition 0 of the group log has these leaders: (time, broker)."""
    states = []
    for ts_ms, leader in leaders:
        state = metadata(ts_ms, t=2)
        state["topics"]["__consumer_offsets"] = {
            "id": "log", "partitions": [{"p": 0, "leader": leader, "replicas": [1, 2]}],
        }  # fmt: skip
        states.append(state)
    return ClusterHistory(states)


def committed(*rows: tuple[int, int, int]) -> PauseTracker:
    """Commits each second: (partition, from, to) in milliseconds."""
    commits = PauseTracker()
    for p, first, last in rows:
        for ms in range(first, last + 1, 1_000):
            commits.process_commit_stretch(stretch_of(CommitRun.of("g", "t", p, ms, ms)))
    return commits


def causes_of(found, commits=None, clusters=None) -> list[Cause]:
    """The causes of the last generation of a history."""
    finder = CauseFinder(clusters or topics(t=2), commits or PauseTracker())
    return [finder.find_causes(one, one.previous) for one in found][-1]


@pytest.mark.parametrize(("moved_ms", "kind"), [(40_000, "broker"), (20_000, "request")])
def test_a_rejoin_after_the_coordinator_moved_is_a_brokers_fault(moved_ms, kind) -> None:
    """The same members and topics: the coordinator's fault within a session timeout, else a request."""
    same = [member("a", (0,)), member("b", (1,))]
    clusters = offsets_log((0, 1), (moved_ms, 2))
    (cause,) = causes_of(history((500, same), (42_000, same)), clusters=clusters)
    assert cause.kind == kind
    assert (cause.other, cause.probability < 1) == (("request", True) if kind == "broker" else (None, False))  # fmt: skip


@pytest.mark.parametrize(("at", "kind"), [(4_000, "leave"), (60_000, "departure")])
def test_without_commits_only_a_short_time_proves_a_leave(at, kind) -> None:
    """A member that joined less than its session timeout ago cannot have been evicted."""
    found = history((500, [member("a", (0,)), member("b", (1,))]), (at, [member("b", (0, 1))]))
    (cause,) = causes_of(found)
    assert cause.kind == kind
    assert (cause.other is None) == (kind == "leave")


def test_a_static_member_leaves_by_its_session_timeout() -> None:
    """It sends no LeaveGroup when it is closed (KIP-345), so that nothing else is possible."""
    both = [member("a", (0,), instance="one"), member("b", (1,), instance="two")]
    found = history((500, both), (30_000, [member("b", (0, 1), instance="two")]))
    (cause,) = causes_of(found)
    assert (cause.kind, cause.other) == ("expiry", None)


@pytest.mark.parametrize(("last_of_a", "kind"), [(30_000, "poll"), (84_000, "expiry"), (89_000, "leave")])  # fmt: skip
def test_a_poll_timeout_needs_a_silence_that_a_session_would_not_survive(last_of_a, kind) -> None:
    """A member that was silent for longer than its session timeout sent heartbeats all the time."""
    found = history((500, [member("a", (0,)), member("b", (1,))]), (91_000, [member("b", (0, 1))]))
    (cause,) = causes_of(found, committed((0, 0, last_of_a), (1, 0, 90_000)))
    assert cause.kind == kind


@pytest.mark.parametrize(("sends", "kind"), [(b"", "poll"), (None, "leave")])
def test_a_member_that_repeats_its_offsets_until_it_leaves_does_not_poll(sends, kind) -> None:
    """A Python client commits in the background while its loop is stalled; the Java consumer cannot."""
    commits = committed((0, 0, 29_000), (1, 0, 91_000))
    for ms in range(30_000, 90_000, 1_000):
        commits.process_commit_stretch(stretch_of(CommitRun.of("g", "t", 0, ms, 29_000)))
    stalled = member("a", (0,))
    stalled = replace(stalled, subscription=replace(stalled.subscription, user_data=sends))
    found = history((500, [stalled, member("b", (1,))]), (91_000, [member("b", (0, 1))]))
    (cause,) = causes_of(found, commits)
    assert cause.kind == kind


def test_a_rejoin_counts_from_the_members_last_commit() -> None:
    """The record without it may follow late: the rebalance waited for another member."""
    before = [member("a", (0,)), member("b", (1,))]
    after = [member("a-2", (0,), client="a"), member("b", (1,))]
    for last, kinds in ((38_000, ["bounce"]), (20_000, ["leave", "join"])):
        commits = committed((0, 0, last), (1, 0, last))
        found = history((500, before), (40_000, after))
        assert [cause.kind for cause in causes_of(found, commits)] == kinds


def test_all_members_lost_with_their_coordinator_are_a_brokers_fault() -> None:
    """They fell silent at once, and their sessions expired at the new coordinator."""
    commits = committed((0, 0, 20_000), (1, 0, 20_000))
    clusters = offsets_log((0, 1), (24_000, 2))
    found = history((500, [member("a", (0,)), member("b", (1,))]), (30_000, []))
    assert [c.kind for c in causes_of(found, commits, clusters)] == ["broker", "broker"]
    assert [c.kind for c in causes_of(found, commits)] == ["expiry", "expiry"]


@pytest.mark.parametrize("moved", [True, False])
def test_an_evicted_member_that_rejoins_after_a_coordinators_move_was_alive(moved) -> None:
    """It rejoins in the generation that evicts it: its heartbeats were lost with the coordinator."""
    commits = committed((0, 0, 20_000), (1, 0, 39_000))
    clusters = offsets_log((0, 1), (35_000, 2)) if moved else topics(t=2)
    before = [member("a", (0,)), member("b", (1,))]
    after = [member("a-2", (0,), client="a"), member("b", (1,))]
    found = history((500, before), (40_000, after))
    kinds = [c.kind for c in causes_of(found, commits, clusters)]
    assert kinds == (["broker"] if moved else ["expiry", "join"])


def test_a_member_that_rejoins_under_its_own_id_was_not_restarted() -> None:
    """Members of the consumer protocol choose their id, and a restarted process another one."""
    both = [member("a", (0,)), member("b", (1,))]
    found = history((500, both), (3_000, both[1:]), (4_000, both))
    (cause,) = causes_of(found, committed((0, 0, 2_000), (1, 0, 4_000)))
    assert (cause.kind, cause.was) == ("join", "a")


@pytest.mark.parametrize(("shared", "kind"), [(False, "bounce"), (True, "join")])
def test_a_late_rejoin_under_a_shared_client_id_is_a_join(shared, kind) -> None:
    """The client id identifies a process only if no two members had it at the same time."""
    both = [member("a", (0,), client="app"), member("b", (1,), client="app" if shared else "other")]
    again = [member("c", (0,), client="app"), both[1]]
    found = history((500, both), (20_000, both[1:]), (25_000, again))
    commits = committed((0, 0, 19_000), (1, 0, 24_000))
    assert [c.kind for c in causes_of(found, commits)] == [kind]


def test_a_rebalance_that_waits_for_a_stalled_member_ends_with_its_poll_timeout() -> None:
    """The other member revoked 15 s before. The record follows 60 s after the stalled one's poll."""
    both = [member("a", (0,)), member("b", (1,))]
    found = history((500, both), (80_200, [member("b", (0, 1)), member("c")]))
    causes = causes_of(found, committed((0, 0, 20_000), (1, 0, 65_000)))
    assert [c.kind for c in causes if c.member == "a"] == ["poll"]


@pytest.mark.parametrize(
    ("at", "last_of_b", "kind"),
    [
        (78_000, 65_000, "poll"),
        (78_000, 77_000, "expiry"),
        (83_000, 65_000, "poll"),
        (86_000, 65_000, "expiry"),
    ],
)
def test_a_poll_timeout_may_be_noticed_a_heartbeat_late(at, last_of_b, kind) -> None:
    """It ends 60 s after the last commit, earlier only if a rebalance waited for the member."""
    found = history(
        (500, [member("a", (0,)), member("b", (1,))]), (at, [member("b", (0, 1)), member("c")])
    )
    causes = causes_of(found, committed((0, 0, 20_000), (1, 0, last_of_b)))
    assert [c.kind for c in causes if c.member == "a"] == [kind]


@pytest.mark.parametrize(("is_librdkafka", "kind"), [(True, "poll"), (False, "leave")])
def test_librdkafka_rejoins_without_a_poll(is_librdkafka, kind) -> None:
    """Its stalled member is in a new generation, and still leaves after its poll timeout."""
    stalled = member("a", (0,), claims=(0,))
    if is_librdkafka:
        sent = replace(stalled.subscription, user_data=b"", rack="")
        stalled = replace(stalled, subscription=sent)
    others = [member("b", (1,)), member("c")]
    found = history((500, [stalled, others[0]]), (60_000, [stalled, *others]), (62_000, others))
    commits = committed((0, 0, 2_000), (1, 0, 61_000))
    assert [c.kind for c in causes_of(found, commits)] == [kind]


@pytest.mark.parametrize(("timeout_ms", "kind"), [(6_000, "bounce"), (9_000, "join")])
def test_under_a_shared_client_id_a_restarted_process_has_its_settings(timeout_ms, kind) -> None:
    """A member with another session timeout is another process."""
    both = [member("a", (0,), client="app"), member("b", (1,), client="app")]
    again = [replace(member("c", (0,), client="app"), session_timeout_ms=timeout_ms), both[1]]
    found = history((500, both), (20_000, both[1:]), (22_000, again))
    commits = committed((0, 0, 19_000), (1, 0, 21_000))
    assert [c.kind for c in causes_of(found, commits)] == [kind]


def test_an_evicted_member_is_not_the_one_that_rejoins_first() -> None:
    """Another one with its client id left later, and its session timeout has not expired."""
    departed = DepartedMembers()
    for name, at in (("a", 10_000), ("b", 12_000)):
        departed.add_departure(member(name, client="app"), at, 6_000)
    departed.mark_evicted("a")
    assert departed.match_rejoin(member("c", client="app"), 14_000).member == "b"


@pytest.mark.parametrize(("of_a", "of_b", "kind"), [
    ((0,), (1,), "request"), ((0, 2), (1, 3), "topics"),
])  # fmt: skip
def test_a_topic_that_the_leader_has_not_seen_growing_is_no_cause(of_a, of_b, kind) -> None:
    """The topic grew from two to four partitions a second before the rebalance."""
    clusters = ClusterHistory([metadata(0, t=2), metadata(30_000, t=4)])
    before = [member("a", (0,)), member("b", (1,))]
    found = history((500, before), (31_000, [member("a", of_a), member("b", of_b)]))
    assert [c.kind for c in causes_of(found, clusters=clusters)] == [kind]


@pytest.mark.parametrize(("since_ms", "kind"), [(80_000, "poll"), (0, "leave")])
def test_commits_of_a_former_owner_show_no_life(since_ms, kind) -> None:
    """Partition 1 was committed at 80 s, before or after the member owned it."""
    commits = committed((0, 0, 20_000), (1, 0, 79_000), (2, 0, 81_000))
    found = history(
        (500, [member("a", (0, 1)), member("b", (2,))]), (82_000, [member("b", (0, 1, 2))])
    )
    finder = CauseFinder(topics(t=3), commits)
    since = {("a", ("t", 1)): since_ms}
    (cause,) = [
        finder.find_causes(one, one.previous, lambda *key: since.get(key, 0.0)) for one in found
    ][-1]
    assert cause.kind == kind


def test_a_member_that_rejoins_under_its_own_id_is_matched_first() -> None:
    """Another member with its client id left before it."""
    departed = DepartedMembers()
    for name, at in (("a", 10_000), ("b", 12_000)):
        departed.add_departure(member(name, client="app"), at, 6_000)
    assert departed.match_rejoin(member("b", client="app"), 13_000).member == "b"
    assert departed.match_rejoin(member("c", client="app"), 13_000).member == "a"


@pytest.mark.parametrize(("instance", "kind"), [("one", "expiry"), (None, "leave")])
def test_a_restarted_static_member_departs_by_its_session_timeout(instance, kind) -> None:
    """The generation before has the process that it replaced without a rebalance (KIP-848)."""
    left = Cause("leave", "recorded", "a-2", instance, 20_000)
    before = generation(1, 500, [member("a", (0,)), member("b", (1,))], protocol="consumer")
    now = generation(2, 20_000, [member("b", (0, 1))], left, before=before, protocol="consumer")
    finder = CauseFinder(topics(t=2), PauseTracker())
    finder.find_causes(before, None)
    assert [c.kind for c in finder.find_causes(now, before)] == [kind]
