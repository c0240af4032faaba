"""`partage keys`: counts equal to those by hand, whatever the format, and errors by name."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

import partage as pg
from partage.cli.app import app
from partage.errors import InvalidConfigError
from partage.jobs.keys import sources as key_sources
from partage.jobs.keys.analysis import analyse_keys
from partage.jobs.keys.columns import InputColumns

pa = pytest.importorskip("pyarrow")
from pyarrow import csv, parquet  # noqa: E402 - only where pyarrow is

HOUR = 3_600_000


@pytest.fixture(scope="module")
def skewed() -> pa.Table:
    """3,000 records over 120 keys, the first of them hot; some without a key; over three hours."""
    rng = random.Random(11)
    keys = [None if rng.random() < 0.05 else f"k{int(rng.paretovariate(0.8)) % 120}"
            for _ in range(3_000)]  # fmt: skip
    return pa.table({
        "id": keys,
        "payload": ["x" * rng.randrange(20) for _ in keys],
        "at": pa.array([rng.randrange(3) * HOUR + rng.randrange(HOUR) for _ in keys],
                       pa.timestamp("ms")),
        "number": [None if k is None else int(k[1:]) for k in keys],
        "nested": [[1]] * len(keys),
    })  # fmt: skip


@pytest.fixture(scope="module")
def written(skewed: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in files of several row groups."""
    folder = tmp_path_factory.mktemp("keys") / "in"
    folder.mkdir()
    parquet.write_table(skewed.slice(0, 1_700), folder / "a.parquet", row_group_size=400)
    parquet.write_table(skewed.slice(1_700), folder / "b.parquet", use_dictionary=False)
    return folder


def _by_hand(keys: list[str], partitions: int) -> Counter:
    where = pg.partition_for(keys, partitions=partitions).tolist()
    return Counter(where)


def test_counts_are_those_by_hand(spark: object, skewed: pa.Table, written: Path) -> None:
    """Loads, hot keys, distinct keys, moves and bytes equal a count in plain Python."""
    found = analyse_keys(str(written), InputColumns("id", "payload", "at"), [4, 6, 12], spark=spark)
    rows = skewed.to_pylist()
    keyed = [r for r in rows if r["id"] is not None]
    keys = [r["id"] for r in keyed]
    assert (found.records, found.nulls) == (3_000, 3_000 - len(keyed))
    assert found.distinct == len(set(keys))
    counts = Counter(keys)
    best = sorted(counts.items(), key=lambda kv: (-kv[1], kv[0].encode()))[:10]
    assert [(h.key.decode(), h.records) for h in found.hottest] == best
    assert found.floor == best[0][1] / len(keyed)
    for n in (4, 6, 12):
        by_hand = _by_hand(keys, n)
        partition, records, size = found.by_partition[n]
        assert dict(zip(partition.tolist(), records.tolist(), strict=True)) == by_hand
        where = pg.partition_for(keys, partitions=n).tolist()
        weights: Counter = Counter()
        for p, r in zip(where, keyed, strict=True):
            weights[p] += len(r["id"]) + len(r["payload"])
        assert dict(zip(partition.tolist(), size.tolist(), strict=True)) == weights
        assert found.loads[n].most == max(by_hand.values())
    unique = sorted(set(keys))
    for move in found.moves:
        a, b = (pg.partition_for(unique, partitions=n).tolist() for n in (move.before, move.after))
        moved = [k for k, p, q in zip(unique, a, b, strict=True) if p != q]
        assert (move.moved_keys, move.keys) == (len(moved), len(unique))
        assert move.moved_records == sum(counts[k] for k in moved)


def test_hours(spark: object, skewed: pa.Table, written: Path) -> None:
    """Of each hour the hottest partition, as counted by hand."""
    found = analyse_keys(str(written), InputColumns("id", time="at"), [6], spark=spark)
    for n, hour, partition, most, total in found.hours:
        mine = [
            r["id"]
            for r in skewed.to_pylist()
            if r["id"] is not None and int(r["at"].timestamp() * 1000) // HOUR * HOUR == hour
        ]
        by_hand = _by_hand(mine, n)
        assert (by_hand[partition], max(by_hand.values()), len(mine)) == (most, most, total)
    assert [h[1] for h in found.hours] == [0, HOUR, 2 * HOUR]


