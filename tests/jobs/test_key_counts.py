"""What the workers of `partage keys` count, without Spark: as a Counter does, in each way."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from pathlib import Path

import pytest

import partage as pg
from partage.errors import InvalidConfigError, InvalidKeysError
from partage.jobs.keys import workers as key_counts
from partage.jobs.keys.analysis import KeySpread, _add_up_results
from partage.jobs.keys.blocks import RowKind, unpack_keys
from partage.jobs.keys.columns import InputColumns, serialize_keys
from partage.jobs.keys.loads import KeyJob, merge_bucket
from partage.jobs.keys.sources import open_source
from partage.jobs.keys.workers import KeyCounter, read_and_count
from partage.kernels import force_kernel_form

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402 - only where pyarrow is

HOUR = 3_600_000
COUNTS = (4, 6, 31)


def _rows(counting: KeyCounter) -> list[pa.RecordBatch]:
    return [*counting.flush_if_full(), *counting.remaining_batches()]


def _plain(batches: list[pa.RecordBatch], kind: RowKind) -> list[dict]:
    return [row for batch in batches for row in batch.to_pylist() if row["kind"] == kind]


def _keys(batches: list[pa.RecordBatch]) -> Counter:
    out: Counter = Counter()
    for batch in batches:
        if batch.num_rows and batch.column(0)[0].as_py() == RowKind.KEYS:
            for keys, records, _ in unpack_keys(batch):
                out.update(dict(zip(keys.to_pylist(), records.tolist(), strict=True)))
    return out


def _job(
    folder: Path, job: KeyJob, columns: InputColumns, tasks: int = 2, top: int = 10
) -> KeySpread:
    """Both stages, with the buckets brought together as Spark does."""
    pieces = open_source(str(folder), columns).parts
    buckets: list[list[pa.RecordBatch]] = [[] for _ in range(tasks)]
    for number in range(tasks):
        ids = pa.RecordBatch.from_pydict({"id": [number]})
        for batch in read_and_count(job, pieces, tasks, [ids]):
            if batch.num_rows:
                buckets[batch.column(1)[0].as_py() % tasks].append(batch)
    rows_of_all = [row for rows in buckets for row in merge_bucket(job, top, rows, keep_keys=False)]
    found = KeySpread()
    _add_up_results(found, pa.Table.from_batches(rows_of_all), job, top)
    return found


def _expect(found: KeySpread, keys: list[bytes | None]) -> None:
    """All that is reported equals what plain Python counts."""
    keyed = [key for key in keys if key is not None]
    counts = Counter(keyed)
    assert (found.records, found.nulls) == (len(keys), len(keys) - len(keyed))
    assert found.distinct == len(counts)
    best = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:10]
    assert [(hot.key, hot.records) for hot in found.hottest] == best
    unique = list(counts)
    where = {n: pg.partition_for(unique, partitions=n).tolist() for n in COUNTS}
    for n in COUNTS:
        loads: Counter = Counter()
        sizes: Counter = Counter()
        for key, partition in zip(unique, where[n], strict=True):
            loads[partition] += counts[key]
            sizes[partition] += counts[key] * len(key)
        partition, records, size = found.by_partition[n]
        assert dict(zip(partition.tolist(), records.tolist(), strict=True)) == loads
        assert dict(zip(partition.tolist(), size.tolist(), strict=True)) == sizes
    for move in found.moves:
        pairs = zip(unique, where[move.before], where[move.after], strict=True)
        moved = [key for key, a, b in pairs if a != b]
        assert (move.keys, move.moved_keys) == (len(unique), len(moved))
        assert move.moved_records == sum(counts[key] for key in moved)


@pytest.fixture(scope="module")
def keys() -> list[bytes | None]:
    """20,000 keys of 0 to 40 bytes, some hot, most rare, many with the same number of records."""
    rng = random.Random(5)
    some = [rng.randbytes(rng.choice([0, 4, 8, 16, 16, 16, 40])) for _ in range(8_000)]
    hot = some[:5]
    return [None if rng.random() < 0.02 else rng.choice(hot if rng.random() < 0.2 else some)
            for _ in range(20_000)]  # fmt: skip


@pytest.mark.parametrize("chosen", ["compiled", "by cost"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_both_stages_count_as_python_does(
    keys: list[bytes | None], tmp_path: Path, monkeypatch, *, dictionary: bool, chosen
) -> None:
    """Plain and dictionary pages, compiled and not, with a worker that must send its keys on
    several times: loads, the hottest with their ties, moves and distinct keys are exact.
    """
    half = len(keys) // 2
    for name, some in (("a", keys[:half]), ("b", keys[half:])):
        parquet.write_table(pa.table({"id": pa.array(some, pa.binary())}),
                            tmp_path / f"{name}.parquet", row_group_size=3_000,
                            use_dictionary=dictionary)  # fmt: skip
    columns = InputColumns("id")
    assert all(p.coded == dictionary for p in open_source(str(tmp_path), columns).parts)
    monkeypatch.setattr(key_counts, "_HELD_BYTES", 200_000)
    with force_kernel_form(chosen):
        _expect(_job(tmp_path, KeyJob(columns, "murmur2", COUNTS, buckets=2), columns), keys)


def test_an_approximate_count_says_by_how_much_it_may_be_low(monkeypatch) -> None:
    """Of thousands of rare keys most are dropped: no count is too high, none is low by more than
    is said, and a key that has more records than that is still there. Loads stay exact.
    """
    monkeypatch.setattr(key_counts, "_SKETCH", 100)
    job = KeyJob(InputColumns("id"), "murmur2", (6,), approximate=True)
    counting, sent = KeyCounter(job), []
    true: Counter = Counter()
    for i in range(30):
        keys = [f"rare{i}-{j}" for j in range(150)] + ["hot"] * 40 + ["warm"] * (i % 3)
        keys += [f"often{j}" for j in range(0, 120, 1 + i % 2)]
        true.update(keys)
        counting.count_batch(pa.RecordBatch.from_pydict({"id": keys}))
        sent += list(counting.flush_if_full())
    rows = [*sent, *counting.remaining_batches()]
    low_by = sum(r["records"] for r in _plain(rows, RowKind.DROPPED))
    seen = {key.decode(): n for key, n in _keys(rows).items()}
    assert 0 < low_by < true["hot"]
    assert len(seen) <= 100 < len(true)
    for key, count in true.items():
        assert count - low_by <= seen.get(key, 0) <= count, key
    rows_of_all = list(merge_bucket(job, 10, rows, keep_keys=False))
    assert sum(r["records"] for r in _plain(rows_of_all, RowKind.PARTITION)) == sum(true.values())


def test_records_without_a_time_are_in_no_hour() -> None:
    """A null time is not taken for 1970: its record counts in its partition, and in no hour."""
    counting = KeyCounter(KeyJob(InputColumns("id", time="at"), "murmur2", (6,)))
    at = pa.array([None, 5 * HOUR + 1, None, 0], pa.int64())
    batch = pa.RecordBatch.from_pydict({"id": pa.array(["a", "b", "c", "d"]), "at": at})
    counting.count_batch(batch)
    rows = _rows(counting)
    assert sum(_keys(rows).values()) == 4
    assert sorted(r["hour"] for r in _plain(rows, RowKind.HOUR)) == [0, 5 * HOUR]


def test_values_count_by_their_bytes() -> None:
    """With a column of values, a key's bytes are those of its records, in a dictionary or not."""
    columns = InputColumns("id", value="v")
    values = ["", "xyz", None, "12345"]
    for keys in (
        pa.array(["a", "bb", "a", None]),
        pa.array(["a", "bb", "a", None]).dictionary_encode(),
    ):
        for chosen in ("compiled", "by cost"):
            with force_kernel_form(chosen):
                counting = KeyCounter(KeyJob(columns, "murmur2", (6,)))
                counting.count_batch(pa.RecordBatch.from_pydict({"id": keys, "v": values}))
                blocks = [b for b in _rows(counting) if b.column(0)[0].as_py() == RowKind.KEYS]
            found = {k: s for b in blocks for ks, _, sizes in unpack_keys(b)
                     for k, s in zip(ks.to_pylist(), sizes.tolist(), strict=True)}  # fmt: skip
            assert found == {b"a": 2, b"bb": 5}
            assert counting.nulls == 1


