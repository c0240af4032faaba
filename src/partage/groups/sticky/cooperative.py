"""Cooperative rebalancing in two phases (KIP-429): nothing changes hands in one step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError
from partage.model import Assignment, Plan
from partage.model.index import Int32Array

__all__ = ["first_phase", "withheld"]


def first_phase(before: Assignment, target: Plan) -> Plan:
    """What members may have now, on the way from ``before`` to ``target``.

    A partition that somebody gets and somebody else still has is given to nobody: its owner
    learns that it must give it up, and a second rebalance hands it over. What nobody has is
    handed out at once. Both must number partitions by one index; members may come and go.

    Raises:
        InvalidProblemError: the two are not about one index.

    >>> from partage.model import Index
    >>> index = Index.of({"t": 3})
    >>> before = Assignment.of(index, {"a": {"t": [0, 1]}})
    >>> target = Plan.of(index, {"a": {"t": [0]}, "b": {"t": [1, 2]}})
    >>> first_phase(before, target).to_dict()
    {'a': {'t': [0]}, 'b': {'t': [2]}}
    """
    if before.index is not target.index:
        raise InvalidProblemError(
            "must share one index with the plan", path="before.index", value=before.index.topics[:3]
        )
    number = {member: i for i, member in enumerate(target.members)}
    of_before = np.array([number.get(m, -1) for m in before.members], np.int32)
    owned_by = of_before[before.member_of] if len(before.partition) else before.partition
    stays = ~withheld(owned_by, before.partition, target.owner)[target.partition]
    start = np.zeros(len(target.start), np.int32)
    sizes = np.bincount(target.member_of[stays], minlength=len(target.members))
    np.cumsum(sizes, out=start[1:])
    return replace(target, start=start, partition=target.partition[stays], role=target.role[stays])


def withheld(owned_by: Int32Array, owned: Int32Array, owner: Int32Array) -> NDArray[np.bool_]:
    """bool[P]: partitions that may not be handed out yet.

    Those whose new owner does not have it, while any other member has. ``owned_by`` (-1 for
    a member that left) and ``owned`` go together; a partition may be claimed by several.
    """
    mine = owner[owned] == owned_by
    has_already = np.zeros(len(owner), bool)
    has_already[owned[mine]] = True
    elsewhere = np.zeros(len(owner), bool)
    elsewhere[owned[~mine]] = True
    return elsewhere & ~has_already & (owner >= 0)
