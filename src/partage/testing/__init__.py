"""For tests of what is built on Partage: groups and clusters in a line of text, or generated.

`notation` needs nothing; `strategies` (generators for Hypothesis) needs hypothesis installed.
"""

from __future__ import annotations

from partage.testing.notation import assignment, cluster, group, written

__all__ = ["assignment", "cluster", "group", "written"]
