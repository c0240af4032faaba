"""Published runs as Delta and Iceberg tables, written by the libraries and read by DuckDB."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import pytest
from tests.support.published import published, tables

from partage.errors import InvalidConfigError, MissingExtraError
from partage.jobs.replay import lake_tables
from partage.jobs.replay.lake_tables import LakeTables, date_column, open_lake
from partage.runs.published_run import PublishedRun

pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

RUNS = ("20261126T185614-000001", "20261127T010203-000002")
EVENT_MS = 1_700_000_000_000  # 2023-11-14
RUN = {"capture": "c", "started_ms": 0, "ended_ms": 1, "partage": "0", "records": 1, "decoded": 1,
       "bad": 0, "settings": "{}", "coverage": "{}"}  # fmt: skip


def rows() -> dict[str, list[dict]]:
    found = tables() | {"runs": [RUN]}
    for row in found["rebalances"]:
        row["time_ms"] = EVENT_MS
    return found


def lake(form: str, out: Path, **more) -> LakeTables:
    found = open_lake(form, str(out), more.get("catalog"), None)
    assert found is not None
    return found


def arrow(form: str, out: Path, table: str) -> object:
    if form == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(out / "delta" / table)).to_pyarrow_table()
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{out / 'iceberg' / 'catalog.db'}"
    return SqlCatalog("partage", uri=uri).load_table(f"partage.{table}").scan().to_arrow()


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_runs_are_appended_once_and_read_by_duckdb(form: str, tmp_path: Path) -> None:
    """Two runs have their rows beside each other, and a repeated one adds none."""
    out = tmp_path / "an output"
    for run_id in (*RUNS, *RUNS):
        published(out, rows(), run_id)
        lake(form, out).append_run(out, run_id)
    rebalances = arrow(form, out, "rebalances")
    query = 'SELECT run_id, "date", count(*) FROM rebalances GROUP BY ALL ORDER BY ALL'
    expected = len(rows()["rebalances"])
    day = date(2023, 11, 14)
    assert duckdb.sql(query).fetchall() == [(run_id, day, expected) for run_id in RUNS]
    assert rebalances.num_rows == 2 * expected
    stored = rebalances.filter(pa.compute.field("run_id") == RUNS[1])
    stored = stored.drop_columns(["date"]).to_pylist()
    given = PublishedRun(out, RUNS[1]).table("rebalances").to_pylist()
    assert sorted(map(repr, stored)) == sorted(map(repr, given))
    groups = arrow(form, out, "groups").to_pandas()
    assert sorted({str(day) for day in groups["date"]}) == ["2026-11-26", "2026-11-27"]
    assert arrow(form, out, "runs").num_rows == 2
    assert arrow(form, out, "commits").num_rows == 0


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_an_interrupted_append_is_completed(form: str, tmp_path: Path, monkeypatch) -> None:
    """Table `runs` has a run once all others have it, and a second try adds what is missing."""
    out = published(tmp_path / "out", rows(), RUNS[0])
    backend = lake(form, out).backend
    append = type(backend).append

    def fail(self, table: str, *more) -> None:
        if table == "replays":
            raise OSError("disk full")
        append(self, table, *more)

    monkeypatch.setattr(type(backend), "append", fail)
    with pytest.raises(InvalidConfigError, match=r"table replays'|\(disk full\)"):
        lake(form, out).append_run(out, RUNS[0])
    assert arrow(form, out, "groups").num_rows == 3
    monkeypatch.undo()
    lake(form, out).append_run(out, RUNS[0])
    assert arrow(form, out, "groups").num_rows == 3
    assert arrow(form, out, "replays").num_rows == len(rows()["replays"])
    assert arrow(form, out, "runs").num_rows == 1


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_tables_carry_the_version_of_their_columns(form: str, tmp_path: Path, monkeypatch) -> None:
    """New columns are added to a table; a table of another version is an error."""
    out = published(tmp_path / "out", rows(), RUNS[0])
    schema = lake_tables._lake_schema
    monkeypatch.setattr(
        lake_tables, "_lake_schema",
        lambda table: schema(table).remove(2) if table == "groups" else schema(table),
    )  # fmt: skip
    lake(form, out).append_run(out, RUNS[0])
    monkeypatch.undo()
    published(out, rows(), RUNS[1])
    lake(form, out).append_run(out, RUNS[1])
    kinds = arrow(form, out, "groups").to_pydict()["kind"]
    assert sorted(map(str, kinds)) == ["None"] * 3 + ["classic", "classic", "streams"]
    monkeypatch.setattr(lake_tables, "FORMAT", 99)
    with pytest.raises(InvalidConfigError, match=r"has format version 2 .* writes 99"):
        lake(form, out).append_run(out, RUNS[1])


def test_a_row_without_a_usable_time_has_the_day_of_its_run() -> None:
    """Times before 1970, after the year 9999, and nulls are replaced."""
    times = pa.array([EVENT_MS, None, -1, 10**18], pa.int64())
    batch = pa.record_batch({"timestamp_ms": times})
    run = date(2026, 11, 26)
    assert date_column("bad_records", batch, RUNS[0]).to_pylist() == [
        date(2023, 11, 14), run, run, run,
    ]  # fmt: skip
    pauses = pa.record_batch({"first_ms": times.take([1, 0]), "last_ms": times.take([0, 3])})
    assert date_column("pauses", pauses, RUNS[0]).to_pylist() == [date(2023, 11, 14)] * 2
    assert date_column("members", batch, RUNS[0]).to_pylist() == [run] * 4


@pytest.mark.parametrize(
    ("form", "catalog", "message"),
    [
        ("hudi", None, "--format: must be one of parquet, delta, iceberg"),
        ("parquet", "lake", "--catalog: needs --format delta or iceberg"),
        ("delta", "lake.kafka", "--catalog: needs a Spark session with Delta's jars"),
    ],
)
def test_a_wrong_format_or_catalog_is_named(form: str, catalog: str | None, message: str) -> None:
    """The error says what is accepted, before the run begins."""
    with pytest.raises(InvalidConfigError, match=message):
        open_lake(form, "out", catalog, None)


@pytest.mark.parametrize(("form", "library"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_missing_library_is_named(form: str, library: str, monkeypatch) -> None:
    """The message has the extra to install."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"{library}.*partage\[{form}\]"):
        open_lake(form, "out", None, None)


def test_settings_of_s3_are_handed_to_deltalake() -> None:
    """Tables at an address use the credentials of the Spark settings, and http if it is given."""
    names = {"access.key": "a", "secret.key": "b", "endpoint": "http://127.0.0.1:1"}
    conf = {f"spark.hadoop.fs.s3a.{name}": value for name, value in names.items()}
    assert lake_tables._s3_options(conf) == {
        "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
