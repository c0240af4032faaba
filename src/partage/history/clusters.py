"""The cluster's metadata over time, and other metadata that a client may have seen.

`ClusterHistory` numbers the topics and partitions of all states once; the state at a time is a
`Cluster` over that numbering. The recorder polls the metadata, leaders cache it, and the
coordinator has it at once. A leader may thus have decided on another state than the one recorded
for that time: `alternative_clusters` and `smaller_clusters` yield such states, each with a text
that names the difference and the delay in milliseconds.

A group's coordinator is the leader of the group's partition of `__consumer_offsets`. Each batch of
the log carries the leader epoch of its writer. A larger epoch means that another broker, or the
same one after a restart, took over (`CoordinatorMove`): it loads the partition, and members have to
find it. A move is no rebalance by itself, but members may be lost or rejoin because of it.
`BrokerFaults` has the times at which that is plausible.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from partage.errors import InvalidCaptureError, InvalidProblemError
from partage.history.records import LogPosition
from partage.model import Broker, Cluster, Index

__all__ = [
    "BrokerFaults",
    "ClusterHistory",
    "CoordinatorMove",
    "CoordinatorMoves",
    "TopicNames",
    "alternative_clusters",
    "find_moves",
    "smaller_clusters",
]

#: A topic is deleted and recreated no faster than this.
_RECREATION_MS = 5_000
#: The recorder may observe a recreated topic this much later.
_METADATA_DELAY_MS = 1_500
#: The group log; the leader of a partition is the coordinator of its groups.
OFFSETS_TOPIC = "__consumer_offsets"
#: Cached states: a group's history is read in time order, several groups at a time.
_STATES_CACHED = 256
#: Metadata states before and after that are tried as alternatives.
_STEPS = 3


class ClusterHistory:
    """Recorded metadata of a Kafka cluster (brokers, topics, partitions) over time.

    A partition has the same index in the metadata of all times, even if other topics are deleted.

    Args:
        states: the lines of a capture's ``cluster.jsonl``: ``ts_ms``, ``brokers``, ``topics``.

    Attributes:
        times: ``ts_ms`` of each state, ascending.
        index: the numbering of all topics and partitions in any state.
        state: function that returns the `Cluster` of a state by its position; -1 is a cluster
            without topics.

    Raises:
        InvalidCaptureError: a state is malformed; the message names the line and the field.

    >>> one = {"ts_ms": 5, "brokers": [], "topics": {"t": {"id": "x", "partitions": [{"p": 0}]}}}
    >>> history = ClusterHistory([one, {"ts_ms": 9, "brokers": [], "topics": {}}])
    >>> [history.cluster_at(ms).partitions_of("t").tolist() for ms in (7, 9)]
    [[0], []]
    """

    def __init__(self, states: Sequence[Mapping[str, Any]]) -> None:
        for i, state in enumerate(states):
            _check_state(state, f"cluster.jsonl line {i + 1}")
        self._states = sorted(states, key=lambda s: s["ts_ms"])
        self.times: list[int] = [s["ts_ms"] for s in self._states]
        self._counts: dict[tuple[str, str | None], int] = {}
        self.index = self._extend_index(Index.of({}), self._states)
        self.state = lru_cache(maxsize=_STATES_CACHED)(self._state)

    def _extend_index(self, index: Index, states: Sequence[Mapping[str, Any]]) -> Index:
        """Return a copy of the partition numbering, extended by the partitions of newer metadata.

        Existing numbers do not change. ``states`` is the metadata of several times, as in
        `ClusterHistory`.
        """
        rows: list[tuple[str, str | None, int]] = []
        for state in states:
            for name, topic in state["topics"].items():
                count = max((p["p"] for p in topic["partitions"]), default=-1) + 1
                key = (name, topic.get("id"))
                if self._counts.get(key, -1) < count:
                    self._counts[key] = count
                    rows.append((*key, count))
        return index.extended(rows) if rows else index

    def append_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Add the newest metadata of a cluster that is being recorded.

        New partitions get new indices; existing ones do not change.

        Raises:
            InvalidCaptureError: the state is malformed; the message names the field.

        >>> history = ClusterHistory([])
        >>> history.append_metadata({"ts_ms": 5, "brokers": [], "topics": {}})
        >>> history.position_at(7)
        0
        """
        _check_state(metadata, "the metadata")
        self.index = self._extend_index(self.index, [metadata])
        self._states.append(metadata)
        # A clock that is set back must not change the order of states.
        self.times.append(
            max(metadata["ts_ms"], self.times[-1] if self.times else metadata["ts_ms"])
        )
        self.state.cache_clear()
        for name in ("broker_changes", "_coordinator_changes"):
            self.__dict__.pop(name, None)

    def position_at(self, time_ms: int) -> int:
        """Return the index of the cluster metadata that was valid at a time (ms), or -1 for none.

        It is the newest metadata recorded at or before that time.
        """
        return bisect_right(self.times, time_ms) - 1

    def assumed_at(self, time_ms: int) -> bool:
        """Return whether the cluster metadata at a time (ms) is only assumed.

        If none was recorded by then, the first recorded metadata is assumed.
        """
        position = self.position_at(time_ms)
        return position < 0 or bool(self._states[position].get("assumed"))

    def cluster_at(self, time_ms: int) -> Cluster:
        """Return the cluster metadata that was valid at a time (ms).

        Before the first recorded metadata, it is a cluster without topics.

        Raises:
            InvalidCaptureError: the recorded metadata is malformed.
        """
        return self.state(self.position_at(time_ms))

    def was_recreated(self, topic: str, before_ms: int, after_ms: int) -> bool:
        """Return whether a topic was deleted and created again between two times (ms).

        Although it has the same name, it is then another topic, whose partitions had no consumer
        before.
        """
        if after_ms - before_ms < _RECREATION_MS:
            return False
        times = (before_ms, after_ms + _METADATA_DELAY_MS)
        return len({self.cluster_at(at).topic(topic) for at in times} - {-1}) > 1

    def _state(self, position: int) -> Cluster:
        state = self._states[position] if position >= 0 else {"topics": {}, "brokers": []}
        try:
            return Cluster.from_metadata(state["topics"], state["brokers"], self.index)
        except InvalidProblemError as e:
            at = f"cluster.jsonl, state of ts_ms {self.times[position]}"
            raise InvalidCaptureError(f"{at}: {e}") from None

    def check_metadata(self) -> None:
        """Check that the recorded cluster metadata can be parsed at each of its times.

        Raises:
            InvalidCaptureError: metadata is malformed; the message names its line and the defect.
        """
        for position in range(len(self._states)):
            self._state(position)

    def find_changed_topics(
        self, names: Sequence[str], earlier_position: int, later_position: int
    ) -> tuple[str, ...]:
        """Return the topics that were created, deleted or extended between two recorded states.

        A state is the cluster's metadata at one time. An extended topic got partitions.

        Args:
            names: the topics to compare.
            earlier_position: position of the earlier state.
            later_position: position of the later one.
        """
        if earlier_position == later_position:
            return ()
        a, b = self.state(earlier_position), self.state(later_position)
        return tuple(
            name
            for name in dict.fromkeys(names)
            if a.topic(name) != b.topic(name)
            or len(a.partitions_of(name)) != len(b.partitions_of(name))
        )

    @cached_property
    def broker_changes(self) -> tuple[int, ...]:
        """Times (ms) at which brokers left or entered the Kafka cluster.

        They are the times of recorded metadata whose brokers differ from those before.
        """
        ids = [{b["id"] for b in state["brokers"]} for state in self._states]
        return tuple(self.times[i] for i in range(1, len(ids)) if ids[i] != ids[i - 1])

    @cached_property
    def _coordinator_changes(self) -> dict[int, tuple[int, ...]]:
        """Times (ms) at which a partition of ``__consumer_offsets`` got a new leader, by partition.

        The leader of such a partition is the coordinator of the groups in it.
        """
        found: dict[int, list[int]] = {}
        known: dict[int, Any] = {}
        for time_ms, state in zip(self.times, self._states, strict=True):
            rows = state["topics"].get(OFFSETS_TOPIC, {}).get("partitions", ())
            now = {row["p"]: row.get("leader") for row in rows}
            for p, leader in now.items():
                if known.get(p, leader) != leader:
                    found.setdefault(p, []).append(time_ms)
            known |= now
        return {p: tuple(times) for p, times in found.items()}

    def coordinator_changes(self, partition: int) -> tuple[int, ...]:
        """Return the times (ms) at which a group's coordinator moved to another broker.

        ``partition`` is the group's partition of ``__consumer_offsets``. The leader of that
        partition is the coordinator.
        """
        return self._coordinator_changes.get(partition, ())

    def racks_by_broker(self) -> dict[int, str]:
        """Return the last known rack of each broker, as a dict from broker id to rack.

        Brokers without a rack are left out.
        """
        return {b["id"]: b["rack"] for s in self._states for b in s["brokers"] if b.get("rack")}


