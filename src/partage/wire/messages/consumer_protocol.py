"""What a consumer sends with its subscription and what the leader sends back, embedded in the
classic protocol (type ``consumer``). Kafka 4.3.1: ``ConsumerProtocol``.
"""

from __future__ import annotations

from partage.wire.schema import Field, Message

__all__ = ["CONSUMER_PROTOCOL_ASSIGNMENT", "CONSUMER_PROTOCOL_SUBSCRIPTION"]

CONSUMER_PROTOCOL_SUBSCRIPTION = Message(
    "ConsumerProtocolSubscription",
    kind="data",
    valid="0-3",
    flexible="none",
    fields=(
        Field("Topics", "[]string", "0+"),
        Field("UserData", "bytes", "0+", nullable="0+", default="null", zero_copy=True),
        Field(
            "OwnedPartitions",
            "[]TopicPartition",
            "1+",
            ignorable=True,
            fields=(
                Field("Topic", "string", "1+"),
                Field("Partitions", "[]int32", "1+"),
            ),
        ),
        Field("GenerationId", "int32", "2+", default="-1", ignorable=True),
        Field("RackId", "string", "3+", nullable="3+", default="null", ignorable=True),
    ),
)
CONSUMER_PROTOCOL_ASSIGNMENT = Message(
    "ConsumerProtocolAssignment",
    kind="data",
    valid="0-3",
    flexible="none",
    fields=(
        Field(
            "AssignedPartitions",
            "[]TopicPartition",
            "0+",
            fields=(
                Field("Topic", "string", "0+"),
                Field("Partitions", "[]int32", "0+"),
            ),
        ),
        Field("UserData", "bytes", "0+", nullable="0+", default="null", zero_copy=True),
    ),
)
