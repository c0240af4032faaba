"""Subscriptions, assignments and sticky user data against Kafka's own classes."""

from __future__ import annotations

import base64
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.wire_samples import unbase64, vectors

from partage.errors import WireFormatError
from partage.wire import consumer_protocol as protocol
from partage.wire.consumer_protocol import (
    StickyClaims,
    decode_sticky_user_data,
    encode_sticky_user_data,
)
from partage.wire.errors import EncodingError, LengthError, TruncatedError, UnsupportedVersionError


def _text(data):
    return None if data is None else base64.b64encode(data).decode()


def _pairs(lists):
    return [(topic, number) for topic, number in lists]


def _shown_subscription(made):
    return {
        "topics": list(made.topics),
        "userData": _text(made.user_data),
        "owned": [list(pair) for pair in made.owned],
        "generation": made.generation,
        "rack": made.rack,
    }


def _shown_assignment(made):
    return {
        "partitions": [list(pair) for pair in made.partitions],
        "userData": _text(made.user_data),
    }


def _java_name(error):
    """Which exception Kafka raises where ours is raised."""
    if isinstance(error, TruncatedError | UnsupportedVersionError):
        return "SchemaException"
    assert isinstance(error, LengthError)
    in_user_data = error.field.endswith(".userData")
    return "IllegalArgumentException" if in_user_data else "RuntimeException"


@pytest.mark.parametrize("line", vectors("wire-subscription"), ids=itertools.count())
def test_subscriptions_are_written_and_read_as_by_kafka(line):
    """Sorting, grouping, dropped fields, clamped and refused versions."""
    given_ = {
        "user_data": unbase64(line["userData"]),
        "owned": _pairs(line["owned"]),
        "generation": line["generation"],
        "rack": line.get("rack"),
    }
    if "version" in line:
        given_["version"] = line["version"]
    if "error" in line:
        with pytest.raises(WireFormatError) as caught:
            protocol.encode_subscription(line["topics"], **given_)
        assert _java_name(caught.value) == line["error"]
        return
    data = protocol.encode_subscription(line["topics"], **given_)
    assert _text(data) == line["out"]["bytes"]
    assert _shown_subscription(protocol.decode_subscription(data)) == line["out"]["decoded"]


@pytest.mark.parametrize("line", vectors("wire-assignment"), ids=itertools.count())
def test_assignments_are_written_and_read_as_by_kafka(line):
    """Topics by first appearance, partitions unsorted, duplicates kept."""
    given_ = {"user_data": unbase64(line["userData"])}
    if "version" in line:
        given_["version"] = line["version"]
    if "error" in line:
        with pytest.raises(WireFormatError) as caught:
            protocol.encode_assignment(_pairs(line["partitions"]), **given_)
        assert _java_name(caught.value) == line["error"]
        return
    data = protocol.encode_assignment(_pairs(line["partitions"]), **given_)
    assert _text(data) == line["out"]["bytes"]
    assert _shown_assignment(protocol.decode_assignment(data)) == line["out"]["decoded"]


@pytest.mark.parametrize("line", vectors("wire-decode"), ids=itertools.count())
def test_damaged_messages_end_as_in_kafka(line):
    """The same values, or an error of the class that Kafka raises there."""
    shown, decode = {
        "subscription": (_shown_subscription, protocol.decode_subscription),
        "assignment": (_shown_assignment, protocol.decode_assignment),
    }[line["what"]]
    data = unbase64(line["bytes"])
    if "error" in line:
        with pytest.raises(WireFormatError) as caught:
            decode(data, version=line.get("version"))
        assert _java_name(caught.value) == line["error"]
        return
    assert shown(decode(data, version=line.get("version"))) == line["out"]


@pytest.mark.parametrize("line", vectors("sticky-userdata"), ids=itertools.count())
def test_sticky_user_data_is_written_and_read_as_by_kafka(line):
    """Java's map order on the way out; version 1, then 0, then no claims on the way in."""
    if "bytes" in line:
        data = unbase64(line["bytes"])
    else:
        data = encode_sticky_user_data(
            _pairs(line["partitions"]), line["generation"], version=line["version"]
        )
        assert _text(data) == line["out"]["bytes"]
    claims = decode_sticky_user_data(data)
    assert [list(pair) for pair in claims.partitions] == line["out"]["decoded"]["partitions"]
    assert claims.generation == line["out"]["decoded"]["generation"]


EXAMPLE = {"owned": [("foo", 1), ("bar", 0), ("foo", 0)], "generation": 7, "rack": "r1"}
V1 = "0001 00000002 0003626172 0003666f6f ffffffff 00000002 0003626172 00000001 00000000 0003666f6f 00000002 00000000 00000001"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, "0000 00000002 0003626172 0003666f6f ffffffff"),
        (1, V1),
        (2, "0002" + V1[4:] + "00000007"),
        (3, "0003" + V1[4:] + "00000007 00027231"),
        (4, "0003" + V1[4:] + "00000007 00027231"),
    ],
)
def test_the_printed_subscriptions(version, expected):
    """The byte examples of the restated protocol, version by version."""
    data = protocol.encode_subscription(["foo", "bar"], version=version, **EXAMPLE)
    assert data == bytes.fromhex(expected)


