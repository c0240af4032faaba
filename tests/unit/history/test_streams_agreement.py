"""Recorded generations of classic Kafka Streams groups, and made ones whose settings are known."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from tests.support.captured import clusters
from tests.support.rebuilt import rebalances

from partage.history.agreement import UNEXPLAINED, check_agreement
from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.history.records import ClassicState, LogPosition, MemberState, Subscription
from partage.history.streams_agreement import check_streams_agreement
from partage.legacy.streams_0_x import Release011
from partage.streams import (
    AssignmentConfigs,
    ProcessId,
    StreamsApplication,
    Subtopology,
    Topology,
    compute_group_assignment,
)
from partage.streams.member_assignments import assignment_info, build_member
from partage.streams.sticky import LegacySticky
from partage.wire.streams.assignment_info import decode_assignment_info, encode_assignment_info
from partage.wire.streams.subscription_info import (
    SubscriptionInfo,
    decode_subscription_info,
    encode_subscription_info,
)


def recorded():
    return [one for one in rebalances("views-join") if one.first.members]


def with_members(found, members):
    return replace(found, first=replace(found.first, members=tuple(members)))


def answered(member, **changed):
    """A member whose user data says something else."""
    info = replace(decode_assignment_info(member.assignment_user_data), **changed)
    return replace(member, assignment_user_data=encode_assignment_info(info))


def test_all_generations_of_the_recorded_application_come_out() -> None:
    """17 of 17, threads, withheld tasks, follow-ups and hosts included; what is assumed is said."""
    verdicts = [check_agreement(one, clusters()) for one in recorded()]
    assert [(v.agrees, v.why, v.counts) for v in verdicts] == [(True, None, True)] * 17
    assert {v.judged_by for v in verdicts} == {"streams:high-availability"}
    lags = [(v.assumed or "").rpartition("; ")[2] for v in verdicts]
    assert lags.count("lags (not in the log) of any size") == 3
    assert lags.count("lags (not in the log) within acceptable.recovery.lag") == 12
    standbys = {
        (v.assumed or "").partition(";")[0] for v in verdicts if "standby" in (v.assumed or "")
    }
    assert standbys == {"num.standby.replicas 1", "num.standby.replicas at least 1"}


def test_swapped_consumers_are_unexplained() -> None:
    """The assignments of two consumers changed places: no assumption makes that come out."""
    swapped = 0
    for found in recorded()[11:12]:
        members = list(found.first.members)
        for i in range(1, len(members)):
            one, other = members[i - 1], members[i]
            spoilt = list(members)
            for place, giver in ((i - 1, other), (i, one)):
                spoilt[place] = replace(
                    members[place],
                    assigned=giver.assigned,
                    assignment_user_data=giver.assignment_user_data,
                )
            verdict = check_agreement(with_members(found, spoilt), clusters())
            assert (verdict.agrees, verdict.why, verdict.counts) == (False, UNEXPLAINED, True)
            swapped += 1
    assert swapped == 3


def test_every_field_of_an_assignment_is_compared() -> None:
    """A standby less, another host's partitions, another time, version or code: all are seen."""
    found = next(one for one in recorded() if one.generation_number == 8)
    one, *rest = found.first.members
    info = decode_assignment_info(one.assignment_user_data)
    assert len(info.standby)
    fewer = dict(list(info.standby_tasks().items())[1:])
    less = replace(
        type(info).of(standby=fewer),
        active=info.active,
        hosts=info.hosts,
        standby_hosts=info.standby_hosts,
    )
    spoilt = [
        replace(one, assignment_user_data=encode_assignment_info(less)),
        answered(one, next_rebalance_ms=0),
        answered(one, next_rebalance_ms=found.timestamp_ms),
        answered(one, hosts=info.standby_hosts),
        answered(one, standby_hosts=info.hosts),
        answered(one, common_version=10),
        answered(one, version=10),
    ]
    for member in spoilt:
        verdict = check_agreement(with_members(found, [member, *rest]), clusters())
        assert (verdict.agrees, verdict.why) == (False, UNEXPLAINED), member
    same = check_agreement(with_members(found, [answered(one), *rest]), clusters())
    assert same.agrees


