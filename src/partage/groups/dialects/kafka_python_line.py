"""In which order kafka-python lines members up: static ones first, and some not at all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from partage.model import Group

__all__ = ["lined_up"]


def lined_up(group: Group, members: Sequence[int]) -> list[int]:
    """Static members by (instance id, id), then dynamic ones by id; strings by code points.

    It groups by "is static" with ``itertools.groupby`` without sorting first, into a dict: of
    several runs in join order only the **last** of each kind stays. Members of the others are
    not in line, and get nothing.

    >>> from partage.model import Member
    >>> group = Group([Member("a"), Member("b", instance_id="i"), Member("c")])
    >>> [group[m].id for m in lined_up(group, [0, 1, 2])]
    ['b', 'c']
    """
    runs = {
        static: list(run)
        for static, run in groupby(members, key=lambda m: group[m].instance_id is not None)
    }
    static = sorted(runs.get(True, ()), key=lambda m: (group[m].instance_id or "", group[m].id))
    return static + sorted(runs.get(False, ()), key=lambda m: group[m].id)