def test_smallest_count(spark: object, skewed: pa.Table, written: Path) -> None:
    """The smallest count within a share is the one that trying all of them finds."""
    keys = [k for k in skewed["id"].to_pylist() if k is not None]
    hot = Counter(keys).most_common(1)[0][1] / len(keys)
    share = hot + 0.02
    found = analyse_keys(str(written), InputColumns("id"), [6], max_share=share, spark=spark)
    tried = (n for n in range(1, 2_000) if max(_by_hand(keys, n).values()) <= share * len(keys))
    assert found.smallest == next(tried)
    none = analyse_keys(str(written), InputColumns("id"), [6], max_share=hot / 2, spark=spark)
    assert (none.smallest, none.tried) == (None, 0)


def test_smallest_count_within_a_rate(spark: object, skewed: pa.Table, tmp_path: Path) -> None:
    """A rate is of the hour in which a partition got most, by the keys of that hour and the seconds
    that the input has of it: a key that is hot in the last ten minutes alone is not overlooked.
    """
    late = 3 * HOUR
    ids = [*skewed["id"].to_pylist(), *["k7"] * 1_500, *[f"k{i % 40}" for i in range(500)]]
    at = [int(t.timestamp() * 1000) for t in skewed["at"].to_pylist()]
    at += [late + i * 300 for i in range(2_000)]  # the last of them: 599.7 s into the hour
    table = pa.table({"id": ids, "at": pa.array(at, pa.timestamp("ms"))})
    parquet.write_table(table, tmp_path / "in.parquet")
    then = [k for k, t in zip(ids, at, strict=True) if t >= late]
    for rate in (2.6, 2.9, 1.0):
        found = analyse_keys(str(tmp_path / "in.parquet"), InputColumns("id", time="at"), [6],
                             max_rate=rate, spark=spark)  # fmt: skip
        assert (found.rate_hour, round(found.rate_seconds, 3)) == (late, 599.701)
        allowed = rate * 599.701
        fits = (n for n in range(1, 300) if max(_by_hand(then, n).values()) <= allowed)
        assert found.smallest == next(fits, None), rate
    assert (found.smallest, found.tried) == (None, 0)  # one key alone has 2.5 a second


def test_other_formats(spark: object, skewed: pa.Table, written: Path, tmp_path: Path) -> None:
    """CSV and JSON lines give what Parquet gives; numbers by the serializer named."""
    whole = analyse_keys(str(written), InputColumns("id"), [6], spark=spark)
    csv.write_csv(skewed.select(["id", "number"]), tmp_path / "in.csv")
    lines = "\n".join(json.dumps({"id": k}) for k in skewed["id"].to_pylist())
    (tmp_path / "in.jsonl").write_text(lines)
    for name in ("in.csv", "in.jsonl"):
        found = analyse_keys(str(tmp_path / name), InputColumns("id"), [6], spark=spark)
        assert found.loads == whole.loads, name
    longs = analyse_keys(str(written), InputColumns("number"), [6], serializer="long", spark=spark)
    numbers = [n for n in skewed["number"].to_pylist() if n is not None]
    by_hand = _by_hand([n.to_bytes(8, "big") for n in numbers], 6)
    assert longs.loads[6].most == max(by_hand.values())


def test_approximate_finds_the_hot_keys(spark: object, written: Path) -> None:
    """An approximate run has the same loads and hottest key, and says by how much it may err."""
    exact = analyse_keys(str(written), InputColumns("id"), [6, 12], spark=spark)
    found = analyse_keys(str(written), InputColumns("id"), [6, 12], approximate=True, spark=spark)
    assert found.loads == exact.loads
    assert found.hottest[0] == exact.hottest[0]
    assert found.low_by == 0  # so few keys that none was dropped
    assert [m.moved_records for m in found.moves] == [m.moved_records for m in exact.moves]


