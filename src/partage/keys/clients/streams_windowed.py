"""Kafka Streams' `WindowedStreamPartitioner`: the key without its window."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from partage.keys.columns import KeyColumn
from partage.keys.hashing import MURMUR2
from partage.keys.partitioner import Partitioner
from partage.keys.rule import KeyRule

__all__ = ["StreamsWindowed", "without_window"]

#: ``TimeWindowedSerializer`` puts the window's start behind the key, as a long.
WINDOW_START = 8
#: ``SessionWindowedSerializer`` puts end and start there.
SESSION = 16


def without_window(keys: KeyColumn, tail: int = WINDOW_START) -> KeyColumn:
    """The keys without so many bytes at their ends; a key that is shorter becomes an empty one."""
    starts = keys.starts.astype(np.int64)
    lengths = np.maximum(np.diff(starts) - tail, 0)
    out = np.zeros(len(starts), np.int64)
    np.cumsum(lengths, out=out[1:])
    inside = np.arange(out[-1]) + np.repeat(starts[:-1] - out[:-1], lengths)
    return KeyColumn(keys.data[inside], out, keys.null, keys.code)


class StreamsWindowed(Partitioner):
    """murmur2 of the key part of a windowed key: windows of one key share its partition.

    Keys given are as `TimeWindowedSerializer` writes them: 8 bytes of the window's start at the
    end. (Of session windows, 16: `without_window`, then ``murmur2``.)
    """

    name = "streams:windowed"
    exact_to = "org.apache.kafka.streams.kstream.internals.WindowedStreamPartitioner 4.3.1"
    aliases: ClassVar[tuple[str, ...]] = (
        "org.apache.kafka.streams.kstream.internals.WindowedStreamPartitioner",
    )
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")

    def key_part(self, keys: KeyColumn) -> KeyColumn:
        """The key without the start of its window."""
        return without_window(keys)
