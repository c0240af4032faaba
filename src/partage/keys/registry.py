"""Partitioners by name: ours, their Java class names, and plug-ins of the custom contract."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from partage.errors import InvalidConfigError, UnknownPartitionerError
from partage.keys.partitioner import Partitioner

__all__ = [
    "ENTRY_POINTS",
    "PartitionerRow",
    "by_key",
    "describe",
    "find",
    "find_named",
    "loaded",
    "partitioners",
    "plugged_in",
]

#: The group of entry points by which another package adds a partitioner (`partage.keys.contract`).
ENTRY_POINTS = "partage.partitioners"

_CLIENTS = "partage.keys.clients"
_OURS = tuple(
    f"{_CLIENTS}.{one}"
    for one in (
        "plain:PlainMurmur2",
        "java_08:Java08",
        "java_09:Java09",
        "java_23:Java23",
        "java_39:Java39",
        "java_uniform_sticky:JavaUniformSticky",
        "java_roundrobin:JavaRoundRobin",
        "java_builtin:JavaBuiltIn",
        "java_builtin:JavaBuiltInIgnoringKeys",
        "scala_08:Scala081",
        "scala_08:Scala082",
        "scala_08:Scala081Bytes",
        "scala_08:Scala082Bytes",
        "streams_windowed:StreamsWindowed",
        "librdkafka:Consistent",
        "librdkafka:ConsistentRandom",
        "librdkafka:Murmur2",
        "librdkafka:Murmur2Random",
        "librdkafka:Fnv1a",
        "librdkafka:Fnv1aRandom",
        "sarama:SaramaHash",
        "sarama:SaramaReferenceHash",
        "sarama:SaramaCrc",
        "sarama:SaramaMurmur2",
        "sarama:SaramaRandom",
        "sarama:SaramaRoundRobin",
        "sarama:SaramaManual",
        "franz_go:FranzGo",
        "franz_go:FranzGoStickyKey",
        "franz_go:FranzGoSaramaHasher",
        "franz_go:FranzGoSticky",
        "franz_go:FranzGoRoundRobin",
        "franz_go:FranzGoManual",
        "kafka_python:KafkaPython",
        "kafka_python:KafkaPythonStickyPartitioner",
        "aiokafka:Aiokafka",
    )
)


class PartitionerRow(NamedTuple):
    """A partitioner as tables show it."""

    name: str
    summary: str
    exact_to: str | None
    by_key: bool
    stateful: bool


def partitioners() -> tuple[str, ...]:
    """Return the names of all partitioners of `partition_for`: ours, then plug-ins by name.

    >>> partitioners()[:2]
    ('murmur2', 'java:0.8')
    """
    return (*_ours(), *sorted(plugged_in().keys() - _ours().keys()))


def by_key() -> tuple[str, ...]:
    """Names of those for which a key decides.

    >>> "java:roundrobin" in by_key(), "sarama:hash" in by_key()
    (False, True)
    """
    return tuple(name for name, one in _ours().items() if one.rule is not None)


def find(partitioner: object) -> Partitioner:
    """Return the partitioner of a name, a class name, or a class of the custom contract.

    Args:
        partitioner: a name of `partitioners`, a Java class name, ``package.module:Class``, or a
            class or an object of the contract (`partage.keys.contract`).

    Raises:
        UnknownPartitionerError: there is none; says which names come close.

    >>> find("org.apache.kafka.clients.producer.RoundRobinPartitioner").name
    'java:roundrobin'
    """
    if isinstance(partitioner, Partitioner):
        return partitioner
    if not isinstance(partitioner, str):
        if not callable(getattr(partitioner, "partition", None)):
            what = "must be a name, or a class with a method partition"
            raise InvalidConfigError("partitioner", what, partitioner)
    elif partitioner not in plugged_in() and not _is_class_path(partitioner):
        return find_named(partitioner)
    from partage.keys.custom import CustomKeys

    return CustomKeys(partitioner)


def _is_class_path(name: str) -> bool:
    """Return whether a name has the form ``package.module:Class`` and is none of ours.

    >>> _is_class_path("acme.keys:Mine"), _is_class_path("java:10"), _is_class_path("murmur2")
    (True, False, False)
    """
    module, colon, attribute = name.partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    prefixes = {one.partition(":")[0] for one in _ours()}
    return bool(colon) and module not in prefixes and all(map(str.isidentifier, parts))


def find_named(name: str) -> Partitioner:
    """Return the partitioner of ours of a name or of a class name.

    Raises:
        UnknownPartitionerError: there is none; says which names come close.
    """
    ours = _ours()
    if name in ours:
        return ours[name]
    for one in ours.values():
        if name in one.aliases:
            return one
    names = [*ours, *(alias for one in ours.values() for alias in one.aliases)]
    close = difflib.get_close_matches(str(name), names, n=3)
    raise UnknownPartitionerError(str(name), known=tuple(ours), close=close)


def describe() -> tuple[PartitionerRow, ...]:
    """Return one row a partitioner, for tables; a plug-in that cannot be loaded says why."""
    rows = [
        PartitionerRow(
            name,
            _summary(type(one)),
            one.exact_to,
            one.rule is not None,
            one.state is not None,
        )
        for name, one in _ours().items()
    ]
    for name in sorted(plugged_in().keys() - _ours().keys()):
        try:
            said = _summary(loaded(plugged_in()[name])) or "a plug-in"
        except InvalidConfigError as e:
            said = f"cannot be used: {e}"
        rows.append(PartitionerRow(name, said, None, by_key=True, stateful=False))
    return tuple(rows)


def _summary(kind: object) -> str:
    """Return the first line of a class's docstring."""
    return (getattr(kind, "__doc__", None) or "").strip().partition("\n")[0]


@cache
def _ours() -> dict[str, Partitioner]:
    made = {}
    for home in _OURS:
        module, _, attribute = home.partition(":")
        one: Partitioner = getattr(import_module(module), attribute)()
        made[one.name] = one
    return made


@cache
def plugged_in() -> dict[str, EntryPoint]:
    """Plug-ins by name: classes of the custom contract that other packages announce."""
    return {one.name: one for one in entry_points(group=ENTRY_POINTS)}


def loaded(point: EntryPoint) -> object:
    """What a plug-in's entry point names.

    Raises:
        InvalidConfigError: it cannot be loaded; says why.
    """
    try:
        return point.load()
    except Exception as e:
        what = f"the plug-in cannot be loaded ({type(e).__name__}: {e})"
        raise InvalidConfigError(f"{ENTRY_POINTS}.{point.name}", what, point.value) from e
