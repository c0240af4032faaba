"""Standby replicas: placement by load, and by client tags (KIP-708)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Protocol

from partage.streams.plan import DraftAssignment
from partage.streams.problem import TaskProblem

__all__ = [
    "DefaultStandbys",
    "StandbyPlacement",
    "TagAwareStandbys",
    "TagIndex",
    "placement_for",
    "standby_shortage",
]

Tag = tuple[str, str]


class TagIndex:
    """Which values a tag key has in the group, and which clients carry which tag."""

    def __init__(self, problem: TaskProblem) -> None:
        self.configured = frozenset(problem.settings.rack_aware_assignment_tags)
        self.tags = [dict(client.tags) for client in problem.clients]
        self.values: dict[str, set[str]] = {}
        for tags in self.tags:
            for key, value in tags.items():
                self.values.setdefault(key, set()).add(value)

    def mark(self, used: set[Tag], client: int, copies: int) -> None:
        """Mark the configured tags of a client that got a copy, the ``copies``-th of its task.

        A key of which there are no more values than copies is free again as a whole.
        """
        for key, value in self.tags[client].items():
            if key not in self.configured:
                continue
            if len(self.values[key]) <= copies:
                used -= {(key, other) for other in self.values[key]}
            else:
                used.add((key, value))

    def is_used(self, used: set[Tag], client: int) -> bool:
        """Whether the client carries a marked tag."""
        return any(self.tags[client].get(key) == value for key, value in used)


class TagAwareStandbys:
    """Standbys spread over tags (``ClientTagAwareStandbyTaskAssignor`` 4.3.1, KIP-708).

    A copy goes to the least loaded client that shares no configured tag with an earlier copy
    of its task; a key with fewer values than copies stops counting. What cannot be placed
    so goes to the least loaded clients at the end, in the order of a Java hash map.

    >>> from partage.streams import ClientState, ProcessId, AssignmentConfigs, TaskId
    >>> settings = AssignmentConfigs(num_standby_replicas=1, rack_aware_assignment_tags=("zone",))
    >>> clients = [ClientState(ProcessId(0, n), tags={"zone": "aab"[n]}) for n in range(3)]
    >>> problem = TaskProblem(clients, [TaskId(0, 0)], [TaskId(0, 0)], settings)
    >>> draft = DraftAssignment(problem)
    >>> draft.assign_active(0, 0); TagAwareStandbys(problem).assign(draft, [0]); draft.standby
    [set(), set(), {0}]
    """

    def __init__(self, problem: TaskProblem) -> None:
        self._problem = problem
        self._replicas = problem.settings.num_standby_replicas
        self._index = TagIndex(problem)

    def assign(self, draft: DraftAssignment, tasks: Iterable[int]) -> None:
        """Give each task that has an active its standbys, in the order given."""
        active_at = {task: client for client, mine in enumerate(draft.active) for task in mine}
        order = list(tasks)
        missing = dict.fromkeys(order, self._replicas)
        for task in order:
            if task in active_at:
                missing[task] = self.spread(draft, task, active_at[task])
        # Kafka's map got every task at first, and lost those that are done.
        for task in self._problem.task_hash_order(order):
            self._give_anywhere(draft, task, missing[task])

    @staticmethod
    def _give_anywhere(draft: DraftAssignment, task: int, copies: int) -> None:
        for _ in range(copies):
            client = least_loaded(draft, lambda one: not draft.holds(one, task))
            if client is None:
                return
            draft.assign_standby(client, task)

    def spread(self, draft: DraftAssignment, task: int, active_at: int) -> int:
        """Place standbys on unused tags; how many could not be. Tries one even where N is 0."""
        index = self._index
        used: set[Tag] = set()
        copies, left, last = 1, self._replicas, active_at
        while True:
            index.mark(used, last, copies)
            client = least_loaded(
                draft, lambda one: not draft.holds(one, task) and not index.is_used(used, one)
            )
            if client is None:
                return left
            draft.assign_standby(client, task)
            copies, left, last = copies + 1, left - 1, client
            if left <= 0:
                return left

    def may_balance(self, source: int, destination: int) -> bool:
        """Whether the destination has every tag of the source, configured or not."""
        there = self._index.tags[destination]
        return all(there.get(key) == value for key, value in self._index.tags[source].items())

    def may_swap(self, draft: DraftAssignment, source: int, destination: int, task: int) -> bool:
        """Whether the task's copies carry no fewer distinct tags after the move."""
        others = {
            tag
            for client, tags in enumerate(self._index.tags)
            if client not in {source, destination} and draft.holds(client, task)
            for tag in tags.items()
        }
        after = others | set(self._index.tags[destination].items())
        before = others | set(self._index.tags[source].items())
        return len(after) >= len(before)


