"""Assignments of consumers: the tasks of a client are split among its stream threads.

The second part converts subscriptions and assignments from and to user data, and decides when a
member rejoins.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from partage.errors import InvalidProblemError
from partage.java.hash_order import hash_set_order
from partage.java.priority_queue import PriorityQueue
from partage.java.strings import string_hash, string_order_key
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.members import FUTURE_PROCESS, ClientGroup, StreamsMember
from partage.streams.problem import TaskPlan
from partage.streams.task_ids import ProcessId, TaskId
from partage.streams.topology import TopologyLayout
from partage.wire.errors import UnsupportedVersionError
from partage.wire.streams.arrays import TopicPartition, partition_order_key, task_order_key
from partage.wire.streams.assignment_info import AssignmentInfo
from partage.wire.streams.subscription_info import LATEST_VERSION, SubscriptionInfo
from partage.wire.streams.versions import SHUTDOWN_REQUESTED, next_version

__all__ = [
    "Hosts",
    "NextRebalance",
    "StreamsMemberAssignment",
    "ThreadTasks",
    "assign_in_turn",
    "assign_to_threads",
    "assignment_info",
    "build_member",
    "error_assignments",
    "member_assignments",
    "on_assignment",
    "source_partitions_by_host",
]


@dataclass(frozen=True)
class ThreadTasks:
    """Active and standby tasks of one stream thread of a Kafka Streams application.

    Tasks are numbers, in the order in which Kafka sends them.
    """

    stateful: list[int]
    standby: list[int]
    stateless: list[int]

    @property
    def active_tasks(self) -> list[int]:
        """Active tasks of a Kafka Streams thread: first those with state, then those without.

        Java's ``StreamsPartitionAssignor`` distributes the tasks with state first.
        """
        return self.stateful + self.stateless


def assign_to_threads(
    plan: TaskPlan, client: int, reported: Mapping[str, Collection[int]]
) -> dict[str, ThreadTasks]:
    """Divide the tasks of one Kafka Streams client (application instance) among its stream threads.

    A thread first gets tasks whose state it reported, as in Kafka's leader. The other tasks are
    assigned round-robin.

    Args:
        plan: tasks of each client.
        client: number of the client.
        reported: dict from consumer to the numbers of the tasks of which it reported local state.

    Source: ``StreamsPartitionAssignor.assignTasksToThreads`` 4.3.1.

    >>> from partage.streams import ClientState, HighAvailability, ProcessId, TaskId, TaskProblem
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> plan = HighAvailability().assign(TaskProblem([ClientState(ProcessId(0, 1), 2)], tasks))
    >>> threads = assign_to_threads(plan, 0, {"a": [], "b": []})
    >>> {name: its.active_tasks for name, its in threads.items()}
    {'a': [0, 2], 'b': [1]}
    """
    problem = plan.problem
    stateful = set(problem.stateful)
    lags = problem.changelog_lags[client]
    consumers = sorted(reported, key=string_order_key)
    known = {
        name: sorted(
            (task for task in reported[name] if task in stateful), key=lambda t: (lags[t], t)
        )
        for name in consumers
    }
    load = dict.fromkeys(consumers, 0)

    def assign(tasks: Sequence[int], *, sticky: bool, hashed: bool) -> dict[str, list[int]]:
        order = problem.task_hash_order(tasks) if hashed else tasks
        assigned = _divide_evenly(order, consumers, known if sticky else {}, load)
        for name, own in assigned.items():
            load[name] += len(own)
        return assigned

    # Three passes, as in Kafka: stateful active tasks, standbys, stateless active tasks. In the
    # first two, a thread first gets tasks that it reported, those with the least lag first. Tasks
    # beyond the equal share follow the array order of a binary heap, which differs for actives
    # (filled from a hash set) and standbys (filled in order).
    actives = plan.active[client]
    first = assign([t for t in actives if t in stateful], sticky=True, hashed=True)
    second = assign(plan.standby[client], sticky=True, hashed=False)
    third = assign([t for t in actives if t not in stateful], sticky=False, hashed=True)
    return {name: ThreadTasks(first[name], second[name], third[name]) for name in consumers}


def _divide_evenly(
    tasks: Sequence[int],
    consumers: Sequence[str],
    reported: Mapping[str, Sequence[int]],
    load: Mapping[str, int],
) -> dict[str, list[int]]:
    """Divide tasks of one Kafka Streams instance evenly among its stream threads.

    Each thread first gets tasks whose state it reported, up to an equal share of all tasks. The
    other tasks are then assigned round-robin.

    Args:
        tasks: numbers of the tasks, in the order of Kafka's heap.
        consumers: member ids of the threads, in Java's string order.
        reported: dict from member id to the tasks whose state the thread reported.
        load: dict from member id to the number of tasks that the thread has already.
    """
    given: dict[str, list[int]] = {name: [] for name in consumers}
    if not tasks:
        return given
    least = (len(tasks) + sum(load.values())) // len(consumers)
    left = PriorityQueue((task,) for task in tasks)
    unassigned = set(tasks)
    reported_by: dict[int, str] = {}
    to_fill: deque[str] = deque()
    for name in consumers:
        wanted = least - load[name]
        for task in reported.get(name, ()):
            if task not in unassigned:
                continue
            if len(given[name]) < wanted:
                given[name].append(task)
                unassigned.remove(task)
                left.remove((task,))
            else:
                reported_by[task] = name
        if len(given[name]) < wanted:
            to_fill.append(name)
    while to_fill:
        name = to_fill.popleft()
        given[name].append(left.poll()[0])
        if len(given[name]) + load[name] < least:
            to_fill.append(name)
    _assign_remaining(
        left, [n for n in consumers if len(given[n]) + load[n] == least], reported_by, given
    )
    return given


def _assign_remaining(
    remaining_tasks: PriorityQueue,
    threads: list[str],
    reported_by: Mapping[int, str],
    assigned: dict[str, list[int]],
) -> None:
    """Assign the Kafka Streams tasks that remain when every thread has its equal share.

    Each thread gets at most one of them. A thread that reported a task's state comes first.

    Args:
        remaining_tasks: the tasks, as Kafka's priority queue.
        threads: member ids of the threads that may get another task.
        reported_by: dict from task to the thread that reported its state.
        assigned: dict from member id to the thread's tasks; changed in place.
    """
    if not len(remaining_tasks):
        return
    waiting = dict.fromkeys(threads)
    remaining = {task for (task,) in remaining_tasks.items}
    for task in sorted(reported_by):
        name = reported_by[task]
        if name in waiting and task in remaining:
            assigned[name].append(task)
            remaining_tasks.remove((task,))
            del waiting[name]
    for (task,), name in zip(remaining_tasks.items, waiting, strict=False):
        assigned[name].append(task)


def assign_in_turn(plan: TaskPlan, client: int, consumers: Sequence[str]) -> dict[str, ThreadTasks]:
    """Divide the tasks of a Kafka Streams instance among its threads round-robin (before 2.4).

    Active tasks come first. The threads' previous tasks are ignored.

    Args:
        plan: plan of the assignor of Kafka Streams 0.10.2 or 0.11.
        client: number of the client.
        consumers: consumers in the order in which the leader reads them.

    Source: ``StreamPartitionAssignor.assign`` 0.10.2.1 and 0.11.0.3.
    """
    order = hash_set_order(consumers, string_hash)
    # Consumers and tasks are visited in the order of Java's hash sets.
    active = set(plan.active[client])
    assigned = {}
    for place, name in enumerate(order):
        own = plan.in_turn[client][place :: len(order)]
        assigned[name] = ThreadTasks(
            [task for task in own if task in active],
            [task for task in own if task not in active],
            [],
        )
    return assigned


Hosts = dict[tuple[str, int], tuple[TopicPartition, ...]]


@dataclass(frozen=True)
class StreamsMemberAssignment:
    """Assignment of one Kafka Streams thread: partitions, tasks, and when to rebalance again.

    Kafka's classes are ``Assignment`` and ``AssignmentInfo``.

    Attributes:
        partitions: assigned partitions, sorted.
        active: the task of each partition; a task repeats for each of its partitions.
        standby: standby tasks with the source partitions of each.
        next_rebalance_ms: time of the next rebalance; 0: at once, 2**63 - 1: never.
        withheld: tasks that the consumer gets after other consumers have revoked them.
        version: version of the user data, the lowest that any member used.
        common_version: latest version that all members support; -1 if a member's is unknown.
        error_code: 0: none, 1: a source topic is missing, 3: other error, 4: shutdown.
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
    """Return the assignment that each member gets if a Kafka Streams rebalance failed.

    It has an error code and no tasks. The result is a dict by member id.

    Args:
        clients: the members, grouped by application instance.
        code: Kafka's number of the error, such as 1 if a source topic is missing.
    """
    return {
        name: StreamsMemberAssignment(error_code=code)
        for one in clients
        for name in one.consumer_ids
    }


