"""What Faust's own consumer commits after records were dropped: alone, and with our guard.

    python faust_commits.py stock | guarded

No broker: the thread that talks to one is replaced by a log of 1,000 records in one partition. Prints
a JSON object: by scenario the committed offset before and after the dropped records are processed,
and the offsets that were processed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace

import faust
from faust.types import TP
from faust.types.tuples import ConsumerMessage

WORDS = TP("words", 0)
is_guarded = sys.argv[1] == "guarded"


class Log:
    """The consumer's thread: positions, fetches and commits of one partition."""

    def __init__(self, committed):
        self.committed, self.at = committed, committed or 0

    def assignment(self):
        return {WORDS}

    async def seek_to_committed(self):
        if self.committed and self.committed > 0:
            self.at = self.committed
        return {WORDS: self.committed}

    async def position(self, tp):
        return self.at

    def seek(self, tp, offset):
        self.at = offset

    async def getmany(self, active, timeout):
        batch = [SimpleNamespace(offset=n) for n in range(self.at, self.at + 3)]
        self.at += 3
        return {WORDS: batch}

    async def commit(self, offsets):
        self.committed = offsets[WORDS]
        return True


async def run_rebalance(committed, *, dropped, acked_early):
    """The committed offsets after a rebalance that dropped ``dropped`` fetches.

    Args:
        committed: before it.
        dropped: how many fetches were dropped before the seek.
        acked_early: of the fetch after the seek those offsets that are acknowledged first.
    """
    app = faust.App("guarded", broker="kafka://localhost:1", store="memory://")
    app.topics._acking_topics.add("words")
    consumer = app.transport.create_consumer(
        callback=lambda _message: None, on_partitions_revoked=None, on_partitions_assigned=None
    )
    log = consumer._thread = Log(committed)
    app.topics.acks_enabled_for = lambda _topic: True

    async def flushed():
        return None

    app._producer = SimpleNamespace(flush=flushed)
    app.tables.on_commit = lambda _offsets: None
    if is_guarded:
        from partage.clients.faust_commits import CommitGuard

        CommitGuard(consumer).on_assignment()
    for _ in range(dropped):
        await consumer._getmany({WORDS}, 1.0)
    await consumer.perform_seek()
    (batch,) = (await consumer._getmany({WORDS}, 1.0)).values()
    offsets = [one.offset for one in batch]

    def ack(offset):
        message = ConsumerMessage(
            "words", 0, offset, 0.0, 0, [], None, b"", None, tp=WORDS, generation_id=1
        )
        message.incref()
        message.ack(consumer)

    early = [one for n, one in enumerate(offsets) if n in acked_early]
    for one in early:
        ack(one)
    await consumer.force_commit()
    first = log.committed
    for one in offsets:
        if one not in early:
            ack(one)
    await consumer.force_commit()
    return {"read": offsets, "early": first, "late": log.committed}


async def main():
    print(json.dumps({
        "nothing committed": await run_rebalance(None, dropped=100, acked_early=(0,)),
        "one missing": await run_rebalance(84, dropped=0, acked_early=(1,)),
        "as it should be": await run_rebalance(84, dropped=5, acked_early=(0,)),
    }))  # fmt: skip


asyncio.run(main())