def test_as_many_partitions_as_there_can_be(spark: object, written: Path) -> None:
    """2**31 - 1 partitions take no more memory than the keys."""
    found = analyse_keys(str(written), InputColumns("id"), [2**31 - 1], spark=spark)
    load = found.loads[2**31 - 1]
    assert load.partitions - load.empty <= found.distinct


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        (InputColumns("nothing"), {}, "no such column"),
        (InputColumns("nested"), {}, "nested"),
        (InputColumns("number"), {}, "--serializer"),
        (InputColumns("id"), {"counts": [0]}, "must be 1 to 2,147,483,647"),
        (InputColumns("id"), {"counts": [2**31]}, "must be 1 to 2,147,483,647"),
        (InputColumns("id"), {"max_rate": 5.0}, "needs a column of times"),
        (InputColumns("id"), {"max_share": 0.0}, "above 0"),
        (InputColumns("id"), {"partitioner": "sarama:manual"}, "names its partition"),
        (InputColumns("id", time="payload"), {}, "is no time"),
    ],
)
def test_bad_input(spark: object, written: Path, columns, settings, message: str) -> None:
    """A wrong column, count or limit is refused by name, in the driver or in a worker."""
    counts = settings.pop("counts", [6])
    with pytest.raises(InvalidConfigError, match=message):
        analyse_keys(str(written), columns, counts, spark=spark, **settings)


@pytest.mark.parametrize("kind", ["kafka", "delta"])
def test_a_connector_that_spark_lacks(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A topic and a Delta table without their connectors: one line that tells how to get them."""
    monkeypatch.setattr(key_sources, "partition_counts", lambda *_: {"orders": (6,)})
    (tmp_path / "_delta_log").mkdir()
    where = "kafka://127.0.0.1:1/orders" if kind == "kafka" else str(tmp_path)
    with pytest.raises(InvalidConfigError, match=rf"connector\? .*--packages .*{kind}"):
        analyse_keys(where, InputColumns("key"), [6], spark=spark)


def test_the_columns_of_a_topic(spark: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark's source gives of a topic: bytes and times, of which key, value and hours count."""
    rows = (
        "select cast(concat('k', id % 7) as binary) as key, cast('xy' as binary) as value, "
        "'t' as topic, timestamp_millis(id * 100000) as timestamp from range(200)"
    )
    monkeypatch.setattr(key_sources, "partition_counts", lambda *_: {"t": (6,)})
    patched = "partage.jobs.keys.workers.topic_records"
    monkeypatch.setattr(patched, lambda *_: spark.sql(rows))
    found = analyse_keys("kafka://host:1/t", InputColumns("key"), [6], spark=spark)
    assert (found.records, found.distinct, len(found.hours)) == (200, 7, 6)
    keys = [f"k{i % 7}" for i in range(200)]
    partition, records, size = found.by_partition[6]
    assert dict(zip(partition.tolist(), records.tolist(), strict=True)) == _by_hand(keys, 6)
    assert int(size.sum()) == 200 * 4


def test_only_nulls(spark: object, tmp_path: Path) -> None:
    """A column of nulls has no keys, and that is said and no error."""
    path = tmp_path / "nulls.parquet"
    parquet.write_table(pa.table({"id": pa.nulls(50, pa.string())}), path)
    found = analyse_keys(str(path), InputColumns("id"), [6], spark=spark)
    assert (found.records, found.nulls, found.hottest) == (50, 50, [])


def test_command(spark: object, written: Path, tmp_path: Path) -> None:
    """The command prints, writes tables and a page, and takes no damage from a key's name."""
    asked = ["keys", str(written), "--key", "id", "-p", "6,12", "--out", str(tmp_path), "-q"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "hottest keys" in result.output
    page = (tmp_path / "keys.html").read_text()
    assert "times the mean" in page.replace("\n", " ")
    assert parquet.read_table(tmp_path / "spread.parquet")["records"].to_pylist()
    assert json.loads((tmp_path / "keys.json").read_text())["records"] == 3_000
    missing = CliRunner().invoke(app, ["keys", str(written)])
    assert missing.exit_code == 2
    assert "--key" in missing.output
