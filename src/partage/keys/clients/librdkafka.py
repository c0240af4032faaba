"""librdkafka's six partitioners: confluent-kafka's, and those of its other bindings.

With ``_random`` in the name, null keys go by chance (with ``consistent_random`` empty ones too).
Without it, a null key is hashed as an empty one, so that all null keys share a partition. By
chance means one random partition for ``sticky.partitioning.linger.ms`` (10 ms), then another.
Partitioners here know no time: a state keeps its partition for ``hold`` records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from partage.keys.clients.java import MURMUR2_MASKED
from partage.keys.hashing import CRC32, FNV1A, MURMUR2
from partage.keys.partitioner import (
    Int32Array,
    Int64Array,
    KeyRule,
    Partitioner,
    PartitionerState,
    StateMachine,
    check_batch_size,
    draw_from,
)

__all__ = ["LIBRDKAFKA", "Lingering"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lingering(PartitionerState):
    """State of librdkafka's random partitioners for records without a key.

    A drawn partition receives several records before another one is drawn, as with
    ``sticky.partitioning.linger.ms``.

    Attributes:
        hold: number of records that go to a partition before another is drawn.
        partition: the current partition; None before the first record.
        held: number of records that the current partition has received.
    """

    hold: int = 1
    partition: int | None = None
    held: int = 0


def _choose(state: Lingering, sizes: Int64Array, partitions: int) -> tuple[Int32Array, Lingering]:
    # Partitions without a leader are drawn only if none has a leader.
    check_batch_size(state.hold, "hold")
    pool, draws = state.choosable_partitions(partitions), state.draws
    partition, held = state.partition, state.held
    out = np.empty(len(sizes), np.int32)
    done = 0
    while done < len(out):
        if partition is None or held >= state.hold:
            partition, draws = draw_from(pool, draws)
            held = 0
        stop = min(len(out), done + state.hold - held)
        out[done:stop] = partition
        held += stop - done
        done = stop
    return out, replace(state, draws=draws, partition=partition, held=held)


def _refusal(partition: int, partitions: int) -> str:
    # _UNKNOWN_PARTITION.
    return f"Local: Unknown partition: {partition} of {partitions}"


_RANDOM = StateMachine(Lingering, _choose, "by chance, sticky for 10 ms")


def _row(
    name: str,
    summary: str,
    rule: KeyRule,
    machine: StateMachine | None = None,
    aliases: tuple[str, ...] = (),
) -> Partitioner:
    exact_to = f"rd_kafka_msg_partitioner_{name} librdkafka 2.16.0"
    return Partitioner(
        f"librdkafka:{name}", summary, exact_to, rule, machine, aliases, refusal=_refusal
    )


LIBRDKAFKA = (
    _row(
        "consistent",
        "CRC32, unsigned, modulo; null and empty keys share a partition.",
        KeyRule(CRC32, "unsigned", "nothing"),
    ),
    _row(
        "consistent_random",
        "CRC32, unsigned, modulo; null and empty keys by chance: librdkafka's default.",
        KeyRule(CRC32, "unsigned", "null or empty"),
        _RANDOM,
        ("librdkafka", "confluent-kafka"),
    ),
    _row(
        "murmur2",
        "As Java hashes keys; a null key as an empty one.",
        KeyRule(MURMUR2, "masked", "nothing"),
    ),
    _row(
        "murmur2_random",
        "As Java hashes keys, and null keys by chance: what joins with Java's topics.",
        MURMUR2_MASKED,
        _RANDOM,
    ),
    _row(
        "fnv1a",
        "As Sarama hashes keys; a null key as an empty one.",
        KeyRule(FNV1A, "absolute", "nothing"),
    ),
    _row(
        "fnv1a_random",
        "As Sarama hashes keys, and null keys by chance.",
        KeyRule(FNV1A, "absolute"),
        _RANDOM,
    ),
)