def _check_state(metadata: object, where: str) -> None:
    """Check that recorded cluster metadata has topics and partitions in the expected form.

    Args:
        metadata: the metadata, parsed from JSON.
        where: place of the metadata in its file, for error messages.

    Raises:
        InvalidCaptureError: a field is missing or has a wrong type.
    """
    # Only fields that number partitions are checked; `Cluster.from_metadata` checks the others.
    if not isinstance(metadata, Mapping):
        raise InvalidCaptureError(f"{where}: must be an object; record the metadata again")
    ts_ms = metadata.get("ts_ms")
    if not isinstance(ts_ms, int) or isinstance(ts_ms, bool):
        raise InvalidCaptureError(f"{where}: ts_ms must be milliseconds as an int, got {ts_ms!r}")
    topics, brokers = metadata.get("topics"), metadata.get("brokers")
    if not isinstance(brokers, list) or not all(isinstance(b, Mapping) for b in brokers):
        raise InvalidCaptureError(f"{where}: brokers must be a list of objects")
    if not isinstance(topics, Mapping):
        raise InvalidCaptureError(f"{where}: topics must be an object, name -> topic")
    for name, topic in topics.items():
        _check_topic(topic, f"{where}: topics.{name}")


def _check_topic(topic: object, where: str) -> None:
    if not isinstance(topic, Mapping):
        raise InvalidCaptureError(f"{where} must be an object")
    if not isinstance(topic.get("id"), (str, type(None))):
        raise InvalidCaptureError(f"{where}.id must be text or null")
    parts = topic.get("partitions")
    if not isinstance(parts, list):
        raise InvalidCaptureError(f"{where}.partitions must be a list of objects with an int p")
    for i, part in enumerate(parts):
        number = part.get("p") if isinstance(part, Mapping) else None
        if not isinstance(number, int) or isinstance(number, bool):  # JSON's true is no number
            raise InvalidCaptureError(f"{where}.partitions[{i}] must be an object with an int p")


