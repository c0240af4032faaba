"""Random damage: whatever the bytes, a value or a WireFormatError, and never much memory."""

from __future__ import annotations

import contextlib
import random
import tracemalloc

import pytest

from partage.errors import WireFormatError
from partage.wire import consumer_protocol
from partage.wire.group_log import decode_record, is_canonical, record_type
from partage.wire.messages import KEYS
from partage.wire.record_json import to_json
from partage.wire.sticky_userdata import decode_sticky_user_data
from wire_samples import distinct_group_records, unbase64, vectors

KILO = 1024
ERROR = 3 * KILO  # one error with its traceback
ALLOWED_TIMES = 100
MEASURED_EVERY = 50
LONGEST = 3000
# Bytes that lengths, counts and varints are made of.
TELLING = [0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF]


def _seeds():
    """Real payloads by reader: records of every type, and what is embedded in them."""
    records = [
        (unbase64(v["out"]["keyBytes"]), unbase64(v["out"]["valueBytes"]))
        for v in vectors("record")
    ]
    records += distinct_group_records()[::7]
    records = [(k, v) for k, v in records if v is not None and len(v) <= LONGEST]
    subscriptions = [
        unbase64(v["out"]["bytes"]) for v in vectors("wire-subscription") if "out" in v
    ]
    assignments = [unbase64(v["out"]["bytes"]) for v in vectors("wire-assignment") if "out" in v]
    sticky = [
        unbase64(v["out"]["bytes"]) for v in vectors("sticky-userdata") if "bytes" in v["out"]
    ]
    return records, subscriptions, assignments, sticky


def _damaged(data, rng):
    """One to four changes: bytes set, cut, doubled, swapped in, or a lying length."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and place < len(data):
            data[place] = rng.choice(TELLING)
        elif kind == 1 and place < len(data):
            data[place] = rng.randrange(256)
        elif kind == 2:
            del data[place:]
        elif kind == 3:
            data[place:place] = rng.choice(
                [b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80" * 6]
            )
        elif kind == 4:
            data[place:place] = data[place : place + rng.randrange(1, 20)]
        else:
            del data[place : place + rng.randrange(1, 6)]
    return bytes(data)


def _random(rng):
    """Bytes of no origin, mostly such as lengths are made of."""
    pool = TELLING if rng.random() < 0.5 else range(256)
    return bytes(rng.choice(pool) for _ in range(rng.randrange(60)))


def _payload(seeds, rng):
    """A reader and the arguments to try it with."""
    records, subscriptions, assignments, sticky = seeds
    kind = rng.randrange(8)
    if kind == 0:
        return consumer_protocol.decode_subscription, (_damaged(rng.choice(subscriptions), rng),)
    if kind == 1:
        return consumer_protocol.decode_assignment, (_damaged(rng.choice(assignments), rng),)
    if kind == 2:
        return decode_sticky_user_data, (_damaged(rng.choice(sticky), rng),)
    key, value = rng.choice(records)
    if kind == 3:
        return decode_record, (_damaged(key, rng), value)
    if kind == 4:
        number = rng.choice(list(KEYS))
        return decode_record, (
            number.to_bytes(2, "big") + b"\0\1g\0\1m\0\0\0\0",
            b"\0\0" + _random(rng),
        )
    if kind == 5:
        return decode_record, (_random(rng), _random(rng))
    return decode_record, (key, _damaged(value, rng))


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


def _peak(read, arguments):
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    with contextlib.suppress(WireFormatError):
        read(*arguments)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return peak


@pytest.mark.fuzz
def test_damaged_payloads_raise_nothing_but_wire_format_errors(fuzz_n):
    """PARTAGE_FUZZ_N payloads: real ones damaged, and random ones; memory measured on a sample."""
    rng = random.Random(20_250_721)
    seeds = _seeds()
    taken = 0
    for number in range(fuzz_n):
        read, arguments = _payload(seeds, rng)
        try:
            taken += _ends(read, arguments)
            if number % MEASURED_EVERY == 0:
                size = sum(len(one) for one in arguments if one is not None)
                assert _peak(read, arguments) <= KILO + ERROR + ALLOWED_TIMES * size
        except BaseException:
            print(f"payload {number} of {read.__name__}: {[a and a.hex() for a in arguments]}")
            raise
    # The damage is neither so small that all is read nor so large that nothing is.
    assert fuzz_n // 20 < taken < fuzz_n * 19 // 20
