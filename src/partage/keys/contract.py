"""Custom partitioners: Kafka's `Partitioner` interface in Python, and the producer around it.

A class with the methods of `CustomPartitioner`, chosen by ``partitioner.class`` as in a producer's
configuration: the class itself, ``"package.module:Class"``, the name under which a package
announces it by an entry point in the group ``partage.partitioners``, or a name of `partitioners`.
``java:0.9`` is the worked example, written against this contract (`partage.keys.default_09`);
``java:3.9`` is the later class of the same name, and what the class name alone means everywhere.

`RecordPartitioner` is the producer's part: explicit partitions and checks around a partitioner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, PartageError, UnknownPartitionerError
from partage.keys.clients import (
    ENTRY_POINTS,
    find_named,
    load_plug_in,
    plugged_in,
)
from partage.keys.clients.java import StickyCache, draw_sticky_partition, invalid_record_partition
from partage.keys.columns import KeyColumn
from partage.keys.partitioner import Partitioner, PartitionerState, initial_state
from partage.keys.record_placement import place_keys, with_leaders
from partage.model import Cluster

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "CLASS_SETTING",
    "CustomPartitioner",
    "CustomRule",
    "RecordPartitioner",
    "create_partitioner",
    "custom_partitioner",
    "custom_rule",
    "partitions_with_leader",
]

CLASS_SETTING = "partitioner.class"
#: Names whose class is written against the contract.
_WORKED_EXAMPLES = {"java:0.9": "partage.keys.default_09:DefaultPartitioner"}
#: Clients with one counter for all topics.
_ONE_COUNTER = {"java:0.8", "java:0.9"}


@runtime_checkable
class CustomPartitioner(Protocol):
    """Interface of a custom partitioner, with the methods of Java's interface ``Partitioner``.

    A class may also have a method ``on_new_batch(topic, cluster, previous)``. Producers 2.4 to 3.9
    call it if a record needs a new batch, before they call ``partition`` again.
    """

    def configure(self, configs: Mapping[str, object]) -> None:
        """Receive the settings of the Kafka producer.

        The producer calls this method of its partitioner once, before any other.
        """
        ...

    def partition(  # noqa: PLR0917 - Kafka's own signature
        self,
        topic: str,
        key: object,
        key_bytes: bytes | None,
        value: object,
        value_bytes: bytes | None,
        cluster: Cluster,
    ) -> int:
        """Return the number of the partition for a record, 0 or more.

        Key and value are given as objects and as serialized bytes. ``cluster`` has the topic's
        partitions and their leaders.
        """
        ...

    def close(self) -> None:
        """Release the resources of this partitioner, such as connections.

        The Kafka producer calls this method when it closes.
        """
        ...


def create_partitioner(configs: Mapping[str, object]) -> CustomPartitioner:
    """Create the custom partitioner that the setting ``partitioner.class`` names, and configure it.

    ``configs`` has the producer's settings, which the partitioner receives.

    Raises:
        InvalidConfigError: the setting is missing, the class cannot be loaded, or a method is
            missing.

    >>> type(create_partitioner({"partitioner.class": "java:0.9"})).__module__
    'partage.keys.default_09'
    >>> name = "org.apache.kafka.clients.producer.internals.DefaultPartitioner"
    >>> create_partitioner({"partitioner.class": name}).partitioner.name
    'java:3.9'
    """
    named = configs.get(CLASS_SETTING)
    if named is None:
        raise InvalidConfigError(CLASS_SETTING, "names no partitioner", named)
    kind = _loaded(named) if isinstance(named, str) else named
    try:
        made = kind() if isinstance(kind, type) else kind
    except Exception as e:
        what = f"cannot be made ({type(e).__name__}: {e})"
        raise InvalidConfigError(CLASS_SETTING, what, named) from e
    if not isinstance(made, CustomPartitioner):
        lacks = [one for one in ("configure", "partition", "close") if not hasattr(made, one)]
        what = f"is no partitioner (it lacks {', '.join(lacks)})"
        raise InvalidConfigError(CLASS_SETTING, what, named)
    made.configure(configs)
    return made


def _loaded(name: str) -> object:
    home = _WORKED_EXAMPLES.get(name, name)
    if home in plugged_in():
        return load_plug_in(plugged_in()[home])
    try:
        named = find_named(home)
    except UnknownPartitionerError as e:
        unknown = e
    else:
        return NamedPartitioner(named)
    module, colon, attribute = home.partition(":")
    if not colon:
        known = ", ".join([*unknown.known, *plugged_in()])
        what = f"is neither module:Class nor a name of {ENTRY_POINTS}; known: {known}"
        raise InvalidConfigError(CLASS_SETTING, what, name)
    try:
        return getattr(import_module(module), attribute)
    except Exception as e:
        what = f"cannot be loaded ({type(e).__name__}: {e})"
        raise InvalidConfigError(CLASS_SETTING, what, name) from e


def partitions_with_leader(topic: str, cluster: Cluster) -> tuple[int, tuple[int, ...] | None]:
    """Return a topic's partition count, and the numbers of the partitions that have a leader.

    The second value is None if all partitions have a leader, which is the usual case.

    Raises:
        InvalidConfigError: the cluster has no such topic.
    """
    partitions = cluster.partitions_of(topic)
    if not len(partitions):
        raise InvalidConfigError("topic", "the cluster has no such topic", topic)
    led = tuple(i for i, p in enumerate(partitions.tolist()) if cluster.leader[p] >= 0)
    return len(partitions), None if len(led) == len(partitions) else led


class NamedPartitioner:
    """Adapter from a built-in partitioner, such as ``java:3.9``, to a `CustomPartitioner`.

    Settings: ``partage.seed`` (default 0), the seed of its random numbers, and ``partage.counter``,
    the first value of a round-robin counter. Each topic has its own state, as in the client.

    >>> cluster = Cluster.from_topics({"orders": 10})
    >>> one = NamedPartitioner(find_named("java:3.9"))
    >>> one.configure({})
    >>> one.partition("orders", None, b"foobar", None, None, cluster)
    6
    """

    def __init__(self, partitioner: Partitioner) -> None:
        self.partitioner = partitioner
        self._settings: dict[str, object] = {}
        self._seed = 0
        self._states: dict[str, PartitionerState] = {}

    def configure(self, configs: Mapping[str, object]) -> None:
        """Read the random seed and the initial counter from the producer's settings.

        They are ``partage.seed`` and ``partage.counter`` in ``configs``.

        Raises:
            InvalidConfigError: a setting is not an int, or the partitioner has no counter.
        """
        for name in ("partage.seed", "partage.counter"):
            value = configs.get(name, 0)
            if not isinstance(value, int) or isinstance(value, bool):
                raise InvalidConfigError(name, "must be an int", value)
        self._seed = int(str(configs.get("partage.seed", 0)))
        if "partage.counter" in configs:
            self._settings = {"counter": configs["partage.counter"]}

    def partition(  # noqa: PLR0917 - Kafka's own signature
        self,
        topic: str,
        key: object,  # noqa: ARG002 - the contract hands it over
        key_bytes: bytes | None,
        value: object,  # noqa: ARG002 - the same
        value_bytes: bytes | None,
        cluster: Cluster,
    ) -> int:
        """Return the partition that the built-in partitioner chooses for a record of ``topic``.

        The key decides, unless the partitioner ignores keys. A record without a key is placed round
        robin or sticky, and changes the topic's state. The value is ignored.

        Raises:
            InvalidConfigError: the cluster has no such topic.
        """
        count, led = partitions_with_leader(topic, cluster)
        one = self.partitioner
        if one.state_class is None:
            found = int(place_keys(one, [key_bytes], count)[0])
            if found < 0:
                what = f"{one.name} leaves records without a key to the producer"
                raise InvalidConfigError(CLASS_SETTING, what, one.name)
            return found
        state = self._state(topic, led)
        # `on_new_batch` reports new batches to a sticky cache; other states count bytes.
        size = (
            0 if isinstance(state, StickyCache) else len(key_bytes or b"") + len(value_bytes or b"")
        )
        placed, after = place_keys(one, [key_bytes], count, state, sizes=[size])
        self._states[self._shared(topic)] = after
        return int(placed[0])

    def on_new_batch(self, topic: str, cluster: Cluster, previous: int) -> None:
        """Choose a new sticky partition (KIP-480) because a batch is full.

        It is the partition of the next records without a key. Nothing happens if the partitioner is
        not sticky.

        Args:
            topic: name of the topic.
            cluster: the cluster, with the topic's partitions.
            previous: partition of the full batch.
        """
        count, led = partitions_with_leader(topic, cluster)
        state = self._state(topic, led) if self.partitioner.state_class is not None else None
        if isinstance(state, StickyCache):
            self._states[topic] = draw_sticky_partition(state, count, previous)[1]

    def close(self) -> None:
        """Do nothing, because a built-in partitioner has no resources to release.

        The method exists because Kafka's interface ``Partitioner`` has it.
        """

    def _shared(self, topic: str) -> str:
        return "" if self.partitioner.name in _ONE_COUNTER else topic

    def _state(self, topic: str, led: tuple[int, ...] | None) -> PartitionerState:
        known = self._states.get(self._shared(topic))
        if known is None:
            known = initial_state(self.partitioner, self._seed, **self._settings)
        return with_leaders(known, led)


class RecordPartitioner:
    """Record placement of a Java producer that has a custom partitioner (``partitioner.class``).

    A partition that the record names takes precedence over the custom partitioner. A number that
    the topic does not have is rejected. Use it in a with statement, which closes the partitioner.

    Args:
        configs: the producer's settings; ``partitioner.class`` names the partitioner.
        asks_again: whether the partitioner is called twice for a record that needs a new batch, as
            in producers 2.4 to 3.9, with ``on_new_batch`` between.

    >>> name = "org.apache.kafka.clients.producer.internals.DefaultPartitioner"
    >>> cluster = Cluster.from_topics({"orders": 10})
    >>> with RecordPartitioner({"partitioner.class": name}) as producer:
    ...     producer.partition("orders", cluster, key_bytes=b"foobar")
    6
    """

    def __init__(self, configs: Mapping[str, object], *, asks_again: bool = False) -> None:
        self.partitioner = create_partitioner(configs)
        self._asks_again = asks_again

    def partition(
        self,
        topic: str,
        cluster: Cluster,
        *,
        key: object = None,
        key_bytes: bytes | None = None,
        value: object = None,
        value_bytes: bytes | None = None,
        explicit: int | None = None,
        needs_new_batch: bool = False,
    ) -> int:
        """Return the partition to which a Java producer with a custom partitioner sends a record.

        It is the partition that the record names. If it names none, the custom partitioner chooses.

        Args:
            topic: name of the topic.
            cluster: the cluster, as in the producer's metadata.
            key: the key before serialization.
            key_bytes: the serialized key; None for no key.
            value: the value before serialization.
            value_bytes: the serialized value; None for no value.
            explicit: the partition that the record names; None if it names none.
            needs_new_batch: whether the partition's batch has no room for the record.

        Raises:
            InvalidConfigError: the topic has no such explicit partition, or the partitioner
                returned a negative number or no int.
        """
        count = len(cluster.partitions_of(topic))
        if explicit is not None:
            if not 0 <= explicit < count:
                what = invalid_record_partition(explicit, count)
                raise InvalidConfigError("partition", what, explicit)
            return explicit
        record = (topic, key, key_bytes, value, value_bytes, cluster)
        answer = self._checked(self.partitioner.partition(*record))
        if needs_new_batch and self._asks_again:
            hook: Any = getattr(self.partitioner, "on_new_batch", None)
            if hook is not None:
                hook(topic, cluster, answer)
            answer = self._checked(self.partitioner.partition(*record))
        return answer

    @staticmethod
    def _checked(answer: object) -> int:
        if not isinstance(answer, int) or isinstance(answer, bool):
            raise InvalidConfigError(CLASS_SETTING, "must answer an int", answer)
        if answer < 0:
            what = (
                f"The partitioner generated an invalid partition number: {answer}. "
                "Partition number should always be non-negative."
            )
            raise InvalidConfigError(CLASS_SETTING, what, answer)
        return answer

    def close(self) -> None:
        """Close the custom partitioner of a producer, so that it releases its resources.

        The end of a ``with`` block calls this method.
        """
        self.partitioner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class CustomRule:
    """Placement rule that calls a custom partitioner for each record key.

    With it, a user's class can be used like the hash rule of a built-in partitioner. Each column of
    keys gets a new instance of the class.

    Attributes:
        kind: the class, an instance, or the name by which `RecordPartitioner` finds it.
        topic: the topic name that is passed to the class.
        configs: settings that are passed to its ``configure``.
        unkeyed: records that count as having no key in statistics ("null"); the class still places
            them.
    """

    kind: object
    topic: str = "topic"
    configs: Mapping[str, object] = field(default_factory=dict, hash=False)
    unkeyed: ClassVar[str] = "null"

    def place_key(self, key: bytes, partitions: int) -> int:
        """Return the partition that the user's custom partitioner chooses for one record key.

        ``partitions`` is the topic's partition count.
        """
        return int(self._placed([key], partitions)[0])

    def place_column(self, keys: KeyColumn, partitions: int) -> NDArray[np.int32]:
        """Return the partition that the custom partitioner chooses for each record (int32[n]).

        The partitioner is called for records without a key too. ``partitions`` is the topic's
        partition count.

        Raises:
            InvalidConfigError: the class cannot be created, or returns no partition of the topic.
        """
        data, starts = keys.data.tobytes(), keys.starts.tolist()
        found = [data[a:b] for a, b in pairwise(starts)]
        records: list[bytes | None] = list(found)
        if keys.code is not None:
            records = [found[code] if found else None for code in keys.code.tolist()]
        if keys.null is not None:
            records = [None if n else k for k, n in zip(records, keys.null.tolist(), strict=True)]
        return self._placed(records, partitions)

    def unplaced_mask(self, keys: KeyColumn) -> None:
        """Return None: a custom partitioner places all records, also those without a key.

        Other rules return a mask of the records whose key does not determine the partition.
        """

    def _placed(self, records: list[bytes | None], partitions: int) -> NDArray[np.int32]:
        cluster = Cluster.from_topics({self.topic: partitions})
        out = np.empty(len(records), np.int32)
        with RecordPartitioner({**self.configs, CLASS_SETTING: self.kind}) as producer:
            for i, key in enumerate(records):
                try:
                    at = producer.partition(self.topic, cluster, key=key, key_bytes=key)
                except PartageError:
                    raise
                except Exception as e:
                    what = f"the class failed on a key ({type(e).__name__}: {e})"
                    raise InvalidConfigError(CLASS_SETTING, what, key) from e
                if at >= partitions:
                    what = f"must answer a partition of the topic, 0 to {partitions - 1}"
                    raise InvalidConfigError(CLASS_SETTING, what, at)
                out[i] = at
        return out


def custom_rule(partitioner: Partitioner) -> CustomRule | None:
    """Return the placement rule of a custom partitioner; None for a built-in partitioner.

    The rule calls the user's class for each record.
    """
    rule: object = partitioner.rule
    return rule if isinstance(rule, CustomRule) else None


def custom_partitioner(
    partitioner_class: object, topic: str = "topic", configs: Mapping[str, object] | None = None
) -> Partitioner:
    """Wrap a custom partitioner class as a `Partitioner`, like the built-in ones.

    The result keeps no state between calls.

    Args:
        partitioner_class: the class, an instance, or the name by which `RecordPartitioner` finds
            it.
        topic: the topic name that is passed to the class.
        configs: settings that are passed to its ``configure``.

    >>> from partage.keys.default_09 import DefaultPartitioner
    >>> custom_partitioner(DefaultPartitioner).name
    'partage.keys.default_09:DefaultPartitioner'
    """
    rule: Any = CustomRule(partitioner_class, topic, configs or {})
    made_by = partitioner_class if isinstance(partitioner_class, type) else type(partitioner_class)
    name = (
        partitioner_class
        if isinstance(partitioner_class, str)
        else f"{made_by.__module__}:{made_by.__qualname__}"
    )
    return Partitioner(name, "", None, rule, refusal=invalid_record_partition)
