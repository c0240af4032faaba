"""Registry of strategies by name: built-in ones, their Java class names, and plug-ins.

A built-in strategy is a module and a line in ``_BUILT_IN``. Another package adds a
strategy by an entry point in the group ``partage.strategies`` whose value is a strategy, or a class
that can be called without arguments to make one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

from partage.errors import (
    InvalidConfigError,
    PartageError,
    PluginFailedError,
    UnknownStrategyError,
)
from partage.groups.api import Setting, Strategy
from partage.model import Assignment, Cluster, Group, Problem

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "StrategyRow",
    "assign_with",
    "describe",
    "describe_strategy",
    "find",
    "is_dialect",
    "is_plug_in",
    "is_strategy",
    "load",
    "plug_in_errors",
    "protocol_name",
    "settings_of",
    "split_names",
    "strategies",
    "strategies_to_compare",
]  # fmt: skip

ENTRY_POINTS = "partage.strategies"

_DIALECTS = "partage.groups.dialects"
#: Strategies of the jar for brokers, whose plans are those of strategies without the prefix.
_JAR = "partage.groups.server.partage"

# Name and class of each built-in strategy, in the order of tables. A strategy's module is
# imported on first use.
_BUILT_IN = {
    "range": "partage.groups.range:Range",
    "roundrobin": "partage.groups.roundrobin:RoundRobin",
    "sticky": "partage.groups.sticky:Sticky",
    "cooperative-sticky": "partage.groups.sticky:CooperativeSticky",
    "roundrobin:0.8": "partage.legacy.roundrobin_0_8:RoundRobin08",
    "server:range": "partage.groups.server.range:ServerRange",
    "server:uniform": "partage.groups.server.uniform:ServerUniform",
    "server:simple": "partage.groups.server.simple:ServerSimple",
    "server:partage-optimal": f"{_JAR}:PartageOptimal",
    "server:partage-fair": f"{_JAR}:PartageFair",
    "server:partage-failover": f"{_JAR}:PartageFailover",
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
    "franz-go:range": f"{_DIALECTS}.go:FranzGoRange",
    "franz-go:roundrobin": f"{_DIALECTS}.go:FranzGoRoundRobin",
    "sarama:range": f"{_DIALECTS}.go:SaramaRange",
    "sarama:roundrobin": f"{_DIALECTS}.go:SaramaRoundRobin",
}


class StrategyRow(NamedTuple):
    """Description of one partition assignor.

    `describe` returns one for each assignor, and `partage strategies` prints them as a table.

    Attributes:
        name: name of the strategy.
        summary: one line about the strategy.
        exact_to: the class and release whose plans it reproduces exactly; None if it reproduces
            none.
        protocols: names of the rebalance protocols, preferred one first.
        source: module and class that define it.
        problem: the reason why a plug-in cannot be used; None if it can.
        settings: the settings that `Strategy.configure` takes.
    """

    name: str
    summary: str
    exact_to: str | None
    protocols: tuple[str, ...]
    source: str
    problem: str | None = None
    settings: tuple[Setting, ...] = ()


def strategies() -> tuple[str, ...]:
    """Return the names of all partition assignors: built-in ones, then plug-ins.

    Plug-ins are found by the entry points of installed packages, in the group
    ``partage.strategies``.

    >>> strategies()[:2]
    ('range', 'roundrobin')
    """
    return (*_BUILT_IN, *(name for name in sorted(_entry_points()) if name not in _BUILT_IN))


def is_dialect(name: str) -> bool:
    """Return whether an assignor is that of another client library, such as "librdkafka:range".

    Other Kafka clients have their own versions of Kafka's assignors, which differ in details.

    >>> is_dialect("librdkafka:range"), is_dialect("range")
    (True, False)
    """
    return _BUILT_IN.get(name, "").startswith(_DIALECTS)


def strategies_to_compare() -> tuple[str, ...]:
    """Return the names of the partition assignors that `compare` compares by default.

    Left out are the assignors of other clients, such as `kafka-python:sticky`, and Partage's own
    assignors for brokers, such as `server:partage-fair`.

    >>> names = strategies_to_compare()
    >>> "kafka-python:sticky" in names, "server:partage-fair" in names
    (False, False)
    """
    return tuple(n for n in strategies() if not is_dialect(n) and not _is_of_the_jar(n))


def _is_of_the_jar(name: str) -> bool:
    return _BUILT_IN.get(name, "").startswith(_JAR)


def find(strategy: str | Strategy | Sequence[str]) -> Strategy:
    """Return the partition assignor with a given name, for example "sticky".

    Of several names, the first one that Partage knows is chosen. Names from files or logs are safe,
    because only registered strategies are imported.

    Args:
        strategy: a name of `strategies`, a Java class name, several names separated by commas, a
            list of names, or a strategy. Names separated by commas must all exist, as in
            ``partition.assignment.strategy``, and the first is returned.

    Raises:
        UnknownStrategyError: no strategy has the name; the message lists similar names.
        InvalidConfigError: a plug-in cannot be used, or the value is not a strategy.

    >>> find("org.apache.kafka.clients.consumer.RangeAssignor").name
    'range'
    >>> find(["no-such-one", "roundrobin"]).name, find("sticky,range").name
    ('roundrobin', 'sticky')
    """
    return _choose(strategy, _find)


def load(strategy: str | Strategy | Sequence[str]) -> Strategy:
    """Return the assignor with a given name, or import the class ``package.module:Class``.

    Do not pass names from files or logs: a class path imports and runs any module.

    Args:
        strategy: a class path, or any value that `find` accepts.

    Raises:
        UnknownStrategyError: no strategy has the name; the message lists similar names.
        InvalidConfigError: a plug-in or class cannot be used, or the value is not a strategy.

    >>> load("partage.groups.range:Range").name
    'range'
    """
    return _choose(strategy, _find_or_import)


def _choose(
    strategy: str | Strategy | Sequence[str], look_up: Callable[[str], Strategy | None]
) -> Strategy:
    if isinstance(strategy, str):
        # All names are looked up: an unknown name is an error at any position.
        found = [(name, look_up(name)) for name in split_names(strategy)]
        for name, one in found:
            if one is None:
                raise _unknown_strategy(name)
        first: Strategy | None = found[0][1]
        assert first is not None  # noqa: S101 - checked right above
        return first
    if isinstance(strategy, type):
        what = f"is a class: pass an instance, {strategy.__name__}()"
        raise InvalidConfigError("strategy", what, strategy)
    if is_strategy(strategy):
        return cast("Strategy", strategy)
    names = _expect_names(strategy)
    for name in names:
        known = look_up(name)
        if known is not None:
            return known
    raise _unknown_strategy(", ".join(names))


def split_names(names: str) -> list[str]:
    """Split a list of assignor names at its commas, for example ``"range,sticky"``.

    Kafka's setting ``partition.assignment.strategy`` has such lists.

    Raises:
        InvalidConfigError: there is no name before, between or after the commas.
    """
    if "," not in names:
        return [names]
    listed = [name.strip() for name in names.split(",")]
    if not all(listed):
        what = "has a comma without a name beside it: remove the comma, or add the name"
        raise InvalidConfigError("strategy", what, names)
    return listed


def _expect_names(value: object) -> list[str]:
    """Check that a value is a list of assignor names, and return it as a list.

    The message of the error says what the caller probably wanted to pass.

    Raises:
        InvalidConfigError: the value is not a list of names.
    """
    if isinstance(value, Group | Cluster):
        what = f"must be a name or a strategy, not a {type(value).__name__}: pass it first"
        raise InvalidConfigError("strategy", what, value)
    if not isinstance(value, Sequence):
        lacks = ", ".join(_missing_attributes(value))
        what = (
            f"must be a name, a list of names, or a strategy; {type(value).__name__} lacks {lacks}"
        )
        raise InvalidConfigError("strategy", what, value)
    if not all(isinstance(name, str) for name in value):
        raise InvalidConfigError("strategy", "must be a list of names", value)
    return list(value)


def protocol_name(name: str) -> str:
    """Return the name by which consumers announce an assignor when they join a group.

    For example, "range" stands for Java's ``RangeAssignor`` and for `librdkafka:range`. An unknown
    name is returned unchanged.

    >>> protocol_name("org.apache.kafka.clients.consumer.RangeAssignor")
    'range'
    >>> protocol_name("librdkafka:roundrobin"), protocol_name("acme")
    ('roundrobin', 'acme')
    """
    if name not in _BUILT_IN and "." in name:
        with suppress(InvalidConfigError):
            found = _find(name)
            name = name if found is None else found.name
    return name.partition(":")[2] if is_dialect(name) else name


def is_plug_in(strategy: Strategy) -> bool:
    """Return whether an assignor comes from another installed package.

    Such a plug-in may raise any exception, so callers wrap its calls in `plug_in_errors`.

    >>> is_plug_in(find("range"))
    False
    """
    return type(strategy).__module__.partition(".")[0] != "partage"


@contextmanager
def plug_in_errors(strategy: Strategy) -> Iterator[None]:
    """Convert exceptions that a plug-in assignor raises in a ``with`` block to `PluginFailedError`.

    The error names the plug-in, so users see that Partage itself did not fail.

    Args:
        strategy: the assignor that the block calls; a built-in one changes nothing.

    Raises:
        PluginFailedError: the plug-in raised an exception that is not a `PartageError`.
    """
    try:
        yield
    except PartageError:
        raise
    except Exception as e:
        if not is_plug_in(strategy):
            raise
        raise PluginFailedError(strategy.name, f"{type(e).__name__}: {e}") from e


def assign_with(strategy: Strategy, problem: Problem, memory: object = None) -> Assignment:
    """Run an assignor on a consumer group, and check the result of a plug-in.

    A plug-in comes from another installed package; its exceptions become `PluginFailedError`.

    Args:
        strategy: the assignor to run.
        problem: the consumer group and the cluster.
        memory: the assignor's state from the previous rebalance, if any.

    Raises:
        PluginFailedError: a plug-in raised an exception, or returned no assignment.
        PartageError: the strategy is not applicable to the problem.
    """
    with plug_in_errors(strategy):
        plan: object = strategy.assign(problem, memory)
    if not isinstance(plan, Assignment):
        what = f"it returned {type(plan).__name__} and not a Plan"
        raise PluginFailedError(strategy.name, what)
    return plan


def settings_of(strategy: Strategy) -> tuple[Setting, ...]:
    """Return the settings that an assignor accepts, such as ``assignment.consumer.priority``.

    An assignor lists its settings in the attribute ``options``. The result is empty if it has none.

    >>> settings_of(find("failover"))[0].key
    'assignment.consumer.priority'
    """
    listed = getattr(strategy, "options", ())
    try:
        return tuple(Setting(*map(str, one)) for one in listed)
    except TypeError:  # a plug-in may use "options" for something else
        return ()


def describe() -> tuple[StrategyRow, ...]:
    """Return a description of every partition assignor, for the list of `partage strategies`.

    A plug-in that cannot be loaded is listed with the reason.

    >>> next(row for row in describe() if row.name == "optimal").settings[4][:2]
    ('assignment.optimal.max.moves', 'no limit')
    """
    rows = []
    for name in strategies():
        home = _BUILT_IN.get(name) or _entry_points()[name].value
        try:
            one = _find(name)
        except InvalidConfigError as e:
            rows.append(StrategyRow(name, "", None, (), home, problem=str(e)))
            continue
        assert one is not None  # noqa: S101 - strategies() has just named it
        rows.append(describe_strategy(one, name, home))
    return tuple(rows)


def describe_strategy(strategy: Strategy, name: str, source: str) -> StrategyRow:
    """Build the description of one assignor for the list that `partage strategies` prints.

    The summary is the first line of the class's docstring.

    Args:
        strategy: the assignor to describe.
        name: name to print.
        source: module and class to print.
    """
    summary = (type(strategy).__doc__ or "").strip().partition("\n")[0]
    protocols = tuple(one.name for one in strategy.protocols)
    return StrategyRow(
        name, summary, strategy.exact_to, protocols, source, settings=settings_of(strategy)
    )


def _find_or_import(name: str) -> Strategy | None:
    found = _find(name)
    return _import_strategy(name) if found is None and _is_class_path(name) else found


def _find(name: str) -> Strategy | None:
    if name in _BUILT_IN:
        return _built_in(name)
    plugged_in = _entry_points()
    if name in plugged_in:
        return _load_plug_in(plugged_in[name])
    return next((one for one in _built_in_and_plugged_in() if name in one.aliases), None)


#: Prefixes of built-in names, before the colon. A name with such a prefix is no class path.
_BUILT_IN_PREFIXES = {name.partition(":")[0] for name in _BUILT_IN if ":" in name} | {"streams"}


def _is_class_path(name: str) -> bool:
    """Return whether a name is the path of a Python class, in the form ``package.module:Class``.

    Names such as "server:range", whose first part is the prefix of built-in strategies, are not.

    >>> _is_class_path("acme.strategies:Mine"), _is_class_path("server:unifrom")
    (True, False)
    """
    module, colon, attribute = name.partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    return bool(colon) and module not in _BUILT_IN_PREFIXES and all(map(str.isidentifier, parts))


def _import_strategy(name: str) -> Strategy:
    """Import an assignor's class from a path such as ``package.module:Class``.

    Return an instance of the class.

    Raises:
        InvalidConfigError: the class cannot be loaded, or is not a strategy.
    """
    from importlib.metadata import EntryPoint

    return _load_plug_in(EntryPoint(name=name, value=name, group=ENTRY_POINTS), "strategy")


def _built_in_and_plugged_in() -> Iterator[Strategy]:
    yield from _all_built_in()
    for point in _entry_points().values():
        with suppress(InvalidConfigError):
            yield _load_plug_in(point)


@cache
def _built_in(name: str) -> Strategy:
    module, _, attribute = _BUILT_IN[name].partition(":")
    made: Strategy = getattr(import_module(module), attribute)()
    return made


def _all_built_in() -> Iterator[Strategy]:
    return (_built_in(name) for name in _BUILT_IN)


@cache
def _entry_points() -> dict[str, EntryPoint]:
    # The search takes 15 ms. Built-in strategies are found without it.
    from importlib.metadata import entry_points

    return {one.name: one for one in entry_points(group=ENTRY_POINTS)}


def _load_plug_in(point: EntryPoint, setting: str | None = None) -> Strategy:
    """Load a plug-in assignor from the entry point of its package, and check its attributes.

    If it cannot be imported or is not an assignor, `InvalidConfigError` is raised. ``setting`` is
    the name of the caller's argument in the message.
    """
    setting = setting or f"{ENTRY_POINTS}.{point.name}"
    try:
        loaded = point.load()
        made = loaded() if isinstance(loaded, type) else loaded
    except Exception as e:
        what = f"the plug-in cannot be loaded ({type(e).__name__}: {e})"
        raise InvalidConfigError(setting, what, point.value) from e
    if lacks := _missing_attributes(made):
        what = f"the plug-in is no strategy (it lacks {', '.join(lacks)})"
        raise InvalidConfigError(setting, what, point.value)
    return cast("Strategy", made)


_STRATEGY_ATTRIBUTES = (
    "name", "version", "algorithm", "exact_to", "protocols", "aliases", "configure",
    "subscription_user_data", "assign", "on_assignment",
)  # fmt: skip


def is_strategy(value: object) -> bool:
    """Return whether a value has all attributes of a partition assignor.

    `Strategy` lists the attributes. Unlike ``isinstance``, this also accepts a wrapper that
    forwards them.
    """
    return not _missing_attributes(value)


def _missing_attributes(value: object) -> list[str]:
    # Since Python 3.12 isinstance with a protocol ignores attributes that a wrapper forwards by
    # __getattr__.
    return [one for one in _STRATEGY_ATTRIBUTES if not hasattr(value, one)]


def _unknown_strategy(name: str) -> UnknownStrategyError:
    known = strategies()
    aliases = [alias for one in _all_built_in() for alias in one.aliases]
    close = difflib.get_close_matches(name, [*known, *aliases], n=3)
    return UnknownStrategyError(name, known=known, close=close)
