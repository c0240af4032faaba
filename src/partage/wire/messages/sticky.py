"""User data of Kafka's ``StickyAssignor``: the claims of a member. Kafka 4.3.1 has no JSON for it,
the layout stands in the class; the bytes carry no version.
"""

from __future__ import annotations

from partage.wire.schema import Field, Message

__all__ = ["STICKY_ASSIGNOR_USER_DATA"]

STICKY_ASSIGNOR_USER_DATA = Message(
    "StickyAssignorUserData",
    kind="data",
    valid="0-1",
    flexible="none",
    fields=(
        Field(
            "previousAssignment",
            "[]TopicAssignment",
            "0+",
            fields=(Field("topic", "string", "0+"), Field("partitions", "[]int32", "0+")),
        ),
        Field("generation", "int32", "1+", default=-1, ignorable=True),
    ),
)
