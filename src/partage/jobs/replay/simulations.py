"""Third job of a replay: simulate the policies on the recorded rebalances, in independent units.

Tasks read the histories from spill files (`spill_files`), so Spark shuffles no data. A group of
ordinary size is one work unit. A large group is divided, so that it does not delay the job. Its
simulations of single rebalances (``per_rebalance``) are divided into ranges of rebalances. Its
simulations of the whole history (``cumulative``), which are sequential, are divided by policy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from partage.history.agreement import Verdict, check_agreement
from partage.jobs.replay.histories import (
    RECEIPT_DDL,
    WHOLE_RUN,
    GroupFailure,
    clusters_of,
    receipts_batch,
)
from partage.jobs.replay.input_digests import metadata_digests
from partage.jobs.replay.output import TableWriters, task_name
from partage.jobs.replay.selection import Selection
from partage.jobs.replay.spill_files import SpilledHistory, SpilledRebalance
from partage.jobs.replay.stored_results import BlockWriter, GroupStore
from partage.jobs.replay.streams_settings import TAIL_MS, StreamsInputs, streams_settings_rows
from partage.jobs.replay.summary import SimulationTotals
from partage.simulation.cumulative import simulate_policies
from partage.simulation.per_rebalance import simulate_rebalance
from partage.simulation.policies import Policy
from partage.simulation.recorded_rebalances import RecordedRebalance

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.history.clusters import ClusterHistory
    from partage.jobs.replay.engines import LazyRows, ReplayEngine, SharedValue
    from partage.simulation.context import SimulationContext

__all__ = ["WorkUnit", "pack_tasks", "simulations_job", "work_units"]

#: Rebalances of a group, and bytes of them in the spill file, that are in memory at once; a larger
#: group is read from disk as time goes on.
_MOST_AT_ONCE, _MOST_BYTES_AT_ONCE = 2_048, 8 << 20


def simulations_job(
    engine: ReplayEngine,
    work: SharedValue,
    states: SharedValue,
    streams: SharedValue,
    policies: Sequence[Policy],
    *,
    selection: Selection,
    out: str,
    run_id: str,
    store: str | None = None,
) -> LazyRows:
    """Simulate the recorded rebalances of all consumer groups under each policy, and write tables.

    The result rows are lazy: the job runs when they are read. They describe the written files and
    the totals. With ``store``, they also say where results for the next run are stored.

    Args:
        engine: runs the job.
        work: list of work units (`WorkUnit`) of each task.
        states: the cluster metadata over time.
        streams: inputs for Kafka Streams groups, which are also simulated under other settings.
        policies: the policies, each an assignment strategy with a protocol and member options.
        selection: the selected groups and times.
        out: the output folder.
        run_id: the id of the run.
        store: folder for results that the next run reuses, relative to ``out``; None to store none.
    """
    count = len(work.value)
    shared = (work, states, streams)
    job = partial(_simulate_units, shared, tuple(policies), selection, (out, run_id), store=store)
    return engine.run_job(job, count, count, RECEIPT_DDL)


def _simulate_units(
    shared: tuple[SharedValue, SharedValue, SharedValue],
    policies: tuple[Policy, ...],
    selection: Selection,
    destination: tuple[str, str],
    unit_numbers: Iterable[pa.RecordBatch],
    *,
    store: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Simulate the consumer groups of one Spark task, write their tables, and yield result rows.

    If the simulation of a group raises an exception, the group is marked as failed, and the others
    go on.

    Args:
        shared: the work units, the cluster metadata and the inputs of Streams simulations, shared
            with all tasks.
        policies: the policies to simulate.
        selection: the selected times.
        destination: output folder and id of the run.
        unit_numbers: batches with the indices of the task's work units.
        store: folder for results that the next run continues from; None to store none.
    """
    work, states, streams = shared
    totals = SimulationTotals()
    failed: dict[str, GroupFailure] = {}
    names: dict[str, None] = {}
    block_writer = None if store is None else BlockWriter(destination[0], store, task_name())
    positions: list[tuple[str, str]] = []
    mine = (number for batch in unit_numbers for number in batch.column(0).to_pylist())
    observers = {"replays": totals.add_rows}
    with closing(TableWriters(*destination, f"l{task_name()}", observers)) as writers:
        clusters = clusters_of(states.value)
        for unit in chain.from_iterable(work.value[number] for number in mine):
            group = unit.history.group
            if group in failed:
                continue
            names[group] = None
            known = None
            if block_writer is not None:
                digests = metadata_digests(states.value)
                past = unit.history
                stored = past.stored_rebalances, past.stored_simulations
                known = GroupStore(
                    destination[0], stored, digests, block_writer, past.stored_streams
                )
            try:
                simulation = _UnitSimulation(
                    unit, policies, clusters, selection, writers, totals, known
                )
                simulation.simulate_unit()
                simulation.simulate_streams(streams.value)
                if known is not None:
                    positions += _stored_positions(unit, known)
            except WHOLE_RUN:
                raise
            except Exception as e:  # noqa: BLE001 - the other groups are published
                failed[group] = GroupFailure.from_error(group, e)
                if block_writer is not None:
                    block_writer.finish_group()
        files = [("file", json.dumps(asdict(r))) for r in writers.close_with_receipts()]
        part = ("part", json.dumps({"name": writers.file_name, "groups": [*names]}))
    failures = [("failed", json.dumps(asdict(one))) for one in failed.values()]
    yield receipts_batch([*files, *failures, *positions, part, ("simulated", totals.to_json())])


