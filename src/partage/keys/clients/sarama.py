"""Sarama's partitioners (Go): FNV-1a by default, in three kinds of arithmetic.

A partitioner of Sarama sees a message and a count. Those that need not be consistent get the
number of partitions with a leader and return a place among these. A message's own partition
counts for the manual partitioner only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from partage.keys.clients.java import MURMUR2_MASKED
from partage.keys.hashing import CRC32, FNV1A
from partage.keys.partitioner import (
    Explicit,
    Int32Array,
    Int64Array,
    KeyRule,
    Partitioner,
    State,
    StateMachine,
    below,
)

__all__ = ["GO_ROUND_ROBIN", "SARAMA", "Walk"]


def _choose_random(state: State, sizes: Int64Array, partitions: int) -> tuple[Int32Array, State]:
    """Draw a partition with a leader for each record, by Go's ``Intn``."""
    pool, draws = state.pool(partitions), state.draws
    out = np.empty(len(sizes), np.int32)
    for i in range(len(out)):
        place, draws = below(draws, len(pool))
        out[i] = pool[place]
    return out, replace(state, draws=draws)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk(State):
    """Turns from the first partition to the last.

    Attributes:
        on: place of the next one.
    """

    on: int = 0


def _choose_in_turn(state: Walk, sizes: Int64Array, partitions: int) -> tuple[Int32Array, Walk]:
    """Place records in turn; begin at 0 after the last one, or if the pool has shrunk."""
    pool = np.array(state.pool(partitions), np.int32)
    if not len(sizes):
        return np.zeros(0, np.int32), state
    first = state.on if state.on < len(pool) else 0
    turn = (first + np.arange(len(sizes), dtype=np.int64)) % len(pool)
    # The place after the last one is kept, not 0: the difference shows when the pool grows.
    return pool[turn], replace(state, on=int(turn[-1]) + 1)


def _refusal(partition: int, partitions: int) -> str:
    """Return ``ErrInvalidPartition``."""
    del partition, partitions
    return "kafka: partitioner returned an invalid partition index"


#: Also franz-go's.
GO_ROUND_ROBIN = StateMachine(Walk, _choose_in_turn, "by turns")
_RANDOM = StateMachine(State, _choose_random, "by chance")


def _row(
    name: str,
    summary: str,
    constructor: str,
    rule: KeyRule | None = None,
    *,
    machine: StateMachine | None = _RANDOM,
    aliases: tuple[str, ...] = (),
    explicit: Explicit = "ignored",
) -> Partitioner:
    """Return a row; all partitioners of Sarama share release and message."""
    exact_to = f"sarama.{constructor} v1.61.1"
    return Partitioner(
        f"sarama:{name}", summary, exact_to, rule, machine, aliases, explicit, _refusal
    )


SARAMA = (
    # ``NewCustomHashPartitioner(fnv.New32a)`` is the same.
    _row(
        "hash",
        "FNV-1a as a signed int, its remainder's absolute value; null keys by chance. The default.",
        "NewHashPartitioner",
        KeyRule(FNV1A, "absolute"),
        aliases=("sarama",),
    ),
    # Also ``NewCustomPartitioner(WithAbsFirst())``. The hash is still not Java's.
    _row(
        "reference",
        "FNV-1a with the sign bit masked as Java does: ``NewReferenceHashPartitioner``.",
        "NewReferenceHashPartitioner",
        KeyRule(FNV1A, "masked"),
    ),
    # Also ``NewCustomPartitioner(WithHashUnsigned(), WithCustomHashFunction(crc32.NewIEEE))``. An
    # empty key is hashed here; librdkafka's ``consistent_random`` places it by chance.
    _row(
        "crc32",
        "CRC32, unsigned, as librdkafka's default: ``NewConsistentCRCHashPartitioner``.",
        "NewConsistentCRCHashPartitioner",
        KeyRule(CRC32, "unsigned"),
    ),
    _row(
        "murmur2",
        "As Java hashes keys: ``NewMurmur2Partitioner``.",
        "NewMurmur2Partitioner",
        MURMUR2_MASKED,
    ),
    _row(
        "random",
        "Each message by chance, whatever its key: ``NewRandomPartitioner``, Go's ``Intn``.",
        "NewRandomPartitioner",
    ),
    _row(
        "roundrobin",
        "Each message to the next partition that has a leader: ``NewRoundRobinPartitioner``.",
        "NewRoundRobinPartitioner",
        machine=GO_ROUND_ROBIN,
    ),
    _row(
        "manual",
        "The partition that the message names, 0 if it names none: ``NewManualPartitioner``.",
        "NewManualPartitioner",
        machine=None,
        explicit="only",
    ),
)
