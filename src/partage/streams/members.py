"""Members of a Streams group, and their clients (application instances)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from partage.errors import InvalidProblemError, InvalidTopologyError
from partage.java.hash_order import names_in_map_order
from partage.java.strings import string_order_key
from partage.streams.task_ids import ProcessId, TaskId
from partage.streams.topology import TopologyLayout
from partage.wire.streams.arrays import TopicPartition
from partage.wire.streams.subscription_info import LATEST_OFFSET, LATEST_VERSION

__all__ = ["FUTURE_PROCESS", "ClientGroup", "StreamsMember", "group_by_client"]

#: Process id of the one client that stands for all members whose version is too new to read.
#: Kafka draws a random id.
FUTURE_PROCESS = ProcessId(-1, -1)


@dataclass(frozen=True)
class StreamsMember:
    """Stream thread of a Kafka Streams application, with the data that it sends when it joins.

    Each stream thread has one consumer, so it is one member of the application's consumer group.

    Attributes:
        id: member id of the consumer.
        process: process id of its client.
        owned: owned partitions, in the order sent.
        offset_sums: for each task with local state, the sum of its changelog offsets; -2: the
            consumer runs the fully restored active task.
        tags: client tags (KIP-708).
        rack: rack of the consumer.
        endpoint: host and port of the client, for interactive queries.
        version: version of the subscription; above 11 the other fields cannot be read.
        latest_version: latest version that the member supports; -1: unknown, because versions 1 and
            2 do not contain it.
        shutdown: whether the member requests a shutdown of the application.
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
    """Instance of a Kafka Streams application, with its stream threads.

    Kafka calls an instance a client (``ClientMetadata``). Each stream thread is one consumer.

    Attributes:
        process: process id of the client.
        members: consumers in the order in which the leader reads them. The first one provides tags
            and endpoint.
        owner: consumer of each owned partition; if several report a partition, the last one.
        offset_sums: offset sum of each task; if several consumers report a task, the last one's.
        readable: False for members of a future version.
    """

    process: ProcessId
    readable: bool = True
    members: list[StreamsMember] = field(default_factory=list)
    owner: dict[TopicPartition, str] = field(default_factory=dict)
    offset_sums: dict[TaskId, int] = field(default_factory=dict)

    def add_member(self, member: StreamsMember) -> None:
        """Add a stream thread to this Kafka Streams instance, with its partitions and state.

        Each thread is a member of the application's consumer group.

        Raises:
            InvalidProblemError: the client has tasks with and without a topology's name. Kafka
                throws an IllegalStateException when it compares them.
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
    def consumer_ids(self) -> list[str]:
        """Member ids of this Kafka Streams instance's threads, sorted as Java sorts strings.

        Each thread has its own consumer, which is a member of the application's group.
        """
        return sorted((member.id for member in self.members), key=string_order_key)

    @property
    def client_tags(self) -> Mapping[str, str]:
        """Client tags of this Kafka Streams instance, such as ``{"zone": "a"}`` (KIP-708).

        All stream threads of an instance have the same tags, so the first thread's tags are
        returned.
        """
        return self.members[0].tags if self.readable else {}

    @property
    def query_endpoint(self) -> tuple[str, int] | None:
        """Host and port at which this Kafka Streams instance serves interactive queries.

        The first stream thread reports it. The value is None if no endpoint is configured.
        """
        return self.members[0].endpoint if self.readable else None

    def common_rack(self, *, of_first: bool) -> str | None:
        """Return the rack of this Kafka Streams instance.

        None if its stream threads are in different racks, or have no rack.

        Args:
            of_first: return the rack of the first consumer instead, as KIP-924 does.
        """
        racks = {member.rack for member in self.members}
        return self.members[0].rack if of_first or len(racks) == 1 else None

    def previous_tasks(self, layout: TopologyLayout) -> tuple[list[TaskId], list[TaskId]]:
        """Return the active and standby tasks of this Kafka Streams instance before the rebalance.

        They follow from the partitions that its threads own and from the state that they report.
        ``layout`` has the partitions that each task reads.

        Raises:
            InvalidTopologyError: the client owns partitions, but no task reads any of them.
        """
        task_of = layout.task_of
        # Active tasks are those of owned partitions, and those that a consumer reports with offset
        # sum -2 (fully restored and active). With named topologies, partitions of unknown ones are
        # ignored.
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
    """Group the stream threads of a Kafka Streams application by instance (client).

    The instances are in the iteration order of a Java hash map by member id, as Kafka's leader
    reads them. Members with a version above 11 form one instance, of which only partitions and
    racks are known.

    Raises:
        InvalidProblemError: there are no members, an id occurs twice, or a client has tasks with
            and without a topology's name.

    >>> members = [StreamsMember(name, ProcessId(0, 1)) for name in ("a-2", "a-1")]
    >>> [one.consumer_ids for one in group_by_client(members)]
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
    for place in names_in_map_order(ids):
        member = given[place]
        readable = member.version <= LATEST_VERSION
        process = member.process if readable else FUTURE_PROCESS
        groups.setdefault(process, ClientGroup(process, readable)).add_member(member)
    return list(groups.values())
