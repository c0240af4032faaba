"""What a Faust app tells its assignor: standby replicas, which topics are changelogs, its URL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from partage.errors import InvalidConfigError
from partage.groups.api import Setting

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "CHANGELOGS", "COPIED", "GLOBALS", "OPTIONS", "REPLICAS", "SEED", "URL", "FaustSettings",
    "SeededSettings",
]  # fmt: skip

REPLICAS = "assignment.faust.standby.replicas"
CHANGELOGS = "assignment.faust.changelogs"
GLOBALS = "assignment.faust.global.changelogs"
COPIED = "assignment.faust.global.copied"
URL = "assignment.faust.url"
SEED = "assignment.faust.seed"

OPTIONS = (
    Setting(REPLICAS, "1", "standbys of each partition (Faust's table_standby_replicas)"),
    Setting(CHANGELOGS, "none", "changelog topics, by comma: their standbys are consumed as well"),
    Setting(GLOBALS, "none", "those of global tables, by comma: everybody has all of them"),
    Setting(COPIED, "none", "global ones that are copied whole, active partitions too"),
    Setting(URL, "empty", "where this member's web server answers", "member"),
)
SEED_OPTION = Setting(SEED, "0", "which of many even placements of standbys is drawn")

_MOST_REPLICAS = 2**31 - 1
_LARGEST_SEED = 2**64 - 1


@dataclass(frozen=True)
class FaustSettings:
    """The settings of both strategies.

    >>> FaustSettings().configured({REPLICAS: "2", CHANGELOGS: "a-changelog, b-changelog"})
    FaustSettings(replicas=2, changelogs=('a-changelog', 'b-changelog'), global_changelogs=(), \
copied=(), url='')
    """

    replicas: int = 1
    changelogs: tuple[str, ...] = ()
    global_changelogs: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    url: str = ""
    # Whether `replicas` was set: the default asks for a standby that a lone member cannot have.
    replicas_are_configured: bool = field(default=False, repr=False, compare=False)

    def configured(self, config: Mapping[str, object]) -> Self:
        """The same with what ``config`` says; others' settings are passed over.

        Raises:
            InvalidConfigError: a value of the wrong type.
        """
        changes: dict[str, object] = {}
        if REPLICAS in config:
            changes["replicas"] = whole(REPLICAS, config[REPLICAS], _MOST_REPLICAS)
            changes["replicas_are_configured"] = True
        for key, name in _TOPICS.items():
            if key in config:
                changes[name] = _topics(key, config[key])
        if URL in config:
            if not isinstance(config[URL], str):
                raise InvalidConfigError(URL, "must be text", config[URL])
            changes["url"] = config[URL]
        return replace(self, **changes)  # type: ignore[arg-type]  # each was looked at

    @property
    def all_changelogs(self) -> frozenset[str]:
        """Changelog topics, those of global tables among them."""
        return frozenset(self.changelogs) | frozenset(self.global_changelogs)


@dataclass(frozen=True)
class SeededSettings(FaustSettings):
    """And the seed by which standbys are drawn.

    >>> SeededSettings().configured({SEED: 7}).seed
    7
    """

    seed: int = 0

    def configured(self, config: Mapping[str, object]) -> Self:
        """As `FaustSettings.configured`."""
        made = super().configured(config)
        if SEED in config:
            made = replace(made, seed=whole(SEED, config[SEED], _LARGEST_SEED))
        return made


_TOPICS = {CHANGELOGS: "changelogs", GLOBALS: "global_changelogs", COPIED: "copied"}


def whole(key: str, value: object, largest: int) -> int:
    """A number from 0, or its text as in a properties file.

    Raises:
        InvalidConfigError: it is neither.
    """
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        value = int(value) if len(value) <= len(str(largest)) + 2 else -1
    number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not number or not 0 <= int(value) <= largest:  # type: ignore[call-overload]  # number says so
        raise InvalidConfigError(key, f"must be a whole number from 0 to {largest}", value)
    return int(value)  # type: ignore[call-overload, no-any-return]  # as above


def _topics(key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",")]
    if not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        raise InvalidConfigError(key, "must be names of topics, by comma or as a list", value)
    names = list(value)
    if not all(isinstance(name, str) for name in names):
        raise InvalidConfigError(key, "must be names of topics, by comma or as a list", value)
    return tuple(dict.fromkeys(name for name in names if name))
