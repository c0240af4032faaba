"""All partitioners by name: those of clients, custom ones, and plug-ins."""

from __future__ import annotations

from typing import NamedTuple

from partage.errors import InvalidConfigError
from partage.keys.clients import (
    client_partitioners,
    find_named,
    load_plug_in,
    plugged_in,
)
from partage.keys.contract import CLASS_SETTING, create_partitioner, custom_partitioner, custom_rule
from partage.keys.partitioner import Partitioner

__all__ = ["PartitionerRow", "by_key", "describe_partitioners", "find_partitioner", "partitioners"]


class PartitionerRow(NamedTuple):
    """Row of the table of partitioners that ``partage keys --list`` prints.

    It has the partitioner's name, a summary, the client release whose results it equals, and
    whether it uses the key and keeps a state.
    """

    name: str
    summary: str
    exact_to: str | None
    by_key: bool
    stateful: bool


def partitioners() -> tuple[str, ...]:
    """Return the names that `partition_for` accepts: built-in partitioners and plug-ins.

    Examples are ``java:3.9`` and ``sarama:hash``.

    >>> partitioners()[:2]
    ('murmur2', 'java:0.8')
    """
    return (*client_partitioners(), *sorted(plugged_in().keys() - client_partitioners().keys()))


def by_key() -> tuple[str, ...]:
    """Return the names of the built-in partitioners that use a record's key.

    Others, such as round robin, ignore it.

    >>> "java:roundrobin" in by_key(), "sarama:hash" in by_key()
    (False, True)
    """
    return tuple(name for name, one in client_partitioners().items() if one.rule is not None)


def find_partitioner(partitioner: object) -> Partitioner:
    """Return the `Partitioner` for a name, a Java class name, or a custom class.

    A custom class is wrapped, so that it can be used like a built-in partitioner.

    Args:
        partitioner: a name of `partitioners`, a Java class name, ``package.module:Class``, or a
            class or an object with a method ``partition`` (see `partage.keys.contract`).

    Raises:
        UnknownPartitionerError: no partitioner has the name; the error lists similar names.

    >>> find_partitioner("org.apache.kafka.clients.producer.RoundRobinPartitioner").name
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
    return custom_partitioner(partitioner)


def _is_class_path(name: str) -> bool:
    """Return whether a partitioner's name is the import path of a class, ``package.module:Class``.

    Names of built-in partitioners, such as ``java:3.9``, may also have a colon.

    >>> _is_class_path("acme.keys:Mine"), _is_class_path("java:10"), _is_class_path("murmur2")
    (True, False, False)
    """
    module, colon, attribute = name.partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    prefixes = {one.partition(":")[0] for one in client_partitioners()}
    return bool(colon) and module not in prefixes and all(map(str.isidentifier, parts))


def describe_partitioners(extra: str | None = None) -> tuple[PartitionerRow, ...]:
    """Return the table of partitioners that ``partage keys --list`` prints, one row for each.

    If a plug-in cannot be loaded, its summary is the error.

    Args:
        extra: name of one more partitioner; a class ``package.module:Class`` gets its own row.

    Raises:
        UnknownPartitionerError: no partitioner has the name ``extra``.
        InvalidConfigError: the class cannot be loaded, or is not a partitioner.

    >>> describe_partitioners("partage.keys.default_09:DefaultPartitioner")[-1].name
    'partage.keys.default_09:DefaultPartitioner'
    """
    rows = [
        PartitionerRow(
            name,
            one.summary,
            one.exact_to,
            one.rule is not None,
            one.state_class is not None,
        )
        for name, one in client_partitioners().items()
    ]
    for name in sorted(plugged_in().keys() - client_partitioners().keys()):
        try:
            said = _summary(load_plug_in(plugged_in()[name])) or "a plug-in"
        except InvalidConfigError as e:
            said = f"cannot be used: {e}"
        rows.append(PartitionerRow(name, said, None, by_key=True, stateful=False))
    if (
        extra is not None
        and custom_rule(find_partitioner(extra)) is not None
        and extra not in plugged_in()
    ):
        made = create_partitioner({CLASS_SETTING: extra})
        rows.append(PartitionerRow(extra, _summary(type(made)), None, by_key=True, stateful=False))
    return tuple(rows)


def _summary(kind: object) -> str:
    return (getattr(kind, "__doc__", None) or "").strip().partition("\n")[0]
