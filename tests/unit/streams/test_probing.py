"""Version probing from end to end (KIP-268): members' bytes, the leader's plan, bytes, the members."""

from __future__ import annotations

import pytest

from partage.streams import (
    AssignmentConfigs,
    StreamsApplication,
    StreamsMember,
    Subtopology,
    Topology,
    compute_group_assignment,
)
from partage.streams.member_assignments import (
    NextRebalance,
    StreamsMemberAssignment,
    assignment_info,
    build_member,
    on_assignment,
)
from partage.wire.streams.assignment_info import decode_assignment_info, encode_assignment_info
from partage.wire.streams.subscription_info import (
    SubscriptionInfo,
    decode_subscription_info,
    encode_subscription_info,
)

APP = StreamsApplication(Topology([Subtopology(0, ("lines",))]), {"lines": 4}, AssignmentConfigs())


def sent(number: int, used: int, latest: int) -> bytes:
    """A member's subscription; one of a version to come shows its versions only."""
    if used > 11:
        return used.to_bytes(4, "big") + latest.to_bytes(4, "big") + b"?"
    process = bytes([*bytes(15), number + 1])
    subscription = SubscriptionInfo.of(process=process, version=used, latest_version=latest)
    return encode_subscription_info(subscription)


def one_round(members: list[tuple[int, int]]) -> tuple[list[NextRebalance], set[int], bool]:
    """(used, latest) of each member: what each does next, versions of the answers, whether all rest."""
    joined: list[StreamsMember] = [
        build_member(f"c{n}", decode_subscription_info(sent(n, *one)))
        for n, one in enumerate(members)
    ]
    leader = next(one.process for one in joined if one.version <= 11)
    answer = compute_group_assignment(APP, joined, leader=leader, now_ms=0)
    after, versions = [], set()
    for n, (used, _) in enumerate(members):
        its = answer.consumers[f"c{n}"]
        heard = decode_assignment_info(encode_assignment_info(assignment_info(its)))
        versions.add(heard.version)
        said = StreamsMemberAssignment(
            version=heard.version,
            common_version=heard.common_version,
            next_rebalance_ms=heard.next_rebalance_ms,
        )
        after.append(on_assignment(said, version=used))
    return after, versions, answer.stable


def test_a_new_leader_speaks_as_the_old_members_do() -> None:
    """Members of 9 and one of 11: all hear 9, the newer one comes down and joins again at once."""
    after, versions, stable = one_round([(11, 11), (9, 9), (9, 9)])
    assert versions == {9}
    assert [(one.version, one.rebalance_ms == 0) for one in after] == [
        (9, True), (9, False), (9, False),
    ]  # fmt: skip
    assert stable
    # With everybody down it is quiet; when the last old one is gone, all go up.
    after, versions, _ = one_round([(9, 11), (9, 9), (9, 9)])
    assert (versions, {one.rebalance_ms for one in after}) == ({9}, {2**63 - 1})
    after, versions, _ = one_round([(9, 11), (9, 11), (11, 11)])
    assert versions == {9}
    assert [(one.version, one.rebalance_ms) for one in after] == [(11, 0)] * 3
    assert one_round([(11, 11)] * 3)[1] == {11}


def test_an_old_leader_counts_a_member_that_it_cannot_read() -> None:
    """A member of 12 beside ours of 11: it gets tasks and 11, joins again with that; the round is none."""
    after, versions, stable = one_round([(11, 11), (12, 12)])
    assert (versions, stable) == ({11}, False)
    assert [(one.version, one.rebalance_ms == 0) for one in after] == [(11, False), (11, True)]
    assert one_round([(11, 11), (11, 12)])[2]


@pytest.mark.parametrize("old", [1, 2])
def test_one_of_version_1_or_2_beside_a_future_one_is_a_dead_end(old: int) -> None:
    """Such a member cannot change its version: every member gets code 3."""
    joined = [
        build_member("c0", decode_subscription_info(sent(0, old, -1))),
        build_member("c1", decode_subscription_info(sent(1, 12, 12))),
    ]
    answer = compute_group_assignment(APP, joined, leader=joined[0].process, now_ms=0)
    assert {one.error_code for one in answer.consumers.values()} == {3}
    assert f"one of version {old}" in (answer.error or "")
