"""Record batches and the metadata log, against real bytes: the recorded cluster's, and a broker's."""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from types import SimpleNamespace

import google_crc32c
import pytest
from tests.support.wire_damage import peak_of
from tests.support.wire_samples import ROOT

from partage.capture.unpacking import decompress_batch
from partage.errors import WireFormatError
from partage.wire.batches import (
    Batch,
    ChecksumError,
    OldMagicError,
    batch_at,
    batches_of,
    marker_of,
    records_of,
)
from partage.wire.errors import LengthError, TruncatedError, UnsupportedVersionError
from partage.wire.metadata_log import decode_metadata_record

COMPRESSED = ROOT / "tests" / "data" / "segments" / "compressed.log"
crc32c = google_crc32c.value


def varint(value):
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def record(*, ms=0, delta=0, key=b"k", value=b"v", headers=()):
    body = b"\0" + varint(ms) + varint(delta)
    for one in (key, value):
        body += varint(-1) if one is None else varint(len(one)) + one
    body += varint(len(headers))
    for name, said in headers:
        body += varint(len(name)) + name + varint(len(said)) + said
    return varint(len(body)) + body


def batch(payload, *, count=1, attributes=0, base=10, last=0, magic=2, crc=None):
    rest = struct.pack(">hiqqqhii", attributes, last, 1000, 2000, 7, 1, 5, count) + payload
    crc = crc32c(rest) if crc is None else crc
    return struct.pack(">qiibI", base, len(rest) + 9, 3, magic, crc) + rest


def test_a_broker_s_batches_of_all_compressions_decode():
    """gzip, snappy (xerial), lz4 and zstd as Kafka's Java producer and a 4.3.1 broker wrote them."""
    found = list(batches_of(COMPRESSED.read_bytes(), crc32c=crc32c))
    assert [b.compression for b in found] == ["gzip", "snappy", "lz4", "zstd"]
    said = [[(r.key, r.value) for r in records_of(b, decompress_batch(b))] for b in found]
    assert all(len(one) == 10 for one in said)
    assert all(r.startswith(b"value of record ") for one in said for _, r in one if r != b"x")


def test_snappy_without_java_s_framing_decodes():
    """Librdkafka writes a plain block of snappy."""
    import pyarrow as pa

    payload = record(key=b"a" * 500)
    made = batch(pa.Codec("snappy").compress(payload, asbytes=True), attributes=2)
    read = batch_at(made, crc32c=crc32c)
    assert next(records_of(read, decompress_batch(read))).key == b"a" * 500


def test_a_record_s_offset_time_key_value_and_null():
    """Deltas count from the header; null and empty differ; headers are passed over."""
    payload = record(ms=-5, delta=0, key=None, value=b"") + record(
        ms=7, delta=3, headers=[(b"h", b"x")]
    )
    found = list(records_of(batch_at(batch(payload, count=2, last=3), crc32c=crc32c)))
    assert [tuple(one) for one in found] == [(10, 995, None, b""), (13, 1007, b"k", b"v")]


def test_append_time_is_the_batch_s_time():
    """With LogAppendTime all records carry the largest timestamp."""
    assert next(records_of(batch_at(batch(record(ms=5), attributes=8)))).timestamp_ms == 2000


def test_a_marker_says_what_became_of_the_transaction():
    """Control records: type in the key, the coordinator's epoch in the value."""
    payload = record(key=struct.pack(">hh", 0, 0), value=struct.pack(">hi", 0, 12))
    found = marker_of(batch_at(batch(payload, attributes=48)))
    assert (found.type, found.coordinator_epoch) == ("ABORT", 12)


@pytest.mark.parametrize(
    ("data", "error", "field"),
    [
        (batch(record(), crc=1), ChecksumError, "batch.crc"),
        (batch(record(), magic=1), OldMagicError, "batch.magic"),
        (batch(record(), magic=9), UnsupportedVersionError, "batch.magic"),
        (batch(record(), attributes=5), UnsupportedVersionError, "batch.attributes"),
        (batch(record(), count=-1), LengthError, "batch.recordsCount"),
        (batch(record(), count=9), LengthError, "batch.recordsCount"),
        (batch(record(), count=2**31 - 1, last=2**31 - 1), LengthError, "batch.recordsCount"),
        (struct.pack(">qiibI", 0, 10, 0, 2, 0) + bytes(40), LengthError, "batch.length"),
        (struct.pack(">qiibI", 0, -1, 0, 2, 0) + bytes(40), LengthError, "batch.length"),
    ],
)
def test_a_malformed_header_is_refused(data, error, field):
    """What cannot be is an error that names the field; nothing is read further."""
    with pytest.raises(error) as raised:
        batch_at(data, crc32c=crc32c)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"\xff" * 9, LengthError),  # a varint that does not end
        (varint(2**31 - 1) + bytes(9), LengthError),  # a record of two gigabytes
        (varint(9) + bytes(7), LengthError),
        (record(delta=4), LengthError),  # beyond the batch's last offset
        (record() + b"\0", LengthError),  # bytes left over
        (b"\x10\0\0\0" + varint(2**31 - 1) + bytes(8), LengthError),  # a key of two gigabytes
        (b"\x0e\0\0\0\x01\x01" + varint(60) + bytes(9), LengthError),  # sixty headers in nothing
        (b"\x06\0\x80\x80" + bytes(9), TruncatedError),
    ],
)
def test_malformed_records_are_refused(payload, error):
    """Each length is checked before it is believed; the error names the record."""
    made = batch(payload + bytes(7), count=1) if error is TruncatedError else batch(payload)
    with pytest.raises(error) as raised:
        list(records_of(batch_at(made, crc32c=crc32c)))
    assert raised.value.field.startswith("batch.records[")


