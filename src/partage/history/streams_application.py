"""The topology and racks of a Kafka Streams application, as its recorded assignments show them.

No record contains the topology, but assignments show it: they name the task of each partition,
active and standby, and for each endpoint all partitions that its tasks read. Members send their
racks, and the cluster's metadata has those of topics (KIP-925). Whether the application uses a
rack-aware strategy, and which changelog belongs to which sub-topology, is in no record:
`partage.history.streams_agreement` tries what may be.
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
from partage.streams.member_assignments import build_member
from partage.streams.members import StreamsMember
from partage.streams.task_ids import ProcessId, TaskId
from partage.streams.topology import Subtopology, TopicPartition, Topology
from partage.wire.streams.assignment_info import AssignmentInfo, decode_assignment_info
from partage.wire.streams.subscription_info import decode_subscription_info

__all__ = [
    "STREAMS_PROTOCOL",
    "Changelogs",
    "ObservedTopology",
    "RecordedStreamsRebalance",
    "decode_streams_rebalance",
    "observe_topology",
    "rack_strategies",
    "racks_matter",
    "racks_of",
    "shared_changelogs",
]

#: The protocol name of Kafka Streams' assignor (``StreamsPartitionAssignor.name``).
STREAMS_PROTOCOL = "stream"
#: Distributions of changelogs over sub-topologies that are tried at most.
_MOST_DISTRIBUTIONS = 16
_CHANGELOG_SUFFIX = "-changelog"

#: A sub-topology: its number, and its topology's name if it has one.
SubtopologyKey = tuple[int, "str | None"]
#: Changelog topics of sub-topologies.
Changelogs = Mapping[SubtopologyKey, tuple[str, ...]]


@dataclass(frozen=True)
class RecordedStreamsRebalance:
    """Decoded rebalance of a Kafka Streams application that uses the classic group protocol.

    Members send their state and receive their tasks as user data, which is decoded here.

    Attributes:
        members: the members as the leader saw them, in stored order.
        leader: process id of the leader; None if the record names no leader.
        partitions: dict from consumer to assigned partitions, in the order of the record.
        infos: dict from consumer to decoded user data of its assignment; a consumer without user
            data is missing.
    """

    members: tuple[StreamsMember, ...]
    leader: ProcessId | None
    partitions: Mapping[str, tuple[TopicPartition, ...]]
    infos: Mapping[str, AssignmentInfo]

    def tasks_read(self) -> Iterator[tuple[TaskId, TopicPartition]]:
        """Yield a pair (task, partition) for each partition that a recorded task reads.

        Active and standby tasks are included; a pair may occur twice.

        Raises:
            WireFormatError: a consumer's numbers of tasks and of partitions differ.
        """
        for name, info in self.infos.items():
            for partition, task in info.partition_tasks(self.partitions[name]):
                yield TaskId(*task), partition
            for task, partitions in info.standby_tasks().items():
                for partition in partitions:
                    yield TaskId(*task), partition

    def standby_counts(self) -> Counter[TaskId]:
        """Count the standby and warm-up copies of each task, as a dict from task to number.

        Both are counted together, because the record does not distinguish them.
        """
        return Counter(TaskId(*task) for info in self.infos.values() for task in info.standby)


@dataclass(frozen=True)
class ObservedTopology:
    """The part of a Kafka Streams application's topology that its recorded rebalances show.

    No record has the whole topology.

    Attributes:
        sources: dict from sub-topology to the topics that it reads.
        stateful: sub-topologies of which some task has a changelog.
        counts: dict from topic to a lower bound of its partition count.
        ends: lower bound of the sum of changelog end offsets of each stateful task.
        unread: owned topics that no recorded task reads.
    """

    sources: Mapping[SubtopologyKey, frozenset[str]]
    stateful: frozenset[SubtopologyKey]
    counts: Mapping[str, int]
    ends: Mapping[TaskId, int]
    unread: frozenset[str] = frozenset()

    def build_topology(
        self,
        stateful: Iterable[SubtopologyKey],
        changelogs: Mapping[SubtopologyKey, tuple[str, ...]] | None = None,
    ) -> Topology:
        """Build the topology of the Kafka Streams application, as input of a task assignor.

        Args:
            stateful: sub-topologies with changelogs.
            changelogs: changelog topics of each sub-topology; by default one placeholder each.

        Raises:
            InvalidTopologyError: two sub-topologies read one topic.
        """
        with_state = set(stateful)
        return Topology(
            Subtopology(
                key[0],
                tuple(sorted(topics)),
                changelogs=(changelogs or {}).get(key, (placeholder_changelog(key),))
                if key in with_state
                else (),
                topology=key[1],
            )
            for key, topics in self.sources.items()
        )


def placeholder_changelog(subtopology_key: SubtopologyKey) -> str:
    """Return a placeholder for a sub-topology's changelog topic whose name no record shows.

    It contains spaces, so no real topic has this name.

    Args:
        subtopology_key: number and topology name of the sub-topology.

    >>> placeholder_changelog((0, None))
    'changelogs of 0 '
    """
    # The name contains spaces, so it equals no topic name.
    return f"changelogs of {subtopology_key[0]} {subtopology_key[1] or ''}"


def decode_streams_rebalance(group_state: ClassicState) -> RecordedStreamsRebalance:
    """Decode a recorded rebalance of a Kafka Streams application, with its members' user data.

    Args:
        group_state: a group state of protocol type ``consumer``.

    Raises:
        WireFormatError: a subscription or assignment, or its user data, cannot be decoded.
        InvalidProblemError: an endpoint is malformed.
    """
    members = tuple(_member(m) for m in group_state.members)
    leaders = [member.process for member in members if member.id == group_state.leader]
    partitions, infos = {}, {}
    for m in group_state.members:
        partitions[m.id] = tuple(assigned_partitions(m))
        if m.assignment_user_data is not None:
            infos[m.id] = decode_assignment_info(m.assignment_user_data)
    return RecordedStreamsRebalance(members, leaders[0] if leaders else None, partitions, infos)


def _member(m: MemberState) -> StreamsMember:
    sent = m.subscription
    user_data = None if sent is None or m.damage is not None else sent.user_data
    if sent is None or user_data is None:
        what = m.damage or "no user data: it is no member of a Streams application"
        raise WireFormatError(f"member {m.id}: {what}", offset=0, field="subscription", version=0)
    return build_member(
        m.id,
        decode_subscription_info(user_data),
        owned=[(topic, p) for topic, numbers in sent.owned for p in numbers],
        rack=sent.rack,
    )


def observe_topology(rebalances: Iterable[RecordedStreamsRebalance]) -> ObservedTopology:
    """Derive the topology of a Kafka Streams application from its recorded rebalances.

    The topology consists of subtopologies, their input topics and the ones with state. Parts that
    no recorded rebalance shows are missing.

    Args:
        rebalances: the recorded rebalances, the newest first.

    Raises:
        WireFormatError: a consumer has not as many tasks as partitions.
    """
    reader: dict[tuple[str, str | None], SubtopologyKey] = {}
    counts: dict[str, int] = {}
    ends: dict[TaskId, int] = {}
    stateful: set[SubtopologyKey] = set()
    owned: set[TopicPartition] = set()
    for one in rebalances:
        for task, (topic, number) in one.tasks_read():
            reader.setdefault((topic, task.topology), (task.subtopology, task.topology))
            counts[topic] = max(counts.get(topic, 0), number + 1)
        stateful |= {(task.subtopology, task.topology) for task in one.standby_counts()}
        for member in one.members:
            for task, total in member.offset_sums.items():
                stateful.add((task.subtopology, task.topology))
                ends[task] = max(ends.get(task, 0), total)
        owned |= {pair for member in one.members for pair in member.owned}
        for info in one.infos.values():
            owned |= {p for partitions in info.hosts.to_dict().values() for p in partitions}
    for topic, number in owned:
        if topic in counts:
            counts[topic] = max(counts[topic], number + 1)
    sources: dict[SubtopologyKey, set[str]] = {}
    for (topic, _), key in reader.items():
        sources.setdefault(key, set()).add(topic)
    known = {key: frozenset(topics) for key, topics in sources.items()}
    unread = frozenset(topic for topic, _ in owned if topic not in counts)
    return ObservedTopology(known, frozenset(stateful & known.keys()), counts, ends, unread)


# --- racks (KIP-925) --------------------------------------------------------------------------


def rack_strategies() -> Sequence[RackAwareStrategy]:
    """Return the rack-aware strategies that a Streams application may use, the likeliest first.

    They are values of the setting ``rack.aware.assignment.strategy`` (KIP-925).
    """
    return ("min_traffic", "balance_subtopology")


def racks_matter(
    rebalance: RecordedStreamsRebalance, topology: ObservedTopology, cluster: Cluster
) -> bool:
    """Return whether racks can affect the task assignment of a recorded Streams rebalance.

    They can if the members' racks differ, and the cluster metadata has the racks of all replicas of
    the topics in ``topology``.
    """
    racks = {member.rack for member in rebalance.members}
    if None in racks or "" in racks or len(racks) < 2:
        return False
    known = racks_of(cluster, topology.counts)
    return all(
        (topic, number) in known
        for topic, count in topology.counts.items()
        for number in range(count)
    )


def racks_of(cluster: Cluster, topics: Mapping[str, int]) -> dict[TopicPartition, frozenset[str]]:
    """Return the racks of each partition's replicas, as a dict from (topic, partition) to a set.

    Partitions on a broker without a rack are left out.

    Args:
        cluster: the metadata that the leader saw.
        topics: topic names; those that the cluster lacks are left out.
    """
    found: dict[TopicPartition, frozenset[str]] = {}
    for topic in topics:
        t = cluster.topic(topic)
        if t < 0:
            continue
        for partition in cluster.partitions_of(t).tolist():
            start, end = cluster.replica_start[partition : partition + 2].tolist()
            brokers = [cluster.brokers[i] for i in cluster.replica[start:end].tolist()]
            racks = frozenset(broker.rack for broker in brokers if broker.rack is not None)
            if brokers and all(broker.rack is not None for broker in brokers):
                found[cluster.index.name(partition)] = racks
    return found


def shared_changelogs(
    rebalance: RecordedStreamsRebalance,
    topology: ObservedTopology,
    stateful: frozenset[SubtopologyKey],
    cluster: Cluster,
) -> Iterator[Changelogs]:
    """Yield the possible mappings of the cluster's changelog topics to sub-topologies with state.

    No record shows which changelog belongs to which sub-topology. Each item is a dict from
    sub-topology to topics.

    Args:
        rebalance: the recorded rebalance.
        topology: the sub-topologies that the records show.
        stateful: the sub-topologies with state.
        cluster: the cluster metadata.
    """
    # A changelog has as many partitions as its sub-topology has tasks. Each stateful sub-topology
    # must get a changelog, because its racks would be unknown otherwise.
    tasks = {
        key: max(topology.counts[topic] for topic in topology.sources[key]) for key in stateful
    }
    names = _find_changelog_topics(rebalance, topology, cluster)
    choices = [
        [key for key in sorted(tasks, key=str) if tasks[key] == len(cluster.partitions_of(name))]
        for name in names
    ]
    possible = [(name, keys) for name, keys in zip(names, choices, strict=True) if keys]
    for owners in islice(product(*(keys for _, keys in possible)), _MOST_DISTRIBUTIONS):
        shared: dict[SubtopologyKey, tuple[str, ...]] = {}
        for (name, _), key in zip(possible, owners, strict=True):
            shared[key] = (*shared.get(key, ()), name)
        if shared.keys() == tasks.keys():
            yield shared


def _find_changelog_topics(
    rebalance: RecordedStreamsRebalance, topology: ObservedTopology, cluster: Cluster
) -> list[str]:
    """Return the changelog topics of a Streams application, recognised by their names.

    They begin like the member ids in ``rebalance`` or like the repartition topics in ``topology``.
    If there are none, all changelog topics of the cluster are returned.
    """
    hints = {member.id.partition("-")[0] for member in rebalance.members}
    hints |= {
        topic.partition("-")[0] for topic in topology.counts if topic.endswith("-repartition")
    }
    every = [
        topic for t, topic in enumerate(cluster.index.topics)
        if topic.endswith(_CHANGELOG_SUFFIX) and cluster.topic_exists[t]
    ]  # fmt: skip
    own = [topic for topic in every if topic.partition("-")[0] in hints]
    return sorted(own or every)
