"""What a group's coordinator wrote down, and what our strategies, or Kafka's classes, decide on it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, TopicPartition

from partage.groups import registry
from partage.model import NO_GENERATION, Claims, Cluster, Group, Member, Problem
from partage.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from partage.wire.group_log import decode_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.jvm import JvmOracle

    from partage.wire.consumer_protocol import ConsumerAssignment, ConsumerSubscription

LOG = "__consumer_offsets"


@dataclass(frozen=True)
class Written:
    """A generation as the log has it; members in the coordinator's order."""

    generation: int
    protocol: str
    leader: str
    subscriptions: dict[str, ConsumerSubscription]
    assignments: dict[str, ConsumerAssignment]
    instances: dict[str, str | None]
    raw: dict[str, bytes]

    def owners(self) -> dict[str, list[tuple[str, int]]]:
        """Each member's partitions in the order sent."""
        return {m: list(one.partitions) for m, one in self.assignments.items()}

    def decided(self, topics: Mapping[str, int], strategy: str | None = None) -> dict[str, list]:
        """What the strategy that is exact to Kafka's class decides on these subscriptions."""
        members = [
            Member(
                i, one.topics, owned=Claims.from_owned(one.owned), user_data=one.user_data, rack=one.rack,
                instance_id=self.instances[i],
                generation=NO_GENERATION if one.generation is None else one.generation,
            )
            for i, one in self.subscriptions.items()
        ]  # fmt: skip
        problem = Problem(Group(members), Cluster.from_topics(topics))
        return _as_sent(registry.find(strategy or self.protocol).assign(problem).to_pairs())

    def decided_by_java(self, topics: Mapping[str, int], java: JvmOracle) -> dict[str, list]:
        """What Kafka's own class decides on them; ``java`` is the program ``Assignors``."""
        members = [
            {
                "id": i, "topics": list(one.topics), "owned": [list(p) for p in one.owned],
                "generation": -1 if one.generation is None else one.generation,
                "rack": one.rack, "instance": self.instances[i], "userData": None
                if one.user_data is None else base64.b64encode(one.user_data).decode(),
            }
            for i, one in self.subscriptions.items()
        ]  # fmt: skip
        asked = {"strategy": self.protocol, "topics": dict(topics), "members": members}
        answer = java.ask(asked)["assignment"]
        return _as_sent({m: [(t, p) for t, p in pairs] for m, pairs in answer.items()})


def _as_sent(plan: Mapping[str, list]) -> dict[str, list]:
    """The wire keeps a topic's partitions together, by first appearance."""
    return {
        member: list(decode_assignment(encode_assignment(pairs)).partitions)
        for member, pairs in plan.items()
    }


def written(bootstrap: str, group: str) -> list[Written]:
    """Every generation of a group in the log, oldest first; those without assignments left out.

    A Python client may lead before it has seen the topics: it gives nobody anything, and joins
    again once it has. Such a generation is no decision, unless it is the last one.
    """
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, exclude_internal_topics=False)
    try:
        parts = [TopicPartition(LOG, p) for p in sorted(consumer.partitions_for_topic(LOG) or ())]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        ends = consumer.end_offsets(parts)
        found = []
        while any(consumer.position(p) < ends[p] for p in parts):
            for batch in consumer.poll(timeout_ms=500).values():
                found += [one for r in batch if (one := generation_of(r.key, r.value, group))]
        return [one for one in found if any(one.owners().values()) or one is found[-1]]
    finally:
        consumer.close()


def generation_of(key: bytes, value: bytes | None, group: str) -> Written | None:
    """What a record of the log tells of a generation of a group; None if it is no such record."""
    record = decode_record(key, value)
    if record.type != "GROUP_METADATA" or record.key["group"] != group or not record.value:
        return None
    members = record.value["members"]
    if not members or not all(m["assignment"] for m in members):
        return None
    return Written(
        record.value["generation"],
        record.value["protocol"],
        record.value["leader"],
        {m["memberId"]: decode_subscription(m["subscription"]) for m in members},
        {m["memberId"]: decode_assignment(m["assignment"]) for m in members},
        {m["memberId"]: m.get("groupInstanceId") for m in members},
        {m["memberId"]: m["subscription"] for m in members},
    )
