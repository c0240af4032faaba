"""Where members have given everything up, nothing has to wait for a second rebalance."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from partage.model import Plan

__all__ = ["handed_over"]


def handed_over(plan: Plan, given_up: AbstractSet[tuple[str, int]]) -> Plan:
    """The plan with those withheld partitions handed over that nobody holds any more.

    A cooperative strategy withholds what changes hands, since its owner still reads it. An
    owner that joined under the EAGER protocol does not: its claim says only what it had.

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
