"""A Faust worker that counts words, with a table and one standby; tells by JSON lines what it does.

    python faust_worker.py APP BOOTSTRAP PORT ASSIGNOR DATA

``ASSIGNOR`` is ``stock``, or one of ours; ``DATA`` is a folder for what Faust keeps on the disk. Lines out: ``{"assigned": {"actives": [[topic, number],
...], "standbys": [...]}, "leads": bool}`` after each rebalance, ``{"recovered": true}`` when the tables
are there, and ``{"word": w, "count": n, "partition": p, "offset": o}`` for each record counted.
"""

from __future__ import annotations

import json
import sys

import faust

name, bootstrap, port, wanted, data = sys.argv[1:6]
more = {}


def tell(**what):
    print(json.dumps(what), flush=True)


if wanted != "stock":
    from partage.clients.faust import assignor

    more["PartitionAssignor"] = assignor("faust" if wanted == "broken" else wanted)
    if wanted == "broken":

        class Broken:
            name = "faust"

            def configure(self, settings):
                tell(tried=True)
                raise ZeroDivisionError("this strategy is broken")

        more["PartitionAssignor"].strategy = Broken()

app = faust.App(
    name,
    broker=f"kafka://{bootstrap}",
    store="memory://",
    datadir=data,
    table_standby_replicas=1,
    topic_replication_factor=1,
    topic_allow_declare=False,
    web_port=int(port),
    web_enabled=False,
    worker_redirect_stdouts=False,
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.0,
    broker_rebalance_timeout=20.0,
    broker_commit_interval=0.5,
    stream_recovery_delay=0.0,
    consumer_auto_offset_reset="earliest",
    **more,
)
words = app.topic(f"{name}-words", key_type=str, value_type=str)
counts = app.Table("counts", default=int)


@app.agent(words)
async def count(stream):
    async for event in stream.events():
        word = event.value
        counts[word] += 1
        at = event.message
        tell(word=word, count=counts[word], partition=at.partition, offset=at.offset)


@app.on_partitions_assigned.connect
async def assigned(app, assigned, **_):
    one = app.assignor
    tell(
        assigned={
            "actives": sorted([tp.topic, tp.partition] for tp in one.assigned_actives()),
            "standbys": sorted([tp.topic, tp.partition] for tp in one.assigned_standbys()),
        },
        leads=app.is_leader(),
    )


@app.on_rebalance_complete.connect
async def recovered(app, **_):
    tell(recovered=True)


if __name__ == "__main__":
    app.finalize()
    faust.Worker(app, loglevel="WARN", blocking_timeout=None).execute_from_commandline()
