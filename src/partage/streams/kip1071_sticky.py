"""The coordinator's assignor of streams groups (KIP-1071)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from partage.errors import InvalidConfigError, InvalidProblemError
from partage.java.hash_order import hash_order, table_for_capacity
from partage.java.priority_queue import PriorityQueue
from partage.java.strings import string_hash, string_order_key, string_ranks

__all__ = ["ServerMember", "ServerPlan", "ServerSticky", "ServerSubtopology"]

_MOST_REPLICAS = 2**31

#: A task of a streams group: sub-topology id and partition.
ServerTask = tuple[str, int]


@dataclass(frozen=True)
class ServerSubtopology:
    """A sub-topology as the coordinator knows it.

    Attributes:
        id: any text.
        tasks: its largest number of input partitions.
        stateful: whether it has changelogs, and so standbys.
    """

    id: str
    tasks: int
    stateful: bool


@dataclass(frozen=True)
class ServerMember:
    """A member of a streams group with its previous targets.

    Attributes:
        id: of the member.
        process: id of its process; members of one process share a disk.
        active, standby: previous targets, sub-topology id -> partitions, in map order.
    """

    id: str
    process: str
    active: Mapping[str, Sequence[int]] = field(default_factory=dict)
    standby: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerPlan:
    """Tasks of each member; the coordinator's assignor makes no warm-ups."""

    active: dict[str, list[ServerTask]]
    standby: dict[str, list[ServerTask]]


class ServerSticky:
    """Even and sticky in the broker (KIP-1071).

    Guarantees, the first before the next:

    1. every task is active on exactly one member; no process has two copies of a task;
    2. a member keeps what it had, actives first, up to its quota;
    3. a task that lost its member goes to one that has its standby, then to the least loaded
       process, and there to the least loaded member.

    Racks, tags and static ids have no say. The order of Java's maps decides between equally
    loaded processes. Cost: O(T (P + log P)) for T copies of tasks and P processes.

    Where it is not optimal: quotas fall as members fill up, so that the last ones may get
    fewer; a standby that nobody else can hold is dropped silently.

    Exact to ``org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor`` 4.3.1.

    >>> members = [ServerMember("a", "p", {"0": [0, 1, 2]}), ServerMember("b", "q")]
    >>> plan = ServerSticky().assign([ServerSubtopology("0", 3, False)], members)
    >>> plan.active
    {'a': [('0', 0), ('0', 1)], 'b': [('0', 2)]}
    """

    name = "streams:server-sticky"
    exact_to = "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor 4.3.1"

    def assign(
        self,
        subtopologies: Sequence[ServerSubtopology],
        members: Sequence[ServerMember],
        configs: Mapping[str, str] | None = None,
    ) -> ServerPlan:
        """The target assignment.

        Args:
            subtopologies: in any order; they are walked by id.
            members: in the order in which the coordinator put them into its map.
            configs: the group's; without any there are no standbys.

        Raises:
            InvalidConfigError: ``num.standby.replicas`` is missing from configs that are not
                empty, or is no int32 in digits: to Kafka a number format error; or negative.
            InvalidProblemError: a member, or a sub-topology, is there twice; tasks for nobody
                (to Kafka a TaskAssignorException), or fewer than none.
        """
        replicas = _replicas(configs or {})
        _distinct("members", [member.id for member in members])
        _distinct("subtopologies", [one.id for one in subtopologies])
        for one in subtopologies:
            if one.tasks < 0:
                where = f"subtopologies.{one.id}.tasks"
                raise InvalidProblemError("must not be negative", path=where, value=one.tasks)
        if not members and any(one.tasks for one in subtopologies):
            raise InvalidProblemError("must be at least one", path="members", value=[])
        state = _State(subtopologies, _in_map_order(members), replicas)
        state.place_actives()
        if replicas > 0:
            state.place_standbys(replicas)
        return state.plan(members)


def _replicas(configs: Mapping[str, str]) -> int:
    if not configs:
        return 0
    text = configs.get("num.standby.replicas")
    # As Integer.parseInt: no spaces, no underscores.
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", str(text)):
        raise InvalidConfigError("num.standby.replicas", "must be a number", text)
    if not 0 <= int(str(text)) < _MOST_REPLICAS:
        raise InvalidConfigError("num.standby.replicas", "must be from 0 to 2**31 - 1", text)
    return int(str(text))


