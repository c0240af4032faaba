"""Consumers of one process, started and closed by JSON lines: the Python twin of Member.java.

    python member.py kafka | aiokafka

In: ``{"do": "start", "id": "a", "topics": [...], "assignors": [[name, options], ...], "options": {...}}``,
``{"do": "close", "id": "a"}``. Out: ``{"id": "a", "event": "assigned" | "revoked" | "read" | "error" |
"log" | "closed", "at": seconds, ...}``. A name like ``own:range`` is the client's own assignor.

Runs in an environment of tools/clients.sh, which has the client, NumPy and our sources.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import os
import sys
import threading
import time
from types import SimpleNamespace

OWN = {
    "own:range": ("range", "RangePartitionAssignor"),
    "own:roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
    "own:sticky": ("sticky.sticky_assignor", "StickyPartitionAssignor"),
    "own:cooperative-sticky": ("cooperative_sticky", "CooperativeStickyAssignor"),
}
_lock = threading.Lock()


def say(id_, event, **more):
    line = json.dumps({"id": id_, "event": event, "at": time.time(), **more})
    with _lock:
        print(line, flush=True)


class LogEvents(logging.Handler):
    """Warnings of ours as events, so that a test can count them."""

    def emit(self, record):
        say("", "log", level=record.levelname, what=record.getMessage())


def broken():
    """A strategy that raises, until a test mends it."""
    from partage.groups.api import PlainStrategy

    class Broken(PlainStrategy):
        name = "broken"
        calls = 0

        def assign(self, problem, memory=None):
            type(self).calls += 1
            msg = "this strategy is broken"
            raise ZeroDivisionError(msg)

    return Broken()


def made(client, wanted):
    """The classes of a consumer's list."""
    ours = importlib.import_module(
        "partage.clients.kafka_python" if client == "kafka" else "partage.clients.aiokafka"
    )
    out = []
    for name, options in wanted:
        if name in OWN:
            module, attribute = OWN[name]
            home = importlib.import_module(f"{client}.coordinator.assignors.{module}")
            out.append(getattr(home, attribute))
        elif name.startswith("slow:"):
            out += [slow(one) for one in made(client, [(name.removeprefix("slow:"), options)])]
        elif name == "garbage":
            out.append(garbage(ours.assignor(**options)))
        elif name == "future":
            out.append(future(ours.assignor(**options)))
        elif name == "broken":
            from partage.groups import registry

            registry._built_in.cache_clear()
            registry._BUILT_IN["broken"] = "member_strategies:Broken"
            sys.modules["member_strategies"] = SimpleNamespace(Broken=broken)
            out.append(ours.assignor("broken"))
        else:
            out.append(ours.assignor(name, **options))
    return out


def garbage(kind):
    """An assignor whose member sends user data that nobody can read."""
    from partage.wire.consumer_protocol import decode_subscription, encode_subscription

    sent = kind.metadata.__func__

    @classmethod
    def metadata(cls, topics):
        said = decode_subscription(sent(cls, topics))
        junk = b"\x00\x00\x00\x01\x7f\xff\xff\xff" + bytes(range(200))
        return encode_subscription(said.topics, user_data=junk, generation=said.generation)

    kind.metadata = metadata
    return kind


def future(kind):
    """An assignor whose member speaks version 9 of the protocol, with fields of tomorrow."""
    sent = kind.metadata.__func__

    @classmethod
    def metadata(cls, topics):
        return b"\x00\x09" + sent(cls, topics)[2:] + b"fields of tomorrow"

    kind.metadata = metadata
    return kind


def slow(kind):
    """An assignor of kafka-python that takes longer than a short poll."""
    of_class = inspect.ismethod(kind.assign)

    class Slow(kind):
        def assign(self, cluster, members):
            time.sleep(0.7)
            return super().assign(cluster, members)

        if of_class:
            assign = classmethod(assign)

    return Slow


def pairs(partitions):
    return sorted([one.topic, one.partition] for one in partitions)


def rows(polled):
    return [[r.topic, r.partition, r.offset] for batch in polled.values() for r in batch]


