"""Is each recorded rebalance what its own strategy decides; and if not, is the cause named."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

from tests.support.captured import clusters, group_records
from tests.support.rebuilt import rebalances
from tests.support.simulated_histories import history, member, metadata, topics

from partage.history.agreement import UNEXPLAINED, Verdict, check_agreement
from partage.history.clusters import ClusterHistory
from partage.history.events import Generation


@cache
def verdicts() -> tuple[tuple[str, Generation, Verdict], ...]:
    return tuple(
        (group, found, check_agreement(found, clusters()))
        for group in group_records()
        for found in rebalances(group)
        if found.first.members
    )


def test_plans_of_java_leaders_come_out() -> None:
    """311 of the plans that Java leaders made are reproduced, 17 of them by an application of Kafka
    Streams; six are explained, none is not.
    """
    counted = [v for _, f, v in verdicts() if f.protocol == "classic" and v.counts]
    assert Counter(v.agrees for v in counted) == {True: 311, False: 6}
    streams = [v for v in counted if v.judged_by == "streams:high-availability"]
    assert Counter(v.agrees for v in streams) == {True: 17}
    whys = [v.why for v in counted if not v.agrees]
    assert UNEXPLAINED not in whys
    assert sum("metadata was" in (why or "") and "missing" in (why or "") for why in whys) == 5
    assert sum("lacked the rack of broker 2" in (why or "") for why in whys) == 1


def test_plans_of_other_leaders_come_out_by_their_dialects() -> None:
    """All 124 plans that librdkafka, kafka-python and aiokafka led are their libraries' own."""
    others = [
        v for _, f, v in verdicts()
        if f.protocol == "classic" and not v.counts and v.agrees is not None and not f.taken_over
    ]  # fmt: skip
    assert Counter(v.agrees for v in others) == {True: 124}
    assert all(v.judged_by for v in others)


def test_target_assignments_come_out() -> None:
    """Of 155 consumer and 40 share targets, 145 and 39 are reproduced, all others explained;
    and all of the streams group.
    """
    for protocol, agreed, others in (("consumer", 145, 10), ("share", 39, 1), ("streams", 14, 0)):
        mine = [v for _, f, v in verdicts() if f.protocol == protocol]
        assert Counter(v.agrees for v in mine) == Counter({True: agreed, False: others})
        for v in mine:
            if not v.agrees:
                assert v.why != UNEXPLAINED
                assert "share a bucket" in v.why or "after the coordinator saw it" in v.why


def test_a_plan_of_another_hand_is_the_one_of_the_epoch_before() -> None:
    """checkout-workers 31 was never decided by a leader: it is epoch 31 in classic form."""
    found = {(g, f.protocol, f.generation_number): v for g, f, v in verdicts() if f.taken_over}
    assert set(found) == {
        ("checkout-workers", "consumer", 15), ("checkout-workers", "classic", 31),
    }  # fmt: skip
    verdict = found["checkout-workers", "classic", 31]
    assert verdict.agrees
    assert verdict.judged_by == "consumer epoch 31"


def test_groups_that_cannot_be_asked_say_why() -> None:
    """Groups of Connect have a reason instead of a verdict."""
    reasons = {g: v.why for g, _, v in verdicts() if v.agrees is None}
    assert set(reasons) == {"connect-cluster-a"}
    assert all(reasons.values())


def test_a_spoilt_target_is_unexplained() -> None:
    """Two members with their targets swapped are no plan of anybody's: nothing is invented."""
    found = next(f for f in rebalances("clicks-v2") if len(f.first.members) == 3)
    assert found.target is not None
    ids = list(found.target.target)
    swapped = dict(found.target.target)
    swapped[ids[0]], swapped[ids[1]] = swapped[ids[1]], swapped[ids[0]]
    spoilt = replace(found, target=replace(found.target, target=swapped))
    verdict = check_agreement(spoilt, clusters())
    assert (verdict.agrees, verdict.why) == (False, UNEXPLAINED)


