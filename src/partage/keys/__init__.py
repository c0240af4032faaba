"""Key to partition: the exact partitioner of each client, on one key or on a column of keys.

placing               entry points: `partition_for`, and `start` for a fresh state
registry              all partitioners by name, with custom ones and plug-ins
clients               partitioners of clients by name; a module, with a table, for each library
partitioner           the type of these tables: key rule, state machine, random numbers
record_placement      one call: explicit partitions, key rule, state machine
columns               columns of keys from lists, NumPy and Arrow
hashing               the hashes of clients, on one key (reference) and on a column (kernel)
contract              custom partitioners: Kafka's ``Partitioner`` interface in Python
default_09            Kafka 0.9's default partitioner, the worked example of a custom one
serializers           the bytes that Kafka's serializers make of a key
agreement             which partitioners place the same keys alike
distinct, skew        counts of distinct keys, loads of partitions, keys that move
audit                 which partitioner wrote a topic, and whether topics can be joined
"""

from __future__ import annotations

from partage.keys.placing import partition_for, start
from partage.keys.record_placement import Partitioned, with_leaders
from partage.keys.registry import by_key, describe_partitioners, partitioners

__all__ = [
    "Partitioned",
    "by_key",
    "describe_partitioners",
    "partition_for",
    "partitioners",
    "start",
    "with_leaders",
]