def _stored_positions(unit: WorkUnit, store: GroupStore) -> list[tuple[str, str]]:
    """Return where the results of a simulation are stored for the next run, as result rows.

    Each row is a pair: the kind of result (such as "stored rebalances"), and its file positions as
    JSON text.

    Args:
        unit: the simulated rebalances or policies of a group.
        store: stored results of the group.
    """
    group = unit.history.group
    found = [
        ("stored simulations", json.dumps({"group": group, "policies": store.stored_simulations()}))
    ]
    if unit.chunks:
        found.append(
            (
                "stored rebalances",
                json.dumps({"group": group, "blocks": store.rebalances.list_places()}),
            )
        )
    if store.streams is not None:
        found.append(("stored streams", json.dumps({"group": group, "block": store.streams})))
    return found


@dataclass
class _UnitSimulation:
    """Simulation of one work unit: some rebalances or some policies of one consumer group.

    It writes the results to the output tables.

    Attributes:
        totals: the totals of the task, to which the unit's results are added.
        store: results that an earlier run has stored, and the store for the next run; None if
            nothing is stored.
    """

    unit: WorkUnit
    policies: Sequence[Policy]
    clusters: ClusterHistory
    selection: Selection
    writers: TableWriters
    totals: SimulationTotals
    store: GroupStore | None
    #: Time of the newest rebalance that was simulated on its own (ms).
    _last_ms: int = 0

    def simulate_unit(self) -> None:
        """Simulate the unit's rebalances and policies, and write the rows of the output tables.

        Rebalances are simulated one by one. Under each of the unit's policies, the whole history of
        the group is also simulated in sequence.
        """
        unit, history = self.unit, self.unit.history
        context = history.build_context(self.clusters)
        if unit.is_whole_group and self.store is None:
            # Each rebalance is read once. Simulations of both kinds share its problems and plans.
            simulated = self._simulate_each(history.rebalance_rows(), context)
            self._simulate_history(simulated, context)
            return
        # A store needs all rebalances before it finds what the whole history continues from.
        # Of a group of ordinary size nothing is read twice, and what it costs is looked up once.
        is_small = (
            history.rebalance_count <= _MOST_AT_ONCE and history.byte_count <= _MOST_BYTES_AT_ONCE
        )
        everything = tuple(history.rebalance_rows()) if unit.policies and is_small else None
        read = history.rebalance_rows(unit.chunks)
        for rebalance, row in (
            everything if everything is not None and unit.is_whole_group else read
        ):
            self._simulate_rebalance(rebalance, row, context)
        if unit.policies:
            whole = history.rebalance_rows() if everything is None else everything
            self._simulate_history((rebalance for rebalance, _ in whole), context)

    def _simulate_each(
        self, rebalances: Iterable[SpilledRebalance], context: SimulationContext
    ) -> Iterator[RecordedRebalance]:
        """Simulate recorded rebalances one by one under all policies, and yield each one
        afterwards.
        """
        for rebalance, row in rebalances:
            self._simulate_rebalance(rebalance, row, context)
            yield rebalance

    def simulate_streams(self, capture_data: StreamsInputs) -> None:
        """Simulate a Kafka Streams application under other settings, for table
        ``streams_settings``.

        Other groups are skipped. Of a group with several work units, only the first unit does this.
        ``capture_data`` has the changelog sizes and broker settings.
        """
        history = self.unit.history
        if history.group not in capture_data.groups or not self.unit.is_first:
            return
        store = self.store if self.unit.is_whole_group else None
        key = ""
        if store is not None:
            key = store.streams_key(capture_data.digest, self._last_ms + TAIL_MS)
        rows = None if store is None else store.find_streams_rows(key)
        if rows is None:
            rebalances = (rebalance for rebalance, _ in history.rebalance_rows())
            rows = list(streams_settings_rows(
                history.group, rebalances, self.clusters, capture_data, self.selection.from_ms
            ))  # fmt: skip
            if store is not None:
                store.store_streams_rows(key, rows)
        for row in rows:
            self.writers.write_row("streams_settings", row)

    def _simulate_rebalance(
        self,
        rebalance: RecordedRebalance,
        rebalance_row: dict[str, Any],
        context: SimulationContext,
    ) -> None:
        """Simulate one recorded rebalance under all policies, and write the output rows.

        The recorded assignment is also compared with the one that the group's own strategy
        computes. Results that an earlier run has stored are reused.

        Args:
            rebalance: the recorded rebalance.
            rebalance_row: its row of table ``rebalances``.
            context: data of the group that all simulations share, such as commit rates.
        """
        store, known = self.store, None
        key = "" if store is None else store.result_key(rebalance)
        self._last_ms = max(self._last_ms, rebalance.generation.timestamp_ms)
        if not self.selection.is_after_start(rebalance.generation.timestamp_ms):
            return
        if store is not None:
            known = store.rebalances.find_result(key, rebalance, context)
        if known is None:
            verdict = check_agreement(rebalance.generation, self.clusters)
            found = list(simulate_rebalance(rebalance, self.policies, context, agrees=verdict))
            if store is not None:
                store.rebalances.store_result(key, verdict, found)
            rows = [row.to_row() for row in found]
        else:
            verdict, rows = known
        self.writers.write_row("rebalances", rebalance_row | _columns_of_verdict(verdict))
        self.totals.add_verdict(self.unit.history.group, rebalance.generation, verdict)
        for row in rows:
            self._write_row(row)

    def _simulate_history(
        self, rebalances: Iterable[RecordedRebalance], context: SimulationContext
    ) -> None:
        """Simulate the consumer group's whole history under each policy, and write the output rows.

        If an earlier run has stored a simulation, it continues from there.

        Args:
            rebalances: the recorded rebalances in order.
            context: data of the group that all simulations share, such as commit rates.
        """
        policies = [self.policies[number] for number in self.unit.policies]
        continuations = None
        if self.store is not None:
            if not self.unit.is_whole_group:
                for rebalance, _ in self.unit.history.rebalance_rows():
                    self.store.result_key(rebalance)
            continuations = self.store.find_continuations(policies)
        selected = _SelectedRebalances(self.selection)
        recorded = selected.yield_and_mark(rebalances)
        for row in simulate_policies(recorded, policies, context, continuations):
            if (row.incarnation, row.generation) in selected:
                self._write_row(row.to_row())

    def _write_row(self, row: dict[str, Any]) -> None:
        self.writers.write_row("replays", {"group": self.unit.history.group, **row})


