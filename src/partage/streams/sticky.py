"""The sticky task assignors of kafka-streams 4.3.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from partage.errors import UnsupportedProblemError
from partage.streams.plan import DraftAssignment, TaskPlan
from partage.streams.problem import TaskProblem
from partage.streams.rack_aware import RackOptimizer
from partage.streams.task_assignment_utils import (
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
    stateful_in_hash_order,
)
from partage.streams.task_ids import TaskId, task_hash, task_order_key, tasks_in_hash_order

__all__ = [
    "FallbackPrior",
    "LegacySticky",
    "PublicSticky",
    "PublicStickyPreserving",
    "StickyCore",
    "TaskPairs",
]

_HASH_BITS = 0xFFFFFFFF


class TaskPairs:
    """Pairs of tasks that share a client already; a new pair is worth a client.

    Raises:
        UnsupportedProblemError: so many tasks that Kafka's int32 count of pairs is negative,
            at which its hash set refuses to be made.
    """

    def __init__(self, tasks: int) -> None:
        # Java: n * (n - 1) / 2 in int32, which wraps from 46,342 tasks on.
        product = (tasks * (tasks - 1) & _HASH_BITS ^ 1 << 31) - (1 << 31)
        if product < 0:
            raise UnsupportedProblemError(
                f"{tasks} tasks: Kafka's class counts pairs of tasks in int32 and fails above 46341"
            )
        self._most = product // 2
        self._size = tasks
        self._pairs: set[int] = set()

    def add(self, task: int, others: Iterable[int]) -> None:
        """The task joins these."""
        self._pairs.update(self._pair(task, other) for other in others)

    def has_new(self, task: int, *others: Iterable[int]) -> bool:
        """Whether one of the others has not shared a client with the task yet."""
        if self.full:
            return False
        return any(self._pair(task, other) not in self._pairs for some in others for other in some)

    @property
    def full(self) -> bool:
        """Whether no pair is new any more."""
        return len(self._pairs) == self._most

    def _pair(self, one: int, other: int) -> int:
        return one * self._size + other if one < other else other * self._size + one


class StickyCore:
    """Past and present of the tasks, and the choice of a client.

    Attributes:
        problem, draft: the question and what was given so far.
        map_order: clients as the client map walks them.
        previous_active: client that ran the task, by number of the task.
        previous_standby: clients that had its state, in the order of their hash set.
        given: actives and standbys of each client in the order of giving.
        active_order: tasks of ``previous_active`` as its hash map walks them.
    """

    def __init__(
        self,
        problem: TaskProblem,
        *,
        capacity_breaks_ties: bool = True,
        hash_of: Callable[[TaskId], int] = task_hash,
        in_order: Callable[[Iterable[TaskId]], list[TaskId]] | None = None,
    ) -> None:
        self.problem = problem
        self.draft = DraftAssignment(problem)
        self.given: list[tuple[list[int], list[int]]] = [([], []) for _ in problem.clients]
        self.map_order = problem.client_map_order
        self.quota = len(problem.tasks) // sum(problem.capacity)
        self._ties = capacity_breaks_ties
        self._pairs = TaskPairs(len(problem.tasks))
        self._remember(in_order or (lambda tasks: sorted(tasks, key=task_order_key)), hash_of)

    def _remember(
        self,
        in_order: Callable[[Iterable[TaskId]], list[TaskId]],
        hash_of: Callable[[TaskId], int],
    ) -> None:
        number_of = self.problem.number_of
        ran: dict[TaskId, int] = {}
        had: dict[TaskId, list[int]] = {}
        for client in self.map_order:
            its = self.problem.clients[client]
            for task in in_order(its.previous_active):
                ran[task] = client
            for task in its.previous_standby:
                had.setdefault(task, []).append(client)
        walked = tasks_in_hash_order(ran, hash_of=hash_of)
        self.active_order = [number_of[task] for task in walked if task in number_of]
        self.previous_active = {
            number_of[task]: client for task, client in ran.items() if task in number_of
        }
        self.previous_standby = {
            number_of[task]: self.problem.client_hash_order(clients)
            for task, clients in had.items()
            if task in number_of
        }

    # -- giving ----------------------------------------------------------------------------------

    def give_active(self, task: int, client: int) -> None:
        """The task becomes active there, and a pair with all that is there."""
        self._paired(task, client)
        self.draft.assign_active(client, task)
        self.given[client][0].append(task)

    def give_standby(self, task: int, client: int) -> None:
        """The task becomes a standby there, and a pair with all that is there."""
        self._paired(task, client)
        self.draft.assign_standby(client, task)
        self.given[client][1].append(task)

    def _paired(self, task: int, client: int) -> None:
        self._pairs.add(task, self.draft.active[client])
        self._pairs.add(task, self.draft.standby[client])

    def has_room(self, client: int) -> bool:
        """Whether the client has fewer actives than its threads' share of all tasks."""
        return len(self.draft.active[client]) < self.draft.capacity[client] * self.quota

    def keep_actives(self, *, whatever_the_load: bool) -> None:
        """Each task back to the client that ran it, if that has room."""
        for task in self.active_order:
            client = self.previous_active[task]
            if whatever_the_load or self.has_room(client):
                self.give_active(task, client)

    def revive_standbys(self, tasks: Iterable[int]) -> list[int]:
        """Each task to the first client with room that has its state; those left over."""
        left = []
        for task in tasks:
            client = next(filter(self.has_room, self.previous_standby.get(task, ())), None)
            if client is None:
                left.append(task)
            else:
                self.give_active(task, client)
        return left

    def without_copy(self, task: int) -> list[int]:
        """Clients without a copy of the task, as a hash set of them is walked."""
        free = [client for client in self.map_order if not self.draft.holds(client, task)]
        return self.problem.client_hash_order(free)

    # -- choosing --------------------------------------------------------------------------------

    def best(self, task: int, among: Sequence[int]) -> int:
        """The client for a task: where it was, where its state is, or the least loaded."""
        if len(among) == 1:
            return among[0]
        within = set(among)
        before = self.previous_active.get(task)
        if before is None or before not in within:
            before = self._best_standby(task, within)
        if before is not None:
            if not self._should_balance(before):
                return before
            standby = self._best_standby(task, within)
            if standby is not None and not self._should_balance(standby):
                return standby
        chosen = self._least_loaded(task, among)
        assert chosen is not None  # noqa: S101 - `among` is not empty
        return chosen

    def _best_standby(self, task: int, within: set[int]) -> int | None:
        known = self.previous_standby.get(task)
        if known is None:
            return None
        copied = self.problem.client_hash_order(known, copied=True)
        return self._least_loaded(task, [client for client in copied if client in within])

    def _should_balance(self, client: int) -> bool:
        draft = self.draft
        if draft.count[client] < draft.capacity[client]:
            return False
        return any(self._more_free(other, client) for other in range(len(draft.count)))

    def _more_free(self, client: int, other: int) -> bool:
        mine, its = self.draft.load[client], self.draft.load[other]
        if mine != its or not self._ties:
            return mine < its
        return self.draft.capacity[client] > self.draft.capacity[other]

    def _least_loaded(self, task: int, among: Sequence[int]) -> int | None:
        draft = self.draft
        best: int | None = None
        for client in among:
            if draft.count[client] == 0:
                return client
            if (best is None or self._more_free(client, best)) and self._pairs.has_new(
                task, draft.active[client], draft.standby[client]
            ):
                best = client
        if best is not None:
            return best
        for client in among:
            if best is None or self._more_free(client, best):
                best = client
        return best


