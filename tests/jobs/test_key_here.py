"""`partage keys` without Spark: what threads of this process find is what Spark's workers find."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

import partage as pg
from partage.cli.app import app
from partage.errors import InvalidConfigError
from partage.jobs.keys import analysis, sources, workers
from partage.jobs.keys.analysis import KeySpread, analyse_keys
from partage.jobs.keys.columns import InputColumns, convert_times
from partage.kernels import force_kernel_form

pa = pytest.importorskip("pyarrow")
from pyarrow import csv, parquet  # noqa: E402 - only where pyarrow is

HOUR = 3_600_000


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests' session is none of ours; one that would be started is a failure."""
    monkeypatch.setattr(analysis, "_has_session", lambda: False)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("a Spark session was started")

    monkeypatch.setattr("partage.jobs.spark.session.spark_session", started)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """5,000 records over 150 keys, some without, over three hours; the key also inside a struct."""
    rng = random.Random(5)
    ids = [None if rng.random() < 0.04 else f"k{int(rng.paretovariate(0.7)) % 150}"
           for _ in range(5_000)]  # fmt: skip
    return pa.table({
        "id": ids,
        "note": [rng.choice(["plain", 'with "quotes"', "two\nlines", ""]) for _ in ids],
        "at": [rng.randrange(3) * HOUR + rng.randrange(HOUR) for _ in ids],
        "number": pa.array([None if i is None else int(i[1:]) for i in ids], pa.int64()),
        "meta": [{"tenant": i, "more": {"deep": i}} for i in ids],
    })  # fmt: skip


