"""Damaged user data of Streams: a value or a WireFormatError, and never much memory."""

from __future__ import annotations

import random

import pytest
from tests.support.streams_made import made_assignment, made_draft, made_subscription
from tests.support.streams_samples import assignment_of, subscription_of
from tests.support.wire_damage import damaged, peak_of, random_bytes

from partage.errors import WireFormatError
from partage.legacy.kip441_messages import (
    decode_subscription_draft_5,
    encode_subscription_draft_5,
)
from partage.wire.record_json import assignment_json, subscription_json
from partage.wire.streams.assignment_info import decode_assignment_info, encode_assignment_info
from partage.wire.streams.subscription_info import (
    decode_subscription_info,
    encode_subscription_info,
)

# An object for each of a few bytes is all that a payload may cost; the engine's frames besides.
KILO, ALLOWED_TIMES, MEASURED_EVERY = 4_096, 100, 50


def _payloads(rng, make, encode):
    """Sound ones, of all versions."""
    found = []
    while len(found) < 400:
        try:
            found.append(encode(make(rng)))
        except WireFormatError:
            continue
    return found


def _readers(rng):
    subscriptions = _payloads(
        rng, made_subscription, lambda line: encode_subscription_info(subscription_of(line))
    )
    assignments = _payloads(
        rng, made_assignment, lambda line: encode_assignment_info(assignment_of(line))
    )
    drafts = _payloads(rng, made_draft, encode_subscription_draft_5)
    return [
        (decode_subscription_info, subscriptions),
        (decode_assignment_info, assignments),
        (decode_subscription_info, subscriptions),
        (decode_assignment_info, assignments),
        (decode_subscription_draft_5, drafts),
    ]


_WRITERS = {
    decode_subscription_info: (encode_subscription_info, subscription_json),
    decode_assignment_info: (encode_assignment_info, assignment_json),
}


def _ends(read, data):
    """Whether the payload was read; the encoded value is equal byte for byte, unless rewritten."""
    try:
        made = read(data)
    except WireFormatError as error:
        return _sound(error)
    if read in _WRITERS:
        write, show = _WRITERS[read]
        show(data)
        if read is decode_assignment_info or not made.is_future():
            again = write(made)
            assert read(again) == read(data[: len(data) - made.trailing] or data)
    return True


def _sound(error):
    """An error has a place and the name of what was read there; the answer is False."""
    assert error.offset >= 0
    assert error.field
    return False


@pytest.mark.fuzz
def test_damaged_user_data_raises_nothing_but_wire_format_errors(fuzz_n):
    """PARTAGE_FUZZ_N payloads: sound ones damaged, and random ones; memory measured on a sample."""
    rng = random.Random(20_261_121)
    readers = _readers(rng)
    taken = 0
    for number in range(fuzz_n):
        read, payloads = rng.choice(readers)
        data = damaged(rng.choice(payloads), rng) if rng.random() < 0.9 else random_bytes(rng)
        try:
            taken += _ends(read, data)
            if number % MEASURED_EVERY == 0:
                limit = KILO + ALLOWED_TIMES * len(data)
                assert peak_of(read, (data,), limit=limit) <= limit
        except BaseException:
            print(f"payload {number} of {read.__name__}: {data.hex()}")
            raise
    # The damage is neither so small that all is read nor so large that nothing is.
    assert fuzz_n // 20 < taken < fuzz_n * 19 // 20
