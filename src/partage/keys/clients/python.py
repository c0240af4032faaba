"""Partitioners of kafka-python and aiokafka: Java's hash, null keys by chance or sticky."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from partage.keys.clients.java import MURMUR2_MASKED
from partage.keys.partitioner import (
    Int32Array,
    Int64Array,
    Partitioner,
    PartitionerState,
    StateMachine,
    check_batch_size,
    draw_from,
    random_partitions,
)

__all__ = ["PYTHON", "Pinned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned(PartitionerState):
    """State of kafka-python's ``StickyPartitioner`` for one topic: current partition and batch.

    Records without a key go to the same partition until the batch is full.

    Attributes:
        partition: current partition of records with a null key; None before the first.
        batch_size: bytes after which a batch is full and the producer opens a new one.
        filled: bytes in the current batch.
    """

    partition: int | None = None
    batch_size: int = 16_384
    filled: int = 0


def _pin(state: Pinned, partitions: int, avoid: int | None) -> tuple[int, Pinned]:
    pool = list(state.choosable_partitions(partitions))
    if len(pool) > 1 and state.available != () and avoid is not None:
        pool = [one for one in pool if one != avoid] or pool
    if len(pool) == 1:
        return pool[0], replace(state, partition=pool[0], filled=0)
    partition, draws = draw_from(pool, state.draws)
    return partition, replace(state, partition=partition, draws=draws, filled=0)


def _choose_sticky(state: Pinned, sizes: Int64Array, partitions: int) -> tuple[Int32Array, Pinned]:
    # Unlike Java's cache, this draws once, from the other partitions, when the batch is full or the
    # partition has lost its leader.
    check_batch_size(state.batch_size)
    out = np.empty(len(sizes), np.int32)
    pool = set(state.choosable_partitions(partitions))
    for i, size in enumerate(sizes.tolist()):
        partition = state.partition
        if partition is None or partition not in pool:
            partition, state = _pin(state, partitions, None)
        elif state.filled and state.filled + size > state.batch_size:
            partition, state = _pin(state, partitions, partition)
        state = replace(state, filled=state.filled + size)
        out[i] = partition
    return out, state


def _kafka_python_refusal(partition: int, partitions: int) -> str:
    # ``send`` raises it as ValueError.
    del partitions
    if partition < 0:
        return "partition must be >= 0"
    return f"Unrecognized partition {partition} for topic"


def _aiokafka_refusal(partition: int, partitions: int) -> str:
    # ``send`` raises it as AssertionError.
    del partition, partitions
    return "Unrecognized partition"


_KAFKA_PYTHON = "kafka.partitioner"
_AIOKAFKA = "aiokafka.partitioner.DefaultPartitioner"

PYTHON = (
    Partitioner(
        "kafka-python",
        "As Java hashes keys; each null key by chance among those with a leader. The default.",
        f"{_KAFKA_PYTHON}.DefaultPartitioner kafka-python 3.0.12",
        MURMUR2_MASKED,
        random_partitions,
        (f"{_KAFKA_PYTHON}.DefaultPartitioner",),
        refusal=_kafka_python_refusal,
    ),
    Partitioner(
        "kafka-python:sticky",
        "As Java hashes keys; null keys stay with one partition a batch (KIP-480).",
        f"{_KAFKA_PYTHON}.StickyPartitioner kafka-python 3.0.12",
        MURMUR2_MASKED,
        StateMachine(Pinned, _choose_sticky, "sticky for a batch"),
        (f"{_KAFKA_PYTHON}.StickyPartitioner",),
        refusal=_kafka_python_refusal,
    ),
    # It indexes the metadata's list of partitions, which is not sorted: with holes, or in another
    # order than 0, 1, 2, ..., that gives a partition of another number.
    Partitioner(
        "aiokafka",
        "As Java hashes keys; each null key by chance among those with a leader.",
        f"{_AIOKAFKA} aiokafka 0.14.0",
        MURMUR2_MASKED,
        random_partitions,
        (_AIOKAFKA,),
        refusal=_aiokafka_refusal,
    ),
)
