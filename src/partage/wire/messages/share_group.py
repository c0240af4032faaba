"""Share groups (KIP-932): record types 10 to 15."""

from __future__ import annotations

from partage.wire.schema import Field, Message

__all__ = [
    "SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY",
    "SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE",
    "SHARE_GROUP_MEMBER_METADATA_KEY",
    "SHARE_GROUP_MEMBER_METADATA_VALUE",
    "SHARE_GROUP_METADATA_KEY",
    "SHARE_GROUP_METADATA_VALUE",
    "SHARE_GROUP_STATE_PARTITION_METADATA_KEY",
    "SHARE_GROUP_STATE_PARTITION_METADATA_VALUE",
    "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY",
    "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE",
    "SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY",
    "SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE",
]

SHARE_GROUP_MEMBER_METADATA_KEY = Message(
    "ShareGroupMemberMetadataKey",
    kind="coordinator-key",
    api_key=10,
    valid="0",
    flexible="none",
    fields=(
        Field("GroupId", "string", "0"),
        Field("MemberId", "string", "0"),
    ),
)
SHARE_GROUP_MEMBER_METADATA_VALUE = Message(
    "ShareGroupMemberMetadataValue",
    kind="coordinator-value",
    api_key=10,
    valid="0",
    flexible="0+",
    fields=(
        Field("RackId", "string", "0+", nullable="0+"),
        Field("ClientId", "string", "0+"),
        Field("ClientHost", "string", "0+"),
        Field("SubscribedTopicNames", "[]string", "0+"),
    ),
)
SHARE_GROUP_METADATA_KEY = Message(
    "ShareGroupMetadataKey",
    kind="coordinator-key",
    api_key=11,
    valid="0",
    flexible="none",
    fields=(Field("GroupId", "string", "0"),),
)
SHARE_GROUP_METADATA_VALUE = Message(
    "ShareGroupMetadataValue",
    kind="coordinator-value",
    api_key=11,
    valid="0",
    flexible="0+",
    fields=(
        Field("Epoch", "int32", "0+"),
        Field("MetadataHash", "int64", "0+"),
    ),
)
SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Message(
    "ShareGroupTargetAssignmentMetadataKey",
    kind="coordinator-key",
    api_key=12,
    valid="0",
    flexible="none",
    fields=(Field("GroupId", "string", "0"),),
)
SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Message(
    "ShareGroupTargetAssignmentMetadataValue",
    kind="coordinator-value",
    api_key=12,
    valid="0",
    flexible="0+",
    fields=(
        Field("AssignmentEpoch", "int32", "0+"),
        Field("AssignmentTimestamp", "int64", "0+", tag=0, tagged="0+", default=0, ignorable=True),
    ),
)
SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Message(
    "ShareGroupTargetAssignmentMemberKey",
    kind="coordinator-key",
    api_key=13,
    valid="0",
    flexible="none",
    fields=(
        Field("GroupId", "string", "0"),
        Field("MemberId", "string", "0"),
    ),
)
SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Message(
    "ShareGroupTargetAssignmentMemberValue",
    kind="coordinator-value",
    api_key=13,
    valid="0",
    flexible="0+",
    fields=(
        Field(
            "TopicPartitions",
            "[]TopicPartition",
            "0+",
            fields=(
                Field("TopicId", "uuid", "0+"),
                Field("Partitions", "[]int32", "0+"),
            ),
        ),
    ),
)
SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Message(
    "ShareGroupCurrentMemberAssignmentKey",
    kind="coordinator-key",
    api_key=14,
    valid="0",
    flexible="none",
    fields=(
        Field("GroupId", "string", "0"),
        Field("MemberId", "string", "0"),
    ),
)
SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Message(
    "ShareGroupCurrentMemberAssignmentValue",
    kind="coordinator-value",
    api_key=14,
    valid="0",
    flexible="0+",
    fields=(
        Field("MemberEpoch", "int32", "0+"),
        Field("PreviousMemberEpoch", "int32", "0+"),
        Field("State", "int8", "0+"),
        Field("AssignedPartitions", "[]TopicPartitions", "0+"),
    ),
    structs=(
        Field(
            "TopicPartitions",
            "struct",
            "0+",
            fields=(
                Field("TopicId", "uuid", "0+"),
                Field("Partitions", "[]int32", "0+"),
            ),
        ),
    ),
)
SHARE_GROUP_STATE_PARTITION_METADATA_KEY = Message(
    "ShareGroupStatePartitionMetadataKey",
    kind="coordinator-key",
    api_key=15,
    valid="0",
    flexible="none",
    fields=(Field("GroupId", "string", "0"),),
)
SHARE_GROUP_STATE_PARTITION_METADATA_VALUE = Message(
    "ShareGroupStatePartitionMetadataValue",
    kind="coordinator-value",
    api_key=15,
    valid="0",
    flexible="0+",
    fields=(
        Field("InitializingTopics", "[]TopicPartitionsInfo", "0+"),
        Field("InitializedTopics", "[]TopicPartitionsInfo", "0+"),
        Field("DeletingTopics", "[]TopicInfo", "0+"),
    ),
    structs=(
        Field(
            "TopicPartitionsInfo",
            "struct",
            "0+",
            fields=(
                Field("TopicId", "uuid", "0+"),
                Field("TopicName", "string", "0+"),
                Field("Partitions", "[]int32", "0+"),
            ),
        ),
        Field(
            "TopicInfo",
            "struct",
            "0+",
            fields=(
                Field("TopicId", "uuid", "0+"),
                Field("TopicName", "string", "0+"),
            ),
        ),
    ),
)
