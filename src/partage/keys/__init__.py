"""Key to partition: the partitioner of every client, exact, on one key or on a column.

`partition_for` is the door; `partitioners` are its names; `start` makes the state of those that
go by turns or chance. `contract` is the interface of one's own, `serializers` are the bytes that
Kafka's make of a key, `agreement` finds out who agrees with whom.
"""

from __future__ import annotations

from partage.keys.placing import partition_for, start
from partage.keys.record_placement import Partitioned, with_leaders
from partage.keys.registry import by_key, describe, partitioners

__all__ = [
    "Partitioned",
    "by_key",
    "describe",
    "partition_for",
    "partitioners",
    "start",
    "with_leaders",
]
