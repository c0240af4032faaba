"""In a worker: records of topics become distinct (topic, key, partition) pairs.

A topic with very many keys is sampled by key: a key is kept, with all of its records, or not
at all, and every worker keeps the same ones, so that pairs can still be joined afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidCaptureError
from partage.keys.placing import MOST_PARTITIONS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MOST_NULLS", "MOST_PAIRS", "NOWHERE", "PAIRS_DDL", "Pairing", "kept"]

#: Stands for the topic of records without a topic or a partition; no topic has this name.
NOWHERE = ""

#: Pairs of a topic that a worker keeps; more are sampled.
MOST_PAIRS = 200_000
#: Keyless records of a topic whose order a worker keeps: the first by time.
MOST_NULLS = 20_000
#: Rows before the pairs at hand are merged.
_MERGE_AT = 2_000_000

PAIRS_DDL = (
    "topic string, key binary, partition int, records bigint, first_ms bigint, last_ms bigint, "
    "level int, place bigint"
)


@dataclass
class Pairing:
    """What a worker has seen; `add` tables, then `rows`.

    Rows with a null key are keyless records, one by one, with ``place`` for their order.
    ``level`` of a topic: one in 2**level of its keys was kept. Rows with a null partition count
    the records that were left out, those with a key (an empty one here) and those without.
    """

    _tables: list[Any] = field(default_factory=list)
    _nulls: list[Any] = field(default_factory=list)
    _levels: dict[str, int] = field(default_factory=dict)
    _left_out: Counter[tuple[str, bool]] = field(default_factory=Counter)
    _held: int = 0
    _most: int = _MERGE_AT

    def add(self, table: pa.Table) -> None:
        """Records: topic, partition, offset, timestamp_ms, key."""
        from pyarrow import compute

        named = compute.fill_null(compute.not_equal(table["topic"], NOWHERE), fill_value=False)
        whole = table.filter(compute.and_(named, compute.is_valid(table["partition"])))
        self._left_out[NOWHERE, True] += len(table) - len(whole)
        _expect_partitions(whole)
        null = compute.is_null(whole["key"])
        self._nulls.append(whole.filter(null).select(["topic", "partition", "timestamp_ms",
                                                      "offset"]))  # fmt: skip
        keyed = whole.filter(compute.invert(null))
        grouped = keyed.group_by(["topic", "key", "partition"], use_threads=False).aggregate(
            [("offset", "count", compute.CountOptions("all")), ("timestamp_ms", "min"),
             ("timestamp_ms", "max")]
        )  # fmt: skip
        self._tables.append(grouped.rename_columns([*_KEYS, *_SUMS]))
        self._held += len(self._tables[-1]) + len(self._nulls[-1])
        if self._held > self._most:
            self._merge()
            # Many topics may leave much: to merge them at each step would never end.
            self._most = max(_MERGE_AT, 2 * self._held)

    def _merge(self) -> None:
        import pyarrow as pa

        if self._tables:
            merged = pa.concat_tables(self._tables).group_by(list(_KEYS), use_threads=False)
            table = merged.aggregate([("records", "sum"), ("first_ms", "min"), ("last_ms", "max")])
            table = self._sampled(table.rename_columns([*_KEYS, *_SUMS]))
            self._tables = [table]
        if self._nulls:
            self._nulls = [self._first(pa.concat_tables(self._nulls))]
        self._held = sum(map(len, (*self._tables, *self._nulls)))

    def _sampled(self, table: pa.Table) -> pa.Table:
        """Topics with too many pairs lose keys, half of them at a time."""
        import pyarrow as pa
        from pyarrow import compute

        counts = compute.value_counts(table["topic"]).to_pylist()
        if all(c["counts"] <= MOST_PAIRS and c["values"] not in self._levels for c in counts):
            return table
        out = []
        for topic in (c["values"] for c in counts):
            mine = table.filter(compute.equal(table["topic"], topic))
            level = self._levels.get(topic, 0)
            mark = marks(mine["key"].combine_chunks())
            stays = kept(mark, level)
            while int(stays.sum()) > MOST_PAIRS:
                level += 1
                stays = kept(mark, level)
            self._levels[topic] = level
            out.append(mine.filter(pa.array(stays)))
            left_out = compute.sum(mine["records"].filter(pa.array(~stays))).as_py()
            self._left_out[topic, True] += left_out or 0
        return pa.concat_tables(out)

    def _first(self, nulls: pa.Table) -> pa.Table:
        """Of each topic the first records by time."""
        import pyarrow as pa
        from pyarrow import compute

        out = []
        for topic in compute.unique(nulls["topic"]).to_pylist():
            mine = nulls.filter(compute.equal(nulls["topic"], topic))
            by_time = mine.sort_by([("timestamp_ms", "ascending"), ("offset", "ascending")])
            out.append(by_time.slice(0, MOST_NULLS))
            self._left_out[topic, False] += len(mine) - len(out[-1])
        return pa.concat_tables(out) if out else nulls

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The pairs, and the keyless records, as `PAIRS_DDL`."""
        import pyarrow as pa

        self._merge()
        names = [part.split()[0] for part in PAIRS_DDL.split(", ")]
        for table in self._tables:
            levels = [self._levels.get(t, 0) for t in table["topic"].to_pylist()]
            whole = table.append_column("level", pa.array(levels, pa.int32()))
            whole = whole.append_column("place", pa.nulls(len(table), pa.int64()))
            yield from whole.select(names).combine_chunks().to_batches(100_000)
        for table in self._nulls:
            count = len(table)
            whole = pa.table({
                "topic": table["topic"], "key": pa.nulls(count, pa.binary()),
                "partition": table["partition"], "records": pa.array(np.ones(count, np.int64)),
                "first_ms": table["timestamp_ms"], "last_ms": table["timestamp_ms"],
                "level": pa.array(np.zeros(count, np.int32)), "place": table["offset"],
            })  # fmt: skip
            yield from whole.select(names).combine_chunks().to_batches(100_000)
        yield from self._counts_left_out()

    def _counts_left_out(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        known = [(t, keyed, n) for (t, keyed), n in sorted(self._left_out.items()) if n]
        kinds = {"string": pa.string(), "binary": pa.binary(), "int": pa.int32()}
        schema = pa.schema(
            [(n, kinds.get(k, pa.int64())) for n, k in map(str.split, PAIRS_DDL.split(", "))]
        )
        yield pa.RecordBatch.from_pylist(
            [
                {"topic": topic, "key": b"" if keyed else None, "records": n, "level": 0}
                for topic, keyed, n in known
            ],
            schema=schema,
        )


_KEYS = ("topic", "key", "partition")
_SUMS = ("records", "first_ms", "last_ms")


def _expect_partitions(table: pa.Table) -> None:
    """A partition's number is 0 to 2**31 - 2; another one is damage, no place of a key."""
    from pyarrow import compute

    ends = compute.min_max(table["partition"]).as_py()
    for end in (ends["min"], ends["max"]):
        if end is not None and not 0 <= end < MOST_PARTITIONS:
            row = compute.index(table["partition"], end).as_py()
            topic = table["topic"][row].as_py()
            raise InvalidCaptureError(
                f"topic {topic}: a record in partition {end}, which no topic has; record it again"
            )


def marks(keys: pa.Array) -> NDArray[np.int32]:
    """A number a key that no partitioner's choice depends on: the top bits of another hash."""
    from partage.keys import partition_for

    found = partition_for(keys, partitions=2**31 - 1, partitioner="librdkafka:fnv1a")
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int32) >> 8


def kept(mark: NDArray[np.int32], level: int) -> NDArray[np.bool_]:
    """Which keys stay when one in 2**level does; those of a higher level are among them."""
    stays: NDArray[np.bool_] = (mark & ((1 << level) - 1)) == 0
    return stays
