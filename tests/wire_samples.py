"""Real bytes for the tests of `wire`: the recorded cluster's records, and Kafka's vectors."""

from __future__ import annotations

import base64
import functools
import json
import lzma
from pathlib import Path

import pyarrow.parquet

from partage.wire.schema import UNKNOWN_TAGS

ROOT = Path(__file__).resolve().parents[1]
CAPTURE = ROOT / "tests" / "data" / "capture"
VECTORS = ROOT / "tests" / "data" / "vectors" / "consumer"
SAMPLE = ROOT / "src" / "partage" / "sample"


def vectors(name):
    """Lines of one vector file."""
    return [
        json.loads(line) for line in (VECTORS / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]


def unbase64(text):
    """Bytes of base64 text, None for null."""
    return None if text is None else base64.b64decode(text)


@functools.cache
def recorded():
    """All records of the recorded cluster: list of (partition, offset, timestamp_ms, key, value)."""
    table = pyarrow.parquet.read_table(SAMPLE / "consumer_offsets.parquet")
    names = ("partition", "offset", "timestamp_ms", "key", "value")
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


@functools.cache
def distinct_group_records():
    """The few thousand records that are no offset commits, and some commits: (key, value)."""
    rows = [(key, value) for *_, key, value in recorded()]
    others = [row for row in rows if row[0][:2] != b"\x00\x01"]
    return others + [row for row in rows if row[0][:2] == b"\x00\x01"][::500]


def decoded_lines():
    """Kafka's own answers, line by line; without Streams' texts, which are fields with us."""
    with lzma.open(CAPTURE / "decoded.jsonl.xz", "rt", encoding="utf-8") as lines:
        for text in lines:
            line = json.loads(text)
            for member in line.get("members_decoded", ()):
                member.pop("streamsSubscription", None)
                member.pop("streamsAssignment", None)
            yield line


def typed(message, fields, values):
    """JSON values of a vector as `wire` has them: base64 where the layout says bytes."""
    made = {}
    for field in fields:
        if field.key in values:
            made[field.key] = _typed(message, field, field.type, values[field.key])
    assert made.keys() == values.keys()
    return made


def _typed(message, field, name, value):
    if value is None:
        return None
    if name.startswith("[]"):
        return tuple(_typed(message, field, name[2:], one) for one in value)
    if name == "bytes":
        return unbase64(value)
    if isinstance(value, dict):
        return typed(message, message.members_of(field, name), value)
    return value


def without_unknown(value):
    """A decoded value without the tagged fields that its layout does not know."""
    if isinstance(value, dict):
        return {k: without_unknown(v) for k, v in value.items() if k != UNKNOWN_TAGS}
    if isinstance(value, tuple):
        return tuple(without_unknown(one) for one in value)
    return value
