"""From the members of a consumer group to the clients of an application."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from partage.errors import InvalidProblemError, InvalidTopologyError
from partage.java.hash_order import hash_order
from partage.java.strings import string_hash, string_order_key, string_ranks
from partage.streams.assignment_configs import LATEST_OFFSET
from partage.streams.task_ids import ProcessId, TaskId
from partage.streams.topology import TopicPartition, TopologyLayout

__all__ = ["FUTURE_PROCESS", "LATEST_VERSION", "ClientGroup", "StreamsMember", "group_by_client"]

LATEST_VERSION = 11
#: Members of a version that the leader cannot read count as one client. Kafka draws its id.
FUTURE_PROCESS = ProcessId(-1, -1)


@dataclass(frozen=True)
class StreamsMember:
    """One consumer with what it said when it joined.

    Attributes:
        id: of the consumer.
        process: id of its client.
        owned: partitions that it owns, in order.
        offset_sums: of the tasks that it has state of; -2: it runs the restored active.
        tags: client tags.
        rack: of the consumer.
        endpoint: host and port of the client, for interactive queries.
        version: of its subscription; above 11 nothing else can be read.
        latest_version: that it supports; -1: it speaks version 1 or 2, which do not say.
        shutdown: whether it asks the whole application to shut down.
    """

    id: str
    process: ProcessId
    owned: Sequence[TopicPartition] = ()
    offset_sums: Mapping[TaskId, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    endpoint: tuple[str, int] | None = None
    version: int = LATEST_VERSION
    latest_version: int = LATEST_VERSION
    shutdown: bool = False

    def __post_init__(self) -> None:
        if self.version < 1:
            raise InvalidProblemError(
                "must be at least 1", path=f"member {self.id}.version", value=self.version
            )


@dataclass
class ClientGroup:
    """The consumers of one client, as the leader files them.

    Attributes:
        process: its id.
        members: in the order in which the leader met them; the first gives tags and endpoint.
        owner: consumer of each owned partition, later claims overwriting.
        offset_sums: of all consumers together, likewise.
        readable: False for members of a future version.
    """

    process: ProcessId
    readable: bool = True
    members: list[StreamsMember] = field(default_factory=list)
    owner: dict[TopicPartition, str] = field(default_factory=dict)
    offset_sums: dict[TaskId, int] = field(default_factory=dict)

    def add(self, member: StreamsMember) -> None:
        """File one more consumer.

        Raises:
            InvalidProblemError: a client has tasks of named topologies and of none; to Kafka,
                which compares them, an IllegalStateException.
        """
        self.members.append(member)
        self.owner |= dict.fromkeys(member.owned, member.id)
        if self.readable:
            self.offset_sums |= member.offset_sums
            if len({task.topology is None for task in self.offset_sums}) > 1:
                raise InvalidProblemError(
                    "must all have a topology's name or none",
                    path=f"member {member.id}.offset_sums",
                    value=[str(task) for task in list(self.offset_sums)[:5]],
                )

    @property
    def consumers(self) -> list[str]:
        """Ids of the consumers, sorted as Kafka does."""
        return sorted((member.id for member in self.members), key=string_order_key)

    @property
    def tags(self) -> Mapping[str, str]:
        """Of the consumer that came first."""
        return self.members[0].tags if self.readable else {}

    @property
    def endpoint(self) -> tuple[str, int] | None:
        """Of the consumer that came first."""
        return self.members[0].endpoint if self.readable else None

    def rack(self, *, of_first: bool) -> str | None:
        """Its rack: of the first consumer (KIP-924), or the one that all consumers agree on."""
        racks = {member.rack for member in self.members}
        return self.members[0].rack if of_first or len(racks) == 1 else None

    def previous(self, layout: TopologyLayout) -> tuple[list[TaskId], list[TaskId]]:
        """Tasks that it ran, and tasks that it has state of.

        It ran the tasks of its owned partitions, and those whose sum is -2. Of named
        topologies those that are unknown are dropped.

        Raises:
            InvalidTopologyError: it owns partitions, and none is of any task.
        """
        task_of = layout.task_of
        owned = list(self.owner)
        if layout.named:
            owned = [partition for partition in owned if partition in task_of]
        active = {task_of[one]: None for one in owned if one in task_of}
        if owned and not active:
            raise InvalidTopologyError(
                f"client {self.process} owns partitions of them, and no task reads any of them: "
                "another application is in this group",
                topics=list({topic for topic, _ in owned}),
                java_exception="IllegalStateException",
            )
        owned_tasks = set(active)
        standby = []
        for task, total in self.offset_sums.items():
            if task in owned_tasks:
                continue
            if total == LATEST_OFFSET:
                active[task] = None
            else:
                standby.append(task)
        return list(active), standby


def group_by_client(members: Iterable[StreamsMember]) -> list[ClientGroup]:
    """Clients in the order in which Kafka's leader meets them.

    It walks the members in the order of a hash map of their ids. All members of a version
    above 11 count as one client of which nothing but owned partitions and racks is known.

    Raises:
        InvalidProblemError: no members, an id twice, or tasks with and without names.

    >>> members = [StreamsMember(name, ProcessId(0, 1)) for name in ("a-2", "a-1")]
    >>> [one.consumers for one in group_by_client(members)]
    [['a-1', 'a-2']]
    """
    given = list(members)
    ids = [member.id for member in given]
    if not given or len(set(ids)) < len(ids):
        twice = next((one for one in ids if ids.count(one) > 1), None)
        raise InvalidProblemError(
            "must be at least one, and none twice", path="members", value=twice
        )
    groups: dict[ProcessId, ClientGroup] = {}
    for place in hash_order([string_hash(one) for one in ids], rank=lambda: string_ranks(ids)):
        member = given[place]
        readable = member.version <= LATEST_VERSION
        process = member.process if readable else FUTURE_PROCESS
        groups.setdefault(process, ClientGroup(process, readable)).add(member)
    return list(groups.values())
