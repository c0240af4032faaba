"""Assignments of consumers: the tasks of a client are split among its stream threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from partage.java.hash_order import hash_set_order
from partage.java.priority_queue import PriorityQueue
from partage.java.strings import string_hash, string_order_key
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.members import LATEST_VERSION, ClientGroup
from partage.streams.plan import TaskPlan
from partage.streams.task_ids import TaskId, task_order_key
from partage.streams.topology import TopicPartition, TopologyLayout, partition_order_key

__all__ = [
    "Hosts",
    "StreamsMemberAssignment",
    "ThreadTasks",
    "deal_in_turn",
    "deal_to_threads",
    "error_assignments",
    "hosts",
    "member_assignments",
]


@dataclass(frozen=True)
class ThreadTasks:
    """Task numbers of one consumer, each list in Kafka's order."""

    stateful: list[int]
    standby: list[int]
    stateless: list[int]

    @property
    def active(self) -> list[int]:
        """Active tasks, stateful ones first."""
        return self.stateful + self.stateless


def deal_to_threads(
    plan: TaskPlan, client: int, reported: Mapping[str, Collection[int]]
) -> dict[str, ThreadTasks]:
    """Tasks of each consumer of a client.

    Three passes share one count of tasks: stateful actives, standbys, stateless actives. In
    the first two a consumer gets first what it reported itself, least lag first; the rest
    goes round. What is left of the larger shares is dealt in the raw order of a binary
    heap's array, which differs for actives (from a hash set) and standbys (sorted).

    Args:
        plan: of all clients.
        client: its number.
        reported: consumer -> numbers of the tasks whose offsets it reported.

    Source: ``StreamsPartitionAssignor.assignTasksToThreads`` 4.3.1.

    >>> from partage.streams import ClientState, HighAvailability, ProcessId, TaskId, TaskProblem
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> plan = HighAvailability().assign(TaskProblem([ClientState(ProcessId(0, 1), 2)], tasks))
    >>> {name: its.active for name, its in deal_to_threads(plan, 0, {"a": [], "b": []}).items()}
    {'a': [0, 2], 'b': [1]}
    """
    problem = plan.problem
    stateful = set(problem.stateful)
    lags = problem.lags[client]
    consumers = sorted(reported, key=string_order_key)
    known = {
        name: sorted(
            (task for task in reported[name] if task in stateful), key=lambda t: (lags[t], t)
        )
        for name in consumers
    }
    load = dict.fromkeys(consumers, 0)

    def dealt(tasks: Sequence[int], *, sticky: bool, hashed: bool) -> dict[str, list[int]]:
        order = problem.task_hash_order(tasks) if hashed else tasks
        given = _deal(order, consumers, known if sticky else {}, load)
        for name, its in given.items():
            load[name] += len(its)
        return given

    actives = plan.active[client]
    first = dealt([t for t in actives if t in stateful], sticky=True, hashed=True)
    second = dealt(plan.standby[client], sticky=True, hashed=False)
    third = dealt([t for t in actives if t not in stateful], sticky=False, hashed=True)
    return {name: ThreadTasks(first[name], second[name], third[name]) for name in consumers}


def _deal(
    tasks: Sequence[int],
    consumers: Sequence[str],
    known: Mapping[str, Sequence[int]],
    load: Mapping[str, int],
) -> dict[str, list[int]]:
    given: dict[str, list[int]] = {name: [] for name in consumers}
    if not tasks:
        return given
    least = (len(tasks) + sum(load.values())) // len(consumers)
    left = PriorityQueue((task,) for task in tasks)
    unassigned = set(tasks)
    too_many: dict[int, str] = {}
    to_fill: deque[str] = deque()
    for name in consumers:
        wanted = least - load[name]
        for task in known.get(name, ()):
            if task not in unassigned:
                continue
            if len(given[name]) < wanted:
                given[name].append(task)
                unassigned.remove(task)
                left.remove((task,))
            else:
                too_many[task] = name
        if len(given[name]) < wanted:
            to_fill.append(name)
    while to_fill:
        name = to_fill.popleft()
        given[name].append(left.poll()[0])
        if len(given[name]) + load[name] < least:
            to_fill.append(name)
    _deal_rest(left, [n for n in consumers if len(given[n]) + load[n] == least], too_many, given)
    return given


def _deal_rest(
    left: PriorityQueue, ring: list[str], too_many: Mapping[int, str], given: dict[str, list[int]]
) -> None:
    """One more for some: who had to leave a task comes first, then all in turn."""
    if not len(left):
        return
    waiting = dict.fromkeys(ring)
    there = {task for (task,) in left.items}
    for task in sorted(too_many):
        name = too_many[task]
        if name in waiting and task in there:
            given[name].append(task)
            left.remove((task,))
            del waiting[name]
    for (task,), name in zip(left.items, waiting, strict=False):
        given[name].append(task)


def deal_in_turn(plan: TaskPlan, client: int, consumers: Sequence[str]) -> dict[str, ThreadTasks]:
    """Tasks of each consumer as Kafka Streams dealt them before 2.4: in turn, actives first.

    Nothing sticks to a thread. Consumers and tasks take turns in the order of Java's hash sets.

    Args:
        plan: of ``streams:0.10.2`` or ``streams:0.11``.
        client: its number.
        consumers: in the order in which the leader met them.

    Source: ``StreamPartitionAssignor.assign`` 0.10.2.1 and 0.11.0.3.
    """
    order = hash_set_order(consumers, string_hash)
    active = set(plan.active[client])
    dealt = {}
    for place, name in enumerate(order):
        mine = plan.in_turn[client][place :: len(order)]
        dealt[name] = ThreadTasks(
            [task for task in mine if task in active],
            [task for task in mine if task not in active],
            [],
        )
    return dealt


