"""The fewest moves to loads at least as good as given ones, with a proof.

"At least as good": the sorted loads of the plan are majorised by the given loads L. By
Gale and Ryser these are the loads of which a 0/1 matrix (members x levels of load) exists
whose column j has at most as many ones as L has members with load >= j. So loads can be
bounded inside a flow: each member sends its partitions up a staircase that all share. A
partition that stays with a claimant saves one move: a minimum-cost flow.

The network in which keeping is rewarded and a common staircase bounds the loads.

Source, topics (and contested claims), bundles of members, members, steps, sink:

    source -> topic                  all its partitions, but the contested ones
    source -> contested class        its partitions
    topic -> only claimant           kept: cost -1 each
    class -> one of its claimants    kept: cost -1 each
    class -> topic                   given up
    topic -> bundle -> member        changes hands: cost 0
    member -> step -> sink           a step of width w, reached by n loads: w each, w * n in all

From flows between bundles to an owner for each partition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError, ProblemTooLargeError
from partage.solve.assignment.even_loads import assign_members, least_majorised
from partage.solve.assignment.network import LARGEST_NETWORK, UNBOUNDED, IntArray, Network, summed
from partage.solve.assignment.problem import (
    Bundles,
    Eligibility,
    Ownership,
    SortedClaims,
    bundle,
    sort_claims,
)
from partage.solve.assignment.staircase import Steps

__all__ = [
    "FewestMoves",
    "Kept",
    "Staircase",
    "arcs_needed",
    "built",
    "fewest_moves",
    "optimal_plan",
    "owners",
]


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


@dataclass(frozen=True, slots=True, eq=False)
class Staircase:
    """The network, and where in its arcs and nodes each kind stands."""

    network: Network
    arcs: dict[str, slice]
    member_nodes: slice

    def flow(self, kind: str) -> IntArray:
        """What flows over the arcs of one kind."""
        return self.network.flow()[self.arcs[kind]]

    def positions(self, kind: str) -> IntArray:
        """Numbers of the arcs of one kind."""
        where = self.arcs[kind]
        return np.arange(where.start, where.stop)


def arcs_needed(bundles: Bundles, claims: SortedClaims, steps: Steps) -> int:
    """How many arcs the network would have, within a few."""
    climbing = len(bundles.member) * (len(steps) + 1)
    claiming = len(claims.arc_topic) + len(claims.class_claimant)
    return len(bundles.arc_topic) + climbing + claiming


def built(bundles: Bundles, claims: SortedClaims, steps: Steps) -> Staircase:
    """The network, with a first flow of kept partitions and prices that allow it."""
    nodes = _Nodes.of(bundles, claims, steps)
    kinds = _arcs(bundles, claims, steps, nodes)
    arcs: dict[str, slice] = {}
    end = 0
    for kind, (_, heads, _, _) in kinds.items():
        arcs[kind] = slice(end, end + len(heads))
        end += len(heads)
    tail, head, capacity, cost = (
        np.concatenate([np.broadcast_to(row[i], len(row[1])) for row in kinds.values()])
        for i in range(4)
    )
    price = np.zeros(nodes.sink + 1, np.int64)
    # Where something can be kept, the way to the sink costs -1.
    price[claims.arc_topic] = price[nodes.contested] = -1
    price[nodes.source] = price.min(initial=0)
    network = Network(
        nodes.sink + 1, tail, head, capacity,
        source=nodes.source, sink=nodes.sink, cost=cost, price=price,
    )  # fmt: skip
    first = nodes.first_member
    stairs = Staircase(network, arcs, slice(first, first + len(bundles.member)))
    _keep_first(stairs, claims, steps, np.flatnonzero(bundles.member >= 0))
    return stairs


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """Numbers of the nodes: topics, contested classes, members, bundles, steps, source, sink."""

    topic: IntArray
    contested: IntArray
    first_member: int
    first_bundle: int
    step: IntArray
    source: int
    sink: int

    @classmethod
    def of(cls, bundles: Bundles, claims: SortedClaims, steps: Steps) -> _Nodes:
        sizes = [len(bundles.supply), len(claims.class_topic), len(bundles.member),
                 len(bundles.size), len(steps), 1]  # fmt: skip
        contested, member, bundled, step, source, sink = np.cumsum(sizes).tolist()
        return cls(
            np.arange(contested), np.arange(contested, member), member, bundled,
            np.arange(step, source), source, sink,
        )  # fmt: skip


#: Tails, heads, capacities, cost; a lone number stands for all arcs of the kind.
_Kind = tuple["IntArray | int", IntArray, "IntArray | int", int]


def _arcs(bundles: Bundles, claims: SortedClaims, steps: Steps, nodes: _Nodes) -> dict[str, _Kind]:
    everyone = np.flatnonzero(bundles.member >= 0)
    member = nodes.first_member + everyone
    claimant = np.repeat(nodes.contested, np.diff(claims.class_start))
    apart = summed(claims.class_topic, claims.class_supply, len(bundles.supply))
    return {
        "topic": (nodes.source, nodes.topic, bundles.supply - apart, 0),
        "class": (nodes.source, nodes.contested, claims.class_supply, 0),
        "claim": (claims.arc_topic, nodes.first_member + claims.arc_member, claims.arc_supply, -1),
        "contested": (claimant, nodes.first_member + claims.class_claimant, UNBOUNDED, -1),
        "given up": (nodes.contested, claims.class_topic, UNBOUNDED, 0),
        "free": (bundles.arc_topic, nodes.first_bundle + bundles.arc_member, UNBOUNDED, 0),
        "within": (nodes.first_bundle + bundles.member[everyone], member, UNBOUNDED, 0),
        "climb": (
            np.repeat(member, len(steps)),
            np.tile(nodes.step, len(everyone)),
            np.tile(steps.width, len(everyone)),
            0,
        ),
        "step": (
            nodes.step, np.full(len(steps), nodes.sink), steps.reaching * steps.width, 0,
        ),
    }  # fmt: skip


def _keep_first(stairs: Staircase, claims: SortedClaims, steps: Steps, everyone: IntArray) -> None:
    """Start with every member keeping what it alone claims, as far up as the steps allow.

    Searching would find the same, one path a claim; these are nearly all there are.
    """
    members = stairs.member_nodes.stop - stairs.member_nodes.start
    left = summed(claims.arc_member, claims.arc_supply, members)[everyone]
    climbs = np.zeros((len(everyone), len(steps)), np.int64)
    for j, (reaching, width) in enumerate(
        zip(steps.reaching.tolist(), steps.width.tolist(), strict=True)
    ):
        wish = np.minimum(left, width)
        climbs[:, j] = np.clip(reaching * width - (np.cumsum(wish) - wish), 0, wish)
        left = left - climbs[:, j]
    keeps = np.zeros(members, np.int64)
    keeps[everyone] = climbs.sum(axis=1)
    order = np.argsort(claims.arc_member, kind="stable")
    of, supply = claims.arc_member[order], claims.arc_supply[order]
    upto = np.cumsum(supply) - supply
    earlier = upto - upto[np.searchsorted(of, of)] if len(of) else upto
    stays = np.empty_like(supply)
    stays[order] = np.clip(keeps[of] - earlier, 0, supply)
    topics = stairs.arcs["topic"].stop
    for kind, amount in (
        ("topic", summed(claims.arc_topic, stays, topics)),
        ("claim", stays),
        ("climb", climbs.reshape(-1)),
        ("step", climbs.sum(axis=0)),
    ):
        stairs.network.push(stairs.positions(kind), amount)


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Flows by kind of arc.

    Attributes:
        claim: int64, for each arc of the only claimants, how many partitions stay.
        contested: int64, the same for each claimant of the contested classes.
        free: int64, for each pair of bundles, how many partitions change hands.
        within: int64, for each member with a bundle, in join order, how many of the
            partitions that reach its bundle it gets.
    """

    claim: IntArray
    contested: IntArray
    free: IntArray
    within: IntArray


def owners(bundles: Bundles, claims: SortedClaims, kept: Kept) -> NDArray[np.int32]:
    """int32[P]: kept partitions are the first ones of their kind; all others are dealt out."""
    owner = np.full(len(claims.topic), -1, np.int64)
    _stay(owner, claims.arc_of, np.arange(len(kept.claim) + 1), claims.arc_member, kept.claim)
    _stay(owner, claims.class_of, claims.class_start, claims.class_claimant, kept.contested)
    assign_members(owner, claims.topic, bundles, kept.free, kept.within)
    return owner.astype(np.int32)


def _stay(
    owner: IntArray, kind_of: IntArray, start: IntArray, member: IntArray, kept: IntArray
) -> None:
    """Give the first partitions of each kind to its members (CSR), as many as they keep."""
    mine = np.flatnonzero(kind_of >= 0)
    mine = mine[np.argsort(kind_of[mine], kind="stable")]
    kind = kind_of[mine]
    nth = np.arange(len(mine)) - np.searchsorted(kind, kind)
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    stays = nth < (upto[start[1:]] - upto[start[:-1]])[kind]
    owner[mine[stays]] = np.repeat(member, kept)
