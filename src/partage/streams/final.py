"""What each consumer is sent: partitions, tasks, standbys, and when to rebalance again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from partage.streams.ids import TaskId, task_order_key
from partage.streams.layout import Layout, TopicPartition, partition_order_key
from partage.streams.members import LATEST_VERSION, ClientGroup
from partage.streams.plan import TaskPlan
from partage.streams.settings import LONG_MAX
from partage.streams.threads import deal_in_turn, deal_to_threads

__all__ = ["ConsumerAssignment", "Hosts", "consumer_assignments", "error_assignments", "hosts"]

Hosts = dict[tuple[str, int], tuple[TopicPartition, ...]]


@dataclass(frozen=True)
class ConsumerAssignment:
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


def error_assignments(clients: Iterable[ClientGroup], code: int) -> dict[str, ConsumerAssignment]:
    """Nothing for anybody but the code."""
    return {name: ConsumerAssignment(error_code=code) for one in clients for name in one.consumers}


def hosts(plan: TaskPlan, clients: Sequence[ClientGroup], layout: Layout) -> tuple[Hosts, Hosts]:
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


def consumer_assignments(
    plan: TaskPlan,
    client: int,
    group: ClientGroup,
    layout: Layout,
    *,
    owned: Collection[TopicPartition],
    deadline_ms: int | None,
    versions: tuple[int, int] = (LATEST_VERSION, LATEST_VERSION),
) -> dict[str, ConsumerAssignment]:
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
        answer[name] = ConsumerAssignment(
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
    layout: Layout,
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
    tasks: Iterable[TaskId], withheld: Collection[TaskId], layout: Layout
) -> list[tuple[TopicPartition, TaskId]]:
    pairs = [
        (one, task) for task in tasks if task not in withheld for one in layout.partitions_of[task]
    ]
    return sorted(pairs, key=lambda pair: partition_order_key(pair[0]))
