"""A recorded generation of a classic Kafka Streams group: what its leader read, what it wrote.

The topology is in no record, but it shows: an assignment names the task of each partition, active
and standby, and of each end point all partitions that its tasks read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from partage.errors import WireFormatError
from partage.history.records import ClassicState, MemberState, assigned_partitions
from partage.model import Cluster
from partage.streams.assignment_configs import RackAwareStrategy
from partage.streams.member_protocol import member_of
from partage.streams.members import StreamsMember
from partage.streams.task_ids import ProcessId, TaskId
from partage.streams.topology import Subtopology, TopicPartition, Topology
from partage.wire.streams.assignment_info import AssignmentInfo, decode_assignment_info
from partage.wire.streams.subscription_info import decode_subscription_info

__all__ = [
    "STREAMS_PROTOCOL",
    "Changelogs",
    "ObservedTopology",
    "StreamsRebalance",
    "decode_streams_rebalance",
    "observe_topology",
    "rack_strategies",
    "racks_matter",
    "racks_of",
    "shared_changelogs",
]

#: The protocol name of Kafka Streams' assignor (``StreamsPartitionAssignor.name``).
STREAMS_PROTOCOL = "stream"


#: A sub-topology: its number, and its topology's name if it has one.
SubtopologyKey = tuple[int, "str | None"]


@dataclass(frozen=True)
class StreamsRebalance:
    """One rebalance of a Streams application as its group's record has it.

    Attributes:
        members: as the leader saw them, in stored order.
        leader: the client whose consumer led; None where the record names no leader.
        partitions: that each consumer was given, sorted as in the record.
        infos: what came with them; a consumer that got no bytes is missing.
    """

    members: tuple[StreamsMember, ...]
    leader: ProcessId | None
    partitions: Mapping[str, tuple[TopicPartition, ...]]
    infos: Mapping[str, AssignmentInfo]

    def tasks_read(self) -> Iterator[tuple[TaskId, TopicPartition]]:
        """Partitions with the task that the record says reads them; may repeat.

        Raises:
            WireFormatError: a consumer has not as many tasks as partitions.
        """
        for name, info in self.infos.items():
            for partition, task in info.task_of(self.partitions[name]):
                yield TaskId(*task), partition
            for task, own in info.standby_tasks().items():
                for partition in own:
                    yield TaskId(*task), partition

    def copies(self) -> Counter[TaskId]:
        """Standby copies of each task, those kept until a task is given up among them."""
        return Counter(TaskId(*task) for info in self.infos.values() for task in info.standby)


@dataclass(frozen=True)
class ObservedTopology:
    """What records show of a topology.

    Attributes:
        sources: topics that each sub-topology reads.
        stateful: sub-topologies some task of which has a changelog.
        counts: topic -> the least number of partitions that it must have had.
        ends: offsets up to which each stateful task's changelogs are known to have reached.
        unread: topics that somebody owns a partition of, and that no task shown reads.
    """

    sources: Mapping[SubtopologyKey, frozenset[str]]
    stateful: frozenset[SubtopologyKey]
    counts: Mapping[str, int]
    ends: Mapping[TaskId, int]
    unread: frozenset[str] = frozenset()

    def topology(
        self,
        stateful: Iterable[SubtopologyKey],
        changelogs: Mapping[SubtopologyKey, tuple[str, ...]] | None = None,
    ) -> Topology:
        """The topology as far as task assignors look at it.

        Args:
            stateful: sub-topologies with changelogs.
            changelogs: of each; without them each has one.

        Raises:
            InvalidTopologyError: two sub-topologies read one topic.
        """
        with_state = set(stateful)
        return Topology(
            Subtopology(
                key[0],
                tuple(sorted(topics)),
                changelogs=(changelogs or {}).get(key, (changelog(key),))
                if key in with_state
                else (),
                topology=key[1],
            )
            for key, topics in self.sources.items()
        )


def changelog(key: SubtopologyKey) -> str:
    """A name for all changelogs of a sub-topology; a space is in no topic's name.

    >>> changelog((0, None))
    'changelogs of 0 '
    """
    return f"changelogs of {key[0]} {key[1] or ''}"


def decode_streams_rebalance(state: ClassicState) -> StreamsRebalance:
    """Decode a generation whose strategy is `STREAMS_PROTOCOL`.

    Args:
        state: of protocol type ``consumer``.

    Raises:
        WireFormatError: a subscription or assignment, or the user data in it, cannot be read.
        InvalidProblemError: an end point is none.
    """
    members = tuple(_member(one) for one in state.members)
    leaders = [one.process for one in members if one.id == state.leader]
    partitions, infos = {}, {}
    for one in state.members:
        partitions[one.id] = tuple(assigned_partitions(one))
        if one.assignment_user_data is not None:
            infos[one.id] = decode_assignment_info(one.assignment_user_data)
    return StreamsRebalance(members, leaders[0] if leaders else None, partitions, infos)


def _member(one: MemberState) -> StreamsMember:
    sent = one.subscription
    said = None if sent is None or one.damage is not None else sent.user_data
    if sent is None or said is None:
        what = one.damage or "no user data: it is no member of a Streams application"
        raise WireFormatError(f"member {one.id}: {what}", offset=0, field="subscription", version=0)
    return member_of(
        one.id,
        decode_subscription_info(said),
        owned=[(topic, p) for topic, numbers in sent.owned for p in numbers],
        rack=sent.rack,
    )


def observe_topology(rounds: Iterable[StreamsRebalance]) -> ObservedTopology:
    """What rounds show together, the newest first: an older one adds what it does not contradict.

    Raises:
        WireFormatError: a consumer has not as many tasks as partitions.
    """
    reader: dict[tuple[str, str | None], SubtopologyKey] = {}
    counts: dict[str, int] = {}
    ends: dict[TaskId, int] = {}
    stateful: set[SubtopologyKey] = set()
    owned: set[TopicPartition] = set()
    for one in rounds:
        for task, (topic, number) in one.tasks_read():
            reader.setdefault((topic, task.topology), (task.subtopology, task.topology))
            counts[topic] = max(counts.get(topic, 0), number + 1)
        stateful |= {(task.subtopology, task.topology) for task in one.copies()}
        for member in one.members:
            for task, total in member.offset_sums.items():
                stateful.add((task.subtopology, task.topology))
                ends[task] = max(ends.get(task, 0), total)
        owned |= {pair for member in one.members for pair in member.owned}
        for info in one.infos.values():
            owned |= {p for own in info.hosts.to_dict().values() for p in own}
    for topic, number in owned:
        if topic in counts:
            counts[topic] = max(counts[topic], number + 1)
    sources: dict[SubtopologyKey, set[str]] = {}
    for (topic, _), key in reader.items():
        sources.setdefault(key, set()).add(topic)
    known = {key: frozenset(topics) for key, topics in sources.items()}
    unread = frozenset(topic for topic, _ in owned if topic not in counts)
    return ObservedTopology(known, frozenset(stateful & known.keys()), counts, ends, unread)


#: Changelog topics of sub-topologies.
Changelogs = Mapping[SubtopologyKey, tuple[str, ...]]


#: Ways to share out changelogs that are tried at most.
_MOST_SHARED = 16


_CHANGELOG = "-changelog"


def rack_strategies() -> Sequence[RackAwareStrategy]:
    """Those that are no default, the commoner first."""
    return ("min_traffic", "balance_subtopology")


def racks_matter(now: StreamsRebalance, seen: ObservedTopology, cluster: Cluster) -> bool:
    """Whether Kafka could have looked at racks, and would have found some that differ."""
    racks = {member.rack for member in now.members}
    if None in racks or "" in racks or len(racks) < 2:
        return False
    known = racks_of(cluster, seen.counts)
    return all(
        (topic, number) in known for topic, count in seen.counts.items() for number in range(count)
    )


def racks_of(cluster: Cluster, topics: Mapping[str, int]) -> dict[TopicPartition, frozenset[str]]:
    """Racks of each partition's replicas; without those of which a broker has none.

    Args:
        cluster: as the leader saw it.
        topics: names; a topic that the cluster does not have is left out.
    """
    found: dict[TopicPartition, frozenset[str]] = {}
    for topic in topics:
        t = cluster.topic(topic)
        if t < 0:
            continue
        for partition in cluster.partitions_of(t).tolist():
            start, end = cluster.replica_start[partition : partition + 2].tolist()
            brokers = [cluster.brokers[one] for one in cluster.replica[start:end].tolist()]
            racks = frozenset(one.rack for one in brokers if one.rack is not None)
            if brokers and all(one.rack is not None for one in brokers):
                found[cluster.index.name(partition)] = racks
    return found


def shared_changelogs(
    now: StreamsRebalance,
    seen: ObservedTopology,
    stateful: frozenset[SubtopologyKey],
    cluster: Cluster,
) -> Iterator[Changelogs]:
    """Ways in which the application's changelogs may belong to its sub-topologies.

    A changelog has as many partitions as its sub-topology has tasks, and every one belongs to
    some. Nothing where a sub-topology with state finds none: then their racks are not known.
    """
    tasks = {key: max(seen.counts[topic] for topic in seen.sources[key]) for key in stateful}
    names = _changelogs(now, seen, cluster)
    choices = [
        [key for key in sorted(tasks, key=str) if tasks[key] == len(cluster.partitions_of(name))]
        for name in names
    ]
    kept = [(name, keys) for name, keys in zip(names, choices, strict=True) if keys]
    for owners in islice(product(*(keys for _, keys in kept)), _MOST_SHARED):
        shared: dict[SubtopologyKey, tuple[str, ...]] = {}
        for (name, _), key in zip(kept, owners, strict=True):
            shared[key] = (*shared.get(key, ()), name)
        if shared.keys() == tasks.keys():
            yield shared


def _changelogs(now: StreamsRebalance, seen: ObservedTopology, cluster: Cluster) -> list[str]:
    """Topics named like changelogs of this application, by the first word of its other names."""
    hints = {member.id.partition("-")[0] for member in now.members}
    hints |= {topic.partition("-")[0] for topic in seen.counts if topic.endswith("-repartition")}
    every = [
        topic for t, topic in enumerate(cluster.index.topics)
        if topic.endswith(_CHANGELOG) and cluster.topic_exists[t]
    ]  # fmt: skip
    own = [topic for topic in every if topic.partition("-")[0] in hints]
    return sorted(own or every)
