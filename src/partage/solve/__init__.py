"""Best plans and cheapest moves, by flows on arrays; each answer carries its proof.

Which file answers what: `eligibility` says who may own what (the input), `bundles` shrinks
it to what differs, `loads` finds the least-majorised loads, `moves` the fewest moves to
loads that are at least as good, `cheapest` the same with any costs,
`owners` turns flows into owners, `flow` is the engine.

The proofs are short enough for a person to check, and `partage.judge` checks them without
this room: one integer a topic for the loads, one integer a member for the moves.
"""

from __future__ import annotations

from partage.solve.assignment.cheapest_plan import Cheapest, Market, cheapest
from partage.solve.assignment.even_loads import BestLoads, least_majorised, loads_of
from partage.solve.assignment.fewest_moves import FewestMoves, fewest_moves, optimal_plan
from partage.solve.assignment.network import LARGEST_NETWORK
from partage.solve.assignment.problem import Bundles, Eligibility, Ownership, bundle

__all__ = [
    "LARGEST_NETWORK",
    "BestLoads",
    "Bundles",
    "Cheapest",
    "Eligibility",
    "FewestMoves",
    "Market",
    "Ownership",
    "bundle",
    "cheapest",
    "fewest_moves",
    "least_majorised",
    "loads_of",
    "optimal_plan",
]
