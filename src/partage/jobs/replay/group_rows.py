"""Convert one group's records and offset commits, in log order, to rows of the output tables.

A `GroupInput` has the part of a group that is in one Arrow batch. Its commits stay columns. Its
group records are unpacked one by one from the decode job's blocks (`decoded_rows`).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from partage.history.causes import is_follow_up
from partage.history.clients import identify_client, leader_client
from partage.history.clusters import ClusterHistory
from partage.history.commit_kernels import NEVER, RUN
from partage.history.commits import MINUTE_MS, CommitFolder, MinuteColumns, RunColumns
from partage.history.events import (
    INFERRED,
    Cause,
    Event,
    Generation,
    LifecycleEvent,
    compare_states,
    derive_events,
)
from partage.history.group_history import GroupHistory, HistoryItem
from partage.history.ownership import Interval, OwnershipIntervals
from partage.history.pauses import Pause
from partage.history.problems import unsupported_reason
from partage.history.records import (
    ClassicState,
    GroupRecord,
    LogPosition,
    MemberState,
    Pairs,
    subscription_hash,
)
from partage.history.storms import StormTracker
from partage.jobs.replay.capture import LogContext
from partage.jobs.replay.decoded_rows import BlockReader, DecodedKind, cut_by_bytes, unpack_runs
from partage.jobs.replay.summary import GroupTotals
from partage.jobs.replay.tally import ClockCorrections
from partage.simulation.commit_statistics import CommitRate
from partage.simulation.costs import RecordedStops, find_recorded_stops, rebalance_duration
from partage.simulation.metrics import Bounds
from partage.simulation.recorded_rebalances import (
    MOST_ENTRIES,
    OwnershipTracker,
    find_departed_members,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.replay.output import RowWriter
    from partage.jobs.replay.spill_files import RebalanceCollector

__all__ = [
    "STORED_CLASSES",
    "GroupInput",
    "GroupRows",
    "RebalanceRows",
    "commit_columns",
    "event_row",
    "interval_row",
    "member_row",
    "pause_row",
    "read_group_inputs",
    "rebalance_row",
]


@dataclass(frozen=True)
class GroupInput:
    """Records and offset commits of one consumer group, in log order, from one Arrow batch.

    Attributes:
        group: the group id.
        runs: commit runs: offset commits of one partition within a minute and between two group
            records. Column ``stretch`` is the number of ``records`` before each run.
        records: iterator of the group records; consume it before the next `GroupInput` is read.
    """

    group: str
    runs: RunColumns
    records: Iterator[GroupRecord]


def read_group_inputs(
    batches: Iterable[pa.RecordBatch], clocks: ClockCorrections | None = None
) -> Iterator[GroupInput]:
    """Yield the decoded records and offset commits of each consumer group, from sorted rows.

    A group whose rows span several batches yields one `GroupInput` per batch. Timestamps of brokers
    with wrong clocks (``clocks``) are corrected.
    """
    reader = BlockReader()
    for batch in chain.from_iterable(map(cut_by_bytes, batches)):
        wrong = clocks if clocks is not None and clocks.wrong else None
        yield from _split_batch(
            batch if wrong is None else _correct_records(batch, wrong), reader, wrong
        )


def _correct_records(rows: pa.RecordBatch, clocks: ClockCorrections) -> pa.RecordBatch:
    """Correct the timestamps of group records where a broker's clock was wrong; return the rows."""
    import pyarrow as pa

    at = rows.schema.get_field_index("timestamp_ms")
    cells = rows.column(at)
    times = cells.fill_null(0).to_numpy(zero_copy_only=False).copy()
    places = (rows.column(name).fill_null(-1).to_numpy(zero_copy_only=False)
              for name in ("log_partition", "log_offset"))  # fmt: skip
    clocks.correct_timestamps(*places, times)
    mask = cells.is_null().to_numpy(zero_copy_only=False)
    return rows.set_column(at, "timestamp_ms", pa.array(times, pa.int64(), mask=mask))


