"""The task assignor of the group coordinator, for streams groups (KIP-1071).

`ServerSticky` is that of Kafka 4.4.0, `ServerSticky43` that of 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from partage.errors import InvalidConfigError, InvalidProblemError
from partage.java.hash_order import hash_order, names_in_map_order, table_for_capacity
from partage.java.priority_queue import PriorityQueue
from partage.java.strings import string_hash, string_order_key, string_ranks

__all__ = [
    "SERVER_ASSIGNORS", "ServerMember", "ServerPlan", "ServerSticky", "ServerSticky43",
    "ServerSubtopology",
]  # fmt: skip

_MOST_REPLICAS = 2**31

#: A task of a streams group: sub-topology id and partition.
ServerTask = tuple[str, int]


@dataclass(frozen=True)
class ServerSubtopology:
    """Sub-topology of a Kafka Streams group: its id, its number of tasks, and whether it has state.

    It is an input of the group coordinator's task assignor (KIP-1071).

    Attributes:
        id: sub-topology id, any text.
        tasks: number of tasks: the largest partition count of its source topics.
        stateful: whether it has changelogs, and therefore standbys.
    """

    id: str
    tasks: int
    stateful: bool


@dataclass(frozen=True)
class ServerMember:
    """Member of a Kafka Streams group, with the tasks that it had before the rebalance.

    It is an input of the group coordinator's task assignor (KIP-1071).

    Attributes:
        id: member id.
        process: process id; the members of a process share its local state.
        active: dict from sub-topology id to the partitions of its previous active tasks, in the
            iteration order of Kafka's map.
        standby: previous standby tasks in the same form.
        offsets: dict from sub-topology id to partition to the sum of the changelog offsets that the
            member reported for a task whose state is on its disk. Kafka 4.3 ignores them.
    """

    id: str
    process: str
    active: Mapping[str, Sequence[int]] = field(default_factory=dict)
    standby: Mapping[str, Sequence[int]] = field(default_factory=dict)
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerPlan:
    """Tasks of each member of a Kafka Streams group, assigned by the group coordinator (KIP-1071).

    ``active`` and ``standby`` map a member id to its tasks. There are no warm-up tasks.
    """

    active: dict[str, list[ServerTask]]
    standby: dict[str, list[ServerTask]]


class ServerSticky:
    """Sticky task assignor of Kafka's group coordinator (KIP-1071): members keep previous tasks.

    Guarantees, in order of priority:

    1. Every task is active on exactly one member, and no process has two copies of a task.
    2. A member keeps its previous tasks, actives first, up to its quota.
    3. A task without a member goes to a member with its standby, or else to one that reported
       offsets for it, then to the least loaded process, and there to the least loaded member.

    A member that restarts has a new id and no previous tasks. The offsets of the state on its disk,
    which it reports when it joins, let it have its tasks again. Of equally loaded standbys the one
    with the largest offset sum comes first.

    Racks, tags, warm-ups and static ids are ignored. The order of Java's maps decides between
    equally loaded processes. Cost: O(T (P + log P)) for T copies of tasks and P processes.

    Where it is not optimal: quotas fall as members fill up, so the last members may get fewer
    tasks. A standby that no process can take is dropped silently.

    It gives the same results as
    ``org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor`` 4.4.0.

    >>> members = [ServerMember("a", "p", {"0": [0, 1, 2]}), ServerMember("b", "q")]
    >>> plan = ServerSticky().assign([ServerSubtopology("0", 3, False)], members)
    >>> plan.active
    {'a': [('0', 0), ('0', 1)], 'b': [('0', 2)]}
    """

    name = "streams:server-sticky"
    exact_to = "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor 4.4.0"
    #: Whether the coordinator's rules are those of Kafka 4.3: it ignores offsets, it starts from
    #: the previous targets instead of the tasks that members own, and a task changes its role on
    #: a member in two steps.
    is_4_3 = False

    def assign(
        self,
        subtopologies: Sequence[ServerSubtopology],
        members: Sequence[ServerMember],
        configs: Mapping[str, str] | None = None,
    ) -> ServerPlan:
        """Assign the tasks of a Kafka Streams group to its members (KIP-1071).

        It is the algorithm of the group coordinator on the broker. Members keep their previous
        tasks if possible.

        Args:
            subtopologies: sub-topologies in any order.
            members: members in the order in which the coordinator inserts them into its map.
            configs: configuration of the group; if it is empty, there are no standbys.

        Raises:
            InvalidConfigError: ``num.standby.replicas`` is missing from a configuration that
                is not empty, is not an int32 (Kafka throws a NumberFormatException), or is
                negative.
            InvalidProblemError: a member or a sub-topology occurs twice, there are tasks but no
                members (Kafka throws a TaskAssignorException), or a task count is negative.
        """
        replicas = _replicas(configs or {})
        _check_distinct("members", [member.id for member in members])
        _check_distinct("subtopologies", [subtopology.id for subtopology in subtopologies])
        for subtopology in subtopologies:
            if subtopology.tasks < 0:
                where = f"subtopologies.{subtopology.id}.tasks"
                raise InvalidProblemError(
                    "must not be negative", path=where, value=subtopology.tasks
                )
        if not members and any(subtopology.tasks for subtopology in subtopologies):
            raise InvalidProblemError("must be at least one", path="members", value=[])
        kind = _TargetDraft43 if self.is_4_3 else _TargetDraft
        draft = kind(subtopologies, _in_map_order(members), replicas)
        draft.assign_actives()
        if replicas > 0:
            draft.assign_standbys(replicas)
        return draft.plan(members)


class ServerSticky43(ServerSticky):
    """Sticky task assignor of the group coordinator in Kafka 4.3 (KIP-1071); later releases differ.

    It differs from that of Kafka 4.4 in three points. It ignores the offsets that members report.
    It visits the members that had a standby of a task in the order of Kafka's map. If the first of
    them already has a copy of the task, none of them keeps the standby.

    It gives the same results as
    ``org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor`` 4.3.1.

    >>> members = [ServerMember("a", "p"), ServerMember("b", "q", offsets={"0": {0: 7}})]
    >>> [one().assign([ServerSubtopology("0", 2, True)], members).active
    ...  for one in (ServerSticky43, ServerSticky)]
    [{'a': [('0', 0)], 'b': [('0', 1)]}, {'a': [('0', 1)], 'b': [('0', 0)]}]
    """

    name = "streams:server-sticky@4.3"
    exact_to = "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor 4.3.1"
    is_4_3 = True


#: The coordinator's task assignors, the newest release first.
SERVER_ASSIGNORS = (ServerSticky(), ServerSticky43())


def _replicas(configs: Mapping[str, str]) -> int:
    if not configs:
        return 0
    text = configs.get("num.standby.replicas")
    # Integer.parseInt accepts neither spaces nor underscores.
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", str(text)):
        raise InvalidConfigError("num.standby.replicas", "must be a number", text)
    if not 0 <= int(str(text)) < _MOST_REPLICAS:
        raise InvalidConfigError("num.standby.replicas", "must be from 0 to 2**31 - 1", text)
    return int(str(text))


def _check_distinct(path: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InvalidProblemError("is there twice", path=path, value=duplicate)


def _in_map_order(members: Sequence[ServerMember]) -> list[ServerMember]:
    # A Java HashMap with the member ids as keys.
    return [members[place] for place in names_in_map_order([member.id for member in members])]


class _Quota:
    """Upper limit of the number of tasks that a member of a Kafka Streams group may get (KIP-1071).

    The limit is the number of tasks per member, rounded up. A member that reaches it is left out
    together with its tasks, and the limit is computed again for the other members.
    """

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.each = -(-tasks // members) if members else 0

    def reached(self, count: int) -> None:
        # The member with ``count`` tasks has reached the quota. It and its tasks no longer count.
        if count != self.each:
            return
        self._members -= 1
        self._tasks -= self.each
        self.each = -(-self._tasks // self._members) if self._members else 0


class _Process:
    """Process with one or more members of a Kafka Streams group, and the tasks of all of them.

    The members of a process share its local state. Kafka's class is ``ProcessState``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: list[ServerMember] = []
        self.count: dict[str, int] = {}
        self.tasks: set[ServerTask] = set()
        self.given = 0
        self._heap: PriorityQueue | None = None

    @property
    def load(self) -> float:
        return self.given / len(self.members)

    def add(self, task: ServerTask, member: str) -> int:
        self.tasks.add(task)
        self.given += 1
        self.count[member] += 1
        self._heap = None
        return self.count[member]

    def add_to_least_loaded(self, task: ServerTask) -> tuple[str, int]:
        # The result is that member and its number of tasks.
        if len(self.members) == 1:
            member = self.members[0].id
            return member, self.add(task, member)
        heap = self._heap
        if heap is None:
            heap = PriorityQueue()
            for one in _in_map_order(self.members):
                heap.add((self.count[one.id], one.id))
        member = heap.poll()[1]
        count = self.add(task, member)
        heap.add((count, member))
        self._heap = heap
        return member, count


