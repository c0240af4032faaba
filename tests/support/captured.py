"""The recorded cluster as tests read it: without Spark, from what Kafka's own decoder printed."""

from __future__ import annotations

import json
import lzma
from functools import cache
from importlib import resources
from pathlib import Path

from partage.history.classic_groups import ClassicGroup, ClassicRecord
from partage.history.clusters import ClusterHistory
from partage.history.events import Generation, LifecycleEvent
from partage.history.records import LogPosition, parse_classic_state

DATA = Path(__file__).parents[1] / "data" / "capture"
SAMPLE = Path(str(resources.files("partage"))) / "sample"


def lines(name: str) -> list[dict]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def parsed(name: str):
    return json.loads((DATA / name).read_text(encoding="utf-8"))


@cache
def group_records() -> dict[str, list[dict]]:
    """Decoded records that are no offset commits, by group, in log order."""
    out: dict[str, list[dict]] = {}
    with lzma.open(DATA / "decoded.jsonl.xz", "rt", encoding="utf-8") as file:
        for line in file:
            if '"type":"OFFSET_COMMIT"' in line:
                continue
            record = json.loads(line)
            key = record["key"]
            out.setdefault(key.get("groupId", key.get("group")), []).append(record)
    for records in out.values():
        records.sort(key=lambda r: (r["partition"], r["offset"]))
    return out


def classic_record(record: dict) -> ClassicRecord:
    place, when, value = (
        LogPosition(record["partition"], record["offset"]),
        record["timestamp_ms"],
        record["value"],
    )
    if record["type"] == "GROUP_METADATA":
        return ClassicRecord(place, when, None if value is None else parse_classic_state(value))
    epoch = value["epoch"] if record["type"] == "CONSUMER_GROUP_METADATA" and value else None
    return ClassicRecord(place, when, None, epoch, other=True)


@cache
def history(group: str) -> tuple[ClassicGroup, list[Generation | LifecycleEvent]]:
    rebuilt = ClassicGroup()
    found = [f for r in group_records()[group] for f in rebuilt.process_record(classic_record(r))]
    return rebuilt, [*found, *rebuilt.finish_generations()]


def generations(group: str) -> list[Generation]:
    return [f for f in history(group)[1] if isinstance(f, Generation)]


@cache
def clusters() -> ClusterHistory:
    text = (SAMPLE / "cluster.jsonl").read_text(encoding="utf-8")
    return ClusterHistory([json.loads(line) for line in text.splitlines()])
