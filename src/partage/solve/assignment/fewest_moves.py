"""The fewest moves to loads at least as even as given ones: a minimum-cost flow, with its dual.

"At least as even" means that the sorted loads are majorised by the given loads (see `staircase`). A
claimant is a member that may keep a partition without a move. A partition that stays with a
claimant costs -1. The dual prices of the members prove the result.

Nodes are source, topic classes, contested classes, member classes, members, steps and sink:

    source -> topic                  all partitions of the class but the contested ones
    source -> contested class        its partitions
    topic -> only claimant           kept: cost -1 each
    contested class -> a claimant    kept: cost -1 each
    contested class -> topic         not kept
    topic -> class -> member         moved: cost 0
    member -> step -> sink           a step of width w that n loads reach: at most w for a member,
                                     w * n in all
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError, ProblemTooLargeError
from partage.solve.assignment.even_loads import assign_members
from partage.solve.assignment.network import (
    LARGEST_NETWORK,
    UNBOUNDED,
    FlowNetwork,
    IntArray,
    sum_by_position,
)
from partage.solve.assignment.problem import (
    ClaimClasses,
    Eligibility,
    Ownership,
    SubscriptionClasses,
    classify_claims,
    find_classes,
)
from partage.solve.assignment.staircase import LoadLimitSteps, fit_in_order

__all__ = [
    "FewestMoves",
    "MovesNetwork",
    "PlanFlows",
    "assign_owners",
    "build_network",
    "estimate_arc_count",
    "find_fewest_moves",
]


@dataclass(frozen=True, slots=True, eq=False)
class FewestMoves:
    """The assignment that moves the fewest partitions, and a proof that fewer are impossible.

    The proof has a number for each member, its dual price. From these numbers a verifier computes a
    lower bound of the moves, without this solver.

    Attributes:
        moves: number of partitions that do not stay with a claimant (a previous owner that may keep
            them).
        owner: int32[partitions], the member of each partition, -1 where no member is eligible.
        price: int64[members], the certificate: a dual price of each member. A partition costs 0
            with a member where it stays and 1 where it moves. The moves of a plan plus the prices
            of all its owners are at least the sum over partitions of the least cost + price. And
            the owners' prices are at most the sum of the i-th highest price times the i-th largest
            of the loads L, since the plan's loads are majorised by L. The difference bounds the
            moves of every such plan from below; here it equals ``moves``.
    """

    moves: int
    owner: NDArray[np.int32]
    price: IntArray


def find_fewest_moves(
    eligibility: Eligibility, ownership: Ownership, loads: NDArray[np.integer]
) -> FewestMoves:
    """Find the assignment with the fewest moves whose loads are at least as even as given loads.

    The load of a member is its number of partitions. "At least as even" means: for each k, the
    result's k largest loads together are at most the k largest of the given ``loads``
    (majorisation).

    Args:
        eligibility: the topics that each member may own.
        ownership: the previous owners of each partition.
        loads: int[n], the given loads in any order; members beyond n count as loads of zero.

    Raises:
        ProblemTooLargeError: the network has more than `LARGEST_NETWORK` arcs, or searching it
            would take more than some seconds.
        InvalidProblemError: no assignment has such loads.

    >>> eligibility = Eligibility(np.array([3]), np.array([0, 1, 2]), np.array([0, 0]))
    >>> had_all = Ownership(np.zeros(3, int), np.ones(3, bool), np.arange(4), np.zeros(3, int))
    >>> find_fewest_moves(eligibility, had_all, np.array([2, 1])).moves
    1
    """
    wanted: IntArray = np.asarray(loads, np.int64)
    classes = find_classes(eligibility)
    if int(wanted.sum()) != int(classes.supply.sum()):
        what = f"must sum to the {int(classes.supply.sum())} partitions that a member may own"
        raise InvalidProblemError(what, path="loads", value=int(wanted.sum()))
    claims = classify_claims(classes, ownership)
    steps = LoadLimitSteps.from_loads(wanted)
    arcs = estimate_arc_count(classes, claims, steps)
    if arcs > LARGEST_NETWORK:
        raise ProblemTooLargeError(
            f"the fewest moves need a network of {arcs} arcs, the limit is {LARGEST_NETWORK}: "
            f"{len(classes.member)} members, {len(classes.supply)} topics with different "
            f"subscribers, {steps.reaching.size} different loads"
        )
    moves_network = build_network(classes, claims, steps)
    _augment_at_minimum_cost(moves_network.network)
    kept = PlanFlows(
        *(moves_network.flow_of_arcs(kind) for kind in ("claim", "contested", "free", "within"))
    )
    moves = int(claims.owned.sum() - kept.claim.sum() - kept.contested.sum())
    price = moves_network.network.price[moves_network.member_nodes]
    return FewestMoves(
        moves, assign_owners(classes, claims, kept), np.where(classes.member >= 0, price, 0)
    )


def _augment_at_minimum_cost(network: FlowNetwork) -> None:
    """Send as much flow as possible from source to sink at minimum cost.

    The algorithm is successive shortest paths (primal-dual). ``network`` is changed in place.

    Raises:
        InvalidProblemError: not all flow fits, so that no assignment has the required loads.
    """
    from_source = network.out[network.start[network.source] : network.start[network.source + 1]]
    network.maximise_flow()
    while network.left[from_source].any():
        if not network.raise_prices():
            what = "no assignment has loads as good as these"
            raise InvalidProblemError(what, path="loads")
        network.maximise_flow()


@dataclass(frozen=True, slots=True, eq=False)
class MovesNetwork:
    """Flow network whose minimum-cost flow is the assignment with the fewest moved partitions.

    A unit of flow is a partition; a partition that stays with its owner costs -1.

    Attributes:
        network: nodes, arcs, capacities and costs.
        arcs: range of arc numbers for each type, such as "claim" (a partition stays) or "free" (it
            moves).
        member_nodes: range of the members' nodes.
    """

    network: FlowNetwork
    arcs: dict[str, slice]
    member_nodes: slice

    def flow_of_arcs(self, arc_type: str) -> IntArray:
        """Return the flow over each arc of one type, which is a number of partitions (int64).

        Args:
            arc_type: such as "claim" (a partition stays with its owner) or "free" (it moves).
        """
        return self.network.flow_by_arc()[self.arcs[arc_type]]

    def arc_indices(self, arc_type: str) -> IntArray:
        """Return the indices of all network arcs of one type (int64).

        They select these arcs in the arrays of `FlowNetwork`.

        Args:
            arc_type: such as "claim" (a partition stays with its owner) or "free" (it moves).
        """
        where = self.arcs[arc_type]
        return np.arange(where.start, where.stop)


def estimate_arc_count(
    classes: SubscriptionClasses, claims: ClaimClasses, steps: LoadLimitSteps
) -> int:
    """Estimate the size of the flow network that minimises moved partitions, as a number of arcs.

    Callers reject problems whose network would be too large.

    Args:
        classes: topics with equal subscribers, and members with equal subscriptions.
        claims: partitions that previous owners may keep, grouped by these owners.
        steps: upper limits of the sorted loads of members.
    """
    climbing = len(classes.member) * (len(steps) + 1)
    claiming = len(claims.arc_topic) + len(claims.class_claimant)
    return len(classes.arc_topic) + climbing + claiming


def build_network(
    classes: SubscriptionClasses, claims: ClaimClasses, steps: LoadLimitSteps
) -> MovesNetwork:
    """Build a flow network whose cheapest flow is the assignment with the fewest moved partitions.

    A move is a partition that changes its owner.

    Args:
        classes: topics with equal subscribers, and members with equal subscriptions.
        claims: partitions that previous owners may keep, grouped by these owners.
        steps: upper limits of the sorted loads of members.

    Returns:
        the network, with a first flow in which members keep partitions.
    """
    nodes = _NodeNumbers.of(classes, claims, steps)
    kinds = _arcs(classes, claims, steps, nodes)
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
    # From a class of which a partition can stay, the shortest path to the sink costs -1.
    price[claims.arc_topic] = price[nodes.contested] = -1
    price[nodes.source] = price.min(initial=0)
    network = FlowNetwork(
        nodes.sink + 1, tail, head, capacity,
        source=nodes.source, sink=nodes.sink, cost=cost, price=price,
    )  # fmt: skip
    first = nodes.first_member
    moves_network = MovesNetwork(network, arcs, slice(first, first + len(classes.member)))
    _add_flow_of_kept_partitions(moves_network, claims, steps, np.flatnonzero(classes.member >= 0))
    return moves_network


@dataclass(frozen=True, slots=True, eq=False)
class _NodeNumbers:
    """Numbers of the nodes in the flow network that minimises moved partitions.

    Nodes of one kind, such as topics or members, have consecutive numbers.
    """

    topic: IntArray
    contested: IntArray
    first_member: int
    first_class: int
    step: IntArray
    source: int
    sink: int

    @classmethod
    def of(
        cls, classes: SubscriptionClasses, claims: ClaimClasses, steps: LoadLimitSteps
    ) -> _NodeNumbers:
        # ``claims`` are the previous owners, ``steps`` the limit on sorted loads.
        sizes = [len(classes.supply), len(claims.class_topic), len(classes.member),
                 len(classes.size), len(steps), 1]  # fmt: skip
        contested, member, classes_begin, step, source, sink = np.cumsum(sizes).tolist()
        return cls(
            np.arange(contested), np.arange(contested, member), member, classes_begin,
            np.arange(step, source), source, sink,
        )  # fmt: skip


#: Tails, heads, capacities, cost; a lone number stands for all arcs of the kind.
_Kind = tuple["IntArray | int", IntArray, "IntArray | int", int]


def _arcs(
    classes: SubscriptionClasses, claims: ClaimClasses, steps: LoadLimitSteps, nodes: _NodeNumbers
) -> dict[str, _Kind]:
    everyone = np.flatnonzero(classes.member >= 0)
    member = nodes.first_member + everyone
    claimant = np.repeat(nodes.contested, np.diff(claims.class_start))
    apart = sum_by_position(claims.class_topic, claims.class_supply, len(classes.supply))
    return {
        "topic": (nodes.source, nodes.topic, classes.supply - apart, 0),
        "class": (nodes.source, nodes.contested, claims.class_supply, 0),
        "claim": (claims.arc_topic, nodes.first_member + claims.arc_member, claims.arc_supply, -1),
        "contested": (claimant, nodes.first_member + claims.class_claimant, UNBOUNDED, -1),
        "not kept": (nodes.contested, claims.class_topic, UNBOUNDED, 0),
        "free": (classes.arc_topic, nodes.first_class + classes.arc_member, UNBOUNDED, 0),
        "within": (nodes.first_class + classes.member[everyone], member, UNBOUNDED, 0),
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


def _add_flow_of_kept_partitions(
    moves_network: MovesNetwork, claims: ClaimClasses, steps: LoadLimitSteps, everyone: IntArray
) -> None:
    """Start the flow with partitions that stay with their only previous owner.

    The search that follows would find this flow too, but more slowly.

    Args:
        moves_network: the network; changed in place.
        claims: numbers of partitions that previous owners may keep.
        steps: upper limits of the members' sorted loads, which the flow respects.
        everyone: indices of the members that may own partitions.
    """
    # The search would find the same flow, with one path for each such member and class.
    members = moves_network.member_nodes.stop - moves_network.member_nodes.start
    left = sum_by_position(claims.arc_member, claims.arc_supply, members)[everyone]
    climbs = steps.divide_among_steps(left)
    keeps = np.zeros(members, np.int64)
    keeps[everyone] = climbs.sum(axis=1)
    stays = fit_in_order(claims.arc_member, claims.arc_supply, keeps)
    topics = moves_network.arcs["topic"].stop
    for kind, amount in (
        ("topic", sum_by_position(claims.arc_topic, stays, topics)),
        ("claim", stays),
        ("climb", climbs.reshape(-1)),
        ("step", climbs.sum(axis=0)),
    ):
        moves_network.network.add_flow(moves_network.arc_indices(kind), amount)


@dataclass(frozen=True, slots=True, eq=False)
class PlanFlows:
    """Numbers of partitions that stay or move in an assignment with the fewest moves.

    Partitions are counted by class: those that equal previous owners may keep (claimants) and equal
    members subscribe to. A class with several claimants is contested.

    Attributes:
        claim: int64, for each class with one claimant, the partitions that stay with it.
        contested: int64, for each claimant of each contested class, the partitions that stay with
            it.
        free: int64, for each pair of topic class and member class, partitions that move.
        within: int64, partitions that each member with a class gets, in join order.
    """

    claim: IntArray
    contested: IntArray
    free: IntArray
    within: IntArray


def assign_owners(
    classes: SubscriptionClasses, claims: ClaimClasses, flows: PlanFlows
) -> NDArray[np.int32]:
    """Choose an owner for each partition, given how many partitions stay and how many move.

    Return int32[partitions].

    Args:
        classes: topics with equal subscribers, and members with equal subscriptions.
        claims: partitions that previous owners may keep, grouped by these owners.
        flows: number of partitions that stay and that move, for each group.
    """
    # Partitions of one class are interchangeable: members keep the first ones of each class.
    owner = np.full(len(claims.topic), -1, np.int64)
    _keep_first_partitions(
        owner, claims.arc_of, np.arange(len(flows.claim) + 1), claims.arc_member, flows.claim
    )
    _keep_first_partitions(
        owner, claims.class_of, claims.class_start, claims.class_claimant, flows.contested
    )
    assign_members(owner, claims.topic, classes, flows.free, flows.within)
    return owner.astype(np.int32)


def _keep_first_partitions(
    owner: IntArray, class_of: IntArray, start: IntArray, member: IntArray, stay_count: IntArray
) -> None:
    """Let previous owners keep their partitions, as many of each class as ``stay_count`` says.

    The partitions of a class are interchangeable, so the first ones stay.

    Args:
        owner: member of each partition; changed in place.
        class_of: class of each partition, -1 for none.
        start: offset of each class in ``member`` and ``stay_count`` (compressed sparse rows).
        member: previous owners of each class.
        stay_count: how many partitions of the class each of them keeps.
    """
    mine = np.flatnonzero(class_of >= 0)
    mine = mine[np.argsort(class_of[mine], kind="stable")]
    kind = class_of[mine]
    nth = np.arange(len(mine)) - np.searchsorted(kind, kind)
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(stay_count)])
    stays = nth < (upto[start[1:]] - upto[start[:-1]])[kind]
    owner[mine[stays]] = np.repeat(member, stay_count)
