"""Strategies by name: ours, their Java class names, and those that plug in.

To add one of ours: a file beside this one, and a line in ``_OURS``. Another package adds
one by an entry point in the group ``partage.strategies`` whose value is a strategy, or a
class that makes one without arguments.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from partage.errors import InvalidConfigError, UnknownStrategyError
from partage.groups.api import Setting, Strategy

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "Row", "contestants", "describe", "find", "is_dialect", "load", "protocol_name",
    "row_of", "settings_of", "strategies",
]  # fmt: skip

ENTRY_POINTS = "partage.strategies"

_DIALECTS = "partage.groups.dialects"

# Name and home of each of ours, in the order in which tables show them. Lazy: a strategy's
# module is imported when somebody asks for it.
_OURS = {
    "range": "partage.groups.range:Range",
    "roundrobin": "partage.groups.roundrobin:RoundRobin",
    "sticky": "partage.groups.sticky:Sticky",
    "cooperative-sticky": "partage.groups.sticky:CooperativeSticky",
    "roundrobin:0.8": "partage.groups.roundrobin_08:RoundRobin08",
    "server:range": "partage.groups.server.range:ServerRange",
    "server:uniform": "partage.groups.server.uniform:ServerUniform",
    "server:simple": "partage.groups.server.simple:ServerSimple",
    "fair": "partage.groups.fair:Fair",
    "failover": "partage.groups.failover:Failover",
    "optimal": "partage.groups.optimal:Optimal",
    "faust": "partage.groups.faust:Faust",
    "faust:copartitioned": "partage.groups.faust:FaustCopartitioned",
    "kafka-python:range": f"{_DIALECTS}.kafka_python:KafkaPythonRange",
    "kafka-python:roundrobin": f"{_DIALECTS}.kafka_python:KafkaPythonRoundRobin",
    "kafka-python:sticky": f"{_DIALECTS}.kafka_python:KafkaPythonSticky",
    "kafka-python:cooperative-sticky": f"{_DIALECTS}.kafka_python:KafkaPythonCooperativeSticky",
    "aiokafka:range": f"{_DIALECTS}.aiokafka:AiokafkaRange",
    "aiokafka:roundrobin": f"{_DIALECTS}.aiokafka:AiokafkaRoundRobin",
    "aiokafka:sticky": f"{_DIALECTS}.aiokafka:AiokafkaSticky",
    "librdkafka:range": f"{_DIALECTS}.librdkafka:LibrdkafkaRange",
    "librdkafka:roundrobin": f"{_DIALECTS}.librdkafka:LibrdkafkaRoundRobin",
    "librdkafka:cooperative-sticky": f"{_DIALECTS}.librdkafka:LibrdkafkaCooperativeSticky",
}


class Row(NamedTuple):
    """A strategy as tables show it.

    Attributes:
        name: as it is asked for.
        summary: one line.
        exact_to: the class and release that it equals, None for nobody's twin.
        protocols: names of the rebalance protocols, preferred one first.
        source: where it is defined.
        problem: why a plug-in cannot be used; None for all is well.
        settings: what `Strategy.configure` takes.
    """

    name: str
    summary: str
    exact_to: str | None
    protocols: tuple[str, ...]
    source: str
    problem: str | None = None
    settings: tuple[Setting, ...] = ()


def strategies() -> tuple[str, ...]:
    """Names of all strategies: ours, then plug-ins (broken ones too) by name.

    >>> strategies()[:2]
    ('range', 'roundrobin')
    """
    return (*_OURS, *(name for name in sorted(_plugged_in()) if name not in _OURS))


def is_dialect(name: str) -> bool:
    """Whether it is what another client does under a name of Java's: there to read history.

    >>> is_dialect("librdkafka:range"), is_dialect("range")
    (True, False)
    """
    return _OURS.get(name, "").startswith(_DIALECTS)


def contestants() -> tuple[str, ...]:
    """Names of those that one would choose from: all but the dialects.

    >>> "kafka-python:sticky" in contestants()
    False
    """
    return tuple(name for name in strategies() if not is_dialect(name))


def find(strategy: str | Strategy | Sequence[str]) -> Strategy:
    """Return the strategy of a name, or of the first in a list that exists.

    Names may come from files and from a group's log: nothing is imported but what is registered.

    Args:
        strategy: a name of `strategies`, a Java class name, several names with commas between
            them, a list of names, or a strategy. Of names with commas each must exist, as in
            ``partition.assignment.strategy``, and the first is taken.

    Raises:
        UnknownStrategyError: there is none; says which names come close.
        InvalidConfigError: a plug-in cannot be used, or it is no strategy at all.

    >>> find("org.apache.kafka.clients.consumer.RangeAssignor").name
    'range'
    >>> find(["no-such-one", "roundrobin"]).name, find("sticky,range").name
    ('roundrobin', 'sticky')
    """
    return _chosen(strategy, _find)


def load(strategy: str | Strategy | Sequence[str]) -> Strategy:
    """Return the strategy as `find` does, or import the one that ``package.module:Class`` names.

    Only for names that a person or a program gives, never for names from a file or a log.

    Raises:
        UnknownStrategyError: there is none; says which names come close.
        InvalidConfigError: a plug-in or class cannot be used, or it is no strategy at all.

    >>> load("partage.groups.range:Range").name
    'range'
    """
    return _chosen(strategy, _find_or_import)


def _chosen(
    strategy: str | Strategy | Sequence[str], look_up: Callable[[str], Strategy | None]
) -> Strategy:
    if isinstance(strategy, str):
        # All of them are looked up: a name that does not exist is an error, wherever it stands.
        found = [(name, look_up(name)) for name in _listed(strategy)]
        for name, one in found:
            if one is None:
                raise _unknown(name)
        first: Strategy | None = found[0][1]
        assert first is not None  # noqa: S101 - checked right above
        return first
    if isinstance(strategy, type):
        what = f"is a class: pass an instance, {strategy.__name__}()"
        raise InvalidConfigError("strategy", what, strategy)
    if isinstance(strategy, Strategy):
        return strategy
    names = _names_in(strategy)
    for name in names:
        known = look_up(name)
        if known is not None:
            return known
    raise _unknown(", ".join(names))


def _listed(names: str) -> list[str]:
    """Return the names in a text with commas, as Kafka's ConfigDef parses a list."""
    return [name.strip() for name in names.split(",")] if "," in names else [names]


