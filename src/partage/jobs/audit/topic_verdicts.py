"""Find the partitioners that wrote a topic, and the keys that are in several partitions.

The input is the number of records of each (key, partition) of the topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from partage.errors import InvalidKeysError
from partage.jobs.audit.topic_records import MOST_PAIRS, NOWHERE, in_sample, sample_hashes
from partage.keys.audit import (
    Family,
    KeyPairs,
    TopicVerdict,
    WriterFamily,
    families,
    null_keys,
    split_keys,
    who_wrote,
)
from partage.keys.audit.client_names import clients_of, hash_of
from partage.keys.placing import MOST_PARTITIONS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["JUDGED_DDL", "at_level", "judge_topics", "key_pairs", "known_families", "partitions_of"]

#: Pairs of a topic by which its joins are judged.
MOST_JOINED = 20_000
JUDGED_DDL = "topic string, found string, pairs binary"
#: The same as `murmur2` of a part of the key, and that is looked for with all its parts.
_WINDOWED = "streams:windowed"
#: Without metadata every count up to the partitions seen is tried, if they are no more than this.
_TRIED_COUNTS = 256
#: Of a family that was found, earlier counts up to this are tried.
_MOST_COUNTS = 4_096
#: Share of pairs that is explained where a count above the partitions seen is believed.
_MOSTLY = 0.95
#: Pairs on which so many are tried.
_TRIED_KEYS = 5_000


def judge_topics(
    known_counts: dict[str, tuple[int, ...]],
    joined_topics: frozenset[str],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Find the partitioners that wrote each topic of a Spark task; yield one result row per topic.

    Args:
        known_counts: dict from topic to its partition counts over time, if metadata has them.
        joined_topics: topics that may be joined; their rows contain a sample of their keys.
        batches: rows of `PairCounter`, sorted by topic.
    """
    for topic, rows in _by_topic(batches):
        if topic == NOWHERE:
            yield _row(topic, str(sum(rows["records"].to_pylist())), None)
            continue
        found, pairs = _topic(topic, rows, known_counts.get(topic))
        kept_pairs = _pack(_thin_out(pairs, MOST_JOINED)) if topic in joined_topics else None
        yield _row(topic, json.dumps(found), kept_pairs)


