"""Random damage: whatever the bytes, a value or a WireFormatError, and never much memory."""

from __future__ import annotations

import random

import pytest
from tests.support.wire_damage import damaged, payloads_of, peak_of, random_bytes
from tests.support.wire_samples import is_canonical

from partage.errors import WireFormatError
from partage.wire import consumer_protocol
from partage.wire.consumer_protocol import decode_sticky_user_data
from partage.wire.group_log import KEYS, decode_record, record_type
from partage.wire.record_json import to_json

KILO = 1024
ALLOWED_TIMES = 100
MEASURED_EVERY = 50


def _payload(rng):
    """A reader and the arguments to try it with."""
    kind = rng.randrange(8)
    if kind == 0:
        return consumer_protocol.decode_subscription, (
            damaged(rng.choice(payloads_of("subscription")), rng),
        )
    if kind == 1:
        return consumer_protocol.decode_assignment, (
            damaged(rng.choice(payloads_of("assignment")), rng),
        )
    if kind == 2:
        return decode_sticky_user_data, (damaged(rng.choice(payloads_of("sticky")), rng),)
    key, value = rng.choice(payloads_of("record"))
    if kind == 3:
        return decode_record, (damaged(key, rng), value)
    if kind == 4:
        number = rng.choice(list(KEYS))
        return decode_record, (
            number.to_bytes(2, "big") + b"\0\1g\0\1m\0\0\0\0",
            b"\0\0" + random_bytes(rng),
        )
    if kind == 5:
        return decode_record, (random_bytes(rng), random_bytes(rng))
    return decode_record, (key, damaged(value, rng))


def _ends(read, arguments):
    """Whether the reader took the payload; anything but a WireFormatError goes through."""
    try:
        made = read(*arguments)
    except WireFormatError as error:
        return _sound(error)
    if read is decode_record:
        to_json(made, partition=0, offset=0, timestamp_ms=0)
        is_canonical(*arguments)
        record_type(arguments[0])
    return True


def _sound(error):
    """An error has a place and the name of what was read there; the answer is False."""
    assert error.offset >= 0
    assert error.field
    return False


@pytest.mark.fuzz
def test_damaged_payloads_raise_nothing_but_wire_format_errors(fuzz_n):
    """PARTAGE_FUZZ_N payloads: real ones damaged, and random ones; memory measured on a sample."""
    rng = random.Random(20_250_721)
    taken = 0
    for number in range(fuzz_n):
        read, arguments = _payload(rng)
        try:
            taken += _ends(read, arguments)
            if number % MEASURED_EVERY == 0:
                size = sum(len(one) for one in arguments if one is not None)
                limit = KILO + ALLOWED_TIMES * size
                assert peak_of(read, arguments, limit=limit) <= limit
        except BaseException:
            print(f"payload {number} of {read.__name__}: {[a and a.hex() for a in arguments]}")
            raise
    # The damage is neither so small that all is read nor so large that nothing is.
    assert fuzz_n // 20 < taken < fuzz_n * 19 // 20
