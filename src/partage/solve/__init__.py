"""Best plans and cheapest moves, by flows on arrays; each answer carries its proof.

Which file answers what: `eligibility` says who may own what (the input), `bundles` shrinks
it to what differs, `loads` finds the least-majorised loads, `moves` the fewest moves to
loads that are at least as good, `owners` turns flows into owners, `flow` is the engine.

The proofs are short enough for a person to check, and `partage.judge` checks them without
this room: one integer a topic for the loads, one integer a member for the moves.
"""

from __future__ import annotations

from partage.solve.eligibility import Eligibility, Ownership
from partage.solve.flow import LARGEST_NETWORK
from partage.solve.loads import BestLoads, least_majorised
from partage.solve.moves import FewestMoves, fewest_moves, optimal_plan

__all__ = [
    "LARGEST_NETWORK",
    "BestLoads",
    "Eligibility",
    "FewestMoves",
    "Ownership",
    "fewest_moves",
    "least_majorised",
    "optimal_plan",
]