def source_partitions_by_host(
    plan: TaskPlan, clients: Sequence[ClientGroup], layout: TopologyLayout
) -> tuple[Hosts, Hosts]:
    """Return the source partitions of each Kafka Streams instance's tasks, by host and port.

    Interactive queries use them to find the instance that has the state of a key.

    Args:
        plan: tasks of each client (instance).
        clients: the clients, with their endpoints.
        layout: the source partitions of each task.

    Returns:
        Two dicts from (host, port) to source partitions: of active tasks and of standby tasks.
    """
    actives: Hosts = {}
    standbys: Hosts = {}
    problem = plan.problem
    # A task that its previous client has not revoked yet is listed at its new client. If two
    # clients have the same endpoint, the later one in the leader's map counts.
    by_process = {one.process: one for one in clients}
    for client in problem.client_map_order:
        endpoint = by_process[problem.clients[client].process].query_endpoint
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
    """Return the assignment of each stream thread of one Kafka Streams client, by member id.

    A client is an application instance. If another thread still owns a partition of a task, the
    task is withheld until that thread has revoked it.

    Args:
        plan: tasks of each client.
        client: number of the client.
        group: the consumers of the client.
        layout: partitions of each task.
        owned: all partitions that any consumer owns.
        deadline_ms: time of the client's next rebalance; None: never.
        versions: lowest version used, and latest version that all members support.

    Source: ``StreamsPartitionAssignor.addClientAssignments`` 4.3.1.
    """
    consumers = [member.id for member in group.members]
    if plan.in_turn:
        # Before 2.4 all members revoked all tasks, so nothing is withheld or probed.
        tasks_of, owned, deadline_ms = assign_in_turn(plan, client, consumers), (), None
    else:
        tasks_of = assign_to_threads(plan, client, _reported(plan, group))
    # While a stateful task is withheld, a client that had its standby keeps the standby. The time
    # of the client's next rebalance goes to its first consumer by id, unless it rebalances at once.
    previous_standby = set(group.previous_tasks(layout)[1])
    assignments = {}
    for name in group.consumer_ids:
        names = [plan.problem.tasks[task] for task in tasks_of[name].active_tasks]
        withheld = _withheld(names, name, group, layout, owned)
        pairs = _pairs(names, withheld, layout)
        if withheld:
            next_ms, deadline_ms = 0, None
        elif deadline_ms is not None:
            next_ms, deadline_ms = deadline_ms, None
        else:
            next_ms = LONG_MAX
        standby = [plan.problem.tasks[task] for task in tasks_of[name].standby]
        standby += [
            task for task in withheld if task in previous_standby and task in layout.changelogs_of
        ]
        assignments[name] = StreamsMemberAssignment(
            tuple(partition for partition, _ in pairs),
            tuple(task for _, task in pairs),
            {task: layout.partitions_of[task] for task in sorted(standby, key=task_order_key)},
            next_ms,
            tuple(withheld),
            *versions,
        )
    return assignments


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
    # A task is withheld while another consumer owns one of its partitions.
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