class _SelectedRebalances:
    """Set of the rebalances within the times that the user selected, for tests with ``in``.

    All rebalances must pass through `yield_and_mark` first, which fills the set. Keys are
    (incarnation, generation).
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._earlier: dict[tuple[int, int], None] = {}

    def yield_and_mark(
        self, rebalances: Iterable[RecordedRebalance]
    ) -> Iterator[RecordedRebalance]:
        """Yield all rebalances unchanged, and remember those before the selected time span.

        A simulation needs all rebalances, but only rows of the selected ones are written.
        """
        # Only a limited number of the newest ones is remembered, to bound memory.
        for rebalance in rebalances:
            if not self._selection.is_after_start(rebalance.generation.timestamp_ms):
                self._earlier[
                    rebalance.generation.incarnation, rebalance.generation.generation_number
                ] = None
                if len(self._earlier) > 4 * _MOST_AT_ONCE:
                    del self._earlier[next(iter(self._earlier))]
            yield rebalance

    def __contains__(self, key: object) -> bool:
        return key not in self._earlier


def _columns_of_verdict(verdict: Verdict) -> dict[str, Any]:
    """Return table columns that say whether Partage's strategy computes the recorded assignment.

    ``verdict`` is the result of this comparison. The columns belong to table ``rebalances``.
    """
    return {
        "agrees": verdict.agrees,
        "judged_by": verdict.judged_by,
        "disagreement": verdict.why if verdict.agrees is False or not verdict.terminates else None,
        "assumed": verdict.assumed,
    }


#: A group of so many rebalances is never cut.
_ORDINARY = 32
#: So many bytes in the spill file take about as long to simulate as an ordinary rebalance.
_BYTES_OF_A_REBALANCE = 4_096
#: Units of equal size that each core should have at least, so that all end at about one time.
_SHARES = 4


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """Part of the simulation work that one task does: some rebalances or some policies of a group.

    A large group is divided into several units, so that it does not delay the job.

    Attributes:
        history: position of the group's history in a spill file.
        chunks: indices of the history's chunks whose rebalances are simulated one by one; may be
            empty.
        policies: indices of the policies that are simulated over the whole history; may be empty.
        cost: number of rebalances times policies, weighted by their size, to balance tasks.
    """

    history: SpilledHistory
    chunks: tuple[int, ...]
    policies: tuple[int, ...]
    cost: int

    @property
    def is_whole_group(self) -> bool:
        """Return whether this one work unit contains the whole simulation of its consumer group.

        It then has all rebalances and all policies, so no other task simulates this group.
        """
        return bool(self.policies) and len(self.chunks) == len(self.history.chunks)

    @property
    def is_first(self) -> bool:
        """Return whether this work unit has the first rebalances of its consumer group.

        A large group has several work units, and exactly one of them is the first.
        """
        return 0 in self.chunks


def work_units(groups: Sequence[SpilledHistory], *, policies: int, cores: int) -> list[WorkUnit]:
    """Divide the simulations of all consumer groups into independent parts (work units) for Spark
    tasks.

    A large group is divided into several units, so that all cores end at about the same time. The
    most expensive units come first.

    Args:
        groups: positions of the groups' histories in spill files.
        policies: number of policies.
        cores: number of tasks that run at the same time.
    """
    total = sum(map(_estimate_cost, groups))
    share = max(_ORDINARY, total // (_SHARES * cores))
    made: list[WorkUnit] = []
    every = tuple(range(policies))
    for one in groups:
        cost = _estimate_cost(one)
        if cost <= share or cores == 1:  # policies that are simulated together are cheaper
            whole = tuple(range(len(one.chunks)))
            made.append(WorkUnit(one, whole, every, 2 * cost * policies))
            continue
        # Policies in one unit share problems, plans and the reading of the history.
        together = max(1, 2 * policies * share // cost)
        parts = [every[p : p + together] for p in range(0, policies, together)]
        made += [WorkUnit(one, (), part, cost * len(part)) for part in parts]
        made += _split_history(one, policies, max(1, share // 2))
    return sorted(made, key=lambda u: (-u.cost, u.history.group, u.chunks, u.policies))


def _estimate_cost(history: SpilledHistory) -> int:
    """Estimate the cost of simulating a consumer group's history under one policy.

    The unit is the cost of an ordinary rebalance; a large one counts more.
    """
    return history.rebalance_count + history.byte_count // _BYTES_OF_A_REBALANCE


def _split_history(
    history: SpilledHistory, policies: int, rebalances_per_unit: int
) -> list[WorkUnit]:
    """Divide the recorded rebalances of a large consumer group into work units for several tasks.

    Args:
        history: the group's history.
        policies: number of simulated policies.
        rebalances_per_unit: number of rebalances of one unit, weighted by their size.
    """
    made, chunks, count = [], [], 0
    for i, chunk in enumerate(history.chunks):
        chunks.append(i)
        count += chunk.rebalances + chunk.length // _BYTES_OF_A_REBALANCE
        if count >= rebalances_per_unit or i + 1 == len(history.chunks):
            made.append(WorkUnit(history, tuple(chunks), (), count * policies))
            chunks, count = [], 0
    return made


def pack_tasks(units: Sequence[WorkUnit], *, tasks: int) -> list[list[WorkUnit]]:
    """Distribute work units (parts of a group's simulation) over Spark tasks of about equal
    duration.

    Units are taken in descending order of cost, and each goes to the task with the lowest cost so
    far (longest processing time first). ``tasks`` is the maximum number of tasks.

    >>> from partage.jobs.replay.spill_files import SpilledChunk
    >>> history = SpilledHistory("g", SpilledChunk("", 0, 0, 0), ())
    >>> costs = [[u.cost for u in one] for one in pack_tasks(
    ...     [WorkUnit(history, (), (), cost) for cost in (9, 2, 2, 1)], tasks=3)]
    >>> costs
    [[9], [2, 1], [2]]
    """
    made: list[list[WorkUnit]] = [[] for _ in range(min(tasks, len(units)))]
    weight = [0] * len(made)
    for one in sorted(units, key=lambda u: -u.cost):
        lightest = weight.index(min(weight))
        made[lightest].append(one)
        weight[lightest] += one.cost + 1
    order = sorted(range(len(made)), key=lambda i: -weight[i])
    return [made[i] for i in order]
