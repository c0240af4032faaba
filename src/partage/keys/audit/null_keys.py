"""Records without a key: how a producer chose their partitions.

Java keeps to one partition for a batch since 2.4 (KIP-480, KIP-794) and went round robin before.
librdkafka's `*_random` draw for each record; its `consistent` hashes the empty key.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from partage.keys.audit.evidence import log_chance

__all__ = ["FEWEST_RECORDS", "NullKeys", "null_keys"]

#: Fewest records for a statement.
FEWEST_RECORDS = 30
_SURE = log(1e-5)
#: Most concurrent round robins that are detected, and the longest lag in records.
_MOST_TURNS, _MOST_LAGS = 4, 2_000
#: Share of records that go by turns, where the topic's do.
_MOSTLY = 0.5
#: Share of records with a time of their own from which on ties do not matter.
_OWN_TIME = 0.95


@dataclass(frozen=True, slots=True)
class NullKeys:
    """Result of `null_keys`: how a producer chose the partitions of records without a key.

    It is inferred from the sequence of partitions that the records have.

    Attributes:
        behaviour: one of ``sticky``, ``round robin`` (in any order of the partitions, by one
            producer or several), ``one partition``, ``drawn for each record`` (independent random
            draws), ``in some other way``, ``too few records``, or ``one partition only`` (the topic
            has one).
        records: number of records that were examined.
        stays: share of records in the same partition as the record before.
        steps: share of records whose partition number is one above that of the record before.
        log10_chance: log10 of an upper bound on the probability of such a pattern by chance; 0 if
            chance explains it.
    """

    behaviour: str
    records: int
    stays: float
    steps: float
    log10_chance: float = 0.0


def null_keys(
    partition: NDArray[np.int32], partitions: int, record_times: NDArray[np.int64] | None = None
) -> NullKeys:
    """Classify how a producer chose the partitions of records without a key, such as "round robin".

    Kafka clients differ in this, so the audit of a topic uses the result to identify the client.

    Args:
        partition: int32[n], the partition of each record.
        partitions: number of partitions of the topic.
        record_times: int64[n], times of the records in ms, ascending; None if the records are in
            order. Of many records in one millisecond, which have no known order, only one counts.

    >>> null_keys(np.arange(100, dtype=np.int32) % 7, 7).behaviour
    'round robin'
    >>> null_keys(np.repeat(np.arange(20, dtype=np.int32) * 5 % 7, 20), 7).behaviour
    'sticky'
    """
    if record_times is not None and len(record_times):
        partition, whole = _partitions_in_known_order(partition, record_times), partition
        if partitions > 1 and len(whole) >= FEWEST_RECORDS and (whole == whole[0]).all():
            partition = whole
    n = len(partition)
    if n < 2 or partitions < 1:
        return NullKeys("too few records", n, 0.0, 0.0)
    stay = partition[1:] == partition[:-1]
    step = partition[1:] == (partition[:-1] + 1) % partitions
    stays, steps = float(stay.mean()), float(step.mean())
    behaviour, chance = _classify(partition, partitions, stay, step)
    return NullKeys(behaviour, n, stays, steps, chance / log(10))


def _partitions_in_known_order(
    partition: NDArray[np.int32], time_ms: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return the partitions of the records without a key, leaving out records of uncertain order.

    The order of records with equal timestamps is unknown, so only one record of each millisecond is
    used.

    Args:
        partition: partition of each record without a key, by time.
        time_ms: timestamps of these records, ascending.
    """
    first = np.concatenate([[True], time_ms[1:] != time_ms[:-1]])
    if first.mean() > _OWN_TIME:
        return partition
    begins = np.flatnonzero(first)
    counts = np.diff(np.append(begins, len(time_ms)))
    # A hash of the timestamp selects the record: the first by offset would more often be in
    # partitions with few records.
    mixed = (time_ms[begins].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    chosen: NDArray[np.int64] = (mixed % counts.astype(np.uint64)).astype(np.int64)
    some: NDArray[np.int32] = partition[begins + chosen]
    return some


def _classify(
    partition: NDArray[np.int32],
    partitions: int,
    stay: NDArray[np.bool_],
    step: NDArray[np.bool_],
) -> tuple[str, float]:
    if partitions == 1:
        return "one partition only", 0.0
    if len(partition) < FEWEST_RECORDS:
        return "too few records", 0.0
    chance = 1 / partitions
    if stay.all():
        return "one partition", log_chance(len(stay), len(stay), chance)
    for name, seen in (("sticky", stay), ("round robin", step)):
        by_chance = log_chance(int(seen.sum()), len(seen), chance)
        if by_chance < _SURE:
            return name, by_chance
    return _classify_by_autocorrelation(partition, partitions)


def _classify_by_autocorrelation(
    partition: NDArray[np.int32], partitions: int
) -> tuple[str, float]:
    # Autocorrelation: partitions drawn at random repeat at no lag.
    lags = range(2, min(_MOST_TURNS * partitions, _MOST_LAGS, len(partition) - FEWEST_RECORDS) + 1)
    found = []
    for lag in lags:
        same = partition[lag:] == partition[:-lag]
        hits = int(same.sum())
        found.append((log_chance(hits, len(same), 1 / partitions), hits / len(same), lag))
    stays = int((partition[1:] == partition[:-1]).sum())
    avoids = log_chance(len(partition) - 1 - stays, len(partition) - 1, 1 - 1 / partitions)
    least, share, lag = min(found, default=(0.0, 0.0, 0))
    least += log(max(1, len(found)))
    if least >= _SURE and avoids >= _SURE:
        return "drawn for each record", 0.0
    if least < _SURE and share > _MOSTLY and lag % partitions == 0:
        return "round robin", least
    return "in some other way", min(least, avoids)