def least_loaded(draft: DraftAssignment, eligible: Callable[[int], bool]) -> int | None:
    """The eligible client of least (load, number)."""
    best, least = None, 0.0
    for client, load in enumerate(draft.load):
        if (best is None or load < least) and eligible(client):
            best, least = client, load
    return best


class StandbyPlacement(Protocol):
    """A way to place standbys, and its say in later moves."""

    def assign(self, draft: DraftAssignment, tasks: Iterable[int]) -> None:
        """Give each task its standbys, in the order given."""

    def may_balance(self, source: int, destination: int) -> bool:
        """Whether balancing may move standbys between two clients."""

    def may_swap(self, draft: DraftAssignment, source: int, destination: int, task: int) -> bool:
        """Whether optimising by racks may move this standby."""


class DefaultStandbys:
    """Each standby to the least loaded client without a copy.

    Ties go to the lower process id. Cost: O(log C) for each of T tasks times N standbys.
    Exact to ``DefaultStandbyTaskAssignor`` 4.3.1.

    >>> from partage.streams import ClientState, ProcessId, AssignmentConfigs, TaskId
    >>> clients = [ClientState(ProcessId(0, 1)), ClientState(ProcessId(0, 2))]
    >>> problem = TaskProblem(clients, [TaskId(0, 0)], [TaskId(0, 0)],
    ...                       AssignmentConfigs(num_standby_replicas=1))
    >>> draft = DraftAssignment(problem)
    >>> draft.assign_active(0, 0); DefaultStandbys(problem).assign(draft, [0]); draft.standby
    [set(), {0}]
    """

    def __init__(self, problem: TaskProblem) -> None:
        self._replicas = problem.settings.num_standby_replicas

    def assign(self, draft: DraftAssignment, tasks: Iterable[int]) -> None:
        """Give each task its standbys, in the order given."""
        give_to_least_loaded(draft, ((task, self._replicas) for task in tasks))

    def may_balance(self, source: int, destination: int) -> bool:  # noqa: ARG002 - the contract
        """Always."""
        return True

    def may_swap(
        self,
        draft: DraftAssignment,  # noqa: ARG002 - the contract gives every placement all of them
        source: int,  # noqa: ARG002 - the same
        destination: int,  # noqa: ARG002 - the same
        task: int,  # noqa: ARG002 - the same
    ) -> bool:
        """Always."""
        return True


def give_to_least_loaded(draft: DraftAssignment, wanted: Iterable[tuple[int, int]]) -> None:
    """Standbys one by one to the client of least (load, number) without a copy of the task."""
    heap = [(load, client) for client, load in enumerate(draft.load)]
    heapq.heapify(heap)
    for task, replicas in wanted:
        aside: list[tuple[float, int]] = []
        left = replicas
        while left > 0 and heap:
            entry = heapq.heappop(heap)
            client = entry[1]
            if not draft.holds(client, task):
                draft.assign_standby(client, task)
                left -= 1
                entry = draft.load[client], client
            # Whoever has a copy by now is out of the question for this task.
            aside.append(entry)
        for entry in aside:
            heapq.heappush(heap, entry)


def placement_for(problem: TaskProblem) -> StandbyPlacement:
    """By tags where tags are configured, else by load.

    The third way of Kafka's factory, by racks as tags, is never taken: the high availability
    assignor gives the factory no racks.
    """
    if problem.settings.rack_aware_assignment_tags:
        return TagAwareStandbys(problem)
    return DefaultStandbys(problem)


def standby_shortage(replicas: int, clients: int) -> str | None:
    """Return a warning if there are too few clients for the standbys of a task; else None.

    A task's active and its standbys are each on a client of their own.

    >>> standby_shortage(5, 2)
    'num.standby.replicas=5 is not possible on 2 clients: each task gets at most 1 standby'
    >>> standby_shortage(1, 2) is None
    True
    """
    most = max(clients - 1, 0)
    if replicas <= most:
        return None
    what = (
        "no standby"
        if most == 0
        else "at most 1 standby"
        if most == 1
        else (f"at most {most} standbys")
    )
    on = "1 client" if clients == 1 else f"{clients} clients"
    return f"num.standby.replicas={replicas} is not possible on {on}: each task gets {what}"
