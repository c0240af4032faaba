"""Verification of two claims: a plan has the most even loads, or the fewest moves.

The measure "avoidable moves" rests on these two claims (`measures.add_optimum`). The certificate
of a plan of strategy `optimal` is verified in `plan_certificate`.

The judge need not know how a claim was found. A claim consists of a plan, which shows that the
value can be reached, and a few integers (dual variables), from which a bound for every valid plan
follows by the arguments below (linear programming duality). A claim whose value equals its bound is
proven; any other claim raises `CertificateError`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.errors import CertificateError
from partage.judge.facts import Facts
from partage.judge.ownership import PreviousOwners

__all__ = [
    "ClaimedBest",
    "ClaimedFewest",
    "check_integers",
    "check_valid_plan",
    "count_moves",
    "even_loads_of_equal_members",
    "fewest_moves_of_equal_members",
    "is_majorised",
    "verify_load_certificate",
    "verify_moves_certificate",
]

# Beyond this a price is no price but damage, and sums of prices could overflow.
_HIGHEST_PRICE = 1 << 31


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedBest:
    """A plan that is claimed to be the most even one, with numbers (a certificate) that prove it.

    A plan assigns partitions to members. "Most even" means that the largest number of partitions of
    a member is as small as possible, then the second largest, and so on.

    Attributes:
        owner: int[partitions], the plan: index of each partition's owner in the group, -1 for none.
        topic_level: int[topics], the certificate: one level per topic, see
            `verify_load_certificate`.
    """

    owner: NDArray[np.integer]
    topic_level: NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedFewest:
    """A plan that is claimed to have the fewest moves, with numbers (a certificate) that prove it.

    A plan assigns partitions to members; a move is a partition that changes owner. The plan is
    compared with all plans that are at least as even.

    Attributes:
        owner: int[partitions], the plan: index of each partition's owner in the group, -1 for none.
        price: int[members], the certificate: a dual price per member, see
            `verify_moves_certificate`.
    """

    owner: NDArray[np.integer]
    price: NDArray[np.integer]


# The bound: let A be the topics with a level above k, and N the members that subscribe to one of
# them. Only these members may own partitions of A. So the load above k, summed over all members, is
# at least partitions(A) - k * size(N).
def verify_load_certificate(group_arrays: Facts, claim: ClaimedBest) -> NDArray[np.int64]:
    """Verify that a claimed plan has the most even loads possible, and return these loads.

    A plan assigns each partition to a member. The load of a member is its number of partitions. The
    certificate has a number for each topic, from which lower bounds follow. A plan that meets these
    bounds has the smallest possible largest load and sum of squares.

    Args:
        group_arrays: the members' subscriptions and the partitions, as arrays.
        claim: the plan and its certificate.

    Returns:
        The number of partitions of each member (int64[members]).

    Raises:
        CertificateError: the plan is not valid, or does not meet the bound; says where.

    >>> from partage.model import Cluster, Group, Member, Problem
    >>> group = Group([Member("x", ["a", "b"]), Member("y", ["b"])])
    >>> facts = Facts(Problem(group, Cluster.from_topics({"a": 3, "b": 1})))
    >>> claim = ClaimedBest(owner=np.array([0, 0, 0, 1]), topic_level=np.array([3, 1]))
    >>> verify_load_certificate(facts, claim).tolist()
    [3, 1]
    """
    loads = check_valid_plan(group_arrays, claim.owner)
    level = check_integers(claim.topic_level, len(group_arrays.partition_counts), "topic_level")
    taking = group_arrays.takes_part
    if not taking.any():
        return loads
    start, topic = group_arrays.topics_of_subscriptions
    row_level = np.full(len(start) - 1, np.iinfo(np.int64).min)
    np.maximum.at(row_level, np.repeat(np.arange(len(row_level)), np.diff(start)), level[topic])
    member_level = row_level[group_arrays.subscription_of[taking]]
    wanted = np.diff(group_arrays.subscriptions_of_topics[0]) > 0
    mine = loads[taking]
    low, high = int(mine.min()), int(mine.max())
    # Between these points all terms are linear in k, so that equality at them is enough.
    turns = np.concatenate([mine, level, [low, high]])
    points = np.unique(np.clip(np.concatenate([turns, turns - 1]), low, high))
    over = _above(mine, mine, points) - points * _above(mine, np.ones_like(mine), points)
    forced = _above(level[wanted], group_arrays.partition_counts[wanted], points)
    forced -= points * _above(member_level, np.ones_like(member_level), points)
    wrong = np.flatnonzero(over != forced)
    if len(wrong):
        i = wrong[0]
        raise CertificateError(
            f"loads not proven best: above {points[i]} the plan has {over[i]} partitions, "
            f"and only {forced[i]} are shown to be unavoidable"
        )
    return loads


def _above(
    value: NDArray[np.int64], weight: NDArray[np.int64], points: NDArray[np.int64]
) -> NDArray[np.int64]:
    order = np.argsort(value, kind="stable")
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(weight[order])])
    below = np.searchsorted(value[order], points, side="right")
    above: NDArray[np.int64] = upto[-1] - upto[below]
    return above


# The bound: let the cost of a (partition, member) pair be 1 if the partition would move to the
# member, else 0. Sum over all partitions the minimum of (cost + price) over their subscribers. This
# sum is at most the moves of any plan plus the prices of its owners. The loads of the plan are
# majorised by ``loads``, so the owners' prices sum to at most the i-th highest price times the i-th
# largest of ``loads``, over all i. The difference is the bound.
def verify_moves_certificate(
    group_arrays: Facts,
    old_owners: PreviousOwners,
    loads: NDArray[np.integer],
    claim: ClaimedFewest,
) -> int:
    """Verify that a plan has the fewest moves of all plans with such even loads; return the moves.

    A plan assigns partitions to members; a move is a partition that changes owner. The load of a
    member is its number of partitions. The certificate has a dual price (a number from linear
    programming) for each member, from which a lower bound of the moves follows. The claimed plan
    must meet this bound.

    Args:
        group_arrays: the members' subscriptions and the partitions, as arrays.
        old_owners: the previous owners of the partitions.
        loads: int[members], numbers of partitions per member, in any order; the compared plans are
            at least as even.
        claim: the plan and its certificate.

    Returns:
        The fewest moves.

    Raises:
        CertificateError: the plan is not valid, its loads are not majorised, or it does not meet
            the bound.

    >>> from partage.judge.ownership import previous_owners
    >>> from partage.model import Cluster, Group, Member, Problem
    >>> group = Group([Member("x", ["t"], owned={"t": [0, 1]}), Member("y", ["t"])])
    >>> facts = Facts(Problem(group, Cluster.from_topics({"t": 2})))
    >>> claim = ClaimedFewest(owner=np.array([0, 1]), price=np.array([1, 0]))
    >>> verify_moves_certificate(facts, previous_owners(facts.problem), np.array([1, 1]), claim)
    1
    """
    mine = check_valid_plan(group_arrays, claim.owner)
    price = check_integers(claim.price, group_arrays.member_count, "price")
    if len(price) and int(np.abs(price).max()) > _HIGHEST_PRICE:
        raise CertificateError("a price is beyond all bounds")
    if not is_majorised(mine, loads):
        raise CertificateError("the plan that is to show the fewest moves has less even loads")
    moves = count_moves(old_owners, np.asarray(claim.owner, np.int64))
    bound = int(_minimum_move_costs(group_arrays, old_owners, price).sum())
    bound -= int(np.dot(np.sort(price), np.sort(_padded(loads, len(price)))))
    if moves != bound:
        raise CertificateError(f"{moves} moves claimed to be fewest, {bound} shown to be needed")
    return moves


def _minimum_move_costs(
    group_arrays: Facts, old_owners: PreviousOwners, member_prices: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the cost of each partition at its cheapest member, among the subscribers of its topic.

    Their sum helps to bound the moves of any assignment from below. The cost of a partition at a
    member is the member's dual price (``member_prices``, int64[members]), plus 1 if the partition
    would move there.
    """
    far = np.int64(_HIGHEST_PRICE * 4)
    start, topic = group_arrays.topics_of_subscriptions
    of_row = np.full(len(start) - 1, far)
    np.minimum.at(of_row, group_arrays.subscription_of, member_prices)
    of_topic = np.full(len(group_arrays.partition_counts), far)
    np.minimum.at(of_topic, topic, np.repeat(of_row, np.diff(start)))
    partition = np.repeat(np.arange(len(old_owners.owned)), np.diff(old_owners.start))
    claimant = old_owners.claimant
    good = group_arrays.is_subscribed(claimant, partition)
    staying = np.full(len(old_owners.owned), far)
    np.minimum.at(staying, partition[good], member_prices[claimant[good]])
    moving = of_topic[group_arrays.topic_of] + old_owners.owned
    cheapest: NDArray[np.int64] = np.minimum(staying, moving)[group_arrays.is_open]
    return cheapest


