"""Groups of confluent-kafka members on librdkafka's own mock cluster, and what they were given.

    python mock_cluster.py STRATEGY GROUPS SEED

A line out a group: ``{"topics": {...}, "members": [...], "assignment": {...}, "rounds": n}``.
``rounds`` is the most often that any member was given something: only where it is 1 were
all members there when the first plan was made, and the plan is one of fresh members. (The
mock cluster has no racks; `coordinator.py` has.)
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import time
from pathlib import Path

TOPICS = {"a": 1, "b": 3, "c": 6, "d": 6, "é": 8, "long-name.of-a.topic": 13}
ENDS_AFTER = 8.0


def cluster():
    """(bootstrap servers, what must not be collected) of a mock cluster with our topics."""
    import confluent_kafka

    libraries = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    lib = ctypes.CDLL(str(next(libraries.glob("librdkafka-*.so*"))))
    for name in ("conf_new", "new", "mock_cluster_new"):
        getattr(lib, f"rd_kafka_{name}").restype = ctypes.c_void_p
    lib.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    handle = ctypes.c_void_p(
        lib.rd_kafka_new(0, ctypes.c_void_p(lib.rd_kafka_conf_new()), None, ctypes.c_size_t(0))
    )
    mock = ctypes.c_void_p(lib.rd_kafka_mock_cluster_new(handle, 3))
    for topic, count in TOPICS.items():
        assert lib.rd_kafka_mock_topic_create(mock, topic.encode(), count, 1) == 0
    # Long enough for all members of a group to be there for its first plan.
    lib.rd_kafka_mock_group_initial_rebalance_delay_ms(mock, 1500)
    return lib.rd_kafka_mock_cluster_bootstraps(mock).decode(), (lib, handle, mock)


class Group:
    def __init__(self, name, strategy, servers, rng):
        self.members = []
        static = rng.random() < 0.3
        same = rng.random() < 0.5
        shared = rng.sample(sorted(TOPICS), rng.randint(1, len(TOPICS)))
        for i in range(rng.randint(1, 6)):
            topics = shared if same else rng.sample(sorted(TOPICS), rng.randint(1, len(TOPICS)))
            instance = f"i{rng.randint(0, 10**6)}" if static else None
            self.members.append(
                Member(f"{name}-{i}", name, strategy, servers, topics=topics, instance=instance)
            )

    def settled(self):
        """Return whether each subscribed partition has an owner."""
        wanted = {(t, p) for m in self.members for t in m.topics for p in range(TOPICS[t])}
        return wanted == {pair for m in self.members for pair in m.has}

    def state(self):
        members = []
        for m in self.members:
            one = {"id": m.consumer.memberid(), "topics": m.topics, "rack": ""}
            members.append(one | ({"instance": m.instance} if m.instance else {}))
        given = {m.consumer.memberid(): [list(pair) for pair in m.has] for m in self.members}
        return {
            "topics": TOPICS,
            "members": members,
            "assignment": given,
            "rounds": max(m.rounds for m in self.members),
        }


class Member:
    def __init__(self, name, group, strategy, servers, *, topics, instance):
        from confluent_kafka import Consumer

        self.topics, self.instance, self.has, self.rounds = topics, instance, [], 0
        config = {
            "bootstrap.servers": servers,
            "client.id": name,
            "group.id": group,
            "partition.assignment.strategy": strategy,
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self.consumer = Consumer(config | ({"group.instance.id": instance} if instance else {}))
        self.consumer.subscribe(topics, on_assign=self.assigned, on_revoke=self.revoked)

    def assigned(self, _consumer, partitions):
        self.rounds += 1
        self.has += [(p.topic, p.partition) for p in partitions]

    def revoked(self, _consumer, partitions):
        gone = {(p.topic, p.partition) for p in partitions}
        self.has = [pair for pair in self.has if pair not in gone]


def main():
    strategy, groups, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    rng = random.Random(seed)
    servers, _keep = cluster()
    now = [Group(f"g{i}", strategy, servers, rng) for i in range(groups)]
    ends = time.monotonic() + ENDS_AFTER
    while time.monotonic() < ends and not all(g.settled() for g in now):
        for group in now:
            for member in group.members:
                member.consumer.poll(0)
        time.sleep(0.01)
    for group in now:
        if group.settled():
            print(json.dumps(group.state()), flush=True)
    sys.stdout.flush()
    os._exit(0)  # to close consumers one by one takes seconds; the cluster ends with us


if __name__ == "__main__":
    main()
