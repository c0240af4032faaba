"""The cluster at one moment: its existing partitions, their replicas, and its brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError
from partage.model.display import MOST_ROWS, Picture, draw_bar, html_table, pretty_print, text_table
from partage.model.index import MOST_PARTITIONS, Index, Int32Array
from partage.model.validation import expect_list, expect_text, parse_problem, required_field

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["Broker", "Cluster"]

#: Entries of a table of marks up to which marking is faster than sorting (64 MiB).
_SMALL_TABLE = 1 << 26


_TOPIC_COLUMNS = ("topic", "partitions", "replicas", "racks")


@dataclass(frozen=True, slots=True)
class Broker:
    """Kafka broker: its node id, its rack, and its state in the controller.

    The rack is ``broker.rack``, None if it is not set.

    Attributes:
        fenced: whether the controller has fenced the broker, so that it leads no partition.
        directories: ids of its log directories, as KRaft registers them (KIP-858).

    >>> Broker(1, rack="a")
    Broker(id=1, rack='a')
    """

    id: int
    rack: str | None = None
    fenced: bool = field(default=False, repr=False)
    directories: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Cluster:
    """Topics and partitions of a Kafka cluster at one moment, with replicas, leaders and racks.

    Partitions are numbered from 0 by an `Index`, so that arrays can describe them. The index may
    also have topics and partitions that exist at other times only. T, P, R are the numbers of
    topics, partitions and replicas.

    Attributes:
        index: the numbering of topics and partitions.
        topic_exists: bool[T], whether each topic of the index exists.
        partition_exists: bool[P], whether each partition does; a topic's numbers may have holes.
        leader: int32[P], the leader as an index of ``brokers``, -1 for none or unknown.
        replica_start: int32[P + 1], where each partition's replicas begin in ``replica`` (CSR).
        replica: int32[R], the replicas as indices of ``brokers``.
        brokers: all brokers that are mentioned.

    >>> cluster = Cluster.from_topics({"orders": 6, "clicks": 3})
    >>> cluster.partitions_of("clicks").tolist()
    [6, 7, 8]
    >>> cluster
    <Cluster: 2 topics, 9 partitions, 1 broker>
    >>> print(cluster)
    Cluster: 2 topics, 9 partitions, 1 broker
    topic   partitions  replicas  racks
    orders           6         1
    clicks           3         1
    """

    index: Index
    topic_exists: NDArray[np.bool_]
    partition_exists: NDArray[np.bool_]
    leader: Int32Array
    replica_start: Int32Array
    replica: Int32Array
    brokers: tuple[Broker, ...]

    def __repr__(self) -> str:
        return f"<Cluster: {self._counts()}>"

    def __str__(self) -> str:
        """Return a text table with the partition count, replica count and racks of each topic.

        Only the first topics of a large cluster are listed.
        """
        rows = [tuple(map(str, row)) for row in self._topic_rows()]
        more = int(np.count_nonzero(self.topic_exists)) - len(rows)
        lines = [f"Cluster: {self._counts()}"]
        if rows:
            lines.append(text_table([_TOPIC_COLUMNS, *rows]))
        return "\n".join([*lines, f"... and {more:,} more topics"] if more else lines)

    _repr_pretty_ = pretty_print

    def _repr_html_(self) -> str:
        found = self._topic_rows()
        most = max((row[1] for row in found), default=0)
        rows: list[tuple[str | int | Picture, ...]] = [
            (topic, partitions, draw_bar([(i, partitions)], most), replicas, racks)
            for i, (topic, partitions, replicas, racks) in enumerate(found)
        ]
        more = int(np.count_nonzero(self.topic_exists)) - len(rows)
        columns = (*_TOPIC_COLUMNS[:2], "", *_TOPIC_COLUMNS[2:])
        notes = [f"and {more:,} more topics"] if more else []
        return html_table(f"Cluster: {self._counts()}", columns, rows, notes)

    def _counts(self) -> str:
        counts = (
            (np.count_nonzero(self.topic_exists), "topic"),
            (np.count_nonzero(self.partition_exists), "partition"), (len(self.brokers), "broker"),
        )  # fmt: skip
        return ", ".join(f"{n:,} {noun}{'' if n == 1 else 's'}" for n, noun in counts)

    def _topic_rows(self) -> list[tuple[str, int, int, str]]:
        # Name, partitions, most replicas, racks.
        rows = []
        sizes = np.diff(self.replica_start)
        start, rack = self.partition_racks
        topic_of = np.repeat(self.index.topic_of, np.diff(start))
        for topic, t in list(self._live.items())[:MOST_ROWS]:
            mine = self.partitions_of(t)
            racks = [self.rack_names[r] for r in np.unique(rack[topic_of == t]).tolist()]
            rows.append((topic, len(mine), int(sizes[mine].max(initial=0)), ", ".join(racks)))
        return rows

    @classmethod
    def from_topics(cls, topics: Mapping[str, int | Sequence[Sequence[str | None]]]) -> Cluster:
        """Build a Kafka cluster from the partition count of each topic, such as ``{"orders": 6}``.

        Instead of a count, a topic may have the racks of each partition's replicas.

        Args:
            topics: for each topic its number of partitions, or the racks of each partition's
                replicas.

        Raises:
            InvalidProblemError: a count or a rack is malformed; the error has its path.

        >>> Cluster.from_topics({"t": [["a", "b"], ["b", None]]}).racks_of(1)
        ('b',)
        """
        return _cluster_from_topics(topics)

    @classmethod
    def from_json(cls, problem: Mapping[str, Any] | str | bytes | PathLike[str]) -> Cluster:
        """Build a Kafka cluster from the field ``topics`` of a JSON object.

        The field has the form that `from_topics` accepts: partition counts, or the racks of
        replicas.

        Args:
            problem: JSON text, parsed JSON, or the path of a file.

        Raises:
            InvalidProblemError: a field is wrong; the error has its path and value.
        """
        return _cluster_from_topics(required_field(parse_problem(problem), "topics"))

    @classmethod
    def from_metadata(
        cls,
        topics: Mapping[str, Mapping[str, Any]],
        brokers: Sequence[Mapping[str, Any]],
        index: Index | None = None,
    ) -> Cluster:
        """Build a Kafka cluster from its topics and brokers as recorded at one time.

        `partage capture` writes such a record as a line of ``cluster.jsonl`` whenever topics or
        brokers change.

        Args:
            topics: the record's topics: partitions and replicas by topic name.
            brokers: the record's brokers: node id, rack and state of each.
            index: an existing numbering of topics and partitions, for example one that several
                records share. It must contain every topic (by id) and partition of the record. None
                creates a new one.
        """
        return _cluster_from_metadata(topics, brokers, index)

    @classmethod
    def from_replicas(
        cls,
        topics: Mapping[str, Mapping[int, Sequence[int]]],
        racks: Mapping[int, str | None],
    ) -> Cluster:
        """Build a Kafka cluster from the brokers that hold each partition's replicas.

        Brokers are given by node id; leaders are unknown. Use `from_metadata` if leaders are known.

        Args:
            topics: node ids of the replicas, by topic and partition number.
            racks: the rack of each node id.

        Raises:
            InvalidProblemError: a value is wrong; the error has its path and value.

        >>> Cluster.from_replicas({"t": {1: [7], 0: [8]}}, {7: "a"}).racks_of(1)
        ('a',)
        """
        return _cluster_from_replicas(topics, racks)

    @cached_property
    def _live(self) -> dict[str, int]:
        return {self.index.topics[t]: int(t) for t in np.flatnonzero(self.topic_exists)}

    @cached_property
    def _by_topic(self) -> tuple[Int32Array, Int32Array]:
        # By topic and partition number; the second array has the begin of each topic (CSR).
        alive = np.flatnonzero(self.partition_exists).astype(np.int32)
        topic, number = self.index.topic_of[alive], self.index.number_of[alive]
        if not np.array_equal(self.index.extent_topic, np.arange(len(self.index.extent_topic))):
            alive = alive[np.lexsort((number, topic))]  # a topic that grew has several extents
        start = np.searchsorted(self.index.topic_of[alive], np.arange(len(self.index.topics) + 1))
        return alive, start.astype(np.int32)

    def topic(self, name: str) -> int:
        """Return the index number of an existing topic, -1 if no topic has this name.

        Arrays of the cluster and its `Index` are accessed by this number.
        """
        return self._live.get(name, -1)

    def topic_all(self, names: Sequence[str]) -> list[int]:
        """Return the index numbers of several topics, given their names; -1 for an unknown name.

        `topic` does the same for a single name.
        """
        number = self._live.get
        return [number(name, -1) for name in names]

    def partitions_of(self, topic: str | int) -> Int32Array:
        """Return the existing partitions of a topic, sorted by partition number.

        The result has their index numbers (int32[n]), by which arrays of the cluster are accessed.

        Args:
            topic: the topic's name or index number; an unknown topic has no partitions.
        """
        t = self.topic(topic) if isinstance(topic, str) else topic
        if t < 0 or not self.topic_exists[t]:
            return np.zeros(0, np.int32)
        alive, start = self._by_topic
        return alive[start[t] : start[t + 1]]

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields to pickle, without the values that assignors cache in the cluster.

        The process that loads the pickle computes these values again when it needs them.
        """
        return {name: v for name, v in self.__dict__.items() if name != "of_subscriptions"}

    @cached_property
    def of_subscriptions(self) -> list[tuple[tuple[tuple[str, ...], ...], dict[object, Any]]]:
        """Cache of values that assignors compute from the cluster and the members' subscriptions.

        An example is the sorted list of subscribed partitions. Most rebalances change neither, so
        an assignor need not compute it again. `cached_by_subscriptions` reads and fills the cache.
        Callers must not change the cached values.
        """
        # It has one entry: the last subscriptions, and a dict from the function that derives a
        # value to this value. An entry is replaced as a whole, so threads can share the cluster.
        return [((), {})]

    @cached_property
    def rack_names(self) -> tuple[str, ...]:
        """Sorted distinct rack names of the Kafka brokers.

        Arrays refer to a rack by its position here. The empty name may be included; Kafka ignores
        it as the rack of a consumer.
        """
        return tuple(sorted({b.rack for b in self.brokers if b.rack is not None}))

    @cached_property
    def partition_racks(self) -> tuple[Int32Array, Int32Array]:
        """Distinct racks of each partition's replicas, as two arrays (start, rack).

        The racks of partition ``p`` are ``rack[start[p]:start[p + 1]]``, as positions in
        ``rack_names``. Replicas on brokers without a rack are left out.
        """
        number: dict[str | None, int] = {rack: i for i, rack in enumerate(self.rack_names)}
        of_broker = np.array([number.get(b.rack, -1) for b in self.brokers], np.int32)
        count = len(self.partition_exists)
        owner = np.repeat(np.arange(count, dtype=np.int64), np.diff(self.replica_start))
        rack = of_broker[self.replica] if len(self.replica) else np.zeros(0, np.int32)
        known = rack >= 0
        width = max(len(number), 1)
        keys = owner[known] * width + rack[known]
        if count * width <= _SMALL_TABLE:
            # Marking is many times faster than sorting or `numpy.unique`.
            present = np.zeros(count * width, bool)
            present[keys] = True
            keys = np.flatnonzero(present)
        else:
            keys.sort()
            keys = keys[np.diff(keys, prepend=-1) > 0]
        start = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(keys // width, minlength=count), out=start[1:])
        return start, (keys % width).astype(np.int32)

    def racks_of(self, partition: int) -> tuple[str, ...]:
        """Return the names of the racks on which a partition has replicas.

        ``partition`` is the partition's index number. Each rack occurs once, sorted by name.
        """
        start, rack = self.partition_racks
        return tuple(self.rack_names[r] for r in rack[start[partition] : start[partition + 1]])


def _cluster_from_topics(topics: object) -> Cluster:
    if not isinstance(topics, Mapping):
        what = "must be an object: name -> partition count or replica racks"
        raise InvalidProblemError(what, path="topics", value=topics)
    rows, placed = [], []
    for name, value in topics.items():
        if not isinstance(name, str):
            raise InvalidProblemError("topic name must be text", path="topics", value=name)
        racks = _replica_racks(name, value)
        rows.append((name, None, len(racks) if racks is not None else int(value)))
        placed.append(racks)
    index = Index.of(rows)
    return _cluster_from_replica_racks(index, placed)


def _replica_racks(name: str, value: object) -> list[list[str | None]] | None:
    # None if the value is only a partition count.
    path = f"topics.{name}"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not 0 <= value <= MOST_PARTITIONS:
            what = f"must be a count from 0 to {MOST_PARTITIONS}"
            raise InvalidProblemError(what, path=path, value=value)
        return None
    out: list[list[str | None]] = []
    for p, racks in enumerate(expect_list(value, path, "a partition count or a list")):
        inner = f"{path}[{p}]"
        out.append(list(expect_list(racks, inner, "a list of racks")))
        for r, rack in enumerate(out[-1]):
            if rack is not None and not isinstance(rack, str):
                raise InvalidProblemError(
                    "rack must be text or null", path=f"{inner}[{r}]", value=rack
                )
    return out


def _cluster_from_replica_racks(
    index: Index, replica_racks: Sequence[list[list[str | None]] | None]
) -> Cluster:
    """Build a Kafka cluster of which only the racks of each partition's replicas are known.

    Brokers are invented: one for each rack, and more if a partition has several replicas on one
    rack. ``replica_racks`` has None for a topic of which only the partition count is known.
    """
    brokers: dict[tuple[str | None, int], int] = {}
    sizes: list[Int32Array] = []
    replicas: list[Int32Array] = []
    # Topics given by count are mostly consecutive: their columns are built at once.
    for plain, run in groupby(
        zip(index.counts.tolist(), replica_racks, strict=True), lambda row: row[1] is None
    ):
        if plain:
            count = sum(one for one, _ in run)
            rackless = brokers.setdefault((None, 0), len(brokers)) if count else 0
            sizes.append(np.ones(count, np.int32))
            replicas.append(np.full(count, rackless, np.int32))
            continue
        for _, racks in run:
            sizes.append(np.array([len(row) for row in racks or ()], np.int32))
            flat = [b for row in racks or () for b in _stand_ins(row, brokers)]
            replicas.append(np.array(flat, np.int32))
    start = np.zeros(index.partitions + 1, np.int32)
    replica = np.zeros(0, np.int32)
    if sizes:
        np.cumsum(np.concatenate(sizes), out=start[1:])
        replica = np.concatenate(replicas)
    leader = np.full(index.partitions, -1, np.int32)
    has = np.diff(start) > 0
    leader[has] = replica[start[:-1][has]]
    return Cluster(
        index,
        np.ones(len(index.topics), bool),
        np.ones(index.partitions, bool),
        leader,
        start,
        replica,
        tuple(Broker(i, rack) for i, (rack, _) in enumerate(brokers)),
    )


def _stand_ins(
    row: Sequence[str | None], brokers: dict[tuple[str | None, int], int]
) -> Iterator[int]:
    used: dict[str | None, int] = {}
    for rack in row:
        k = used[rack] = used.get(rack, -1) + 1
        yield brokers.setdefault((rack, k), len(brokers))


class _TopicRows(NamedTuple):
    """Partitions of one Kafka topic, as one list for each field of its metadata.

    All lists have one entry per partition.

    Attributes:
        id: the topic id, None if unknown.
        number: partition numbers.
        leader: node id of each leader, negative for none.
        replicas: node ids of each partition's replicas.
    """

    id: str | None
    number: list[int]
    leader: list[int]
    replicas: list[Sequence[int]]


def _cluster_from_metadata(
    topics: Mapping[str, Mapping[str, Any]],
    brokers: Sequence[Mapping[str, Any]],
    index: Index | None,
) -> Cluster:
    known = tuple(
        _broker(b, f"brokers[{i}]") for i, b in enumerate(expect_list(brokers, "brokers", "a list"))
    )
    if not isinstance(topics, Mapping):
        raise InvalidProblemError("must be an object", path="topics", value=topics)
    return _placed({name: _partitions(name, value) for name, value in topics.items()}, known, index)


def _cluster_from_replicas(
    topics: Mapping[str, Mapping[int, Sequence[int]]], racks: Mapping[int, str | None]
) -> Cluster:
    brokers = [{"id": node, "rack": rack} for node, rack in racks.items()]
    columns = {}
    for name, partitions in topics.items():
        number = sorted(partitions)
        columns[name] = _TopicRows(
            None, number, [-1] * len(number), [partitions[p] for p in number]
        )
    if not all(map(_has_valid_numbers, columns.values())):
        # The rows' own checks name the wrong value.
        rows = {
            name: {
                "partitions": [
                    {"p": p, "replicas": list(nodes)}
                    for p, nodes in zip(one.number, one.replicas, strict=True)
                ]
            }
            for name, one in columns.items()
        }
        return _cluster_from_metadata(rows, brokers, None)
    return _placed(columns, tuple(_broker(b, f"brokers[{i}]") for i, b in enumerate(brokers)), None)


def _has_valid_numbers(rows: _TopicRows) -> bool:
    """Return whether all partition numbers and node ids of one topic are valid integers.

    If so, the caller can skip the slow check of each number, which only serves to name the wrong
    one. ``rows`` has the topic's partitions.
    """
    # If so, the caller skips the slow check of each number.
    number = rows.number
    return (
        set(map(type, chain(number, chain.from_iterable(rows.replicas)))) <= {int}
        and min(number, default=0) >= 0
        and max(number, default=0) <= MOST_PARTITIONS
    )


def _broker(value: object, path: str) -> Broker:
    if not isinstance(value, Mapping):
        raise InvalidProblemError("must be an object with an int id", path=path, value=value)
    number, rack = value.get("id"), value.get("rack")
    if not isinstance(number, int) or isinstance(number, bool):  # JSON's true is an int in Python
        raise InvalidProblemError("must be an int", path=f"{path}.id", value=number)
    return Broker(number, None if rack is None else expect_text(rack, f"{path}.rack"))


def _partitions(name: str, value: object) -> _TopicRows:
    path = f"topics.{name}"
    if not isinstance(value, Mapping):
        raise InvalidProblemError("must be an object", path=path, value=value)
    topic_id = value.get("id")
    if topic_id is not None:
        expect_text(topic_id, f"{path}.id")
    out = _TopicRows(topic_id, [], [], [])
    for i, row in enumerate(expect_list(value.get("partitions"), f"{path}.partitions", "a list")):
        where = f"{path}.partitions[{i}]"
        if not isinstance(row, Mapping):
            raise InvalidProblemError("must be an object", path=where, value=row)
        p, leader = row.get("p"), row.get("leader", -1)
        replicas = expect_list(row.get("replicas", []), f"{where}.replicas", "a list of broker ids")
        for number in (p, leader, *replicas):
            if isinstance(number, bool) or not isinstance(number, int):
                raise InvalidProblemError(
                    "p, leader and replicas must be ints", path=where, value=row
                )
        if not 0 <= row["p"] <= MOST_PARTITIONS:
            raise InvalidProblemError("no such partition number", path=f"{where}.p", value=p)
        out.number.append(row["p"])
        out.leader.append(leader)
        out.replicas.append(replicas)
    return out


def _placed(
    topics: Mapping[str, _TopicRows], known: tuple[Broker, ...], index: Index | None
) -> Cluster:
    # A broker that is down is not in the metadata, so its rack is unknown.
    if index is None:
        rows = topics.items()
        index = Index.of([(name, one.id, max(one.number, default=-1) + 1) for name, one in rows])
    exists, dense = _located(topics, index)
    leader_of = list(chain.from_iterable(one.leader for one in topics.values()))
    replicas_of = list(chain.from_iterable(one.replicas for one in topics.values()))
    place = {broker.id: i for i, broker in enumerate(known)}
    has_leaders = max(leader_of, default=-1) >= 0
    nodes_of: Iterable[Sequence[int]] = replicas_of
    if has_leaders:
        nodes_of = (
            (*nodes, leader) if leader >= 0 else nodes
            for nodes, leader in zip(replicas_of, leader_of, strict=True)
        )
    met = dict.fromkeys(chain.from_iterable(nodes_of))
    place |= {node: len(known) + i for i, node in enumerate(n for n in met if n not in place)}

    # Of a partition that is listed twice, the last row counts.
    last = np.full(index.partitions, -1, np.int64)
    last[dense] = np.arange(len(dense))
    there = last >= 0
    order = last[there].tolist()
    leader = np.full(index.partitions, -1, np.int32)
    if has_leaders:
        leader[there] = [place[leader_of[i]] if leader_of[i] >= 0 else -1 for i in order]
    replicas = [replicas_of[i] for i in order]
    sizes = np.zeros(index.partitions + 1, np.int32)
    sizes[1:][there] = list(map(len, replicas))
    flat = list(map(place.__getitem__, chain.from_iterable(replicas)))
    return Cluster(
        index,
        exists,
        there,
        leader,
        np.cumsum(sizes).astype(np.int32),
        np.array(flat, np.int32),
        (*known, *(Broker(node) for node in place if place[node] >= len(known))),
    )


def _located(
    topics: Mapping[str, _TopicRows], index: Index
) -> tuple[NDArray[np.bool_], Int32Array]:
    exists = np.zeros(len(index.topics), bool)
    parts = [np.zeros(0, np.int32)]
    for name, one in topics.items():
        t = index.topic_by_id(one.id) if one.id else index.topic(name)
        if t < 0:
            raise InvalidProblemError(
                "topic is not in the index", path=f"topics.{name}", value=one.id
            )
        exists[t] = True
        number = np.array(one.number, np.int32)
        dense = index.locate_all(np.full(len(number), t, np.int32), number)
        if len(dense) and dense.min() < 0:
            missing = one.number[int(np.argmax(dense < 0))]
            what = "partition is not in the index"
            raise InvalidProblemError(what, path=f"topics.{name}", value=missing)
        parts.append(dense)
    return exists, np.concatenate(parts)