def test_a_key_that_no_producer_sends_is_named(tmp_path: Path) -> None:
    """A key over 1 MB is an error by its length, a key of 1 MB is counted."""
    for size in (1_048_576, 1_048_577):
        path = tmp_path / f"{size}.parquet"
        parquet.write_table(pa.table({"id": [b"x" * size, b"y"]}), path)
        columns = InputColumns("id")
        job = KeyJob(columns, "murmur2", COUNTS)
        if size == 1_048_576:
            assert _job(path, job, columns, tasks=1).distinct == 2
        else:
            with pytest.raises(
                InvalidKeysError,
                match=r"column id of .*1048577.parquet, row group 0 .*1,048,577 by",
            ):
                _job(path, job, columns, tasks=1)


@pytest.mark.parametrize("dictionary", [True, False])
def test_keys_that_a_client_leaves_to_chance_or_hashes_as_empty(tmp_path: Path, *, dictionary):
    """By librdkafka's default empty keys are left to chance: in no partition, as null ones are. Its
    ``consistent`` hashes null keys as empty ones: the hot partition that these make is reported.
    """
    keys = [b"", None, b"a", b"", b"b", None, None]
    parquet.write_table(pa.table({"id": pa.array(keys, pa.binary())}), tmp_path / "a.parquet",
                        use_dictionary=dictionary)  # fmt: skip
    columns = InputColumns("id")
    found = _job(
        tmp_path, KeyJob(columns, "librdkafka:consistent_random", COUNTS), columns, tasks=1
    )
    assert (found.records, found.nulls, found.distinct) == (7, 5, 2)
    assert [(hot.key, hot.records) for hot in found.hottest] == [(b"a", 1), (b"b", 1)]
    found = _job(tmp_path, KeyJob(columns, "librdkafka:consistent", COUNTS), columns, tasks=1)
    assert (found.records, found.nulls, found.distinct) == (7, 0, 3)
    assert (found.hottest[0].key, found.hottest[0].records) == (b"", 5)
    at = pg.partition_for([None], partitions=6, partitioner="librdkafka:consistent").tolist()
    assert found.loads[6].hottest == at[0]