def _row(topic: str, found: str, pairs: bytes | None) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [pa.array([topic]), pa.array([found]), pa.array([pairs], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["topic", "found", "pairs"])


def _by_topic(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """Group batches of rows by topic, and yield each topic's name and a table of its rows.

    The rows are sorted by topic; those of one topic may be in several batches.
    """
    import pyarrow as pa
    from pyarrow import compute

    name: str | None = None
    held: list[pa.Table] = []
    for batch in batches:
        table = pa.Table.from_batches([batch])
        for topic in compute.unique(table["topic"]).to_pylist():  # in order: the rows are sorted
            if topic != name and name is not None:
                yield name, pa.concat_tables(held)
                held = []
            name = topic
            held.append(table.filter(compute.equal(table["topic"], topic)))
    if name is not None:
        yield name, pa.concat_tables(held)


def _topic(
    topic: str, rows: pa.Table, known: tuple[int, ...] | None
) -> tuple[dict[str, Any], pa.Table]:
    from pyarrow import compute

    # Records of keys that were not sampled are included.
    records = int(compute.sum(rows["records"]).as_py() or 0)
    of_keyless = rows["records"].filter(compute.is_null(rows["key"]))
    keyless_records = int(compute.sum(of_keyless).as_py() or 0)
    rows = rows.filter(compute.is_valid(rows["partition"]))  # the others are only counted
    null = compute.is_null(rows["key"])
    keyless, keyed = rows.filter(null), rows.filter(compute.invert(null))
    pairs, level = _merge_workers(keyed)
    seen = key_pairs(pairs)
    highest = max([*rows["partition"].to_pylist(), 0])
    verdict = who_wrote(
        seen, _possible_counts(known, highest, pairs), known_families(), partitions_of
    )
    # Without metadata: the fewest partitions that all records and producers fit into.
    now = known[-1] if known else max([highest + 1, *(w.partitions for w in verdict.writers)])
    split = split_keys(seen, verdict)
    where = keyless["partition"].to_numpy()
    at = keyless["first_ms"].to_numpy()
    nulls = null_keys(where.astype(np.int32), max(now, highest + 1), at)
    found = {
        "topic": topic, "counts": [*known] if known else [now],
        "counts_known": known is not None,
        "records": records, "keys": verdict.keys,
        "sampled": 1 << level, "status": verdict.status, "explained": verdict.explained,
        "writers": [_writer(w) for w in verdict.writers],
        "nulls": {
            "behaviour": nulls.behaviour, "records": keyless_records,
            "log10_chance": nulls.log10_chance,
        },
        "split": {
            "keys": split.keys, "grew": split.grew, "writers": split.writers,
            "unexplained": split.unexplained,
            "examples": [
                {"key": e.key.hex(), "reason": e.reason, "seen": e.seen} for e in split.examples
            ],
        },
    }  # fmt: skip
    return found, pairs


def _possible_counts(
    known: tuple[int, ...] | None, highest: int, pairs: pa.Table
) -> tuple[int, ...]:
    """Return the partition counts that the producers of a topic may have used.

    Metadata has them, if it is available. Otherwise the topic may have more partitions than the
    highest one with a record. Some larger counts are then tried on a part of the keys, and those
    are returned with which a partitioner explains the keys.
    """
    if known:
        return known if highest < max(known) else (*known, highest + 1)
    seen = highest + 1
    more = range(seen, min(seen + max(4, min(64, seen // 4)), MOST_PARTITIONS) + 1)
    level = 0
    some = pairs
    while len(some) > _TRIED_KEYS:
        level += 1
        some = at_level(pairs, level)
    verdict = _try_counts(key_pairs(some), seen, more)
    # Counts with a common divisor put many a key into the same partition: beyond what was seen
    # there is one at most, and nearly all must be explained.
    fit = {w.partitions for w in verdict.writers}
    beyond = {n for n in fit if n > seen}
    if len(beyond) > 1 or verdict.explained < _MOSTLY:
        fit -= beyond
    return tuple(sorted({seen, *fit}))


def _try_counts(pairs: KeyPairs, smallest: int, larger: range) -> TopicVerdict:
    """Find the partitioners and partition counts that explain in which partitions the keys are.

    With few partitions, all counts below ``larger.stop`` are tried. With many partitions, the
    partitioners are found first, with the counts of ``larger``; then all counts are tried for
    these partitioners only.
    """
    if smallest <= _TRIED_COUNTS:
        return who_wrote(pairs, range(1, larger.stop), known_families(), partitions_of)
    first = who_wrote(pairs, larger, known_families(), partitions_of)
    if not first.families:
        return first
    counts = (*range(2, min(smallest, _MOST_COUNTS)), *larger)
    return who_wrote(pairs, counts, first.families, partitions_of)


def _merge_workers(keyed: pa.Table) -> tuple[pa.Table, int]:
    """Merge the rows of all workers to one row for each (key, partition), with summed records.

    Workers may have sampled a topic at different rates; only keys that all of them sampled stay.
    Return the table and its sampling level n: one key in 2**n was sampled.
    """
    import pyarrow as pa
    from pyarrow import compute

    level = int(compute.max(keyed["level"]).as_py() or 0)
    if len(keyed):
        keyed = at_level(keyed, level)
    sums = [("records", "sum"), ("first_ms", "min"), ("last_ms", "max")]
    merged = keyed.group_by(["key", "partition"], use_threads=False).aggregate(sums)
    merged = merged.rename_columns(["key", "partition", "records", "first_ms", "last_ms"])
    merged = merged.append_column("level", pa.array(np.full(len(merged), level, np.int32)))
    merged = _thin_out(merged, MOST_PAIRS)
    return merged, max([level, *merged["level"].to_pylist()[:1]])


def _thin_out(pairs: pa.Table, most: int) -> pa.Table:
    """Sample fewer keys of a topic until at most ``most`` (key, partition) rows are left.

    Each step halves the number of keys. A hash decides, so all topics have the same keys in the
    sample.
    """
    import pyarrow as pa

    level = max([0, *pairs["level"].to_pylist()[:1]])
    while len(pairs) > most:
        level += 1
        pairs = at_level(pairs, level)
    levels = pa.array(np.full(len(pairs), level, np.int32))
    return pairs.set_column(pairs.schema.get_field_index("level"), "level", levels)


def at_level(pairs: pa.Table, level: int) -> pa.Table:
    """Return the (key, partition) rows whose key is in the sample of one key in 2**level.

    A hash of the key decides, so samples of any two topics have the same keys.
    """
    import pyarrow as pa

    if not level:
        return pairs
    return pairs.filter(pa.array(in_sample(sample_hashes(pairs["key"].combine_chunks()), level)))


def key_pairs(pairs: pa.Table) -> KeyPairs:
    """Convert an Arrow table of (key, partition) rows to the columns that the audit's rules use."""
    numbers = [pairs[n].to_numpy().astype(np.int64) for n in ("records", "first_ms", "last_ms")]
    return KeyPairs(
        pairs["key"].to_pylist(), pairs["partition"].to_numpy().astype(np.int32), *numbers
    )


def _pack(pairs: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pairs.schema) as writer:
        writer.write_table(pairs)
    return bytes(sink.getvalue())


def _writer(writer: WriterFamily) -> dict[str, Any]:
    return {
        "name": writer.family.name, "hash": hash_of(writer.family.partitioners),
        "clients": clients_of(writer.family.partitioners),
        "partitioners": list(writer.family.partitioners),
        "hashes": writer.family.part.words, "partitions": writer.partitions,
        "share": writer.share, "pairs": writer.pairs, "only": writer.only,
        "log10_chance": writer.log10_chance, "first_ms": writer.first_ms,
        "last_ms": writer.last_ms, "rivals": [r.name for r in writer.rivals],
    }  # fmt: skip


@lru_cache(maxsize=1)
def known_families() -> list[Family]:
    """Return all partitioners in families; those of a family choose equal partitions for every key.

    The families are found once per process, by comparing the partitioners on probe keys.
    """
    from partage.keys import by_key

    names = [name for name in by_key() if name != _WINDOWED]
    return families(names, partitions_of, windowed=["murmur2"])


def partitions_of(name: str, keys: Sequence[bytes], partitions: int) -> Any:
    """Return the partition that a partitioner, given by its name, chooses for each key.

    The result is -1 for a key that is not UTF-8 text if the partitioner accepts only text.
    """
    from partage.keys import partition_for

    # The keys are there, so some producer was allowed to send them, however long they are.
    run = partial(
        partition_for, partitions=partitions, partitioner=name, longest_key=MOST_PARTITIONS
    )
    try:
        return run(keys)
    except InvalidKeysError:
        text = np.array([_is_text(key) for key in keys])
        out = np.full(len(keys), -1, np.int32)
        some = [key for key, is_text in zip(keys, text, strict=True) if is_text]
        if some:
            out[text] = run(some)
        return out


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