def _correct_runs(runs: RunColumns, clocks: ClockCorrections) -> None:
    """Correct the timestamps of offset commits in place, where a broker's clock was wrong."""
    # A corrected summary begins and ends at the same time.
    names = ("first_ms", "last_ms", "minute_ms", "gap", "advanced_ms")
    first, last, minute, gap, advanced = (runs.table[RUN.index(name)] for name in names)
    changed = clocks.correct_timestamps(*runs.positions, first, last, minute)
    minute[changed] = minute[changed] // MINUTE_MS * MINUTE_MS
    gap[changed] = np.minimum(gap[changed], 0)
    advanced[changed] = np.where(advanced[changed] == NEVER, NEVER, last[changed])


def _split_batch(
    rows: pa.RecordBatch, reader: BlockReader, clocks: ClockCorrections | None
) -> Iterator[GroupInput]:
    import pyarrow as pa

    groups = rows.column("group").dictionary_encode()
    names, code = groups.dictionary.to_pylist(), groups.indices.to_numpy()
    is_run = rows.column("kind").to_numpy() == DecodedKind.COMMIT_RUNS
    runs, many = unpack_runs(rows.filter(pa.array(is_run)))
    if clocks is not None:
        _correct_runs(runs, clocks)
    runs.table[1] = np.repeat(np.cumsum(~is_run)[is_run], many)
    records = reader.record_builders(rows.filter(pa.array(~is_run)))
    edges = [0, *(np.flatnonzero(code[1:] != code[:-1]) + 1).tolist(), len(code)]
    each = np.zeros(len(code), np.int64)
    each[is_run] = many
    runs_before = np.append(0, np.cumsum(each)).tolist()
    records_before = np.append(0, np.cumsum(~is_run)).tolist()
    for first, end in pairwise(edges):
        a, b = runs_before[first], runs_before[end]
        before, after = records_before[first], records_before[end]
        mine = RunColumns(
            runs.topics, runs.topic[a:b], runs.partition[a:b], runs.positions[:, a:b],
            runs.table[:, a:b].copy(),
        )  # fmt: skip
        mine.table[1] -= before
        # Each group has an iterator of its own, which another group's error does not end.
        read = map(lambda make: make(), records[before:after])  # noqa: C417 - an error ends a generator
        yield GroupInput(names[code[first]], mine, read)


def event_row(event: Event, event_index: int) -> dict[str, Any]:
    """Convert a membership event, such as a join or an eviction, to a row of table ``events``.

    ``event_index`` is its index among the events of the same log record.
    """
    return {
        "incarnation": event.incarnation, "generation": event.generation,
        "log_partition": event.position.partition, "log_offset": event.position.offset,
        "position": event_index, "time_ms": event.time_ms, "event": event.event,
        "member": event.member, "instance": event.instance, "source": event.source,
        "detail": event.detail,
    }  # fmt: skip


def interval_row(interval: Interval) -> dict[str, Any]:
    """Convert a time span in which a member owned a partition to a row of table ``ownership``."""
    names = (
        "incarnation", "topic_id", "topic", "partition", "member", "instance", "role", "from_ms",
        "to_ms", "from_generation", "to_generation",
    )  # fmt: skip
    return {name: getattr(interval, name) for name in names}


def pause_row(pause: Pause) -> dict[str, Any]:
    """Convert a pause in the consumption of a partition to a row of table ``pauses``."""
    return {**pause._asdict(), "pause_ms": pause.pause_ms}


