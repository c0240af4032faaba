"""Gain and cost of one standby of each task, by simulating a trace with and without it.

Both simulations have the same events. A crash at another time within a heartbeat interval changes
an outage by up to two heartbeats. Therefore the trace is simulated at several times within one
interval, the same for both settings (common random numbers), and the outages are means.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import mean

from partage.simulation.streams.application import SimulatedApplication
from partage.simulation.streams.sweep import SweepCell, prepared, simulate_cell
from partage.streams.kip1071_sticky import ServerSticky

__all__ = ["StandbyGain", "standby_gain"]

_STANDBYS = "num.standby.replicas"
#: Number of times within a heartbeat interval at which the trace is simulated.
_PHASES = 5


@dataclass(frozen=True, slots=True)
class StandbyGain:
    """The benefit and the cost of one standby replica per task, over a simulated trace of events.

    Attributes:
        standbys: ``num.standby.replicas`` with this standby; the simulation without it has one
            less.
        is_present: whether the application has this standby now; otherwise it would be a new one.
        worst_s: longest time in seconds in which a task had no owner with all its state.
        worst_with_s: the same with the standby.
        total_s, total_with_s: these times, summed over tasks.
        disk_bytes: size of one copy of all tasks' state.
        write_bytes_per_second: what the standbys read in normal operation.
        handover_s: additional seconds until a standby runs as the active task, compared with a
            task that has no copy. In a streams group the member first releases its standby and
            gets the active task with its next heartbeat; in a classic group it is 0.
    """

    standbys: int
    is_present: bool
    worst_s: float
    worst_with_s: float
    total_s: float
    total_with_s: float
    disk_bytes: int
    write_bytes_per_second: float
    handover_s: float


def standby_gain(application: SimulatedApplication, assignor: str) -> StandbyGain:
    """Simulate an application's trace with and without the last standby of each task,
    to compare them.

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
    (106.8, 46.8, 1200000000)
    """
    now = application.settings.num_standby_replicas
    standbys = max(1, now)
    runtime = application.runtime
    interval_ms, handover_ms = runtime.heartbeat_interval_ms, 0
    if isinstance(prepared(application, SweepCell(assignor))[1], ServerSticky):
        interval_ms = handover_ms = runtime.streams_heartbeat_interval_ms
    (worst, total), (worst_with, total_with) = (
        _mean_outages(application, SweepCell(assignor, ((_STANDBYS, str(count)),)), interval_ms)
        for count in (standbys - 1, standbys)
    )
    states = [application.state_of(task) for task in application.layout.changelogs_of]
    return StandbyGain(
        standbys, now > 0, worst, worst_with, total, total_with,
        sum(one.records * one.record_bytes for one in states),
        sum(one.writes_per_second * one.record_bytes for one in states),
        handover_ms / 1_000,
    )  # fmt: skip


def _mean_outages(
    application: SimulatedApplication, cell: SweepCell, interval_ms: int
) -> tuple[float, float]:
    """Return the worst and the total outage in seconds, means over events within an interval."""
    found = [
        simulate_cell(_delayed(application, i * interval_ms // _PHASES), cell)[1]
        for i in range(_PHASES)
    ]
    return mean(one.worst_unavailable for one in found), mean(
        one.total_unavailable for one in found
    )


def _delayed(application: SimulatedApplication, by_ms: int) -> SimulatedApplication:
    """Return the application with all events, and the end of the simulation, later by a time."""
    events = tuple(replace(one, at_ms=one.at_ms + by_ms) for one in application.events)
    return replace(application, events=events, length_ms=application.length_ms + by_ms)
