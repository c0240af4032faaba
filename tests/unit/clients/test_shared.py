"""The core of the plug-ins: what is sent, decided and remembered, from bytes to bytes."""

from __future__ import annotations

import random

import pytest

from partage import kernels
from partage.clients.shared import Consumer, Joined, configure_strategy
from partage.clients.shared.loads import Loads
from partage.errors import AssignorFailedError, InvalidConfigError
from partage.groups import registry
from partage.groups.api import PlainStrategy
from partage.wire.consumer_protocol import (
    ConsumerSubscription,
    decode_assignment,
    encode_sticky_user_data,
    encode_subscription,
)
from partage.wire.member_extras import Extras, append_trailer, split_trailer
from unit.clients.groups_of_ours import Live, sent, view

# Faust's members send what only Faust's workers know; share groups are the broker's.
EAGER = [
    n
    for n in registry.strategies_to_compare()
    if not n.startswith("faust") and n != "server:simple"
]


def test_a_subscription_is_what_java_s_consumer_sends() -> None:
    """Version 3, topics sorted, the generation, the rack; owned partitions under COOPERATIVE only."""
    one = Consumer(configure_strategy("sticky", {}), rack="r1")
    one.store_assignment([("t", 1), ("t", 0)], None, 7)
    said = sent(one, ["u", "t"])
    assert (said.version, said.topics, said.generation, said.rack) == (3, ("t", "u"), 7, "r1")
    assert said.owned == ()
    assert said.user_data == encode_sticky_user_data([("t", 1), ("t", 0)], 7)
    keeps = Consumer(configure_strategy("cooperative-sticky", {}))
    keeps.store_assignment([("t", 1), ("gone", 0)], None, 7)
    said = sent(keeps, ["t"], cooperative=True)
    assert said.owned == (("t", 1),)
    assert said.user_data == (7).to_bytes(4, "big")


@pytest.mark.parametrize("name", EAGER)
def test_every_strategy_leads_and_hands_out_every_partition(name: str) -> None:
    """Each of the registry assigns everything to members that give all up before they join."""
    live = Live(view({"t": 7, "u": 4}))
    for member in "abc":
        live.join(member, name)
    everything = {("t", p) for p in range(7)} | {("u", p) for p in range(4)}
    for _ in range(3):
        given = live.rebalance()
        assert sorted(p for mine in given.values() for p in mine) == sorted(everything)
    del live.consumers["a"]
    given = live.rebalance()
    assert sorted(p for mine in given.values() for p in mine) == sorted(everything)


@pytest.mark.parametrize("name", ["sticky", "optimal", "server:uniform"])
def test_stickiness_survives_giving_everything_up(name: str) -> None:
    """A rebalance without a cause moves nothing under any leader; one that leaves frees its own."""
    live = Live(view({"t": 12}))
    for member in "abcd":
        live.join(member, name)
    first = live.rebalance()
    assert live.rebalance(leader="c") == first
    del live.consumers["b"]
    after = live.rebalance(leader="d")
    assert all(first[m] <= after[m] for m in "acd")


def test_fail_over_takes_back_or_not_by_option() -> None:
    """With preemption the higher priority has everything when it comes; without, the incumbent."""
    for preemption in (True, False):
        live = Live(view({"t": 3}))
        live.join("low", "failover", priority=1, preemption=preemption)
        assert len(live.rebalance()["low"]) == 3
        live.join("high", "failover", priority=9, preemption=preemption)
        given = live.rebalance()
        assert len(given["high" if preemption else "low"]) == 3


def test_the_trailer_hides_behind_the_documented_four_bytes() -> None:
    """A reader of the documented fail-over format sees the priority first, whatever follows."""
    one = Consumer(configure_strategy("failover", {"priority": 5, "preemption": False}))
    one.store_assignment([("t", 0)], None, 3)
    data = sent(one, ["t"]).user_data
    assert data[:4] == (5).to_bytes(4, "big")
    assert split_trailer(data)[1].claims == (("t", 0),)
    plain = Consumer(configure_strategy("failover", {"priority": 5}))
    plain.store_assignment([("t", 0)], None, 3)
    assert sent(plain, ["t"]).user_data == (5).to_bytes(4, "big")


