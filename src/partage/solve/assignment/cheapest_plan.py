"""The cheapest plan with loads at least as even as given ones: a minimum-cost flow.

It is a transportation problem. It generalises `fewest_moves` to any integer cost for each way in
which a class of partitions can reach a member: a kept partition may cost less than a moved one, and
a near rack less than a far one. The caller combines several criteria in one integer, each
outweighing all later ones together.

Nodes are source, classes, groups of members, units, steps and sink:

    source -> class                  all its partitions (contested ones are classes of their own)
    class -> claimant                kept
    class -> group -> member         moved, to any member of the group at the same cost
    member -> step -> sink           a step of width w that n loads reach: at most w for a member,
                                     w * n in all

A claimant is a member that may keep the partition without a move. Members of a group that claim
nothing are one node (a unit), because they are interchangeable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partage.errors import InvalidProblemError, ProblemTooLargeError
from partage.solve.assignment.network import (
    LARGEST_NETWORK,
    UNBOUNDED,
    FlowNetwork,
    IntArray,
    sum_by_position,
)
from partage.solve.assignment.staircase import LoadLimitSteps, fit_in_order

__all__ = [
    "CheapestPlan",
    "FlowNetworkLayout",
    "TransportProblem",
    "add_flow_of_kept_partitions",
    "build_network",
    "find_cheapest_plan",
]


@dataclass(frozen=True, slots=True, eq=False)
class TransportProblem:
    """Partitions to assign and members that can own them, with the cost of each pair.

    It is a transportation problem: classes of equivalent partitions are sent to groups of
    equivalent members at least cost. A claimant is a previous owner that may keep a partition. C is
    the number of classes, K of pairs of class and claimant, A of pairs of class and group.

    Attributes:
        supply: int64[C], partitions of each class.
        group: int64[members], group of each member, -1 for a member that may own nothing.
        groups: number of groups of members with equal costs.
        keep_class, keep_member, keep_most, keep_cost: int64[K], partitions that may stay: class,
            claimant, their maximum number, and the cost of each. Pairs with the same class concern
            distinct partitions, unless ``keep_class`` is a class of contested partitions, whose
            whole supply each claimant may keep.
        free_class, free_group, free_cost: int64[A], partitions that move: class, group, cost of
            each.
        loads: int64[n], limits of the members' sorted loads: the k largest loads of the result
            together are at most the k largest of these, for each k; members beyond n count as zero.
    """

    supply: IntArray
    group: IntArray
    groups: int
    keep_class: IntArray
    keep_member: IntArray
    keep_most: IntArray
    keep_cost: IntArray
    free_class: IntArray
    free_group: IntArray
    free_cost: IntArray
    loads: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class CheapestPlan:
    """The cheapest assignment of partitions to members, and dual prices that prove it optimal.

    The minimum-cost flow that finds the assignment also computes a dual price for each member: what
    one more partition on it would cost.

    Attributes:
        kept: int64[K], how many partitions stay with each claimant (previous owner that may keep
            them). free: int64[A], how many move along each arc from a class to a group of members.
        received: int64[members], how many of the partitions moved to its group each member gets.
        price: int64[members], the dual prices of members, which are the certificate: the cost of a
            plan plus its owners' prices is at least the sum over partitions of the least cost +
            price; and these prices are at most the sum of the i-th highest price times the i-th
            largest of the loads.
    """

    kept: IntArray
    free: IntArray
    received: IntArray
    price: IntArray


def find_cheapest_plan(problem: TransportProblem) -> CheapestPlan:
    """Find the cheapest assignment of partitions whose loads are at least as even as given loads.

    The load of a member is its number of partitions. "At least as even" means: for each k, the
    result's k largest loads together are at most the k largest of ``problem.loads`` (majorisation).

    Args:
        problem: partitions, members, the cost of each pair, and the loads.

    Raises:
        ProblemTooLargeError: the network is too large, or searching it would take too long.
        InvalidProblemError: no plan has such loads.

    >>> one = np.array([0])
    >>> problem = TransportProblem(np.array([3]), np.array([0, 0]), 1, one, one, np.array([3]),
    ...                 np.array([-1]), one, one, one, np.array([2, 1]))
    >>> found = find_cheapest_plan(problem)
    >>> found.kept.tolist(), found.received.tolist()
    ([2], [0, 1])
    """
    layout = FlowNetworkLayout.for_problem(problem)
    if layout.arcs > LARGEST_NETWORK:
        raise ProblemTooLargeError(
            f"the cheapest plan needs a network of {layout.arcs} arcs, the limit is "
            f"{LARGEST_NETWORK}"
        )
    network, arcs = build_network(problem, layout)
    add_flow_of_kept_partitions(problem, layout, network, arcs)
    from_source = arcs["supply"]
    network.maximise_flow()
    while network.left[2 * from_source].any():
        if not network.raise_prices():
            raise InvalidProblemError("no plan has loads as good as these", path="loads")
        network.maximise_flow()
    flow = network.flow_by_arc()
    price = np.where(layout.unit >= 0, network.price[layout.first_unit + layout.unit], 0)
    return CheapestPlan(
        flow[arcs["keep"]],
        flow[arcs["free"]],
        layout.divide_among_members(flow[arcs["within"]]),
        price,
    )


@dataclass(frozen=True, slots=True, eq=False)
class FlowNetworkLayout:
    """Numbers of the nodes in the flow network that finds the cheapest assignment of partitions.

    Interchangeable members share a node, called a unit. A member that may keep partitions is a
    separate unit.

    Attributes:
        unit: int64[members], unit of each member, -1 for a member that may own nothing.
        size: int64[units], members of each unit; group: int64[units], its group of members with
            equal costs.
        steps: the upper limits of the sorted loads.
        first_group, first_unit, first_step: numbers of the first node of each kind.
        source: number of the source node, where all flow begins.
        arcs: number of arcs of the network.
    """

    unit: IntArray
    size: IntArray
    group: IntArray
    steps: LoadLimitSteps
    first_group: int
    first_unit: int
    first_step: int
    source: int
    arcs: int

    @property
    def sink_node(self) -> int:
        """Number of the sink, the node in which all flow of the network ends.

        A unit of flow that arrives there is a partition with an owner.
        """
        return self.source + 1

    @property
    def drain_node(self) -> int:
        """Number of an extra node of the flow network, used to lower the largest member loads.

        Flow that leads to highly loaded members is sent through this node to other members. Only a
        network built with ``with_drain=True`` has it.
        """
        return self.source + 2

    @classmethod
    def for_problem(
        cls, problem: TransportProblem, steps: LoadLimitSteps | None = None
    ) -> FlowNetworkLayout:
        """Number the nodes of the flow network for an assignment problem.

        A minimum-cost flow through this network gives the cheapest assignment.

        Args:
            problem: partitions, members, and the cost of each pair.
            steps: upper limits of the largest load of a member, the second largest, and so on; None
                for the loads in ``problem.loads``.
        """
        members = len(problem.group)
        claims = np.zeros(members, bool)
        claims[problem.keep_member] = True
        plain = (problem.group >= 0) & ~claims
        single = np.flatnonzero((problem.group >= 0) & claims)
        unit = np.full(members, -1, np.int64)
        unit[single] = np.arange(len(single))
        there = np.bincount(problem.group[plain], minlength=problem.groups)
        merged = np.flatnonzero(there)
        number = np.zeros(problem.groups, np.int64)
        number[merged] = len(single) + np.arange(len(merged))
        unit[plain] = number[problem.group[plain]]
        size = np.concatenate([np.ones(len(single), np.int64), there[merged]])
        group = np.concatenate([problem.group[single], merged]).astype(np.int64)
        if steps is None:
            steps = LoadLimitSteps.from_loads(np.asarray(problem.loads, np.int64))
        first_group = len(problem.supply)
        first_unit = first_group + problem.groups
        first_step = first_unit + len(size)
        arcs = len(problem.keep_class) + len(problem.free_class) + len(problem.supply)
        arcs += len(size) * (len(steps) + 1) + len(steps)
        return cls(unit, size, group, steps, first_group, first_unit, first_step,
                   first_step + len(steps), arcs)  # fmt: skip

    def divide_among_members(self, received: IntArray) -> IntArray:
        """Divide each group's partitions evenly among its interchangeable members.

        If they do not divide evenly, the first members get one more.

        Args:
            received: int64[units], number of partitions that each group gets.

        Returns:
            int64[members], number of partitions that each member gets.
        """
        out = np.zeros(len(self.unit), np.int64)
        mine = np.flatnonzero(self.unit >= 0)
        of = self.unit[mine]
        order = np.argsort(of, kind="stable")
        mine, of = mine[order], of[order]
        nth = np.arange(len(mine)) - np.searchsorted(of, of)
        # The first members of a unit get one more if the partitions do not divide evenly.
        out[mine] = received[of] // self.size[of] + (nth < received[of] % self.size[of])
        return out


def build_network(
    problem: TransportProblem, layout: FlowNetworkLayout, *, with_drain: bool = False
) -> tuple[FlowNetwork, dict[str, IntArray]]:
    """Build a flow network whose cheapest flow is the cheapest assignment of partitions to members.

    Args:
        problem: partitions, members, and the cost of each pair.
        layout: number of each node of the network.
        with_drain: whether to add an extra node from which the largest loads can be lowered.

    Returns:
        the network, and a dict from arc type (such as "keep") to the indices of its arcs.
    """
    steps, units = layout.steps, layout.first_unit + np.arange(len(layout.size))
    step_nodes = layout.first_step + np.arange(len(steps))
    classes = np.arange(len(problem.supply))
    far = np.int64(UNBOUNDED)
    best = np.full(len(classes), far)
    np.minimum.at(best, problem.free_class, problem.free_cost)
    np.minimum.at(best, problem.keep_class, problem.keep_cost)
    # All supply must be shipped, so the least cost of each class is a constant: its supply arcs
    # cost minus that, and its cheapest path costs nothing.
    kinds = {
        "supply": (np.full(len(classes), layout.source), classes, problem.supply, -best),
        "keep": (
            problem.keep_class, units[layout.unit[problem.keep_member]], problem.keep_most,
            problem.keep_cost,
        ),
        "free": (
            problem.free_class, layout.first_group + problem.free_group,
            np.full(len(problem.free_class), UNBOUNDED), problem.free_cost,
        ),
        "within": (layout.first_group + layout.group, units, np.full(len(units), UNBOUNDED), None),
        "climb": (
            np.repeat(units, len(steps)), np.tile(step_nodes, len(units)),
            (layout.size[:, None] * steps.width).reshape(-1), None,
        ),
        "step": (
            step_nodes, np.full(len(steps), layout.sink_node), steps.reaching * steps.width, None,
        ),
    }  # fmt: skip
    if with_drain:
        # Arcs of capacity 0 lead from the drain to every step; `limited_moves` widens them.
        kinds["drain"] = (
            np.full(len(steps), layout.drain_node), step_nodes, np.zeros(len(steps), np.int64),
            None,
        )  # fmt: skip
    ends = np.cumsum([len(row[1]) for row in kinds.values()]).tolist()
    starts = [0, *ends[:-1]]
    arcs = {k: np.arange(a, b) for k, a, b in zip(kinds, starts, ends, strict=True)}
    costs = [np.zeros(len(r[1]), np.int64) if r[3] is None else r[3] for r in kinds.values()]
    price = np.zeros(layout.sink_node + 1 + with_drain, np.int64)
    # The initial dual price of each partition class is the least cost of its arcs.
    price[classes] = best
    tail, head, capacity = (np.concatenate([row[i] for row in kinds.values()]) for i in range(3))
    network = FlowNetwork(
        len(price), tail, head, capacity, source=layout.source, sink=layout.sink_node,
        cost=np.concatenate(costs), price=price,
    )  # fmt: skip
    return network, arcs


def add_flow_of_kept_partitions(
    problem: TransportProblem,
    layout: FlowNetworkLayout,
    network: FlowNetwork,
    arcs: dict[str, IntArray],
) -> None:
    """Start the flow with partitions that stay with their previous owners, where that is cheapest.

    The search that follows would find this flow too, but more slowly. The limits of the members'
    loads are respected.

    Args:
        problem: partitions, members, and the cost of each pair.
        layout: the node numbers of the network.
        network: the network; changed in place.
        arcs: indices of the arcs by type.
    """
    # The search would find the same flow, with one path for each pair of class and claimant.
    price = network.price[problem.keep_class]
    sole = np.bincount(problem.keep_class, problem.keep_most, len(problem.supply)) <= problem.supply
    good = np.flatnonzero((problem.keep_cost == price) & sole[problem.keep_class])
    unit, most = layout.unit[problem.keep_member[good]], problem.keep_most[good]
    left = sum_by_position(unit, most, len(layout.size))
    climbs = layout.steps.divide_among_steps(left)
    stays = fit_in_order(unit, most, climbs.sum(axis=1))
    for kind, flow in (
        ("supply", sum_by_position(problem.keep_class[good], stays, len(problem.supply))),
        ("climb", climbs.reshape(-1)),
        ("step", climbs.sum(axis=0)),
    ):
        network.add_flow(arcs[kind], flow)
    network.add_flow(arcs["keep"][good], stays)
