"""One group's rows: from its records and commits in log order to the rows of the tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from partage.history.classic import Generation, Life
from partage.history.clusters import ClusterHistory
from partage.history.commits import CommitRun, Minutes
from partage.history.events import Event, events_of
from partage.history.groups import Found, GroupHistory
from partage.history.ownership import Ownership
from partage.history.pauses import Pause
from partage.history.problems import why_not
from partage.history.records import Place
from partage.history.server_records import GroupRecord
from partage.pipeline.decode import Kind
from partage.pipeline.rebalance_rows import RebalanceRows
from partage.pipeline.rows import (
    commit_row,
    event_row,
    interval_row,
    member_row,
    pause_row,
    rebalance_row,
    run_of,
)
from partage.pipeline.surroundings import Surroundings
from partage.pipeline.totals import GroupTotals
from partage.simulation.loads import Traffic
from partage.wire.remembering import Remembering

if TYPE_CHECKING:
    from partage.pipeline.write import RowWriter

__all__ = ["GroupRows"]


class GroupRows:
    """Feed rows of the decode job in the order of the log, then `finish`; tables go to
    ``writers``.

    In rows of ``rebalances`` the columns about agreement are left open: `pipeline.lives` fills
    them in, where strategies are asked.

    Attributes:
        generations: for whoever lives it again: all rebalances in order.
        pauses: of all rebalances, complete after `finish`.
    """

    def __init__(
        self,
        name: str,
        clusters: ClusterHistory,
        writers: RowWriter,
        around: Surroundings | None = None,
    ) -> None:
        self.name = name
        self.generations: list[Generation] = []
        self.pauses: list[Pause] = []
        self._clusters = clusters
        self._writers = writers
        known = around or Surroundings()
        self._history = GroupHistory(clusters, known.session_timeout_ms, known.moves)
        self._ownership = Ownership(self._history.book.id_of)
        self._rebalances = RebalanceRows()
        self._minutes = Minutes()
        self._traffic: dict[tuple[str, int], Traffic] = {}
        self._totals = GroupTotals(name)
        self._positions: tuple[Place, int] = (Place(-1, -1), 0)
        self._reads = Remembering()

    @property
    def rates(self) -> dict[tuple[str, int], float]:
        """(topic, partition) -> records a second, by the commits so far."""
        rates = {key: one.per_second for key, one in self._traffic.items()}
        return {key: rate for key, rate in rates.items() if rate is not None}

    def feed(self, row: dict[str, Any]) -> None:
        """One row in log order: a group record, or a run of commits that no record cuts."""
        if row["kind"] == Kind.GROUP_RECORD:
            self.record(row)
        else:
            self.commits(run_of(row))

    def finish(self) -> dict[str, Any]:
        """Write what is still open; the group's totals."""
        self._all(self._history.finish())
        for interval in self._ownership.finish():
            self._write("ownership", interval_row(interval))
        self._write_commits(self._minutes.finish())
        for row in self._rebalances.finish():
            self._write("rebalances", row)
        self._totals.missing(self._history.missing_before, self._history.missing_within)
        self._totals.incarnations = self._history.incarnation
        self._write("groups", self._totals.row())
        return self._totals.summary()

    def _write(self, table: str, row: dict[str, Any]) -> None:
        self._writers.add(table, {"group": self.name, **row})

    def commits(self, run: CommitRun) -> None:
        """A run of commits that no record of the group cuts."""
        self._all(self._history.commits(run))
        if run.first_offset is not None and run.last_offset is not None:
            traffic = self._traffic.setdefault((run.topic, run.partition), Traffic())
            traffic.add(run.first_ms, run.last_ms, run.first_offset, run.last_offset)
        self._write_commits(self._minutes.feed(run))

    def _write_commits(self, minutes: Iterable[CommitRun]) -> None:
        for run in minutes:
            self._totals.commits += run.commits
            self._totals.commit_place(run.first_place)
            self._write("commit_rates", commit_row(run))

    def record(self, row: dict[str, Any]) -> None:
        """A group record: the columns of `arriving.RECORD_COLUMNS`."""
        place = Place(row["log_partition"], row["log_offset"])
        read = self._reads.record(row["key"], row["value"])
        record = GroupRecord(place, row["timestamp_ms"], read.type, read.key, read.value)
        self._totals.record(record.kind, place, record.timestamp_ms)
        self._all(self._history.feed(record))

    def _all(self, found: Iterable[Found]) -> None:
        for one in found:
            self._found(one)

    def _found(self, found: Found) -> None:
        if isinstance(found, Pause):
            self.pauses.append(found)
            self._rebalances.pause(found)
            self._write("pauses", pause_row(found))
            return
        if isinstance(found, Event):
            self._events([found])
            return
        for interval in self._ownership.feed(found):
            self._write("ownership", interval_row(interval))
        if isinstance(found, Generation | Life):
            self._events(events_of(found))
        if isinstance(found, Generation):
            self._generation(found)

    def _events(self, events: Iterable[Event]) -> None:
        """Rows of table ``events``, numbered by the record that they are of."""
        for event in events:
            place, position = self._positions
            position = position + 1 if event.place == place else 0
            self._positions = (event.place, position)
            self._write("events", event_row(event, position))

    def _generation(self, found: Generation) -> None:
        row = rebalance_row(found, why_not(found.first))
        at_cluster = self._clusters.position_at(found.timestamp_ms)
        row["cluster_ms"] = self._clusters.times[at_cluster] if at_cluster >= 0 else None
        self._totals.rebalance(row)
        for done in self._rebalances.row(found, row):
            self._write("rebalances", done)
        at = {"incarnation": found.incarnation, "generation": found.number}
        for i, member in enumerate(found.first.members):
            self._write("members", {**at, "position": i, **member_row(member, found.first)})
        self.generations.append(found)
