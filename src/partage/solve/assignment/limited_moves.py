"""The most even loads within a limit of moves, by parametric minimum-cost flow.

Let n[j] be the number of members with a load of at least j. The best loads are those whose n is
lexicographically least from the highest level down. A staircase with one step for each level bounds
n (see `staircase`). So a minimum-cost flow decides whether n[j] can be c while all higher levels
stay unchanged: it can if the flow needs no more moves than the limit. The steps are lowered from
the top. The flow that leaves a step takes the shortest paths to lower steps, as long as moves are
left.

The dual prices of members prove each result. For a level that more members reach than the next
higher one, they prove that one member fewer needs more moves than the limit (weak duality, see
`partage.judge.verify_certificate`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError, ProblemTooLargeError
from partage.solve.assignment.cheapest_plan import (
    FlowNetworkLayout,
    TransportProblem,
    add_flow_of_kept_partitions,
    build_network,
    find_cheapest_plan,
)
from partage.solve.assignment.network import LARGEST_NETWORK, FlowNetwork, IntArray, WorkBudget
from partage.solve.assignment.staircase import LoadLimitSteps

__all__ = ["LimitedLoads", "find_limited_loads"]

#: Arcs that emptying the steps may look at: about one second. Beyond it a local search is better.
_MOST_WORK = 30_000_000


@dataclass(frozen=True, slots=True, eq=False)
class LimitedLoads:
    """The most even member loads that can be reached with a limited number of partition moves.

    A load is a number of partitions. "Most even" means that the largest load is as small as
    possible, then the second largest, and so on. For each load, a proof shows how many members must
    have at least this load.

    Attributes:
        loads: int64[n], largest first.
        proofs: pairs of a load and the dual prices of members (int64[members]), which prove how
            many members must have at least this load.
    """

    loads: IntArray
    proofs: tuple[tuple[int, IntArray], ...]


def find_limited_loads(problem: TransportProblem, least_kept: int) -> LimitedLoads:
    """Find the most even loads of members that can be reached with a limited number of moves.

    The load of a member is its number of partitions. At least ``least_kept`` partitions must stay
    with a previous owner.

    Args:
        problem: partitions and members. The cost of a partition that stays is -1, of any other 0;
            ``loads`` are the most even loads if all partitions may move.
        least_kept: how many partitions must stay; at most as many as can stay.

    Raises:
        ProblemTooLargeError: the network is too large, or searching it would take too long.

    >>> one, two = np.array([0]), np.array([0, 0])
    >>> problem = TransportProblem(np.array([6]), two, 1, one, one, np.array([6]), np.array([-1]),
    ...                            one, one, np.array([0]), np.array([3, 3]))
    >>> find_limited_loads(problem, 4).loads.tolist()
    [4, 2]
    """
    members = int(np.count_nonzero(problem.group >= 0))
    top = _least_maximum_load(problem, least_kept, members)
    steps = LoadLimitSteps(np.full(top, members), np.ones(top, np.int64))
    layout = FlowNetworkLayout.for_problem(problem, steps)
    if layout.arcs > LARGEST_NETWORK:
        raise ProblemTooLargeError(
            f"the best loads within the limit need a network of {layout.arcs} arcs, the limit is "
            f"{LARGEST_NETWORK}"
        )
    network, arcs = build_network(problem, layout, with_drain=True)
    network.budget = WorkBudget(_MOST_WORK)
    add_flow_of_kept_partitions(problem, layout, network, arcs)
    _augment_at_minimum_cost(network, arcs["supply"])
    network.source = layout.drain_node
    spare = int(network.flow_by_arc()[arcs["keep"]].sum()) - least_kept
    top_price = int(problem.supply.sum()) + 1
    found = _LargestLoadReduction(network, layout, arcs["step"], arcs["drain"], spare, top_price)
    found.lower_largest_loads()
    reaching = network.left[2 * arcs["step"]] + network.left[2 * arcs["step"] + 1]
    loads = (reaching[None, :] >= np.arange(1, members + 1)[:, None]).sum(axis=1)
    return LimitedLoads(loads.astype(np.int64), tuple(found.proofs))


def _augment_at_minimum_cost(network: FlowNetwork, supply: IntArray) -> None:
    """Send all flow from source to sink at minimum cost, by successive shortest paths.

    ``network`` is changed in place. ``supply`` are the indices of the arcs that leave the source.

    Raises:
        InvalidProblemError: not all flow fits.
    """
    network.maximise_flow()
    while network.left[2 * supply].any():
        if not network.raise_prices():
            raise InvalidProblemError("no plan has loads as good as these", path="loads")
        network.maximise_flow()


def _least_maximum_load(problem: TransportProblem, least_kept: int, members: int) -> int:
    """Find the smallest possible largest load if some partitions must stay with previous owners.

    A load is a number of partitions. The result is found by bisection.

    Args:
        problem: partitions, members, and the cost of each pair.
        least_kept: how many partitions must stay.
        members: number of members that may own partitions.
    """
    most = np.bincount(problem.keep_member, problem.keep_most, max(len(problem.group), 1))
    low, high = int(problem.loads.max(initial=0)), int(problem.supply.sum())
    # The first guess is the largest number of partitions that one member can keep.
    middle = max(low, int(most.max(initial=0)))
    while low < high:
        middle = min(middle, high - 1)
        if _max_kept_partitions(problem, middle, members) >= least_kept:
            high = middle
        else:
            low = middle + 1
        middle = (low + high) // 2
    return low


def _max_kept_partitions(problem: TransportProblem, max_load: int, members: int) -> int:
    """Return how many partitions can stay with previous owners if no load exceeds ``max_load``.

    A load is a member's number of partitions. ``members`` is the number of members that may own
    partitions.
    """
    bounded = TransportProblem(
        problem.supply, problem.group, problem.groups, problem.keep_class, problem.keep_member,
        problem.keep_most, problem.keep_cost, problem.free_class, problem.free_group,
        problem.free_cost, np.full(members, max_load),
    )  # fmt: skip
    return int(find_cheapest_plan(bounded).kept.sum())


@dataclass(slots=True, eq=False)
class _LargestLoadReduction:
    """Algorithm that makes the largest member loads smaller with a limited number of partition
    moves.

    A load is a number of partitions. For each load k, from the highest down, the algorithm
    minimises the number of members with at least k partitions.

    Attributes:
        network: flow network whose cheapest flow is the assignment.
        layout: the numbers of its nodes.
        step, drain: for each load k, the arc to the sink, and the arc from the source by which flow
            is rerouted.
        spare: moves that are left.
        top_price: a dual price above any number of moves.
        proofs: see `LimitedLoads`.
        _stuck: bool[nodes], nodes that the current loads reach if none can be lowered; else None.
    """

    network: FlowNetwork
    layout: FlowNetworkLayout
    step: IntArray
    drain: IntArray
    spare: int
    top_price: int
    proofs: list[tuple[int, IntArray]] = field(default_factory=list)
    _stuck: NDArray[np.bool_] | None = None

    def lower_largest_loads(self) -> None:
        """Make the largest load as small as possible, then the next largest, and so on.

        The number of moved partitions is limited; the algorithm ends when no allowed move lowers a
        load.
        """
        higher, at, size = 0, len(self.step), 1
        # Several levels are lowered together: such a block doubles after each success and is halved
        # after each failure, until a single level is lowered as far as possible.
        while at > 0:
            block = np.arange(max(0, at - size), at)
            left, price, spare = self.network.left.copy(), self.network.price.copy(), self.spare
            whole = self._lower_block(block, higher)
            if whole or len(block) == 1:
                at = int(block[0])
                reached = self._members_reaching(at)
                if reached > higher:
                    self.proofs.append((at + 1, self._dual_prices()))
                higher, size = reached, 2 * len(block) if whole else 1
            else:
                self.network.left, self.network.price, self.spare = left, price, spare
                size = len(block) // 2

    def _members_reaching(self, index: int) -> int:
        """Return how many members are allowed to own more than ``index`` partitions at present.

        This limit is the capacity of an arc of the flow network.
        """
        arc = 2 * int(self.step[index])
        return int(self.network.left[arc] + self.network.left[arc + 1])

    def _lower_block(self, block: IntArray, down_to: int) -> bool:
        """Move partitions to other members, so that fewer members have the highest loads.

        A load is a number of partitions.

        Args:
            block: indices of the loads (numbers of partitions) to lower together.
            down_to: number of members that may still reach them.

        Returns:
            whether the number fell to ``down_to`` for all of them.
        """
        network, layout = self.network, self.layout
        step, drain = self.step[block], self.drain[block]
        flow = network.left[2 * step + 1].copy()
        wanted = np.maximum(flow - down_to, 0)
        network.left[2 * step] = np.maximum(down_to - flow, 0)
        network.left[2 * step + 1] = 0
        network.left[2 * drain] = wanted
        network.price[layout.drain_node] = network.price[layout.first_step + block].min()
        self._move_to_less_loaded(drain)
        short = network.left[2 * drain].copy()
        network.left[2 * drain] = network.left[2 * drain + 1] = 0
        # Paths from other steps of the block may have used free capacity of this step.
        flow += network.left[2 * step + 1] - (wanted - short)
        network.left[2 * step + 1] = flow
        network.left[2 * step] = np.maximum(down_to - flow, 0)
        # After a failure with several levels the caller restores the network; a single level is as
        # low as possible.
        return not short.any()

    def _move_to_less_loaded(self, drain: IntArray) -> None:
        """Move partitions from highly loaded to less loaded members until no allowed move is left.

        A move is flow along a shortest path. ``drain`` are the indices of the arcs through which
        the flow of the loads to lower is rerouted.
        """
        network, self._stuck = self.network, None
        while network.left[2 * drain].any():
            each = int(network.price[self.layout.drain_node])
            wanted = network.left[2 * drain].copy()
            total = int(wanted.sum())
            most = min(total, self.spare // each) if each > 0 else total
            # Each later path costs at least as many moves: a block of levels cannot be lowered.
            if not most or (most < total and len(drain) > 1):
                return
            if most < total:
                network.left[2 * drain] = most
            network.maximise_flow()
            pushed = int(min(total, most) - network.left[2 * drain].sum())
            if most < total:
                network.left[2 * drain] = total - pushed
            self.spare -= each * pushed
            if pushed == most < total:
                return
            if pushed < total and not network.raise_prices():
                full = network.head[2 * drain[network.left[2 * drain] > 0]]
                self._stuck = network.reachable_nodes(full)
                return

    def _dual_prices(self) -> IntArray:
        """Return the dual prices of the members (int64[members]), which prove the current loads.

        They are numbers of the minimum-cost flow. They prove how many members must have the highest
        loads.
        """
        layout, network = self.layout, self.network
        price = network.price
        if self._stuck is not None:
            price = price + self.top_price * self._stuck
        # Members whose load cannot fall to a lower level get the highest price.
        return np.where(layout.unit >= 0, price[layout.first_unit + layout.unit], 0)