def _distinct(path: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidProblemError("is there twice", path=path, value=twice)


def _in_map_order(members: Sequence[ServerMember]) -> list[ServerMember]:
    ids = [member.id for member in members]
    places = hash_order([string_hash(one) for one in ids], rank=lambda: string_ranks(ids))
    return [members[place] for place in places]


class _Quota:
    """Tasks that a member may have: ceil(what is left / members that are not full)."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.each = -(-tasks // members) if members else 0

    def reached(self, count: int) -> None:
        """A member has got so many; when that is the quota, it leaves with them."""
        if count != self.each:
            return
        self._members -= 1
        self._tasks -= self.each
        self.each = -(-self._tasks // self._members) if self._members else 0


class _Process:
    """Members of one process, and the tasks that they hold together."""

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
        """The member's number of tasks with this one more."""
        self.tasks.add(task)
        self.given += 1
        self.count[member] += 1
        self._heap = None
        return self.count[member]

    def add_to_least_loaded(self, task: ServerTask) -> tuple[str, int]:
        """The member that got it, and its number of tasks."""
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


class _State:
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
        self.ran: dict[ServerTask, str] = {}
        self.had: dict[ServerTask, list[str]] = {}
        for member in members:
            for name, numbers in member.active.items():
                self.ran |= {(name, number): member.id for number in numbers}
            for name, numbers in member.standby.items():
                for number in dict.fromkeys(numbers):
                    self.had.setdefault((name, number), []).append(member.id)

    def _processes(self, members: Sequence[ServerMember]) -> list[_Process]:
        made: dict[str, _Process] = {}
        for member in members:
            process = made.setdefault(member.process, _Process(member.process))
            process.members.append(member)
            process.count[member.id] = 0
            self.process_of[member.id] = process
        names = list(made)
        places = hash_order(
            [string_hash(name) for name in names],
            table=table_for_capacity(len(members)),
            rank=lambda: string_ranks(names),
        )
        return [made[names[place]] for place in places]

    def _by_partition(self, task: ServerTask) -> tuple[int, int]:
        return task[1], self.order[task[0]]

    def _by_subtopology(self, task: ServerTask) -> tuple[int, int]:
        return self.order[task[0]], task[1]

    # -- actives ---------------------------------------------------------------------------------

    def place_actives(self) -> None:
        left = []
        for task in sorted(self.tasks, key=self._by_partition):
            member = self.ran.get(task)
            if member is None or not self._give_active(task, member):
                left.append(task)
        rest = []
        for task in left:
            member = self._best(task, holds_matter=False)
            if member is None or not self._give_active(task, member):
                rest.append(task)
        heap = self._process_heap()
        for task in sorted(rest, key=self._by_subtopology):
            process = heap.poll()[1]
            member, count = process.add_to_least_loaded(task)
            self._is_active(task, member, count)
            heap.add((process.load, process))

    def _give_active(self, task: ServerTask, member: str) -> bool:
        process = self.process_of[member]
        if process.count[member] >= self.active_quota.each:
            return False
        self._is_active(task, member, process.add(task, member))
        return True

    def _is_active(self, task: ServerTask, member: str, count: int) -> None:
        self.active[task] = member
        self.active_quota.reached(count)
        self.all_quota.reached(count)

    def _best(self, task: ServerTask, *, holds_matter: bool) -> str | None:
        """Of those that had its standby: a later one must be better by process and by itself."""
        known = self.had.get(task)
        if not known:
            return None
        best = known[0]
        if holds_matter and task in self.process_of[best].tasks:
            return None
        for member in known[1:]:
            process, chosen = self.process_of[member], self.process_of[best]
            if (
                process.load < chosen.load
                and process.count[member] < chosen.count[best]
                and not (holds_matter and task in process.tasks)
            ):
                best = member
        return best

    def _process_heap(self) -> PriorityQueue:
        heap = PriorityQueue()
        for process in self.processes:
            heap.add((process.load, process))
        return heap

    # -- standbys --------------------------------------------------------------------------------

    def place_standbys(self, replicas: int) -> None:
        missing: list[tuple[ServerTask, int]] = []
        for task in sorted(self.stateful, key=self._by_partition, reverse=True):
            for copy in range(replicas):
                if not self._give_standby(task):
                    missing.append((task, replicas - copy))
                    break
        heap = self._process_heap()
        missing.sort(key=lambda entry: self._by_subtopology(entry[0]), reverse=True)
        for task, copies in missing:
            for _ in range(copies):
                if not self._give_to_least_loaded(task, heap):
                    break

    def _give_standby(self, task: ServerTask) -> bool:
        member = self.ran.get(task)
        if member is not None and self._may_be_standby(task, member):
            self._is_standby(task, member, self.process_of[member].add(task, member))
            return True
        member = self._best(task, holds_matter=True)
        if member is None or self.process_of[member].count[member] >= self.all_quota.each:
            return False
        self._is_standby(task, member, self.process_of[member].add(task, member))
        return True

    def _may_be_standby(self, task: ServerTask, member: str) -> bool:
        process = self.process_of[member]
        return task not in process.tasks and process.count[member] < self.all_quota.each

    def _is_standby(self, task: ServerTask, member: str, count: int) -> None:
        self.standby[member].append(task)
        self.all_quota.reached(count)

    def _give_to_least_loaded(self, task: ServerTask, heap: PriorityQueue) -> bool:
        taken: list[_Process] = []
        given = False
        while len(heap) and not given:
            process = heap.poll()[1]
            taken.append(process)
            if task not in process.tasks:
                self._is_standby(task, *process.add_to_least_loaded(task))
                given = True
        for process in reversed(taken):
            heap.add((process.load, process))
        return given

    # -- the answer ------------------------------------------------------------------------------

    def plan(self, members: Iterable[ServerMember]) -> ServerPlan:
        active: dict[str, list[ServerTask]] = {member.id: [] for member in members}
        for task, member in self.active.items():
            active[member].append(task)
        return ServerPlan(
            {one: sorted(tasks, key=self._by_subtopology) for one, tasks in active.items()},
            {one: sorted(self.standby[one], key=self._by_subtopology) for one in active},
        )