@pytest.mark.parametrize(
    "text", ["1970-01-01T05:00:00.123456", "1970-01-01 05:00:00.123456+00:00",
             "1970-01-01T05:00:00.123456789Z", "1970-01-01T06:00:00.1+01:00", "1970-01-01 05:00:00"],
)  # fmt: skip
def test_times_as_people_write_them(text: str) -> None:
    """Text with and without a zone, with none to nine digits behind the second."""
    counting = KeyCounter(KeyJob(InputColumns("id", time="at"), "murmur2", (6,)))
    counting.count_batch(pa.RecordBatch.from_pydict({"id": ["a"], "at": [text]}))
    assert [r["hour"] for r in _plain(_rows(counting), RowKind.HOUR)] == [5 * HOUR]


def test_uuids_and_numbers_with_a_point() -> None:
    """A UUID is 36 letters or 16 bytes as one says; how a float is written as text is not guessed."""
    one = uuid.UUID(int=7)
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one.bytes, None], pa.binary(16)))
    assert serialize_keys(column, "string", "id").to_pylist() == [str(one).encode(), None]
    assert serialize_keys(column, "bytes", "id").to_pylist() == [one.bytes, None]
    with pytest.raises(InvalidConfigError, match="36 letters"):
        serialize_keys(column, None, "id")
    with pytest.raises(InvalidConfigError, match="in its own way"):
        serialize_keys(pa.array([1.0]), "string", "id")


def test_a_damaged_file_is_an_error_or_counted(tmp_path: Path) -> None:
    """With bytes changed anywhere before the footer a file is counted, or is an error of ours."""
    rng = random.Random(1)
    keys = [None if rng.random() < 0.2 else f"{i:x}" * rng.randrange(6) for i in range(2_000)]
    path, columns = tmp_path / "in.parquet", InputColumns("key")
    ended: Counter = Counter()
    for codec in ("none", "snappy"):
        for dictionary in (False, True):
            parquet.write_table(pa.table({"key": keys}), path, compression=codec,
                                use_dictionary=dictionary, dictionary_pagesize_limit=900,
                                data_page_size=700)  # fmt: skip
            good = path.read_bytes()
            for _ in range(80):
                bad = bytearray(good)
                for _ in range(rng.randrange(1, 4)):
                    bad[rng.randrange(4, len(bad) - 600)] = rng.randrange(256)
                path.write_bytes(bad)
                try:
                    _job(path, KeyJob(columns, "murmur2", COUNTS), columns, tasks=1)
                    ended["counted"] += 1
                except (InvalidConfigError, InvalidKeysError):
                    ended["error"] += 1
    assert min(ended["counted"], ended["error"]) > 5
