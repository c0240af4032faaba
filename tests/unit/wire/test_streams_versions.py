"""Version probing, played through the bytes: releases side by side, upgrades, downgrades, errors."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from partage.errors import WireFormatError
from partage.wire.record_json import subscription_json
from partage.wire.streams.assignment_info import (
    AssignmentInfo,
    decode_assignment_info,
    encode_assignment_info,
)
from partage.wire.streams.subscription_info import (
    SubscriptionInfo,
    decode_subscription_info,
    encode_subscription_info,
)
from partage.wire.streams.versions import (
    group_versions,
    next_version,
)


@dataclass
class Release:
    """A member of a release that knows versions up to ``latest`` and now sends ``used``."""

    latest: int
    used: int
    error_code: int = 0

    def says(self):
        """The user data of its subscription."""
        info = SubscriptionInfo.of(
            process=bytes(16),
            version=self.used,
            latest_version=self.latest,
            offset_sums={(0, 1): -2},
            error_code=self.error_code,
        )
        return encode_subscription_info(info)


def answer_of(seen, latest):
    """The leader's reply without tasks: versions alone, or the error code."""
    if seen.error_code:
        return AssignmentInfo(latest, latest, error_code=seen.error_code)
    return AssignmentInfo(seen.used, seen.common)


def rebalance(members, leader):
    """One round through the bytes: who joins again, and what the leader saw."""
    latest = members[leader].latest
    read = [decode_subscription_info(one.says(), latest=latest) for one in members]
    seen = group_versions(read, latest=latest)
    answer = encode_assignment_info(answer_of(seen, latest))
    rejoin = []
    for member in members:
        heard = decode_assignment_info(answer, latest=member.latest)
        after = next_version(heard, used=member.used, latest=member.latest)
        member.used = after.version
        member.error_code = after.error_code
        rejoin.append(after.rejoin)
    return seen, rejoin


def settle(members, leader):
    """Rebalance until nobody joins again: what the leader saw each time."""
    rounds = []
    while len(rounds) < 6:
        seen, rejoin = rebalance(members, leader)
        rounds.append(seen)
        if not any(rejoin):
            return rounds
    pytest.fail(f"no end: {rounds}")


@pytest.mark.parametrize("leader", [0, 1])
def test_a_new_member_among_old_ones_comes_down(leader):
    """It sends 11, hears 9, sends 9 at once; an old leader takes it for a future one till then."""
    members = [Release(9, 9), Release(11, 11), Release(9, 9)]
    rounds = settle(members, leader)
    assert [one.used for one in members] == [9, 9, 9]
    assert len(rounds) == 2
    assert [one.future for one in rounds] == ([(1,), ()] if leader == 0 else [(), ()])
    assert {(one.used, one.common, one.error_code) for one in rounds} == {(9, 9, 0)}


def test_the_last_upgrade_takes_all_up():
    """When the last old member comes back new, one more rebalance, and all use 11."""
    members = [Release(11, 8), Release(11, 8), Release(11, 11)]
    seen, rejoin = rebalance(members, leader=0)
    assert (seen.used, seen.common, seen.is_version_probe) == (8, 11, False)
    assert rejoin == [True, True, True]
    assert [one.used for one in members] == [11, 11, 11]
    assert rebalance(members, leader=0)[1] == [False, False, False]


@pytest.mark.parametrize("old", [1, 2])
@pytest.mark.parametrize("leader", [0, 1])
def test_versions_that_cannot_be_probed(old, leader):
    """A future member beside version 1 or 2: code 3 for all; a new leader just speaks the old."""
    members = [Release(5, 5), Release(11, 11), Release(5, old)]
    seen, rejoin = rebalance(members, leader)
    assert not any(rejoin)
    if leader == 0:
        assert seen.error_code == 3
        assert not seen.is_version_probe
        assert [one.error_code for one in members] == [3, 3, 3]
        assert [one.used for one in members] == [5, 11, old]
    else:
        assert (seen.used, seen.error_code) == (old, 0)
        assert [one.used for one in members] == [5, 11, old]


def test_an_error_of_a_newer_leader_is_not_read_by_an_older_member():
    """The answer of code 3 has the leader's own version, 11, as in Kafka: version 5 refuses it."""
    answer = encode_assignment_info(AssignmentInfo(11, 11, error_code=3))
    assert decode_assignment_info(answer).error_name == "ASSIGNMENT_ERROR"
    with pytest.raises(WireFormatError, match=r"version \(version 11\)"):
        decode_assignment_info(answer, latest=5)


def test_one_member_asks_and_all_shut_down():
    """Error code 4 in a subscription comes back to everybody; not from one that cannot be read."""
    members = [Release(11, 11), Release(11, 11, error_code=4)]
    seen, rejoin = rebalance(members, leader=0)
    assert seen.error_code == 4
    assert [one.error_code for one in members] == [4, 4]
    assert not any(rejoin)
    members = [Release(9, 9), Release(11, 11, error_code=4)]
    assert rebalance(members, leader=0)[0].error_code == 0


def test_random_groups_settle_on_the_lowest_latest_version():
    """Any mixture that can be probed: three rebalances at most, everybody at the lowest latest."""
    rng = random.Random(268)
    for _ in range(300):
        latest = [rng.randrange(3, 12) for _ in range(rng.randrange(1, 7))]
        members = [Release(one, rng.randrange(3, one + 1)) for one in latest]
        rounds = settle(members, rng.randrange(len(members)))
        # A leader of its own accord answers in no version above its own: all come down to it.
        assert {one.used for one in members} == {min(latest)}
        assert len(rounds) <= 3
        assert all(one.error_code == 0 for one in rounds)


def test_a_future_member_is_its_two_numbers():
    """Nothing else of it is read: no tasks, no process, no end point, and no error if there is
    nothing else.
    """
    data = (12).to_bytes(4, "big") + (14).to_bytes(4, "big") + b"\xff" * 30
    info = decode_subscription_info(data)
    assert info == SubscriptionInfo(12, 14)
    assert info.is_future()
    assert (info.endpoint, len(info.offset_sums), info.process) == (None, 0, bytes(16))
    assert decode_subscription_info(data[:8]) == info
    for damaged in (data[:7], (12).to_bytes(4, "big") * 1 + (11).to_bytes(4, "big")):
        with pytest.raises(WireFormatError):
            decode_subscription_info(damaged)


def test_a_rolling_upgrade_from_release_1_by_way_of_upgrade_from():
    """Pinned to 2 among members of version 2 nobody fails; unpinned one after another, all go up."""
    pinned = 2  # `upgrade.from=1.1`
    members = [Release(2, 2), Release(11, pinned)]
    for leader in (0, 1):
        seen, rejoin = rebalance(members, leader)
        assert (seen.used, seen.error_code, rejoin) == (2, 0, [False, False])
    members = [Release(11, pinned), Release(11, 11)]
    assert len(settle(members, 0)) == 1
    members[0].used = 11
    assert len(settle(members, 1)) == 1
    assert [one.used for one in members] == [11, 11]


def test_answers_that_a_member_refuses():
    """A version above the one it used, or a common one above what it supports."""
    for answer in (AssignmentInfo(9, 9), AssignmentInfo(8, 12)):
        with pytest.raises(WireFormatError):
            next_version(answer, used=8, latest=11)


def test_two_versions_of_the_far_future_are_json():
    """A version beyond int16, which no layout has, shows the two versions as any later one does."""
    highest = 2**31 - 1
    data = highest.to_bytes(4, "big") * 2
    assert subscription_json(data) == {"version": highest, "latestSupportedVersion": highest}
