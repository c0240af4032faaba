"""Entry points of the Streams simulation: one application, or many assignors and settings.

`standby_gain` compares two simulations with the same events. A crash at another time within a
heartbeat interval changes an outage by up to two heartbeats. Therefore the trace is simulated at
several times within one interval, the same for both settings (common random numbers), and the
outages are means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import product
from math import prod
from statistics import mean

from partage.errors import InvalidConfigError, UnknownStrategyError
from partage.simulation.streams.application import SimulatedApplication
from partage.simulation.streams.application_parser import configured
from partage.simulation.streams.classic_group import ClassicGroupSimulation
from partage.simulation.streams.client_state import ObservedState
from partage.simulation.streams.result import SimulationResult, StreamsMetrics, measure
from partage.simulation.streams.streams_group import StreamsGroupSimulation
from partage.streams import TaskAssignor, find_assignor
from partage.streams.kip1071_sticky import SERVER_ASSIGNORS, ServerSticky
from partage.streams.registry import KIP_441_DOCUMENT, Kip441Proposal

__all__ = [
    "StandbyGain",
    "SweepCell",
    "cells",
    "prepared",
    "simulate",
    "simulate_cell",
    "standby_gain",
]

_MOST_CELLS = 10_000
_BALANCE_FACTOR = "balance_factor"


def simulate(
    application: SimulatedApplication,
    assignor: TaskAssignor | ServerSticky,
    observed: Sequence[ObservedState] = (),
) -> SimulationResult:
    """Simulate a Kafka Streams application over its trace of events, with a task assignor.

    In a classic group the coordinator evicts a dead member one session timeout later. A rebalance
    that begins before waits for that; members keep their tasks meanwhile. A task that moves is
    revoked in one rebalance and assigned in the next. In a streams group (`ServerSticky`, KIP-1071)
    tasks move one by one with the members' heartbeats.

    Args:
        application: the application with its trace of events.
        assignor: the assignor of the group's leader, or of its coordinator.
        observed: states that a real leader saw at its first rebalances, in order; later rebalances
            use the simulated state. A coordinator ignores state.

    Raises:
        InvalidTopologyError: as in `partage.streams.rebalance`.
        InvalidConfigError, UnsupportedProblemError: the assignor rejects the application.

    >>> from partage.simulation.streams.application_parser import read_application
    >>> app = read_application({"seconds": 60, "subtopologies": [{"sources": {"in": 2}}],
    ...             "clients": {"a": {}, "b": {}}})
    >>> from partage.streams import HighAvailability
    >>> spans = simulate(app, HighAvailability()).spans
    >>> [(span.client, str(span.task), span.to_ms) for span in spans]
    [('a', '0_0', 60000), ('b', '0_1', 60000)]
    """
    if isinstance(assignor, ServerSticky):
        return StreamsGroupSimulation(application, assignor).run()
    return ClassicGroupSimulation(application, assignor, observed).run()


@dataclass(frozen=True)
class SweepCell:
    """One combination of a task assignor and settings in a parameter sweep.

    Attributes:
        assignor: name of the assignor.
        config: settings that differ from the application's, by Kafka's names.
    """

    assignor: str
    config: tuple[tuple[str, str], ...] = ()


def cells(assignors: Sequence[str], sweeps: Mapping[str, Sequence[str]]) -> list[SweepCell]:
    """Return all combinations of task assignors and settings; the last setting varies fastest.

    Raises:
        InvalidConfigError: there are more than 10,000 combinations.
        UnknownStrategyError: no assignor has this name.

    >>> [one.config for one in cells(["high-availability"], {"max.warmup.replicas": ["1", "2"]})]
    [(('max.warmup.replicas', '1'),), (('max.warmup.replicas', '2'),)]
    """
    names = list(dict.fromkeys(_find_assignor(one).name for one in assignors))
    count = len(names) * prod(len(values) for values in sweeps.values())
    if count > _MOST_CELLS:
        raise InvalidConfigError("--sweep", f"must make at most {_MOST_CELLS} combinations", count)
    return [
        SweepCell(name, tuple(zip(sweeps, values, strict=True)))
        for name in names
        for values in product(*sweeps.values())
    ]


def simulate_cell(
    application: SimulatedApplication, cell: SweepCell
) -> tuple[SimulationResult, StreamsMetrics]:
    """Simulate one combination of a parameter sweep; return the result and its metrics.

    Raises:
        PartageError: as in `configured` and `simulate`.
    """
    settings, assignor = prepared(application, cell)
    result = simulate(settings, assignor)
    return result, measure(result)


def prepared(
    application: SimulatedApplication, cell: SweepCell
) -> tuple[SimulatedApplication, TaskAssignor | ServerSticky]:
    """Apply the settings of one combination of a sweep; return the application and the assignor.

    ``balance_factor`` is not a Kafka setting: it belongs to the document of KIP-441.

    Raises:
        InvalidConfigError: a setting is invalid, or another assignor gets ``balance_factor``.
    """
    config = dict(cell.config)
    factor = config.pop(_BALANCE_FACTOR, None)
    assignor = _find_assignor(cell.assignor)
    if factor is not None:
        if not isinstance(assignor, Kip441Proposal):
            what = f"is a setting of {KIP_441_DOCUMENT} only"
            raise InvalidConfigError(_BALANCE_FACTOR, what, assignor.name)
        if not (factor.isascii() and factor.isdigit()):
            raise InvalidConfigError(_BALANCE_FACTOR, "must be a whole number >= 1", factor)
        assignor = assignor.with_balance_factor(int(factor[:9]))
    return configured(application, config), assignor


def _find_assignor(name: str) -> TaskAssignor | ServerSticky:
    for one in SERVER_ASSIGNORS:
        if name in {one.name, one.name.removeprefix("streams:"), one.exact_to.split()[0]}:
            return one
    try:
        return find_assignor(name)
    except UnknownStrategyError as error:
        known = [*error.known, *(one.name for one in SERVER_ASSIGNORS)]
        close = get_close_matches(name, known, n=2)
        raise UnknownStrategyError(name, known=known, close=close) from None


# -- gain and cost of a standby --------------------------------------------------------------------

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
    found = prepared(application, SweepCell(assignor))[1]
    if isinstance(found, ServerSticky):
        interval_ms = runtime.streams_heartbeat_interval_ms
        handover_ms = interval_ms if found.is_4_3 else 0
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
    """Return the worst and the total outage of tasks in seconds, averaged over shifted event times.

    The events are delayed by several times within ``interval_ms``, because an outage depends on
    when in the interval it begins.
    """
    found = [
        simulate_cell(_delayed(application, i * interval_ms // _PHASES), cell)[1]
        for i in range(_PHASES)
    ]
    return mean(one.worst_unavailable for one in found), mean(
        one.total_unavailable for one in found
    )


def _delayed(application: SimulatedApplication, by_ms: int) -> SimulatedApplication:
    """Return the application with all events and the simulation's end delayed by ``by_ms``."""
    events = tuple(replace(one, at_ms=one.at_ms + by_ms) for one in application.events)
    return replace(application, events=events, length_ms=application.length_ms + by_ms)
