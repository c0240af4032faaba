"""The application played on a clock, under the protocol that its assignor belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product

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


def simulate(
    application: SimulatedApplication,
    assignor: TaskAssignor | ServerSticky,
    told: Sequence[ObservedState] = (),
) -> SimulationResult:
    """Play an application under an assignor.

    In a classic group a member that is gone without a word is missed one session timeout later,
    and a rebalance that begins before that waits for it; members keep what they have meanwhile.
    A task that moves is given up in one rebalance and taken over in the next. In a streams group
    (`ServerSticky`, KIP-1071) tasks change hands one by one with the members' heartbeats.

    Args:
        application: with its trace of events.
        assignor: of the group's leader, or of its coordinator.
        told: state as a real leader saw it at its first rebalance, its second and so on; the
            model's own counts after the last one. A coordinator looks at no state.

    Raises:
        InvalidTopologyError: as `partage.streams.rebalance`.
        InvalidConfigError, UnsupportedProblemError: the assignor refuses the application.

    >>> from partage.simulation.streams.application_parser import read_application
    >>> app = read_application({"seconds": 60, "subtopologies": [{"sources": {"in": 2}}],
    ...             "clients": {"a": {}, "b": {}}})
    >>> from partage.streams import HighAvailability
    >>> [(one.client, str(one.task), one.to_ms) for one in simulate(app, HighAvailability()).spans]
    [('a', '0_0', 60000), ('b', '0_1', 60000)]
    """
    if isinstance(assignor, ServerSticky):
        return StreamsGroupSimulation(application, assignor).run()
    return ClassicGroupSimulation(application, assignor, told).run()


_MOST_CELLS = 10_000
_BALANCE_FACTOR = "balance_factor"


@dataclass(frozen=True)
class SweepCell:
    """One combination.

    Attributes:
        assignor: by name.
        config: settings that differ from the application's, by Kafka's names.
    """

    assignor: str
    config: tuple[tuple[str, str], ...] = ()


def cells(assignors: Sequence[str], sweeps: Mapping[str, Sequence[str]]) -> list[SweepCell]:
    """Every assignor with every combination of settings, the last setting changing fastest.

    Raises:
        InvalidConfigError: more than 10,000 of them.
        UnknownStrategyError: there is no such assignor.

    >>> [one.config for one in cells(["high-availability"], {"max.warmup.replicas": ["1", "2"]})]
    [(('max.warmup.replicas', '1'),), (('max.warmup.replicas', '2'),)]
    """
    names = list(dict.fromkeys(_found(one).name for one in assignors))
    count = len(names)
    for values in sweeps.values():
        count *= len(values)
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
    """Play one combination.

    Raises:
        PartageError: as `partage.simulation.streams.application_parser.configured` and `simulate`.
    """
    settings, assignor = prepared(application, cell)
    played = simulate(settings, assignor)
    return played, measure(played)


def prepared(
    application: SimulatedApplication, cell: SweepCell
) -> tuple[SimulatedApplication, TaskAssignor | ServerSticky]:
    """Return the application with the settings of a combination, and its assignor.

    ``balance_factor`` is no setting of Kafka: it belongs to KIP-441's document.

    Raises:
        InvalidConfigError: a setting is refused, or another assignor gets ``balance_factor``.
    """
    config = dict(cell.config)
    factor = config.pop(_BALANCE_FACTOR, None)
    assignor = _found(cell.assignor)
    if factor is not None:
        if not isinstance(assignor, Kip441Proposal):
            what = f"is a setting of {KIP_441_DOCUMENT} only"
            raise InvalidConfigError(_BALANCE_FACTOR, what, assignor.name)
        if not (factor.isascii() and factor.isdigit()):
            raise InvalidConfigError(_BALANCE_FACTOR, "must be a whole number >= 1", factor)
        assignor = assignor.with_balance_factor(int(factor[:9]))
    return configured(application, config), assignor


def _found(name: str) -> TaskAssignor | ServerSticky:
    """Return an assignor that can be played: of a leader, or the coordinator's."""
    own = ServerSticky()
    if name in {own.name, own.name.removeprefix("streams:"), own.exact_to.split()[0]}:
        return own
    try:
        return find_assignor(name)
    except UnknownStrategyError as error:
        known = [*error.known, own.name]
        raise UnknownStrategyError(
            name, known=known, close=get_close_matches(name, known, n=2)
        ) from None
