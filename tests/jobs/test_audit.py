"""`partage audit`: who wrote topics that were made, and what is broken in them."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

import partage as pg
from partage.errors import InvalidCaptureError, InvalidConfigError
from partage.jobs.audit.audit import audit_topics

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402 - only where pyarrow is

KEYS = [b"customer-%d" % i for i in range(300)]


def _records(topic: str, keys, partitioner: str, partitions: int, at: int = 0) -> list[tuple]:
    where = pg.partition_for(keys, partitions=partitions, partitioner=partitioner).tolist()
    return [(topic, p, at + i, at + i, k) for i, (k, p) in enumerate(zip(keys, where, strict=True))]


def _written(path: Path, rows: list[tuple]) -> Path:
    names = ("topic", "partition", "offset", "timestamp_ms", "key")
    kinds = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.binary())
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, t) for c, t in zip(columns, kinds, strict=True)]
    parquet.write_table(pa.Table.from_arrays(arrays, names=names), path, row_group_size=500)
    return path


def _families(found) -> list[str]:
    return list(dict.fromkeys(w["name"] for w in found.writers))


def test_writers_are_named(spark: object, tmp_path: Path) -> None:
    """Each client's hash is shown by its name, and two of them in one topic by both."""
    rows = [
        *_records("java", KEYS, "java:builtin", 12),
        *_records("c", KEYS, "librdkafka:consistent_random", 12),
        *_records("go", KEYS, "sarama:hash", 12),
        *_records("both", KEYS, "java:builtin", 6),
        *_records("both", KEYS, "librdkafka:consistent_random", 6, at=1_000),
        *(("keyless", i % 4, i, i, None) for i in range(200)),
    ]
    found = audit_topics(str(_written(tmp_path / "topics.parquet", rows)), spark=spark)
    by_name = {t.topic: t for t in found.topics}
    assert _families(by_name["java"]) == ["murmur2"]
    assert _families(by_name["c"])[0].startswith("librdkafka:consistent")
    assert "sarama:hash" in by_name["go"].writers[0]["partitioners"]
    both = by_name["both"]
    assert both.needs_attention
    assert both.status == "mixed"
    assert both.writers[1]["first_ms"] >= 1_000
    assert both.split["writers"] == both.split["keys"] > 200
    nulls = by_name["keyless"].nulls
    assert (nulls["behaviour"], nulls["records"]) == ("round robin", 200)
    assert nulls["log10_chance"] < -20
    assert not found.has_no_problem


def test_joins_that_are_broken(spark: object, tmp_path: Path) -> None:
    """Another count, another partitioner and another serializer are each found, with examples."""
    ids = range(300)
    rows = [
        *_records("a", KEYS, "murmur2", 6),
        *_records("count", KEYS, "murmur2", 8),
        *_records("client", KEYS, "librdkafka:consistent", 6),
        *_records("fits", KEYS, "murmur2", 6),
        *_records("text", [b"%d" % i for i in ids], "murmur2", 6),
        *_records("long", [struct.pack(">q", i) for i in ids], "murmur2", 6),
    ]
    joins = [["a", "count"], ["a", "client"], ["a", "fits"], ["text", "long"]]
    where = str(_written(tmp_path / "topics.parquet", rows))
    found = audit_topics(where, joins=joins, spark=spark)
    kinds = {j.broken.topics: j.broken.kind for j in found.joins}
    assert kinds == {
        ("a", "count"): "partition counts",
        ("a", "client"): "partitioners",
        ("long", "text"): "serializers",
    }
    assert all(j.meant for j in found.joins)
    apart = next(j.broken for j in found.joins if j.broken.kind == "partitioners")
    key, here, other, there = apart.examples[0]
    assert key == other
    assert here != there


def test_bad_input(spark: object, tmp_path: Path) -> None:
    """No file, no column, no record and no such topic each have their sentence."""
    with pytest.raises(InvalidCaptureError, match="nothing"):
        audit_topics(str(tmp_path / "nothing"), spark=spark)
    parquet.write_table(pa.table({"topic": ["a"]}), tmp_path / "half.parquet")
    with pytest.raises(InvalidCaptureError, match="column partition is missing"):
        audit_topics(str(tmp_path / "half.parquet"), spark=spark)
    where = str(_written(tmp_path / "one.parquet", _records("a", KEYS, "murmur2", 1)))
    with pytest.raises(InvalidConfigError, match="no records of such a topic"):
        audit_topics(where, topics=["b"], spark=spark)
    (only,) = audit_topics(where, spark=spark).topics
    assert only.status == "one partition"


