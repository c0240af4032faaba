"""Audit of topics from (key, partition) pairs: their writers, and whether they can be joined.

Pure; `partage.jobs.audit` reads the topics.

    evidence       distinct (key, partition) pairs, partitioner families, a bound of chance
    writers        the partitioners that wrote a topic, and keys in several partitions
    null_keys      how the records without a key were spread
    joins          what breaks a join of topics
    client_names   partitioners as users know them, and the settings that make them agree
"""

from __future__ import annotations

from partage.keys.audit.evidence import KeyPairs, PartitionerFamily, group_equivalent_partitioners
from partage.keys.audit.joins import JoinProblem, JoinSide, broken_joins
from partage.keys.audit.null_keys import NullKeys, null_keys
from partage.keys.audit.writers import (
    InferredWriters,
    SplitKeys,
    WriterFamily,
    count_split_keys,
    infer_writers,
)

__all__ = [
    "InferredWriters",
    "JoinProblem",
    "JoinSide",
    "KeyPairs",
    "NullKeys",
    "PartitionerFamily",
    "SplitKeys",
    "WriterFamily",
    "broken_joins",
    "count_split_keys",
    "group_equivalent_partitioners",
    "infer_writers",
    "null_keys",
]