class TopicNames:
    """Lookup of Kafka topic names by topic id, and of topic ids by name and time.

    Names come from cluster metadata and from records. If the name of an id is unknown, the id
    itself is returned.

    >>> topics = TopicNames(ClusterHistory([]))
    >>> topics.add_name("AAAAAAAAAAAAAAAAAAAABw", "orders")
    >>> topics.name_of("AAAAAAAAAAAAAAAAAAAABw"), topics.name_of("AAAAAAAAAAAAAAAAAAAACA")
    ('orders', 'AAAAAAAAAAAAAAAAAAAACA')
    """

    def __init__(self, clusters: ClusterHistory) -> None:
        self._clusters = clusters
        #: Names by id from records, of ids that the metadata lacked.
        self.extra_names: dict[str, str] = {}
        #: Topic ids that were looked up, and that the metadata lacked.
        self.unknown_ids: set[str] = set()

    def add_name(self, topic_id: str, name: str) -> None:
        """Add the name of a topic id that the cluster metadata lacks.

        Names from the metadata are not replaced.
        """
        if self._clusters.index.topic_by_id(topic_id) < 0:
            self.unknown_ids.add(topic_id)
            self.extra_names.setdefault(topic_id, name)

    def name_of(self, topic_id: str) -> str:
        """Return the name of a topic by its topic id.

        The result is the id itself if neither the metadata nor a record has the name.
        """
        number = self._clusters.index.topic_by_id(topic_id)
        if number >= 0:
            return self._clusters.index.topics[number]
        self.unknown_ids.add(topic_id)
        return self.extra_names.get(topic_id, topic_id)

    def id_of(self, name: str, time_ms: int) -> str | None:
        """Return the topic id that a topic name had at a time (ms), or None without such a topic.

        A topic that is deleted and created again gets another id.
        """
        cluster = self._clusters.cluster_at(time_ms)
        number = cluster.topic(name)
        return cluster.index.ids[number] if number >= 0 else None

    def had_partition(self, name: str, partition: int, time_ms: int) -> bool:
        """Return whether a topic had a partition at a time (ms).

        The result is True if the topic is unknown.
        """
        cluster = self._clusters.cluster_at(time_ms)
        dense = cluster.partitions_of(name)
        return not len(dense) or bool((cluster.index.number_of[dense] == partition).any())


