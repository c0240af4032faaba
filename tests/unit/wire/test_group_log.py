"""Records of ``__consumer_offsets`` against Kafka's own decoder and serde."""

from __future__ import annotations

import collections
import functools
import itertools

import pytest
from tests.support.wire_samples import (
    decoded_lines,
    distinct_group_records,
    is_canonical,
    recorded,
    typed,
    unbase64,
    vectors,
    without_unknown,
)

from partage.errors import WireFormatError
from partage.wire import group_log
from partage.wire.errors import (
    EncodingError,
    LengthError,
    TruncatedError,
    UnknownRecordTypeError,
    UnknownRecordVersionError,
    UnsupportedVersionError,
)
from partage.wire.group_log import KEYS, VALUES
from partage.wire.record_json import plain_json, to_json
from partage.wire.schema import UNKNOWN_TAGS


def test_every_recorded_record_is_decoded_as_kafka_did():
    """All 94,434 lines of Kafka's decoder, embedded subscriptions and assignments included."""
    rows = {(p, o): (ts, key, value) for p, o, ts, key, value in recorded()}
    differing = []
    count = 0
    for line in decoded_lines():
        place = line["partition"], line["offset"]
        timestamp_ms, key, value = rows.pop(place)
        record = group_log.decode_record(key, value)
        ours = to_json(record, partition=place[0], offset=place[1], timestamp_ms=timestamp_ms)
        for member in ours.get("members_decoded", ()):
            # Fields with us, texts with Kafka: test_streams_capture.py compares them.
            member.pop("streamsSubscription", None)
            member.pop("streamsAssignment", None)
        if ours != line or list(ours) != list(line):
            differing.append((line, ours))
        count += 1
    assert not differing[:3]
    assert (count, rows) == (94_434, {})


def test_every_recorded_record_is_encoded_to_the_same_bytes():
    """Decode and encode again: all keys and values come back, byte for byte."""
    types = collections.Counter()
    for *_, key, value in recorded():
        record = group_log.decode_record(key, value)
        again = group_log.encode_record(
            record.key_version, record.key, version=record.value_version, value=record.value
        )
        assert again == (key, value)
        types[record.type] += 1
    assert len(types) == 21


@pytest.mark.parametrize("line", vectors("record"), ids=itertools.count())
def test_vectors_of_every_type_and_version(line):
    """Bytes from the values, values from the bytes, and the bytes once more, unknown tags kept."""
    out, number = line["out"], line["type"]
    key_bytes, value_bytes = unbase64(out["keyBytes"]), unbase64(out["valueBytes"])
    record = group_log.decode_record(key_bytes, value_bytes)
    expected = out["decoded"]
    assert (record.key_version, plain_json(record.key)) == (expected["type"], expected["key"])
    assert plain_json(record.value) == expected["value"]
    assert record.value_version == expected.get("version")
    assert is_canonical(key_bytes, value_bytes)
    unknown = (record.value or {}).get(UNKNOWN_TAGS, ())
    kafkas = [(tag, unbase64(data)) for tag, data in expected.get("unknownTags", ())]
    assert list(unknown) == kafkas
    if line.get("unknownTags"):
        return
    key = typed(KEYS[number].fields, line["key"])
    value = line["value"] and typed(VALUES[number].fields, line["value"])
    assert group_log.encode_record(number, key, version=line.get("version"), value=value) == (
        key_bytes,
        value_bytes,
    )


def test_vectors_cover_every_record_type_and_value_version():
    """No layout is left without an answer of Kafka's."""
    seen = {(line["type"], line["version"]) for line in vectors("record") if "version" in line}
    assert seen == {
        (number, version)
        for number, message in VALUES.items()
        for version in range(message.versions.highest + 1)
    }


LONG = 400
JAVA_NAME = {
    UnknownRecordTypeError: "UnknownRecordTypeException",
    UnknownRecordVersionError: "UnknownRecordVersionException",
}


@pytest.mark.parametrize("line", vectors("record-decode"), ids=itertools.count())
def test_damaged_records_end_as_in_kafkas_serde(line):
    """The same values, or an error where Kafka has one, of the kind that its loader tells apart."""
    key, value = unbase64(line["keyBytes"]), unbase64(line["valueBytes"])
    if "error" in line:
        with pytest.raises(WireFormatError) as caught:
            group_log.decode_record(key, value)
        assert JAVA_NAME.get(caught.type, "RuntimeException") == line["error"]
        return
    record = group_log.decode_record(key, value)
    out = line["out"]
    assert (record.key_version, plain_json(record.key)) == (out["type"], out["key"])
    assert (record.value_version, plain_json(record.value)) == (out.get("version"), out["value"])


