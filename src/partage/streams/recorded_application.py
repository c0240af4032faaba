"""A recorded Kafka Streams application, and its description as the input file of `partage streams`.

Pure. `partage.jobs.streams_capture` reads a `RecordedApplication` from a capture;
`describe_application` writes it down, with an example of a crash. What no record shows is left at
the default of the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple, TypeVar

from partage.errors import UnsupportedProblemError
from partage.streams.kip1071_sticky import ServerSticky43
from partage.streams.topology import TopicPartition

__all__ = [
    "ChangelogSize",
    "RecordedApplication",
    "RecordedClient",
    "RecordedSubtopology",
    "client_name",
    "describe_application",
    "select_typical_state",
    "store_name",
]

_T = TypeVar("_T")
#: Times of the example in seconds: the crash, the client's return, the least simulated time.
_CRASH_S, _BACK_S, _LEAST_S = 600, 120, 3_600
#: Default of ``restoreBytesPerSecond`` and of ``recordBytes`` in the file.
_RESTORE_RATE, _RECORD_BYTES = 50_000_000, 100
#: End of the client id of a stream thread's consumer.
_THREAD = re.compile(r"-StreamThread-\d+(-consumer)?$")
#: Characters of a client's name in the file.
_LONGEST_NAME = 200


class ChangelogSize(NamedTuple):
    """Size of one changelog partition of a Kafka Streams application, measured in a capture.

    The time to restore the state of a task depends on it.

    Attributes:
        records: number of its records.
        bytes: size of their keys and values; None if the capture has offsets only.
        writes_per_second: records per second that the task appended.
    """

    records: int
    bytes: int | None = None
    writes_per_second: float = 0.0


@dataclass(frozen=True)
class RecordedSubtopology:
    """Sub-topology of a Kafka Streams application that was reconstructed from a capture.

    A sub-topology is a part of the processing graph that has its own tasks.

    Attributes:
        number: number of the sub-topology, the first part of its task ids.
        sources: dict from each topic that it reads to the number of partitions.
        sinks: repartition topics that it writes; empty if no record shows them.
        changelogs: changelog topics of its stores.
    """

    number: int
    sources: Mapping[str, int]
    sinks: tuple[str, ...] = ()
    changelogs: tuple[str, ...] = ()

    @property
    def task_count(self) -> int:
        """Number of Kafka Streams tasks of the sub-topology.

        It is the number of partitions of its largest source topic.
        """
        return max(self.sources.values(), default=0)


@dataclass(frozen=True)
class RecordedClient:
    """Instance of a Kafka Streams application that was reconstructed from a capture.

    It has the stream threads and tasks of one moment.

    Attributes:
        name: its name in the file.
        process: its process id, a UUID as text.
        threads: number of its members in the group.
        rack: ``client.rack``; None without one.
        tags: its client tags.
        active, standby: ids of its assigned tasks.
        lags: dict from the id of a task that it does not run to the lag of its copy in offsets.
    """

    name: str
    process: str
    threads: int
    rack: str | None = None
    tags: Mapping[str, str] | None = None
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    lags: Mapping[str, int] | None = None


@dataclass(frozen=True)
class RecordedApplication:
    """Kafka Streams application at one moment, reconstructed from a capture of its cluster.

    The command ``partage streams --from-capture`` describes and simulates it.

    Attributes:
        name: its ``application.id``.
        is_streams_group: whether it uses the streams protocol (KIP-1071), not the classic one.
        at_ms: the moment, in ms since the epoch.
        subtopologies: its sub-topologies with their topics.
        clients: its clients at that time.
        sizes: dict from changelog partition to its size; empty if the capture does not show it.
        settings: recorded settings by Kafka's names.
        racks: dict from topic to the racks of each partition's replicas.
        source_lag: records of the source topics that it has not read; None if unknown.
        notes: sentences about what the capture lacks or what was assumed.
    """

    name: str
    is_streams_group: bool
    at_ms: int
    subtopologies: tuple[RecordedSubtopology, ...]
    clients: tuple[RecordedClient, ...]
    sizes: Mapping[TopicPartition, ChangelogSize]
    settings: Mapping[str, str]
    racks: Mapping[str, Sequence[Sequence[str]]]
    source_lag: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def default_assignor(self) -> str:
        """Name of the task assignor that a Kafka Streams application uses if it configures none.

        The capture does not show the broker's release, so streams groups get the assignor of Kafka
        4.3.
        """
        return ServerSticky43.name if self.is_streams_group else "streams:high-availability"


def select_typical_state(states: Iterable[tuple[int, int, int, _T]]) -> _T:
    """Select the newest typical state from the history of a Kafka Streams application.

    A state is typical if it has the usual number of instances, which is the number that lasted
    longest.

    Args:
        states: (first time, last time, number of instances, state) of each period, in order of
            time.

    Raises:
        ValueError: there is no state.

    >>> select_typical_state([(0, 9, 3, "a"), (9, 10, 1, "b"), (10, 15, 3, "c")])
    'c'
    """
    listed = list(states)
    lasted: Counter[int] = Counter()
    for begin, end, clients, _ in listed:
        lasted[clients] += max(0, end - begin)
    longest = max(lasted, key=lambda clients: (lasted[clients], clients))
    return [state for _, _, clients, state in listed if clients == longest][-1]


def client_name(application: str, client_id: str, taken: Iterable[str]) -> str:
    """Return a short, unique name for a Kafka Streams instance, from a thread's client id.

    The application id and the number of the thread are removed. For example,
    "shop-host7-StreamThread-1-consumer" of the application "shop" gives "host7".

    Args:
        application: the ``application.id``.
        client_id: client id of a stream thread, such as "shop-host7-StreamThread-1-consumer".
        taken: names that other instances have already.

    >>> client_name("shop", "shop-host7-StreamThread-1-consumer", ["host7"])
    'host7-2'
    """
    name = _THREAD.sub("", client_id)
    name = (name.removeprefix(f"{application}-") or name or "client")[:_LONGEST_NAME]
    known, number, free = set(taken), 1, name
    while free in known:
        number += 1
        free = f"{name[: _LONGEST_NAME - 8]}-{number}"
    return free


def store_name(application: str, changelog: str) -> str:
    """Return the name of a Kafka Streams state store, given the name of its changelog topic.

    A topic name that does not have Kafka's form ``<application>-<store>-changelog`` is returned
    unchanged.

    >>> store_name("shop", "shop-totals-changelog"), store_name("shop", "prices")
    ('totals', 'prices')
    """
    prefix, suffix = f"{application}-", "-changelog"
    if changelog.startswith(prefix) and changelog.endswith(suffix):
        return changelog[len(prefix) : -len(suffix)] or changelog
    return changelog


def describe_application(application: RecordedApplication) -> dict[str, Any]:
    """Return the JSON description of a Kafka Streams application, the input of ``partage streams``.

    The object contains an example to simulate: the client with the most state crashes, loses its
    disk, and returns after two minutes.

    Raises:
        UnsupportedProblemError: the file cannot describe the application.

    >>> one = RecordedSubtopology(0, {"lines": 2}, changelogs=("shop-words-changelog",))
    >>> sizes = {("shop-words-changelog", p): ChangelogSize(1_000, 20_000) for p in (0, 1)}
    >>> clients = (RecordedClient("a", "00000000-0000-0000-0000-000000000001", 1),)
    >>> recorded = RecordedApplication("shop", False, 0, (one,), clients, sizes, {}, {})
    >>> found = describe_application(recorded)
    >>> found["subtopologies"][0]["stores"], found["subtopologies"][0]["recordBytes"]
    ({'words': {'records': [1000, 1000]}}, 20)
    """
    _check_describable(application)
    found: dict[str, Any] = {
        "name": application.name,
        "seconds": _simulation_seconds(application),
        "subtopologies": [_subtopology(application, one) for one in application.subtopologies],
        "clients": {one.name: _client(one) for one in application.clients},
        "settings": dict(application.settings),
        "events": [
            {
                "at": _CRASH_S, "do": "crash", "client": _client_with_most_state(application),
                "disk": False, "backSeconds": _BACK_S,
            }
        ],
    }  # fmt: skip
    if application.racks:
        found["racks"] = {
            topic: [list(racks) for racks in rows] for topic, rows in application.racks.items()
        }
    return found


def _check_describable(application: RecordedApplication) -> None:
    """Check that a capture has all data that the description of a Kafka Streams application needs.

    For example, the source topics of each sub-topology must be known.

    Raises:
        UnsupportedProblemError: data are missing; the message says which.
    """
    numbers = [one.number for one in application.subtopologies]
    if numbers != list(range(len(numbers))):
        what = f"{application.name}: the capture shows sub-topologies {numbers} only"
        raise UnsupportedProblemError(f"{what}; record it while all of its tasks are assigned")
    for one in application.subtopologies:
        if not one.task_count:
            what = f"{application.name}: no source topic of sub-topology {one.number} is known"
            raise UnsupportedProblemError(f"{what}; record the cluster's metadata, too")
    if not application.clients:
        raise UnsupportedProblemError(f"{application.name}: the capture shows no client")


def _subtopology(
    application: RecordedApplication, subtopology: RecordedSubtopology
) -> dict[str, Any]:
    found: dict[str, Any] = {"sources": dict(subtopology.sources)}
    if subtopology.sinks:
        found["sinks"] = list(subtopology.sinks)
    stores: dict[str, Any] = {}
    records = size = 0
    for changelog in subtopology.changelogs:
        sizes = [application.sizes.get((changelog, p)) for p in range(subtopology.task_count)]
        known = [each for each in sizes if each is not None]
        store = stores.setdefault(store_name(application.name, changelog), {})
        if known:
            store["records"] = [0 if each is None else each.records for each in sizes]
        if writes := sum(each.writes_per_second for each in known):
            store["writesPerSecond"] = round(writes / subtopology.task_count, 3)
        in_bytes = [(each.records, each.bytes) for each in known if each.bytes is not None]
        records += sum(count for count, _ in in_bytes)
        size += sum(count for _, count in in_bytes)
    if stores:
        found["stores"] = stores
    if records:
        found["recordBytes"] = max(1, round(size / records))
    return found


def _client(client: RecordedClient) -> dict[str, Any]:
    found: dict[str, Any] = {"threads": client.threads, "process": client.process}
    if client.rack:
        found["rack"] = client.rack
    for name, value in (("tags", client.tags), ("lags", client.lags)):
        if value:
            found[name] = dict(value)
    for name, tasks in (("active", client.active), ("standby", client.standby)):
        if tasks:
            found[name] = list(tasks)
    return found


def _bytes_by_task(application: RecordedApplication) -> dict[str, int]:
    """Return the size of each Kafka Streams task's state in bytes, as a dict by task id.

    It is the size of the task's changelog partitions. A record of unknown size counts 100 bytes.
    """
    return {
        f"{one.number}_{p}": sum(
            size.records * _RECORD_BYTES if size.bytes is None else size.bytes
            for changelog in one.changelogs
            if (size := application.sizes.get((changelog, p))) is not None
        )
        for one in application.subtopologies
        for p in range(one.task_count)
    }


def _client_with_most_state(application: RecordedApplication) -> str:
    """Return the name of the Kafka Streams instance that has the most state to lose in a crash.

    State is counted in bytes of the changelogs of its active tasks.
    """
    sizes = _bytes_by_task(application)
    return max(
        application.clients,
        key=lambda one: (sum(sizes.get(task, 0) for task in one.active), len(one.active)),
    ).name


def _simulation_seconds(application: RecordedApplication) -> int:
    """Return for how many seconds ``partage streams`` should simulate a Kafka Streams application.

    It is at least an hour, and long enough to restore the state of all tasks twice.
    """
    restore_s = 2 * sum(_bytes_by_task(application).values()) / _RESTORE_RATE
    return max(_LEAST_S, 60 * ceil((_CRASH_S + _BACK_S + restore_s) / 60))