# --- alternative states of the cluster --------------------------------------------------------


def alternative_clusters(
    clusters: ClusterHistory,
    time_ms: int,
    topics: Sequence[str],
    unseen: Sequence[str],
    observer: str,
) -> Iterator[tuple[str, Cluster]]:
    """Yield other cluster metadata that an assignor may have used, the likeliest first.

    Clients cache metadata, so it may have been older than the recorded one. Each item is
    (description, cluster).

    Args:
        clusters: the metadata over time.
        time_ms: time of the decision.
        topics: the subscribed topics.
        unseen: those subscribed topics of which no partition was assigned.
        observer: ``leader`` or ``coordinator``, for the description.
    """
    position = clusters.position_at(time_ms)
    now = clusters.state(position)
    hidden = [name for name in unseen if now.topic(name) >= 0]
    if hidden:
        late = max(
            0, time_ms - max(_find_existing_since(clusters, position, name) for name in hidden)
        )
        words = f"{observer}'s metadata was {late} ms behind: topic {', '.join(hidden)} missing"
        yield words, _without_topics(now, [now.topic(name) for name in hidden])
    yield from _clusters_with_other_racks(clusters, position, observer)
    for step in range(1, _STEPS + 1):
        if position - step >= 0:
            other = clusters.state(position - step)
            late = max(0, time_ms - clusters.times[position - step + 1])
            difference = _describe_difference(now, other, topics)
            yield f"{observer}'s metadata was {late} ms behind: {difference}", other
        if position + step < len(clusters.times):
            other = clusters.state(position + step)
            early = clusters.times[position + step] - time_ms
            difference = _describe_difference(now, other, topics)
            yield f"recorded {early} ms after the {observer} saw it: {difference}", other


def smaller_clusters(
    cluster: Cluster, highest: Mapping[str, int], observer: str
) -> Iterator[tuple[str, Cluster]]:
    """Yield a copy of a cluster without the partitions above each topic's highest assigned one.

    Topics may have grown between the rebalance and the recording of the metadata. Nothing is
    yielded if there are no such partitions.

    Args:
        cluster: the cluster by the recorded metadata.
        highest: dict from topic to the highest assigned partition.
        observer: ``leader`` or ``coordinator``, for the description.
    """
    exists, words = cluster.partition_exists.copy(), []
    for name, last in sorted(highest.items()):
        dense = cluster.partitions_of(cluster.topic(name)) if cluster.topic(name) >= 0 else ()
        numbers = [int(cluster.index.number_of[p]) for p in dense]
        beyond = [p for p, number in zip(dense, numbers, strict=True) if number > last]
        if beyond:
            exists[beyond] = False
            count = len(numbers)
            words.append(f"topic {name} had {count - len(beyond)} partitions, not {count}")
    if words:
        yield (
            f"{observer}'s metadata was older than what was recorded: {'; '.join(words)}",
            replace(cluster, partition_exists=exists),
        )