Hosts = dict[tuple[str, int], tuple[TopicPartition, ...]]


@dataclass(frozen=True)
class StreamsMemberAssignment:
    """The assignment of one consumer, as ``Assignment`` and ``AssignmentInfo`` carry it.

    Attributes:
        partitions: that it shall own, sorted.
        active: the task of each of them; a task repeats once per partition.
        standby: standby tasks with the source partitions of each.
        next_rebalance_ms: 0: at once, 2**63 - 1: never, else a time.
        withheld: tasks that it will get when their partitions have been given up.
        version: of the data, the lowest that any member used.
        common_version: the latest that all members support; -1 where one does not say.
        error_code: 0: none, 1: a source topic is missing, 3: any other, 4: shut down.
    """

    partitions: tuple[TopicPartition, ...] = ()
    active: tuple[TaskId, ...] = ()
    standby: dict[TaskId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    next_rebalance_ms: int = LONG_MAX
    withheld: tuple[TaskId, ...] = ()
    version: int = LATEST_VERSION
    common_version: int = LATEST_VERSION
    error_code: int = 0


def error_assignments(
    clients: Iterable[ClientGroup], code: int
) -> dict[str, StreamsMemberAssignment]:
    """Nothing for anybody but the code."""
    return {
        name: StreamsMemberAssignment(error_code=code) for one in clients for name in one.consumers
    }


def hosts(
    plan: TaskPlan, clients: Sequence[ClientGroup], layout: TopologyLayout
) -> tuple[Hosts, Hosts]:
    """Source partitions of the active, and of the standby tasks of each end point.

    Of the target plan: tasks that are withheld for a round stand at their new place already.
    Of two clients with one end point the later one in the leader's map counts.
    """
    actives: Hosts = {}
    standbys: Hosts = {}
    problem = plan.problem
    by_process = {one.process: one for one in clients}
    for client in problem.client_map_order:
        endpoint = by_process[problem.clients[client].process].endpoint
        if endpoint is None:
            continue
        for into, tasks in ((actives, plan.active[client]), (standbys, plan.standby[client])):
            partitions = {
                one for task in tasks for one in layout.partitions_of[problem.tasks[task]]
            }
            into[endpoint] = tuple(sorted(partitions, key=partition_order_key))
    return actives, standbys


def member_assignments(
    plan: TaskPlan,
    client: int,
    group: ClientGroup,
    layout: TopologyLayout,
    *,
    owned: Collection[TopicPartition],
    deadline_ms: int | None,
    versions: tuple[int, int] = (LATEST_VERSION, LATEST_VERSION),
) -> dict[str, StreamsMemberAssignment]:
    """Assignments of one client's consumers.

    A task any of whose partitions another consumer still owns is withheld as a whole, and
    its consumer rebalances at once; until then the client keeps it as a standby if it was
    one and is stateful. The client's deadline goes to its first consumer (by id) that waits
    for nothing, unless one before it does.

    Args:
        plan: of all clients.
        client: number of this one.
        group: its consumers.
        layout: of the application.
        owned: every partition that anybody claims to own.
        deadline_ms: when the client shall rebalance again, None: never.
        versions: lowest used, and latest that all support.

    Source: ``StreamsPartitionAssignor.addClientAssignments`` 4.3.1.
    """
    consumers = [member.id for member in group.members]
    if plan.in_turn:
        # Before 2.4 a group stopped as a whole: nothing is withheld, nothing is probed.
        dealt, owned, deadline_ms = deal_in_turn(plan, client, consumers), (), None
    else:
        dealt = deal_to_threads(plan, client, _reported(plan, group))
    had = set(group.previous(layout)[1])
    answer = {}
    for name in group.consumers:
        names = [plan.problem.tasks[task] for task in dealt[name].active]
        withheld = _withheld(names, name, group, layout, owned)
        pairs = _pairs(names, withheld, layout)
        if withheld:
            next_ms, deadline_ms = 0, None
        elif deadline_ms is not None:
            next_ms, deadline_ms = deadline_ms, None
        else:
            next_ms = LONG_MAX
        standby = [plan.problem.tasks[task] for task in dealt[name].standby]
        standby += [task for task in withheld if task in had and task in layout.changelogs_of]
        answer[name] = StreamsMemberAssignment(
            tuple(partition for partition, _ in pairs),
            tuple(task for _, task in pairs),
            {task: layout.partitions_of[task] for task in sorted(standby, key=task_order_key)},
            next_ms,
            tuple(withheld),
            *versions,
        )
    return answer


def _reported(plan: TaskPlan, group: ClientGroup) -> dict[str, list[int]]:
    number_of = plan.problem.number_of
    return {
        member.id: [number_of[task] for task in member.offset_sums if task in number_of]
        if group.readable
        else []
        for member in group.members
    }


def _withheld(
    tasks: Iterable[TaskId],
    consumer: str,
    group: ClientGroup,
    layout: TopologyLayout,
    owned: Collection[TopicPartition],
) -> list[TaskId]:
    """Tasks of which a partition is owned by somebody, and not by this very consumer."""
    return sorted(
        (
            task
            for task in tasks
            if any(
                group.owner.get(one) != consumer and one in owned
                for one in layout.partitions_of[task]
            )
        ),
        key=task_order_key,
    )


def _pairs(
    tasks: Iterable[TaskId], withheld: Collection[TaskId], layout: TopologyLayout
) -> list[tuple[TopicPartition, TaskId]]:
    pairs = [
        (one, task) for task in tasks if task not in withheld for one in layout.partitions_of[task]
    ]
    return sorted(pairs, key=lambda pair: partition_order_key(pair[0]))
