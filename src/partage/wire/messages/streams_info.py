"""What a member of a Streams application sends as user data of its subscription (protocol
``stream`` of the classic protocol). Kafka Streams 4.3.1: ``SubscriptionInfoData.json``.

What the leader answers, ``AssignmentInfo``, has no schema in Kafka: see `streams.assignment_info`.
"""

from __future__ import annotations

from partage.wire.schema import Field, Message

__all__ = ["SUBSCRIPTION_INFO_DATA"]

_TASK_ID = Field(
    "TaskId",
    "struct",
    "1-6",
    fields=(Field("topicGroupId", "int32", "1-6"), Field("partition", "int32", "1-6")),
)
_PARTITION_TO_OFFSET_SUM = Field(
    "PartitionToOffsetSum",
    "struct",
    "7-9",
    fields=(Field("partition", "int32", "7-9"), Field("offsetSum", "int64", "7-9")),
)
_TASK_OFFSET_SUM = Field(
    "TaskOffsetSum",
    "struct",
    "7+",
    fields=(
        Field("topicGroupId", "int32", "7+"),
        Field("partition", "int32", "10+"),
        Field("offsetSum", "int64", "10+"),
        # Not ignorable: without it two tasks would have one id.
        Field("namedTopology", "string", "10+", nullable="10+"),
        Field("partitionToOffsetSum", "[]PartitionToOffsetSum", "7-9"),
    ),
)
_CLIENT_TAG = Field(
    "ClientTag",
    "struct",
    "11+",
    fields=(Field("key", "bytes", "11+"), Field("value", "bytes", "11+")),
)

SUBSCRIPTION_INFO_DATA = Message(
    "SubscriptionInfoData",
    kind="data",
    valid="1-11",
    flexible="none",
    fields=(
        Field("version", "int32", "1+"),
        Field("latestSupportedVersion", "int32", "3+", default="-1"),
        Field("processId", "uuid", "1+"),
        Field("prevTasks", "[]TaskId", "1-6"),
        Field("standbyTasks", "[]TaskId", "1-6"),
        Field("userEndPoint", "bytes", "2+"),
        Field("taskOffsetSums", "[]TaskOffsetSum", "7+"),
        Field("uniqueField", "int8", "8+"),
        Field("errorCode", "int32", "9+"),
        Field("clientTags", "[]ClientTag", "11+"),
    ),
    structs=(_TASK_ID, _TASK_OFFSET_SUM, _PARTITION_TO_OFFSET_SUM, _CLIENT_TAG),
)
