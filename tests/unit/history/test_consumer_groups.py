"""Epochs of consumer, share and streams groups, rebuilt from the recorded cluster."""

from __future__ import annotations

from collections import Counter

from tests.support.captured import group_records, lines
from tests.support.rebuilt import rebalances, rebuilt

from partage.history.events import CurrentAssignment, Generation, LifecycleEvent
from partage.history.records import assigned_partitions
from partage.jobs.replay.group_rows import member_row


def test_every_target_assignment_is_a_rebalance() -> None:
    """155 consumer, 40 share (32 epochs, one group recorded twice) and 14 streams assignments."""
    found = [f for g in group_records() for f in rebalances(g)]
    assert Counter(f.protocol for f in found) == {
        "classic": 479, "consumer": 155, "share": 40, "streams": 14,
    }  # fmt: skip
    share = {
        (g, f.generation_number)
        for g in group_records()
        for f in rebalances(g)
        if f.protocol == "share"
    }
    assert len(share) == 32
    assert {f.incarnation for f in rebalances("work-queue-2")} == {0, 1}


def test_the_last_target_is_what_the_admin_api_described() -> None:
    """Members and targets of all consumer and share groups at the end equal the description."""
    checked = 0
    for described in lines("describe.jsonl"):
        if described["type"] not in ("Consumer", "Share"):
            continue
        last = rebalances(described["group"])[-1]
        wanted = {
            m["member"]: {(t, p) for t, ps in m.get("target", m["assignment"]).items() for p in ps}
            for m in described["members"]
        }
        assert {m.id: set(assigned_partitions(m)) for m in last.last.members} == wanted
        assert last.generation_number == described["target_epoch"]
        checked += len(wanted)
    assert checked == 24


def test_what_members_hold_at_the_end_is_what_was_described() -> None:
    """The newest current assignment of each member equals the described one."""
    checked = 0
    for described in lines("describe.jsonl"):
        if described["type"] not in ("Consumer", "Share"):
            continue
        held = {
            f.member: f for f in rebuilt(described["group"])[1] if isinstance(f, CurrentAssignment)
        }
        for m in described["members"]:
            wanted = {(t, p) for t, ps in m["assignment"].items() for p in ps}
            parts = held[m["member"]].parts
            assert {(t, p) for role, _, t, p in parts if role == "owner"} == wanted
            checked += 1
    assert checked == 24


def test_tasks_of_a_streams_group_have_roles() -> None:
    """Active, standby and warm-up tasks at the end are those that were described."""
    described = next(d for d in lines("describe.jsonl") if d["group"] == "ship-join")
    last = rebalances("ship-join")[-1]
    assert last.target is not None
    for m in described["members"]:
        roles = {role: dict(tasks) for role, tasks in last.target.target[m["member"]]}
        for role in ("active", "standby", "warmup"):
            wanted = {s: tuple(ps) for s, ps in m[f"target_{role}"].items()}
            assert {s: tuple(sorted(ps)) for s, ps in roles[role].items()} == wanted
    assert {topic for topic, _ in last.first.members[0].assigned} <= {
        "ship-views", "ship-prices", "ship-join-right-repartition",
        *(t for m in last.first.members for t in m.subscription.topics),
    }  # fmt: skip


def test_a_regular_expression_is_resolved() -> None:
    """A member that sent a pattern has the topics that matched at the time of each epoch."""
    by_number = {f.generation_number: f for f in rebalances("regex-watch")}
    topics = set(by_number[2].first.members[0].subscription.topics)
    assert {"growing-topic", "tmp.doomed", "keyed.java"} <= topics
    assert len(topics) == 8
    pattern = "(growing-topic|tmp.doomed|keye.*)"
    sent = [m for f in by_number.values() for m in f.first.members]
    assert {m.subscription.pattern for m in sent} == {pattern}
    state = by_number[2].first
    assert member_row(state.members[0], state)["pattern"] == pattern
    gone = [
        f for f in by_number.values() if "tmp.doomed" not in f.first.members[0].subscription.topics
    ]
    assert gone, "between its deletion and its second life the topic matches nothing"


def test_a_migration_is_one_history() -> None:
    """Classic to consumer and back: numbers go on, members stay, nobody decided anything."""
    found = rebuilt("checkout-workers")[1]
    gens = [f for f in found if isinstance(f, Generation)]
    lives = [f.detail for f in found if isinstance(f, LifecycleEvent) and f.what == "migrated"]
    assert lives == ["classic to consumer", "consumer to classic"]
    taken = [(f.protocol, f.generation_number) for f in gens if f.taken_over]
    assert taken == [("consumer", 15), ("classic", 31)]
    assert len({f.incarnation for f in gens}) == 1
    for f in gens:
        if f.taken_over:
            assert f.previous is not None
            assert f.previous.generation_number == f.generation_number
            assert [c.kind for c in f.causes] == ["migration"]
    assert not any(f.gap_before for f in gens)


def test_a_static_member_that_comes_back_is_no_rebalance() -> None:
    """A static member that leaves for a while and returns takes over: no new epoch."""
    events = [f for f in rebuilt("pos-terminals")[1] if not isinstance(f, Generation)]
    away = [e for e in events if getattr(e, "event", "") == "away"]
    back = [e for e in events if getattr(e, "event", "") == "restart"]
    assert away
    assert back
    for e in back:
        number = e.generation
        owner = next(f for f in rebalances("pos-terminals") if f.generation_number == number)
        assert e.member in {m.id for m in owner.last.members} | {
            m.id for f in rebalances("pos-terminals") for m in f.first.members
        }
