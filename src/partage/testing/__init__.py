"""Helpers for tests of code that uses Partage: groups and clusters from text, or generated.

notation          clusters, groups and assignments in a line of text; needs nothing
strategies        generators for Hypothesis, which must be installed
histories         synthetic captures of any size
server_problems   assignment problems of the group coordinator, from JSON
"""

from __future__ import annotations

from partage.testing.notation import assignment, cluster, group, written

__all__ = ["assignment", "cluster", "group", "written"]
