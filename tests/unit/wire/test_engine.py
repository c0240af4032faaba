"""The engine: every layout in every version, there and back; and bytes made to hurt."""

from __future__ import annotations

import itertools
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.wire_samples import messages

from partage.errors import WireFormatError
from partage.java import strings, uuids
from partage.wire.codec import decode, encode
from partage.wire.errors import EncodingError, LengthError, TruncatedError, UnsupportedVersionError
from partage.wire.group_log import KEYS, VALUES, decode_record, encode_record
from partage.wire.primitives import LONGEST_STRING, ByteReader, ByteWriter
from partage.wire.schema import UNKNOWN_TAGS, default_value, parse_message

LAYOUTS = [(m, v) for m in messages() for v in range(m.versions.lowest, m.versions.highest + 1)]
NAMES = [f"{m.name}-v{v}" for m, v in LAYOUTS]


def _integers(bits, *, signed=True):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.sampled_from([low, 0, high]) | st.integers(low, high)


SCALARS = {
    "int8": _integers(8),
    "int16": _integers(16),
    "uint16": _integers(16, signed=False),
    "int32": _integers(32),
    "int64": _integers(64),
    "uuid": st.binary(min_size=16, max_size=16).map(uuids.uuid_text),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    "bytes": st.binary(max_size=6),
    "bool": st.booleans(),
    "modifiedUtf8": st.text(max_size=6),
    "utf16": st.none() | st.text(min_size=1, max_size=6),
}


def _values(message, fields, version):
    """Values of a struct: fields of this version, tagged ones sometimes left out, unknown tags."""
    made, optional = {}, {}
    for field in fields:
        if version in field.versions:
            tagged = version in field.tagged
            (optional if tagged else made)[field.name] = _value(message, field, version)
    if version in message.flexible:
        pairs = st.dictionaries(st.integers(10, 300), st.binary(max_size=4), min_size=1, max_size=2)
        optional[UNKNOWN_TAGS] = pairs.map(lambda tags: tuple(sorted(tags.items())))
    return st.fixed_dictionaries(made, optional=optional)


def _value(message, field, version):
    element = field.type.removeprefix("[]")
    value = SCALARS[element] if element in SCALARS else _values(message, field.fields, version)
    if field.type != element:
        value = st.lists(value, max_size=3).map(tuple)
    return st.none() | value if version in field.nullable else value


def _without_defaults(fields, version, values):
    """What a decoder must give: tagged fields with their default left out, at every depth."""
    made = {}
    for field in fields:
        if field.name not in values:
            continue
        value = _inner(field, version, values[field.name])
        if version not in field.tagged or value != default_value(field, version):
            made[field.name] = value
    return made | ({UNKNOWN_TAGS: values[UNKNOWN_TAGS]} if UNKNOWN_TAGS in values else {})


def _inner(field, version, value):
    if isinstance(value, tuple):
        return tuple(_inner(field, version, one) for one in value)
    if isinstance(value, dict):
        return _without_defaults(field.fields, version, value)
    return value


@pytest.mark.fuzz
@pytest.mark.parametrize(("message", "version"), LAYOUTS, ids=NAMES)
@settings(max_examples=settings.default.max_examples // 3)  # for each of many layouts
@given(data=st.data())
def test_every_layout_comes_back(message, version, data):
    """Encode, decode, encode: the same values and the same bytes, nothing left over."""
    values = data.draw(_values(message, message.fields, version))
    wire = encode(message, values, version=version)
    reader = ByteReader(wire)
    decoded = decode(message, reader, version=version)
    assert reader.remaining_bytes == 0
    assert decoded == _without_defaults(message.fields, version, values)
    assert encode(message, decoded, version=version) == wire


@pytest.mark.parametrize(("message", "version"), LAYOUTS, ids=NAMES)
def test_left_out_fields_are_written_as_their_defaults(message, version):
    """An empty dict is a message of defaults; reading it gives those that are not tagged."""
    decoded = decode(message, ByteReader(encode(message, {}, version=version)), version=version)
    expected = {
        f.name: default_value(f, version)
        for f in message.fields
        if version in f.versions and version not in f.tagged
    }
    assert decoded == expected


def test_versions_outside_the_range_are_refused():
    """Neither read nor written."""
    message = VALUES[1]
    for version in (-1, 5):
        with pytest.raises(UnsupportedVersionError):
            decode(message, ByteReader(b""), version=version)
        with pytest.raises(UnsupportedVersionError):
            encode(message, {}, version=version)


def test_a_value_that_an_older_version_cannot_carry():
    """Dropped where the definition calls the field ignorable, refused where it does not."""
    assert encode(VALUES[1], {"leaderEpoch": 7}, version=0) == encode(VALUES[1], {}, version=0)
    strict = parse_message({
        "name": "Strict", "type": "data", "validVersions": "0-1", "flexibleVersions": "none",
        "fields": [{"name": "new", "type": "int32", "versions": "1+"}],
    })  # fmt: skip
    assert encode(strict, {"new": 0}, version=0) == b""
    with pytest.raises(EncodingError, match="version 0 of Strict has no field 'new'"):
        encode(strict, {"new": 1}, version=0)
    with pytest.raises(EncodingError, match="no tagged fields"):
        encode(strict, {UNKNOWN_TAGS: ((1, b""),)}, version=1)


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (5, {"clientId": None}),
        (5, {"clientId": 7}),
        (5, {"clientId": "x" * (LONGEST_STRING + 1)}),
        (5, {"subscribedTopicNames": "abc"}),
        (5, {"subscribedTopicNames": None}),
        (5, {"classicMemberMetadata": 7}),
        (5, {"classicMemberMetadata": {"supportedProtocols": [{"name": "r", "metadata": "text"}]}}),
        (7, {"topicPartitions": [{"topicId": "short", "partitions": []}]}),
        (7, {"topicPartitions": [{"topicId": None, "partitions": []}]}),
        (8, {"state": 128}),
        (19, {"userEndpoint": {"host": "h", "port": -1}}),
        (3, {UNKNOWN_TAGS: ((5, b""), (4, b""))}),
        (3, {UNKNOWN_TAGS: ((5, "text"),)}),
        (3, {UNKNOWN_TAGS: ((0, b""),)}),
        (3, {"metadataHash": 1 << 63}),
    ],
)
def test_values_of_the_wrong_type_are_refused(number, value):
    """An EncodingError with the path, never Python's own."""
    with pytest.raises(EncodingError) as caught:
        encode_record(number, {}, version=0, value=value)
    assert caught.value.field.startswith("value")