def _find_existing_since(clusters: ClusterHistory, position: int, topic: str) -> int:
    """Return the time (ms) since which a topic has existed without interruption.

    Args:
        clusters: the cluster metadata over time.
        position: index of the newest metadata to consider.
        topic: name of the topic.
    """
    number = clusters.state(position).topic(topic)
    first = position
    while first > 0 and clusters.state(first - 1).topic(topic) == number:
        first -= 1
    return clusters.times[first]


def _describe_difference(cluster: Cluster, other_cluster: Cluster, topics: Sequence[str]) -> str:
    """Describe how two states of a cluster differ, for the report.

    Only the given topics and the brokers are compared. A result is, for example, ``topic a with 3
    partitions, not 2``.
    """
    words = []
    for name in dict.fromkeys(topics):
        here, there = cluster.topic(name), other_cluster.topic(name)
        counts = len(cluster.partitions_of(name)), len(other_cluster.partitions_of(name))
        if here >= 0 > there:
            words.append(f"topic {name} missing")
        elif there >= 0 > here:
            words.append(f"topic {name} there with {counts[1]} partitions")
        elif counts[0] != counts[1]:
            words.append(f"topic {name} with {counts[1]} partitions, not {counts[0]}")
        elif here != there:
            words.append(f"topic {name} with another id")
    if cluster.brokers != other_cluster.brokers:
        named = [f"{b.id} in {b.rack}" if b.rack else str(b.id) for b in other_cluster.brokers]
        words.append(f"brokers {', '.join(named)}")
    return "; ".join(words) or "replicas elsewhere"


def _without_topics(cluster: Cluster, topics: list[int]) -> Cluster:
    exists = cluster.topic_exists.copy()
    exists[topics] = False
    alive = cluster.partition_exists & exists[cluster.index.topic_of]
    return replace(cluster, topic_exists=exists, partition_exists=alive)


def _clusters_with_other_racks(
    clusters: ClusterHistory, position: int, observer: str
) -> Iterator[tuple[str, Cluster]]:
    """Yield copies of cluster metadata in which brokers have no rack, or get it back.

    A client may have seen such metadata while a broker was down. Each item is (description,
    cluster).

    Args:
        clusters: the cluster metadata over time.
        position: index of the metadata to change.
        observer: ``leader`` or ``coordinator``, for the description.
    """
    # While a broker is down, metadata may lack its rack. So racks known from other times are added,
    # and the rack of one broker after the other is removed.
    now = clusters.state(position)
    known = clusters.racks_by_broker()
    back = tuple(b if b.rack else Broker(b.id, known.get(b.id)) for b in now.brokers)
    if back != now.brokers:
        ids = ", ".join(str(b.id) for b, n in zip(now.brokers, back, strict=True) if b != n)
        words = f"{observer}'s metadata still had the rack of broker {ids}, which was down"
        yield words, replace(now, brokers=back)
    for broker in now.brokers:
        if broker.rack:
            less = tuple(Broker(b.id) if b.id == broker.id else b for b in now.brokers)
            lacked = f"{observer}'s metadata lacked the rack of broker {broker.id}"
            yield f"{lacked}: down, or not yet back", replace(now, brokers=less)


# -- moves of a group's coordinator ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CoordinatorMove:
    """Move of a group coordinator to another broker, found by a higher leader epoch in the log.

    The coordinator is the leader of a partition of ``__consumer_offsets``. Each new leader writes a
    higher epoch.

    Attributes:
        position: log position of the first record with the new epoch.
        time_ms: time of that record.
        before: the old leader epoch.
        epoch: the new leader epoch.
    """

    position: LogPosition
    time_ms: int
    before: int
    epoch: int