# --- user data and the next rebalance ------------------------------------------------------


#: ``Utils.HOST_PORT_PATTERN`` of Kafka 4.3.1, which has to match as a whole.
_HOST_AND_PORT = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,10})")
_INT_MAX = 2**31 - 1


def build_member(
    name: str,
    info: SubscriptionInfo,
    *,
    owned: Iterable[TopicPartition] = (),
    rack: str | None = None,
) -> StreamsMember:
    """Build a Kafka Streams member from the subscription in its JoinGroup request.

    The group leader decodes each member's subscription in this way.

    Args:
        name: member id of the consumer.
        info: user data of the subscription. If the leader does not support their version, only the
            version fields are used.
        owned: owned partitions in the subscription.
        rack: rack in the subscription.

    Raises:
        InvalidProblemError: the endpoint is not ``host:port`` (Kafka throws a
            ConfigException), or the version is below 1.
        WireFormatError: a client tag occurs twice.

    Source: ``StreamsPartitionAssignor.assign``, step 0, 4.3.1.

    >>> info = SubscriptionInfo.of(process=bytes([*bytes(15), 7]), endpoint="here:80",
    ...                            offset_sums={(0, 1): -2})
    >>> one = build_member("a", info)
    >>> one.process, one.endpoint, {str(task): total for task, total in one.offset_sums.items()}
    (ProcessId(msb=0, lsb=7), ('here', 80), {'0_1': -2})
    """
    pairs = tuple(owned)
    if info.is_future(LATEST_VERSION):
        return StreamsMember(
            name,
            FUTURE_PROCESS,
            pairs,
            rack=rack,
            version=info.version,
            latest_version=info.latest_version,
        )
    return StreamsMember(
        name,
        ProcessId.from_bytes(info.process),
        pairs,
        {TaskId(*task): total for task, total in info.task_offset_sums.to_dict().items()},
        info.tags,
        rack,
        _endpoint(name, info.endpoint),
        info.version,
        info.latest_version,
        info.error_code == SHUTDOWN_REQUESTED,
    )