class _TargetDraft:
    """Unfinished assignment of a Kafka Streams group's tasks to its members.

    The coordinator's sticky task assignor fills it step by step.

    Attributes:
        order: dict from sub-topology id to its rank in Java's string order.
        tasks: all tasks of the group.
        stateful: tasks that get standbys.
        active: dict from task to the member that runs it.
        standby: dict from member to its standby tasks.
        active_quota: quota of active tasks per member.
        all_quota: quota of active and standby tasks per member.
        process_of: dict from member to process.
        processes: processes in the iteration order of Kafka's map.
        previous_active: dict from task to the member that had it.
        previous_standby: dict from task to the members that had its standby.
    """

    def __init__(
        self,
        subtopologies: Sequence[ServerSubtopology],
        members: Sequence[ServerMember],
        replicas: int,
    ) -> None:
        self.order = {
            one.id: place
            for place, one in enumerate(sorted(subtopologies, key=lambda s: string_order_key(s.id)))
        }
        self.tasks = [(one.id, number) for one in subtopologies for number in range(one.tasks)]
        stateful = {one.id for one in subtopologies if one.stateful}
        self.stateful = [task for task in self.tasks if task[0] in stateful]
        self.active: dict[ServerTask, str] = {}
        self.standby: dict[str, list[ServerTask]] = {member.id: [] for member in members}
        self.active_quota = _Quota(len(self.tasks), len(members))
        self.all_quota = _Quota(len(self.tasks) + replicas * len(self.stateful), len(members))
        self.process_of: dict[str, _Process] = {}
        self.processes = self._processes(members)
        self.previous_active: dict[ServerTask, str] = {}
        self.previous_standby: dict[ServerTask, list[str]] = {}
        for member in members:
            for name, numbers in member.active.items():
                self.previous_active |= {(name, number): member.id for number in numbers}
        self._find_previous_standbys(members)

    def _find_previous_standbys(self, members: Iterable[ServerMember]) -> None:
        # Standbys come before members that only reported offsets; larger offsets come first.
        ranked: dict[ServerTask, list[tuple[tuple[bool, int], str]]] = {}
        for member in members:
            standbys = {(s, p) for s, numbers in member.standby.items() for p in numbers}
            offsets = {(s, p): at for s, known in member.offsets.items() for p, at in known.items()}
            for task in standbys | offsets.keys():
                rank = (task not in standbys, -offsets.get(task, 0))
                ranked.setdefault(task, []).append((rank, member.id))
        for task, known in ranked.items():
            known.sort(key=lambda one: one[0])
            self.previous_standby[task] = [member for _, member in known]

    def _processes(self, members: Sequence[ServerMember]) -> list[_Process]:
        # In the iteration order of Kafka's hash map.
        by_name: dict[str, _Process] = {}
        for member in members:
            process = by_name.setdefault(member.process, _Process(member.process))
            process.members.append(member)
            process.count[member.id] = 0
            self.process_of[member.id] = process
        names = list(by_name)
        places = self._process_order(names, members)
        return [by_name[names[place]] for place in places]

    def _process_order(self, names: Sequence[str], members: Sequence[ServerMember]) -> list[int]:
        # ``computeIfAbsent`` is called once for each member.
        seen = [member.process for member in members]
        return hash_order(
            [string_hash(name) for name in names],
            table=table_for_capacity(len(members)),
            rank=lambda: string_ranks(names),
            compute_if_absent=True,
            looked_up_after=bool(names) and seen.index(names[-1]) < len(seen) - 1,
        )

    def _by_partition(self, task: ServerTask) -> tuple[int, int]:
        return task[1], self.order[task[0]]

    def _by_subtopology(self, task: ServerTask) -> tuple[int, int]:
        return self.order[task[0]], task[1]

    # -- actives ---------------------------------------------------------------------------------

    def assign_actives(self) -> None:
        # To previous members, then to previous standbys, then by load.
        moved = []
        for task in sorted(self.tasks, key=self._by_partition):
            member = self.previous_active.get(task)
            if member is None or not self._assign_active(task, member):
                moved.append(task)
        rest = []
        for task in moved:
            member = self._best_previous_standby(task, without_copy=False)
            if member is None or not self._assign_active(task, member):
                rest.append(task)
        heap = self._process_heap()
        for task in sorted(rest, key=self._by_subtopology):
            process = heap.poll()[1]
            member, count = process.add_to_least_loaded(task)
            self._record_active(task, member, count)
            heap.add((process.load, process))

    def _assign_active(self, task: ServerTask, member: str) -> bool:
        # False if the member's quota is reached.
        process = self.process_of[member]
        if process.count[member] >= self.active_quota.each:
            return False
        self._record_active(task, member, process.add(task, member))
        return True

    def _record_active(self, task: ServerTask, member: str, count: int) -> None:
        self.active[task] = member
        self.active_quota.reached(count)
        self.all_quota.reached(count)

    def _best_previous_standby(self, task: ServerTask, *, without_copy: bool) -> str | None:
        """Return the least loaded of the members that had a standby copy of a Kafka Streams task.

        Such a member has the task's state already. None if there is no such member.

        Args:
            task: the task, as (sub-topology id, partition).
            without_copy: whether to leave out members of processes that already have a copy.
        """
        best: str | None = None
        for member in self.previous_standby.get(task, ()):
            process = self.process_of[member]
            if without_copy and task in process.tasks:
                continue
            # As in Kafka, a member replaces an earlier one only if its own load and that of its
            # process are both lower.
            if best is None or self._is_less_loaded(member, best):
                best = member
        return best

    def _is_less_loaded(self, member: str, other: str) -> bool:
        one, two = self.process_of[member], self.process_of[other]
        return one.load < two.load and one.count[member] < two.count[other]

    def _process_heap(self) -> PriorityQueue:
        heap = PriorityQueue()
        for process in self.processes:
            heap.add((process.load, process))
        return heap

    # -- standbys --------------------------------------------------------------------------------

    def assign_standbys(self, replicas: int) -> None:
        # To previous members, then by load.
        missing: list[tuple[ServerTask, int]] = []
        for task in sorted(self.stateful, key=self._by_partition, reverse=True):
            for copy in range(replicas):
                if not self._assign_standby(task):
                    missing.append((task, replicas - copy))
                    break
        heap = self._process_heap()
        missing.sort(key=lambda entry: self._by_subtopology(entry[0]), reverse=True)
        for task, copies in missing:
            for _ in range(copies):
                if not self._assign_to_least_loaded(task, heap):
                    break

    def _assign_standby(self, task: ServerTask) -> bool:
        # To a member that had the task before; False if none can take it.
        owner = self.previous_active.get(task)
        for member in (owner, self._best_previous_standby(task, without_copy=True)):
            if member is None:
                continue
            process = self.process_of[member]
            if task not in process.tasks and process.count[member] < self.all_quota.each:
                self._record_standby(task, member, process.add(task, member))
                return True
        return False

    def _record_standby(self, task: ServerTask, member: str, count: int) -> None:
        self.standby[member].append(task)
        self.all_quota.reached(count)

    def _assign_to_least_loaded(self, task: ServerTask, heap: PriorityQueue) -> bool:
        # False if every process has a copy.
        polled: list[_Process] = []
        assigned = False
        while len(heap) and not assigned:
            process = heap.poll()[1]
            polled.append(process)
            if task not in process.tasks:
                self._record_standby(task, *process.add_to_least_loaded(task))
                assigned = True
        for process in reversed(polled):
            heap.add((process.load, process))
        return assigned

    # -- the result ------------------------------------------------------------------------------

    def plan(self, members: Iterable[ServerMember]) -> ServerPlan:
        # Tasks of a member are sorted by sub-topology and partition.
        active: dict[str, list[ServerTask]] = {member.id: [] for member in members}
        for task, member in self.active.items():
            active[member].append(task)
        return ServerPlan(
            {one: sorted(tasks, key=self._by_subtopology) for one, tasks in active.items()},
            {one: sorted(self.standby[one], key=self._by_subtopology) for one in active},
        )