def find_moves(
    partition: ArrayLike, base_offset: ArrayLike, leader_epoch: ArrayLike, time_ms: ArrayLike
) -> dict[int, tuple[CoordinatorMove, ...]]:
    """Find moves of group coordinators to other brokers, from the leader epochs of record batches.

    The result is a dict from partition of ``__consumer_offsets`` to its moves in log order.

    Args:
        partition: log partition of each batch, in any order (int[n]).
        base_offset: offset of each batch's first record (int[n]).
        leader_epoch: leader epoch of each batch, -1 if unknown (int[n]).
        time_ms: ``max_timestamp_ms`` of each batch (int[n]).

    >>> find_moves([0, 0, 0], [5, 0, 9], [3, 3, 4], [50, 10, 90])[0][0].epoch
    4
    """
    given = (partition, base_offset, leader_epoch, time_ms)
    columns = [np.asarray(column).astype(np.int64) for column in given]
    order = np.lexsort((columns[1], columns[0]))
    order = order[columns[2][order] >= 0]
    part, offset, epoch, when = (column[order] for column in columns)
    first = np.flatnonzero((part[1:] == part[:-1]) & (epoch[1:] > epoch[:-1])) + 1
    out: dict[int, list[CoordinatorMove]] = {}
    for i in first.tolist():
        position = LogPosition(int(part[i]), int(offset[i]))
        move = CoordinatorMove(position, int(when[i]), int(epoch[i - 1]), int(epoch[i]))
        out.setdefault(position.partition, []).append(move)
    return {p: tuple(moves) for p, moves in out.items()}


@dataclass(slots=True)
class CoordinatorMoves:
    """Iterator over the moves of one group's coordinator to other brokers, in log order.

    The caller requests the moves up to each record of the group. Moves before the group's first
    record are skipped.

    Attributes:
        by_partition: all coordinator moves, by partition of ``__consumer_offsets``.
        position: log position up to which `moves_until` has yielded moves; None before the first
            call.

    >>> moves = CoordinatorMoves(find_moves([0, 0], [0, 5], [1, 2], [10, 50]))
    >>> [len(list(moves.moves_until(LogPosition(0, at)))) for at in (3, 7, 8)]
    [0, 1, 0]
    """

    by_partition: Mapping[int, Sequence[CoordinatorMove]] = field(default_factory=dict)
    position: LogPosition | None = None

    def moves_until(self, log_position: LogPosition) -> Iterator[CoordinatorMove]:
        """Yield the moves of a group's coordinator to another broker, up to a position in the log.

        Only moves since the last call are included. The first call yields none, because earlier
        moves do not concern the group.
        """
        before, self.position = self.position, log_position
        if before is not None:  # earlier moves did not concern this group
            for move in self.by_partition.get(log_position.partition, ()):
                if before < move.position <= log_position:
                    yield move


class BrokerFaults:
    """Lookup of broker faults that may have caused rebalances of a consumer group.

    A fault is a move of the group's coordinator, or a broker that left or entered the cluster.

    Args:
        clusters: the cluster metadata over time.
        moves: coordinator moves by log partition (`find_moves`).

    >>> faults = BrokerFaults(ClusterHistory([]), find_moves([0, 0], [0, 5], [1, 2], [10, 50]))
    >>> faults.last_fault(0, 20, 90), faults.last_fault(0, 60, 90), faults.last_fault(1, 20, 90)
    ((50, 'its coordinator moved'), None, None)
    """

    def __init__(
        self, clusters: ClusterHistory, moves: Mapping[int, Sequence[CoordinatorMove]]
    ) -> None:
        self._clusters = clusters
        self._moves = moves

    def last_fault(
        self, partition: int, from_ms: int, to_ms: int, *, only_coordinator: bool = False
    ) -> tuple[int, str] | None:
        """Return the last broker fault between two times as (time in ms, description), or None.

        A fault is a move of the coordinator, or a broker that left or entered the cluster.

        Args:
            partition: the group's partition of ``__consumer_offsets``.
            from_ms: start of the span.
            to_ms: end of the span, included.
            only_coordinator: leave out faults of other brokers.
        """
        moved = (
            *(move.time_ms for move in self._moves.get(partition, ())),
            *self._clusters.coordinator_changes(partition),
        )
        faults = [(time_ms, "its coordinator moved") for time_ms in moved]
        if not only_coordinator:
            changes = self._clusters.broker_changes
            faults += [(time_ms, "a broker failed or restarted") for time_ms in changes]
        return max((one for one in faults if from_ms <= one[0] <= to_ms), default=None)
