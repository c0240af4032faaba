"""An unforeseen exception in one group: the group is failed, the others are published."""

from __future__ import annotations

import json
from functools import cache
from types import SimpleNamespace

import pyarrow as pa
import pytest
import typer
from pyarrow import parquet
from tests.support.captured import SAMPLE
from tests.support.published import published
from tests.support.published import tables as made_tables

from partage.cli.replay import _judged
from partage.history.transactions import Transactions
from partage.jobs.replay import histories
from partage.jobs.replay import simulations as lives
from partage.jobs.replay.decode import decode_table
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.engines import LocalRows
from partage.jobs.replay.group_rows import GroupRows
from partage.jobs.replay.histories import mark_failed
from partage.jobs.replay.replay import JobResults, _add_results
from partage.jobs.replay.selection import Selection
from partage.jobs.replay.simulations import work_units
from partage.jobs.replay.spill_files import RebalanceCollector, SpilledHistory
from partage.jobs.replay.streams_settings import StreamsInputs
from partage.report.data import load_run
from partage.report.limit_notes import limit_notes
from partage.runs.published_run import PublishedRun
from partage.simulation.policies import Policy

BROKEN = "billing"


@cache
def _batches() -> tuple[pa.RecordBatch, ...]:
    table = parquet.read_table(SAMPLE / "consumer_offsets.parquet")
    table = table.set_column(0, "partition", table["partition"].cast(pa.int64()))
    rows = pa.Table.from_batches(decode_table(table, Transactions()))
    rows = rows.filter(pa.array(rows["kind"].to_numpy() <= DecodedKind.COMMIT_RUNS))
    some = pa.array([BROKEN, "mailer", "sensor-archive"])
    rows = rows.filter(pa.compute.is_in(rows["group"], some))
    order = ("group", "log_partition", "log_offset", "kind")
    return tuple(rows.sort_by([(n, "ascending") for n in order]).to_batches(max_chunksize=500))


STATES = tuple((SAMPLE / "cluster.jsonl").read_text(encoding="utf-8").splitlines())


def _histories(out) -> JobResults:
    """Return what the histories job gives the driver."""
    done = JobResults(SimpleNamespace())
    job = histories.HistoriesJob(SimpleNamespace(value=STATES), Selection(), str(out), "r")
    batches = job.rebuild_histories(iter(_batches()))
    done.kept = _received(batches, done)
    return done


def _received(batches, done) -> list[SpilledHistory]:
    return _add_results(LocalRows(lambda: batches), done)


def _groups(out, done) -> dict[str, dict]:
    paths = [out / one.path for one in done.receipts if one.table == "groups"]
    rows = [row for path in paths for row in parquet.ParquetFile(path).read().to_pylist()]
    return {row["group"]: row for row in rows}


def _raises(self, *_):
    if getattr(self, "name", BROKEN) == BROKEN:
        raise ZeroDivisionError("a mistake of ours")
    return _RECORD(self, *_)


_RECORD = GroupRows.process_record


def test_a_group_that_cannot_be_rebuilt_is_failed(tmp_path, monkeypatch) -> None:
    """Its row has reason and traceback; the other groups are as without the mistake."""
    whole = _histories(tmp_path / "whole")
    expected = _groups(tmp_path / "whole", whole)
    monkeypatch.setattr(GroupRows, "process_record", _raises)
    done = _histories(tmp_path / "out")
    found = _groups(tmp_path / "out", done)
    assert found.keys() == expected.keys()
    assert found[BROKEN]["status"] == "failed"
    assert found[BROKEN]["why"] == "ZeroDivisionError: a mistake of ours"
    assert "_raises" in found[BROKEN]["traceback"]
    assert {n: r for n, r in found.items() if n != BROKEN} == {
        n: r for n, r in expected.items() if n != BROKEN
    }
    assert {one.group for one in done.kept} == {"mailer", "sensor-archive"}
    (totals,) = [json.loads(g) for g in done.groups if json.loads(g)["group"] == BROKEN]
    assert totals["status"] == "failed"


def test_a_group_that_fails_at_its_end_has_one_row(tmp_path, monkeypatch) -> None:
    """The row of table groups is written once, when nothing can fail any more."""
    monkeypatch.setattr(RebalanceCollector, "finish_group", _raises)
    found = _groups(tmp_path, _histories(tmp_path))
    assert {row["status"] for row in found.values()} == {"failed"}


def test_an_error_of_the_machine_ends_the_run(tmp_path, monkeypatch) -> None:
    """A full disk is no mistake in one group."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(GroupRows, "process_record", full)
    with pytest.raises(OSError, match="No space"):
        _histories(tmp_path)


def test_a_group_that_cannot_be_replayed_is_failed(tmp_path, monkeypatch) -> None:
    """Rows of table groups are written before the replay; they are put right after it."""
    done = _histories(tmp_path)
    run = lives._UnitSimulation.simulate_unit

    def broken(simulation):
        run(simulation)
        if simulation.unit.history.group == BROKEN:
            raise KeyError("spoilt")

    monkeypatch.setattr(lives._UnitSimulation, "simulate_unit", broken)
    work = [work_units(done.kept, policies=1, cores=1)]
    values = (work, STATES, StreamsInputs())
    batches = lives._simulate_units(
        tuple(SimpleNamespace(value=value) for value in values),
        (Policy.of("range"),), Selection(), (str(tmp_path), "r"), [pa.record_batch({"id": [0]})],
    )  # fmt: skip
    assert _received(batches, done) == []
    mark_failed(tmp_path, done)
    found = _groups(tmp_path, done)
    statuses = {name: row["status"] for name, row in found.items()}
    assert statuses == {BROKEN: "failed", "mailer": "replayed", "sensor-archive": "replayed"}
    assert found[BROKEN]["why"] == "KeyError: 'spoilt'"
    assert BROKEN not in done.simulated.groups
    assert all((tmp_path / r.path).stat().st_size == r.bytes for r in done.receipts)


def test_the_report_leaves_a_failed_group_out_and_says_so(tmp_path) -> None:
    """Its figures are in no sum; a note names it."""
    rows = made_tables()
    name = rows["groups"][0]["group"]
    rows["groups"][0] |= {"status": "failed", "why": "KeyError: 'spoilt'", "traceback": "..."}
    run = load_run(PublishedRun(published(tmp_path, rows)))
    (group,) = run.failed_groups
    assert (group.name, group.was_replayed) == (name, False)
    assert any(name in note and "KeyError" in note for note in limit_notes(run))


def test_the_command_ends_with_4(tmp_path, capsys) -> None:
    """The group and the reason are on stderr."""
    rows = made_tables()
    rows["groups"][0] |= {"status": "failed", "why": "KeyError: 'spoilt'", "traceback": "..."}
    run = load_run(PublishedRun(published(tmp_path, rows)))
    with pytest.raises(typer.Exit) as ended:
        _judged(run)
    assert ended.value.exit_code == 4
    assert "failed: KeyError: 'spoilt'" in capsys.readouterr().err