def count_moves(old_owners: PreviousOwners, owner: NDArray[np.int64]) -> int:
    """Count the partitions that an assignment gives to a member that did not own them before.

    Partitions without a previous owner do not count.

    Args:
        old_owners: the previous owners of the partitions.
        owner: int64[partitions], the new owner of each partition, -1 for none.
    """
    if old_owners.sole_owners is not None:
        moved = old_owners.owned & (owner >= 0) & (owner != old_owners.sole_owners)
        return int(np.count_nonzero(moved))
    given = np.flatnonzero(owner >= 0)
    given = given[old_owners.owned[given]]
    return int(np.count_nonzero(~old_owners.may_keep(given, owner[given])))


def even_loads_of_equal_members(group_arrays: Facts) -> NDArray[np.int64] | None:
    """Return the most even numbers of partitions per member, for members with equal subscriptions.

    The numbers differ by at most one, for example 3, 3 and 2. The result is int64[members]; it is
    None if subscriptions differ. ``group_arrays`` has the subscriptions and partitions.
    """
    if len(group_arrays.problem.group.subscriptions) != 1:
        return None
    least, more = divmod(int(np.count_nonzero(group_arrays.is_open)), group_arrays.member_count)
    loads = np.full(group_arrays.member_count, least, np.int64)
    loads[:more] += 1
    return loads


