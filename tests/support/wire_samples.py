"""Real bytes for the tests of `wire`: the recorded cluster's records, and Kafka's vectors."""

from __future__ import annotations

import base64
import functools
import json
import lzma
from pathlib import Path

import pyarrow.parquet

from partage.wire.errors import EncodingError
from partage.wire.group_log import decode_record, encode_record
from partage.wire.messages import load_message
from partage.wire.schema import UNKNOWN_TAGS

ROOT = Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "tests" / "data" / "capture"
VECTORS = ROOT / "tests" / "data" / "vectors" / "consumer"
SAMPLE = ROOT / "src" / "partage" / "sample"


@functools.cache
def layout_documents():
    """Every layout document that ships with the package, by name."""
    folder = ROOT / "src" / "partage" / "wire" / "messages"
    return {
        file.stem: json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))
    }


def messages():
    """Every message that the package reads or writes."""
    return [load_message(name) for name in layout_documents()]


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


def typed(fields, values):
    """JSON values of a vector as `wire` has them: base64 where the layout says bytes."""
    made = {}
    for field in fields:
        if field.name in values:
            made[field.name] = _typed(field, field.type, values[field.name])
    assert made.keys() == values.keys()
    return made


def _typed(field, name, value):
    if value is None:
        return None
    if name.startswith("[]"):
        return tuple(_typed(field, name[2:], one) for one in value)
    if name == "bytes":
        return unbase64(value)
    if isinstance(value, dict):
        return typed(field.fields, value)
    return value


def without_unknown(value):
    """A decoded value without the tagged fields that its layout does not know."""
    if isinstance(value, dict):
        return {k: without_unknown(v) for k, v in value.items() if k != UNKNOWN_TAGS}
    if isinstance(value, tuple):
        return tuple(without_unknown(one) for one in value)
    return value


def is_canonical(key, value):
    """Whether decoding and encoding a record again gives the same bytes, as for Kafka's own.

    Other bytes hold more than their values: trailing bytes, malformed UTF-8, padded varints, or
    tagged fields with their default, with a false size, repeated or out of order.
    """
    record = decode_record(key, value)
    try:
        again = encode_record(
            record.key_version, record.key, version=record.value_version, value=record.value
        )
    except EncodingError:
        return False
    return again == (key, value)