class Threaded(threading.Thread):
    """A consumer of kafka-python in a thread of its own."""

    def __init__(self, request):
        super().__init__(daemon=True)
        self.request, self.id, self.closing = request, request["id"], threading.Event()

    def run(self):
        from kafka import ConsumerRebalanceListener
        from kafka.coordinator.base import MemberState

        request, last = self.request, {}

        class Listener(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked):
                last.clear()
                say(request["id"], "revoked", partitions=pairs(revoked))

            def on_partitions_assigned(self, assigned):
                last.clear()
                last.update(where(consumer))
                say(request["id"], "assigned", partitions=pairs(assigned), **last)

        consumer = self.made()
        if consumer is not None:
            consumer.subscribe(request["topics"], listener=Listener())
        while not self.closing.is_set():
            try:
                # kafka-python 3 joins anew when a poll ends in the middle of a rebalance.
                got = rows(consumer.poll(timeout_ms=request.get("poll_ms", 1000)))
                # It does not call who is given nothing, or keeps what it had.
                now = where(consumer)
                if consumer._coordinator.state is MemberState.STABLE and now != last:
                    last.clear()
                    last.update(now)
                    say(self.id, "assigned", partitions=[], **now)
                if got:
                    # Reported before it is committed: at least once.
                    say(self.id, "read", records=got)
                    consumer.commit()
            except Exception as e:  # noqa: BLE001 - the test receives each error
                say(self.id, "error", what=f"{type(e).__name__}: {e}")
        try:
            if consumer is not None:
                consumer.close()
        except Exception as e:  # noqa: BLE001 - as above
            say(self.id, "error", what=f"close: {type(e).__name__}: {e}")
        say(self.id, "closed")

    def made(self):
        """The consumer; where no broker answers, once more."""
        from kafka import KafkaConsumer

        while not self.closing.is_set():
            try:
                return KafkaConsumer(
                    partition_assignment_strategy=made("kafka", self.request["assignors"]),
                    **self.request["options"],
                )
            except Exception as e:  # noqa: BLE001 - the test receives each error
                say(self.id, "error", what=f"{type(e).__name__}: {e}")
                time.sleep(0.5)
        return None

    def close(self):
        self.closing.set()


def where(consumer):
    """What the coordinator calls this member, and the generation."""
    coordinator = consumer._coordinator
    generation = getattr(coordinator, "_generation", None)
    owns = pairs(consumer.assignment())
    if generation is None:
        return {"generation": coordinator.generation, "member": coordinator.member_id, "owns": owns}
    return {"generation": generation.generation_id, "member": generation.member_id, "owns": owns}


class Tasked:
    """A consumer of aiokafka as a task of the one event loop."""

    def __init__(self, request, loop):
        self.request, self.id, self.loop, self.closing = request, request["id"], loop, False

    def start(self):
        self.done = asyncio.run_coroutine_threadsafe(self.run(), self.loop)

    async def run(self):
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

        request = self.request

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_revoked(self, revoked):
                say(request["id"], "revoked", partitions=pairs(revoked))

            async def on_partitions_assigned(self, assigned):
                say(request["id"], "assigned", partitions=pairs(assigned), **where(consumer))

        started = False
        while not (started or self.closing):
            consumer = AIOKafkaConsumer(
                partition_assignment_strategy=made("aiokafka", request["assignors"]),
                **request["options"],
            )
            consumer.subscribe(request["topics"], listener=Listener())
            try:
                await consumer.start()
                started = True
            except Exception as e:  # noqa: BLE001 - as below
                say(self.id, "error", what=f"{type(e).__name__}: {e}")
                # Nobody there: a consumer anew. Any other trouble is the consumer's own.
                started = "Connection" not in type(e).__name__
                if not started:
                    await consumer.stop()
                    await asyncio.sleep(0.5)
        while not self.closing:
            try:
                got = rows(await consumer.getmany(timeout_ms=100))
                if got:
                    say(self.id, "read", records=got)
                    await consumer.commit()
            except Exception as e:  # noqa: BLE001 - the test receives each error
                say(self.id, "error", what=f"{type(e).__name__}: {e}")
                await asyncio.sleep(0.01)
        try:
            await consumer.stop()
        except Exception as e:  # noqa: BLE001 - as above
            say(self.id, "error", what=f"close: {type(e).__name__}: {e}")
        say(self.id, "closed")

    def close(self):
        self.closing = True


def main():
    client = sys.argv[1]
    logging.getLogger("partage.clients").addHandler(LogEvents())
    if os.environ.get("PARTAGE_MEMBERS_TALK") == "info":
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    running = {}
    loop = asyncio.new_event_loop()
    if client == "aiokafka":
        threading.Thread(target=loop.run_forever, daemon=True).start()
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "start":
            one = Tasked(request, loop) if client == "aiokafka" else Threaded(request)
            running[request["id"]] = one
            one.start()
        else:
            running[request["id"]].close()


if __name__ == "__main__":
    main()
