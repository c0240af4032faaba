"""Records of consumer, share and streams groups, as the history needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from partage.history.records import ClassicState, Place

__all__ = ["KINDS", "ById", "GroupRecord", "ids_and_numbers"]

#: First word of a record type -> protocol of the group.
KINDS: Mapping[str, str] = {
    "GROUP": "classic",
    "CONSUMER": "consumer",
    "SHARE": "share",
    "STREAMS": "streams",
}

#: (topic id or subtopology, partition numbers) in the order stored.
ById = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """Any record of a group that is no offset commit.

    Attributes:
        type: Kafka's name of the record type, as in `partage.wire.group_log.RECORD_TYPES`.
        key, value: as `partage.wire.group_log` decodes them, or as its JSON has them;
            value is None for a tombstone.
        state: of a classic group, where it has been made of columns; then ``value`` is None.

    >>> GroupRecord(Place(0, 1), 5, "SHARE_GROUP_METADATA", {"groupId": "g"}, None).kind
    'share'
    """

    place: Place
    timestamp_ms: int
    type: str
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None
    state: ClassicState | None = None

    @property
    def kind(self) -> str:
        """The protocol of the group: classic, consumer, share or streams."""
        return KINDS[self.type.split("_", 1)[0]]

    @property
    def what(self) -> str:
        """The record type without the kind: ``GROUP_METADATA``, ``GROUP_MEMBER_METADATA``, ..."""
        return self.type if self.kind == "classic" else self.type.split("_", 1)[1]


def ids_and_numbers(rows: Any, name: str = "topicId") -> ById:
    """Rows of ``{topicId, partitions}`` (or ``subtopologyId``) as pairs.

    >>> ids_and_numbers([{"topicId": "x", "partitions": [1, 0]}])
    (('x', (1, 0)),)
    """
    return tuple((row[name], tuple(row["partitions"])) for row in rows or ())