def _names_in(value: object) -> list[str]:
    """Return the names of a list.

    Raises:
        InvalidConfigError: it is no list of names, and no strategy either.
    """
    if not isinstance(value, Sequence):
        lacks = ", ".join(one for one in _CONTRACT if not hasattr(value, one))
        what = (
            f"must be a name, a list of names, or a strategy; {type(value).__name__} lacks {lacks}"
        )
        raise InvalidConfigError("strategy", what, value)
    if not all(isinstance(name, str) for name in value):
        raise InvalidConfigError("strategy", "must be a list of names", value)
    return list(value)


def protocol_name(name: str) -> str:
    """Return the name by which members list a strategy when they join a group.

    A class name becomes its strategy's protocol name, and the dialect of another client the name
    that this client sends. A name that is unknown here stays as it is.

    >>> protocol_name("org.apache.kafka.clients.consumer.RangeAssignor")
    'range'
    >>> protocol_name("librdkafka:roundrobin"), protocol_name("acme")
    ('roundrobin', 'acme')
    """
    if name not in _OURS and "." in name:
        with suppress(InvalidConfigError):
            found = _find(name)
            name = name if found is None else found.name
    return name.partition(":")[2] if is_dialect(name) else name


def settings_of(strategy: Strategy) -> tuple[Setting, ...]:
    """The settings that a strategy lists; none for a plug-in that lists none.

    >>> settings_of(find("failover"))[0].key
    'assignment.consumer.priority'
    """
    listed = getattr(strategy, "options", ())
    try:
        return tuple(Setting(*map(str, one)) for one in listed)
    except TypeError:  # foreign code calls something else "options"
        return ()