def test_command(spark: object, tmp_path: Path) -> None:
    """The command prints what to look at and ends with 3; clean topics end with 0."""
    from partage.cli.app import app

    rows = [*_records("both", KEYS, "murmur2", 6),
            *_records("both", KEYS, "librdkafka:consistent", 6, at=1_000)]  # fmt: skip
    bad = str(_written(tmp_path / "bad.parquet", rows))
    result = CliRunner().invoke(app, ["audit", bad, "--quiet"])
    assert result.exit_code == 3, result.output
    said = " ".join(result.output.split())
    assert (
        "2 writers disagree: Java, kafka-python, ... (murmur2) 1970-01-01 00:00:00.002 to "
        "00:00:00.299; confluent-kafka, ... (CRC32) 1970-01-01 00:00:01.002 to"
    ) in said
    assert "set partitioner=murmur2_random in librdkafka" in said
    of = re.search(r"([\d,]+) keys live in two partitions.*and ([\d,]+) more", said)
    assert int(of[1]) == int(of[2]) + 3
    assert "1e-86" in said
    few = [("few", i % 3, i, i, b"k%d" % i) for i in range(20)]
    alone = [("alone", 0, i, i, b"k%d" % i) for i in range(50)]
    result = CliRunner().invoke(
        app, ["audit", str(_written(tmp_path / "f.parquet", few + alone)), "-q"]
    )
    said = " ".join(result.output.split())
    assert "alone: of one partition, which every partitioner fits" in said
    assert "few: fewer than 30 keys" in said
    nowhere = [(None, 1, 1, 1, b"a"), ("one", None, 2, 2, b"a"), (None, None, 3, 3, None)]
    rows = [*_records("one", KEYS, "murmur2", 6), *nowhere]
    good = str(_written(tmp_path / "good.parquet", rows))
    asked = ["audit", good, "--json", "--quiet", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["topics"][0]["explained"] == 1.0
    assert json.loads(result.stdout)["without_a_place"] == 3
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["clean"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["audit.html", "audit.json"]
    page = (tmp_path / "out" / "audit.html").read_text()
    assert "no problem found" in page
    assert "3 records without a topic or a partition" in page.replace("\n", " ")


def test_a_run_that_fails_leaves_the_last_page_whole(tmp_path: Path, monkeypatch) -> None:
    """What is written goes beside its place first: a failure in between leaves what was there."""
    from partage.cli import audit as command
    from partage.jobs.audit.audit import Audit
    from partage.report import key_pages as report

    for name in ("audit.json", "audit.html"):
        (tmp_path / name).write_text("of the last run")

    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "write_audit_page", fails)
    with pytest.raises(InvalidConfigError, match="No space left"):
        command._write_audit(Audit(), tmp_path, "in")
    for name in ("audit.json", "audit.html"):
        assert (tmp_path / name).read_text() == "of the last run"


def test_security_settings_reach_both_who_is_asked_and_spark(monkeypatch) -> None:
    """Properties of the client go to the admin connection and, with ``kafka.``, to Spark's source;
    no secret is in what is printed of either.
    """
    from partage.jobs.audit import audit
    from partage.jobs.audit.topics import open_topics

    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'a.PlainLoginModule required username="u" password="geheim";',
    }
    asked: dict[str, object] = {}

    class AskedError(Exception):
        pass

    class Connection:
        def __init__(self, servers: str, settings: dict) -> None:
            asked["servers"], asked["settings"] = servers, settings
            raise AskedError

    monkeypatch.setattr("partage.jobs.spark.tables.ClusterConnection", Connection)
    with pytest.raises(AskedError):
        open_topics("kafka://broker:9093/orders", given)
    assert asked["servers"] == "broker:9093"
    assert "geheim" in asked["settings"].values()

    class Reader:
        def __init__(self) -> None:
            self.settings: dict[str, str] = {}

        def format(self, _: str) -> Reader:
            return self

        def options(self, **options: str) -> Reader:
            self.settings |= options
            return self

        def option(self, name: str, value: str) -> Reader:
            self.settings[name] = value
            return self

        def load(self) -> None:
            raise AskedError

    class Conf:
        def set(self, name: str, value: str) -> None:
            asked[name] = value

    spark = type("Spark", (), {"read": Reader(), "conf": Conf()})()
    source = audit.TopicSource("kafka://broker:9093/orders", properties=given)
    assert "geheim" not in repr(source)
    with pytest.raises(AskedError):
        audit._pairs(spark, source)
    assert spark.read.settings["kafka.security.protocol"] == "SASL_PLAINTEXT"
    assert spark.read.settings["kafka.sasl.jaas.config"].endswith('"geheim";')
    # A consumer that asks for offsets would need rights on Spark's own group.
    assert asked["spark.sql.streaming.kafka.useDeprecatedOffsetFetching"] == "false"


def _judged(rows: list[tuple[bytes, int]]) -> dict:
    """What a worker tells of a topic of these pairs, whose partition count nobody knows."""
    from partage.jobs.audit.topics import judge_topics

    count = len(rows)
    batch = pa.RecordBatch.from_pydict({
        "topic": ["t"] * count, "key": [k for k, _ in rows],
        "partition": pa.array([p for _, p in rows], pa.int32()), "records": [1] * count,
        "first_ms": list(range(count)), "last_ms": list(range(count)),
        "level": pa.array([0] * count, pa.int32()), "place": list(range(count)),
    })  # fmt: skip
    (row,) = judge_topics({}, frozenset(), [batch])
    return json.loads(row.column(1)[0].as_py())


@pytest.mark.parametrize(("before", "after"), [(300, 303), (300, 304), (300, 600), (500, 500)])
@pytest.mark.parametrize("name", ["murmur2", "librdkafka:consistent"])
def test_many_partitions_that_nobody_counted(name: str, before: int, after: int) -> None:
    """A topic that grew beyond 256 partitions has one writer at its two counts, and no count that
    has only a divisor in common with one of them.
    """
    keys = [b"key-%d" % (i % 700) for i in range(1_400)]
    counts = [before] * 700 + [after] * 700
    rows = [(k, int(pg.partition_for([k], partitions=n, partitioner=name)[0]))
            for k, n in zip(keys, counts, strict=True)]  # fmt: skip
    judged = _judged(sorted(set(rows), key=rows.index))
    assert {w["name"] for w in judged["writers"]} == {name}
    assert {w["partitions"] for w in judged["writers"]} == {before, after}
    assert judged["counts"] == [after]
    assert judged["explained"] > 0.99


def test_the_last_partition_that_there_can_be() -> None:
    """A damaged partition number near the end of an int ends no audit."""
    rows = [(b"k%d" % i, i % 7) for i in range(100)] + [(b"x", 2**31 - 2)]
    assert _judged(rows)["counts"] == [2**31 - 1]
