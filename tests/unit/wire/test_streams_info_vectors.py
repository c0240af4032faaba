"""SubscriptionInfo and AssignmentInfo against the bytes that Kafka Streams 4.3.1 printed."""

from __future__ import annotations

import pytest
from tests.support.streams_samples import (
    assignment_of,
    assignment_view,
    java_name,
    subscription_of,
    subscription_view,
)
from tests.support.wire_samples import unbase64, vectors

from partage.errors import WireFormatError
from partage.wire.errors import EncodingError, LengthError, TruncatedError, UnsupportedVersionError
from partage.wire.streams.assignment_info import decode_assignment_info, encode_assignment_info
from partage.wire.streams.subscription_info import (
    decode_subscription_info,
    encode_subscription_info,
)

SUBSCRIPTIONS = vectors("streams-subscription-info")
ASSIGNMENTS = vectors("streams-assignment-info")
DECODED = vectors("streams-info-decode")


def _tags_sorted(printed):
    """Tags were printed in the order of a hash map."""
    return printed | ({"tags": sorted(printed["tags"])} if "tags" in printed else {})


@pytest.mark.parametrize("number", range(len(SUBSCRIPTIONS)))
def test_subscriptions_are_written_and_read_as_printed(number):
    """Bytes of the constructor's arguments, the object read back, and the bytes again."""
    line = SUBSCRIPTIONS[number]
    if "error" in line:
        with pytest.raises(WireFormatError) as caught:
            encode_subscription_info(subscription_of(line))
        assert java_name(caught.value, writing=True) == line["error"]
        return
    data = unbase64(line["out"]["bytes"])
    assert encode_subscription_info(subscription_of(line)) == data
    info = decode_subscription_info(data)
    assert subscription_view(info) == _tags_sorted(line["out"]["decoded"])
    assert encode_subscription_info(info) == data
    assert info.trailing == 0


@pytest.mark.parametrize("number", range(len(ASSIGNMENTS)))
def test_assignments_are_written_and_read_as_printed(number):
    """Bytes of the constructor's arguments, the object read back, and the bytes again."""
    line = ASSIGNMENTS[number]
    if "error" in line:
        with pytest.raises(WireFormatError) as caught:
            encode_assignment_info(assignment_of(line))
        assert java_name(caught.value, writing=True) == line["error"]
        return
    data = unbase64(line["out"]["bytes"])
    assert encode_assignment_info(assignment_of(line)) == data
    info = decode_assignment_info(data)
    assert assignment_view(info) == line["out"]["decoded"]
    assert encode_assignment_info(info) == data


@pytest.mark.parametrize("number", range(len(DECODED)))
def test_damaged_bytes_are_read_or_refused_as_printed(number):
    """Truncated payloads, and payloads under another version's number."""
    line = DECODED[number]
    data = unbase64(line["bytes"])
    if line["what"] == "assignment":
        read, view = decode_assignment_info, assignment_view
    else:
        read, view = decode_subscription_info, subscription_view
    if "error" not in line:
        assert view(read(data)) == _tags_sorted(line["out"])
        return
    with pytest.raises(WireFormatError) as caught:
        read(data)
    # Below version 1 Kafka reads on in some layout before it refuses.
    if line["what"] == "subscription" and int.from_bytes(data[:4], "big", signed=True) >= 1:
        assert java_name(caught.value) == line["error"]
    assert caught.value.field.startswith(
        "AssignmentInfo." if line["what"] == "assignment" else "SubscriptionInfoData."
    )
    assert isinstance(caught.value, TruncatedError | LengthError | UnsupportedVersionError)
    assert not isinstance(caught.value, EncodingError)


def test_every_version_is_among_the_vectors():
    """All eleven of each, both ways."""
    for lines in (SUBSCRIPTIONS, ASSIGNMENTS):
        assert {line["version"] for line in lines if "out" in line} == set(range(1, 12))
