"""Third job: histories lived again, by units that are independent of each other.

What was rebuilt is on disk (`kept`); a task reads its units there, nothing is shuffled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from partage.history.verdicts import verdict
from partage.pipeline.histories import RECEIPT_DDL, clusters_of, receipts_batch
from partage.pipeline.lives_totals import LivesTotals
from partage.pipeline.units import Unit
from partage.pipeline.write import TableWriters, task_name
from partage.simulation.lived import Lived
from partage.simulation.living import by_own, by_record
from partage.simulation.policies import Policy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

    from partage.groups.api import Strategy

__all__ = ["lives_job"]


def lives_job(
    spark: SparkSession,
    work: Broadcast[list[list[Unit]]],
    states: Broadcast[Any],
    policies: Sequence[str | Strategy | Policy],
    *,
    out: str,
    run_id: str,
) -> DataFrame:
    """Receipts of files, and totals of lives; nothing is computed yet. One task a bundle."""
    count = len(work.value)
    run = partial(_task, work, states, tuple(policies), (out, run_id))
    return spark.range(0, count, 1, max(1, count)).mapInArrow(run, RECEIPT_DDL)


def _task(
    work: Broadcast[list[list[Unit]]],
    states: Broadcast[Any],
    policies: tuple[str | Strategy | Policy, ...],
    where: tuple[str, str],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: numbers of bundles in, receipts out."""
    clusters = clusters_of(states.value)
    chosen = [Policy.of(one) for one in policies]
    totals = LivesTotals()
    with TableWriters(*where, f"l{task_name()}") as writers:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for unit in work.value[number]:
                    _live(unit, chosen, clusters, writers, totals)
        files = [("file", json.dumps(asdict(r))) for r in writers.finish()]
    yield receipts_batch([*files, ("lives", totals.to_json())])


def _live(
    unit: Unit,
    policies: Sequence[Policy],
    clusters: Any,
    writers: TableWriters,
    totals: LivesTotals,
) -> None:
    group = unit.kept.group
    world = unit.kept.surroundings(clusters)

    def write(rows: Iterable[Lived]) -> None:
        for row in rows:
            writers.add("replays", {"group": group, **row.row()})
            totals.add(group, row)

    for scene, rebalance in unit.kept.scenes(unit.chunks):
        found = verdict(scene.generation, clusters)
        rebalance |= {
            "agrees": found.agrees,
            "judged_by": found.judged_by,
            "disagreement": found.why if found.agrees is False else None,
        }
        writers.add("rebalances", rebalance)
        totals.judged(group, scene.generation, found)
        write(by_record(scene, policies, world))
    if unit.policies:
        scenes = tuple(scene for scene, _ in unit.kept.scenes())
        for number in unit.policies:
            write(by_own(scenes, policies[number], world))
