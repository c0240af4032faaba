"""Keys page by page: what pyarrow reads, whatever the writer did; damage is an error, never a crash."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from partage.errors import InvalidConfigError, InvalidKeysError
from partage.jobs.keys import pages as key_pages
from partage.jobs.keys import sources as key_sources
from partage.jobs.keys.columns import Columns
from partage.jobs.keys.counts import Counting, Spec
from partage.jobs.keys.sources import open_source
from partage.jobs.keys.thrift import ThriftError, struct
from partage.jobs.keys.workers import counted, read_piece
from partage.kernels import form
from partage.keys.paged import numbers, ones, walked

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402 - only where pyarrow is


@pytest.fixture(autouse=True)
def dictionaries_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files' dictionaries, which are else read as such."""
    monkeypatch.setattr(key_sources, "_DICTIONARY_PAGE", -(1 << 40))


def _column(kind: object, count: int, distinct: int, nulls: float) -> pa.Array:
    rng = random.Random(count * 7 + distinct)
    words = [f"{i:x}" * rng.randrange(6) for i in range(distinct)] + [""]
    keys = [None if rng.random() < nulls else rng.choice(words) for _ in range(count)]
    return pa.array(keys, pa.string()).cast(kind)


def _counts(path: Path, key: str = "key", *, pages: bool = True) -> tuple[Counter, int, bool]:
    """Records by key, those without, and whether all was counted page by page."""
    source = open_source(str(path), Columns(key))
    counting = Counting(Spec(source.columns, "murmur2", (6,)))
    by_page = True
    for piece in source.pieces:
        by_page &= key_pages.keys_of(piece) is not None
        with form("compiled" if pages else "interpreted"):
            list(counted(counting, piece))
    found = counting._table.counted()
    keys = [found.data[a:b].tobytes() for a, b in pairwise(found.starts.tolist())]
    return Counter(dict(zip(keys, found.records.tolist(), strict=True))), counting.nulls, by_page


def _truth(path: Path, key: str = "key") -> tuple[Counter, int]:
    source = open_source(str(path), Columns(key))
    counts: Counter = Counter()
    for piece in source.pieces:
        for batch in read_piece(piece, source.columns):
            column = batch.column(0)
            counts.update(column.cast(pa.large_binary()).to_pylist())
    nulls = counts.pop(None, 0)
    return counts, nulls


@pytest.mark.parametrize("nulls", [0.0, 0.3])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "brotli", "lz4"])
def test_pages_are_read_as_pyarrow_reads_them(
    tmp_path: Path, codec: str, version: str, nulls: float
) -> None:
    """Plain pages, dictionaries that were given up, both versions of pages, nulls or not allowed,
    in a struct, each codec: the same counts.
    """
    for number, (distinct, dictionary, limit) in enumerate(
        [(3_000, False, 1 << 20), (3_000, True, 1_000), (40, False, 1 << 20)]
    ):
        keys = _column(pa.string() if number else pa.large_binary(), 9_000, distinct, nulls)
        struct_ = pa.StructArray.from_arrays([keys, keys], ["a", "b"])
        schema = pa.schema([pa.field("key", keys.type, nullable=bool(nulls)),
                            pa.field("meta", struct_.type)])  # fmt: skip
        path = tmp_path / f"{number}.parquet"
        parquet.write_table(
            pa.Table.from_arrays([keys, struct_], schema=schema), path, compression=codec,
            data_page_version=version, use_dictionary=dictionary, data_page_size=4_000,
            dictionary_pagesize_limit=limit, row_group_size=4_000,
        )  # fmt: skip
        for key in ("key", "meta.b"):
            counts, without, by_page = _counts(path, key)
            assert (counts, without) == _truth(path, key), (number, key)
            assert by_page == (codec in {"none", "snappy", "zstd"} and key == "key"), (number, key)


