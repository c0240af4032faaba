"""Groups of the classic protocol: record type 2."""

from __future__ import annotations

from partage.wire.schema import Field, Message

__all__ = ["GROUP_METADATA_KEY", "GROUP_METADATA_VALUE"]

GROUP_METADATA_KEY = Message(
    "GroupMetadataKey",
    kind="coordinator-key",
    api_key=2,
    valid="0",
    flexible="none",
    fields=(Field("group", "string", "0"),),
)
GROUP_METADATA_VALUE = Message(
    "GroupMetadataValue",
    kind="coordinator-value",
    api_key=2,
    valid="0-4",
    flexible="4+",
    fields=(
        Field("protocolType", "string", "0+"),
        Field("generation", "int32", "0+"),
        Field("protocol", "string", "0+", nullable="0+"),
        Field("leader", "string", "0+", nullable="0+"),
        Field("currentStateTimestamp", "int64", "2+", default=-1, ignorable=True),
        Field("members", "[]MemberMetadata", "0+"),
    ),
    structs=(
        Field(
            "MemberMetadata",
            "struct",
            "0+",
            fields=(
                Field("memberId", "string", "0+"),
                Field(
                    "groupInstanceId", "string", "3+", nullable="3+", default="null", ignorable=True
                ),
                Field("clientId", "string", "0+"),
                Field("clientHost", "string", "0+"),
                Field("rebalanceTimeout", "int32", "1+", default=-1, ignorable=True),
                Field("sessionTimeout", "int32", "0+"),
                Field("subscription", "bytes", "0+"),
                Field("assignment", "bytes", "0+"),
            ),
        ),
    ),
)