def test_what_cannot_be_asked_has_its_reason() -> None:
    """No user data, damaged bytes, a leader that is gone, a refusal: no verdict, but why."""
    found = recorded()[0]
    (one,) = found.first.members
    strange = [
        (replace(one, subscription=replace(one.subscription, user_data=None)), "no user data"),
        (replace(one, subscription=None, damage="torn at byte 3"), "torn at byte 3"),
        (replace(one, assignment_user_data=one.assignment_user_data[:30]), "AssignmentInfo"),
        (replace(one, assigned=()), "18 tasks for 0 assigned partitions"),
        (replace(one, id="another"), "leader is not among its members"),
        (
            replace(
                answered(one, active=decode_assignment_info(b"\0\0\0\1" + bytes(8)).active),
                assigned=(),
            ),
            "no task is in its record",
        ),
    ]
    for member, words in strange:
        verdict = check_agreement(with_members(found, [member]), clusters())
        assert verdict.agrees is None, words
        assert words in (verdict.why or ""), verdict.why
    first, *others = (m for m in recorded()[2].first.members)
    refused = [replace(answered(first, error_code=3), assigned=first.assigned), *others]
    verdict = check_agreement(with_members(recorded()[2], refused), clusters())
    assert verdict.agrees is None
    assert "error 3 (ASSIGNMENT_ERROR)" in (verdict.why or "")


P1, P2, P3 = (bytes([*bytes(15), number]) for number in (1, 2, 3))
TOPOLOGY = Topology([
    Subtopology(0, ("lines",), changelogs=("counts",)),
    Subtopology(1, ("words", "other"), changelogs=("tables",)),
    Subtopology(2, ("plain",)),
])  # fmt: skip
COUNTS = {"lines": 4, "words": 3, "other": 2, "plain": 3, "counts": 4, "tables": 3}


def world(grown=None):
    """The cluster's metadata; ``grown``: (time, counts of topics from then on)."""
    sources = {name: n for name, n in COUNTS.items() if name not in {"counts", "tables"}}
    states = [(0, sources)] + ([] if grown is None else [(grown[0], sources | grown[1])])
    return ClusterHistory([
        {"ts_ms": at, "brokers": [], "topics": {
            name: {"id": name, "partitions": [{"p": p} for p in range(n)]}
            for name, n in topics.items()
        }}
        for at, topics in states
    ])  # fmt: skip


def generation(infos, *, settings=None, ends=10_000_000, owned=None, assignor=None, future=()):
    """A generation as the leader of a known application writes it; the first member leads."""
    end_offsets = {(log, p): ends for log, n in (("counts", 4), ("tables", 3)) for p in range(n)}
    sent = {name: encode_subscription_info(its) for name, its in infos.items()}
    for name, version in dict(future).items():  # nobody can write it yet: both versions, no more
        sent[name] = version.to_bytes(4, "big") * 2 + b"?"
    infos = {name: decode_subscription_info(data) for name, data in sent.items()}
    members = [build_member(n, i, owned=(owned or {}).get(n, ())) for n, i in infos.items()]
    app = StreamsApplication(TOPOLOGY, COUNTS, settings or AssignmentConfigs(), end_offsets)
    plan = compute_group_assignment(
        app, members, leader=members[0].process, now_ms=5_000, assignor=assignor
    )
    states = []
    for name in infos:
        its = plan.consumers[name]
        claims = tuple((topic, (p,)) for topic, p in (owned or {}).get(name, ()))
        given = assignment_info(its, plan.hosts, plan.standby_hosts)
        states.append(MemberState(
            name, None, f"app-{name}-StreamThread-1-consumer", "/1", 9, 9,
            Subscription(3, ("lines",), sent[name], claims),
            tuple((topic, (p,)) for topic, p in its.partitions), 3,
            encode_assignment_info(given), None,
        ))  # fmt: skip
    state = ClassicState("consumer", 2, "stream", next(iter(infos)), 5_000, tuple(states))
    return Generation(0, LogPosition(0, 1), 5_000, state, state, 1, 0, None), plan


RUNS = {(0, p): -2 for p in range(4)} | {(1, p): -2 for p in range(3)}
OWNS = [("lines", p) for p in range(4)] + [("words", p) for p in range(3)] + [("other", 0)]


def info(process, sums=(), **more):
    return SubscriptionInfo.of(process=process, offset_sums=dict(sums), **more)


def test_warm_ups_tell_that_lags_were_beyond() -> None:
    """A new client far behind gets warm-ups: that much lag is assumed, and said of which tasks."""
    found, plan = generation({"a": info(P1, RUNS), "b": info(P2)}, owned={"a": OWNS})
    assert len(plan.plan.warmups) == 2
    verdict = check_streams_agreement(found, world())
    assert verdict.agrees
    assert verdict.assumed == "num.standby.replicas 0; lags beyond acceptable.recovery.lag"
    more, _ = generation(
        {"a": info(P1, RUNS), "b": info(P2)}, owned={"a": OWNS},
        settings=AssignmentConfigs(max_warmup_replicas=3),
    )  # fmt: skip
    assert "max.warmup.replicas 3" in check_streams_agreement(more, world()).assumed


