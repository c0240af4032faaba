"""The input and the result of a task assignor: clients and tasks are numbered from 0 in both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError
from partage.java.hash_order import DEFAULT_TABLE, copied_hash_set_table, hash_order
from partage.streams.assignment_configs import AssignmentConfigs
from partage.streams.task_ids import ProcessId, TaskId, process_hash
from partage.wire.streams.arrays import task_hash, task_order_key
from partage.wire.streams.subscription_info import LATEST_OFFSET, UNKNOWN_OFFSET_SUM

__all__ = [
    "ClientState",
    "DraftAssignment",
    "PartitionRacks",
    "TaskPlan",
    "TaskProblem",
]


@dataclass(frozen=True)
class ClientState:
    """Instance of a Kafka Streams application before a rebalance: its threads, tasks and lags.

    Kafka calls an instance a client; the class is ``ClientState``.

    Attributes:
        process: process id of the application instance (a UUID).
        capacity: number of stream threads, each of which is a consumer.
        previous_active: tasks that it ran as active tasks.
        previous_standby: other tasks of which it has local state.
        lags: lag of every stateful task in offsets; -2: the client runs the fully restored
            active task, -3: unknown. Assignors that do not read lags accept an empty mapping.
        tags: client tags (KIP-708).
        rack: rack of its consumers; None if they have none or differ.

    Raises:
        InvalidProblemError: the capacity is below 1, a task is both active and standby, or a
            lag is neither -2, -3 nor an int64 >= 0.

    >>> ClientState(ProcessId(0, 1), capacity=0)
    Traceback (most recent call last):
    partage.errors.InvalidProblemError: client 0...1.capacity: must be an int >= 1, got 0
    """

    process: ProcessId
    capacity: int = 1
    previous_active: Collection[TaskId] = ()
    previous_standby: Collection[TaskId] = ()
    lags: Mapping[TaskId, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None

    def __post_init__(self) -> None:
        where = f"client {self.process}"
        if not _is_int(self.capacity) or self.capacity < 1:
            raise InvalidProblemError(
                "must be an int >= 1", path=f"{where}.capacity", value=self.capacity
            )
        for task in set(self.previous_active).intersection(self.previous_standby):
            raise InvalidProblemError(
                "must not be in previous_active too",
                path=f"{where}.previous_standby",
                value=str(task),
            )
        for task, lag in self.lags.items():
            if not _is_int(lag) or not -3 <= lag < 2**63 or lag == -1:
                raise InvalidProblemError(
                    "must be an int64 >= 0, or -2 (runs it) or -3 (unknown)",
                    path=f"{where}.lags.{task}",
                    value=lag,
                )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True)
class PartitionRacks:
    """Racks in which the partitions of one Kafka Streams task have replicas (KIP-925).

    A rack-aware assignor prefers to run the task on a client in one of these racks.

    Attributes:
        source: for each source partition the racks of all its replicas; an empty set or None if a
            rack is unknown.
        changelog: likewise for each changelog partition.
    """

    source: tuple[frozenset[str] | None, ...]
    changelog: tuple[frozenset[str] | None, ...] = ()


class TaskProblem:
    """Input of a Kafka Streams task assignor: the clients, tasks and settings of one rebalance.

    Clients are application instances. They are numbered by process id and tasks by task id, as
    Kafka's sorted maps order them. The original order is stored too, because it decides the order
    inside the buckets of Kafka's hash maps.

    Attributes:
        clients: clients by process id, ascending; a client's number is its index here.
        client_arrival: numbers of the clients in the order given.
        tasks: tasks by id, ascending; a task's number is its index here.
        task_arrival: numbers of the tasks in the order given.
        stateful: numbers of the tasks of sub-topologies with a changelog, ascending.
        stateful_arrival: the same in the order given.
        with_stores: numbers of the tasks with a store, logged or not (``isStateful`` of KIP-924).
        settings: settings that the task assignor reads.
        racks: racks of each task's partitions; None if unknown.

    >>> from partage.streams.task_ids import ProcessId
    >>> clients = [ClientState(ProcessId(0, 2)), ClientState(ProcessId(0, 1))]
    >>> problem = TaskProblem(clients, [TaskId(0, 1), TaskId(0, 0)])
    >>> problem.client_arrival, problem.task_arrival, str(problem.tasks[0])
    ([1, 0], [1, 0], '0_0')
    """

    def __init__(
        self,
        clients: Iterable[ClientState],
        tasks: Iterable[TaskId],
        stateful: Iterable[TaskId] = (),
        settings: AssignmentConfigs | None = None,
        *,
        racks: Mapping[TaskId, PartitionRacks] | None = None,
        with_stores: Iterable[TaskId] | None = None,
        lags: NDArray[np.int64] | None = None,
    ) -> None:
        """Build the input of a Kafka Streams task assignor, and validate it.

        Clients (application instances) and tasks are passed in Kafka's order, and numbered by id.

        Args:
            clients: clients in the order in which Kafka's leader reads them.
            tasks: all tasks, in the order in which Kafka inserts them into a set.
            stateful: tasks with a changelog, in the same order.
            settings: Kafka's defaults if None.
            racks: racks of each task's partitions; None if unknown.
            with_stores: tasks with a store; the stateful tasks if None.
            lags: int64[clients, tasks] in the orders given; replaces the lags of the clients.

        Raises:
            InvalidProblemError: there are no clients, a process or a task occurs twice, a
                stateful task is unknown, tasks with and without a topology's name are mixed, or
                ``lags`` has another shape.
        """
        given = list(clients)
        if not given:
            raise InvalidProblemError("must have at least one client", path="clients", value=[])
        self.settings = settings or AssignmentConfigs()
        order = sorted(range(len(given)), key=lambda i: given[i].process)
        self.clients: tuple[ClientState, ...] = tuple(given[i] for i in order)
        for before, after in zip(self.clients, self.clients[1:], strict=False):
            if before.process == after.process:
                raise InvalidProblemError(
                    "is there twice", path="clients", value=str(after.process)
                )
        self.client_arrival = np.argsort(order, kind="stable").tolist()
        self._number_tasks(list(tasks), list(stateful), with_stores)
        self.racks = racks
        if lags is not None and lags.shape != (len(given), len(self.tasks)):
            raise InvalidProblemError(
                f"must have a row for each of {len(given)} clients and a column for each of "
                f"{len(self.tasks)} tasks",
                path="lags",
                value=lags.shape,
            )
        self._client_order = order
        self._given_lags = lags

    def _number_tasks(
        self,
        tasks: list[TaskId],
        stateful: list[TaskId],
        with_stores: Iterable[TaskId] | None,
    ) -> None:
        kinds = {task.topology is None for task in tasks}
        if len(kinds) > 1:
            raise InvalidProblemError(
                "must all have a topology's name or none", path="tasks", value=str(tasks[0])
            )
        order = sorted(range(len(tasks)), key=lambda i: task_order_key(tasks[i]))
        self.tasks: tuple[TaskId, ...] = tuple(tasks[i] for i in order)
        self.task_arrival: list[int] = np.argsort(order, kind="stable").tolist()
        self.number_of = {task: number for number, task in enumerate(self.tasks)}
        if len(self.number_of) != len(tasks):
            twice = next(a for a, b in zip(self.tasks, self.tasks[1:], strict=False) if a == b)
            raise InvalidProblemError("is there twice", path="tasks", value=str(twice))
        self.stateful_arrival = self._numbers(stateful, "stateful")
        self.stateful = sorted(self.stateful_arrival)
        self.with_stores = (
            self.stateful if with_stores is None else sorted(self._numbers(with_stores, "stores"))
        )

    def _numbers(self, tasks: Iterable[TaskId], path: str) -> list[int]:
        numbers: dict[int, None] = {}
        for task in tasks:
            number = self.number_of.get(task)
            if number is None:
                raise InvalidProblemError("is no task of this problem", path=path, value=str(task))
            numbers[number] = None
        return list(numbers)

    @cached_property
    def stateless_tasks(self) -> list[int]:
        """Numbers of the Kafka Streams tasks without a changelog, ascending.

        Such tasks have no state to restore when they move to another client.
        """
        stateful = set(self.stateful)
        return [task for task in range(len(self.tasks)) if task not in stateful]

    def _check_lags(self, lags: NDArray[np.int64]) -> None:
        relevant = lags[:, self.stateful]
        wrong = (relevant < 0) & (relevant != LATEST_OFFSET) & (relevant != UNKNOWN_OFFSET_SUM)
        if wrong.any():
            client, place = (int(one) for one in np.argwhere(wrong)[0])
            raise InvalidProblemError(
                "must be at least 0, or -2 (runs it) or -3 (unknown)",
                path=f"lags of client {self.clients[client].process}",
                value={str(self.tasks[self.stateful[place]]): int(relevant[client, place])},
            )

    @cached_property
    def changelog_lags(self) -> NDArray[np.int64]:
        """Number of changelog records that each client has yet to restore for each task.

        It is int64[clients, tasks]; -2 stands for a running task, -3 for an unknown lag. Only the
        columns of stateful tasks have a meaning. A client is a Kafka Streams instance.

        Raises:
            InvalidProblemError: the lag of a stateful task is missing for a client, or a lag is
                negative and neither -2 nor -3.
        """
        if self._given_lags is not None:
            matrix = np.empty((len(self.clients), len(self.tasks)), np.int64)
            given = self._given_lags[self._client_order]
            matrix[:, self.task_arrival] = given
            self._check_lags(matrix)
            return matrix
        matrix = np.zeros((len(self.clients), len(self.tasks)), np.int64)
        wanted = [self.tasks[task] for task in self.stateful]
        for row, client in zip(matrix, self.clients, strict=True):
            try:
                row[self.stateful] = [client.lags[task] for task in wanted]
            except KeyError as missing:
                raise InvalidProblemError(
                    "must have the lag of every stateful task",
                    path=f"client {client.process}.lags",
                    value=str(missing.args[0]),
                ) from None
        return matrix

    @cached_property
    def thread_counts(self) -> list[int]:
        """Number of stream threads of each client (Kafka Streams application instance).

        A client with more threads can run more tasks.
        """
        return [client.capacity for client in self.clients]

    # -- iteration orders of Kafka's hash collections -------------------------------------------

    @cached_property
    def client_map_order(self) -> list[int]:
        """Numbers of the Kafka Streams clients in the iteration order of a Java ``HashMap``.

        The map is keyed by process id. Kafka's leader visits clients in this order.
        """
        return self.client_hash_order(self.client_arrival)

    def client_hash_order(self, clients: Sequence[int], *, copied: bool = False) -> list[int]:
        """Sort numbers of Kafka Streams clients in the iteration order of a Java ``HashSet``.

        The set contains their process ids. Kafka's assignors visit clients in this order.

        Args:
            clients: client numbers in the order of insertion.
            copied: whether Java constructed the set from a collection of as many items, which
                determines its capacity.
        """
        table = copied_hash_set_table(len(clients)) if copied else DEFAULT_TABLE
        hashes = self._client_hashes
        places = hash_order([hashes[one] for one in clients], table=table, rank=lambda: clients)
        return [clients[place] for place in places]

    def task_hash_order(self, tasks: Sequence[int], *, copied: bool = False) -> list[int]:
        """Sort numbers of Kafka Streams tasks in the iteration order of a Java ``HashSet``.

        The set contains their task ids. Kafka's assignors visit tasks in this order.

        Args:
            tasks: task numbers in the order of insertion.
            copied: whether Java constructed the set from a collection of as many items, which
                determines its capacity.
        """
        table = copied_hash_set_table(len(tasks)) if copied else DEFAULT_TABLE
        hashes = self._task_hashes
        places = hash_order([hashes[one] for one in tasks], table=table, rank=lambda: tasks)
        return [tasks[place] for place in places]

    @cached_property
    def _client_hashes(self) -> list[int]:
        return [process_hash(client.process) for client in self.clients]

    @cached_property
    def _task_hashes(self) -> list[int]:
        return [task_hash(task) for task in self.tasks]


# --- result --------------------------------------------------------------------------------


class DraftAssignment:
    """Unfinished assignment of Kafka Streams tasks to clients (instances), with the clients' loads.

    A task assignor fills it step by step.

    Attributes:
        active: active tasks of each client.
        standby: standby tasks of each client.
        count: number of tasks of each client in both roles.
        load: tasks per stream thread (``count / capacity``) of each client; Kafka's
            ``assignedTaskLoad``.
    """

    def __init__(self, problem: TaskProblem) -> None:
        clients = len(problem.clients)
        self.capacity = problem.thread_counts
        self.active: list[set[int]] = [set() for _ in range(clients)]
        self.standby: list[set[int]] = [set() for _ in range(clients)]
        self.count = [0] * clients
        self.load = [0.0] * clients

    def has_copy(self, client: int, task: int) -> bool:
        """Return whether a Kafka Streams client has a copy of a task already, active or standby.

        A client must not get two copies of the same task.
        """
        return task in self.active[client] or task in self.standby[client]

    def assign_active(self, client: int, task: int) -> None:
        """Assign an active Kafka Streams task to a client, and update the client's load.

        The client must not have a copy of the task yet.
        """
        self.active[client].add(task)
        self._add_to_count(client, 1)

    def assign_standby(self, client: int, task: int) -> None:
        """Assign a standby copy of a Kafka Streams task to a client, and update the client's load.

        The client must not have a copy of the task yet.
        """
        self.standby[client].add(task)
        self._add_to_count(client, 1)

    def unassign_standby(self, client: int, task: int) -> None:
        """Remove a standby copy of a Kafka Streams task from a client, and update its load.

        ``client`` and ``task`` are their numbers in the problem.
        """
        self.standby[client].remove(task)
        self._add_to_count(client, -1)

    def move_task(self, tasks: list[set[int]], task: int, source: int, destination: int) -> None:
        """Move one copy of a Kafka Streams task, active or standby, to another client.

        The other client must not have a copy of the task yet. The loads of both are updated.

        Args:
            tasks: the attribute ``active`` or ``standby`` of this object: which copy moves.
            task: number of the task.
            source: client that has the task.
            destination: client that gets the task.
        """
        tasks[source].remove(task)
        tasks[destination].add(task)
        self._add_to_count(source, -1)
        self._add_to_count(destination, 1)

    def swap_roles(self, standby_at: int, active_at: int, task: int) -> None:
        """Swap the roles of two copies of a Kafka Streams task.

        The standby copy becomes active, and the active copy becomes a standby.

        Args:
            standby_at: client with the standby copy, which becomes active.
            active_at: client with the active copy, which becomes a standby.
            task: number of the task.
        """
        self.standby[standby_at].remove(task)
        self.active[standby_at].add(task)
        self.active[active_at].remove(task)
        self.standby[active_at].add(task)

    def _add_to_count(self, client: int, change: int) -> None:
        self.count[client] += change
        self.load[client] = self.count[client] / self.capacity[client]


@dataclass(frozen=True)
class TaskPlan:
    """Result of a Kafka Streams task assignor: the active and standby tasks of each client.

    The leader then distributes the tasks of each client over its threads.

    Attributes:
        problem: the input of the assignor.
        active: numbers of the active tasks of each client, ascending.
        standby: numbers of the standby tasks of each client, including warm-ups, ascending.
        probing: whether a probing rebalance follows after the probing interval.
        warmups: (client, task) of each warm-up replica: a standby beyond
            ``num.standby.replicas`` on the client to which the task moves later.
        follow_up: clients that rebalance again at once (KIP-924 only).
        in_turn: tasks of each client in round-robin order over its consumers, actives first;
            only before 2.4 (see `partage.streams.member_assignments.assign_in_turn`).
        warnings: messages about this plan for the operator.
    """

    problem: TaskProblem
    active: tuple[tuple[int, ...], ...]
    standby: tuple[tuple[int, ...], ...]
    probing: bool = False
    warmups: tuple[tuple[int, int], ...] = ()
    follow_up: tuple[int, ...] = ()
    in_turn: tuple[tuple[int, ...], ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_draft(
        cls,
        problem: TaskProblem,
        draft: DraftAssignment,
        *,
        probing: bool = False,
        warmups: Iterable[tuple[int, int]] = (),
        follow_up: Iterable[int] = (),
        in_turn: Iterable[tuple[int, ...]] = (),
        warnings: Iterable[str] = (),
    ) -> TaskPlan:
        """Build the result of a Kafka Streams task assignor from a finished `DraftAssignment`.

        The tasks of each client are sorted and can no longer be changed.

        Args:
            problem: clients and tasks of the rebalance.
            draft: active and standby tasks of each client.
            probing: whether a probing rebalance follows.
            warmups: (client, task) of each warm-up replica.
            follow_up: clients that rebalance again at once.
            in_turn: tasks of each client in round-robin order over its consumers.
            warnings: messages for the user.
        """
        return cls(
            problem,
            tuple(tuple(sorted(tasks)) for tasks in draft.active),
            tuple(tuple(sorted(tasks)) for tasks in draft.standby),
            probing,
            tuple(warmups),
            tuple(follow_up),
            tuple(in_turn),
            tuple(warnings),
        )

    def active_of(self, process: ProcessId) -> list[TaskId]:
        """Return the ids of a Kafka Streams client's active tasks, sorted.

        ``process`` is the process id of the client (application instance).
        """
        return self._named(self.active, process)

    def standby_of(self, process: ProcessId) -> list[TaskId]:
        """Return the ids of a Kafka Streams client's standby tasks, sorted.

        ``process`` is the process id of the client (application instance).
        """
        return self._named(self.standby, process)

    def _named(self, rows: tuple[tuple[int, ...], ...], process: ProcessId) -> list[TaskId]:
        for client, row in zip(self.problem.clients, rows, strict=True):
            if client.process == process:
                return [self.problem.tasks[task] for task in row]
        return []

    def to_dict(self) -> dict[str, dict[str, list[str]]]:
        """Return the assignment of Kafka Streams tasks as a dict that can be written as JSON.

        It maps a client's process id to ``{"active": ["0_3", ...], "standby": [...]}``.
        """
        tasks = self.problem.tasks
        return {
            str(client.process): {
                "active": [str(tasks[task]) for task in mine],
                "standby": [str(tasks[task]) for task in copies],
            }
            for client, mine, copies in zip(
                self.problem.clients, self.active, self.standby, strict=True
            )
        }
