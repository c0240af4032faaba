"""Streams groups (KIP-1071): record types 17 and 19 to 23."""

from __future__ import annotations

from partage.wire.schema import Field, Message

__all__ = [
    "STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY",
    "STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE",
    "STREAMS_GROUP_MEMBER_METADATA_KEY",
    "STREAMS_GROUP_MEMBER_METADATA_VALUE",
    "STREAMS_GROUP_METADATA_KEY",
    "STREAMS_GROUP_METADATA_VALUE",
    "STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY",
    "STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE",
    "STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY",
    "STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE",
    "STREAMS_GROUP_TOPOLOGY_KEY",
    "STREAMS_GROUP_TOPOLOGY_VALUE",
]

STREAMS_GROUP_METADATA_KEY = Message(
    "StreamsGroupMetadataKey",
    kind="coordinator-key",
    api_key=17,
    valid="0",
    flexible="none",
    fields=(Field("GroupId", "string", "0"),),
)
STREAMS_GROUP_METADATA_VALUE = Message(
    "StreamsGroupMetadataValue",
    kind="coordinator-value",
    api_key=17,
    valid="0",
    flexible="0+",
    fields=(
        Field("Epoch", "int32", "0+"),
        Field("MetadataHash", "int64", "0+"),
        Field("ValidatedTopologyEpoch", "int32", "0+", tag=0, tagged="0+", default=-1),
        Field(
            "LastAssignmentConfigs",
            "[]LastAssignmentConfig",
            "0+",
            nullable="0+",
            tag=1,
            tagged="0+",
            default=None,
        ),
    ),
    structs=(
        Field(
            "LastAssignmentConfig",
            "struct",
            "0+",
            fields=(
                Field("Key", "string", "0+"),
                Field("Value", "string", "0+"),
            ),
        ),
    ),
)
STREAMS_GROUP_MEMBER_METADATA_KEY = Message(
    "StreamsGroupMemberMetadataKey",
    kind="coordinator-key",
    api_key=19,
    valid="0",
    flexible="none",
    fields=(
        Field("GroupId", "string", "0"),
        Field("MemberId", "string", "0"),
    ),
)
STREAMS_GROUP_MEMBER_METADATA_VALUE = Message(
    "StreamsGroupMemberMetadataValue",
    kind="coordinator-value",
    api_key=19,
    valid="0",
    flexible="0+",
    fields=(
        Field("InstanceId", "string", "0+", nullable="0+"),
        Field("RackId", "string", "0+", nullable="0+"),
        Field("ClientId", "string", "0+"),
        Field("ClientHost", "string", "0+"),
        Field("RebalanceTimeoutMs", "int32", "0+", default=-1),
        Field("TopologyEpoch", "int32", "0+"),
        Field("ProcessId", "string", "0+"),
        Field("UserEndpoint", "Endpoint", "0+", nullable="0+", default="null"),
        Field("ClientTags", "[]KeyValue", "0+"),
    ),
    structs=(
        Field(
            "Endpoint",
            "struct",
            "0+",
            fields=(
                Field("Host", "string", "0+"),
                Field("Port", "uint16", "0+"),
            ),
        ),
        Field(
            "KeyValue",
            "struct",
            "0+",
            fields=(
                Field("Key", "string", "0+"),
                Field("Value", "string", "0+"),
            ),
        ),
    ),
)
STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Message(
    "StreamsGroupTargetAssignmentMetadataKey",
    kind="coordinator-key",
    api_key=20,
    valid="0",
    flexible="none",
    fields=(Field("GroupId", "string", "0"),),
)
STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Message(
    "StreamsGroupTargetAssignmentMetadataValue",
    kind="coordinator-value",
    api_key=20,
    valid="0",
    flexible="0+",
    fields=(
        Field("AssignmentEpoch", "int32", "0+"),
        Field("AssignmentTimestamp", "int64", "0+", tag=0, tagged="0+", default=0, ignorable=True),
    ),
)
STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Message(
    "StreamsGroupTargetAssignmentMemberKey",
    kind="coordinator-key",
    api_key=21,
    valid="0",
    flexible="none",
    fields=(
        Field("GroupId", "string", "0"),
        Field("MemberId", "string", "0"),
    ),
)
STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Message(
    "StreamsGroupTargetAssignmentMemberValue",
    kind="coordinator-value",
    api_key=21,
    valid="0",
    flexible="0+",
    fields=(
        Field("ActiveTasks", "[]TaskIds", "0+"),
        Field("StandbyTasks", "[]TaskIds", "0+"),
        Field("WarmupTasks", "[]TaskIds", "0+"),
    ),
    structs=(
        Field(
            "TaskIds",
            "struct",
            "0+",
            fields=(
                Field("SubtopologyId", "string", "0+"),
                Field("Partitions", "[]int32", "0+"),
            ),
        ),
    ),
)
STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Message(
    "StreamsGroupCurrentMemberAssignmentKey",
    kind="coordinator-key",
    api_key=22,
    valid="0",
    flexible="none",
    fields=(
        Field("GroupId", "string", "0"),
        Field("MemberId", "string", "0"),
    ),
)
STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Message(
    "StreamsGroupCurrentMemberAssignmentValue",
    kind="coordinator-value",
    api_key=22,
    valid="0",
    flexible="0+",
    fields=(
        Field("MemberEpoch", "int32", "0+"),
        Field("PreviousMemberEpoch", "int32", "0+"),
        Field("State", "int8", "0+"),
        Field("ActiveTasks", "[]TaskIds", "0+"),
        Field("StandbyTasks", "[]TaskIds", "0+"),
        Field("WarmupTasks", "[]TaskIds", "0+"),
        Field("ActiveTasksPendingRevocation", "[]TaskIds", "0+"),
        Field("StandbyTasksPendingRevocation", "[]TaskIds", "0+"),
        Field("WarmupTasksPendingRevocation", "[]TaskIds", "0+"),
    ),
    structs=(
        Field(
            "TaskIds",
            "struct",
            "0+",
            fields=(
                Field("SubtopologyId", "string", "0+"),
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
STREAMS_GROUP_TOPOLOGY_KEY = Message(
    "StreamsGroupTopologyKey",
    kind="coordinator-key",
    api_key=23,
    valid="0",
    flexible="none",
    fields=(Field("GroupId", "string", "0"),),
)
STREAMS_GROUP_TOPOLOGY_VALUE = Message(
    "StreamsGroupTopologyValue",
    kind="coordinator-value",
    api_key=23,
    valid="0",
    flexible="0+",
    fields=(
        Field("Epoch", "int32", "0+"),
        Field(
            "Subtopologies",
            "[]Subtopology",
            "0+",
            fields=(
                Field("SubtopologyId", "string", "0+"),
                Field("SourceTopics", "[]string", "0+"),
                Field("SourceTopicRegex", "[]string", "0+"),
                Field("StateChangelogTopics", "[]TopicInfo", "0+"),
                Field("RepartitionSinkTopics", "[]string", "0+"),
                Field("RepartitionSourceTopics", "[]TopicInfo", "0+"),
                Field(
                    "CopartitionGroups",
                    "[]CopartitionGroup",
                    "0+",
                    fields=(
                        Field("SourceTopics", "[]int16", "0+"),
                        Field("SourceTopicRegex", "[]int16", "0+"),
                        Field("RepartitionSourceTopics", "[]int16", "0+"),
                    ),
                ),
            ),
        ),
    ),
    structs=(
        Field(
            "TopicConfig",
            "struct",
            "0+",
            fields=(
                Field("key", "string", "0+"),
                Field("value", "string", "0+"),
            ),
        ),
        Field(
            "TopicInfo",
            "struct",
            "0+",
            fields=(
                Field("Name", "string", "0+"),
                Field("Partitions", "int32", "0+"),
                Field("ReplicationFactor", "int16", "0+"),
                Field("TopicConfigs", "[]TopicConfig", "0+"),
            ),
        ),
    ),
)
