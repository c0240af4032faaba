"""From owners by rows to a plan: lists, what is withheld, and the figures of the certificate."""

from __future__ import annotations

from typing import Any

import numpy as np

from partage.groups.layout import plan_in_order
from partage.groups.optimal.question import Int64Array, Question
from partage.groups.sticky.decision import withheld
from partage.model import Plan, RackTable
from partage.model.index import Int32Array

__all__ = ["moves_of", "plan_of", "rack_cost_of", "target_of"]


def plan_of(question: Question, owner: Int32Array, **more: Any) -> Plan:
    """The first phase of a cooperative rebalance: what changes hands is with nobody (KIP-429)."""
    place, row = question.claimed
    partition = question.rows.partition
    member = question.order[owner] if len(owner) else owner
    waits = withheld(place.astype(np.int32), row.astype(np.int32), owner)
    if not waits.any():
        return plan_in_order(question.problem, partition, member, **more)
    goes = np.flatnonzero(~waits)
    waiting = np.flatnonzero(waits)
    return plan_in_order(
        question.problem, partition[goes], member[goes],
        withheld=partition[waiting], destined=member[waiting], **more,
    )  # fmt: skip


def target_of(question: Question, owner: Int32Array) -> Int32Array:
    """int32[P]: members by the cluster's numbers, -1 for nobody."""
    out = np.full(question.problem.index.partitions, -1, np.int32)
    out[question.rows.partition] = question.order[owner] if len(owner) else owner
    return out


def moves_of(question: Question, owner: Int32Array) -> int:
    """Claimed rows that go to somebody with whom they were not."""
    claims = question.claims
    stays = int(np.count_nonzero((claims.keeper == owner) & (owner >= 0)))
    if len(claims.contested):
        of = np.repeat(owner[claims.contested], np.diff(claims.start))
        stays += int(np.count_nonzero(of == claims.keepers))
    return int(np.count_nonzero(claims.owned)) - stays


def rack_cost_of(question: Question, table: RackTable, owner: Int32Array) -> int:
    """What reading costs, in units."""
    column: Int64Array = table.row[question.order][owner] if len(owner) else table.row[:0]
    return int(table.cost[table.profile[question.rows.partition], column].sum())
