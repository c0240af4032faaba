"""From a client's tasks to its consumers, which are its stream threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from partage.java.hash_order import hash_set_order
from partage.java.priority_queue import PriorityQueue
from partage.java.strings import string_hash, string_order_key
from partage.streams.plan import TaskPlan

__all__ = ["ThreadTasks", "deal_in_turn", "deal_to_threads"]


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

    >>> from partage.streams import Client, HighAvailability, ProcessId, TaskId, TaskProblem
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> plan = HighAvailability().assign(TaskProblem([Client(ProcessId(0, 1), 2)], tasks))
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