def describe() -> tuple[Row, ...]:
    """One row a strategy: what it is, and its settings; a broken plug-in has its own row.

    >>> next(row for row in describe() if row.name == "optimal").settings[4][:2]
    ('assignment.optimal.max.moves', 'no limit')
    """
    rows = []
    for name in strategies():
        home = _OURS.get(name) or _plugged_in()[name].value
        try:
            one = _find(name)
        except InvalidConfigError as e:
            rows.append(Row(name, "", None, (), home, problem=str(e)))
            continue
        assert one is not None  # noqa: S101 - strategies() has just named it
        rows.append(row_of(one, name, home))
    return tuple(rows)


def row_of(strategy: Strategy, name: str, source: str) -> Row:
    """Return a strategy as tables show it, under a name and from a place in the code."""
    summary = (type(strategy).__doc__ or "").strip().partition("\n")[0]
    protocols = tuple(one.name for one in strategy.protocols)
    return Row(name, summary, strategy.exact_to, protocols, source, settings=settings_of(strategy))


def _find_or_import(name: str) -> Strategy | None:
    found = _find(name)
    return _imported(name) if found is None and _is_class_path(name) else found


def _find(name: str) -> Strategy | None:
    if name in _OURS:
        return _ours(name)
    plugged_in = _plugged_in()
    if name in plugged_in:
        return _load(plugged_in[name])
    return next((one for one in _everyone() if name in one.aliases), None)


#: What stands before the colon in names of ours: such a name is never imported.
_PREFIXES = {name.partition(":")[0] for name in _OURS if ":" in name} | {"streams"}


def _is_class_path(name: str) -> bool:
    """Return whether a name has the form ``package.module:Class``.

    >>> _is_class_path("acme.strategies:Mine"), _is_class_path("server:unifrom")
    (True, False)
    """
    module, colon, attribute = name.partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    return bool(colon) and module not in _PREFIXES and all(map(str.isidentifier, parts))


def _imported(name: str) -> Strategy:
    """Return the strategy that ``package.module:Class`` names.

    Raises:
        InvalidConfigError: it cannot be loaded, or is no strategy.
    """
    from importlib.metadata import EntryPoint

    return _load(EntryPoint(name=name, value=name, group=ENTRY_POINTS), "strategy")


def _everyone() -> Iterator[Strategy]:
    """Ours, then the plug-ins that work: a broken one must not stand in the way of others."""
    yield from _ours_all()
    for point in _plugged_in().values():
        with suppress(InvalidConfigError):
            yield _load(point)


@cache
def _ours(name: str) -> Strategy:
    module, _, attribute = _OURS[name].partition(":")
    made: Strategy = getattr(import_module(module), attribute)()
    return made


def _ours_all() -> Iterator[Strategy]:
    return (_ours(name) for name in _OURS)


@cache
def _plugged_in() -> dict[str, EntryPoint]:
    # 15 ms, which a plan of one of ours need not wait for.
    from importlib.metadata import entry_points

    return {one.name: one for one in entry_points(group=ENTRY_POINTS)}


def _load(point: EntryPoint, setting: str | None = None) -> Strategy:
    """Return a plug-in's strategy.

    Raises:
        InvalidConfigError: it cannot be loaded, or is no strategy; says why.
    """
    setting = setting or f"{ENTRY_POINTS}.{point.name}"
    try:
        loaded = point.load()
        made = loaded() if isinstance(loaded, type) else loaded
    except Exception as e:
        what = f"the plug-in cannot be loaded ({type(e).__name__}: {e})"
        raise InvalidConfigError(setting, what, point.value) from e
    if not isinstance(made, Strategy):
        lacks = [one for one in _CONTRACT if not hasattr(made, one)]
        what = f"the plug-in is no strategy (it lacks {', '.join(lacks)})"
        raise InvalidConfigError(setting, what, point.value)
    return made


_CONTRACT = (
    "name", "version", "algorithm", "exact_to", "protocols", "aliases", "configure",
    "subscription_user_data", "assign", "on_assignment",
)  # fmt: skip


def _unknown(name: str) -> UnknownStrategyError:
    known = strategies()
    aliases = [alias for one in _ours_all() for alias in one.aliases]
    close = difflib.get_close_matches(name, [*known, *aliases], n=3)
    return UnknownStrategyError(name, known=known, close=close)
