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
    """Index of the client tags (KIP-708) of all Kafka Streams clients, by client and tag key.

    A client is an application instance. An example of a tag is ``zone`` = "zone-a".
    """

    def __init__(self, problem: TaskProblem) -> None:
        self.configured = frozenset(problem.settings.rack_aware_assignment_tags)
        self.tags = [dict(client.tags) for client in problem.clients]
        self.values: dict[str, set[str]] = {}
        for tags in self.tags:
            for key, value in tags.items():
                self.values.setdefault(key, set()).add(value)

    def mark_used_tags(self, used: set[Tag], client: int, copies: int) -> None:
        """Mark the tags of a Kafka Streams client as used, because it got a copy of a task.

        Further copies of the task then go to clients with other tags, for example in another zone
        (KIP-708).

        Args:
            used: tags (key, value) of clients with a copy of the task; changed in place.
            client: client with the new copy.
            copies: number of copies of the task, including the new one.
        """
        for key, value in self.tags[client].items():
            if key not in self.configured:
                continue
            # A key with no more distinct values than the task has copies may use all its values
            # again.
            if len(self.values[key]) <= copies:
                used -= {(key, other) for other in self.values[key]}
            else:
                used.add((key, value))

    def is_used(self, used: set[Tag], client: int) -> bool:
        """Return whether a client shares a tag, such as its zone, with another copy of a task.

        Copies of a Kafka Streams task are spread over clients with different tags (KIP-708).

        Args:
            used: tags (key, value) of the clients with a copy of the task, see `mark_used_tags`.
            client: number of the client.
        """
        return any(self.tags[client].get(key) == value for key, value in used)


class TagAwareStandbys:
    """Rule that spreads the standby copies of each Kafka Streams task over client tags (KIP-708).

    A standby goes to the least loaded client that shares no configured tag, such as the zone, with
    another copy of its task. A tag key with fewer values than the task has copies is ignored.
    Standbys without such a client go to the least loaded clients at the end, in the order of a Java
    hash map.

    >>> from partage.streams import ClientState, ProcessId, AssignmentConfigs, TaskId
    >>> settings = AssignmentConfigs(num_standby_replicas=1, rack_aware_assignment_tags=("zone",))
    >>> clients = [ClientState(ProcessId(0, n), tags={"zone": "aab"[n]}) for n in range(3)]
    >>> problem = TaskProblem(clients, [TaskId(0, 0)], [TaskId(0, 0)], settings)
    >>> draft = DraftAssignment(problem)
    >>> draft.assign_active(0, 0)
    >>> TagAwareStandbys(problem).assign_standbys(draft, [0]); draft.standby
    [set(), set(), {0}]
    """

    def __init__(self, problem: TaskProblem) -> None:
        self._problem = problem
        self._replicas = problem.settings.num_standby_replicas
        self._index = TagIndex(problem)

    def assign_standbys(self, draft: DraftAssignment, tasks: Iterable[int]) -> None:
        """Assign the configured number of standbys to each Kafka Streams task, by client tags.

        The copies of a task go to clients with different tags, such as zones (KIP-708).

        Args:
            draft: unfinished assignment of tasks to clients; changed in place.
            tasks: numbers of the tasks, in the order of their assignment.
        """
        active_at = {task: client for client, own in enumerate(draft.active) for task in own}
        order = list(tasks)
        missing = dict.fromkeys(order, self._replicas)
        for task in order:
            if task in active_at:
                missing[task] = self.assign_standbys_of_task(draft, task, active_at[task])
        # Kafka's hash map contains all tasks at first and then only those with missing standbys.
        for task in self._problem.task_hash_order(order):
            self._assign_by_load(draft, task, missing[task])

    @staticmethod
    def _assign_by_load(draft: DraftAssignment, task: int, copies: int) -> None:
        """Assign standbys of a Kafka Streams task to the least loaded clients, ignoring tags.

        This is done last, for standbys that could not be spread over tags (KIP-708).

        Args:
            draft: unfinished assignment of tasks to clients; changed in place.
            task: number of the task.
            copies: number of standbys to assign.
        """
        for _ in range(copies):
            client = least_loaded(draft, lambda one: not draft.has_copy(one, task))
            if client is None:
                return
            draft.assign_standby(client, task)

    def assign_standbys_of_task(self, draft: DraftAssignment, task: int, active_at: int) -> int:
        """Assign standbys of a Kafka Streams task to clients with other tags than its copies.

        An example of a tag is the zone of a client (KIP-708).

        Args:
            draft: unfinished assignment of tasks to clients; changed in place.
            task: number of the task.
            active_at: client with the active task.

        Returns:
            The number of standbys for which no client with other tags (KIP-708) exists.
        """
        index = self._index
        used: set[Tag] = set()
        copies, left, last = 1, self._replicas, active_at
        # Like Kafka's class, this tries to assign one standby even if none is configured.
        while True:
            index.mark_used_tags(used, last, copies)
            client = least_loaded(
                draft, lambda one: not draft.has_copy(one, task) and not index.is_used(used, one)
            )
            if client is None:
                return left
            draft.assign_standby(client, task)
            copies, left, last = copies + 1, left - 1, client
            if left <= 0:
                return left

    def may_balance(self, source: int, destination: int) -> bool:
        """Return whether balancing may move standby tasks from one Kafka Streams client to another.

        It may if the destination has all configured tags of the source (KIP-708).
        """
        return self._index.tags[source].items() <= self._index.tags[destination].items()

    def may_swap(self, draft: DraftAssignment, source: int, destination: int, task: int) -> bool:
        """Return whether a standby task may move to another client to save traffic across racks.

        After the move, the copies of the task must have at least as many distinct client tags as
        before (KIP-708).

        Args:
            draft: assignment of tasks to clients before the move.
            source: client with the standby.
            destination: client that would get it.
            task: number of the task.
        """
        others = {
            tag
            for client, tags in enumerate(self._index.tags)
            if client not in {source, destination} and draft.has_copy(client, task)
            for tag in tags.items()
        }
        after = others | set(self._index.tags[destination].items())
        before = others | set(self._index.tags[source].items())
        return len(after) >= len(before)


