"""Message schemas that kafka-python 3.0 lacks, in its own format."""

from __future__ import annotations
