"""Damaged bytes against Kafka's own readers: the same values, the same errors, the same bytes."""

from __future__ import annotations

import base64
import random

import pytest
from tests.support.jvm import JvmOracle
from tests.support.wire_damage import damaged, payloads_of, random_bytes

from partage.errors import WireFormatError
from partage.wire import consumer_protocol, group_log
from partage.wire.consumer_protocol import decode_sticky_user_data, encode_sticky_user_data
from partage.wire.errors import (
    EncodingError,
    LengthError,
    TruncatedError,
    UnknownRecordTypeError,
    UnknownRecordVersionError,
    UnsupportedVersionError,
)
from partage.wire.group_log import KEYS
from partage.wire.record_json import plain_json

pytestmark = [pytest.mark.jvm, pytest.mark.parity]


def _text(data):
    return None if data is None else base64.b64encode(data).decode()


def _record(key, value):
    """Our answer in the oracle's form."""
    record = group_log.decode_record(key, value)
    said = {
        "type": record.key_version,
        "key": plain_json(record.key),
        "value": plain_json(record.value),
    }
    if record.value is not None:
        said["version"] = record.value_version
    try:
        again = group_log.encode_record(
            record.key_version, record.key, version=record.value_version, value=record.value
        )
    except EncodingError:
        return said | {"unwritable": True}
    return said | {"keyBytes": _text(again[0]), "valueBytes": _text(again[1])}


def _record_error(error):
    names = {
        UnknownRecordTypeError: "UnknownRecordTypeException",
        UnknownRecordVersionError: "UnknownRecordVersionException",
    }
    return names.get(type(error), "RuntimeException")


def _subscription(data):
    made = consumer_protocol.decode_subscription(data)
    return {
        "topics": list(made.topics),
        "userData": _text(made.user_data),
        "owned": [list(pair) for pair in made.owned],
        "generation": made.generation,
        "rack": made.rack,
    }


def _assignment(data):
    made = consumer_protocol.decode_assignment(data)
    return {"partitions": [list(p) for p in made.partitions], "userData": _text(made.user_data)}


def _protocol_error(error):
    if isinstance(error, TruncatedError | UnsupportedVersionError):
        return "SchemaException"
    assert isinstance(error, LengthError)
    return "IllegalArgumentException" if error.field.endswith(".userData") else "RuntimeException"


def _sticky(data):
    claims = decode_sticky_user_data(data)
    written = encode_sticky_user_data(
        claims.partitions, -1 if claims.generation is None else claims.generation
    )
    return {
        "partitions": [list(pair) for pair in claims.partitions],
        "generation": claims.generation,
        "written": _text(written),
    }


def _our_answer(read, name_of, arguments):
    try:
        return read(*arguments)
    except WireFormatError as error:
        return {"error": name_of(error)}


AT_ONCE = 2_000


def _compare(parity_n, problem, read, *, name_of=None):
    """Ask both about three times PARTAGE_PARITY_N payloads; give how many had a value."""
    values = 0
    with JvmOracle("Payloads") as oracle:
        for first in range(0, 3 * parity_n, AT_ONCE):
            count = min(AT_ONCE, 3 * parity_n - first)
            problems = [problem() for _ in range(count)]
            answers = oracle.ask_all([request for request, _ in problems])
            for (request, arguments), theirs in zip(problems, answers, strict=True):
                assert _our_answer(read, name_of, arguments) == theirs, request
                values += "error" not in theirs
    # The damage is neither so small that all is read nor so large that nothing is.
    assert values > 3 * parity_n // 20
    return values


def test_damaged_records_are_read_and_written_as_by_the_serde(parity_n):
    """Records of every type, mostly damaged, some random; what can be read is written again."""
    rng = random.Random(4311)

    def problem():
        key, value = rng.choice(payloads_of("record"))
        kind = rng.randrange(6)
        if kind == 0:
            key = damaged(key, rng)
        elif kind == 1:
            key = rng.choice(list(KEYS)).to_bytes(2, "big") + b"\0\1g\0\1m\0\0\0\0"
            value = b"\0\0" + random_bytes(rng)
        elif kind < 5:
            value = damaged(value, rng)
        return {"what": "record", "key": _text(key), "value": _text(value)}, (key, value)

    assert _compare(parity_n, problem, _record, name_of=_record_error) < 3 * parity_n


@pytest.mark.parametrize(
    ("what", "read"), [("subscription", _subscription), ("assignment", _assignment)]
)
def test_damaged_protocol_messages_are_read_as_by_the_consumer(parity_n, what, read):
    """Values, and which of its three exceptions Kafka raises."""
    rng = random.Random(848)

    def problem():
        payload = rng.choice(payloads_of(what))
        data = damaged(payload, rng) if rng.random() < 0.9 else random_bytes(rng)
        return {"what": what, "bytes": _text(data)}, (data,)

    assert _compare(parity_n, problem, read, name_of=_protocol_error) < 3 * parity_n


def test_sticky_user_data_is_read_and_written_as_by_the_assignor(parity_n):
    """Claims with colliding names, many topics, and damage: the same claims, the same bytes back."""
    rng = random.Random(54)

    def problem():
        if rng.random() < 0.5:
            data = damaged(rng.choice(payloads_of("sticky")), rng)
        else:
            data = encode_sticky_user_data(
                _claims(rng), rng.randrange(-1, 9), version=rng.randrange(2)
            )
        return {"what": "sticky", "bytes": _text(data)}, (data,)

    # Kafka never refuses user data.
    assert _compare(parity_n, problem, _sticky) == 3 * parity_n


def _claims(rng):
    """Up to 60 partitions of up to 40 topics, whose names often share a hash."""
    stems = ("Aa", "BB", "t", f"t{rng.randrange(9)}")
    names = [rng.choice(stems) * rng.randrange(1, 4) + str(rng.randrange(4)) for _ in range(40)]
    return [(rng.choice(names), rng.randrange(5)) for _ in range(rng.randrange(60))]
