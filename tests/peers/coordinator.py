"""librdkafka's assignors asked by JSON lines, through a coordinator that makes its client lead.

    python coordinator.py STRATEGY [CLIENTS]

The library gives no access to its assignors, but a leader computes what it receives: so this
is a broker of our own, just enough of one, and some consumers of confluent-kafka. Each
JoinGroup is answered with the members of a problem, the consumer being the first of them and
their leader; the Metadata request that follows, with the problem's cluster; and in SyncGroup the
consumer sends the plan. That is answered with REBALANCE_IN_PROGRESS, so that it joins again.

A line in: ``{"topics": {...}, "members": [...]}``. Lines out, in any order:
``{"asked": n}``, then ``{"line": n, "assignment": {member: [[topic, partition], ...]}}``, exactly as
in the bytes sent. Where the library crashes the process ends without the rest.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import struct
import sys
import threading
import time

HOST = "127.0.0.1"
SEED = "seed-of-the-oracle"
SILENCE = 10.0
# Long: the library guesses the memory for an answer from its bytes, too little where many
# topics have no partitions, and then calls it damaged.
CLUSTER = "oracle" * 2000
VERSIONS = {0: 3, 1: 4, 2: 1, 3: 4, 8: 3, 9: 3, 10: 1, 11: 5, 12: 3, 13: 1, 14: 3, 18: 0}
UNSUPPORTED_VERSION, UNKNOWN_TOPIC, REBALANCE_IN_PROGRESS = 35, 3, 27


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        (value,) = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def raw(self, size):
        self.at += max(size, 0)
        return None if size < 0 else self.data[self.at - size : self.at]

    def text(self):
        data = self.raw(self.number("h"))
        return None if data is None else data.decode(errors="replace")

    def blob(self):
        return self.raw(self.number("i"))

    def array(self, read):
        return [read() for _ in range(self.number("i"))]


def text(value):
    if value is None:
        return b"\xff\xff"
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def blob(data):
    return b"\xff\xff\xff\xff" if data is None else struct.pack(">i", len(data)) + data


def array(items):
    items = list(items)
    return struct.pack(">i", len(items)) + b"".join(items)


def int32s(numbers):
    return array(struct.pack(">i", n) for n in numbers)


def subscription(member):
    runs = []
    for topic, p in member.get("owned") or ():
        if not runs or runs[-1][0] != topic:
            runs.append((topic, []))
        runs[-1][1].append(p)
    data = member.get("userData")
    return b"".join([
        struct.pack(">h", 3),
        array(text(t) for t in member["topics"]),
        blob(None if data is None else base64.b64decode(data)),
        array(text(t) + int32s(numbers) for t, numbers in runs),
        struct.pack(">i", member.get("generation", -1)),
        text(member.get("rack")),
    ])  # fmt: skip


def assignment(data):
    reader = Reader(data)
    reader.number("h")
    topics = reader.array(lambda: (reader.text(), reader.array(lambda: reader.number("i"))))
    return [[t, p] for t, numbers in topics for p in numbers]


class Cluster:
    """A problem's topics on brokers that have its racks; broker 1 is rackless and coordinates."""

    def __init__(self, problem):
        self.brokers = {("", 0, None): 1}
        self.topics = {SEED: [[1]]}
        for name, value in problem["topics"].items():
            rows = [[None]] * value if isinstance(value, int) else value
            self.topics[name] = [self._replicas(row) for row in rows]

    def _replicas(self, row):
        used = {}
        out = []
        for rack in row:
            used[rack] = used.get(rack, -1) + 1
            key = ("r", used[rack], rack)
            out.append(self.brokers.setdefault(key, len(self.brokers) + 1))
        return out

    def answer(self, names, port):
        brokers = array(
            struct.pack(">i", i) + text(HOST) + struct.pack(">i", port) + text(rack)
            for (_, _, rack), i in self.brokers.items()
        )
        topics = array(self._topic(n) for n in (self.topics if names is None else names))
        return struct.pack(">i", 0) + brokers + text(CLUSTER) + struct.pack(">i", 1) + topics

    def _topic(self, name):
        rows = self.topics.get(name)
        error = UNKNOWN_TOPIC if rows is None else 0
        partitions = array(
            struct.pack(">hii", 0, p, row[0] if row else 1) + int32s(row) + int32s(row)
            for p, row in enumerate(rows or ())
        )
        return struct.pack(">h", error) + text(name) + b"\0" + partitions