def rebalance_row(generation: Generation, reason: str | None) -> dict[str, Any]:
    """Convert a new generation of a consumer group to a row of table ``rebalances``.

    Some columns are filled in later: those about its rebalance storm, its duration, and whether its
    strategy reproduces the assignment.

    Args:
        generation: the group generation that the rebalance created.
        reason: why policies are not simulated on this rebalance; None if they are.
    """
    state = generation.first
    change = compare_states(generation.previous.last if generation.previous else None, state)
    main = generation.causes[0] if generation.causes else Cause("unknown", INFERRED)
    topics = [c.detail or "" for c in generation.causes if c.kind == "topics"]
    words = [change.describe_cause] if not topics or not change.follow_up else []
    words += [f"topics changed: {'; '.join(topics)}"] if topics else []
    if main.other is not None:
        words.append(f"{main.kind} ({main.probability:.0%}) or {main.other}")
    return {
        "incarnation": generation.incarnation, "generation": generation.generation_number,
        "log_partition": generation.position.partition, "log_offset": generation.position.offset,
        "time_ms": generation.timestamp_ms, "state_time_ms": state.state_time_ms,
        "protocol_type": state.protocol_type, "strategy": state.strategy, "leader": state.leader,
        "leader_client": leader_client(state),
        "members": len(state.members),
        "partitions": sum(len(n) for m in state.members for _, n in m.assigned),
        "records": generation.records, "gap_before": generation.gap_before,
        "cause": ", ".join(words),
        "follow_up": change.follow_up and is_follow_up(generation, generation.previous),
        "joined": len(change.joined), "left": len(change.left),
        "restarted": len(change.restarted), "resubscribed": len(change.resubscribed),
        "clients": sorted({identify_client(m).name for m in state.members}),
        "replayed": reason is None, "why_not": reason, "protocol": generation.protocol,
        "cause_kind": main.kind, "cause_source": main.source,
        "cause_probability": main.probability, "cause_other": main.other,
    }  # fmt: skip


def member_row(member: MemberState, state: ClassicState) -> dict[str, Any]:
    """Convert a member of a consumer group, as of one generation, to a row of table ``members``."""
    client = identify_client(member)
    sent = member.subscription
    return {
        "member": member.id, "instance": member.instance, "client_id": member.client_id,
        "client_host": member.client_host, "client": client.name, "certainty": client.certainty,
        "leader": member.id == state.leader, "rack": sent.rack if sent else None,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "subscription": subscription_hash(sent.topics) if sent else None,
        "topics": list(sent.topics) if sent else [],
        "pattern": sent.pattern if sent else None,
        "subscription_version": sent.version if sent and sent.version >= 0 else None,
        "user_data": sent.user_data if sent else None,
        "claims": _pairs(sent.owned if sent else ()),
        "claims_generation": sent.generation if sent else -1,
        "assignment_version": member.assignment_version if member.assignment_version >= 0 else None,
        "assignment": _pairs(member.assigned),
    }  # fmt: skip


def _pairs(pairs: Pairs) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in pairs]


#: Rows that wait for later commits, if their rebalances have at most `MOST_ENTRIES`; older rows get
#: the duration that is known by then.
_MOST_PENDING = 256
#: (incarnation, generation) of a rebalance.
_Key = tuple[int, int]


@dataclass(slots=True)
class _PendingRow:
    """Incomplete row of table ``rebalances``, because the rebalance's duration is not yet known.

    The duration follows from pauses in consumption, which end with the next commit.

    Attributes:
        row: the row without its storm and duration.
        stops: the partitions that the rebalance stopped.
        bounds: bounds of its duration, computed from earlier pauses (ms).
        pauses: pauses that are not yet included in ``bounds``.
    """

    row: dict[str, Any]
    stops: RecordedStops
    bounds: list[Bounds] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)

    @property
    def key(self) -> _Key:
        return self.row["incarnation"], self.row["generation"]

    def duration_bounds(self, clusters: ClusterHistory) -> list[Bounds]:
        """Return bounds on the rebalance's duration (ms) from the pauses in consumption so far.

        There is one pair (lower, upper) for each stopped partition with a pause.
        """
        self.bounds += self.stops.stop_time_bounds(self.pauses, clusters)
        self.pauses = []
        return self.bounds

    def to_json_values(self, clusters: ClusterHistory) -> list[Any]:
        """Return this incomplete row as JSON values, so that a later run can complete it."""
        partitions: dict[int, list[int]] = {}
        for p, timeout_ms in self.stops.timeouts.items():
            partitions.setdefault(timeout_ms, []).append(p)
        return [self.row, [*partitions.items()], self.duration_bounds(clusters)]

    @classmethod
    def from_json_values(cls, stored: Sequence[Any]) -> _PendingRow:
        """Restore an incomplete row from the JSON values that `to_json_values` returned."""
        row, partitions, bounds = stored
        timeouts = {p: timeout_ms for timeout_ms, some in partitions for p in some}
        return cls(row, RecordedStops(row["time_ms"], timeouts), [Bounds(*one) for one in bounds])


