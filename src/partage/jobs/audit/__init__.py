"""`partage audit`: which partitioner wrote each topic, and which joins are broken.

`audit` is the entry, and finds topics that are read together; `topics` reads records, counts pairs
of key and partition, and judges each topic by its pairs.
"""

from __future__ import annotations
