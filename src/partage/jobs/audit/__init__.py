"""`partage audit`: which partitioner wrote each topic, and which joins are broken.

`audit` is the entry, and finds topics that are read together; `topic_records` reads records and
counts pairs of key and partition, `topic_verdicts` judges each topic by its pairs.
"""

from __future__ import annotations