@pytest.fixture(scope="module")
def folder(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as Parquet, CSV and JSON."""
    out = tmp_path_factory.mktemp("here")
    (out / "parquet").mkdir()
    parquet.write_table(table.slice(0, 3_000), out / "parquet" / "a.parquet", row_group_size=700)
    parquet.write_table(table.slice(3_000), out / "parquet" / "b.parquet", use_dictionary=False)
    csv.write_csv(table.select(["id", "note", "at", "number"]), out / "in.csv")
    (out / "in.jsonl").write_text("\n".join(map(json.dumps, table.to_pylist())))
    (out / "in.json").write_text(json.dumps(table.to_pylist(), indent=1))
    return out


def _same(one: KeySpread, other: KeySpread) -> None:
    for field in fields(KeySpread):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name == "by_partition":
            mine, theirs = ({n: [c.tolist() for c in columns] for n, columns in some.items()}
                            for some in (mine, theirs))  # fmt: skip
        assert mine == theirs, field.name


@pytest.mark.spark
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_find_what_spark_finds(
    spark: object, folder: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Loads, bytes, hours, moves, hot keys and both limits are equal, with any number of threads."""
    monkeypatch.setattr(workers, "_cores", lambda: threads)
    monkeypatch.setattr(workers, "_BYTES_A_THREAD", 1)
    asked = (str(folder / "parquet"), InputColumns("id", "note", "at"), [4, 6, 12])
    settings = {"max_share": 0.5, "max_rate": 0.4}
    here = analyse_keys(*asked, **settings)
    _same(here, analyse_keys(*asked, **settings, spark=spark))
    assert here.smallest is not None
    with force_kernel_form("compiled"):
        _same(here, analyse_keys(*asked, **settings))


@pytest.mark.spark
def test_a_path_into_a_struct_by_spark(spark: object, folder: Path) -> None:
    """`meta.tenant` is the same column for Spark's own readers and for its workers."""
    whole = analyse_keys(str(folder / "parquet"), InputColumns("id"), [6])
    for name in ("parquet", "in.jsonl"):
        for key in ("meta.tenant", "meta.more.deep"):
            _same(whole, analyse_keys(str(folder / name), InputColumns(key), [6], spark=spark))


@pytest.mark.usefixtures("no_spark")
def test_every_format_and_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV, JSON by the line and as an array give what Parquet gives, and so do paths into structs;
    blocks may end anywhere, also between quotes.
    """
    monkeypatch.setattr(sources, "_BLOCK", 1 << 12)
    whole = analyse_keys(str(folder / "parquet"), InputColumns("id", time="at"), [6])
    for name in ("in.csv", "in.jsonl", "in.json"):
        _same(whole, analyse_keys(str(folder / name), InputColumns("id", time="at"), [6]))
    whole = analyse_keys(str(folder / "parquet"), InputColumns("id"), [6])
    for name in ("parquet", "in.jsonl", "in.json"):
        _same(whole, analyse_keys(str(folder / name), InputColumns("meta.more.deep"), [6]))
    longs = analyse_keys(str(folder / "parquet"), InputColumns("number"), [6], serializer="long")
    for name in ("in.csv", "in.jsonl"):
        _same(
            longs, analyse_keys(str(folder / name), InputColumns("number"), [6], serializer="long")
        )


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("name", ["parquet", "in.csv", "in.jsonl", "in.json"])
def test_a_wrong_column_is_reported_before_spark_starts(folder: Path, name: str) -> None:
    """Missing, nested, or without a serializer: known from the schema, for each reader."""
    where = str(folder / name)
    for master in (None, "local[1]"):
        with pytest.raises(InvalidConfigError, match=r"no such column.*found: id"):
            analyse_keys(where, InputColumns("nothing"), [6], master=master)
        if name == "in.csv":
            continue
        with pytest.raises(InvalidConfigError, match=r"no such column.*meta\.tenant"):
            analyse_keys(where, InputColumns("meta.nothing"), [6], master=master)
        with pytest.raises(InvalidConfigError, match=r"name a column in it: meta\.tenant"):
            analyse_keys(where, InputColumns("meta"), [6], master=master)
        with pytest.raises(InvalidConfigError, match="--serializer"):
            analyse_keys(where, InputColumns("number"), [6], master=master)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "id,id\n1,2\n", "2 columns"),
        ("a.csv", "id,b\n1,2\n3\n", "Expected 2 columns, got 1"),
        ("a.jsonl", '{"id": "a"}\n{"id": \n', "cannot be read as JSON"),
        ("a.json", '[{"id": "a"}, 7]', "other things than objects"),
        ("a.json", '[{"id": 18446744073709551615}, {"id": 1}]', "cannot be read as JSON"),
        ("a.json", "[" * 100_000, "cannot be read as JSON"),
    ],
)
def test_damaged_text(tmp_path: Path, name: str, text: str, message: str) -> None:
    """One line that names the file, for whatever is wrong in it."""
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidConfigError, match=message) as raised:
        analyse_keys(str(tmp_path / name), InputColumns("id"), [6])
    assert name in str(raised.value) or str(tmp_path) in str(raised.value)


@pytest.mark.usefixtures("no_spark")
def test_text_is_counted_as_it_is_written(tmp_path: Path) -> None:
    """What looks like a time stays text, an empty field is null and empty quotes are not, a column
    may come late, and a key that stands in the file once is found once.
    """
    at = "2026-01-01T00:00:00Z"
    (tmp_path / "a.jsonl").write_text(json.dumps({"m": {"t": at}, "t": at}) + "\n")
    for key in ("t", "m.t"):
        found = analyse_keys(str(tmp_path / "a.jsonl"), InputColumns(key), [6])
        assert [h.key for h in found.hottest] == [at.encode()]
    (tmp_path / "a.csv").write_text('k,v\n,1\n"",2\n"a\nb",3\n')
    found = analyse_keys(str(tmp_path / "a.csv"), InputColumns("k"), [6])
    assert (found.records, found.nulls) == (3, 1)
    assert {h.key for h in found.hottest} == {b"", b"a\nb"}
    (tmp_path / "late.jsonl").write_text('{"a": 1}\n' * 1_000_000 + '{"k": "x"}\n')
    found = analyse_keys(str(tmp_path / "late.jsonl"), InputColumns("k"), [6])
    assert (found.records, found.nulls, found.distinct) == (1_000_001, 1_000_000, 1)


@pytest.mark.usefixtures("no_spark")
def test_folders_behind_links_are_read_once(tmp_path: Path) -> None:
    """A link to a folder is followed; one that leads back is no endless way."""
    (tmp_path / "in").mkdir()
    (tmp_path / "away").mkdir()
    for folder in ("in", "away"):
        parquet.write_table(pa.table({"k": ["a"] * 10}), tmp_path / folder / "a.parquet")
    (tmp_path / "in" / "sub").symlink_to(tmp_path / "away")
    (tmp_path / "away" / "back").symlink_to(tmp_path / "in")
    assert analyse_keys(str(tmp_path / "in"), InputColumns("k"), [6]).records == 20


@pytest.mark.parametrize(
    ("column", "at"),
    [
        (pa.array(["1700000000000", None]), [1_700_000_000_000, -1]),
        (pa.array(["2026-01-02", "2026-01-02T01:00:00+01:00"]), [1_767_312_000_000] * 2),
        (pa.array([1.5, float("nan"), float("inf")]), [1, -1, -1]),
        (pa.array(["2026-01-02"]).dictionary_encode(), [1_767_312_000_000]),
        (pa.array([None, None], pa.string()), [-1, -1]),
    ],
)
def test_times(column: pa.Array, at: list[int]) -> None:
    """Text of numbers, text with and without zones, what is no number, dictionaries."""
    assert convert_times(column, "t").tolist() == at


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1_700_000_000_000_000]), "after the year 9999; are these microseconds"),
        (pa.array([1_700_000_000, 1_700_000_600]), "are these seconds"),
        (pa.array([True]), "is no time"),
        (pa.array([1], pa.time64("us")), "is no time"),
        (pa.array(["yesterday"]), "is no time"),
        (pa.array([1 << 62]), "after the year 9999"),
    ],
)
def test_what_is_no_time(column: pa.Array, message: str) -> None:
    """Refused by name, before a table of hours of 1970 or of the year 55840 is made of it."""
    with pytest.raises(InvalidConfigError, match=message):
        convert_times(column, "t")


@pytest.mark.usefixtures("no_spark")
def test_records_without_a_time_are_reported(tmp_path: Path) -> None:
    """They are counted, in no hour; a rate of none at all is refused."""
    table = pa.table({"k": ["a", "b", "c"], "t": pa.array([HOUR, None, -5], pa.timestamp("ms"))})
    parquet.write_table(table, tmp_path / "a.parquet")
    found = analyse_keys(str(tmp_path / "a.parquet"), InputColumns("k", time="t"), [6])
    assert (found.timeless, len(found.hours)) == (2, 1)
    parquet.write_table(table.slice(1), tmp_path / "b.parquet")
    with pytest.raises(InvalidConfigError, match="no record has a time"):
        analyse_keys(str(tmp_path / "b.parquet"), InputColumns("k", time="t"), [6], max_rate=1.0)


@pytest.mark.usefixtures("no_spark")
def test_a_thread_that_fails_stops_the_others(folder: Path, monkeypatch) -> None:
    """The error of one comes out, and no thread goes on behind it."""
    monkeypatch.setattr(workers, "_cores", lambda: 3)
    monkeypatch.setattr(workers, "_BYTES_A_THREAD", 1)
    add = workers.KeyCounter.count_batch
    failed, after = threading.Event(), []

    def fails(self: object, batch: object) -> None:
        if "row group 0" in self.where:
            failed.set()
            raise InvalidConfigError("--key", "fails", "x")
        failed.wait(5)
        time.sleep(0.05)
        after.append(self.where)
        add(self, batch)

    monkeypatch.setattr(workers.KeyCounter, "count_batch", fails)
    before = threading.active_count()
    with pytest.raises(InvalidConfigError, match="fails"):
        analyse_keys(str(folder / "parquet"), InputColumns("id"), [6])
    assert threading.active_count() == before
    assert len(after) <= 3  # of six pieces that were left


@pytest.mark.usefixtures("no_spark")
def test_advice(folder: Path, table: pa.Table) -> None:
    """Who shares the hottest partition, and into how many keys the hottest must be split."""
    result = CliRunner().invoke(app, ["keys", str(folder / "parquet"), "-k", "meta.tenant", "-p",
                                    "6,24", "-q"])  # fmt: skip
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    found = analyse_keys(str(folder / "parquet"), InputColumns("id"), [6, 24])
    hot, load = found.hottest[0], found.loads[24]
    assert pg.partition_for([hot.key], partitions=24).tolist() == [load.hottest]
    assert f"With 24 partitions the hottest one has {hot.key.decode()} ({hot.share:.1%})" in said
    parts = next(n for n in range(1, 1_000) if hot.share / n <= 1 / 24)
    assert (
        "split (salt) each key that has more than 4.17%, an even share of 24 partitions: " in said
    )
    assert f"{hot.key.decode()} into {parts}" in said


@pytest.mark.usefixtures("no_spark")
def test_an_approximate_count_is_the_same_each_time(tmp_path: Path, monkeypatch) -> None:
    """What is dropped depends on what came before: each thread has its own pieces."""
    monkeypatch.setattr(workers, "_cores", lambda: 3)
    monkeypatch.setattr(workers, "_BYTES_A_THREAD", 1)
    monkeypatch.setattr("partage.jobs.keys.workers._SKETCH", 50)
    rng = random.Random(3)
    table = pa.table({"k": [f"k{int(rng.paretovariate(0.4)) % 5_000}" for _ in range(20_000)]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=900, use_dictionary=False)
    first = analyse_keys(str(tmp_path / "a.parquet"), InputColumns("k"), [6], approximate=True)
    assert first.low_by > 0
    for _ in range(5):
        _same(
            first,
            analyse_keys(str(tmp_path / "a.parquet"), InputColumns("k"), [6], approximate=True),
        )


@pytest.mark.usefixtures("no_spark")
def test_a_long_array_is_refused(tmp_path: Path, monkeypatch) -> None:
    """An array becomes Python's objects, ten times its size: only small ones are read."""
    monkeypatch.setattr(sources, "_LONGEST_ARRAY", 100)
    (tmp_path / "a.json").write_text(json.dumps([{"k": "a"}] * 50))
    with pytest.raises(InvalidConfigError, match="write an object a line"):
        analyse_keys(str(tmp_path / "a.json"), InputColumns("k"), [6])
