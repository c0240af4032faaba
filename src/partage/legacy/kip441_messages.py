r"""The message layouts that KIP-441's document prints, and the task lags computed from them.

The document prints three layouts:

* *SubscriptionInfo version 4*: version, latest supported version, client's UUID, previous tasks,
  standby tasks, end point. Kafka 2.1 to 2.3 sent this layout; `wire.streams` reads it.
* *AssignmentInfo version 4*: version, latest supported version, active tasks, standby tasks,
  partitions by host, error code. Kafka 2.1 to 2.3 sent this layout; `wire.streams` reads it.
* *SubscriptionInfo version 5*: version, latest supported version, client's UUID, **store lags**
  (a map of store id to int32), end point. It was never released. Version 5 of Kafka 2.4 has the
  lists of version 4, and version 7 reports lags as one offset sum per task. Nothing in the bytes
  distinguishes the draft from a `subscription_info.SubscriptionInfo` of version 5.

The document leaves gaps, which are filled as in Kafka's other messages of that time. An int32
count precedes lists and maps. An end point is ``host:port``, as an int32 length and UTF-8. A store
id is the store's name and its partition (int16 length, UTF-8; int32), because a client hosts many
partitions of a store and the topology has stores by name.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError, WireFormatError
from partage.java.strings import decode_utf8, encode_utf8
from partage.wire.errors import EncodingError, UnsupportedVersionError
from partage.wire.primitives import ByteReader, ByteWriter
from partage.wire.streams.arrays import NO_VALUES, TaskArrays, TaskValues

__all__ = [
    "StoreId",
    "StoreLags",
    "SubscriptionDraft5",
    "decode_subscription_draft_5",
    "encode_subscription_draft_5",
    "task_lags_of_stores",
]

StoreId = tuple[str, int]
"""The name of a store and the number of its partition."""

_DRAFT_5 = "SubscriptionInfo draft 5"

Read = TypeVar("Read")


@dataclass(frozen=True, eq=False)
class StoreLags:
    """Lags that a Kafka Streams client reports for its state stores, as columns of arrays.

    A store's lag is the number of changelog records that it has yet to restore.

    Attributes:
        store: int32[n], index of each store's name in ``names``.
        partition: int32[n], partition number of each store.
        lag: int32[n], lag in offsets. Decoded lags may be negative; `task_lags_of_stores` rejects
            them.
        names: the distinct names of stores.

    >>> list(StoreLags.from_lags({("counts", 0): 7}))
    [(('counts', 0), 7)]
    """

    store: NDArray[np.int32]
    partition: NDArray[np.int32]
    lag: NDArray[np.int32]
    names: tuple[str, ...] = ()

    @classmethod
    def from_lags(cls, lags: Mapping[StoreId, int] | Iterable[tuple[StoreId, int]]) -> StoreLags:
        """Build the lags of a client's state stores from a dict, such as ``{("counts", 0): 7}``.

        A key is the name of a store and its partition number; the value is the number of changelog
        records that are not restored yet.

        Args:
            lags: the lag in offsets by (store name, partition number), or pairs of both.

        Raises:
            EncodingError: a key is not a (store, partition) pair, or a number does not fit an
                int32.
        """
        pairs = lags.items() if isinstance(lags, Mapping) else lags
        stores, partitions, numbers = array("i"), array("i"), array("i")
        names: dict[str, int] = {}
        for place, pair in enumerate(pairs):
            try:
                (name, partition), lag = pair
                partitions.append(partition)
                numbers.append(lag)
                stores.append(names.setdefault(name, len(names)))
            except (TypeError, ValueError, OverflowError):
                what = f"not a ((store, int32 partition), int32 lag): {pair!r:.80}"
                field = f"{_DRAFT_5}.storeLags[{place}]"
                raise EncodingError(what, offset=0, field=field, version=5) from None
        return cls.from_columns(stores, partitions, numbers, names)

    @classmethod
    def from_columns(
        cls, stores: array[int], partitions: array[int], lags: array[int], names: Iterable[str]
    ) -> StoreLags:
        """Build the lags of a client's state stores from three arrays with one item for each store.

        `from_lags` takes a dict instead.

        Args:
            stores: for each store the index of its name in ``names``.
            partitions: partition number of each store.
            lags: lag of each store in offsets.
            names: the names of the stores.
        """
        store, partition, lag = (np.array(one, np.int32) for one in (stores, partitions, lags))
        return cls(store, partition, lag, tuple(names))

    def __len__(self) -> int:
        return len(self.lag)

    def __iter__(self) -> Iterator[tuple[StoreId, int]]:
        columns = (self.store.tolist(), self.partition.tolist(), self.lag.tolist())
        return (
            ((self.names[store], partition), lag)
            for store, partition, lag in zip(*columns, strict=True)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoreLags):
            return NotImplemented
        return np.array_equal(self.lag, other.lag) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash((self.partition.tobytes(), self.lag.tobytes()))

    def __repr__(self) -> str:
        return f"StoreLags({list(self)[:8]}{', …' if len(self) > 8 else ''})"


@dataclass(frozen=True)
class SubscriptionDraft5:
    """Subscription message of Kafka Streams that KIP-441 proposed as version 5.

    Kafka's released version 5 is another message. This one has the lags of state stores in place of
    task ids.

    Attributes:
        latest_version: the latest version that the client supports, at least 5.
        process: the client's id, 16 bytes.
        store_lags: the lag of each store that it hosts.
        user_endpoint: ``host:port`` as sent, empty for none.
        trailing: number of bytes that follow the message.
    """

    process: bytes
    store_lags: StoreLags
    user_endpoint: bytes = b""
    latest_version: int = 5
    trailing: int = 0

    @classmethod
    def from_values(
        cls,
        *,
        process: bytes,
        store_lags: Mapping[StoreId, int] | Iterable[tuple[StoreId, int]] = (),
        endpoint: str | None = None,
        latest_version: int = 5,
    ) -> SubscriptionDraft5:
        """Build the subscription message that KIP-441 proposed, from Python values.

        `encode_subscription_draft_5` converts it to bytes.

        Args:
            process: UUID of the client's process, 16 bytes.
            store_lags: lag of each state store in offsets, by (store, partition).
            endpoint: the client's ``application.server``, None if it has none.
            latest_version: latest message version that the client supports.

        Raises:
            EncodingError: a lag does not fit an int32, or a key is not a (store, partition) pair.
        """
        lags = StoreLags.from_lags(store_lags)
        return cls(process, lags, encode_utf8(endpoint or ""), latest_version)

    @property
    def endpoint(self) -> str | None:
        """The client's ``application.server`` as text (``host:port``), None if it has none.

        Kafka Streams uses this address for interactive queries.
        """
        return decode_utf8(self.user_endpoint) if self.user_endpoint else None


def encode_subscription_draft_5(info: SubscriptionDraft5) -> bytes:
    r"""Encode a Kafka Streams subscription in the format that KIP-441 proposed as version 5.

    The format was never released; Kafka's own version 5 differs.

    Raises:
        EncodingError: a value does not fit its field.

    >>> lags = {("counts", 0): 7}
    >>> info = SubscriptionDraft5.from_values(process=bytes(16), store_lags=lags, endpoint="h:80")
    >>> encode_subscription_draft_5(info)[24:].hex(" ", 4)
    '00000001 0006636f 756e7473 00000000 00000007 00000004 683a3830'
    """
    writer = ByteWriter()
    field = "processId"
    try:
        writer.write_int32(5)
        writer.write_int32(info.latest_version)
        if len(info.process) != 16:
            writer.raise_encoding_error(f"not 16 bytes: {info.process!r:.80}")
        writer.raw(info.process)
        field = "storeLags"
        writer.write_int32(len(info.store_lags))
        for (name, partition), lag in info.store_lags:
            writer.write_string(name)
            writer.write_int32(partition)
            writer.write_int32(lag)
        field = "endPoint"
        writer.write_int32(len(info.user_endpoint))
        writer.raw(info.user_endpoint)
    except WireFormatError as error:
        error.field, error.version = f"{_DRAFT_5}.{field}", 5
        raise
    return bytes(writer.buffer)


def decode_subscription_draft_5(data: bytes) -> SubscriptionDraft5:
    """Decode a Kafka Streams subscription in the format that KIP-441 proposed as version 5.

    The format was never released; Kafka's own version 5 differs. The result's ``trailing`` counts
    the bytes after the message.

    Raises:
        WireFormatError: the bytes are no such message.

    >>> info = SubscriptionDraft5.from_values(process=bytes(16), store_lags={("counts", 0): 7})
    >>> decode_subscription_draft_5(encode_subscription_draft_5(info)) == info
    True
    """
    reader = ByteReader(data)
    field = ""

    def get(name: str, read: Callable[[], Read]) -> Read:
        nonlocal field
        field = name
        return read()

    try:
        version = get("version", reader.read_int32)
        latest = get("latestSupportedVersion", reader.read_int32)
        if version != 5 or latest < 5:
            what = f"version {version}, latest supported {latest}: this is the draft of version 5"
            raise UnsupportedVersionError(what, offset=0, field="", version=version)
        process = get("processId", lambda: reader.read_bytes(16))
        lags = get("storeLags", lambda: _read_lags(reader))
        endpoint = get("endPoint", lambda: reader.read_bytes(reader.not_null(reader.read_int32())))
    except WireFormatError as error:
        error.field, error.version = f"{_DRAFT_5}.{field}", 5
        raise error.with_traceback(None) from None  # see `partage.wire.codec`
    return SubscriptionDraft5(process, lags, endpoint, latest, reader.remaining_bytes)


def _read_lags(reader: ByteReader) -> StoreLags:
    stores, partitions, lags = array("i"), array("i"), array("i")
    names: dict[str, int] = {}
    for _ in range(reader.check_array_length(reader.not_null(reader.read_int32()))):
        stores.append(names.setdefault(reader.read_string(), len(names)))
        partitions.append(reader.read_int32())
        lags.append(reader.read_int32())
    return StoreLags.from_columns(stores, partitions, lags, names)


# --- lags of tasks ---


def task_lags_of_stores(lags: StoreLags, subtopology_of_store: Mapping[str, int]) -> TaskValues:
    """Return the lag of each Kafka Streams task: the sum of the lags of its state stores.

    A task is a sub-topology with a partition number, and it may have several stores. Lags count
    changelog records.

    Args:
        lags: the lags that one client reported. If a store occurs twice, its last lag counts, as
            in a map.
        subtopology_of_store: the sub-topology of each store, from the topology. A store without
            one is an error, because its lag would be lost.

    Raises:
        InvalidProblemError: a negative lag, or a store that the topology does not have. (A sum
            beyond int64 needs more than 2**32 stores.)

    Source: the document KIP-441, proposed SubscriptionInfo of version 5.

    >>> lags = StoreLags.from_lags({("a", 0): 5, ("b", 0): 2**31 - 1, ("a", 1): 1})
    >>> task_lags_of_stores(lags, {"a": 0, "b": 0}).to_dict()
    {(0, 0, None): 2147483652, (0, 1, None): 1}
    """
    if not len(lags):
        return NO_VALUES
    if (lags.lag < 0).any():
        place = int(np.argmax(lags.lag < 0))
        raise InvalidProblemError(
            "must be an int32 >= 0: a lag counts offsets",
            path=f"store lags.{lags.names[lags.store[place]]}[{int(lags.partition[place])}]",
            value=int(lags.lag[place]),
        )
    for name in lags.names:
        if name not in subtopology_of_store:
            raise InvalidProblemError(
                "must be a store of the topology", path="store lags", value=name
            )
    last = _last_of_each(lags)
    numbers = np.array([subtopology_of_store[name] for name in lags.names], np.int64)
    task = numbers[lags.store[last]] << 32 | lags.partition[last].astype(np.int64) & 0xFFFFFFFF
    tasks, whose = np.unique(task, return_inverse=True)
    sums = np.zeros(len(tasks), np.int64)
    np.add.at(sums, whose, lags.lag[last].astype(np.int64))
    return TaskValues(
        TaskArrays(
            (tasks >> 32).astype(np.int32), (tasks & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
        ),
        sums,
    )


def _last_of_each(lags: StoreLags) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    # As in a map, a store's last entry counts.
    store = lags.store.astype(np.int64) << 32 | lags.partition.astype(np.int64) & 0xFFFFFFFF
    _, from_end = np.unique(store[::-1], return_index=True)
    found: np.ndarray[tuple[int], np.dtype[np.intp]] = len(store) - 1 - from_end
    return found
