"""Solvers on arrays: `assignment` for partitions and members, `replicas` for replicas and brokers.

The names below find the best assignment and the fewest moves. Each result carries integers from
which `partage.judge` proves it without this package: one per topic for the loads, one per member
for the moves.
"""

from __future__ import annotations

from partage.solve.assignment.cheapest_plan import (
    CheapestPlan,
    TransportProblem,
    find_cheapest_plan,
)
from partage.solve.assignment.even_loads import (
    BestLoads,
    find_even_loads,
    find_most_even_assignment,
)
from partage.solve.assignment.fewest_moves import FewestMoves, find_fewest_moves
from partage.solve.assignment.network import LARGEST_NETWORK
from partage.solve.assignment.problem import (
    Eligibility,
    Ownership,
    SubscriptionClasses,
    find_classes,
)

__all__ = [
    "LARGEST_NETWORK",
    "BestLoads",
    "CheapestPlan",
    "Eligibility",
    "FewestMoves",
    "Ownership",
    "SubscriptionClasses",
    "TransportProblem",
    "find_cheapest_plan",
    "find_classes",
    "find_even_loads",
    "find_fewest_moves",
    "find_most_even_assignment",
]