def test_the_printed_assignments():
    """The same for assignments."""
    partitions = [("foo", 1), ("bar", 0), ("foo", 0)]
    expected = (
        "0003 00000002 0003666f6f 00000002 00000001 00000000 0003626172 00000001 00000000 ffffffff"
    )
    assert protocol.encode_assignment(partitions) == bytes.fromhex(expected)
    data = protocol.encode_assignment([("t", 0)], user_data=b"\xca\xfe", version=1)
    assert data == bytes.fromhex("0001 00000001 000174 00000001 00000000 00000002 cafe")


def test_the_printed_sticky_user_data():
    """Topics come out as bar, topic10, foo, topic9."""
    partitions = [("foo", 1), ("bar", 0), ("foo", 0), ("topic9", 2), ("topic10", 4)]
    expected = (
        "00000004 0003626172 00000001 00000000 0007746f7069633130 00000001 00000004"
        "0003666f6f 00000002 00000001 00000000 0006746f70696339 00000001 00000002 00000005"
    )
    assert encode_sticky_user_data(partitions, 5) == bytes.fromhex(expected)
    assert encode_sticky_user_data([("Aa", 0), ("BB", 0)]) == bytes.fromhex(
        "00000002 00024242 00000001 00000000 00024161 00000001 00000000 ffffffff"
    )


def test_sticky_user_data_that_is_nothing():
    """Null and empty claim nothing, without generation; rubbish claims nothing at generation -1."""
    assert decode_sticky_user_data(None) == decode_sticky_user_data(b"") == StickyClaims((), None)
    assert decode_sticky_user_data(b"\x01") == StickyClaims((), -1)


def test_negative_lengths_of_nullable_fields_are_null():
    """Not only -1: any negative length of user data or rack."""
    data = bytes.fromhex("0003 00000000 80000000 00000000 ffffffff fffe")
    made = protocol.decode_subscription(data)
    assert (made.user_data, made.rack, made.generation) == (None, None, None)


def test_trailing_bytes_are_counted_and_no_error():
    """A newer sender's extra fields are ignored."""
    data = bytes.fromhex("0009 00000000 ffffffff 00000000 ffffffff 0000 cafe")
    embedded = protocol.read_embedded(protocol.CONSUMER_PROTOCOL_SUBSCRIPTION, data)
    assert (embedded.version, embedded.trailing) == (9, 2)
    assert protocol.decode_subscription(data).rack is None


def test_headers_and_values_that_do_not_fit():
    """Errors name the message; wrong Python values are errors of ours too."""
    with pytest.raises(TruncatedError) as caught:
        protocol.decode_assignment(b"\0")
    assert caught.value.field == "ConsumerProtocolAssignment.version"
    with pytest.raises(UnsupportedVersionError):
        protocol.decode_assignment(b"\xff\xff")
    for bad in ([("t", 2**31)], [(None, 1)]):
        with pytest.raises(EncodingError):
            protocol.encode_assignment(bad)
    for bad in ([1], [None]):
        with pytest.raises(EncodingError):
            protocol.encode_subscription(bad)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PARTITIONS = st.lists(st.tuples(TEXT, st.integers(-(2**31), 2**31 - 1)), max_size=12)
DATA = st.none() | st.binary(max_size=12)


@given(st.lists(TEXT, max_size=6), PARTITIONS, DATA, st.none() | st.integers(0, 99), TEXT)
def test_subscriptions_come_back_sorted(topics, owned, user_data, generation, rack):
    """Round trip of version 3: topics and claims sorted by Java's order, the rest as given."""
    data = protocol.encode_subscription(
        topics, owned=owned, user_data=user_data, generation=generation, rack=rack or None
    )
    made = protocol.decode_subscription(data)
    key = protocol.string_order_key
    assert made.topics == tuple(sorted(topics, key=key))
    assert made.owned == tuple(sorted(owned, key=lambda pair: (key(pair[0]), pair[1])))
    assert (made.user_data, made.generation, made.rack) == (user_data, generation, rack or None)


@given(PARTITIONS, st.integers(-(2**31), 2**31 - 1))
def test_sticky_claims_come_back_in_java_order(partitions, generation):
    """Round trip: the same claims grouped by topic; order within a topic kept."""
    claims = decode_sticky_user_data(encode_sticky_user_data(partitions, generation))
    assert claims.generation == generation
    assert sorted(claims.partitions) == sorted(partitions)
    for topic in {topic for topic, _ in partitions}:
        given_ = [number for t, number in partitions if t == topic]
        assert [number for t, number in claims.partitions if t == topic] == given_