def test_spoilt_tasks_are_unexplained() -> None:
    """Nor are tasks of a streams group whose members were swapped: they do not pass for unknown."""
    found = next(f for f in rebalances("ship-join") if len(f.first.members) == 3)
    assert found.target is not None
    assert found.target.known
    one, other, *_ = found.target.target
    swapped = {**found.target.target, one: found.target.target[other],
               other: found.target.target[one]}  # fmt: skip
    verdict = check_agreement(
        replace(found, target=replace(found.target, target=swapped)), clusters()
    )
    assert (verdict.agrees, verdict.counts) == (False, True)


def test_targets_before_that_the_log_lacks_are_not_guessed() -> None:
    """Where the log begins later than the group, a disagreement says nothing of the assignor."""
    found = next(f for f in rebalances("clicks-v2") if f.generation_number == 3)
    assert found.target is not None
    assert check_agreement(found, clusters()).agrees
    # Neither is an agreement counted then, or all that are counted would agree.
    for before in ({}, dict(list(found.target.before.items())[:-1])):
        blind = replace(found, target=replace(found.target, before=before, known=False))
        verdict = check_agreement(blind, clusters())
        assert (verdict.agrees, verdict.counts) == (None, False)
        assert "begins later than the group" in (verdict.why or "")
    lucky = next(
        f for f in rebalances("clicks-v2")
        if f.target is not None and f.first.members and not f.target.before
    )  # fmt: skip
    assert lucky.target is not None
    assert check_agreement(lucky, clusters()).agrees
    assert (
        check_agreement(
            replace(lucky, target=replace(lucky.target, known=False)), clusters()
        ).agrees
        is None
    )


def test_what_a_leader_remembered_is_found() -> None:
    """A leader that went by what it had decided, not by what members claim, is named."""
    found = next(f for f in rebalances("clicks-sessionizer") if f.generation_number == 20)
    assert check_agreement(found, clusters()).agrees
    spoilt = tuple(
        replace(m, subscription=replace(m.subscription, owned=(), generation=-1, user_data=None))
        for m in found.first.members
    )
    verdict = check_agreement(
        replace(found, first=replace(found.first, members=spoilt)), clusters()
    )
    assert verdict.agrees is False
    assert verdict.why == "the leader went by its own assignment of generation 19"


def test_a_topic_that_has_grown_since_is_named() -> None:
    """A capture that was taken late has the metadata of its own time: the plan fits less of it."""
    found = history((1_000, [member("a", (0, 1, 2)), member("b", (3, 4, 5))]))[0]
    late = ClusterHistory([metadata(0, t=16) | {"assumed": True}, metadata(9_000, t=16)])
    said = check_agreement(found, late)
    assert said.agrees is False
    assert check_agreement(found, topics(t=16)).why == UNEXPLAINED, (
        "the metadata was recorded: it had 16"
    )
    assert "topic t had 6 partitions, not 16" in (said.why or "")
    assert check_agreement(found, topics(t=6)).agrees is True


def judged_go_plan(*shares: tuple[int, ...]) -> Verdict:
    """The verdict on a plan of six partitions that a leader with franz-go's default client id made."""
    members = [member(name, own, client="kgo") for name, own in zip("ab", shares, strict=True)]
    found = history((1_000, members))[0]
    sticky = replace(found.first, strategy="sticky")
    return check_agreement(replace(found, first=sticky), topics(t=6))


def test_a_sticky_plan_of_a_go_leader_is_consistent_or_wrong_but_never_equal() -> None:
    """Go's map order decides ties: only validity, loads and moves are compared with Java's."""
    even = judged_go_plan((0, 2, 5), (1, 3, 4))
    assert even.agrees is None
    assert even.judged_by == "franz-go:sticky"
    assert (even.why or "").startswith("consistent: ")
    uneven = judged_go_plan((0, 1, 2, 3), (4, 5))
    assert uneven.agrees is False
    assert (uneven.why or "").startswith("loads 2 to 4 and 0 moved partitions, 3 to 3 and 0")
    assert judged_go_plan((0, 1, 2), (4, 5)).agrees is False


def test_a_range_plan_of_a_go_leader_is_compared_with_its_dialect() -> None:
    """The default client id selects the dialect."""
    members = [member("a", (0, 1), client="sarama"), member("b", (2,), client="sarama")]
    verdict = check_agreement(history((1_000, members))[0], topics(t=3))
    assert (verdict.agrees, verdict.judged_by) == (True, "sarama:range")