def test_what_is_not_for_pages_is_pyarrows(tmp_path: Path) -> None:
    """Other encodings and types, and numbers, are read as ever."""
    table = pa.table({"key": _column(pa.string(), 3_000, 500, 0.1)})
    for encoding in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        path = tmp_path / f"{encoding}.parquet"
        parquet.write_table(table, path, use_dictionary=False, column_encoding={"key": encoding})
        *found, by_page = _counts(path)
        assert tuple(found) == _truth(path)
        assert not by_page
    fixed = pa.table({"key": pa.array([b"%016d" % (i % 70) for i in range(500)], pa.binary(16))})
    parquet.write_table(fixed, tmp_path / "fixed.parquet", use_dictionary=False)
    *found, by_page = _counts(tmp_path / "fixed.parquet")
    assert tuple(found) == _truth(tmp_path / "fixed.parquet")
    assert not by_page


def test_a_damaged_file_is_an_error_or_told_as_pyarrow_tells_it(tmp_path: Path) -> None:
    """Bytes changed anywhere: an error of ours, or counts; never another exception, and no memory
    by a length that somebody wrote.
    """
    rng = random.Random(1)
    for codec in ("none", "snappy"):
        for dictionary in (False, True):
            path = tmp_path / "in.parquet"
            keys = _column(pa.string(), 2_000, 300, 0.2)
            parquet.write_table(pa.table({"key": keys}), path, compression=codec,
                                use_dictionary=dictionary, dictionary_pagesize_limit=900,
                                data_page_size=700)  # fmt: skip
            good = path.read_bytes()
            ended = Counter()
            for _ in range(150):
                bad = bytearray(good)
                for _ in range(rng.randrange(1, 4)):
                    bad[rng.randrange(4, len(bad) - 600)] = rng.randrange(256)
                path.write_bytes(bad)
                try:
                    _counts(path)
                    ended["counted"] += 1
                except (InvalidConfigError, InvalidKeysError):
                    ended["refused"] += 1
            assert min(ended["counted"], ended["refused"]) > 5


def test_a_key_that_no_producer_sends(tmp_path: Path) -> None:
    """A key of more than a megabyte is told with its file and row group."""
    table = pa.table({"key": ["a", "x" * 1_048_577, "b"]})
    parquet.write_table(table, tmp_path / "in.parquet", use_dictionary=False)
    with pytest.raises(InvalidKeysError, match=r"in\.parquet, row group 0 has a key of 1,048,577"):
        _counts(tmp_path / "in.parquet")