class RebalanceRows:
    """Buffer for rows of table ``rebalances`` that later log records will complete.

    Later records decide whether the rebalance belongs to a storm (several rebalances in quick
    succession) and how long it took.

    Args:
        clusters: the cluster metadata over time.
    """

    def __init__(self, clusters: ClusterHistory) -> None:
        self._clusters = clusters
        self._storms: StormTracker[_PendingRow] = StormTracker()
        self._pending: deque[tuple[_PendingRow, int | None]] = deque()
        self._by_key: dict[_Key, list[_PendingRow]] = {}
        #: Pauses of the newest rebalance, and of those whose rows have not come yet.
        self._pauses: dict[_Key, list[Pause]] = {}
        self._newest: _Key = (-1, -1)
        self._written: _Key = (-1, -1)

    def export_state(self) -> str:
        """Return the incomplete rows of table ``rebalances`` as JSON text, for the next run."""
        # There may be hundreds of rows, and JSON packs plain values faster than
        # `history.state_store.pack_state`.
        storms, number = self._storms.export_state()
        waiting = [(one.to_json_values(self._clusters), *rest) for one, *rest in storms]
        pending = [(one.to_json_values(self._clusters), storm) for one, storm in self._pending]
        keys = self._newest, self._written
        return json.dumps([waiting, number, pending, [*self._pauses.items()], keys])

    def restore_state(self, state: str) -> None:
        """Restore the incomplete rows from the JSON text that `export_state` returned."""
        waiting, number, pending, pauses, (newest, written) = json.loads(state)
        restored = [(_PendingRow.from_json_values(one), *rest) for one, *rest in waiting]
        self._storms.restore_state((restored, number))
        self._pending = deque((_PendingRow.from_json_values(one), storm) for one, storm in pending)
        for one, *_ in (*self._pending, *restored):
            self._by_key.setdefault(one.key, []).append(one)
        self._pauses = {(key[0], key[1]): [Pause(*one) for one in some] for key, some in pauses}
        self._newest, self._written = tuple(newest), tuple(written)

    def add_row(
        self, generation: Generation, row: dict[str, Any], stops: RecordedStops
    ) -> Iterator[dict[str, Any]]:
        """Add the row of a rebalance, and yield older rows that have become complete.

        ``stops`` are the partitions that had no consumer during the rebalance.
        """
        pending = _PendingRow(row, stops)
        if pending.key != self._newest:
            self._pauses.pop(self._newest, None)
            self._newest = pending.key
        # A generation that was taken over has the number of its origin, and so the same pauses.
        pending.pauses += self._pauses.get(pending.key, ())
        self._by_key.setdefault(pending.key, []).append(pending)
        window = max((m.session_timeout_ms for m in generation.first.members), default=0)
        counts = row["cause_kind"] not in ("follow-up", "migration")
        time_ms = generation.timestamp_ms
        fed = self._storms.add_rebalance(pending, time_ms, max(window, 0), counts=counts)
        self._pending.extend(fed)
        while self._is_full():
            yield self._complete()

    def _is_full(self) -> bool:
        entries = sum(one.row["members"] + one.row["partitions"] for one, _ in self._pending)
        return len(self._pending) > _MOST_PENDING or entries > MOST_ENTRIES

    def add_pause(self, pause: Pause) -> None:
        """Add a pause in a partition's consumption to the row of the rebalance that caused it."""
        if pause.pause_ms is None:
            return
        key = (pause.incarnation, pause.generation)
        known = self._by_key.get(key, ())
        for pending in known:
            pending.pauses.append(pause)
        if key == self._newest or (not known and key >= self._written):
            self._pauses.setdefault(key, []).append(pause)

    def finish_rows(self) -> Iterator[dict[str, Any]]:
        """Complete the rows that still wait for later records, and yield them."""
        self._pending.extend(self._storms.finish_storms())
        while self._pending:
            yield self._complete()

    def _complete(self) -> dict[str, Any]:
        pending, storm = self._pending.popleft()
        key = pending.key
        self._by_key[key].pop(0)
        if not self._by_key[key]:
            del self._by_key[key]
        if key != self._written:
            self._pauses.pop(self._written, None)
            self._written = key
        length_ms = rebalance_duration(pending.duration_bounds(self._clusters))
        return pending.row | {
            "storm": storm,
            "stopped_low_ms": None if length_ms is None else int(length_ms.low),
            "stopped_high_ms": None if length_ms is None else int(length_ms.high),
        }


