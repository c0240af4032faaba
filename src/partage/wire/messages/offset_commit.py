"""Committed offsets: record types 0 (written before Kafka 0.9, still read) and 1."""

from __future__ import annotations

from partage.wire.schema import Field, Message

__all__ = [
    "LEGACY_OFFSET_COMMIT_KEY",
    "LEGACY_OFFSET_COMMIT_VALUE",
    "OFFSET_COMMIT_KEY",
    "OFFSET_COMMIT_VALUE",
]

LEGACY_OFFSET_COMMIT_KEY = Message(
    "LegacyOffsetCommitKey",
    kind="coordinator-key",
    api_key=0,
    valid="0",
    flexible="none",
    fields=(
        Field("group", "string", "0"),
        Field("topic", "string", "0"),
        Field("partition", "int32", "0"),
    ),
)
LEGACY_OFFSET_COMMIT_VALUE = Message(
    "LegacyOffsetCommitValue",
    kind="coordinator-value",
    api_key=0,
    valid="0",
    flexible="none",
    fields=(
        Field("offset", "int64", "0"),
        Field("metadata", "string", "0"),
        Field("commitTimestamp", "int64", "0"),
    ),
)
OFFSET_COMMIT_KEY = Message(
    "OffsetCommitKey",
    kind="coordinator-key",
    api_key=1,
    valid="0",
    flexible="none",
    fields=(
        Field("group", "string", "0"),
        Field("topic", "string", "0"),
        Field("partition", "int32", "0"),
    ),
)
OFFSET_COMMIT_VALUE = Message(
    "OffsetCommitValue",
    kind="coordinator-value",
    api_key=1,
    valid="0-4",
    flexible="4+",
    fields=(
        Field("offset", "int64", "0+"),
        Field("leaderEpoch", "int32", "3+", default=-1, ignorable=True),
        Field("metadata", "string", "0+"),
        Field("commitTimestamp", "int64", "0+"),
        Field("expireTimestamp", "int64", "1", default=-1, ignorable=True),
        Field("topicId", "uuid", "4+", tag=0, tagged="4+", ignorable=True),
    ),
)
