"""The input of this room: who may own what, and who owned it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Eligibility", "Ownership"]


@dataclass(frozen=True, slots=True, eq=False)
class Eligibility:
    """Topics with their partitions, and members with the topics that they may own.

    Attributes:
        partitions: int[T], number of partitions of each topic.
        start: int[S + 1]; topic: int[n], the topics of each subscription, once each (CSR).
        subscription: int[M], the subscription of each member, none unused; None where each
            member has its own, in order.

    >>> two_topics = Eligibility(np.array([4, 2]), np.array([0, 1, 3]), np.array([0, 0, 1]))
    >>> two_topics.members
    2
    """

    partitions: NDArray[np.integer]
    start: NDArray[np.integer]
    topic: NDArray[np.integer]
    subscription: NDArray[np.integer] | None = None

    @property
    def members(self) -> int:
        """Number of members."""
        return len(self.start) - 1 if self.subscription is None else len(self.subscription)


@dataclass(frozen=True, slots=True, eq=False)
class Ownership:
    """Partitions one by one, and who is seen as their owner before the rebalance.

    Attributes:
        topic_of: int[P], topic of each partition.
        owned: bool[P], whether anybody owned it; if nobody, giving it away moves nothing.
        start: int[P + 1]; claimant: int[n], members with which the partition may stay
            without being moved (CSR). Several where claims contradict each other; none
            for an owned partition means that its owner has left.

    >>> kept = Ownership(np.array([0]), np.array([True]), np.array([0, 1]), np.array([3]))
    >>> kept.claimant.tolist()
    [3]
    """

    topic_of: NDArray[np.integer]
    owned: NDArray[np.bool_]
    start: NDArray[np.integer]
    claimant: NDArray[np.integer]
