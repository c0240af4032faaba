"""Records read by somebody who remembers: always what the engine makes of them."""

from __future__ import annotations

import random

import pytest

from partage.errors import WireFormatError
from partage.wire.group_log import decode_record, encode_record
from partage.wire.messages import VALUES
from partage.wire.remembering import Remembering
from partage.wire.schema import versions
from wire_samples import recorded, unbase64, vectors


def _answer(read, key, value):
    """What a reader makes of a record: its value, or its error in words."""
    try:
        return read(key, value)
    except WireFormatError as error:
        return type(error), str(error)


def _agree(rows):
    reads = Remembering()
    for key, value in rows:
        assert _answer(reads.record, key, value) == _answer(decode_record, key, value)


def test_every_recorded_group_record_agrees_with_the_engine():
    """2,699 records of all kinds of groups, in the order of the log."""
    rows = [(key, value) for *_, key, value in recorded() if key[:2] not in {b"\0\0", b"\0\1"}]
    assert len(rows) == 2_699
    _agree(rows)


def test_damaged_records_give_the_engines_errors():
    """Classic groups' records cut, or changed in some bytes, between sound ones of the group."""
    rng = random.Random(2)
    rows = [(k, v) for *_, k, v in recorded() if k[:2] == b"\0\2" and v][::3]
    bad = []
    for key, value in rows:
        raw = bytearray(value)
        for _ in range(rng.randrange(1, 4)):
            raw[rng.randrange(len(raw))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        bad += [(key, value), (key, bytes(raw[: rng.choice([len(raw), rng.randrange(len(raw))])]))]
    _agree(bad)


def test_vectors_of_every_version_agree():
    """Kafka's own records of each value version, sound and damaged ones."""
    rows = [(unbase64(v["out"]["keyBytes"]), unbase64(v["out"]["valueBytes"]))
            for v in vectors("record")]  # fmt: skip
    rows += [(unbase64(v["keyBytes"]), unbase64(v["valueBytes"])) for v in vectors("record-decode")]
    assert any(key and key[:2] == b"\0\2" for key, _ in rows)
    _agree(rows * 2)


@pytest.mark.parametrize("version", range(4))
def test_members_that_stay_are_the_same_object(version):
    """What did not change between two generations is read once; what did is read again."""
    assert version not in versions(VALUES[2].flexible)

    def record(generation, host):
        members = [
            {"memberId": f"m{i}", "groupInstanceId": None, "clientId": f"client-{i}", "clientHost": host,
             "rebalanceTimeout": 5, "sessionTimeout": 6, "subscription": b"s" * i,
             "assignment": bytes([generation])}
            for i in range(3)
        ]  # fmt: skip
        value = {"protocolType": "consumer", "generation": generation, "protocol": "range",
                 "leader": "m0", "currentStateTimestamp": 1, "members": members}  # fmt: skip
        return encode_record(2, {"group": "g"}, version=version, value=value)

    reads = Remembering()
    rows = [record(1, "/a"), record(2, "/a"), record(3, "/b")]
    made = [reads.record(*row) for row in rows]
    assert made == [decode_record(*row) for row in rows]
    first, second, third = ([m["clientId"] for m in one.value["members"]] for one in made)
    assert all(a is b for a, b in zip(first, second, strict=True))
    assert not any(a is b for a, b in zip(second, third, strict=True))
