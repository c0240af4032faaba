"""Entry points of the Streams simulation: one application, or many assignors and settings.

`standby_gain` compares two simulations with the same events. A crash at another time within a
heartbeat interval changes an outage by up to two heartbeats. Therefore the trace is simulated at
several times within one interval, the same for both settings (common random numbers), and the
outages are means. `settings_outcome` does the same for one combination of settings;
`settings_to_compare` lists those that the report compares for a recorded application.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import product
from math import prod
from statistics import mean

from partage.errors import InvalidConfigError, UnknownStrategyError
from partage.simulation.streams.application import SimulatedApplication
from partage.simulation.streams.application_parser import replace_settings
from partage.simulation.streams.classic_group import ClassicGroupSimulation
from partage.simulation.streams.client_state import ObservedState
from partage.simulation.streams.result import (
    SimulationResult,
    StreamsMetrics,
    find_outages,
    measure_streams_result,
)
from partage.simulation.streams.streams_group import StreamsGroupSimulation
from partage.streams import TaskAssignor, find_assignor
from partage.streams.kip1071_sticky import SERVER_ASSIGNORS, ServerSticky, ServerSticky43
from partage.streams.registry import KIP_441_DOCUMENT, Kip441Proposal

__all__ = [
    "SettingsOutcome",
    "StandbyGain",
    "SweepCell",
    "apply_cell",
    "settings_outcome",
    "settings_to_compare",
    "simulate_application",
    "simulate_cell",
    "standby_gain",
    "sweep_cells",
]

_MOST_CELLS = 10_000
_BALANCE_FACTOR = "balance_factor"


def simulate_application(
    application: SimulatedApplication,
    assignor: TaskAssignor | ServerSticky,
    observed: Sequence[ObservedState] = (),
) -> SimulationResult:
    """Simulate a Kafka Streams application over its trace of events, with a task assignor.

    In a classic group, a dead member is evicted one session timeout later, and a rebalance that
    began earlier waits for it. A task that moves is revoked in one rebalance and assigned in the
    next. In a streams group (KIP-1071) tasks move one by one with the members' heartbeats.

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
    >>> spans = simulate_application(app, HighAvailability()).spans
    >>> [(span.client, str(span.task), span.to_ms) for span in spans]
    [('a', '0_0', 60000), ('b', '0_1', 60000)]
    """
    if isinstance(assignor, ServerSticky):
        return StreamsGroupSimulation(application, assignor).run_simulation()
    return ClassicGroupSimulation(application, assignor, observed).run_simulation()


@dataclass(frozen=True)
class SweepCell:
    """One combination of a task assignor and settings, which a parameter sweep simulates.

    Attributes:
        assignor: name of the assignor.
        config: (Kafka's name, value) pairs of the settings that differ from the application's.
    """

    assignor: str
    config: tuple[tuple[str, str], ...] = ()


def sweep_cells(assignors: Sequence[str], sweeps: Mapping[str, Sequence[str]]) -> list[SweepCell]:
    """Return all combinations of task assignors and settings; the last setting varies fastest.

    ``sweeps`` is a dict from Kafka's name of a setting to its values.

    Raises:
        InvalidConfigError: there are more than 10,000 combinations.
        UnknownStrategyError: no assignor has this name.

    >>> values = {"max.warmup.replicas": ["1", "2"]}
    >>> [one.config for one in sweep_cells(["high-availability"], values)]
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
    """Simulate an application under one combination of assignor and settings; return result and
    metrics.

    ``cell`` is the combination.

    Raises:
        PartageError: as in `replace_settings` and `simulate_application`.
    """
    settings, assignor = apply_cell(application, cell)
    result = simulate_application(settings, assignor)
    return result, measure_streams_result(result)


def apply_cell(
    application: SimulatedApplication, cell: SweepCell
) -> tuple[SimulatedApplication, TaskAssignor | ServerSticky]:
    """Apply one combination of a parameter sweep (``cell``) to a simulated Streams application.

    Return the application with the combination's settings, and its task assignor.
    ``balance_factor`` is not a Kafka setting, but a parameter of the algorithm proposed in KIP-441.

    Raises:
        InvalidConfigError: a setting is invalid, or ``balance_factor`` is set for another assignor.
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
    return replace_settings(application, config), assignor


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
    """The benefit and the cost of one standby replica per task, found by simulation.

    The same trace of events, such as crashes, is simulated with and without the standby.

    Attributes:
        standbys: ``num.standby.replicas`` of the simulation with this standby; the other simulation
            has one less.
        is_present: whether the application has this standby now; otherwise it would be a new one.
        worst_s: the longest outage in seconds without the standby. An outage is a time in which a
            task has no owner with all its state.
        worst_with_s: the longest outage with the standby.
        total_s, total_with_s: length of all outages, summed over tasks.
        disk_bytes: size of one copy of all tasks' state.
        write_bytes_per_second: bytes per second that the standbys read in normal operation.
        handover_s: additional seconds until a standby runs as the active task, compared with a task
            that has no copy. In a streams group the member first releases its standby and gets the
            active task with its next heartbeat; in a classic group it is 0.
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
    """Compare a Streams application's simulated outages with its standbys and with one standby
    less.

    An application without standbys is simulated with one and with none.

    Args:
        application: the application with its trace of events.
        assignor: name of the task assignor.

    Raises:
        PartageError: as in `simulate_application`.

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
    found = apply_cell(application, SweepCell(assignor))[1]
    if isinstance(found, ServerSticky):
        interval_ms = runtime.streams_heartbeat_interval_ms
        handover_ms = interval_ms if found.is_4_3 else 0
    (worst, total), (worst_with, total_with) = (
        _simulate_mean_outages(
            application, SweepCell(assignor, ((_STANDBYS, str(count)),)), interval_ms
        )
        for count in (standbys - 1, standbys)
    )
    states = [application.state_of(task) for task in application.layout.changelogs_of]
    return StandbyGain(
        standbys, now > 0, worst, worst_with, total, total_with,
        sum(one.records * one.record_bytes for one in states),
        sum(one.writes_per_second * one.record_bytes for one in states),
        handover_ms / 1_000,
    )  # fmt: skip


def _simulate_mean_outages(
    application: SimulatedApplication, cell: SweepCell, interval_ms: int
) -> tuple[float, float]:
    """Return the longest and the total outage of Streams tasks in seconds, as means over several
    runs.

    An outage depends on when its event occurs between two heartbeats. So each run delays the events
    by another fraction of ``interval_ms``, the heartbeat interval. ``cell`` has assignor and
    settings.
    """
    found = [
        simulate_cell(_with_delayed_events(application, i * interval_ms // _PHASES), cell)[1]
        for i in range(_PHASES)
    ]
    return mean(one.worst_unavailable for one in found), mean(
        one.total_unavailable for one in found
    )


def _with_delayed_events(application: SimulatedApplication, by_ms: int) -> SimulatedApplication:
    """Return a copy of an application whose events, and whose simulation's end, are delayed by
    ``by_ms``.

    With different delays, an event occurs at different times between two heartbeats.
    """
    events = tuple(replace(one, at_ms=one.at_ms + by_ms) for one in application.events)
    return replace(application, events=events, length_ms=application.length_ms + by_ms)


# -- a recorded application under other settings ---------------------------------------------------

_WARMUPS, _LAG = "max.warmup.replicas", "acceptable.recovery.lag"
_PROBING, _RACKS = "probing.rebalance.interval.ms", "rack.aware.assignment.strategy"
_SESSION, _SERVER_SESSION = "session.timeout.ms", "streams.session.timeout.ms"
#: Session timeouts that are compared (ms): Kafka's default, and a short one.
_SESSIONS_MS = (45_000, 10_000)
_HIGH_AVAILABILITY = "streams:high-availability"


@dataclass(frozen=True, slots=True)
class SettingsOutcome:
    """Simulated results of an application under one combination of assignor and settings.

    All values are means over several simulations, so counts may be fractions. In an outage, a task
    has no owner with all its state.

    Attributes:
        rebalances: rebalances after the first.
        moved: how often a task began to run on another client than before.
        outages: number of outages.
        outage_s: their total length in seconds, summed over tasks.
        worst_outage_s: the longest one, in seconds.
        restored_bytes: bytes that clients read to restore task state.
        disk_bytes: mean size of the state in addition to that of active tasks.
    """

    rebalances: float
    moved: float
    outages: float
    outage_s: float
    worst_outage_s: float
    restored_bytes: float
    disk_bytes: float

    @property
    def mean_outage_s(self) -> float:
        """Mean duration of an outage in seconds; 0 without outages.

        An outage is a time in which a task had no owner with all its state.
        """
        return self.outage_s / self.outages if self.outages else 0.0


def settings_outcome(
    application: SimulatedApplication, cell: SweepCell, *, phases: int = _PHASES
) -> SettingsOutcome:
    """Simulate a Streams application several times under the same settings; return mean results.

    Each simulation shifts the events within a heartbeat interval, because outages depend on when an
    event occurs between two heartbeats.

    Args:
        application: the application with its trace of events.
        cell: the assignor and the settings that are changed.
        phases: number of simulations.

    Raises:
        PartageError: as in `simulate_cell`.
    """
    runtime = application.runtime
    is_server = isinstance(apply_cell(application, cell)[1], ServerSticky)
    interval_ms = (
        runtime.streams_heartbeat_interval_ms if is_server else runtime.heartbeat_interval_ms
    )
    rows = []
    for i in range(phases):
        delayed = _with_delayed_events(application, i * interval_ms // phases)
        result, metrics = simulate_cell(delayed, cell)
        lengths = find_outages(result)
        rows.append((
            metrics.rebalances, metrics.moved, len(lengths), sum(lengths) / 1_000,
            max(lengths, default=0) / 1_000, metrics.restored_bytes, metrics.standby_bytes,
        ))  # fmt: skip
    return SettingsOutcome(*(mean(column) for column in zip(*rows, strict=True)))


def settings_to_compare(
    application: SimulatedApplication, assignor: str, *, has_racks: bool
) -> Iterator[SweepCell]:
    """Yield the current settings of a recorded Streams application, then alternatives to simulate.

    Args:
        application: the application with its present settings.
        assignor: name of its present assignor.
        has_racks: whether its clients and all of its partitions have racks.

    >>> from partage.simulation.streams.application_parser import read_application
    >>> app = read_application({"subtopologies": [{"sources": {"in": 2}}], "clients": {"a": {}}})
    >>> [one.config for one in settings_to_compare(app, "streams:server-sticky@4.3",
    ...                                            has_racks=False)][:2]
    [(), (('streams.session.timeout.ms', '10000'),)]
    """
    is_server = isinstance(_find_assignor(assignor), ServerSticky)
    is_stateful = bool(application.layout.changelogs_of)
    yield SweepCell(assignor)
    if is_stateful:
        yield from _standby_cells(application, assignor)
    if not is_server and is_stateful:
        settings = application.settings
        for key, now, values in (
            (_WARMUPS, settings.max_warmup_replicas, (1, 2, 8)),
            (_LAG, settings.acceptable_recovery_lag, (0, 1_000_000)),
            (_PROBING, settings.probing_rebalance_interval_ms, (60_000,)),
        ):
            yield from _changes(assignor, key, now, values)
    if not is_server and has_racks and assignor == _HIGH_AVAILABILITY:
        for strategy in ("min_traffic", "balance_subtopology"):
            yield SweepCell(assignor, ((_RACKS, strategy),))
    runtime = application.runtime
    session = _SERVER_SESSION if is_server else _SESSION
    now_ms = runtime.streams_session_timeout_ms if is_server else runtime.session_timeout_ms
    yield from _changes(assignor, session, now_ms, _SESSIONS_MS)
    if is_server:
        yield from (SweepCell(one.name) for one in SERVER_ASSIGNORS if one.name != assignor)
        yield SweepCell(_HIGH_AVAILABILITY)
    else:
        yield SweepCell(ServerSticky43.name)


def _standby_cells(application: SimulatedApplication, assignor: str) -> Iterator[SweepCell]:
    """Yield settings with 0, 1 and 2 standby replicas, as far as there are enough clients.

    The application's own number is left out. ``assignor`` is the name of its assignor.
    """
    now = application.settings.num_standby_replicas
    most = min(2, len(application.clients) - 1)
    yield from _changes(assignor, _STANDBYS, now, range(most + 1))


def _changes(assignor: str, key: str, now: int, values: Sequence[int]) -> Iterator[SweepCell]:
    return (SweepCell(assignor, ((key, str(value)),)) for value in values if value != now)