def test_what_ends_within_a_batch_is_no_error():
    """A Fetch response and a copied segment may end anywhere."""
    data = batch(record()) + batch(record(), base=11)
    whole = len(batch(record()))
    for cut in range(len(data)):
        assert len(list(batches_of(data[:cut], crc32c=crc32c))) == cut // whole


def test_a_bomb_takes_no_memory():
    """A kilobyte that claims to be a gigabyte of snappy is refused before memory is taken."""
    bomb = batch(b"\xff\xff\xff\xff\x03" + bytes(1000), attributes=2)
    read = batch_at(bomb, crc32c=crc32c)
    with pytest.raises(WireFormatError):
        decompress_batch(read)
    assert peak_of(lambda: _refused(read), ()) < 1 << 20


def _refused(read: Batch) -> None:
    with pytest.raises(WireFormatError):
        decompress_batch(read)


def gzipped(payload):
    return batch_at(batch(payload, attributes=1), crc32c=crc32c)


def test_many_empty_gzip_members_take_linear_time(monkeypatch):
    """Each call of zlib gets a bounded slice, since zlib copies what lies behind a member."""
    lengths = []

    class Counting:
        def __init__(self, wbits):
            self._member = zlib.decompressobj(wbits)

        def decompress(self, data, most):
            lengths.append(len(data))
            return self._member.decompress(data, most)

        def __getattr__(self, name):
            return getattr(self._member, name)

    empty = gzip.compress(b"", mtime=0)
    payload = empty * (200_000 // len(empty)) + gzip.compress(b"last")
    monkeypatch.setattr(
        "partage.capture.unpacking.zlib",
        SimpleNamespace(decompressobj=Counting, error=zlib.error),
    )
    assert decompress_batch(gzipped(payload)) == b"last"
    assert sum(lengths) < 32 * len(payload)


def test_a_gzip_member_may_be_longer_than_a_slice():
    """Members of every length and order come out whole; one that is cut off is refused."""
    rng = random.Random(31)
    parts = [rng.randbytes(n) for n in (0, 1, 511, 512, 513, 5_000, 0, 100_000, 3)]
    whole = b"".join(gzip.compress(one) for one in parts)
    assert decompress_batch(gzipped(whole)) == b"".join(parts)
    for cut in (1, 9, 4_000):
        with pytest.raises(WireFormatError, match="ends too early"):
            decompress_batch(gzipped(whole[:-cut]))


def test_gzip_members_share_one_limit_of_size(monkeypatch):
    """The limit holds for the sum of all members, to the byte."""
    monkeypatch.setattr("partage.capture.unpacking.LARGEST_PAYLOAD", 1_000)
    two = gzip.compress(bytes(400)) + gzip.compress(bytes(600))
    assert decompress_batch(gzipped(two)) == bytes(1_000)
    with pytest.raises(LengthError):
        decompress_batch(gzipped(two + gzip.compress(b"x")))


@pytest.mark.fuzz
def test_damaged_batches_raise_nothing_but_wire_format_errors(fuzz_n):
    """Real batches damaged anywhere: records or a WireFormatError, compressed ones too."""
    rng = random.Random(848)
    real = COMPRESSED.read_bytes()
    plain = batch(
        b"".join(record(delta=d, headers=[(b"h", b"x")]) for d in range(5)), count=5, last=4
    )
    sources = [*(real[at:] for at in _starts(real)), plain, plain]
    refused = 0
    for _ in range(fuzz_n // 20):
        data = bytearray(rng.choice(sources))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice(
                (0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256))
            )
        try:
            for one in batches_of(bytes(data)):
                list(records_of(one, decompress_batch(one)))
                decode_metadata_record(bytes(data[: rng.randrange(60)]))
        except WireFormatError as error:
            refused += 1
            assert error.field  # noqa: PT017 - many of them, each with its place
    assert refused


def _starts(data):
    at = 0
    for one in batches_of(data):
        yield at
        at += one.size
