"""The assignor of faust-streaming, asked by JSON lines; runs in that release's environment.

    python faust_oracle.py [any]

A line in: ``{"topics": {name: count}, "members": [{"id", "topics", "userData", "url"}], "replicas",
"changelogs": [...], "globals": [...], "copied": [...]}``, user data in base64. A line out:
``{"wire": {member: [[topic, [numbers]], ...]}, "assigned": {member: JSON text}, "next": {member: JSON
text}}``: what the leader sends, unpacked, and what each member then sends when it joins again,
after its own class has taken the assignment; or ``{"error": name}``.

Topics that go together are in a hash set, whose order depends on the process. They are given sets
here that iterate in order; with ``any`` they keep Python's own.
"""

from __future__ import annotations

import base64
import json
import logging
import signal
import sys
import zlib
from types import SimpleNamespace

from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata as Metadata
from faust.assignor.partition_assignor import PartitionAssignor
from yarl import URL

SECONDS = 0.5


class Hangs(BaseException):
    """No Exception, so that nobody catches it on the way."""


class InOrder(set):
    """A set in order: one of the orders that a set may have."""

    def __iter__(self):
        return iter(sorted(super().__iter__()))


class Ordered(PartitionAssignor):
    """The class, with its sets of topics in order."""

    @classmethod
    def _group_co_subscribed(cls, topics, subscriptions):
        found = super()._group_co_subscribed(sorted(topics), subscriptions)
        return [InOrder(one) for one in found]


class Table:
    is_global = True

    def __init__(self, topic, copied):
        self.topic = topic
        self.synchronize_all_active_partitions = copied
        self.use_partitioner = False

    def _changelog_topic_name(self):
        return self.topic


class Cluster:
    def __init__(self, topics):
        self.topics = topics

    def partitions_for_topic(self, topic):
        return set(range(self.topics[topic])) if topic in self.topics else None


def app(problem, url="http://leader"):
    tables = SimpleNamespace(
        data={t: Table(t, t in problem["copied"]) for t in problem["globals"]},
        changelog_topics={*problem["changelogs"], *problem["globals"]},
    )
    sensors = SimpleNamespace(
        on_assignment_start=lambda *_: {},
        on_assignment_error=lambda *_: None,
        on_assignment_completed=lambda *_: None,
    )
    conf = SimpleNamespace(canonical_url=URL(url))
    return SimpleNamespace(tables=tables, sensors=sensors, tracer=None, conf=conf)


def answer(kind, problem):
    members = {
        m["id"]: Metadata.decode(Metadata(4, m["topics"], base64.b64decode(m["userData"])).encode())
        for m in problem["members"]
    }
    signal.setitimer(signal.ITIMER_VIRTUAL, problem.get("seconds", SECONDS))
    try:
        given = kind(app(problem), replicas=problem["replicas"]).assign(
            Cluster(problem["topics"]), members
        )
    except Hangs:
        return {"error": "hangs"}
    except Exception as e:  # noqa: BLE001 - whatever it raises is the answer
        return {"error": type(e).__name__}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    after = {}
    for m in problem["members"]:
        one = kind(app(problem, m["url"]), replicas=problem["replicas"])
        one.on_assignment(type(given[m["id"]]).decode(given[m["id"]].encode()))
        after[m["id"]] = one.metadata(set(m["topics"])).user_data.decode()
    return {
        "wire": {i: one.assignment for i, one in given.items()},
        "assigned": {i: zlib.decompress(one.user_data).decode() for i, one in given.items()},
        "next": after,
    }


def hang(*_):
    raise Hangs


def main():
    logging.disable(logging.CRITICAL)
    kind = PartitionAssignor if "any" in sys.argv[1:] else Ordered
    signal.signal(signal.SIGVTALRM, hang)
    for line in sys.stdin:
        print(json.dumps(answer(kind, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
