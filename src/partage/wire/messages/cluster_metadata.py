"""Records of the metadata log ``__cluster_metadata`` that say who the brokers are, which topics
there are, and who leads their partitions. Kafka 4.3.1: ``common/metadata/*.json``.
"""

from __future__ import annotations

from partage.wire.schema import Field, Message

__all__ = [
    "ABORT_TRANSACTION_RECORD",
    "BEGIN_TRANSACTION_RECORD",
    "BROKER_REGISTRATION_CHANGE_RECORD",
    "END_TRANSACTION_RECORD",
    "FENCE_BROKER_RECORD",
    "METADATA_RECORDS",
    "PARTITION_CHANGE_RECORD",
    "PARTITION_RECORD",
    "REGISTER_BROKER_RECORD",
    "REMOVE_TOPIC_RECORD",
    "TOPIC_RECORD",
    "UNFENCE_BROKER_RECORD",
    "UNREGISTER_BROKER_RECORD",
]

REGISTER_BROKER_RECORD = Message(
    "RegisterBrokerRecord",
    kind="metadata",
    api_key=0,
    valid="0-4",
    flexible="0+",
    fields=(
        Field("BrokerId", "int32", "0+"),
        Field("IsMigratingZkBroker", "bool", "2+", default="false"),
        Field("IncarnationId", "uuid", "0+"),
        Field("BrokerEpoch", "int64", "0+"),
        Field(
            "EndPoints",
            "[]BrokerEndpoint",
            "0+",
            fields=(
                Field("Name", "string", "0+"),
                Field("Host", "string", "0+"),
                Field("Port", "uint16", "0+"),
                Field("SecurityProtocol", "int16", "0+"),
            ),
        ),
        Field(
            "Features",
            "[]BrokerFeature",
            "0+",
            fields=(
                Field("Name", "string", "0+"),
                Field("MinSupportedVersion", "int16", "0+"),
                Field("MaxSupportedVersion", "int16", "0+"),
            ),
        ),
        Field("Rack", "string", "0+", nullable="0+"),
        Field("Fenced", "bool", "0+", default="true"),
        Field("InControlledShutdown", "bool", "1+", default="false"),
        Field("LogDirs", "[]uuid", "3+", tag=0, tagged="3+"),
        Field("CordonedLogDirs", "[]uuid", "4+", nullable="4+", tag=1, tagged="4+", default="null"),
    ),
)
UNREGISTER_BROKER_RECORD = Message(
    "UnregisterBrokerRecord",
    kind="metadata",
    api_key=1,
    valid="0",
    flexible="0+",
    fields=(
        Field("BrokerId", "int32", "0+"),
        Field("BrokerEpoch", "int64", "0+"),
    ),
)
TOPIC_RECORD = Message(
    "TopicRecord",
    kind="metadata",
    api_key=2,
    valid="0",
    flexible="0+",
    fields=(
        Field("Name", "string", "0+"),
        Field("TopicId", "uuid", "0+"),
    ),
)
PARTITION_RECORD = Message(
    "PartitionRecord",
    kind="metadata",
    api_key=3,
    valid="0-2",
    flexible="0+",
    fields=(
        Field("PartitionId", "int32", "0+", default="-1"),
        Field("TopicId", "uuid", "0+"),
        Field("Replicas", "[]int32", "0+"),
        Field("Isr", "[]int32", "0+"),
        Field("RemovingReplicas", "[]int32", "0+"),
        Field("AddingReplicas", "[]int32", "0+"),
        Field("Leader", "int32", "0+", default="-1"),
        Field("LeaderRecoveryState", "int8", "0+", tag=0, tagged="0+", default="0"),
        Field("LeaderEpoch", "int32", "0+", default="-1"),
        Field("PartitionEpoch", "int32", "0+", default="-1"),
        Field("Directories", "[]uuid", "1+"),
        Field(
            "EligibleLeaderReplicas",
            "[]int32",
            "2+",
            nullable="2+",
            tag=1,
            tagged="2+",
            default="null",
        ),
        Field("LastKnownElr", "[]int32", "2+", nullable="2+", tag=2, tagged="2+", default="null"),
    ),
)
PARTITION_CHANGE_RECORD = Message(
    "PartitionChangeRecord",
    kind="metadata",
    api_key=5,
    valid="0-2",
    flexible="0+",
    fields=(
        Field("PartitionId", "int32", "0+", default="-1"),
        Field("TopicId", "uuid", "0+"),
        Field("Isr", "[]int32", "0+", nullable="0+", tag=0, tagged="0+", default="null"),
        Field("Leader", "int32", "0+", tag=1, tagged="0+", default="-2"),
        Field("Replicas", "[]int32", "0+", nullable="0+", tag=2, tagged="0+", default="null"),
        Field(
            "RemovingReplicas", "[]int32", "0+", nullable="0+", tag=3, tagged="0+", default="null"
        ),
        Field("AddingReplicas", "[]int32", "0+", nullable="0+", tag=4, tagged="0+", default="null"),
        Field("LeaderRecoveryState", "int8", "0+", tag=5, tagged="0+", default="-1"),
        Field("Directories", "[]uuid", "1+", nullable="1+", tag=8, tagged="1+", default="null"),
        Field(
            "EligibleLeaderReplicas",
            "[]int32",
            "2+",
            nullable="2+",
            tag=6,
            tagged="2+",
            default="null",
        ),
        Field("LastKnownElr", "[]int32", "2+", nullable="2+", tag=7, tagged="2+", default="null"),
    ),
)
FENCE_BROKER_RECORD = Message(
    "FenceBrokerRecord",
    kind="metadata",
    api_key=7,
    valid="0",
    flexible="0+",
    fields=(
        Field("Id", "int32", "0+"),
        Field("Epoch", "int64", "0+"),
    ),
)
UNFENCE_BROKER_RECORD = Message(
    "UnfenceBrokerRecord",
    kind="metadata",
    api_key=8,
    valid="0",
    flexible="0+",
    fields=(
        Field("Id", "int32", "0+"),
        Field("Epoch", "int64", "0+"),
    ),
)
REMOVE_TOPIC_RECORD = Message(
    "RemoveTopicRecord",
    kind="metadata",
    api_key=9,
    valid="0",
    flexible="0+",
    fields=(Field("TopicId", "uuid", "0+"),),
)
BROKER_REGISTRATION_CHANGE_RECORD = Message(
    "BrokerRegistrationChangeRecord",
    kind="metadata",
    api_key=17,
    valid="0-3",
    flexible="0+",
    fields=(
        Field("BrokerId", "int32", "0+"),
        Field("BrokerEpoch", "int64", "0+"),
        Field("Fenced", "int8", "0+", tag=0, tagged="0+"),
        Field("InControlledShutdown", "int8", "1+", tag=1, tagged="1+"),
        Field("LogDirs", "[]uuid", "2+", tag=2, tagged="2+"),
        Field("CordonedLogDirs", "[]uuid", "3+", nullable="3+", tag=3, tagged="3+", default="null"),
    ),
)
BEGIN_TRANSACTION_RECORD = Message(
    "BeginTransactionRecord",
    kind="metadata",
    api_key=23,
    valid="0",
    flexible="0+",
    fields=(Field("Name", "string", "0+", nullable="0+", tag=0, tagged="0+", default="null"),),
)
END_TRANSACTION_RECORD = Message(
    "EndTransactionRecord", kind="metadata", api_key=24, valid="0", flexible="0+", fields=()
)
ABORT_TRANSACTION_RECORD = Message(
    "AbortTransactionRecord",
    kind="metadata",
    api_key=25,
    valid="0",
    flexible="0+",
    fields=(Field("Reason", "string", "0+", nullable="0+", tag=0, tagged="0+", default="null"),),
)

METADATA_RECORDS: dict[int, Message] = {
    one.api_key: one
    for one in (
        REGISTER_BROKER_RECORD,
        UNREGISTER_BROKER_RECORD,
        TOPIC_RECORD,
        PARTITION_RECORD,
        PARTITION_CHANGE_RECORD,
        FENCE_BROKER_RECORD,
        UNFENCE_BROKER_RECORD,
        REMOVE_TOPIC_RECORD,
        BROKER_REGISTRATION_CHANGE_RECORD,
        BEGIN_TRANSACTION_RECORD,
        END_TRANSACTION_RECORD,
        ABORT_TRANSACTION_RECORD,
    )
    if one.api_key is not None
}
"""The records of interest by their API key; the others change nothing that a capture holds."""
