"""Verification of branch and bound trees: the leaves cover all cases, and what a decision costs.

A leaf is a case with decisions such as "broker 3 holds a replica of partition 7". A bound of the
bytes moved is the smallest bound of all leaves, if each plan belongs to one of them.

Source: A. H. Land, A. G. Doig, "An Automatic Method of Solving Discrete Programming Problems",
Econometrica 28 (1960).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from partage.errors import CertificateError
from partage.model import ReplicaTask
from partage.model.replicas import BranchDecision

__all__ = ["RackRule", "cheapest_with_decisions", "verify_complete"]

#: The most leaves of a tree: each costs a pass over all pairs of partition and broker.
_MOST_LEAVES = 5_000

Decisions = tuple[BranchDecision, ...]
#: The fewest and the most replicas of each rack, and the rack of each broker.
RackRule = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]


def verify_complete(task: ReplicaTask, leaves: Sequence[Decisions]) -> None:
    """Check that every plan belongs to at least one leaf of a branch and bound tree.

    Args:
        task: the reassignment.
        leaves: the decisions of each leaf.

    Raises:
        CertificateError: some plan belongs to no leaf, or a decision is malformed.
    """
    if len(leaves) > _MOST_LEAVES:
        raise CertificateError(f"{len(leaves)} branches, at most {_MOST_LEAVES} are verified")
    for decision in (one for leaf in leaves for one in leaf):
        if not (0 <= decision.partition < len(task.factor)
                and 0 <= decision.broker < len(task.alive)):  # fmt: skip
            raise CertificateError("a branch decides about no partition and broker of this task")
    if not _covers_all([{one[:2]: one.is_placed for one in leaf} for leaf in leaves]):
        raise CertificateError("the branches do not cover all plans")


def _covers_all(leaves: list[dict[tuple[int, int], bool]]) -> bool:
    if not leaves:
        return False
    if any(not leaf for leaf in leaves):
        return True
    # The pair of the most leaves splits a true tree at its root.
    pairs = [pair for leaf in leaves for pair in leaf]
    pair = max(dict.fromkeys(pairs), key=pairs.count)
    return all(
        _covers_all([
            {other: value for other, value in leaf.items() if other != pair}
            for leaf in leaves if leaf.get(pair, is_placed) == is_placed
        ])
        for is_placed in (True, False)
    )  # fmt: skip


def cheapest_with_decisions(
    price: NDArray[np.float64], required: NDArray[np.bool_], factor: int,
    limits: RackRule | None,
) -> float:  # fmt: skip
    """Return the cost of a partition's cheapest brokers, some of which are decided.

    The sets that the rack rule allows are the bases of a matroid, so the greedy algorithm is exact.
    The result is infinite if there is no such set.

    Args:
        price: float64[B], the cost of each broker, infinite if it is not allowed.
        required: bool[B], the brokers that must hold a replica.
        factor: replication factor.
        limits: the fewest and the most replicas of each rack (int64[racks]) and the rack of each
            broker (int32[B]); None for no rack rule.
    """
    order = np.lexsort((price, ~required)).tolist()
    low, high, rack = limits if limits is not None else (np.zeros(1), np.full(1, factor), None)
    count, total, chosen = np.zeros(len(low), np.int64), 0.0, 0
    for b in order:
        if chosen == factor or not np.isfinite(price[b]):
            break
        r = 0 if rack is None else int(rack[b])
        others = np.maximum(low - count, 0).sum() - (count[r] < low[r])
        if count[r] < high[r] and chosen + 1 + others <= factor:
            count[r] += 1
            chosen, total = chosen + 1, total + float(price[b])
        elif required[b]:
            return np.inf
    is_complete = chosen == factor and not required[~np.isfinite(price)].any()
    return total if is_complete and required.sum() <= factor else np.inf
