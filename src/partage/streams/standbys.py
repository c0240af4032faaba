"""Standby replicas: placement by load, or by client tags (KIP-708)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Protocol

from partage.streams.problem import DraftAssignment, TaskProblem

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
    """Index of the clients' tags (KIP-708), such as the zone of each client, by key and client."""

    def __init__(self, problem: TaskProblem) -> None:
        self.configured = frozenset(problem.settings.rack_aware_assignment_tags)
        self.tags = [dict(client.tags) for client in problem.clients]
        self.values: dict[str, set[str]] = {}
        for tags in self.tags:
            for key, value in tags.items():
                self.values.setdefault(key, set()).add(value)

    def mark(self, used: set[Tag], client: int, copies: int) -> None:
        """Record that ``client`` got a copy of a task, so that further copies avoid its tags.

        The tags of a key, such as ``zone``, count as unused again if the key has no more distinct
        values than the task has copies.

        Args:
            used: tags (key, value) of clients with a copy of the task; changed.
            client: client with the new copy.
            copies: number of copies of the task, including the new one.
        """
        for key, value in self.tags[client].items():
            if key not in self.configured:
                continue
            if len(self.values[key]) <= copies:
                used -= {(key, other) for other in self.values[key]}
            else:
                used.add((key, value))

    def is_used(self, used: set[Tag], client: int) -> bool:
        """Return whether a client has the same tag, such as a zone, as a client that already has a
        copy of the task.
        """
        return any(self.tags[client].get(key) == value for key, value in used)


class TagAwareStandbys:
    """Standby placement that spreads the copies of a task over client tags (KIP-708).

    A standby goes to the least loaded client that shares no configured tag with another copy of
    its task. A key with fewer values than the task has copies is ignored. The remaining
    standbys go to the least loaded clients at the end, in the order of a Java hash map.

    Exact to ``ClientTagAwareStandbyTaskAssignor`` 4.3.1.

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
        """Assign standbys to each of these tasks, which all have an active task, in the order
        given.
        """
        active_at = {task: client for client, own in enumerate(draft.active) for task in own}
        order = list(tasks)
        missing = dict.fromkeys(order, self._replicas)
        for task in order:
            if task in active_at:
                missing[task] = self.spread(draft, task, active_at[task])
        # Kafka's hash map contains all tasks at first and then only those with missing standbys.
        for task in self._problem.task_hash_order(order):
            self._assign_by_load(draft, task, missing[task])

    @staticmethod
    def _assign_by_load(draft: DraftAssignment, task: int, copies: int) -> None:
        """Assign ``copies`` standbys of a task to the least loaded clients, whatever their tags."""
        for _ in range(copies):
            client = least_loaded(draft, lambda one: not draft.holds(one, task))
            if client is None:
                return
            draft.assign_standby(client, task)

    def spread(self, draft: DraftAssignment, task: int, active_at: int) -> int:
        """Assign standbys of a task to clients whose tags differ from those of its copies.

        Return how many standbys found no such client. Like Kafka's class, this tries to assign one
        standby even if none is configured.
        """
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
        """Return whether load balancing may move standbys between two clients: the destination
        needs every tag of the source.
        """
        return self._index.tags[source].items() <= self._index.tags[destination].items()

    def may_swap(self, draft: DraftAssignment, source: int, destination: int, task: int) -> bool:
        """Return whether a standby may move to another client without loss of tag diversity.

        The copies of its task must have at least as many distinct tags after the move.
        """
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
    """Return the eligible client with the fewest tasks per thread; None if no client is eligible.

    Of several such clients it is the one with the lowest number.
    """
    best, least = None, 0.0
    for client, load in enumerate(draft.load):
        if (best is None or load < least) and eligible(client):
            best, least = client, load
    return best


class StandbyPlacement(Protocol):
    """Interface of a standby placement, which assigns standbys and restricts their later moves."""

    def assign(self, draft: DraftAssignment, tasks: Iterable[int]) -> None:
        """Assign the configured number of standbys to each task, in the order given."""

    def may_balance(self, source: int, destination: int) -> bool:
        """Return whether load balancing may move standbys from the source to the destination
        client.
        """

    def may_swap(self, draft: DraftAssignment, source: int, destination: int, task: int) -> bool:
        """Return whether rack-aware optimisation may move this standby to the destination."""


class DefaultStandbys:
    """Standby placement by load: a standby goes to the least loaded client without a copy.

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
        """Assign the configured number of standbys to each task, in the order given."""
        heap = [(load, client) for client, load in enumerate(draft.load)]
        heapq.heapify(heap)
        for task in tasks:
            visited: list[tuple[float, int]] = []
            left = self._replicas
            while left > 0 and heap:
                entry = heapq.heappop(heap)
                client = entry[1]
                if not draft.holds(client, task):
                    draft.assign_standby(client, task)
                    left -= 1
                    entry = draft.load[client], client
                # A client with a copy is no candidate for another standby of this task.
                visited.append(entry)
            for entry in visited:
                heapq.heappush(heap, entry)

    def may_balance(self, source: int, destination: int) -> bool:  # noqa: ARG002 - the interface
        """Return True: without client tags, load balancing may move any standby."""
        return True

    def may_swap(
        self,
        draft: DraftAssignment,  # noqa: ARG002 - the interface passes all arguments
        source: int,  # noqa: ARG002 - the same
        destination: int,  # noqa: ARG002 - the same
        task: int,  # noqa: ARG002 - the same
    ) -> bool:
        """Return True: without tags, rack-aware optimisation may move any standby."""
        return True


def placement_for(problem: TaskProblem) -> StandbyPlacement:
    """Return the standby placement of a problem: by tags if tags are configured, else by load.

    Kafka's factory also has a placement by racks. It is never used, because the high
    availability assignor passes no racks to the factory.
    """
    if problem.settings.rack_aware_assignment_tags:
        return TagAwareStandbys(problem)
    return DefaultStandbys(problem)


def standby_shortage(replicas: int, clients: int) -> str | None:
    """Return a warning if there are fewer clients than copies of a task; else None.

    Each copy of a task, active or standby, needs a client of its own.

    >>> standby_shortage(5, 2)
    'num.standby.replicas=5 is not possible on 2 clients: each task gets at most 1 standby'
    >>> standby_shortage(1, 2) is None
    True
    """
    most = max(clients - 1, 0)
    if replicas <= most:
        return None
    what = {0: "no standby", 1: "at most 1 standby"}.get(most, f"at most {most} standbys")
    on = "1 client" if clients == 1 else f"{clients} clients"
    return f"num.standby.replicas={replicas} is not possible on {on}: each task gets {what}"
