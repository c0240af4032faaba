"""Entry points of the Streams simulation: one application, or many assignors and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from math import prod

from partage.errors import InvalidConfigError, UnknownStrategyError
from partage.simulation.streams.application import SimulatedApplication
from partage.simulation.streams.application_parser import configured
from partage.simulation.streams.classic_group import ClassicGroupSimulation
from partage.simulation.streams.client_state import ObservedState
from partage.simulation.streams.result import SimulationResult, StreamsMetrics, measure
from partage.simulation.streams.streams_group import StreamsGroupSimulation
from partage.streams import TaskAssignor, find_assignor
from partage.streams.kip1071_sticky import ServerSticky
from partage.streams.registry import KIP_441_DOCUMENT, Kip441Proposal

__all__ = ["SweepCell", "cells", "prepared", "simulate", "simulate_cell"]

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
    server_side = ServerSticky()
    names = {server_side.name, server_side.name.removeprefix("streams:")}
    if name in names | {server_side.exact_to.split()[0]}:
        return server_side
    try:
        return find_assignor(name)
    except UnknownStrategyError as error:
        known = [*error.known, server_side.name]
        close = get_close_matches(name, known, n=2)
        raise UnknownStrategyError(name, known=known, close=close) from None
