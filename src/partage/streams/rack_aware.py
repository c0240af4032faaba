"""Rack-aware optimisation of an assignment (KIP-925, Kafka: ``RackAwareTaskAssignor``).

The cheapest assignment is a minimum-cost flow from tasks to clients. `min_traffic` and
`balance_subtopology` build the networks of Kafka's two strategies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from partage.errors import UnsupportedProblemError
from partage.streams.min_cost_flow import FlowGraph
from partage.streams.problem import DraftAssignment, PartitionRacks, TaskProblem

__all__ = [
    "RackOptimizer",
    "balance_subtopology",
    "legacy_racks_are_known",
    "min_traffic",
    "rack_misses",
]

Int64Array = NDArray[np.int64]


def min_traffic(assigned: NDArray[np.bool_], cost: Int64Array) -> list[int]:
    """Exchange Kafka Streams tasks between clients so that the total cost is minimal (KIP-925).

    The cost is traffic across racks plus moved tasks. Each client keeps its number of tasks. This
    is Kafka's strategy ``min_traffic``; the algorithm is minimum-cost flow.

    Args:
        assigned: bool[tasks, clients], the current assignment; each task is on one client.
        cost: int64[tasks, clients], cost of running the task on the client.

    Returns:
        The client (column) of each task.

    Raises:
        UnsupportedProblemError: a task is on no client or on several; Kafka's class throws too.
    """
    # The search starts from the current assignment.
    tasks, clients = assigned.shape
    _check_assigned_once(assigned)
    task = np.arange(1, tasks + 1)
    client = np.arange(tasks + 1, tasks + clients + 1)
    number = assigned.sum(axis=0, dtype=np.int64)
    has = assigned.astype(np.int64).ravel()
    ones = np.ones(tasks, np.int64)
    graph = FlowGraph.from_edges(
        np.concatenate([np.repeat(task, clients), np.zeros(tasks, np.int64), client]),
        np.concatenate([np.tile(client, tasks), task, np.full(clients, tasks + clients + 1)]),
        np.concatenate([np.ones(tasks * clients, np.int64), ones, number]),
        np.concatenate([cost.ravel(), 0 * ones, 0 * number]),
        np.concatenate([has, ones, number]),
    )
    graph.cancel_negative_cycles()
    owners: list[int] = (
        graph.flow_by_edge()[: tasks * clients].reshape(tasks, clients).argmax(1).tolist()
    )
    return owners


def balance_subtopology(
    assigned: NDArray[np.bool_], cost: Int64Array, groups: Sequence[Sequence[int]]
) -> list[int]:
    """Spread the tasks of each sub-topology evenly over Kafka Streams clients, at minimal cost.

    The cost is traffic across racks plus moved tasks (KIP-925). This is Kafka's strategy
    ``balance_subtopology``; the algorithm is minimum-cost flow.

    Args:
        assigned: bool[tasks, clients], the current assignment; each task is on one client.
        cost: int64[tasks, clients], cost of running the task on the client.
        groups: task numbers (rows) of each sub-topology, in order; every row is in one group.

    Raises:
        UnsupportedProblemError: a task is on no client or on several.
    """
    tasks, clients = assigned.shape
    # A client gets at most ceil(f * n) of a sub-topology's n tasks, where f is the fraction of all
    # tasks that it has now. This limit is computed in IEEE doubles in Kafka's order of operations.
    # The search starts from a maximum flow.
    _check_assigned_once(assigned)
    number = assigned.sum(axis=0).tolist()
    rows = [row for group in groups for row in group]
    second = tasks + clients * len(groups) + 1
    origin, end, capacity, price = [], [], [], []
    first_task = 1
    for at, group in enumerate(groups):
        first_stage = tasks + clients * at + 1
        for j in range(clients):
            for i, row in enumerate(group):
                origin.append(first_task + i)
                end.append(first_stage + j)
                capacity.append(1)
                price.append(int(cost[row, j]))
        first_task += len(group)
    stages = len(origin)
    for at, group in enumerate(groups):
        for j in range(clients if group else 0):
            origin.append(tasks + clients * at + 1 + j)
            end.append(second + j)
            capacity.append(math.ceil(number[j] * 1.0 / tasks * len(group)))
    origin += [0] * tasks + list(range(second, second + clients))
    end += [*range(1, tasks + 1), *[second + clients] * clients]
    capacity += [1] * tasks + number
    price += [0] * (len(origin) - len(price))
    graph = FlowGraph.from_edges(
        np.array(origin, np.int64),
        np.array(end, np.int64),
        np.array(capacity, np.int64),
        np.array(price, np.int64),
        np.zeros(len(origin), np.int64),
    )
    if graph.maximise_flow() != tasks:
        raise UnsupportedProblemError("the shares of sub-topologies cannot hold all tasks")
    graph.cancel_negative_cycles()
    flows = graph.flow_by_edge()[:stages]
    used = np.flatnonzero(flows > 0)
    owner = [0] * tasks
    for edge in used.tolist():
        owner[rows[origin[edge] - 1]] = (end[edge] - tasks - 1) % clients
    return owner


def _check_assigned_once(assigned: NDArray[np.bool_]) -> None:
    holders = assigned.sum(axis=1)
    for row in np.flatnonzero(holders != 1).tolist():
        number = "no client" if holders[row] == 0 else f"{holders[row]} clients"
        raise UnsupportedProblemError(f"task {row} of those to optimise is on {number}")


#: (draft, source, destination, task) -> whether the standby may move to the destination.
MaySwap = Callable[[DraftAssignment, int, int, int], bool]

_MOST_STANDBY_ROUNDS = 4


class RackOptimizer:
    """Exchange of Kafka Streams tasks between clients, so that fewer reads cross racks (KIP-925).

    It minimises the sum of two costs. The traffic cost counts for each partition that has no
    replica in the client's rack (source partitions of active tasks, changelogs of standbys). The
    non-overlap cost counts for each task on a client that does not have it now. Costs are int32 and
    overflow as in Java.
    """

    def __init__(
        self,
        problem: TaskProblem,
        active_misses: NDArray[np.int64],
        standby_misses: NDArray[np.int64],
        *,
        client_order: Sequence[int],
        groups: Callable[[Sequence[int]], list[list[int]]],
        balanced_standbys: bool,
    ) -> None:
        self._problem = problem
        self._active_misses = active_misses
        self._standby_misses = standby_misses
        self._clients = list(client_order)
        self._groups = groups
        self._strategy = problem.settings.rack_aware_assignment_strategy
        self._balanced_standbys = balanced_standbys and self._strategy == "balance_subtopology"
        self._rack = [client.rack for client in problem.clients]

    @classmethod
    def for_legacy(cls, problem: TaskProblem) -> RackOptimizer | None:
        """Create the rack optimizer that the built-in task assignors of Kafka Streams use.

        It exchanges tasks between clients so that fewer partitions are read across racks. None if
        Kafka would ignore racks, for example because some are unknown. ``problem`` has the clients,
        tasks and racks.
        """
        if not legacy_racks_are_known(problem):
            return None
        return cls(
            problem,
            rack_misses(problem, lambda racks: racks.source),
            rack_misses(problem, lambda racks: racks.changelog),
            client_order=range(len(problem.clients)),
            groups=lambda tasks: group_by_subtopology(problem, tasks),
            balanced_standbys=False,
        )

    @classmethod
    def for_public(cls, problem: TaskProblem, *, standbys: bool) -> RackOptimizer | None:
        """Create the rack optimizer of Kafka Streams' public ``TaskAssignmentUtils`` (KIP-924).

        It exchanges tasks between clients so that fewer partitions are read across racks. None if
        Kafka would ignore racks for this problem.

        Args:
            problem: clients, tasks and racks of the rebalance.
            standbys: whether standby tasks are optimised, not active ones.

        Returns:
            The optimizer, or None.
        """
        if not public_racks_are_known(problem, standbys=standbys):
            return None
        changelogs = rack_misses(problem, lambda racks: racks.changelog)
        return cls(
            problem,
            rack_misses(problem, lambda racks: racks.source) + changelogs,
            changelogs,
            client_order=problem.client_map_order,
            groups=lambda tasks: group_by_subtopology_number(problem, tasks),
            balanced_standbys=True,
        )

    def optimize_active(
        self, draft: DraftAssignment, tasks: Sequence[int], traffic: int, non_overlap: int
    ) -> None:
        """Exchange active Kafka Streams tasks between clients at minimal total cost.

        Each partition that is read across racks and each moved task has a cost.

        Args:
            draft: unfinished assignment of tasks to clients; changed in place.
            tasks: numbers of the tasks that may move.
            traffic: cost of a partition that is read across racks.
            non_overlap: cost of a task that moves to another client.
        """
        if not tasks:
            return
        clients = self._clients
        assigned = np.array([[task in draft.active[one] for one in clients] for task in tasks])
        cost = self._cost(
            self._active_misses[np.ix_(tasks, clients)], assigned, traffic, non_overlap
        )
        if self._strategy == "balance_subtopology":
            owners = _balance(assigned, cost, tasks, self._groups(tasks))
        else:
            owners = min_traffic(assigned, cost)
        before = assigned.argmax(axis=1).tolist()
        for task, old, new in zip(tasks, before, owners, strict=True):
            if old != new:
                draft.move_task(draft.active, task, clients[old], clients[new])

    def optimize_standby(
        self, draft: DraftAssignment, traffic: int, non_overlap: int, may_swap: MaySwap
    ) -> None:
        """Exchange standby tasks of Kafka Streams between clients in different racks.

        It is repeated as long as it lowers the cost of reads across racks and of moves.

        Args:
            draft: unfinished assignment of tasks to clients; changed in place.
            traffic: cost of a partition that is read across racks.
            non_overlap: cost of a task on a client that does not have it now.
            may_swap: function that returns whether a standby may move to a client.
        """
        groups = self._groups(sorted(set().union(*draft.standby)))
        for _ in range(_MOST_STANDBY_ROUNDS):
            moved = False
            for one, other in combinations(self._clients, 2):
                if self._rack[one] != self._rack[other]:
                    costs = traffic, non_overlap
                    moved |= self._exchange(draft, (one, other), costs, may_swap, groups)
            if not moved:
                return

    def _exchange(
        self,
        draft: DraftAssignment,
        pair: tuple[int, int],
        costs: tuple[int, int],
        may_swap: MaySwap,
        groups: list[list[int]],
    ) -> bool:
        # True if any standby moved.
        one, other = pair
        from_one = _movable(draft, one, other, may_swap)
        from_other = _movable(draft, other, one, may_swap) if from_one else []
        if not from_other:
            return False
        tasks = sorted(from_one + from_other)
        ends = sorted(pair)
        assigned = np.array([[task in draft.standby[client] for client in ends] for task in tasks])
        cost = self._cost(self._standby_misses[np.ix_(tasks, ends)], assigned, *costs)
        if self._balanced_standbys:
            owners = _balance(assigned, cost, tasks, groups)
        else:
            owners = min_traffic(assigned, cost)
        moved = False
        for task, old, new in zip(tasks, assigned.argmax(axis=1).tolist(), owners, strict=True):
            if old != new:
                draft.move_task(draft.standby, task, ends[old], ends[new])
                moved = True
        return moved

    @staticmethod
    def _cost(
        misses: NDArray[np.int64], assigned: NDArray[np.bool_], traffic: int, non_overlap: int
    ) -> NDArray[np.int64]:
        # Costs overflow as Java's int.
        cost = misses * traffic + np.where(assigned, 0, non_overlap)
        return cost.astype(np.int32).astype(np.int64)


def _balance(
    assigned: NDArray[np.bool_],
    cost: Int64Array,
    tasks: Sequence[int],
    groups: Sequence[Sequence[int]],
) -> list[int]:
    # The groups may have other tasks, too: only those of ``tasks`` have a row.
    rows = {task: row for row, task in enumerate(tasks)}
    return balance_subtopology(
        assigned, cost, [[rows[t] for t in one if t in rows] for one in groups]
    )


def _movable(draft: DraftAssignment, source: int, destination: int, may_swap: MaySwap) -> list[int]:
    return [
        task
        for task in sorted(draft.standby[source])
        if not draft.has_copy(destination, task) and may_swap(draft, source, destination, task)
    ]


def group_by_subtopology(problem: TaskProblem, tasks: Sequence[int]) -> list[list[int]]:
    """Group the tasks of a Kafka Streams application by sub-topology.

    Groups are sorted by the number of the sub-topology, then by the name of the topology. A
    sub-topology without any of ``tasks`` has an empty group.

    Args:
        problem: clients and tasks of the rebalance.
        tasks: numbers of the tasks to group.
    """
    every: dict[tuple[int, str], list[int]] = {}
    for task in problem.tasks:
        every.setdefault((task.subtopology, task.topology or ""), [])
    for number in tasks:
        task = problem.tasks[number]
        every[task.subtopology, task.topology or ""].append(number)
    return [
        every[key] for key in sorted(every, key=lambda key: (key[0], key[1].encode("utf-16-be")))
    ]


def group_by_subtopology_number(problem: TaskProblem, tasks: Sequence[int]) -> list[list[int]]:
    """Group tasks by the number of their sub-topology, such as 0 for the task ``0_3``.

    Named topologies share sub-topology numbers, and therefore groups.

    Args:
        problem: clients and tasks of the rebalance.
        tasks: numbers of the tasks to group.
    """
    found: dict[int, list[int]] = {}
    for number in tasks:
        found.setdefault(problem.tasks[number].subtopology, []).append(number)
    return [found[key] for key in sorted(found)]


def rack_misses(
    problem: TaskProblem,
    partitions: Callable[[PartitionRacks], Sequence[frozenset[str] | None]],
) -> NDArray[np.int64]:
    """Count the partitions of each Kafka Streams task without a replica in each client's rack.

    The client would read these partitions from another rack.

    Args:
        problem: clients, tasks and settings of the rebalance.
        partitions: function that returns the partitions to count from a task's `PartitionRacks`.

    Returns:
        int64[tasks, clients].
    """
    known = problem.racks or {}
    racks = [client.rack for client in problem.clients]
    distinct = sorted({rack for rack in racks if rack is not None})
    column = {rack: place for place, rack in enumerate(distinct)}
    misses = np.zeros((len(problem.tasks), len(distinct)), np.int64)
    for row, task in zip(misses, problem.tasks, strict=True):
        its = known.get(task)
        for replicas in partitions(its) if its else ():
            np.add(row, 1, out=row)
            for rack in replicas or ():
                if rack in column:
                    row[column[rack]] -= 1
    return misses[:, [column.get(rack, 0) for rack in racks if rack is not None]]


def legacy_racks_are_known(problem: TaskProblem) -> bool:
    """Return whether the built-in task assignors of Kafka Streams would consider racks.

    They do so if a rack-aware strategy is set, and the racks of clients and partitions are known.
    """
    # Racks of changelog partitions are needed only with standbys. Kafka skips the optimisation
    # without an error.
    settings = problem.settings
    if settings.rack_aware_assignment_strategy == "none" or problem.racks is None:
        return False
    if any(client.rack is None for client in problem.clients):
        return False
    for task in problem.tasks:
        its = problem.racks.get(task)
        if its is None or not its.source or not all(its.source):
            return False
        if settings.num_standby_replicas > 0 and not all(its.changelog):
            return False
    return True


def public_racks_are_known(problem: TaskProblem, *, standbys: bool) -> bool:
    """Return whether Kafka Streams' class ``TaskAssignmentUtils`` (KIP-924) would consider racks.

    It does so if a rack-aware strategy and both costs are set, and all racks are known.

    Args:
        problem: clients, tasks and settings of the rebalance.
        standbys: whether standby tasks are optimised, which read changelog partitions only.
    """
    settings = problem.settings
    if (
        settings.rack_aware_assignment_strategy == "none"
        or settings.rack_aware_assignment_traffic_cost is None
        or settings.rack_aware_assignment_non_overlap_cost is None
        or any(client.rack is None for client in problem.clients)
    ):
        return False
    known = problem.racks or {}
    for task in problem.tasks:
        its = known.get(task)
        if its is None or not all(its.changelog) or not (standbys or all(its.source)):
            return False
    return True