def test_no_trailer_makes_a_reader_stumble() -> None:
    """Cut, lengthened and changed trailers are read, or taken for the strategy's own bytes."""
    chance = random.Random(3)
    whole = append_trailer(b"own", Extras((("t", 1),), 4, {("t", 1): 2.5}, {("t", 1): 2.0}))
    for _ in range(5000):
        data = bytearray(whole[chance.randrange(len(whole)) :])
        for _ in range(chance.randrange(4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        own, extras = split_trailer(bytes(data))
        assert extras is not None or own == bytes(data)


def test_garbage_gets_a_fair_share_and_one_warning() -> None:
    """Unreadable claims, claims of what is not there and of a time to come hurt nobody."""
    for junk in (
        b"\xff" * 40,
        encode_sticky_user_data([("t", 99)], 1),
        encode_sticky_user_data([("t", 0)], 2**31 - 1),
    ):
        live = Live(view({"t": 9}))
        for member in "abc":
            live.join(member, "sticky")
        first = live.rebalance()
        live.consumers["c"].strategy = _Says(junk)
        after = live.rebalance()
        assert {m: len(mine) for m, mine in after.items()} == {"a": 3, "b": 3, "c": 3}
        assert after["a"] == first["a"]
        assert after["b"] == first["b"]
        assert [w for w in live.answer.warnings if w.startswith("c ")] == list(live.answer.warnings)
        assert len(live.answer.warnings) == 1
        live.rebalance()
        assert live.answer.warnings == ()


@pytest.mark.parametrize(
    "junk",
    [
        encode_subscription(["t"], owned=[("t", p) for p in range(6)], generation=2**31 - 1),
        ConsumerSubscription(("t",), b"\x7f\xff\xff\xff", tuple(("t", p) for p in range(6))),
        ConsumerSubscription(("t",), b"\x01", (("t", 9),)),
        encode_subscription(["t"], owned=[("t", 0)], generation=1, user_data=b"\xff" * 50),
    ],
)
def test_garbage_in_a_cooperative_group_hurts_nobody(junk) -> None:
    """Generations of a time to come, in the subscription or in the user data, and bytes that say
    nothing: the others keep what they had but for its fair share, and one warning names it.
    """
    lead = Consumer(configure_strategy("cooperative-sticky", {}))
    mine = {"a": range(3), "b": range(3, 6)}
    good = [
        Joined(m, encode_subscription(["t"], owned=[("t", p) for p in has], generation=4,
                                      user_data=(4).to_bytes(4, "big"))) for m, has in mine.items()
    ]  # fmt: skip
    answer = lead.assign([*good, Joined("z", junk)], view({"t": 6}), group="g", generation=5)
    kept = {m: {p for _, p in decode_assignment(d).partitions} for m, d in answer.sent.items()}
    assert all(len(kept[m]) == 2 and kept[m] <= set(has) for m, has in mine.items())
    assert len(answer.warnings) == 1
    assert answer.warnings[0].startswith("z ")


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_who_claims_everything_gets_its_share_only(name) -> None:
    """All six partitions, in the very generation in which the leader gave them to others: the
    others keep theirs but for its share, and one warning names it.
    """
    lead = Consumer(configure_strategy(name, {}))
    kept = name == "cooperative-sticky"

    def said(member: str, has, of: int) -> Joined:
        data = of.to_bytes(4, "big", signed=True) if kept else encode_sticky_user_data(has, of)
        owned = has if kept else ()
        return Joined(
            member, encode_subscription(["t"], owned=owned, generation=of, user_data=data)
        )

    def given(answer) -> dict[str, set[tuple[str, int]]]:
        return {m: set(decode_assignment(d).partitions) for m, d in answer.sent.items()}

    first = lead.assign([said(m, [], -1) for m in "ab"], view({"t": 6}), group="g", generation=4)
    mine = given(first)
    liar = said("z", [("t", p) for p in range(6)], 4)
    again = [*(said(m, sorted(has), 4) for m, has in mine.items()), liar]
    answer = lead.assign(again, view({"t": 6}), group="g", generation=5)
    after = given(answer)
    assert all(len(after[m]) == 2 and after[m] <= mine[m] for m in "ab")
    assert len(answer.warnings) == 1
    assert answer.warnings[0].startswith("z claims t-0, which ")


@pytest.mark.parametrize("name", ["range", "roundrobin", "optimal", "server:uniform"])
def test_unreadable_user_data_gives_one_warning(name) -> None:
    """User data where a strategy has none: a fair share, and one warning that names the member."""
    lead = Consumer(configure_strategy(name, {}))
    sent = [Joined(m, encode_subscription(["t"])) for m in "ab"]
    junk = Joined("z", encode_subscription(["t"], user_data=b"\xff" * 9))
    for warned in (1, 0):
        answer = lead.assign([*sent, junk], view({"t": 6}), group="g", generation=5)
        assert [len(one) for one in answer.plan.to_pairs().values()] == [2, 2, 2]
        assert len(answer.warnings) == warned
        assert all(one.startswith("z sent 9 bytes") for one in answer.warnings)


class _Says(PlainStrategy):
    name = "sticky"

    def __init__(self, data: bytes) -> None:
        self.data = data

    def subscription_user_data(self, topics, memory=None) -> bytes:
        return self.data


def test_a_subscription_from_the_future_is_read_as_the_newest_known() -> None:
    """Version 9 with fields of tomorrow: what version 3 has counts, the rest is passed over."""
    tomorrow = b"\0\x09" + encode_subscription(["t"], rack="r")[2:] + b"fields of tomorrow"
    one = Consumer(configure_strategy("range", {}))
    answer = one.assign(
        [Joined("new", tomorrow), Joined("old", one.subscription(["t"]))], view({"t": 4})
    )
    assert {m: len(decode_assignment(d).partitions) for m, d in answer.sent.items()} == {
        "new": 2,
        "old": 2,
    }


def test_bytes_that_are_no_subscription_get_nothing_and_a_warning() -> None:
    """The others go on; a member that cannot be read subscribes to nothing."""
    one = Consumer(configure_strategy("roundrobin", {}))
    answer = one.assign(
        [Joined("junk", b"\x00"), Joined("good", one.subscription(["t"]))], view({"t": 4})
    )
    assert len(decode_assignment(answer.sent["good"]).partitions) == 4
    assert answer.warnings == ("junk subscribes to nothing, or its subscription is unreadable",)


def test_a_strategy_that_raises_is_named_with_group_and_generation() -> None:
    """Whatever it raises comes out as one kind of error, the cause behind it."""

    class Broken(PlainStrategy):
        name = "broken"

        def assign(self, problem, memory=None):
            raise ZeroDivisionError("oh")

    one = Consumer(Broken())
    with pytest.raises(AssignorFailedError) as caught:
        one.assign(
            [Joined("a", one.subscription(["t"]))], view({"t": 1}), group="billing", generation=4
        )
    assert (caught.value.strategy, caught.value.group, caught.value.generation) == (
        "broken",
        "billing",
        4,
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_nothing_is_compiled_where_heartbeats_wait() -> None:
    """A leader's plan of a size that would pay for compiling runs interpreted all the same."""
    ready = {k for k in kernels._all if k.is_compiled}
    one = Consumer(configure_strategy("sticky", {}))
    topics = {f"t{i}": 400 for i in range(10)}
    answer = one.assign(
        [Joined(f"c{i}", one.subscription(list(topics))) for i in range(20)], view(topics)
    )
    assert len(answer.sent) == 20
    assert {k for k in kernels._all if k.is_compiled} == ready


def test_an_assignment_beyond_all_bounds_takes_no_memory() -> None:
    """A hostile leader's partition 2147483647 is no list of two billion entries."""
    one = Consumer(configure_strategy("sticky", {}))
    one.store_assignment(
        [("t", 2**31 - 1), ("t", 2), ("u", 15_999_999), ("v", 15_999_999)], None, 1
    )
    assert len(one.subscription(["t"])) < 100


def test_options_say_what_there_is() -> None:
    """A wrong option names those that the strategy has."""
    with pytest.raises(InvalidConfigError, match="priority, priority_by_topic, preemption"):
        configure_strategy("failover", {"prio": 1})
    assert configure_strategy("failover", {"priority_by_topic": {"t": 4}}).topic_priority == {
        "t": 4
    }
    assert configure_strategy("failover", {"assignment.consumer.priority": 4}).priority == 4


def _weighted(members: str) -> Live:
    live = Live(view({"t": 12}))
    for member in members:
        live.consumers[member] = Consumer(configure_strategy("optimal", {}), loads=Loads())
    return live


def _hottest(given: dict[str, set[tuple[str, int]]], load: dict[int, float]) -> float:
    by_member = [sum(load[p] for _, p in mine) for mine in given.values()]
    return max(by_member) / sum(by_member)


def test_learnt_weights_cool_the_hottest_member_and_then_hold_still(capsys) -> None:
    """On a skewed topic the hottest member's share falls near a third; noise then moves nothing."""
    load = {p: 1000.0 / (p + 1) ** 1.2 for p in range(12)}
    chance = random.Random(5)
    live = _weighted("abc")
    before = _hottest(live.rebalance(), load)
    live.measure = lambda _, p: load[p] * chance.uniform(0.9, 1.1)
    settled = live.rebalance()
    after = _hottest(settled, load)
    print(f"hottest member's share: {before:.3f} by counts, {after:.3f} by learnt weights")
    assert after < before
    assert after < 0.40  # the heaviest partition alone is 0.386 of all
    for turn in range(40):
        # Another leader each time: what is held still travels with the members.
        assert live.rebalance(leader="abc"[turn % 3]) == settled


def test_nobody_can_make_another_s_partitions_heavy() -> None:
    """A member's word counts for the partitions that it claims."""
    live = _weighted("ab")
    live.rebalance()
    liar = live.consumers["b"]
    measured = {("t", p): 1e12 for p in range(12) if ("t", p) not in liar.owned}
    joined = [
        Joined("a", live.consumers["a"].subscription(["t"])),
        Joined("b", liar.subscription(["t"], measured=measured)),
    ]
    live.consumers["a"].assign(joined, live.view, generation=2)
    assert live.consumers["a"].loads.weights == {}