class Oracle:
    def __init__(self, strategy, problems):
        self.strategy = strategy
        self.waiting = list(enumerate(problems))[::-1]
        self.left = len(self.waiting)
        self.asked = {}
        self.port = 0
        self.heard = time.monotonic()

    async def serve(self, reader, writer):
        try:
            while True:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                request = Reader(await reader.readexactly(size))
                key, version = request.number("h"), request.number("h")
                correlation, client = request.number("i"), request.text()
                body = self.answer(key, version, client, request)
                if body is None:
                    continue
                body = struct.pack(">i", correlation) + body
                writer.write(struct.pack(">i", len(body)) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def answer(self, key, version, client, request):
        if key == 18:
            error = 0 if version == 0 else UNSUPPORTED_VERSION
            keys = array(struct.pack(">hhh", k, 0, v) for k, v in VERSIONS.items())
            return struct.pack(">h", error) + keys
        if key == 3:
            count = request.number("i")
            names = None if count < 0 else [request.text() for _ in range(count)]
            problem = self.asked.get(client, (0, {"topics": {}}))[1]
            return Cluster(problem).answer(names, self.port)
        if key == 10:
            none = text(None) if version else b""
            head = struct.pack(">i", 0) if version else b""
            return head + struct.pack(">h", 0) + none + struct.pack(">i", 1) + text(HOST) + \
                struct.pack(">i", self.port)  # fmt: skip
        if key == 11:
            return self.join(client)
        if key == 14:
            return self.sync(client, request)
        return struct.pack(">ih", 0, 0) + b"\0" * 8

    def join(self, client):
        if client not in self.asked:
            if not self.waiting:
                return None
            self.asked[client] = self.waiting.pop()
            # Should the library crash, one of those asked and not answered did it.
            print(json.dumps({"asked": self.asked[client][0]}), flush=True)
        members = self.asked[client][1]["members"]
        leader = members[0]["id"]
        # Without any rack the library asks for metadata in another way, of which it sometimes
        # waits for ever; a rack that no replica is on changes nothing else.
        if not any(m.get("rack") for m in members):
            members = [{**members[0], "rack": "no replica is here"}, *members[1:]]
        rows = array(
            text(m["id"]) + text(m.get("instance")) + blob(subscription(m)) for m in members
        )
        head = struct.pack(">ihi", 0, 0, 1)
        return head + text(self.strategy) + text(leader) + text(leader) + rows

    def sync(self, client, request):
        request.text(), request.number("i"), request.text(), request.text()
        given = request.array(lambda: (request.text(), assignment(request.blob())))
        if client in self.asked:
            line, _ = self.asked.pop(client)
            print(json.dumps({"line": line, "assignment": dict(given)}), flush=True)
            self.left -= 1
            self.heard = time.monotonic()
        return struct.pack(">ih", 0, REBALANCE_IN_PROGRESS) + blob(b"")


def main():
    from confluent_kafka import Consumer

    strategy, clients = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8
    oracle = Oracle(strategy, [json.loads(line) for line in sys.stdin])
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(oracle.serve, HOST, 0))
    oracle.port = server.sockets[0].getsockname()[1]
    threading.Thread(target=loop.run_forever, daemon=True).start()
    consumers = []
    for i in range(min(clients, oracle.left)):
        one = Consumer({
            "bootstrap.servers": f"{HOST}:{oracle.port}",
            "client.id": f"c{i}",
            "group.id": f"g{i}",
            "partition.assignment.strategy": strategy,
            "log_level": 0,
            "max.poll.interval.ms": 86400000,
        })  # fmt: skip
        one.subscribe([SEED])
        consumers.append(one)
    # A consumer may wait for ever (for metadata, say): those left are asked again by others.
    while oracle.left and time.monotonic() - oracle.heard < SILENCE:
        for one in consumers:
            one.poll(0)
        time.sleep(0.02)
    sys.stdout.flush()
    os._exit(0)  # closing would leave the groups one by one; there is nothing to be left


if __name__ == "__main__":
    main()
