"""Helpers for tests of code that uses Partage: groups and clusters from text, or generated.

`notation` needs nothing; `strategies` (generators for Hypothesis) needs hypothesis installed.
"""

from __future__ import annotations

from partage.testing.notation import assignment, cluster, group, written

__all__ = ["assignment", "cluster", "group", "written"]
