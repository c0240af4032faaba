"""Assignors of kafka-python and aiokafka, asked by JSON lines; runs in the peers' environment.

    python oracle.py kafka-python [any]

A line in: ``{"strategy": "sticky", "topics": {...}, "members": [...], "seconds": 2}``. A line
out: ``{"assignment": {member: [[topic, partition], ...]}}``, or ``{"error": name}`` with what the
class raised, ``"hangs"`` where it did not come back within so many seconds of its own time.

Where the classes take "any" element of a hash set, which one depends on the hash seed of the
process. They are given sets here that iterate in order; with ``any`` they keep Python's own.
"""

from __future__ import annotations

import base64
import importlib
import json
import logging
import signal
import sys
from types import SimpleNamespace

SECONDS = 2.0


class Hangs(BaseException):
    """No Exception: the classes catch those."""


class InOrder(set):
    """A set in order: one of the orders that a set may have."""

    def __iter__(self):
        return iter(sorted(super().__iter__()))

    def pop(self):
        least = min(super().__iter__())
        self.remove(least)
        return least

    def intersection(self, *others):
        return InOrder(super().intersection(*others))


class Cluster:
    """What the classes ask of a cluster: the subscribed topics, as clients have it."""

    def __init__(self, problem):
        wanted = {topic for member in problem["members"] for topic in member["topics"]}
        self._count = {
            t: v if isinstance(v, int) else len(v)
            for t, v in problem["topics"].items()
            if t in wanted
        }

    def topics(self):
        return set(self._count)

    def partitions_for_topic(self, topic):
        return set(range(self._count[topic])) if topic in self._count else None


def user_data(member):
    return base64.b64decode(member.get("userData") or "")


def by_topic(pairs):
    """Runs of one topic, so that order and repetition stay."""
    runs = []
    for topic, p in pairs:
        if not runs or runs[-1][0] != topic:
            runs.append((topic, []))
        runs[-1][1].append(p)
    return runs


def kafka_python_members(problem):
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription as Subscription

    out = []
    for member in problem["members"]:
        owned = [
            Subscription.TopicPartition(topic=t, partitions=p)
            for t, p in by_topic(member.get("owned") or ())
        ]
        sent = Subscription(
            version=3,
            topics=member["topics"],
            user_data=user_data(member),
            owned_partitions=owned,
            generation_id=member.get("generation", -1),
            rack_id=member.get("rack"),
        )
        read = Subscription.decode(sent.encode())
        one = SimpleNamespace(
            member_id=member["id"], group_instance_id=member.get("instance"), metadata=read
        )
        out.append(one)
    return out


def kafka_python_pairs(assignment):
    return [[t, p] for t, numbers in assignment.assigned_partitions for p in numbers]


def aiokafka_members(problem):
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata as Metadata

    return {
        m["id"]: Metadata.decode(Metadata(0, m["topics"], user_data(m)).encode())
        for m in problem["members"]
    }


def aiokafka_pairs(assignment):
    return [[t, p] for t, numbers in assignment.assignment for p in numbers]


PEERS = {
    "kafka-python": (
        "kafka.coordinator.assignors",
        kafka_python_members,
        kafka_python_pairs,
        {
            "range": "range:RangePartitionAssignor",
            "roundrobin": "roundrobin:RoundRobinPartitionAssignor",
            "sticky": "sticky.sticky_assignor:StickyPartitionAssignor",
            "cooperative-sticky": "cooperative_sticky:CooperativeStickyAssignor",
        },
    ),
    "aiokafka": (
        "aiokafka.coordinator.assignors",
        aiokafka_members,
        aiokafka_pairs,
        {
            "range": "range:RangePartitionAssignor",
            "roundrobin": "roundrobin:RoundRobinPartitionAssignor",
            "sticky": "sticky.sticky_assignor:StickyPartitionAssignor",
        },
    ),
}


def answer(peer, problem):
    home, members, pairs, classes = PEERS[peer]
    module, _, name = classes[problem["strategy"]].partition(":")
    assignor = getattr(importlib.import_module(f"{home}.{module}"), name)()
    signal.setitimer(signal.ITIMER_VIRTUAL, problem.get("seconds", SECONDS))
    try:
        given = assignor.assign(Cluster(problem), members(problem))
        return {"assignment": {member: pairs(one) for member, one in given.items()}}
    except Hangs:
        return {"error": "hangs"}
    except Exception as e:  # noqa: BLE001 - whatever it raises is the answer
        return {"error": type(e).__name__}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def hang(*_):
    raise Hangs


def main():
    logging.disable(logging.CRITICAL)
    peer = sys.argv[1]
    if "any" not in sys.argv[2:]:
        for module in ("sticky_assignor", "partition_movements"):
            importlib.import_module(f"{PEERS[peer][0]}.sticky.{module}").set = InOrder
    signal.signal(signal.SIGVTALRM, hang)
    for line in sys.stdin:
        print(json.dumps(answer(peer, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
