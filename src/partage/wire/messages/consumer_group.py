"""Groups of the consumer protocol (KIP-848): record types 3 to 8 and 16."""

from __future__ import annotations

from partage.wire.schema import Field, Message

__all__ = [
    "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY",
    "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE",
    "CONSUMER_GROUP_MEMBER_METADATA_KEY",
    "CONSUMER_GROUP_MEMBER_METADATA_VALUE",
    "CONSUMER_GROUP_METADATA_KEY",
    "CONSUMER_GROUP_METADATA_VALUE",
    "CONSUMER_GROUP_PARTITION_METADATA_KEY",
    "CONSUMER_GROUP_PARTITION_METADATA_VALUE",
    "CONSUMER_GROUP_REGULAR_EXPRESSION_KEY",
    "CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE",
    "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY",
    "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE",
    "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY",
    "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE",
]

CONSUMER_GROUP_METADATA_KEY = Message(
    "ConsumerGroupMetadataKey",
    kind="coordinator-key",
    api_key=3,
    valid="0",
    flexible="none",
    fields=(Field("GroupId", "string", "0"),),
)
CONSUMER_GROUP_METADATA_VALUE = Message(
    "ConsumerGroupMetadataValue",
    kind="coordinator-value",
    api_key=3,
    valid="0",
    flexible="0+",
    fields=(
        Field("Epoch", "int32", "0+"),
        Field("MetadataHash", "int64", "0+", tag=0, tagged="0+", default=0),
    ),
)
CONSUMER_GROUP_PARTITION_METADATA_KEY = Message(
    "ConsumerGroupPartitionMetadataKey",
    kind="coordinator-key",
    api_key=4,
    valid="0",
    flexible="none",
    fields=(Field("GroupId", "string", "0"),),
)
CONSUMER_GROUP_PARTITION_METADATA_VALUE = Message(
    "ConsumerGroupPartitionMetadataValue",
    kind="coordinator-value",
    api_key=4,
    valid="0",
    flexible="0+",
    fields=(
        Field(
            "Topics",
            "[]TopicMetadata",
            "0+",
            fields=(
                Field("TopicId", "uuid", "0+"),
                Field("TopicName", "string", "0+"),
                Field("NumPartitions", "int32", "0+"),
                Field(
                    "PartitionMetadata",
                    "[]PartitionMetadata",
                    "0+",
                    fields=(
                        Field("Partition", "int32", "0+"),
                        Field("Racks", "[]string", "0+"),
                    ),
                ),
            ),
        ),
    ),
)
CONSUMER_GROUP_MEMBER_METADATA_KEY = Message(
    "ConsumerGroupMemberMetadataKey",
    kind="coordinator-key",
    api_key=5,
    valid="0",
    flexible="none",
    fields=(
        Field("GroupId", "string", "0"),
        Field("MemberId", "string", "0"),
    ),
)
CONSUMER_GROUP_MEMBER_METADATA_VALUE = Message(
    "ConsumerGroupMemberMetadataValue",
    kind="coordinator-value",
    api_key=5,
    valid="0",
    flexible="0+",
    fields=(
        Field("InstanceId", "string", "0+", nullable="0+"),
        Field("RackId", "string", "0+", nullable="0+"),
        Field("ClientId", "string", "0+"),
        Field("ClientHost", "string", "0+"),
        Field("SubscribedTopicNames", "[]string", "0+"),
        Field("SubscribedTopicRegex", "string", "0+", nullable="0+"),
        Field("RebalanceTimeoutMs", "int32", "0+", default=-1),
        Field("ServerAssignor", "string", "0+", nullable="0+"),
        Field(
            "ClassicMemberMetadata",
            "ClassicMemberMetadata",
            "0+",
            nullable="0+",
            tag=0,
            tagged="0+",
            default=None,
            fields=(
                Field("SessionTimeoutMs", "int32", "0+"),
                Field(
                    "SupportedProtocols",
                    "[]ClassicProtocol",
                    "0+",
                    fields=(
                        Field("Name", "string", "0+"),
                        Field("Metadata", "bytes", "0+"),
                    ),
                ),
            ),
        ),
    ),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Message(
    "ConsumerGroupTargetAssignmentMetadataKey",
    kind="coordinator-key",
    api_key=6,
    valid="0",
    flexible="none",
    fields=(Field("GroupId", "string", "0"),),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Message(
    "ConsumerGroupTargetAssignmentMetadataValue",
    kind="coordinator-value",
    api_key=6,
    valid="0",
    flexible="0+",
    fields=(
        Field("AssignmentEpoch", "int32", "0+"),
        Field("AssignmentTimestamp", "int64", "0+", tag=0, tagged="0+", default=0, ignorable=True),
    ),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Message(
    "ConsumerGroupTargetAssignmentMemberKey",
    kind="coordinator-key",
    api_key=7,
    valid="0",
    flexible="none",
    fields=(
        Field("GroupId", "string", "0"),
        Field("MemberId", "string", "0"),
    ),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Message(
    "ConsumerGroupTargetAssignmentMemberValue",
    kind="coordinator-value",
    api_key=7,
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
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Message(
    "ConsumerGroupCurrentMemberAssignmentKey",
    kind="coordinator-key",
    api_key=8,
    valid="0",
    flexible="none",
    fields=(
        Field("GroupId", "string", "0"),
        Field("MemberId", "string", "0"),
    ),
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Message(
    "ConsumerGroupCurrentMemberAssignmentValue",
    kind="coordinator-value",
    api_key=8,
    valid="0",
    flexible="0+",
    fields=(
        Field("MemberEpoch", "int32", "0+"),
        Field("PreviousMemberEpoch", "int32", "0+"),
        Field("State", "int8", "0+"),
        Field("AssignedPartitions", "[]TopicPartitions", "0+"),
        Field("PartitionsPendingRevocation", "[]TopicPartitions", "0+"),
    ),
    structs=(
        Field(
            "TopicPartitions",
            "struct",
            "0+",
            fields=(
                Field("TopicId", "uuid", "0+"),
                Field("Partitions", "[]int32", "0+"),
                Field(
                    "AssignmentEpochs",
                    "[]int32",
                    "0+",
                    nullable="0+",
                    tag=0,
                    tagged="0+",
                    default=None,
                ),
            ),
        ),
    ),
)
CONSUMER_GROUP_REGULAR_EXPRESSION_KEY = Message(
    "ConsumerGroupRegularExpressionKey",
    kind="coordinator-key",
    api_key=16,
    valid="0",
    flexible="none",
    fields=(
        Field("GroupId", "string", "0"),
        Field("RegularExpression", "string", "0"),
    ),
)
CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE = Message(
    "ConsumerGroupRegularExpressionValue",
    kind="coordinator-value",
    api_key=16,
    valid="0",
    flexible="0+",
    fields=(
        Field("Topics", "[]string", "0+"),
        Field("Version", "int64", "0+"),
        Field("Timestamp", "int64", "0+"),
    ),
)