PRINTED = [  # spec 5.4: key, value as hex; what they say
    ("0001000167000174 00000003", "0003 000000000000002a 00000005 00026d64 0000000000000064",
     {"offset": 42, "leaderEpoch": 5, "metadata": "md", "commitTimestamp": 100}),
    ("0001000167000174 00000003", "0001 000000000000002a 00026d64 0000000000000064 00000000000000c8",
     {"offset": 42, "metadata": "md", "commitTimestamp": 100, "expireTimestamp": 200}),
    ("0001000167000174 00000003", "0004 000000000000002a 00000005 036d64 0000000000000064 01 05 02 cafe",
     {"offset": 42, "leaderEpoch": 5, "metadata": "md", "commitTimestamp": 100,
      UNKNOWN_TAGS: ((5, b"\xca\xfe"),)}),
    ("0003000167", "0000 0000000a 00", {"epoch": 10}),
    ("0003000167", "0000 0000000a 01 00 08 0000000000000007", {"epoch": 10, "metadataHash": 7}),
    ("0006000167", "0000 00000005 01 00 08 0000000000000063",
     {"assignmentEpoch": 5, "assignmentTimestamp": 99}),
    ("000700016700016d", "0000 02 00112233445566778899aabbccddeeff 03 00000000 00000001 00 00",
     {"topicPartitions": ({"topicId": "ABEiM0RVZneImaq7zN3u_w", "partitions": (0, 1)},)}),
    ("000800016700016d", "0000 00000005 00000004 01 02 00112233445566778899aabbccddeeff 02 00000000 01 00 05 02 00000007 01 00",
     {"memberEpoch": 5, "previousMemberEpoch": 4, "state": 1, "partitionsPendingRevocation": (),
      "assignedPartitions": ({"topicId": "ABEiM0RVZneImaq7zN3u_w", "partitions": (0,), "assignmentEpochs": (7,)},)}),
    ("0011000167", "0000 00000001 0000000000000002 02 00 04 00000003 01 19 02 156e756d2e7374616e6462792e7265706c69636173 0231 00",
     {"epoch": 1, "metadataHash": 2, "validatedTopologyEpoch": 3,
      "lastAssignmentConfigs": ({"key": "num.standby.replicas", "value": "1"},)}),
    ("001300016700016d", "0000 00 00 0263 0268 00000005 00000000 0270 01 0268 ffff 00 02 026b 0276 00 00",
     {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "h", "rebalanceTimeoutMs": 5,
      "topologyEpoch": 0, "processId": "p", "userEndpoint": {"host": "h", "port": 65535},
      "clientTags": ({"key": "k", "value": "v"},)}),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "says"), PRINTED)
def test_the_printed_examples_of_bytes(key, value, says):
    """The byte examples of the restated format, read and written."""
    key, value = bytes.fromhex(key), bytes.fromhex(value)
    record = group_log.decode_record(key, value)
    assert record.value == says
    assert is_canonical(key, value)


NATIVE = "0000 00 00 0263 0268 02 0274 00 ffffffff 00 01 00 01 00"


def test_an_absent_classic_metadata_means_an_empty_struct_not_null():
    """Q14: null is written out; an empty struct is the default and is left out."""
    key = bytes.fromhex("000500016700016d")
    record = group_log.decode_record(key, bytes.fromhex(NATIVE))
    assert record.value["classicMemberMetadata"] is None
    empty = {
        **record.value,
        "classicMemberMetadata": {"sessionTimeoutMs": 0, "supportedProtocols": []},
    }
    _, value = group_log.encode_record(5, record.key, version=0, value=empty)
    assert value == bytes.fromhex(NATIVE)[:-4] + b"\x00"
    assert "classicMemberMetadata" not in group_log.decode_record(key, value).value


def test_tombstones_have_no_version_and_no_value():
    """A null value decodes for every type, and `to_json` leaves the version out."""
    for number in KEYS:
        key, _ = group_log.encode_record(number, {})
        record = group_log.decode_record(key, None)
        assert record[3:] == (None, None)
        line = to_json(record, partition=1, offset=2, timestamp_ms=3)
        assert list(line)[-2:] == ["key", "value"]
        assert "members_decoded" not in line


@pytest.mark.parametrize("number", [9, 18, 24, -1, 0x7FFF])
def test_unknown_types_are_errors_whatever_the_value(number):
    """The type is on the error; the value is not looked at."""
    key = number.to_bytes(2, "big", signed=True) + b"junk"
    assert group_log.record_type(key) == number
    with pytest.raises(UnknownRecordTypeError) as caught:
        group_log.decode_record(key, b"")
    assert caught.value.type == number
    with pytest.raises(UnknownRecordTypeError):
        group_log.encode_record(number, {})