#: Classes in the stored state of a group besides those of its history.
STORED_CLASSES = (CommitRate,)


class GroupRows:
    """Converter of one consumer group's records and offset commits to rows of the output tables.

    Call `process_input` with decoded input in log order, then `finish_group`. The columns of
    ``rebalances`` about whether the strategy reproduces the assignment stay empty until the
    simulation.

    Args:
        name: the group id.
        clusters: the cluster metadata over time.
        writers: receives the rows of all tables.
        around: session timeout, coordinator moves and clocks of the cluster.
        collector: receives rebalances and pauses for the simulation; None without a simulation.
    """

    def __init__(
        self,
        name: str,
        clusters: ClusterHistory,
        writers: RowWriter,
        around: LogContext | None = None,
        collector: RebalanceCollector | None = None,
    ) -> None:
        self.name = name
        self._collector = collector
        self._clusters = clusters
        self._writers = writers
        self._around = known = around or LogContext()
        self._span = known.span
        self._history = GroupHistory(
            clusters, known.session_timeout_ms, known.moves, known.initial_delay_ms
        )
        self._ownership = OwnershipIntervals(self._history.topics.id_of, known.span)
        self._owners = OwnershipTracker(clusters)
        self._rebalances = RebalanceRows(clusters)
        self._folding = CommitFolder()
        self._traffic: dict[tuple[str, int], CommitRate] = {}
        self._totals = GroupTotals(name)
        self._positions: tuple[LogPosition, int] = (LogPosition(-1, -1), 0)

    def export_state(self) -> tuple[Any, ...]:
        """Return the consumer group's state as plain values, from which the next run continues."""
        # `history.state_store.pack_state` packs them with the classes `STORED_CLASSES`.
        return (
            self._history.to_bytes(level=0), self._ownership.export_state(),
            self._rebalances.export_state(), self._folding.export_state(), self._traffic,
            self._totals.export_state(), self._positions, self._owners.export_state(),
        )  # fmt: skip

    def restore_state(self, state: tuple[Any, ...]) -> None:
        """Restore the consumer group's state from the values that `export_state` returned.

        Raises:
            InvalidCaptureError: the state is of another version, or damaged.
        """
        history, ownership, rebalances, folding, self._traffic, totals, *rest = state
        self._positions, owners = rest
        self._owners.restore_state(owners)
        known = self._around
        self._history = GroupHistory.from_bytes(
            history, self._clusters, known.session_timeout_ms, known.moves, known.initial_delay_ms
        )
        self._ownership = OwnershipIntervals(self._history.topics.id_of, known.span)
        self._ownership.restore_state(ownership)
        self._rebalances.restore_state(rebalances)
        self._folding.restore_state(folding)
        self._totals.restore_state(totals)

    def commit_values(self) -> dict[str, Any]:
        """Return the part of the group's state that offset commits change, as JSON values."""
        series, minutes = self._folding.export_state()
        traffic = self._traffic.items()
        return {
            "history": self._history.commit_values(),
            "minutes": [series, np.frombuffer(minutes, np.int64).tolist()],
            "traffic": [[*pair, one.first_ms, one.last_ms, one.last_offset, one.records]
                        for pair, one in traffic],
            "commits": self._totals.commits, "seen": self.record_ranges,
        }  # fmt: skip

    def resume_commits(self, values: Mapping[str, Any]) -> None:
        """Restore only the part of the state that offset commits change, see `commit_values`."""
        self._history.resume_commits(values["history"])
        series, minutes = values["minutes"]
        numbers = np.array(minutes, np.int64).tobytes()
        self._folding.restore_state(([(topic, p) for topic, p in series], numbers))
        self._traffic = {(topic, p): CommitRate(*one) for topic, p, *one in values["traffic"]}
        self._totals.commits = values["commits"]
        seen = values["seen"]
        self._totals.seen_ms = None if seen["ms"] is None else tuple(seen["ms"])
        self._totals.log_partitions = set(seen["log_partitions"])

    @property
    def unknown_topic_ids(self) -> set[str]:
        """Topic ids in the group's records for which the cluster metadata has no topic name."""
        return self._history.topics.unknown_ids

    @property
    def rate_by_partition(self) -> dict[tuple[str, int], float]:
        """Records per second of each (topic, partition), measured from the commits so far."""
        rates = ((key, one.records_per_second) for key, one in self._traffic.items())
        return {key: rate for key, rate in rates if rate is not None}

    def process_input(self, group_input: GroupInput) -> None:
        """Process the group's next records and offset commits; call it with inputs in log order."""
        if len(group_input.runs):
            self._process_commits(group_input.runs, group_input.records)
        for record in group_input.records:
            self.process_record(record)

    def finish_group(self) -> dict[str, Any]:
        """Write the rows that waited for later records, and return the consumer group's totals."""
        self._write_items(self._history.finish_history())
        for interval in self._ownership.finish_intervals():
            self._write("ownership", interval_row(interval))
        self.finish_minutes()
        for row in self._rebalances.finish_rows():
            self._write("rebalances", row)
        row, summary = self.group_totals()
        self._writers.write_row("groups", row)
        return summary

    def finish_minutes(self) -> None:
        """Write the commit counts of the last, incomplete minutes to table ``commit_rates``."""
        self._write_commits(self._folding.finish_minutes())

    @property
    def record_ranges(self) -> dict[str, Any]:
        """Log partitions of the group's records, and their first and last time (ms), as a dict."""
        totals = self._totals
        return {"ms": totals.seen_ms, "log_partitions": sorted(totals.log_partitions)}

    def group_totals(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the consumer group's row of table ``groups``, and its entry in the summary."""
        self._totals.set_missing(self._history.missing_before, self._history.missing_within)
        self._totals.incarnations = self._history.deletion_count
        return {"group": self.name, **self._totals.to_table_row()}, self._totals.to_summary()

    def _write(self, table: str, row: dict[str, Any]) -> None:
        self._writers.write_row(table, {"group": self.name, **row})

    def _process_commits(self, runs: RunColumns, records: Iterator[GroupRecord]) -> None:
        """Process the group's offset commits and its group records together, in log order."""
        self._totals.set_first_position(LogPosition(*runs.positions[:, 0].tolist()))
        for log_partition in np.unique(runs.positions[0]).tolist():
            mine = runs.positions[0] == log_partition
            first, last = (
                runs.column_of_runs("first_ms")[mine],
                runs.column_of_runs("last_ms")[mine],
            )
            self._totals.extend_span(log_partition, int(first.min()), int(last.max()))
        ends, before = self._stretch_ends(runs), 0
        stretches, minutes = self._folding.add_runs(runs)
        last = -1
        for number, stretch in stretches:
            if number > last:
                for record in islice(records, number - before):
                    self.process_record(record)
                before = last = number
                for place in ends.get(number, ()):
                    self._write_items(self._history.moves_until(place))
            self._write_items(self._history.process_commit_stretch(stretch))
            traffic = self._traffic.setdefault((stretch.topic, stretch.partition), CommitRate())
            traffic.add_stretch(stretch)
        self._write_commits(minutes)

    @staticmethod
    def _stretch_ends(runs: RunColumns) -> dict[int, list[LogPosition]]:
        """Return the log positions of the last offset commits before each group record.

        The result is a dict by stretch number; a stretch is the commits between two group records.
        """
        stretch, partition = runs.column_of_runs("stretch"), runs.positions[0]
        last = np.append((stretch[1:] != stretch[:-1]) | (partition[1:] != partition[:-1]), True)
        out: dict[int, list[LogPosition]] = {}
        for number, *place in zip(
            stretch[last].tolist(), *runs.positions[:, last].tolist(), strict=True
        ):
            out.setdefault(number, []).append(LogPosition(*place))
        return out

    def _write_commits(self, minutes: MinuteColumns) -> None:
        if len(minutes):
            self._totals.commits += int(minutes.column_of_minutes("commits").sum())
            columns = commit_columns(minutes, self.name)
            self._writers.add_columns("commit_rates", columns, len(minutes))

    def process_record(self, record: GroupRecord) -> None:
        """Process the next record of the consumer group, in log order."""
        self._totals.count_record(record.group_protocol, record.position, record.timestamp_ms)
        self._write_items(self._history.process_record(record))

    def _write_items(self, items: Iterable[HistoryItem]) -> None:
        for item in items:
            self._write_item(item)

    def _write_item(self, item: HistoryItem) -> None:
        """Write one generation, event or pause of the group's history to the output tables."""
        if isinstance(item, Pause):
            item = self._without_wrong_times(item)
            if self._collector is not None:
                self._collector.add_pause(item)
            self._rebalances.add_pause(item)
            self._write("pauses", pause_row(item))
            return
        if isinstance(item, Event):
            self._write_events([item])
            return
        for interval in self._ownership.process_item(item):
            self._write("ownership", interval_row(interval))
        if isinstance(item, Generation | LifecycleEvent):
            self._write_events(derive_events(item))
        if isinstance(item, Generation):
            self._write_generation(item)

    def _without_wrong_times(self, pause: Pause) -> Pause:
        """Remove a pause's begin or end time if it is from a broker with a wrong clock."""
        # Such a time would make the pause last for years.
        if self._span is None:
            return pause
        first, last = self._span
        before, after = (
            None if at is not None and not first <= at <= last else at
            for at in (pause.last_ms, pause.first_ms)
        )
        return pause._replace(last_ms=before, first_ms=after)

    def _write_events(self, events: Iterable[Event]) -> None:
        # The events of one log record are numbered from 0.
        for event in events:
            place, position = self._positions
            position = position + 1 if event.position == place else 0
            self._positions = (event.position, position)
            self._write("events", event_row(event, position))

    def _write_generation(self, found: Generation) -> None:
        row = rebalance_row(found, unsupported_reason(found.first))
        at_cluster = self._clusters.position_at(found.timestamp_ms)
        row["cluster_ms"] = self._clusters.times[at_cluster] if at_cluster >= 0 else None
        self._totals.count_rebalance(row)
        if self._collector is not None:
            self._collector.add_generation(found)
        for done in self._rebalances.add_row(found, row, self._stopped_partitions(found)):
            self._write("rebalances", done)
        at = {"incarnation": found.incarnation, "generation": found.generation_number}
        for i, member in enumerate(found.first.members):
            self._write("members", {**at, "position": i, **member_row(member, found.first)})
        for interval in found.unread_intervals:
            self._write("unread", {**at, **interval._asdict()})

    def _stopped_partitions(self, generation: Generation) -> RecordedStops:
        """Return the partitions that had no consumer during a generation's rebalance."""
        # The simulation uses the same function, so its results are comparable.
        before = generation.previous
        if before is not None and before.incarnation != generation.incarnation:
            before = None
        departed = find_departed_members(generation, before, self._around.session_timeout_ms)
        rebalance = replace(self._owners.build_rebalance(generation), departures=tuple(departed))
        return find_recorded_stops(rebalance, self._clusters)


def commit_columns(minutes: MinuteColumns, group: str) -> dict[str, pa.Array]:
    """Convert a group's commit counts per minute to Arrow columns of table ``commit_rates``.

    The column with the run id is not included.
    """
    import pyarrow as pa

    series = minutes.column_of_minutes("series")
    names = pa.array([topic for topic, _ in minutes.series], pa.string())
    numbers = np.array([partition for _, partition in minutes.series], np.int32)
    without, gap = minutes.column_of_minutes("commits") == 0, minutes.column_of_minutes("gap")
    columns = {
        "group": pa.repeat(pa.scalar(group), len(minutes)), "topic": names.take(pa.array(series)),
        "partition": pa.array(numbers[series]),
        "first_offset": pa.array(minutes.column_of_minutes("first_offset"), mask=without),
        "last_offset": pa.array(minutes.column_of_minutes("last_offset"), mask=without),
        "largest_gap_ms": pa.array(gap, mask=gap < 0),
    }  # fmt: skip
    same = ("minute_ms", "commits", "transactional", "tombstones")
    return columns | {name: pa.array(minutes.column_of_minutes(name)) for name in same}
