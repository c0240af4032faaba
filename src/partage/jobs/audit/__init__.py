"""`partage audit`: which partitioner wrote each topic."""

from __future__ import annotations