def least_loaded(draft: DraftAssignment, eligible: Callable[[int], bool]) -> int | None:
    """Return the eligible Kafka Streams client with the fewest tasks per stream thread.

    Ties go to the client with the lowest number. None if no client is eligible.

    Args:
        draft: unfinished assignment, with the loads of the clients.
        eligible: function that returns whether a client may be chosen.
    """
    best, least = None, 0.0
    for client, load in enumerate(draft.load):
        if (best is None or load < least) and eligible(client):
            best, least = client, load
    return best


class StandbyPlacement(Protocol):
    """Interface of a rule that chooses the clients for the standby copies of Kafka Streams tasks.

    The rule also decides whether later steps may move a standby to another client.
    """

    def assign_standbys(self, draft: DraftAssignment, tasks: Iterable[int]) -> None:
        """Assign the configured number of standbys to each Kafka Streams task.

        Each standby goes to another client (application instance).

        Args:
            draft: unfinished assignment of tasks to clients; changed in place.
            tasks: numbers of the tasks, in the order of their assignment.
        """

    def may_balance(self, source: int, destination: int) -> bool:
        """Return whether balancing may move standby tasks from a source to a destination client.

        A client is a Kafka Streams instance. Client tags (KIP-708) may forbid the move.
        """

    def may_swap(self, draft: DraftAssignment, source: int, destination: int, task: int) -> bool:
        """Return whether a standby task may move to another client to save traffic across racks.

        A client is a Kafka Streams instance. Client tags (KIP-708) may forbid the move.

        Args:
            draft: assignment of Kafka Streams tasks to clients before the move.
            source: client with the standby.
            destination: client that would get it.
            task: number of the task.
        """


class DefaultStandbys:
    """Rule that puts standbys of Kafka Streams tasks on the least loaded clients without a copy.

    Ties go to the lower process id. Cost: O(log C) for each of T tasks times N standbys. It gives
    the same results as ``DefaultStandbyTaskAssignor`` 4.3.1.

    >>> from partage.streams import ClientState, ProcessId, AssignmentConfigs, TaskId
    >>> clients = [ClientState(ProcessId(0, 1)), ClientState(ProcessId(0, 2))]
    >>> problem = TaskProblem(clients, [TaskId(0, 0)], [TaskId(0, 0)],
    ...                       AssignmentConfigs(num_standby_replicas=1))
    >>> draft = DraftAssignment(problem)
    >>> draft.assign_active(0, 0)
    >>> DefaultStandbys(problem).assign_standbys(draft, [0]); draft.standby
    [set(), {0}]
    """

    def __init__(self, problem: TaskProblem) -> None:
        self._replicas = problem.settings.num_standby_replicas

    def assign_standbys(self, draft: DraftAssignment, tasks: Iterable[int]) -> None:
        """Assign the configured number of standbys to each Kafka Streams task.

        Each standby goes to the least loaded client that has no copy of the task.

        Args:
            draft: unfinished assignment of tasks to clients; changed in place.
            tasks: numbers of the tasks, in the order of their assignment.
        """
        heap = [(load, client) for client, load in enumerate(draft.load)]
        heapq.heapify(heap)
        for task in tasks:
            visited: list[tuple[float, int]] = []
            left = self._replicas
            while left > 0 and heap:
                entry = heapq.heappop(heap)
                client = entry[1]
                if not draft.has_copy(client, task):
                    draft.assign_standby(client, task)
                    left -= 1
                    entry = draft.load[client], client
                # A client with a copy is no candidate for another standby of this task.
                visited.append(entry)
            for entry in visited:
                heapq.heappush(heap, entry)

    def may_balance(self, source: int, destination: int) -> bool:  # noqa: ARG002 - the interface
        """Return True: without client tags, balancing may move any standby task to any client.

        A client is a Kafka Streams instance.
        """
        return True

    def may_swap(
        self,
        draft: DraftAssignment,  # noqa: ARG002 - the interface passes all arguments
        source: int,  # noqa: ARG002 - the same
        destination: int,  # noqa: ARG002 - the same
        task: int,  # noqa: ARG002 - the same
    ) -> bool:
        """Return True: without client tags, any standby task may move to another client.

        A client is a Kafka Streams instance. The purpose of the move is to save traffic across
        racks.
        """
        return True


def placement_for(problem: TaskProblem) -> StandbyPlacement:
    """Return the rule that chooses clients for Kafka Streams standbys: by client tags or by load.

    Client tags (KIP-708) are used if the application configures them. ``problem`` has the clients
    and settings.
    """
    if problem.settings.rack_aware_assignment_tags:
        return TagAwareStandbys(problem)
    return DefaultStandbys(problem)


def standby_shortage(replicas: int, clients: int) -> str | None:
    """Return a warning if a Kafka Streams application has too few instances for its standbys.

    Each copy of a task, active or standby, needs its own instance (client). None if there are
    enough.

    Args:
        replicas: configured number of standbys of each task.
        clients: number of clients.

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
