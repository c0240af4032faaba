"""Adapters between the two kinds of partitioners: named ones and classes of the custom contract.

`CustomKeys` lets a class of the contract place the keys of `partition_for` and `partage keys`;
`NamedPartitioner` lets a name of `partitioners` serve as ``partitioner.class`` of a
`RecordPartitioner`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, PartageError
from partage.keys.clients.java_sticky_cache import StickyCache, next_cached
from partage.keys.columns import KeyColumn
from partage.keys.contract import CLASS_SETTING, RecordPartitioner, led_partitions
from partage.keys.partitioner import Partitioner, State, started
from partage.model import Cluster

__all__ = ["CustomKeys", "CustomRule", "NamedPartitioner"]

#: Clients with one counter for all topics.
_ONE_COUNTER = {"java:0.8", "java:0.9"}


@dataclass(frozen=True)
class CustomRule:
    """The decisions of a custom partitioner, made anew for each column of keys.

    Attributes:
        kind: the class, an instance, or the name by which `RecordPartitioner` finds it.
        topic: the name of the topic that the class sees.
        configs: settings that its ``configure`` gets.
        unkeyed: what counts of spread leave out; `partition_for` asks the class for null keys.
    """

    kind: object
    topic: str = "topic"
    configs: Mapping[str, object] = field(default_factory=dict, hash=False)
    unkeyed: ClassVar[str] = "null"

    def of_key(self, key: bytes, partitions: int) -> int:
        """Return the partition of one key."""
        return int(self._placed([key], partitions)[0])

    def of_all(self, keys: KeyColumn, partitions: int) -> NDArray[np.int32]:
        """Return int32[n]: the partition of each record, of those with a null key too.

        Raises:
            InvalidConfigError: the class cannot be made, or gives no partition of the topic.
        """
        data, starts = keys.data.tobytes(), keys.starts.tolist()
        found = [data[a:b] for a, b in pairwise(starts)]
        records: list[bytes | None] = list(found)
        if keys.code is not None:
            records = [found[code] if found else None for code in keys.code.tolist()]
        if keys.null is not None:
            records = [None if n else k for k, n in zip(records, keys.null.tolist(), strict=True)]
        return self._placed(records, partitions)

    def left_over(self, keys: KeyColumn) -> None:
        """Return None: the class decides for every record."""

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


class CustomKeys(Partitioner):
    """A custom partitioner as one of `partition_for`: it has no state between calls.

    >>> from partage.keys.default_09 import DefaultPartitioner
    >>> CustomKeys(DefaultPartitioner).name
    'partage.keys.default_09:DefaultPartitioner'
    """

    def __init__(
        self, kind: object, topic: str = "topic", configs: Mapping[str, object] | None = None
    ) -> None:
        self.rule: Any = CustomRule(kind, topic, configs or {})  # type: ignore[misc]  # an instance's own
        made_by = kind if isinstance(kind, type) else type(kind)
        self.name = (  # type: ignore[misc]  # as above
            kind if isinstance(kind, str) else f"{made_by.__module__}:{made_by.__qualname__}"
        )

    def refusal(self, partition: int, partitions: int) -> str:
        """Return the words of a Java producer about a partition that the topic does not have."""
        return (
            f"Invalid partition given with record: {partition} is not in the range "
            f"[0...{partitions}]."
        )


class NamedPartitioner:
    """A partitioner of `partitioners` behind the interface of the custom contract.

    Settings: ``partage.seed`` (0), the seed of its random numbers, and ``partage.counter``, where
    a round robin starts. Each topic has a state of its own, as in the client.

    >>> cluster = Cluster.from_topics({"orders": 10})
    >>> from partage.keys.registry import find
    >>> one = NamedPartitioner(find("java:3.9"))
    >>> one.configure({})
    >>> one.partition("orders", None, b"foobar", None, None, cluster)
    6
    """

    def __init__(self, partitioner: Partitioner) -> None:
        self.partitioner = partitioner
        self._settings: dict[str, object] = {}
        self._seed = 0
        self._states: dict[str, State] = {}

    def configure(self, configs: Mapping[str, object]) -> None:
        """Take seed and counter.

        Raises:
            InvalidConfigError: one is no int, or the partitioner has no counter.
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
        """Return the partition of a record.

        Raises:
            InvalidConfigError: the cluster has no such topic.
        """
        from partage.keys.placing import partition_for

        count, led = led_partitions(topic, cluster)
        one = self.partitioner
        if one.state is None:
            found = int(partition_for([key_bytes], partitions=count, partitioner=one.name)[0])
            if found < 0:
                what = f"{one.name} leaves records without a key to the producer"
                raise InvalidConfigError(CLASS_SETTING, what, one.name)
            return found
        state = self._state(topic, led)
        # A sticky cache is told of new batches; the others count bytes.
        size = (
            0 if isinstance(state, StickyCache) else len(key_bytes or b"") + len(value_bytes or b"")
        )
        placed, after = partition_for(
            [key_bytes], partitions=count, partitioner=one.name, state=state, sizes=[size]
        )
        self._states[self._shared(topic)] = after
        return int(placed[0])

    def on_new_batch(self, topic: str, cluster: Cluster, previous: int) -> None:
        """Choose another partition for records without a key (KIP-480)."""
        count, led = led_partitions(topic, cluster)
        state = self._state(topic, led) if self.partitioner.state is not None else None
        if isinstance(state, StickyCache):
            self._states[topic] = next_cached(state, count, previous)[1]

    def close(self) -> None:
        """Hold nothing."""

    def _shared(self, topic: str) -> str:
        return "" if self.partitioner.name in _ONE_COUNTER else topic

    def _state(self, topic: str, led: tuple[int, ...] | None) -> State:
        from partage.keys.placing import with_leaders

        known = self._states.get(self._shared(topic))
        if known is None:
            known = started(self.partitioner, self._seed, **self._settings)
        return with_leaders(known, led)