_TRAFFIC_COST, _NON_OVERLAP_COST = 1, 10


class LegacySticky:
    """Tasks stay, or go where their state is, as long as no thread gets more than its share.

    Guarantees, the first before the next:

    1. every task is active on exactly one client, standbys never with their active;
    2. a client keeps what it ran, up to ``tasks // threads`` actives a thread, then gets
       tasks of which it has state; the rest goes to previous owners that are not full, or
       to the least loaded client, one with which the task makes a new pair if there is one;
    3. standbys of stateful tasks by the same choice.

    Lags have no say, and ``probing`` is always false. Java's hash order decides which tasks
    are kept where a client had too many, and the order of the clients; it is followed.
    Cost: O(T C) and O(T^2 / C) pairs for T tasks, C clients.

    Where it is not optimal: one pass, so that loads may differ by more than one task a
    thread; with fewer tasks than threads the share is 0 and nothing is kept by step 2.

    Exact to ``LegacyStickyTaskAssignor`` of kafka-streams 4.3.1, its client map being a
    ``HashMap`` as in production (Kafka's unit tests pass a sorted map).

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [ClientState(ProcessId(0, 1), previous_active=[tasks[0], tasks[2]]),
    ...            ClientState(ProcessId(0, 2), previous_active=[tasks[1]]),
    ...            ClientState(ProcessId(0, 3))]
    >>> LegacySticky().assign(TaskProblem(clients, tasks, tasks)).active
    ((2,), (1,), (0,))
    """

    name = "streams:legacy-sticky"
    exact_to = (
        "org.apache.kafka.streams.processor.internals.assignment.LegacyStickyTaskAssignor 4.3.1"
    )

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """The plan.

        Raises:
            UnsupportedProblemError: more tasks than Kafka's class can count pairs of.
        """
        return TaskPlan.of(problem, sticky_draft(problem, RackOptimizer.for_legacy(problem)).draft)


