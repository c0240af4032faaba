"""Partitioners of client libraries: one module, with one table, for each library.

Here they are found by name and by Java class name, as are announced plug-ins.
`partage.keys.registry` puts them together with classes of the custom contract.

    java         Kafka's Java producers and Kafka Streams
    librdkafka   confluent-kafka and the other bindings of librdkafka
    python       kafka-python and aiokafka
    go           Sarama and franz-go
    scala        Kafka's Scala producer of 0.8
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from partage.errors import InvalidConfigError, UnknownPartitionerError
from partage.keys.partitioner import Partitioner

__all__ = ["ENTRY_POINTS", "client_partitioners", "find_named", "load_plug_in", "plugged_in"]

#: The group of entry points by which another package adds a partitioner (`partage.keys.contract`).
ENTRY_POINTS = "partage.partitioners"

#: Modules with tables of partitioners, in the order of the documentation.
_TABLES = (
    ("java", "JAVA"),
    ("scala", "SCALA"),
    ("java", "STREAMS"),
    ("librdkafka", "LIBRDKAFKA"),
    ("go", "SARAMA"),
    ("go", "FRANZ_GO"),
    ("python", "PYTHON"),
)


@cache
def client_partitioners() -> dict[str, Partitioner]:
    """Return the built-in partitioners of all client libraries, as a dict by name.

    Names such as ``java:3.9`` are in the order of the documentation. The values are `Partitioner`
    objects.
    """
    tables: list[tuple[Partitioner, ...]] = [
        getattr(import_module(f"partage.keys.clients.{module}"), table) for module, table in _TABLES
    ]
    return {partitioner.name: partitioner for table in tables for partitioner in table}


def find_named(name: str) -> Partitioner:
    """Find the built-in partitioner of a Kafka client by its name or Java class name.

    An example of a name is ``java:3.9``.

    Raises:
        UnknownPartitionerError: no partitioner has the name; the error lists similar names.
    """
    ours = client_partitioners()
    if name in ours:
        return ours[name]
    for one in ours.values():
        if name in one.aliases:
            return one
    names = [*ours, *(alias for one in ours.values() for alias in one.aliases)]
    close = difflib.get_close_matches(str(name), names, n=3)
    raise UnknownPartitionerError(str(name), known=tuple(ours), close=close)


@cache
def plugged_in() -> dict[str, EntryPoint]:
    """Return the custom partitioners that installed packages offer as plug-ins.

    The result is a dict from name to entry point. Nothing is imported yet.
    """
    return {one.name: one for one in entry_points(group=ENTRY_POINTS)}


def load_plug_in(point: EntryPoint) -> object:
    """Import a custom partitioner from an installed package's entry point, and return it.

    It can then be used by its name, like a built-in partitioner.

    Raises:
        InvalidConfigError: the import fails; the error has the reason.
    """
    try:
        return point.load()
    except Exception as e:
        what = f"the plug-in cannot be loaded ({type(e).__name__}: {e})"
        raise InvalidConfigError(f"{ENTRY_POINTS}.{point.name}", what, point.value) from e
