"""Settings of `optimal`, read from a client's configuration: values of Python, or their text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from partage.errors import InvalidConfigError
from partage.groups.api import Setting

__all__ = ["OPTIONS", "PREFIX", "ByTopic", "Settings"]

PREFIX = "assignment.optimal."
#: Tolerance, of a mean member's load, where loads are learnt and nobody says: what an evener plan
#: must gain to be worth a move.
LEARNT_TOLERANCE = 0.05

#: A number for all partitions of a topic, or one for each of its partition numbers.
ByTopic = Mapping[str, "float | tuple[float, ...]"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the objective is made of; see `Optimal` for what each means.

    Attributes:
        weights: load of partitions by topic; None balances counts.
        racks: whether rack mismatches (or costs) matter.
        prices: money per GB by (rack of the member, rack of the replica); None counts
            mismatches.
        traffic: GB by topic; None for 1 each.
        max_moves: most owned partitions that may move; None for no limit.
        together: "no", "prefer" or "require", of co-partitioned topics.
        copartitioned: names of topics that belong together; None for all that can.
        tolerance: how much of an average member's load is not worth a move; None for nothing
            in small problems, and a thousandth in others.
    """

    weights: ByTopic | None = None
    racks: bool = True
    prices: Mapping[tuple[str, str], float] | None = None
    traffic: ByTopic | None = None
    max_moves: int | None = None
    together: str = "no"
    copartitioned: tuple[tuple[str, ...], ...] | None = field(default=None)
    tolerance: float | None = None

    def configured(self, config: Mapping[str, object]) -> Settings:
        """Return the settings with those of a configuration; keys of other prefixes are ignored.

        Raises:
            InvalidConfigError: a value has the wrong type or range.

        >>> Settings().configured({PREFIX + "max.moves": "3"}).max_moves
        3
        """
        given = {
            name: reader(PREFIX + key, config[PREFIX + key])
            for key, (name, reader) in _READERS.items()
            if PREFIX + key in config
        }
        return replace(self, **given)  # type: ignore[arg-type]  # each reader knows its own


def _by_topic(setting: str, value: object) -> ByTopic | None:
    value = _from_text(setting, value)
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidConfigError(setting, "must map topics to numbers or lists of them", value)
    out: dict[str, float | tuple[float, ...]] = {}
    for topic, of in value.items():
        if not isinstance(topic, str):
            raise InvalidConfigError(setting, "must have names of topics as keys", topic)
        several = isinstance(of, (Sequence, np.ndarray)) and not isinstance(of, (str, bytes))
        out[topic] = tuple(_number(setting, x) for x in of) if several else _number(setting, of)
    return out


def _prices(setting: str, value: object) -> dict[tuple[str, str], float] | None:
    value = _from_text(setting, value)
    if value is None:
        return None
    what = "must map a member's rack to prices by the replica's rack"
    if not isinstance(value, Mapping):
        raise InvalidConfigError(setting, what, value)
    out = {}
    for mine, row in value.items():
        if not isinstance(mine, str) or not isinstance(row, Mapping):
            raise InvalidConfigError(setting, what, {mine: row})
        for theirs, price in row.items():
            if not isinstance(theirs, str):
                raise InvalidConfigError(setting, what, theirs)
            out[mine, theirs] = _number(setting, price)
    return out


def _topics(setting: str, value: object) -> tuple[tuple[str, ...], ...] | None:
    value = _from_text(setting, value)
    if value is None:
        return None
    rows: list[tuple[str, ...]] = []
    for row in _listed(setting, value):
        names = tuple(_listed(setting, row))
        if not all(isinstance(one, str) for one in names):
            raise InvalidConfigError(setting, "must be lists of names of topics", value)
        rows.append(names)
    flat = [name for row in rows for name in row]
    if len(set(flat)) < len(flat):
        raise InvalidConfigError(setting, "must name no topic twice", value)
    return tuple(rows)


def _listed(setting: str, value: object) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise InvalidConfigError(setting, "must be lists of names of topics", value)
    return value


def _most(setting: str, value: object) -> int | None:
    value = _from_text(setting, value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise InvalidConfigError(setting, "must be a number of partitions, 0 or more", value)
    return int(value)


def _together(setting: str, value: object) -> str:
    if value not in {"no", "prefer", "require"}:
        raise InvalidConfigError(setting, 'must be "no", "prefer" or "require"', value)
    return str(value)


def _switch(setting: str, value: object) -> bool:
    value = _from_text(setting, value.lower() if isinstance(value, str) else value)
    if not isinstance(value, bool):
        raise InvalidConfigError(setting, "must be true or false", value)
    return value


def _number(setting: str, value: object) -> float:
    good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    try:
        number = float(value) if good else math.nan  # type: ignore[arg-type]  # good says so
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        raise InvalidConfigError(setting, "must be finite numbers, none negative", value)
    return number


def _fraction(setting: str, value: object) -> float | None:
    value = _from_text(setting, value)
    return None if value is None else _number(setting, value)


def _from_text(setting: str, value: object) -> object:
    """Values of a properties file or a command line come as text: it is read as JSON."""
    if not isinstance(value, str):
        return value
    try:
        found: object = json.loads(value) if value.strip() else None
    except (ValueError, RecursionError):
        raise InvalidConfigError(setting, "must be JSON where it is text", value) from None
    return found


_READERS = {
    "weights": ("weights", _by_topic),
    "racks": ("racks", _switch),
    "rack.prices": ("prices", _prices),
    "traffic": ("traffic", _by_topic),
    "max.moves": ("max_moves", _most),
    "together": ("together", _together),
    "copartitioned": ("copartitioned", _topics),
    "tolerance": ("tolerance", _fraction),
}

#: The same for people, in the order of the objective; see `Optimal` for the whole story.
OPTIONS = tuple(
    Setting(PREFIX + key, default, meaning)
    for key, default, meaning in (
        ("weights", "by counts", "{topic: load, or [load of partition 0, ...]}: balance these"),
        ("racks", "true", "whether rack mismatches matter"),
        ("rack.prices", "mismatches count", "{member's rack: {replica's rack: money per GB}}"),
        ("traffic", "1 each", "GB by topic or partition, for the prices"),
        ("max.moves", "no limit", "most owned partitions that may move in one rebalance"),
        ("together", "no", "co-partitioned topics together: no, prefer, require"),
        ("copartitioned", "all that can", "[[topic, topic], ...] that belong together"),
        ("tolerance", "0.001; 0 if small", "by weights: part of a mean load not worth a move"),
    )
)
