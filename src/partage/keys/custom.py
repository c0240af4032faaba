"""Classes of the custom contract as partitioners of `partition_for` and `partage keys`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, PartageError
from partage.keys.columns import KeyColumn
from partage.keys.contract import CLASS_SETTING, RecordPartitioner
from partage.keys.partitioner import Partitioner
from partage.model import Cluster

__all__ = ["CustomKeys", "CustomRule"]


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
