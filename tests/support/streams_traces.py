"""Recordings of real Streams applications as a replay sees them: rebalances from the group's log.

`tests/data/streams` has what leaders of classic groups received and sent, `groups` in it has the
coordinator's records. Both name the clients that were started and killed, which a replay infers.
"""

from __future__ import annotations

import base64
import json
import lzma
from pathlib import Path
from typing import Any

from partage.history.clusters import ClusterHistory
from partage.history.events import INFERRED, Cause, Generation
from partage.history.group_history import GroupHistory
from partage.history.records import (
    ClassicState,
    GroupRecord,
    LogPosition,
    MemberState,
    Subscription,
)
from partage.jobs.replay.streams_settings import StreamsInputs
from partage.simulation.recorded_rebalances import RecordedRebalance, recorded_rebalances
from partage.streams.assignment_configs import LONG_MAX
from partage.wire.group_log import decode_record
from partage.wire.streams.assignment_info import decode_assignment_info

__all__ = [
    "began_ms",
    "classic_rebalances",
    "clusters_of",
    "facts_of",
    "read",
    "streams_rebalances",
]

_FOLDER = Path(__file__).resolve().parents[1] / "data" / "streams"


def read(name: str) -> dict[str, Any]:
    """A recording by its name, such as ``seed3`` or ``groups/seed1``."""
    return json.loads(lzma.decompress((_FOLDER / f"{name}.json.xz").read_bytes()))


def clusters_of(recording: dict[str, Any]) -> ClusterHistory:
    """The metadata of the cluster: the topics of `io.partage.live.StreamsInstance`."""
    name = recording["name"]
    counts = {
        "lines": 4, "ticks": 2, "moves": 2, "out": 2, f"{name}-places-repartition": 2,
        f"{name}-words-changelog": 4, f"{name}-places-changelog": 2,
    }  # fmt: skip
    topics = {
        topic: {"id": topic, "partitions": [{"p": p} for p in range(count)]}
        for topic, count in counts.items()
    }
    return ClusterHistory([{"ts_ms": 0, "brokers": [], "topics": topics}])


def facts_of(recording: dict[str, Any]) -> StreamsInputs:
    """What is beside the log of a streams group: the broker's settings."""
    settings = {
        f"streams.{key}": str(value) for key, value in recording["settings"].items()
        if key != "num.standby.replicas"
    }  # fmt: skip
    return StreamsInputs(frozenset({recording["name"]}), {}, settings)


def began_ms(recording: dict[str, Any]) -> int:
    """The time from which a leader's recording counts seconds.

    It follows from the first probing rebalance, which the leader schedules by its own clock.
    """
    interval_ms = recording["settings"]["probing.rebalance.interval.ms"]
    for line in recording["rebalances"]:
        for one in line["members"].values():
            next_ms = decode_assignment_info(base64.b64decode(one["assignment"])).next_rebalance_ms
            if 0 < next_ms < LONG_MAX:
                return int(next_ms - interval_ms - round(1_000 * line["at"]))
    raise AssertionError("no leader scheduled a probing rebalance")


def classic_rebalances(recording: dict[str, Any]) -> list[RecordedRebalance]:
    """The rebalances of an application in a classic group, as its group log has them."""
    generations: list[Generation] = []
    start_ms = began_ms(recording)
    for number, line in enumerate(recording["rebalances"], 1):
        at_ms = start_ms + round(1_000 * line["at"])
        members = tuple(
            _member(name, one, recording["settings"]["session.timeout.ms"])
            for name, one in sorted(line["members"].items())
        )
        state = ClassicState("consumer", number, "stream", members[0].id, at_ms, members)
        before = generations[-1] if generations else None
        gone = {one.id for one in before.last.members} if before else set()
        causes = tuple(
            Cause("expiry", INFERRED, one) for one in sorted(gone - {m.id for m in members})
        )
        generations.append(
            Generation(0, LogPosition(0, number), at_ms, state, state, 1, 0, before, (),
                       causes=causes)
        )  # fmt: skip
    return list(recorded_rebalances(generations, clusters_of(recording)))


def _member(name: str, one: dict[str, Any], session_ms: int) -> MemberState:
    def pairs(listed: list[list[Any]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return tuple((topic, (number,)) for topic, number in listed)

    sent = base64.b64decode(one["subscription"])
    owned = pairs(one["owned"])
    return MemberState(
        name, None, name.split("-consumer-", maxsplit=1)[0] + "-consumer", "/1", 300_000,
        session_ms, Subscription(3, ("lines",), sent, owned), pairs(one["partitions"]), 3,
        base64.b64decode(one["assignment"]), None,
    )  # fmt: skip


def streams_rebalances(recording: dict[str, Any]) -> list[RecordedRebalance]:
    """The rebalances of a streams group, from the records of its coordinator."""
    clusters = clusters_of(recording)
    history = GroupHistory(clusters, recording["settings"]["session.timeout.ms"])
    items: list[Any] = []
    for number, (stamp, key, value) in enumerate(recording["records"]):
        raw = None if value is None else base64.b64decode(value)
        found = decode_record(base64.b64decode(key), raw)
        record = GroupRecord(LogPosition(0, number), stamp, found.type, found.key, found.value)
        items += history.process_record(record)
    items += history.finish_history()
    generations = (one for one in items if isinstance(one, Generation))
    session_ms = recording["settings"]["session.timeout.ms"]
    return list(recorded_rebalances(generations, clusters, session_ms))
