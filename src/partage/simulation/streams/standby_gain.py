"""Gain and cost of one standby of each task, by simulating a trace with and without it."""

from __future__ import annotations

from dataclasses import dataclass

from partage.simulation.streams.application import SimulatedApplication
from partage.simulation.streams.sweep import SweepCell, simulate_cell

__all__ = ["StandbyGain", "standby_gain"]

_STANDBYS = "num.standby.replicas"


@dataclass(frozen=True, slots=True)
class StandbyGain:
    """The gain and the cost of one standby of each task, over a simulated trace.

    Attributes:
        standbys: ``num.standby.replicas`` with this standby; the simulation without it has one
            less.
        is_present: whether the application has this standby now; otherwise it would be a new one.
        worst_s: longest time in seconds in which a task had no owner with all its state.
        worst_with_s: the same with the standby.
        total_s, total_with_s: these times, summed over tasks.
        disk_bytes: size of one copy of all tasks' state.
        write_bytes_per_second: what the standbys read in normal operation.
    """

    standbys: int
    is_present: bool
    worst_s: float
    worst_with_s: float
    total_s: float
    total_with_s: float
    disk_bytes: int
    write_bytes_per_second: float


def standby_gain(application: SimulatedApplication, assignor: str) -> StandbyGain:
    """Simulate the application's trace with and without the last standby of each task.

    An application without standbys is simulated with one.

    Args:
        application: the application with its trace of events.
        assignor: name of the task assignor.

    Raises:
        PartageError: as in `simulate`.

    >>> from partage.simulation.streams.application_parser import read_application
    >>> app = read_application({
    ...     "subtopologies": [{"sources": {"in": 2}, "stores": {"s": {"records": 6000000}}}],
    ...     "clients": {name: {"restoreBytesPerSecond": 10_000_000} for name in "ab"},
    ...     "events": [{"at": 600, "do": "crash", "client": "b", "disk": False}]})
    >>> found = standby_gain(app, "high-availability")
    >>> found.worst_s, found.worst_with_s, found.disk_bytes
    (108.0, 48.0, 1200000000)
    """
    now = application.settings.num_standby_replicas
    standbys = max(1, now)
    before, after = (
        simulate_cell(application, SweepCell(assignor, ((_STANDBYS, str(count)),)))[1]
        for count in (standbys - 1, standbys)
    )
    states = [application.state_of(task) for task in application.layout.changelogs_of]
    return StandbyGain(
        standbys, now > 0, before.worst_unavailable, after.worst_unavailable,
        before.total_unavailable, after.total_unavailable,
        sum(one.records * one.record_bytes for one in states),
        sum(one.writes_per_second * one.record_bytes for one in states),
    )  # fmt: skip
