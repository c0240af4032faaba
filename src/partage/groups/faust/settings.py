"""The settings of both Faust strategies: standbys, changelog topics, a worker's URL, the seed."""

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
    "CHANGELOGS", "COPIED", "GLOBALS", "OPTIONS", "REPLICAS", "SEED", "SEED_OPTION", "URL",
    "FaustSettings", "SeededSettings",
]  # fmt: skip

REPLICAS = "assignment.faust.standby.replicas"
CHANGELOGS = "assignment.faust.changelogs"
GLOBALS = "assignment.faust.global.changelogs"
COPIED = "assignment.faust.global.copied"
URL = "assignment.faust.url"
SEED = "assignment.faust.seed"

OPTIONS = (
    Setting(REPLICAS, "1", "standbys of each partition (Faust's table_standby_replicas)"),
    Setting(CHANGELOGS, "none", "changelog topics, comma-separated; their standbys are consumed"),
    Setting(GLOBALS, "none", "global tables' changelogs; every member consumes all partitions"),
    Setting(COPIED, "none", "global changelogs with standbys of active partitions, too"),
    Setting(URL, "empty", "URL of this member's web server", "member"),
)
SEED_OPTION = Setting(SEED, "0", "seed that decides among equally even placements of standbys")

#: Maximum values: Java's int, and an unsigned 64-bit seed.
_MAX_REPLICAS = 2**31 - 1
_MAX_SEED = 2**64 - 1
_FIELDS_OF_TOPICS = {CHANGELOGS: "changelogs", GLOBALS: "global_changelogs", COPIED: "copied"}


@dataclass(frozen=True)
class FaustSettings:
    """Settings of both Faust assignors, whose names begin with ``assignment.faust.``.

    The leader's settings apply to the whole group; only the URL is each member's own.

    Attributes:
        replicas: number of standbys of each partition.
        changelogs: changelog topics of tables.
        global_changelogs: changelog topics of global tables.
        copied: those global changelogs of which a member also has standbys of its own active
            partitions.
        url: the URL of this member's web server, empty if unknown.
        replicas_are_configured: whether ``replicas`` was set. The default asks for a standby that a
            single member cannot have.

    >>> FaustSettings().with_config({REPLICAS: "2", CHANGELOGS: "a-changelog, b-changelog"})
    FaustSettings(replicas=2, changelogs=('a-changelog', 'b-changelog'), global_changelogs=(), \
    copied=(), url='')
    """

    replicas: int = 1
    changelogs: tuple[str, ...] = ()
    global_changelogs: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    url: str = ""
    replicas_are_configured: bool = field(default=False, repr=False, compare=False)

    def with_config(self, config: Mapping[str, object]) -> Self:
        """Return a copy of the settings, changed by those in a client's configuration.

        ``config`` has values by setting name, such as ``assignment.faust.standby.replicas``;
        unknown names are ignored.

        Raises:
            InvalidConfigError: a value has the wrong type.
        """
        changes: dict[str, object] = {}
        if REPLICAS in config:
            changes["replicas"] = _parse_whole_number(REPLICAS, config[REPLICAS], _MAX_REPLICAS)
            changes["replicas_are_configured"] = True
        for key, name in _FIELDS_OF_TOPICS.items():
            if key in config:
                changes[name] = _parse_topics(key, config[key])
        if URL in config:
            if not isinstance(config[URL], str):
                raise InvalidConfigError(URL, "must be text", config[URL])
            changes["url"] = config[URL]
        return replace(self, **changes)  # type: ignore[arg-type]  # checked above, one by one

    @property
    def all_changelogs(self) -> frozenset[str]:
        """Changelog topics of all tables of a Faust application, including global tables.

        Members that have a standby of a changelog partition consume it, to copy the table.
        """
        return frozenset(self.changelogs) | frozenset(self.global_changelogs)


@dataclass(frozen=True)
class SeededSettings(FaustSettings):
    """Settings of the assignor ``faust:copartitioned``: Faust's own ones, and a random seed.

    The seed decides between equally good placements of standbys, so equal seeds give equal plans.

    >>> SeededSettings().with_config({SEED: 7}).seed
    7
    """

    seed: int = 0

    def with_config(self, config: Mapping[str, object]) -> Self:
        """Return a copy of the settings, changed by those in a client's configuration.

        ``config`` has values by setting name, such as ``assignment.faust.seed``; unknown names are
        ignored.
        """
        settings = super().with_config(config)
        if SEED in config:
            seed = _parse_whole_number(SEED, config[SEED], _MAX_SEED)
            settings = replace(settings, seed=seed)
        return settings


def _parse_whole_number(key: str, value: object, maximum: int) -> int:
    """Parse an integer setting from 0 to ``maximum``, given as a number or as text.

    Other values raise `InvalidConfigError` with the name of the setting (``key``).
    """
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        # int() rejects texts of thousands of digits with an error of its own.
        value = int(value) if len(value) <= len(str(maximum)) + 2 else -1
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_number or not 0 <= int(value) <= maximum:  # type: ignore[call-overload]  # is_number
        raise InvalidConfigError(key, f"must be a whole number from 0 to {maximum}", value)
    return int(value)  # type: ignore[call-overload, no-any-return]  # as above


def _parse_topics(key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",")]
    if not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        raise InvalidConfigError(key, "must be names of topics, by comma or as a list", value)
    names = list(value)
    if not all(isinstance(name, str) for name in names):
        raise InvalidConfigError(key, "must be names of topics, by comma or as a list", value)
    return tuple(dict.fromkeys(name for name in names if name))