def assignment_info(
    assignment: StreamsMemberAssignment,
    hosts: Hosts | None = None,
    standby_hosts: Hosts | None = None,
) -> AssignmentInfo:
    """Build the user data that the leader of a Kafka Streams group sends to one stream thread.

    It is Kafka's ``AssignmentInfo``, with tasks, hosts and the time of the next rebalance.

    Args:
        assignment: assignment of the consumer; with an error code, all else is left out.
        hosts: source partitions of active tasks by endpoint, the same for every consumer.
        standby_hosts: source partitions of standby tasks by endpoint.

    Raises:
        UnsupportedVersionError: the version is not from 1 to 11.

    Source: ``StreamsPartitionAssignor.addClientAssignments`` and ``errorAssignment`` 4.3.1.

    >>> assignment_info(StreamsMemberAssignment((("t", 2),), (TaskId(0, 2),))).active
    TaskArrays([(0, 2, None)])
    """
    return AssignmentInfo.of(
        version=assignment.version,
        common_version=assignment.common_version,
        active=assignment.active,
        standby={(s, p, name): own for (s, p, name), own in assignment.standby.items()},
        hosts=hosts,
        standby_hosts=standby_hosts,
        error_code=assignment.error_code,
        next_rebalance_ms=assignment.next_rebalance_ms,
    )


def _endpoint(name: str, text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    found = _HOST_AND_PORT.fullmatch(text)
    if found is None or int(found[2]) > _INT_MAX:
        raise InvalidProblemError(
            "must be host:port", path=f"member {name}.endpoint", value=text[:200]
        )
    return found[1], int(found[2])


@dataclass(frozen=True)
class NextRebalance:
    """Time at which a Kafka Streams thread joins its group again, and its subscription version.

    The version changes if the group's members were upgraded or downgraded.

    Attributes:
        version: version of its next subscription.
        rebalance_ms: time in ms; the member requests a rebalance as soon as its clock is later. 0:
            at once, 2**63 - 1: never.
    """

    version: int
    rebalance_ms: int


def on_assignment(
    assignment: StreamsMemberAssignment,
    *,
    version: int,
    endpoint: tuple[str, int] | None = None,
    hosts: Collection[tuple[str, int]] = (),
) -> NextRebalance:
    """Return when a Kafka Streams thread must join its group again after it received an assignment.

    It joins again at once if the subscription version has changed, or if its own endpoint is
    missing among the hosts (a static member with an old assignment). Otherwise the assignment
    states the time.

    Args:
        assignment: assignment of the member, without an error code.
        version: version of the subscription that the member sent.
        endpoint: endpoint of the member, if it has one.
        hosts: endpoints that the assignment names.

    Raises:
        InvalidProblemError: the assignment has a later version than the subscription, or
            the common version is later than this member supports. Kafka throws a
            TaskAssignmentException.

    Source: ``StreamsPartitionAssignor.onAssignment`` 4.3.1.

    >>> on_assignment(StreamsMemberAssignment(next_rebalance_ms=500), version=11).rebalance_ms
    500
    >>> on_assignment(StreamsMemberAssignment(version=9, common_version=9), version=11)
    NextRebalance(version=9, rebalance_ms=0)
    """
    info = AssignmentInfo(assignment.version, assignment.common_version)
    try:
        after = next_version(info, used=version)
    except UnsupportedVersionError as error:
        raise InvalidProblemError(
            f"is not supported: {error}", path="assignment.version", value=assignment.version
        ) from None
    if after.rejoin or (endpoint is not None and hosts and endpoint not in hosts):
        return NextRebalance(after.version, 0)
    return NextRebalance(after.version, min(assignment.next_rebalance_ms, LONG_MAX))