def test_list_and_left_out_defaults_count_as_defaults():
    """A tagged array given as an empty list, a tagged struct given as {}: nothing is written."""
    for value in (
        {"classicMemberMetadata": {}},
        {"classicMemberMetadata": {"supportedProtocols": []}},
    ):
        assert encode(VALUES[5], value, version=0) == encode(VALUES[5], {}, version=0)
    assert encode(VALUES[17], {"lastAssignmentConfigs": []}, version=0) == encode(
        VALUES[17], {}, version=0
    )


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\x80\x01", 128),
        (b"\xff\xff\xff\xff\x07", 2**31 - 1),
        (b"\xff\xff\xff\xff\x0f", -1),
        (b"\x80\x80\x80\x80\x08", -(2**31)),
        (b"\x80\x80\x80\x80\x70", 0),  # bits beyond the 32nd are lost, as in Java
        (b"\x80\x00", 0),
    ],
)
def test_varints_are_javas(data, value):
    """Seven bits a byte, low first, wrapping to int32; written back in their shortest form."""
    assert ByteReader(data).read_varint() == value
    writer = ByteWriter()
    writer.write_varint(value)
    assert ByteReader(writer.buffer).read_varint() == value


def test_varints_that_do_not_end():
    """A fifth byte with its high bit set is an error, the end of the payload another."""
    with pytest.raises(LengthError):
        ByteReader(b"\xff\xff\xff\xff\xff\x01").read_varint()
    with pytest.raises(TruncatedError):
        ByteReader(b"\xff\xff").read_varint()
    assert ByteReader(b"\x80\x80\x80\x80\x08").compact_length() == 2**31 - 1


@pytest.mark.parametrize(
    ("data", "java"),
    [
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0A", "\ufffdA"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xedA", "\ufffdA"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xe2\x82A", "\ufffdA"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xf0\x9f\x98A", "\ufffdA"),
        (b"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"),
        (b"\xed\xa0\xbd\xed\xb8\x80", "\ufffd\ufffd"),
        (b"\xff\xed\xb0\x80z\xff", "\ufffd\ufffdz\ufffd"),
    ],
)
def test_malformed_utf8_is_replaced_as_in_java(data, java):
    """One U+FFFD for each malformed character by Java's count (printed by a JDK 17)."""
    assert strings.decode_utf8(data) == java


def test_uuids_are_kafkas_base64():
    """Only the one spelling of 16 bytes is taken."""
    assert uuids.uuid_bytes(uuids.uuid_text(bytes(range(16)))) == bytes(range(16))
    for bad in ("", "A" * 21, "A" * 23, "A" * 21 + "B", "é" * 22, "+" * 22):
        with pytest.raises(ValueError, match="not a uuid"):
            uuids.uuid_bytes(bad)


# --- payloads made to hurt -------------------------------------------------------------------