@pytest.mark.parametrize(("assignor", "version"), [(LegacySticky(), 11), (Release011(), 2)])
def test_other_assignors_are_recognized(assignor, version) -> None:
    """What high availability does not explain is asked of the others that such members can run."""
    sums = {"a": {(0, 0): -2, (0, 1): -2, (1, 0): -2}, "b": {(0, 2): -2, (1, 1): -2}, "c": {}}
    infos = {
        name: info(process, sums[name], version=version)
        for name, process in (("a", P1), ("b", P2), ("c", P3))
    }
    found, _ = generation(
        infos, assignor=assignor, settings=AssignmentConfigs(num_standby_replicas=1)
    )
    verdict = check_streams_agreement(found, world())
    assert (verdict.agrees, verdict.judged_by, verdict.exact) == (True, assignor.name, True)


def test_ends_that_could_not_be_read_are_recognized() -> None:
    """Then the leader falls back to keeping what is there, and probes again: its record shows it."""
    ends = StreamsApplication(TOPOLOGY, COUNTS, AssignmentConfigs(), None)
    members = {"a": info(P1, RUNS), "b": info(P2)}
    found, _ = generation(members, owned={"a": OWNS})
    plan = compute_group_assignment(
        ends, [build_member(n, i, owned=OWNS if n == "a" else ()) for n, i in members.items()],
        leader=ProcessId(0, 1), now_ms=5_000,
    )  # fmt: skip
    states = [
        replace(
            m,
            assigned=tuple((t, (p,)) for t, p in plan.consumers[m.id].partitions),
            assignment_user_data=encode_assignment_info(assignment_info(plan.consumers[m.id])),
        )
        for m in found.first.members
    ]
    verdict = check_streams_agreement(with_members(found, states), world())
    assert verdict.agrees
    assert "the ends of changelogs could not be read" in verdict.assumed


def test_a_topic_that_grew_unseen_is_the_named_cause() -> None:
    """The leader's metadata was behind: one partition of a source has no task in its plan."""
    found, _ = generation({"a": info(P1, RUNS), "b": info(P2)}, ends=5)
    verdict = check_agreement(found, world((4_000, {"plain": 4})))
    assert verdict.agrees is False
    assert "topic plain with 3 partitions, not 4" in (verdict.why or "")
    assert "behind" in (verdict.why or "")


def test_shutdown_and_probing_rounds_come_out() -> None:
    """A member asks all to stop, or is of a version to come: the leader's answer is reproduced."""
    before, _ = generation({"a": info(P1, RUNS), "b": info(P2, RUNS)}, ends=5)
    stop = {"a": info(P1, RUNS), "b": info(P2, error_code=4)}
    found, plan = generation(stop)
    assert plan.error
    verdict = check_streams_agreement(replace(found, previous=before), world())
    assert (verdict.agrees, verdict.why) == (True, None)
    members = {"a": info(P1, RUNS), "b": info(P2)}
    found, plan = generation(members, ends=5, future={"b": 12})
    assert not plan.stable
    assert check_streams_agreement(found, world()).agrees


def random_members(rng):
    """Up to five consumers of up to four clients; those of one client share its disk."""
    infos, owned, free, disks = {}, {}, list(RUNS), {}
    rng.shuffle(free)
    for n in range(rng.randint(1, 5)):
        mine = [free.pop() for _ in range(min(len(free), rng.randint(0, 3)))]
        process = bytes([*bytes(15), rng.randint(1, 4)])
        disk = disks.setdefault(process, {t: rng.randint(0, 900) for t in RUNS})
        sums = dict.fromkeys(mine, -2)
        sums |= {t: disk[t] for t in RUNS if rng.random() < 0.3 and t not in sums}
        end = f"h{process[-1]}:80" if rng.random() < 0.8 else None
        infos[f"c{n}"] = info(process, sums, endpoint=end)
        topics = {0: ("lines",), 1: ("words", "other")}
        owned[f"c{n}"] = [(t, p) for g, p in mine for t in topics[g] if p < COUNTS[t]]
    return infos, owned


def test_random_applications_come_out_of_their_own_records() -> None:
    """Through the bytes and back: whatever the standbys and lags, the plan is recognized, or it is
    said which topics no record has tasks for.
    """
    rng = random.Random(6)
    counts = Counter()
    for _ in range(25):
        infos, owned = random_members(rng)
        settings = AssignmentConfigs(num_standby_replicas=rng.randint(0, 2))
        ends = rng.choice([900, 10_000_000])
        found, _ = generation(infos, owned=owned, settings=settings, ends=ends)
        said = check_streams_agreement(found, world())
        assert said.agrees is not False, (said, infos, owned, settings)
        if said.agrees is None:
            assert "no record tells which tasks read" in said.why
            counts["unread"] += 1
            continue
        assert said.judged_by == "streams:high-availability"
        words = said.assumed or ""
        counts["beyond"] += "beyond" in words
        counts["longer"] += "lag more than others" in words
    assert counts["unread"] < 5
    assert counts["beyond"] > 4
    assert counts["longer"] > 0
