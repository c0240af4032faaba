"""One group's table rows, from its records and commits in log order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from partage.history.clusters import ClusterHistory
from partage.history.commits import CommitFolder, MinuteColumns, RunColumns
from partage.history.events import Event, Generation, LifecycleEvent, derive_events
from partage.history.group_history import GroupHistory, HistoryItem
from partage.history.ownership import OwnershipIntervals
from partage.history.pauses import Pause
from partage.history.problems import unsupported_reason
from partage.history.records import GroupRecord, LogPosition
from partage.jobs.replay.capture import LogContext
from partage.jobs.replay.group_input import GroupInput
from partage.jobs.replay.table_rows import (
    RebalanceRows,
    event_row,
    interval_row,
    member_row,
    pause_row,
    rebalance_row,
)
from partage.jobs.replay.totals import GroupTotals
from partage.simulation.commit_evidence import CommitRate

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.replay.output import RowWriter

__all__ = ["GroupRows", "Listener", "commit_columns"]


class Listener(Protocol):
    """Receives a group's rebalances and pauses, to simulate them later."""

    def generation(self, found: Generation) -> None:
        """Take a rebalance, in log order."""

    def pause(self, found: Pause) -> None:
        """Take a pause, some time after its rebalance."""


class GroupRows:
    """Turns one group's records and runs of commits into rows of tables.

    Call `feed` with rows of the decode job in log order, then `finish`. In rows of ``rebalances``
    the
    columns about agreement stay empty: `jobs.replay.simulations` fills them in.

    Args:
        name: of the group.
        clusters: the metadata over time.
        writers: of the tables.
        around: facts beside the records.
        listener: receives rebalances and pauses, to simulate them.
    """

    def __init__(
        self,
        name: str,
        clusters: ClusterHistory,
        writers: RowWriter,
        around: LogContext | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.name = name
        self._listener = listener
        self._clusters = clusters
        self._writers = writers
        known = around or LogContext()
        self._span = known.span
        self._history = GroupHistory(clusters, known.session_timeout_ms, known.moves)
        self._ownership = OwnershipIntervals(self._history.topics.id_of, known.span)
        self._rebalances = RebalanceRows()
        self._folding = CommitFolder()
        self._traffic: dict[tuple[str, int], CommitRate] = {}
        self._totals = GroupTotals(name)
        self._positions: tuple[LogPosition, int] = (LogPosition(-1, -1), 0)

    @property
    def rates(self) -> dict[tuple[str, int], float]:
        """Records per second by (topic, partition), from the commits so far."""
        rates = {key: one.per_second for key, one in self._traffic.items()}
        return {key: rate for key, rate in rates.items() if rate is not None}

    def feed(self, some: GroupInput) -> None:
        """Add rows in log order: group records, and runs of commits between them."""
        if len(some.runs):
            self._commits(some.runs, some.records)
        for record in some.records:
            self.record(record)

    def finish(self) -> dict[str, Any]:
        """Write the rows that are still open; return the group's totals."""
        self._all(self._history.finish())
        for interval in self._ownership.finish():
            self._write("ownership", interval_row(interval))
        self._write_commits(self._folding.finish())
        for row in self._rebalances.finish():
            self._write("rebalances", row)
        row, summary = self.totals()
        self._writers.add("groups", row)
        return summary

    def totals(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the group's row of table ``groups`` and its entry in the summary, as of now."""
        self._totals.missing(self._history.missing_before, self._history.missing_within)
        self._totals.incarnations = self._history.incarnation
        return {"group": self.name, **self._totals.row()}, self._totals.summary()

    def _write(self, table: str, row: dict[str, Any]) -> None:
        self._writers.add(table, {"group": self.name, **row})

    def _commits(self, runs: RunColumns, records: Iterator[GroupRecord]) -> None:
        """Add runs, and the records between them."""
        self._totals.commit_place(LogPosition(*runs.positions[:, 0].tolist()))
        ends, before = self._ends(runs), 0
        stretches, minutes = self._folding.feed(runs)
        last = -1
        for number, stretch in stretches:
            if number > last:
                for record in islice(records, number - before):
                    self.record(record)
                before = last = number
                for place in ends.get(number, ()):
                    self._all(self._history.moves_until(place))
            self._all(self._history.stretch(stretch))
            traffic = self._traffic.setdefault((stretch.topic, stretch.partition), CommitRate())
            traffic.stretch(stretch)
        self._write_commits(minutes)

    @staticmethod
    def _ends(runs: RunColumns) -> dict[int, list[LogPosition]]:
        """Return the last positions of each stretch, one a log partition."""
        stretch, partition = runs.column("stretch"), runs.positions[0]
        last = np.append((stretch[1:] != stretch[:-1]) | (partition[1:] != partition[:-1]), True)
        out: dict[int, list[LogPosition]] = {}
        for number, *place in zip(
            stretch[last].tolist(), *runs.positions[:, last].tolist(), strict=True
        ):
            out.setdefault(number, []).append(LogPosition(*place))
        return out

    def _write_commits(self, minutes: MinuteColumns) -> None:
        if len(minutes):
            self._totals.commits += int(minutes.column("commits").sum())
            columns = commit_columns(minutes, self.name)
            self._writers.add_columns("commit_rates", columns, len(minutes))

    def record(self, record: GroupRecord) -> None:
        """Add a group record."""
        self._totals.record(record.kind, record.position, record.timestamp_ms)
        self._all(self._history.feed(record))

    def _all(self, found: Iterable[HistoryItem]) -> None:
        for one in found:
            self._found(one)

    def _found(self, found: HistoryItem) -> None:
        if isinstance(found, Pause):
            found = self._believed(found)
            if self._listener is not None:
                self._listener.pause(found)
            self._rebalances.pause(found)
            self._write("pauses", pause_row(found))
            return
        if isinstance(found, Event):
            self._events([found])
            return
        for interval in self._ownership.feed(found):
            self._write("ownership", interval_row(interval))
        if isinstance(found, Generation | LifecycleEvent):
            self._events(derive_events(found))
        if isinstance(found, Generation):
            self._generation(found)

    def _believed(self, found: Pause) -> Pause:
        """Return a pause without a wrong clock's times, which would make it last for years."""
        if self._span is None:
            return found
        first, last = self._span
        before, after = (
            None if at is not None and not first <= at <= last else at
            for at in (found.last_ms, found.first_ms)
        )
        return found._replace(last_ms=before, first_ms=after)

    def _events(self, events: Iterable[Event]) -> None:
        """Write rows of table ``events``, numbered within their record."""
        for event in events:
            place, position = self._positions
            position = position + 1 if event.position == place else 0
            self._positions = (event.position, position)
            self._write("events", event_row(event, position))

    def _generation(self, found: Generation) -> None:
        row = rebalance_row(found, unsupported_reason(found.first))
        at_cluster = self._clusters.position_at(found.timestamp_ms)
        row["cluster_ms"] = self._clusters.times[at_cluster] if at_cluster >= 0 else None
        self._totals.rebalance(row)
        if self._listener is not None:
            self._listener.generation(found)
        for done in self._rebalances.row(found, row):
            self._write("rebalances", done)
        at = {"incarnation": found.incarnation, "generation": found.number}
        for i, member in enumerate(found.first.members):
            self._write("members", {**at, "position": i, **member_row(member, found.first)})


def commit_columns(minutes: MinuteColumns, group: str) -> dict[str, pa.Array]:
    """Return the columns of table ``commit_rates`` for whole minutes, without the run id."""
    import pyarrow as pa

    series = minutes.column("series")
    names = pa.array([topic for topic, _ in minutes.series], pa.string())
    numbers = np.array([partition for _, partition in minutes.series], np.int32)
    without, gap = minutes.column("commits") == 0, minutes.column("gap")
    columns = {
        "group": pa.repeat(pa.scalar(group), len(minutes)), "topic": names.take(pa.array(series)),
        "partition": pa.array(numbers[series]),
        "first_offset": pa.array(minutes.column("first_offset"), mask=without),
        "last_offset": pa.array(minutes.column("last_offset"), mask=without),
        "largest_gap_ms": pa.array(gap, mask=gap < 0),
    }  # fmt: skip
    same = ("minute_ms", "commits", "transactional", "tombstones")
    return columns | {name: pa.array(minutes.column(name)) for name in same}
