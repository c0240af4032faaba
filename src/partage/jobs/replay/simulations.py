"""Third job: histories lived again, by units that are independent of each other.

What was rebuilt is on disk (`kept`); a task reads its units there, nothing is shuffled.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from partage.history.agreement import Verdict, check_agreement
from partage.jobs.replay.failed_groups import WHOLE_RUN, GroupFailure
from partage.jobs.replay.histories import RECEIPT_DDL, clusters_of, receipts_batch
from partage.jobs.replay.selection import Selection
from partage.jobs.replay.totals import SimulationTotals
from partage.jobs.replay.units import Unit
from partage.jobs.replay.write import TableWriters, task_name
from partage.simulation.context import SimulationContext
from partage.simulation.cumulative import simulate_cumulative
from partage.simulation.metrics import SimulatedRebalance
from partage.simulation.per_rebalance import simulate_rebalance
from partage.simulation.policies import Policy
from partage.simulation.recorded_rebalances import RecordedRebalance

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

    from partage.groups.api import Strategy

__all__ = ["lives_job"]

#: Rebalances of a group that are in memory at once; a larger group is read from disk as time goes
#: on, once for each policy.
_MOST_AT_ONCE = 2_048


def lives_job(
    spark: SparkSession,
    work: Broadcast[list[list[Unit]]],
    states: Broadcast[Any],
    policies: Sequence[str | Strategy | Policy],
    *,
    selection: Selection,
    out: str,
    run_id: str,
) -> DataFrame:
    """Receipts of files, and totals of lives; nothing is computed yet. One task a bundle."""
    count = len(work.value)
    run = partial(_task, (work, states), tuple(policies), selection, (out, run_id))
    return spark.range(0, count, 1, max(1, count)).mapInArrow(run, RECEIPT_DDL)


def _task(
    shared: tuple[Broadcast[list[list[Unit]]], Broadcast[Any]],
    policies: tuple[str | Strategy | Policy, ...],
    selection: Selection,
    where: tuple[str, str],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: numbers of bundles in, receipts out."""
    work, states = shared
    clusters = clusters_of(states.value)
    chosen = [Policy.of(one) for one in policies]
    totals = SimulationTotals()
    failed: dict[str, GroupFailure] = {}
    observers = {"replays": totals.add_rows}
    with TableWriters(*where, f"l{task_name()}", observers) as writers:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for unit in work.value[number]:
                    group = unit.kept.group
                    if group in failed:
                        continue
                    try:
                        _live(unit, chosen, clusters, selection, (writers, totals))
                    except WHOLE_RUN:
                        raise
                    except Exception as e:  # noqa: BLE001 - the other groups are published
                        failed[group] = GroupFailure.of(group, e)
        files = [("file", json.dumps(asdict(r))) for r in writers.finish()]
    failures = [("failed", json.dumps(asdict(one))) for one in failed.values()]
    yield receipts_batch([*files, *failures, ("lives", totals.to_json())])


def _live(
    unit: Unit,
    policies: Sequence[Policy],
    clusters: Any,
    selection: Selection,
    told: tuple[TableWriters, SimulationTotals],
) -> None:
    """All that a unit asks for: rows of rebalances and replays, and what they add up to."""
    writers, totals = told
    group = unit.kept.group
    world = unit.kept.surroundings(clusters)

    def write(
        rows: Iterable[SimulatedRebalance], wanted: Container[tuple[int, int]] | None = None
    ) -> None:
        for row in rows:
            if wanted is None or (row.incarnation, row.generation) in wanted:
                writers.add("replays", {"group": group, **row.row()})

    # Of a group of ordinary size nothing is read twice, and what it costs is looked up once.
    small = unit.kept.rebalances <= _MOST_AT_ONCE
    everything = tuple(unit.kept.scenes()) if unit.policies and small else None
    read = unit.kept.scenes(unit.chunks)
    for scene, rebalance in everything if everything is not None and unit.whole else read:
        if not selection.started(scene.generation.timestamp_ms):
            continue
        found = check_agreement(scene.generation, clusters)
        writers.add("rebalances", rebalance | _said(scene, found, world))
        totals.add_verdict(group, scene.generation, found)
        write(simulate_rebalance(scene, policies, world, judged=found))
    for number in unit.policies:
        life = unit.kept.scenes() if everything is None else everything
        wanted = _Wanted(selection)
        write(
            simulate_cumulative(wanted.those(scene for scene, _ in life), policies[number], world),
            wanted,
        )


class _Wanted:
    """Keys of the rebalances that the span of time has, noted while they go by."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._not: dict[tuple[int, int], None] = {}

    def those(self, scenes: Iterable[RecordedRebalance]) -> Iterator[RecordedRebalance]:
        """All of them; those before the span are noted, the newest of them."""
        for scene in scenes:
            if not self._selection.started(scene.generation.timestamp_ms):
                self._not[scene.generation.incarnation, scene.generation.number] = None
                if len(self._not) > 4 * _MOST_AT_ONCE:
                    del self._not[next(iter(self._not))]
            yield scene

    def __contains__(self, key: object) -> bool:
        return key not in self._not


def _said(scene: RecordedRebalance, found: Verdict, world: SimulationContext) -> dict[str, Any]:
    """Columns of ``rebalances`` that strategies and costs fill in.

    How long a rebalance took is what the simulation takes for it. Of those that it cannot live
    again the history has said it already, by the same rule.
    """
    said: dict[str, Any] = {
        "agrees": found.agrees,
        "judged_by": found.judged_by,
        "disagreement": found.why if found.agrees is False or not found.terminates else None,
        "assumed": found.assumed,
    }
    if scene.replayable:
        length_ms = world.costs(scene).length_ms
        known = None if length_ms is None else (int(length_ms.low), int(length_ms.high))
        said["stopped_low_ms"], said["stopped_high_ms"] = known or (None, None)
    return said