KILO, TIMES = 1024, 100
MANY = 20_000
HUGE = [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x08"]


def _peak(number, value):
    """Bytes taken at most while a value is decoded, and how it ended."""
    key, _ = encode_record(number, {})
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        made = decode_record(key, value)
        error = None
    except WireFormatError as caught:
        made, error = None, caught
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return peak, len(key) + len(value), made, error


def _array(count, element):
    writer = ByteWriter()
    writer.write_varint(count + 1)
    return bytes(writer.buffer) + element * count


HOSTILE = {
    # As many of the smallest structs as fit: the worst ratio of values to bytes.
    "tasks of 3 bytes": (21, b"\0\0" + _array(MANY, b"\x01\x01\0") + b"\x01\x01\0"),
    "tasks with an empty tag": (22, b"\0\0" + bytes(9) + _array(MANY, b"\x01\x01\x01\x00\x01\x00") + b"\x01" * 5 + b"\0"),
    "tasks with one unknown tag": (21, b"\0\0" + _array(MANY, b"\x01\x01\x01\x09\0") + b"\x01\x01\0"),
    "pairs of 3 bytes": (17, b"\0\0" + bytes(12) + b"\x01\x01\x04" + _array(MANY, b"\x01\x01\0")),
    "subtopologies of 8 bytes": (23, b"\0\0" + bytes(4) + _array(MANY, b"\x01" * 7 + b"\0") + b"\0"),
    "subtopologies with a tag": (23, b"\0\0" + bytes(4) + _array(MANY, b"\x01" * 7 + b"\x01\x09\0") + b"\0"),
    "copartition groups of 4 bytes": (23, b"\0\0" + bytes(4) + b"\x02" + b"\x01" * 6 + _array(MANY, b"\x01\x01\x01\0") + b"\0\0"),
    "protocols of 3 bytes": (5, b"\0\0" + b"\0\0\x01\x01\x01\0" + bytes(4) + b"\0\x01\0\x04\x01" + bytes(4) + _array(MANY, b"\x01\x01\0") + b"\0"),
    "members of 15 bytes": (2, b"\0\4" + b"\x01" + bytes(4) + b"\0\0" + bytes(8) + _array(MANY, b"\x01\0\x01\x01" + bytes(8) + b"\x01\x01\0") + b"\0"),
    "empty strings": (16, b"\0\0" + _array(MANY, b"\x01") + bytes(16) + b"\0"),
    "strings of one character": (16, b"\0\0" + _array(MANY, b"\x02a") + bytes(16) + b"\0"),
    "unlike strings": (16, b"\0\0" + _array(0x3FFF, b"") + b"".join(b"\x03" + bytes([0xC4 | i >> 6 & 1, 0x80 | i & 63]) for i in range(0x3FFF)) + bytes(16) + b"\0"),
    "int16s": (23, b"\0\0" + bytes(4) + b"\x02" + b"\x01" * 6 + b"\x02" + _array(MANY, b"\x7f\xff") + b"\x01\x01\0\0\0"),
    "int32s": (7, b"\0\0\x02" + b"\x11" * 16 + _array(MANY, b"\x7f\xff\xff\xff") + b"\0\0"),
    "unknown tags of 2 bytes": (3, b"\0\0" + bytes(4) + _array(MANY, b"\x05\0") + b"\x05\0"),
    "unknown tags of 3 bytes": (3, b"\0\0" + bytes(4) + b"\x80\x80\x01" + b"\x85\x7f\x01a" * 0x4000),
    "a known tag many times": (22, b"\0\0" + bytes(9) + b"\x02\x01\x01" + b"\x80\x80\x01" + b"\x00\x01\x02\0\0\0\7" * 0x4000 + b"\x01" * 5 + b"\0"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_memory_is_bounded_for_well_formed_but_mean_payloads(name):
    """At most 1 KiB + 100 times the payload, whether it decodes or not."""
    number, value = HOSTILE[name]
    decode_record(*encode_record(number, {}, version=VALUES[number].versions.highest, value={}))
    peak, size, made, error = _peak(number, value)
    assert peak <= KILO + TIMES * size, (peak / size, error)
    assert made is not None or error.offset > len(value) // 2, error


def _hostile_counts():
    """Every compact length of every type replaced by a huge one: the head of a lying payload."""
    for number, message in VALUES.items():
        version = message.versions.highest
        _, value = encode_record(number, {}, version=version, value={})
        for place, huge in itertools.product(
            range(2, len(value)), [*HUGE, b"\x7f\xff\xff\xff", b"\x7f\xff"]
        ):
            yield number, value[:place] + huge + value[place + 1 :]


def test_huge_lengths_take_no_memory():
    """2^31 - 1 and its like at every place of the shortest value of every type."""
    for number, value in _hostile_counts():
        peak, size, _, _ = _peak(number, value)
        assert peak <= KILO + TIMES * size, (number, value)


@pytest.mark.parametrize("number", sorted(KEYS))
def test_keys_with_lying_lengths(number):
    """Negative and too large lengths of every string in a key."""
    for length in (-1, -32768, 32767, 1):
        with pytest.raises(WireFormatError):
            decode_record(struct.pack(">hh", number, length), None)