def sticky_draft(
    problem: TaskProblem, racks: RackOptimizer | None, *, preserve: bool = False
) -> StickyCore:
    """The whole algorithm; with ``preserve`` what runs stays whatever the load."""
    core = StickyCore(problem)
    core.keep_actives(whatever_the_load=preserve)
    arrived = problem.task_hash_order(problem.task_arrival)
    unassigned = [
        task
        for task in problem.task_hash_order(arrived, copied=True)
        if not any(task in mine for mine in core.draft.active)
    ]
    for task in sorted(core.revive_standbys(unassigned)):
        core.give_active(task, core.best(task, core.map_order))
    traffic, non_overlap = sticky_costs(problem)
    if racks:
        racks.optimize_active(core.draft, problem.stateful, traffic, non_overlap)
        racks.optimize_active(core.draft, problem.stateless, 1, 0)
    place_standbys(core, problem.task_hash_order(problem.stateful_arrival))
    if racks and problem.settings.num_standby_replicas > 0:
        racks.optimize_standby(core.draft, traffic, non_overlap, lambda *_: True)
    return core


def place_standbys(core: StickyCore, tasks: list[int]) -> None:
    """Each task's standbys, as far as there are clients without a copy."""
    for task in tasks:
        for _ in range(core.problem.settings.num_standby_replicas):
            free = core.without_copy(task)
            if not free:
                break
            core.give_standby(task, core.best(task, free))


def sticky_costs(problem: TaskProblem) -> tuple[int, int]:
    """Costs of traffic and of moving; moving is dear where stickiness is the aim."""
    traffic = problem.settings.rack_aware_assignment_traffic_cost
    non_overlap = problem.settings.rack_aware_assignment_non_overlap_cost
    return (
        _TRAFFIC_COST if traffic is None else traffic,
        _NON_OVERLAP_COST if non_overlap is None else non_overlap,
    )