@pytest.mark.parametrize(("number", "version"), [(0, 1), (1, 5), (2, -1), (3, 1), (15, 1)])
def test_unknown_versions_are_refused_before_the_body(number, version):
    """Kafka 4.3.1 refuses newer and negative versions; type and version are on the error."""
    key, _ = group_log.encode_record(number, {})
    with pytest.raises(UnknownRecordVersionError) as caught:
        group_log.decode_record(key, version.to_bytes(2, "big", signed=True))
    assert (caught.value.type, caught.value.version) == (number, version)
    with pytest.raises(UnsupportedVersionError):
        group_log.encode_record(number, {}, version=version, value={})


def test_errors_name_offset_field_and_version():
    """A truncated group record says where it ends and what was being read there."""
    key, value = next(
        r for r in distinct_group_records() if r[0][:2] == b"\0\2" and len(r[1] or b"") > 300
    )
    with pytest.raises(LengthError) as caught:
        group_log.decode_record(key, value[:-200])
    error = caught.value
    assert error.version == 3
    assert error.field.startswith("value.members[")
    assert 0 < error.offset < len(value)
    assert error.field in str(error)
    with pytest.raises(TruncatedError, match="key is null"):
        group_log.decode_record(None, b"")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("0003000167 21", "0000 0000000a 00"),  # trailing bytes in the key
        ("0003000167", "0000 0000000a 00 21"),  # trailing bytes in the value
        ("00030001ff", "0000 0000000a 00"),  # malformed UTF-8
        ("0003000167", "0000 0000000a 8000"),  # a padded varint
        ("0003000167", "0000 0000000a 01 00 08 0000000000000000"),  # default written out
        ("0003000167", "0000 0000000a 01 00 7f 0000000000000007"),  # false size of a known tag
        ("0003000167", "0000 0000000a 02 05 00 05 00"),  # an unknown tag twice
        ("0003000167", "0000 0000000a 02 05 00 00 08 0000000000000007"),  # out of order
    ],
)
def test_bytes_that_say_more_than_their_values_are_not_canonical(key, value):
    """Kafka reads these; what it writes of them is not the same, and `is_canonical` says so."""
    assert not is_canonical(bytes.fromhex(key), bytes.fromhex(value))


def test_refused_values_say_which_field():
    """Encoding errors have the path of the value."""
    for value, field in [
        ({"epoch": 2**31}, "value.epoch"),
        ({"epoch": 1, "epohc": 2}, "value"),
        ({"epoch": 1, UNKNOWN_TAGS: [(0, b"")]}, "value"),
    ]:
        with pytest.raises(EncodingError) as caught:
            group_log.encode_record(3, {"groupId": "g"}, version=0, value=value)
        assert caught.value.field == field
    with pytest.raises(EncodingError, match="needs a version"):
        group_log.encode_record(3, {"groupId": "g"}, value={})
    with pytest.raises(EncodingError) as caught:
        group_log.encode_record(2, {"group": "x" * 32768})
    assert caught.value.field == "key.group"


def _error_at(data, stop, read):
    """The error of reading the first ``stop`` bytes, None when there is none."""
    try:
        read(data[:stop])
    except WireFormatError as error:
        return error
    return None


def test_truncation_at_every_byte_is_an_error_that_says_where():
    """No prefix of a key or a value of any type decodes; the error has a place and a field."""
    lines = [line["out"] for line in vectors("record")]
    pairs = [(unbase64(out["keyBytes"]), unbase64(out["valueBytes"])) for out in lines]
    read_key = functools.partial(group_log.decode_record, value=None)
    for key, value in [*pairs, *distinct_group_records()[::50]]:
        read_value = functools.partial(group_log.decode_record, key)
        for data, read in ((key, read_key), ((value or b"")[:LONG], read_value)):
            for stop in range(len(data)):
                error = _error_at(data, stop, read)
                assert error is not None
                assert 0 <= error.offset <= stop
                assert error.field


def test_unknown_tags_do_not_reach_the_json():
    """Kafka's JSON has no unknown tags; ours keeps them in the values only."""
    key, value = bytes.fromhex("0003000167"), bytes.fromhex("0000 0000000a 01 05 02 cafe")
    record = group_log.decode_record(key, value)
    assert without_unknown(record.value) == {"epoch": 10}
    line = to_json(record, partition=0, offset=0, timestamp_ms=0)
    assert line["value"] == {"epoch": 10}


def test_embedded_bytes_that_are_damaged_do_not_lose_the_record():
    """A classic member's unreadable subscription gives its reason, an empty one says so."""
    member = dict.fromkeys(("memberId", "clientId", "clientHost"), "m")
    member |= {"sessionTimeout": 1, "subscription": b"\0\3\0", "assignment": b""}
    value = {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": "m",
        "members": [member],
    }
    key, data = group_log.encode_record(2, {"group": "g"}, version=3, value=value)
    line = to_json(group_log.decode_record(key, data), partition=0, offset=0, timestamp_ms=0)
    (decoded,) = line["members_decoded"]
    assert decoded["assignment"] == {"empty": True}
    assert "topics" in decoded["subscription"]["error"]
