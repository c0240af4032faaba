"""Short payloads: an error may cost no more memory than the rule allows, however few the bytes."""

from __future__ import annotations

import gc
import sys
import threading

import pytest
from tests.support.wire_damage import payloads_of, peak_of

from partage.errors import WireFormatError
from partage.wire.consumer_protocol import (
    decode_assignment,
    decode_sticky_user_data,
    decode_subscription,
)
from partage.wire.group_log import VALUES, decode_record, encode_record

#: Bytes of an error and its frames; Python 3.13 takes 1,036 for an empty payload.
KILO, TIMES = 1280, 100
READERS = {
    "subscription": decode_subscription,
    "assignment": decode_assignment,
    "sticky": decode_sticky_user_data,
}
LIES = [b"", b"\0", b"\x03\x7f", b"\x80\0", b"\0\0\x7f\xff\xff\xff", b"\0\3\xff\xff\xff\xff"]


def _tried(read, arguments):
    try:
        read(*arguments)
    except WireFormatError as error:
        assert error.field  # noqa: PT017 - most of the payloads are damaged, some are not
        return 1
    return 0


def _bounded(read, arguments):
    limit = KILO + TIMES * sum(len(one) for one in arguments if one is not None)
    _tried(read, arguments)  # warm
    peak = peak_of(read, arguments, limit=limit)
    assert peak <= limit, (peak, arguments)


@pytest.mark.parametrize("number", sorted(VALUES))
def test_records_cut_anywhere(number):
    """Key and value of every type and version, cut after every byte."""
    versions = VALUES[number].versions
    for version in range(versions.lowest, versions.highest + 1):
        key, value = encode_record(number, {}, version=version, value={})
        for cut in range(len(value)):
            assert _tried(decode_record, (key, value[:cut])) == 1
            _bounded(decode_record, (key, value[:cut]))
        for cut in range(len(key)):
            assert _tried(decode_record, (key[:cut], value)) == 1
            _bounded(decode_record, (key[:cut], None))
    _bounded(decode_record, (None, None))
    _bounded(decode_record, (b"\x7f\xff", None))


@pytest.mark.parametrize("name", READERS)
def test_embedded_messages_cut_anywhere(name):
    """Real subscriptions, assignments and user data, cut after every byte; and short lies."""
    distinct = sorted(set(payloads_of(name)), key=len)[:40]
    for data in [*LIES, *(one[:cut] for one in distinct for cut in range(0, len(one), 3))]:
        _bounded(READERS[name], (data,))


def test_a_collection_adds_nothing_to_a_peak():
    """A peak leaves out the objects that replace free lists which a collection has just emptied."""
    payload = b"\0\0\0\1\0\1"
    limit = KILO + TIMES * len(payload)
    for _ in range(5):
        _tried(decode_sticky_user_data, (payload,))
        gc.collect()
        assert peak_of(decode_sticky_user_data, (payload,), limit=limit) <= limit


def test_another_thread_adds_nothing_to_a_peak():
    """A peak leaves out what another thread allocates during a measurement, and nothing else."""
    end, held, interval = threading.Event(), 3000, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threading.Thread(target=_allocate_until, args=(end,)).start()
    try:
        for _ in range(300):
            _bounded(decode_sticky_user_data, (b"\0\0\0\1\0\1",))
        assert peak_of(lambda: bytes(held), ()) >= held
    finally:
        end.set()
        sys.setswitchinterval(interval)


def _allocate_until(end):
    while not end.is_set():
        bytearray(4096)


def test_an_error_keeps_its_place_without_its_frames():
    """Frames of the engine are dropped on the way up; path, offset and version say where."""
    with pytest.raises(WireFormatError) as caught:
        decode_subscription(bytes.fromhex("0003000000020001740001"))
    expected = (
        "ConsumerProtocolSubscription.topics[1] (version 3) at byte 11: string length 1, but 0"
    )
    assert str(caught.value).startswith(expected)
    names = [entry.name for entry in caught.traceback]
    assert names[1:] == ["decode_subscription", "read_embedded"]
