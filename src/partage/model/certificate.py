"""A certificate of a plan's quality: its claimed values, bounds, and the data that prove them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partage.model.racks import RackCosts

__all__ = ["TOPIC_EXCESS", "Certificate", "DeferredCertificate", "cost_bounds"]

#: Figure of the last criterion: by how much topics are spread less evenly than each alone could be.
TOPIC_EXCESS = "topic excess"


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """Proof that a partition assignment is optimal, or how far it can be from the optimum.

    It has the assignment's value of each criterion, such as the number of moved partitions, and a
    lower bound that holds for every valid assignment. ``partage.judge.verify_certificate`` verifies
    the bounds from the consumer group and the cluster alone.

    Attributes:
        owner: int32[P], index of each partition's owner in the group, -1 for none.
        balance: "counts" (the number of partitions is balanced) or "loads" (their weight is).
        figures: the plan's value of each criterion: "spread", "moves", "rack cost", "largest", ...
        bounds: lower bounds of some criteria, for every valid plan that is as good in all earlier
            criteria.
        why: an explanation of the bounds.
        details: "max_moves" and "levels" of counts within a limit of moves; the arguments of bounds
            by load.
        topic_level: int64[T], for counts: proves the loads (`verify_load_certificate`).
        price: int64[M], for counts: dual prices of members, which prove rack cost and moves
            (`verify_certificate`).
        racks: costs of consuming across racks, None if racks have no effect.
        rack_weight: number of moves that one unit of rack cost outweighs (more than possible).
    """

    owner: NDArray[np.int32]
    balance: str
    figures: Mapping[str, float]
    bounds: Mapping[str, float]
    why: tuple[str, ...] = ()
    topic_level: NDArray[np.int64] | None = None
    price: NDArray[np.int64] | None = None
    racks: RackCosts | None = None
    rack_weight: int = 0
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def gaps(self) -> dict[str, float]:
        """Difference between the assignment's value of each criterion and its lower bound.

        It is the most that any other assignment could improve the criterion. For example,
        ``{"moves": 0}`` means that no assignment moves fewer partitions.

        >>> Certificate(np.zeros(0, np.int32), "counts", {"moves": 3}, {"moves": 3}).gaps
        {'moves': 0}
        """
        return {name: self.figures[name] - bound for name, bound in self.bounds.items()}

    @property
    def optimal(self) -> bool:
        """True if the assignment is proven optimal: each criterion has the value of its lower
        bound.

        The even spread of each topic ("topic excess") is left out, because its bound considers one
        topic at a time.
        """
        scale = {name: max(1.0, abs(bound)) for name, bound in self.bounds.items()}
        return all(
            gap <= 1e-9 * scale[name] for name, gap in self.gaps.items() if name != TOPIC_EXCESS
        )


@dataclass(frozen=True, slots=True, eq=False)
class DeferredCertificate:
    """Placeholder for an assignment's certificate of optimality, which is computed on first access.

    `Plan.certificate` computes it. A group leader that only sends the assignment never accesses it,
    so it saves this time.

    Attributes:
        compute: function without arguments that returns the certificate.
    """

    compute: Callable[[], Certificate]

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the computed certificate in place of the function that computes it.

        The process that loads the pickle then need not compute it.
        """
        return _unchanged, (self.compute(),)


def _unchanged(certificate: Certificate) -> Certificate:
    return certificate


def cost_bounds(
    weighted_sum_bound: int,
    weights: tuple[int, int],
    plan_costs: Mapping[str, float],
    max_moves: int,
    racks: bool,  # noqa: FBT001 - the last of five, named where it is called
) -> dict[str, int]:
    """Derive lower bounds of rack cost and moves from a lower bound of their weighted sum.

    Rack cost is the cost of consuming from other racks; moves count the partitions with a new
    owner. The number of moves only gets a bound if the rack cost is proven to be optimal.

    Args:
        weighted_sum_bound: lower bound of rack weight * rack cost + move weight * moves.
        weights: the rack weight and the move weight.
        plan_costs: the plan's "rack cost" and "moves"; no bound exceeds them.
        max_moves: the greatest allowed number of moves.
        racks: whether consuming from another rack has a cost.

    >>> cost_bounds(250, (60, 5), {"rack cost": 4, "moves": 2}, 3, True)
    {'rack cost': 4, 'moves': 2}
    """
    rack, move = weights
    bound = 0
    if racks:
        bound = min(
            max(0, -((move * max_moves - weighted_sum_bound) // rack)), int(plan_costs["rack cost"])
        )
    out = {"rack cost": bound}
    if bound == plan_costs["rack cost"] and move:
        out["moves"] = min(
            max(0, -((rack * bound - weighted_sum_bound) // move)), int(plan_costs["moves"])
        )
    return out
