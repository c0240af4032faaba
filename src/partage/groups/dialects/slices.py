"""The range rule as both Python clients write it: a topic cut into slices, one for each place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partage.groups.dialects.scene import PeerScene
from partage.model import Plan, Problem

__all__ = ["cut_topics"]


def cut_topics(problem: Problem, line_up: Callable[[Sequence[int]], list[int]]) -> Plan:
    """Each topic cut among its subscribers as ``line_up`` puts them, without racks.

    Who names a topic twice has two places; the slice of the second replaces that of the
    first, which nobody gets.
    """
    scene = PeerScene(problem)
    lists: list[list[int]] = [[] for _ in problem.group]
    lines: dict[tuple[int, ...], list[int]] = {}
    for k, members in enumerate(scene.audience):
        audience = tuple(members)
        if audience not in lines:
            lines[audience] = line_up(audience)
        line = lines[audience]
        for member, mine in _sliced(line, scene.start[k], scene.start[k + 1]).items():
            lists[member].extend(mine)
    return scene.plan(lists)


def _sliced(line: Sequence[int], first: int, last: int) -> dict[int, range]:
    """By member its slice of the spots from ``first`` to ``last``."""
    quota, extra = divmod(last - first, len(line))
    out: dict[int, range] = {}
    for i, member in enumerate(line):
        size = quota + (i < extra)
        out[member] = range(first, first + size)
        first += size
    return out
