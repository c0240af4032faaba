"""Assignors and settings side by side: each combination is a cell, played by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product

from partage.errors import InvalidConfigError, UnknownStrategyError
from partage.simulation.streams.application import SimulatedApplication
from partage.simulation.streams.measures import StreamsMeasures, measured
from partage.simulation.streams.played import Played
from partage.simulation.streams.playing import play
from partage.simulation.streams.reading import configured
from partage.streams import TaskAssignor, find_assignor
from partage.streams.kip1071_sticky import ServerSticky
from partage.streams.registry import KIP_441_DOCUMENT, Kip441Proposal

__all__ = ["Cell", "cells", "played_cell", "prepared"]

_MOST_CELLS = 10_000
_BALANCE_FACTOR = "balance_factor"


@dataclass(frozen=True)
class Cell:
    """One combination.

    Attributes:
        assignor: by name.
        config: settings that differ from the application's, by Kafka's names.
    """

    assignor: str
    config: tuple[tuple[str, str], ...] = ()


def cells(assignors: Sequence[str], sweeps: Mapping[str, Sequence[str]]) -> list[Cell]:
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
        Cell(name, tuple(zip(sweeps, values, strict=True)))
        for name in names
        for values in product(*sweeps.values())
    ]


def played_cell(application: SimulatedApplication, cell: Cell) -> tuple[Played, StreamsMeasures]:
    """Play one combination.

    Raises:
        PartageError: as `partage.simulation.streams.reading.configured` and `play`.
    """
    settings, assignor = prepared(application, cell)
    played = play(settings, assignor)
    return played, measured(played)


def prepared(
    application: SimulatedApplication, cell: Cell
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
