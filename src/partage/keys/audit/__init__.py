"""Who wrote a topic, and do its keys join: read from (key, partition) pairs alone.

`pairs` holds what was seen, `families` what could have been done, `writers` says which of these
was, `nulls` what keyless records tell, `split` which keys live in two partitions, and `joins`
whether topics meant to be joined agree. Pure: reading the topics is the pipeline's.
"""

from __future__ import annotations

from partage.keys.audit.evidence import Family, KeyPairs, families
from partage.keys.audit.joins import Broken, Side, broken_joins
from partage.keys.audit.null_keys import NullKeys, null_keys
from partage.keys.audit.writers import SplitKeys, TopicVerdict, WriterFamily, split_keys, who_wrote

__all__ = [
    "Broken",
    "Family",
    "KeyPairs",
    "NullKeys",
    "Side",
    "SplitKeys",
    "TopicVerdict",
    "WriterFamily",
    "broken_joins",
    "families",
    "null_keys",
    "split_keys",
    "who_wrote",
]