@pytest.mark.parametrize("chosen", ["compiled", "interpreted"])
def test_numbers_in_runs_and_groups(chosen) -> None:
    """Each width, in runs and packed groups mixed, as the format says; cut ones are refused."""
    rng = random.Random(2)
    with form(chosen):
        for width in (0, 1, 3, 8, 13, 20, 31):
            want: list[int] = []
            out = bytearray()
            for _ in range(6):
                if rng.random() < 0.5:
                    run, value = rng.randrange(1, 200), rng.getrandbits(width) if width else 0
                    out += _varint(run << 1) + value.to_bytes((width + 7) // 8, "little")
                    want += [value] * run
                else:
                    values = [rng.getrandbits(width) if width else 0 for _ in range(8 * 5)]
                    packed = sum(v << (i * width) for i, v in enumerate(values))
                    out += _varint(5 << 1 | 1) + packed.to_bytes(5 * width, "little")
                    want += values
            data = np.frombuffer(bytes(out), np.uint8)
            found = numbers(data, (0, len(data)), width, len(want) - 3, work=1)
            assert found.tolist() == want[:-3], width
            assert numbers(data, (0, len(data)), width, len(want) + 1, work=1) is None
            for cut in range(len(data)):
                few = numbers(data, (0, cut), width, len(want), work=1)
                assert few is None, (width, cut)
        assert numbers(data, (0, len(data)), 32, 1, work=1) is None


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


@pytest.mark.parametrize("chosen", ["compiled", "interpreted"])
def test_lengths_are_checked(chosen) -> None:
    """A length beyond the page, or beyond what a key may have, or half a length: told apart."""
    with form(chosen):
        page = np.frombuffer(b"\x01\0\0\0a\x02\0\0\0bc", np.uint8)
        assert walked(page, 0, 2, 9, work=1).tolist() == [4, 9, 15]
        assert walked(page[:10], 0, 2, 9, work=1) is None
        assert walked(page[:8], 0, 2, 9, work=1) is None
        assert walked(page, 0, 1, 9, work=1) is None  # bytes behind the last one
        assert walked(page, 0, 3, 9, work=1) is None
        assert walked(page, 0, 2, 1, work=1) is None
        far = np.frombuffer(b"\xff\xff\xff\xffabc", np.uint8)
        assert walked(far, 0, 1, 9, work=1) is None
        assert walked(far, 0, 10**12, 9, work=1) is None


@pytest.mark.parametrize("chosen", ["compiled", "interpreted"])
def test_levels_are_counted_without_a_place_for_each(chosen) -> None:
    """Ones in runs and groups, as the format says; runs longer than there may be take no memory."""
    rng = random.Random(4)
    with form(chosen):
        for _ in range(60):
            want: list[int] = []
            out = bytearray()
            for _ in range(rng.randrange(1, 5)):
                if rng.random() < 0.5:
                    run, value = rng.randrange(1, 90), rng.randrange(2)
                    out += _varint(run << 1) + bytes([value])
                    want += [value] * run
                else:
                    groups = [rng.randrange(256) for _ in range(rng.randrange(1, 4))]
                    out += _varint(len(groups) << 1 | 1) + bytes(groups)
                    want += [byte >> i & 1 for byte in groups for i in range(8)]
            data = np.frombuffer(bytes(out), np.uint8)
            for few in (0, 1, 7):
                count = max(0, len(want) - few)
                assert ones(data, (0, len(data)), count, work=1) == sum(want[:count])
            assert ones(data, (0, len(data)), len(want) + 1, work=1) is None
        run = np.frombuffer(_varint((1 << 30) << 1) + b"\x01", np.uint8)
        assert ones(run, (0, len(run)), 1 << 30, work=1) == 1 << 30


def test_structs_of_foreign_bytes() -> None:
    """Any bytes are a struct or a `ThriftError`."""
    rng = random.Random(3)
    for _ in range(3_000):
        data = rng.randbytes(rng.randrange(40))
        try:
            struct(memoryview(data), 0)
        except ThriftError:
            continue
    with pytest.raises(ThriftError, match="deep"):
        struct(memoryview(bytes([0x1C] * 50)), 0)


def _random_file(rng: random.Random, path: Path) -> None:
    """Any keys, by any of Arrow's settings that bear on pages."""
    count = rng.randrange(1, 3_000)
    nulls = rng.choice([0.0, 0.0, 0.1, 0.9, 1.0])
    words = ["".join(rng.choices("abü\0", k=rng.randrange(rng.choice([1, 4, 30]))))
             for _ in range(rng.choice([1, 9, 400]))]  # fmt: skip
    keys = [None if rng.random() < nulls else rng.choice(words) for _ in range(count)]
    kind = rng.choice([pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
    field = pa.field("key", kind, nullable=None in keys or rng.random() < 0.5)
    table = pa.Table.from_arrays(
        [pa.array(keys, pa.string()).cast(kind)], schema=pa.schema([field])
    )
    parquet.write_table(
        table, path, compression=rng.choice(["none", "snappy", "zstd"]),
        data_page_version=rng.choice(["1.0", "2.0"]), use_dictionary=rng.random() < 0.5,
        dictionary_pagesize_limit=rng.choice([20, 500, 1 << 20]), version=rng.choice(["1.0", "2.6"]),
        data_page_size=rng.choice([50, 1_000, 1 << 20]), row_group_size=rng.choice([7, 500, 5_000]),
        write_statistics=rng.random() < 0.7, write_page_checksum=rng.random() < 0.3,
        write_batch_size=rng.choice([1, 64, 1_024]),
    )  # fmt: skip


def test_random_files_are_counted_as_pyarrow_reads_them(tmp_path: Path) -> None:
    """100 files of any settings: page by page all of them, and the same counts."""
    for seed in range(100):
        path = tmp_path / f"{seed}.parquet"
        _random_file(random.Random(seed), path)
        *found, by_page = _counts(path)
        assert tuple(found) == _truth(path), seed
        assert by_page, seed


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_damage_is_counted_as_pyarrow_counts_it_or_refused(tmp_path: Path, codec: str) -> None:
    """Bytes changed in pages: what is counted page by page is just what pyarrow reads from it."""
    rng = random.Random(6)
    path = tmp_path / "in.parquet"
    keys = _column(pa.string(), 1_500, 300, 0.2)
    parquet.write_table(pa.table({"key": keys}), path, compression=codec, use_dictionary=codec == "zstd",
                        dictionary_pagesize_limit=900, data_page_size=700)  # fmt: skip
    good, pages = path.read_bytes(), 0
    for _ in range(300):
        bad = bytearray(good)
        bad[rng.randrange(4, len(bad) - 700)] = rng.randrange(256)
        path.write_bytes(bad)
        try:
            *found, by_page = _counts(path)
        except (InvalidConfigError, InvalidKeysError):
            continue
        if by_page:
            pages += 1
            assert tuple(found) == _truth(path)
    assert pages > 20


def test_who_else_wrote_it_is_pyarrows(tmp_path: Path) -> None:
    """Another writer's pages, a struct's field, and a column that is called like one: not ours."""
    table = pa.table({"meta": [{"b": "struct"}] * 5, "meta.b": ["top"] * 5})
    parquet.write_table(table, tmp_path / "dot.parquet", use_dictionary=False)
    *found, by_page = _counts(tmp_path / "dot.parquet", "meta.b")
    assert tuple(found) == (Counter({b"top": 5}), 0)
    assert not by_page
    parquet.write_table(pa.table({"key": ["a", "b"]}), tmp_path / "a.parquet", use_dictionary=False)
    raw = (tmp_path / "a.parquet").read_bytes()
    assert raw.count(b"parquet-cpp-arrow") == 1
    (tmp_path / "a.parquet").write_bytes(raw.replace(b"parquet-cpp-arrow", b"parquet-other-one"))
    *found, by_page = _counts(tmp_path / "a.parquet")
    assert tuple(found) == (Counter({b"a": 1, b"b": 1}), 0)
    assert not by_page


@pytest.mark.spark
def test_what_spark_writes(spark: object, tmp_path: Path) -> None:
    """Files of parquet-mr: plain pages and dictionaries, each codec, with nulls; its second version
    has encodings of its own, which are pyarrow's.
    """
    for number, (dictionary, codec, version) in enumerate(
        [("false", "snappy", "v1"), ("true", "zstd", "v1"), ("false", "none", "v1"),
         ("true", "snappy", "v2")]
    ):  # fmt: skip
        path = tmp_path / str(number)
        key = "CASE WHEN id % 13 = 0 THEN NULL ELSE concat('user-', id % 700) END AS key"
        made = spark.range(0, 9_000, 1, 1).selectExpr(key)
        options = {"parquet.enable.dictionary": dictionary, "compression": codec,
                   "parquet.writer.version": version, "parquet.page.size": "4000",
                   "parquet.block.size": "60000", "parquet.dictionary.page.size": "3000"}  # fmt: skip
        made.write.options(**options).parquet(str(path))
        *found, by_page = _counts(path)
        assert tuple(found) == _truth(path), number
        assert by_page or version == "v2", number
