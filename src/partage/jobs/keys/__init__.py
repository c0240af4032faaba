"""`partage keys`: how the keys of an input spread over partitions."""

from __future__ import annotations
