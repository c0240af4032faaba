"""One consumer of a Python client that reports its callbacks: the twin of Member.java.

    python recorded_member.py kafka-python | aiokafka | confluent

In, one JSON object a line: ``{"do": "start", "id", "topics", "options"}``, then ``{"do": "stall",
"ms"}``, ``{"do": "subscribe", "topics"}``, ``{"do": "close"}``. Out: ``{"id", "event", "at", ...}``
with event ``started``, ``assigned``, ``revoked``, ``lost``, ``stall``, ``resubscribed``, ``error``
or ``closed``. Offsets are committed by the client itself.

The program runs in the environment of tools/peers.sh, which has the three clients only.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sys
import threading
import time

_POLL_SECONDS = 0.2


class Reporter:
    """Prints the events of one member."""

    def __init__(self, id_):
        self.id = id_

    def say(self, event, **more):
        print(json.dumps({"id": self.id, "event": event, "at": time.time(), **more}), flush=True)

    def partitions(self, event, changed, identity, owned):
        self.say(event, partitions=pairs(changed), owns=pairs(owned), **identity)


def pairs(partitions):
    return sorted([one.topic, one.partition] for one in partitions)


def requests():
    """The requests of stdin, as a queue."""
    found = queue.Queue()

    def read():
        for line in sys.stdin:
            found.put(json.loads(line))
        found.put({"do": "close"})

    threading.Thread(target=read, daemon=True).start()
    return found


def following(found):
    """Return the next request that has arrived, or None."""
    try:
        return found.get_nowait()
    except queue.Empty:
        return None


def run_kafka_python(start, found, reporter):
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    kinds = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    options = start["options"]
    listed = [kinds[name] for name in options.pop("partition_assignment_strategy")]
    consumer = KafkaConsumer(partition_assignment_strategy=listed, **options)

    def identity():
        generation = consumer._coordinator._generation
        return {"member": generation.member_id, "generation": generation.generation_id}

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            reporter.partitions("revoked", revoked, identity(), consumer.assignment())

        def on_partitions_lost(self, lost):
            reporter.partitions("lost", lost, identity(), consumer.assignment())

        def on_partitions_assigned(self, assigned):
            reporter.partitions("assigned", assigned, identity(), consumer.assignment())

    consumer.subscribe(start["topics"], listener=Listener())
    reporter.say("started")
    while True:
        try:
            consumer.poll(timeout_ms=int(_POLL_SECONDS * 1000))
        except Exception as e:  # noqa: BLE001 - an error is part of the record
            reporter.say("error", what=f"{type(e).__name__}: {e}")
            time.sleep(_POLL_SECONDS)
        request = following(found)
        if request is None:
            continue
        if request["do"] == "stall":
            reporter.say("stall", ms=request["ms"])
            time.sleep(request["ms"] / 1000)
        elif request["do"] == "subscribe":
            consumer.subscribe(request["topics"], listener=Listener())
            reporter.say("resubscribed", topics=request["topics"])
        else:
            consumer.close()
            reporter.say("closed")
            return


async def run_aiokafka(start, found, reporter):
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    kinds = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    options = start["options"]
    listed = [kinds[name] for name in options.pop("partition_assignment_strategy")]
    consumer = AIOKafkaConsumer(partition_assignment_strategy=listed, **options)

    def identity():
        coordinator = consumer._coordinator
        return {"member": coordinator.member_id, "generation": coordinator.generation}

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked):
            reporter.partitions("revoked", revoked, identity(), revoked)

        async def on_partitions_assigned(self, assigned):
            reporter.partitions("assigned", assigned, identity(), assigned)

    consumer.subscribe(start["topics"], listener=Listener())
    await consumer.start()
    reporter.say("started")
    while True:
        try:
            await consumer.getmany(timeout_ms=int(_POLL_SECONDS * 1000))
        except Exception as e:  # noqa: BLE001 - an error is part of the record
            reporter.say("error", what=f"{type(e).__name__}: {e}")
            await asyncio.sleep(_POLL_SECONDS)
        request = following(found)
        if request is None:
            continue
        if request["do"] == "stall":
            reporter.say("stall", ms=request["ms"])
            await asyncio.sleep(request["ms"] / 1000)
        elif request["do"] == "subscribe":
            consumer.subscribe(request["topics"], listener=Listener())
            reporter.say("resubscribed", topics=request["topics"])
        else:
            await consumer.stop()
            reporter.say("closed")
            return


def run_confluent(start, found, reporter):
    from confluent_kafka import Consumer

    options = {name.replace("_", "."): value for name, value in start["options"].items()}
    consumer = Consumer(options)

    def reported(event):
        def call(one, changed):
            reporter.partitions(event, changed, {"member": one.memberid()}, ())

        return call

    callbacks = {f"on_{word}": reported(event) for word, event in
                 (("assign", "assigned"), ("revoke", "revoked"), ("lost", "lost"))}  # fmt: skip
    consumer.subscribe(start["topics"], **callbacks)
    reporter.say("started")
    while True:
        polled = consumer.poll(_POLL_SECONDS)
        if polled is not None and polled.error():
            reporter.say("error", what=str(polled.error()))
        request = following(found)
        if request is None:
            continue
        if request["do"] == "stall":
            reporter.say("stall", ms=request["ms"])
            time.sleep(request["ms"] / 1000)
        elif request["do"] == "subscribe":
            consumer.subscribe(request["topics"], **callbacks)
            reporter.say("resubscribed", topics=request["topics"])
        else:
            consumer.close()
            reporter.say("closed")
            return


def main():
    found = requests()
    start = found.get()
    reporter = Reporter(start["id"])
    try:
        if sys.argv[1] == "aiokafka":
            asyncio.run(run_aiokafka(start, found, reporter))
        elif sys.argv[1] == "confluent":
            run_confluent(start, found, reporter)
        else:
            run_kafka_python(start, found, reporter)
    except Exception as e:  # noqa: BLE001 - an error is part of the record
        reporter.say("error", what=f"{type(e).__name__}: {e}")


if __name__ == "__main__":
    main()
