"""The fewest moves to loads at least as good as given ones, with a proof.

"At least as good": the sorted loads of the plan are majorised by the given loads L. By
Gale and Ryser these are the loads of which a 0/1 matrix (members x levels of load) exists
whose column j has at most as many ones as L has members with load >= j. So loads can be
bounded inside a flow: each member sends its partitions up a staircase that all share. A
partition that stays with a claimant saves one move: a minimum-cost flow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError, ProblemTooLargeError
from partage.solve.assignment.bundles import bundle
from partage.solve.assignment.claims import sort_claims
from partage.solve.assignment.eligibility import Eligibility, Ownership
from partage.solve.assignment.flow import LARGEST_NETWORK, IntArray, Network
from partage.solve.assignment.loads import least_majorised
from partage.solve.assignment.owners import Kept, owners
from partage.solve.assignment.staircase import Steps, arcs_needed, built

__all__ = ["FewestMoves", "fewest_moves", "optimal_plan"]


@dataclass(frozen=True, slots=True, eq=False)
class FewestMoves:
    """A plan with the fewest moves, and why fewer are not possible.

    Attributes:
        moves: owned partitions that get an owner who is no claimant.
        owner: int32[P], -1 where nobody is eligible.
        price: int64[M], the certificate. Call a partition's cost with a member 0 or 1, as
            it stays or moves. The moves of a plan plus the prices of all its owners are at
            least the sum over partitions of the cheapest cost + price. And the owners'
            prices are at most the sum of the i-th highest price times the i-th largest of
            the loads L, since the plan's loads are majorised by L. The difference bounds
            the moves of every such plan from below; here it equals ``moves``.
    """

    moves: int
    owner: NDArray[np.int32]
    price: IntArray


def fewest_moves(
    eligibility: Eligibility, ownership: Ownership, loads: NDArray[np.integer]
) -> FewestMoves:
    """The fewest moves of all full assignments whose sorted loads are majorised by ``loads``.

    Args:
        eligibility: who may own what.
        ownership: who owned what.
        loads: int[n], in any order; members beyond n count as loads of zero.

    Raises:
        ProblemTooLargeError: the network has more than `LARGEST_NETWORK` arcs, or
            searching it would take more than some seconds.
        InvalidProblemError: no assignment has such loads.

    >>> eligibility = Eligibility(np.array([3]), np.array([0, 1, 2]), np.array([0, 0]))
    >>> had_all = Ownership(np.zeros(3, int), np.ones(3, bool), np.arange(4), np.zeros(3, int))
    >>> fewest_moves(eligibility, had_all, np.array([2, 1])).moves
    1
    """
    wanted: IntArray = np.asarray(loads, np.int64)
    bundles = bundle(eligibility)
    if int(wanted.sum()) != int(bundles.supply.sum()):
        what = f"must sum to the {int(bundles.supply.sum())} partitions that somebody may own"
        raise InvalidProblemError(what, path="loads", value=int(wanted.sum()))
    claims = sort_claims(bundles, ownership)
    steps = Steps.of(wanted)
    arcs = arcs_needed(bundles, claims, steps)
    if arcs > LARGEST_NETWORK:
        raise ProblemTooLargeError(
            f"the fewest moves need a network of {arcs} arcs, the limit is {LARGEST_NETWORK}: "
            f"{len(bundles.member)} members, {len(bundles.supply)} topics with different "
            f"subscribers, {steps.reaching.size} different loads"
        )
    stairs = built(bundles, claims, steps)
    _fill_at_least_cost(stairs.network)
    kept = Kept(*(stairs.flow(kind) for kind in ("claim", "contested", "free", "within")))
    moves = int(claims.owned.sum() - kept.claim.sum() - kept.contested.sum())
    price = stairs.network.price[stairs.member_nodes]
    return FewestMoves(
        moves, owners(bundles, claims, kept), np.where(bundles.member >= 0, price, 0)
    )


def optimal_plan(eligibility: Eligibility, ownership: Ownership) -> FewestMoves:
    """The best loads there are, reached with the fewest moves.

    Raises:
        ProblemTooLargeError: as `least_majorised` and `fewest_moves` do.

    >>> eligibility = Eligibility(np.array([3]), np.array([0, 1, 2]), np.array([0, 0]))
    >>> had_all = Ownership(np.zeros(3, int), np.ones(3, bool), np.arange(4), np.zeros(3, int))
    >>> optimal_plan(eligibility, had_all).owner.tolist()
    [0, 0, 1]
    """
    return fewest_moves(eligibility, ownership, least_majorised(eligibility).load)


def _fill_at_least_cost(network: Network) -> None:
    """Successive shortest paths, all paths of one length at a time (primal and dual)."""
    from_source = network.out[network.start[network.source] : network.start[network.source + 1]]
    network.fill()
    while network.left[from_source].any():
        if not network.reprice():
            what = "no assignment has loads as good as these"
            raise InvalidProblemError(what, path="loads")
        network.fill()
