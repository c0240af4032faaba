"""The longest time that aiokafka's event loop is held while its consumer leads a group.

    .venv/bin/python benchmarks/bench_event_loop.py [--partitions 10000] [--members 100]

A task of the loop sleeps for a millisecond repeatedly; its longest delay during a rebalance is
the time that the loop is held. The coordinator is aiokafka's class without a connection. Three
rebalances follow each other, one member leaves before the second and the third. The first decodes
subscriptions without owned partitions, in a process that has planned nothing.

"idle" is the longest delay of the loop without a rebalance: the noise of the machine. "client" is
the time in which aiokafka decodes the subscriptions on the loop before it calls the assignor.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import time
from types import SimpleNamespace

from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

from partage.clients.aiokafka import assignor
from partage.clients.shared import Consumer
from partage.groups.registry import find
from partage.wire.consumer_protocol import decode_assignment

CASES = ("sticky", "optimal", "optimal by weight")
EACH = 100


class Metadata:
    """The parts of aiokafka's cluster metadata that an assignor reads."""

    def __init__(self, topics):
        self.topics = topics
        row = SimpleNamespace(replicas=[1, 2])
        self._partitions = {topic: dict.fromkeys(range(EACH), row) for topic in topics}

    def partitions_for_topic(self, topic):
        return set(self._partitions[topic])

    def brokers(self):
        return [SimpleNamespace(nodeId=i, rack=None) for i in (1, 2)]


class Coordinator(GroupCoordinator):
    """Calls the assignor in a coroutine, as aiokafka's coordinator does."""

    def __init__(self, kind, metadata):
        self.kind, self.metadata, self.group_id, self.generation = kind, metadata, "bench", 1
        self.member_id, self._metadata_snapshot = "leader", None
        self.decoding = 0.0

    async def lead(self, joined):
        """Return the assignments of a rebalance, as aiokafka's leader sends them."""
        response = SimpleNamespace(members=joined, group_protocol=self.kind.name)
        return await self._perform_assignment(response)

    def _lookup_assignor(self, _):
        return self.kind

    async def _perform_assignment(self, response):
        begin = time.perf_counter()
        decode = ConsumerProtocolMemberMetadata.decode
        members = {member: decode(data) for member, _, data in response.members}
        self.decoding = time.perf_counter() - begin
        return self.kind.assign(self.metadata, members)


class Rebalance(CoordinatorGroupRebalance):
    """Asks the assignor for the subscription, as before each join."""

    def __init__(self, coordinator):
        self._coordinator = coordinator

    def perform_group_join(self):
        return self._coordinator.kind.metadata(self._coordinator.metadata.topics)


class Ticks:
    """A task that measures by how much each sleep of one millisecond is late."""

    def __init__(self):
        self.late = []
        self.task = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self):
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(0.001)
            self.late.append(time.perf_counter() - begin - 0.001)

    async def longest(self):
        """Return the longest delay since the last call, in milliseconds."""
        await asyncio.sleep(0.02)
        late = max(self.late) * 1e3
        self.late.clear()
        return late


def rejoin(strategy, topics, sent, generation):
    """Return the subscriptions of all members but the middle one, after an assignment."""
    out = []
    for member, data in sent.items():
        one, got = Consumer(find(strategy)), decode_assignment(data)
        one.store_assignment(got.partitions, got.user_data, generation)
        out.append((member, None, one.subscription(topics)))
    del out[len(out) // 2]
    return out


async def measure(case, partitions, members):
    """Print the longest delay of the event loop in three rebalances."""
    strategy, _, weighted = case.partition(" ")
    topics = [f"topic-{i:05}" for i in range(partitions // EACH)]
    draw = random.Random(1)
    loads = {(topic, p): draw.lognormvariate(0, 1.5) for topic in topics for p in range(EACH)}
    options = {"weights": lambda: loads} if weighted else {}
    coordinator = Coordinator(assignor(strategy, **options), Metadata(topics))
    Rebalance(coordinator).perform_group_join()
    new = Consumer(find(strategy)).subscription(topics)
    joined = [(f"member-{i}", None, new) for i in range(members)]
    ticks = Ticks()
    await asyncio.sleep(0.5)
    idle = await ticks.longest()
    for nth in range(3):
        begin = time.perf_counter()
        sent = await coordinator.lead(joined)
        seconds = time.perf_counter() - begin
        held = await ticks.longest()
        print(
            f"{case:18} plan {nth}: {seconds * 1e3:8.1f} ms, loop held {held:6.1f} ms "
            f"(client {coordinator.decoding * 1e3:5.1f}, idle {idle:4.1f}), "
            f"load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        joined = rejoin(strategy, topics, sent, coordinator.generation)
        coordinator.generation += 1
        await ticks.longest()
    ticks.task.cancel()


def main():
    """Measure each case in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--case", choices=CASES)
    args = parser.parse_args()
    if args.case:
        asyncio.run(measure(args.case, args.partitions, args.members))
        return
    for case in CASES:
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--case", case], check=True)


if __name__ == "__main__":
    main()
