"""What the records without a key tell: how their partitions were chosen, one after the other.

Java has kept to one partition for a batch since 2.4 (KIP-480, KIP-794), went round robin
before; librdkafka's `*_random` draw for each record, its `consistent` hashes the empty key.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from partage.keys.audit.chance import log_chance

__all__ = ["FEWEST_RECORDS", "NullKeys", "null_keys"]

#: With fewer records nothing is said.
FEWEST_RECORDS = 30
_SURE = log(1e-5)


@dataclass(frozen=True, slots=True)
class NullKeys:
    """How keyless records were spread.

    Attributes:
        behaviour: ``sticky``, ``round robin``, ``one partition``, ``drawn for each record``,
            ``too few records``, or ``one partition only`` where the topic has one.
        records: how many were looked at.
        stays: share of records that lie where the one before them lies.
        steps: share that lie one partition further.
    """

    behaviour: str
    records: int
    stays: float
    steps: float


def null_keys(partition: NDArray[np.int32], partitions: int) -> NullKeys:
    """From the partitions of keyless records in the order of their time.

    Args:
        partition: int32[n].
        partitions: how many the topic has.

    >>> null_keys(np.arange(100, dtype=np.int32) % 7, 7).behaviour
    'round robin'
    >>> null_keys(np.repeat(np.arange(20, dtype=np.int32) * 5 % 7, 20), 7).behaviour
    'sticky'
    """
    n = len(partition)
    if n < 2 or partitions < 1:
        return NullKeys("too few records", n, 0.0, 0.0)
    stay = partition[1:] == partition[:-1]
    step = partition[1:] == (partition[:-1] + 1) % partitions
    stays, steps = float(stay.mean()), float(step.mean())
    return NullKeys(_behaviour(partition, partitions, stay, step), n, stays, steps)


def _behaviour(
    partition: NDArray[np.int32],
    partitions: int,
    stay: NDArray[np.bool_],
    step: NDArray[np.bool_],
) -> str:
    if partitions == 1:
        return "one partition only"
    if len(partition) < FEWEST_RECORDS:
        return "too few records"
    if stay.all():
        return "one partition"
    for name, seen in (("sticky", stay), ("round robin", step)):
        if log_chance(int(seen.sum()), len(seen), 1 / partitions) < _SURE:
            return name
    return "drawn for each record"