# The result is the best bound of `verify_moves_certificate` with k members of price 1 and the
# others of price 0. A plan keeps at most the k largest of ``loads``, and all partitions of the
# other members. For the best k a plan meets this bound, because the numbers of partitions that
# members may keep form a polymatroid (Edmonds 1970).
def fewest_moves_of_equal_members(
    group_arrays: Facts, old_owners: PreviousOwners, loads: NDArray[np.integer]
) -> int | None:
    """Return the fewest partitions that must move for even loads, for equal subscriptions.

    All members subscribe to the same topics. The load of a member is its number of partitions.
    Assignments at least as even as ``loads`` are considered. The result is None if subscriptions
    differ, or if several members report the same partition as owned.

    Args:
        group_arrays: the members' subscriptions and the partitions, as arrays.
        old_owners: the previous owners of the partitions.
        loads: int[members], the loads of a valid plan, in any order.

    >>> from partage.judge.ownership import previous_owners
    >>> from partage.model import Cluster, Group, Member, Problem
    >>> group = Group([Member("x", ["t"], owned={"t": [0, 1, 2]}), Member("y", ["t"])])
    >>> facts = Facts(Problem(group, Cluster.from_topics({"t": 3})))
    >>> fewest_moves_of_equal_members(facts, previous_owners(facts.problem), np.array([1, 2]))
    1
    """
    if old_owners.sole_owners is None or len(group_arrays.problem.group.subscriptions) != 1:
        return None
    had = old_owners.sole_owners[group_arrays.is_open & old_owners.owned]
    owned = np.bincount(had[had >= 0], minlength=group_arrays.member_count)
    owned.sort()
    largest, others = np.zeros((2, group_arrays.member_count + 1), np.int64)
    largest[1:] = loads
    largest[1:].sort()
    largest[1:] = largest[:0:-1].cumsum()
    others[1:] = owned.cumsum()
    kept = largest + others[::-1]
    return len(had) - int(kept[kept.argmin()])


def is_majorised(loads: NDArray[np.integer], other_loads: NDArray[np.integer]) -> bool:
    """Return whether one list of numbers is at least as even as another one with the same total.

    For example, 2, 2 is more even than 1, 3. For every k, the sum of the k largest ``loads`` must
    not exceed the sum of the k largest ``other_loads``. This relation is called majorisation.

    >>> is_majorised(np.array([2, 2]), np.array([1, 3]))
    True
    """
    size = max(len(loads), len(other_loads))
    mine = np.cumsum(np.sort(_padded(loads, size))[::-1])
    theirs = np.cumsum(np.sort(_padded(other_loads, size))[::-1])
    if size == 0:
        return True
    return bool(mine[-1] == theirs[-1] and (mine <= theirs).all())


def _padded(loads: NDArray[np.integer], size: int) -> NDArray[np.int64]:
    out = np.zeros(max(size, len(loads)), np.int64)
    out[: len(loads)] = loads
    return out


def check_integers(values: NDArray[np.integer], size: int, what: str) -> NDArray[np.int64]:
    """Check that an array of a certificate has ``size`` integers, and return it as int64[size].

    Raises:
        CertificateError: it has another shape, or its values are no integers; ``what`` names it.
    """
    array = np.asarray(values)
    if array.shape != (size,) or not np.issubdtype(array.dtype, np.integer):
        raise CertificateError(f"{what} must be {size} integers")
    return array.astype(np.int64)


def check_valid_plan(group_arrays: Facts, claimed: NDArray[np.integer]) -> NDArray[np.int64]:
    """Check that an assignment gives each partition to one of its subscribers; return the loads.

    The load of a member is its number of partitions. A partition without subscribers must have no
    owner (-1).

    Raises:
        CertificateError: the plan is not valid.
    """
    owner = check_integers(claimed, len(group_arrays.is_open), "owner")
    if (
        not np.array_equal(owner >= 0, group_arrays.is_open)
        or owner.max(initial=-1) >= group_arrays.member_count
    ):
        raise CertificateError("the claimed plan does not own exactly the subscribed partitions")
    given = np.flatnonzero(group_arrays.is_open)
    if not group_arrays.is_subscribed(owner[given], given).all():
        raise CertificateError("the claimed plan has an owner who does not subscribe")
    return np.bincount(owner[given], minlength=group_arrays.member_count).astype(np.int64)