class _TargetDraft43(_TargetDraft):
    """Unfinished assignment of a Kafka Streams group's tasks, by the rules of Kafka 4.3.

    Unlike in later releases, offsets that members report are ignored. See `ServerSticky43` for all
    differences.
    """

    def _find_previous_standbys(self, members: Iterable[ServerMember]) -> None:
        # In the order of the members.
        for member in members:
            for name, numbers in member.standby.items():
                for number in dict.fromkeys(numbers):
                    self.previous_standby.setdefault((name, number), []).append(member.id)

    def _process_order(self, names: Sequence[str], members: Sequence[ServerMember]) -> list[int]:
        # ``put`` inserts the processes.
        return hash_order(
            [string_hash(name) for name in names],
            table=table_for_capacity(len(members)),
            rank=lambda: string_ranks(names),
        )

    def _best_previous_standby(self, task: ServerTask, *, without_copy: bool) -> str | None:
        # With ``without_copy`` the result is None if the first member's process has a copy.
        known = self.previous_standby.get(task)
        if not known:
            return None
        best = known[0]
        if without_copy and task in self.process_of[best].tasks:
            return None
        for member in known[1:]:
            has_copy = without_copy and task in self.process_of[member].tasks
            if not has_copy and self._is_less_loaded(member, best):
                best = member
        return best