class FallbackPrior:
    """What a client ran it keeps, whatever the load; and the lags are asked for again.

    Kafka's leader falls back to it when it could not fetch the ends of changelogs. It is
    `LegacySticky` that preserves all actives, without racks, and always probes.

    Exact to ``FallbackPriorTaskAssignor`` of kafka-streams 4.3.1 (KIP-441).

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [ClientState(ProcessId(0, 1), previous_active=tasks),
    ...            ClientState(ProcessId(0, 2))]
    >>> plan = FallbackPrior().assign(TaskProblem(clients, tasks, tasks))
    >>> plan.active, plan.probing
    (((0, 1, 2), ()), True)
    """

    name = "streams:fallback-prior"
    exact_to = (
        "org.apache.kafka.streams.processor.internals.assignment.FallbackPriorTaskAssignor 4.3.1"
    )

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """The plan; ``probing`` is always true.

        Raises:
            UnsupportedProblemError: more tasks than Kafka's class can count pairs of.
        """
        return TaskPlan.of(problem, sticky_draft(problem, None, preserve=True).draft, probing=True)


class PublicSticky:
    """Tasks stay, or go where their state is: Kafka's sticky assignor of KIP-924.

    As `partage.streams.sticky.LegacySticky`, but loads alone compare (threads break no
    tie), standbys are for tasks with a changelog, and racks are optimised only where both
    costs are configured, by the helpers of `partage.streams.task_assignment_utils`.

    It is the only assignor of that package in 4.3.1: high availability is still on the internal
    interface.

    Kafka walks standbys' tasks in a hash set of objects without a hash of their own: in
    the order of their addresses, which differs from run to run. Here the tasks are hashed
    as task ids. All else is exact.

    Exact to ``org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor`` of
    kafka-streams 4.3.1, tasks hashed as task ids.

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [ClientState(ProcessId(0, 1), previous_active=tasks),
    ...            ClientState(ProcessId(0, 2))]
    >>> PublicSticky().assign(TaskProblem(clients, tasks, tasks)).active
    ((1, 2), (0,))
    """

    name = "streams:sticky"
    exact_to = (
        "org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor 4.3.1"
        " (tasks hashed as task ids)"
    )
    preserve = False

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """The plan.

        Raises:
            UnsupportedProblemError: more tasks than Kafka's class can count pairs of.
        """
        core = StickyCore(problem, capacity_breaks_ties=False)
        draft = core.draft
        core.keep_actives(whatever_the_load=self.preserve)
        walked = problem.task_hash_order(problem.task_arrival)
        unassigned = [
            task
            for task in problem.task_hash_order(walked, copied=True)
            if not any(task in mine for mine in draft.active)
        ]
        everybody = problem.client_hash_order(core.map_order)
        for task in sorted(core.revive_standbys(unassigned)):
            core.give_active(task, core.best(task, everybody))
        traffic, non_overlap = sticky_costs(problem)
        costs = {"traffic_cost": traffic, "non_overlap_cost": non_overlap}
        if not self.preserve:
            stores = set(problem.with_stores)
            rest = [task for task in range(len(problem.tasks)) if task not in stores]
            optimize_rack_aware_active_tasks(problem, draft, problem.with_stores, **costs)
            optimize_rack_aware_active_tasks(
                problem, draft, rest, traffic_cost=1, non_overlap_cost=0
            )
        place_standbys(core, stateful_in_hash_order(problem))
        if not self.preserve and problem.settings.num_standby_replicas > 0:
            optimize_rack_aware_standby_tasks(problem, draft, **costs)
        return TaskPlan.of(problem, draft, follow_up=everybody[:1] if self.preserve else ())


class PublicStickyPreserving(PublicSticky):
    """KIP-924's sticky assignor that leaves every active where it is, and rebalances at once.

    Kafka's class with ``mustPreserveActiveTaskAssignment``: no racks, and the first client of
    a Java hash map has a on_assignment-up deadline of 0.

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [ClientState(ProcessId(0, 1), previous_active=tasks),
    ...            ClientState(ProcessId(0, 2))]
    >>> plan = PublicStickyPreserving().assign(TaskProblem(clients, tasks, tasks))
    >>> plan.active, plan.follow_up
    (((0, 1, 2), ()), (0,))
    """

    name = "streams:sticky-preserving"
    preserve = True
