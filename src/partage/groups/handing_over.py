"""Partitions that a cooperative plan withholds although no member consumes them any more."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from partage.model import Plan

__all__ = ["handed_over"]


def handed_over(plan: Plan, given_up: AbstractSet[tuple[str, int]]) -> Plan:
    """Return the plan with the revoked ones of its withheld partitions assigned.

    A cooperative strategy withholds a partition that moves, because its owner still consumes
    it. An owner that joined under the EAGER protocol has revoked it: its claim is history.

    >>> from partage.model import Index
    >>> now = Plan.of(Index.of({"t": 2}), {"a": {"t": [0]}, "b": {}},
    ...               withheld=np.array([1], np.int32), destined=np.array([1], np.int32))
    >>> handed_over(now, {("t", 1)}).to_dict(), handed_over(now, set()).to_dict()
    ({'a': {'t': [0]}, 'b': {'t': [1]}}, {'a': {'t': [0]}, 'b': {}})
    """
    free = np.array([plan.index.name(p) in given_up for p in plan.withheld.tolist()], bool)
    if not free.any():
        return plan
    waiting = {"withheld": plan.withheld[~free], "destined": plan.destined[~free]}
    now = replace(plan, withheld=plan.withheld[free], destined=plan.destined[free]).settled()
    return replace(now, **waiting)
