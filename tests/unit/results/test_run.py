"""Finished runs in Python: typed rows, Arrow data, a group, the page, and the text in a terminal."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from tests.support.captures import capture, records
from tests.support.compared_runs import made_run
from tests.support.notebooks import parsed
from tests.support.published import NASTY, published, tables

import partage as pg
from partage.results.tables import (
    AdviceResult,
    EventResult,
    GroupResult,
    OwnershipResult,
    PolicyResult,
    RebalanceResult,
    TableView,
)
from partage.tables.schemas import table_schema


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pg.Run:
    """A made-up run of three groups."""
    rows = tables()
    event = {
        "group": "orders", "incarnation": 0, "generation": 2, "log_partition": 0, "log_offset": 20,
        "position": 0, "time_ms": 2_000, "event": "join", "member": "m", "instance": None,
        "source": "inferred", "detail": None,
    }  # fmt: skip
    rows["events"] = [event, event | {"generation": 1, "log_offset": 10, "time_ms": 1_000}]
    return pg.open_run(published(tmp_path_factory.mktemp("run") / "out", rows))


def test_rows_have_types_and_order(run: pg.Run) -> None:
    """Rows are dataclasses in log order; times are datetimes in UTC."""
    assert {row.group for row in run.groups} == {"orders", NASTY, "streamy"}
    first = run.group("orders").rebalances[0]
    assert isinstance(first, RebalanceResult)
    assert (first.generation, first.cause, first.detail) == (1, "join", "1 joined")
    assert first.time == datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)
    assert [one.generation for one in run.group("orders").timeline] == [1, 2]
    assert isinstance(run.groups[0].clients, tuple)
    assert run.rebalances[-1].generation == 2
    with pytest.raises(IndexError):
        run.groups[3]


def test_causes_have_the_names_of_the_report(tmp_path: Path) -> None:
    """A group, a rebalance and an event say `session timeout` as page and terminal do; `where`
    takes the kind of the published tables, too.
    """
    steps = [{"cause_kind": "first"}, {"unread": 9.0, "cause_kind": "expiry"}, {"unread": 1.0}]
    run = pg.open_run(made_run(tmp_path / "run", {"billing": steps}))
    assert run.groups[0].main_cause == "session timeout"
    assert run.to_dict()["groups"][0]["verdict"]["main_cause"] == "session timeout"
    assert [one.cause for one in run.rebalances] == ["first", "session timeout", "join"]
    for name in ("session timeout", "expiry"):
        assert [one.generation for one in run.rebalances.where(cause=name)] == [2], name
        assert len(run.groups.where(main_cause=name)) == 1
    assert "session timeout" in repr(run.rebalances)
    assert "session timeout" in run._repr_html_()
    assert run.table("rebalances")["cause_kind"].to_pylist() == ["first", "expiry", "join"]


def test_policies_begin_with_the_record(run: pg.Run) -> None:
    """Each policy has a row for all groups and for one, with the figures of the report."""
    assert [row.policy for row in run.policies] == ["recorded", "range", "fair"]
    assert [row.moved for row in run.policies] == [12, 12, 12]
    assert [row.moved for row in run.group("orders").policies] == [6, 6, 6]


def test_advice_is_of_known_groups(run: pg.Run) -> None:
    """A group's recommendations are those of the run for it."""
    for group in run.groups:
        mine = list(run.group(group.group).advice)
        assert mine == [one for one in run.advice if one.group == group.group]
        assert [one.rank for one in mine] == list(range(1, len(mine) + 1))


@pytest.mark.parametrize("name", ["groups", "rebalances", "policies", "advice"])
def test_other_libraries_take_the_rows_as_arrow(run: pg.Run, name: str) -> None:
    """The PyCapsule stream, pyarrow and pandas have the same rows as the sequence."""
    view = getattr(run, name)
    table = pa.table(view)
    assert table.equals(view.to_arrow())
    assert table.num_rows == len(view) == len(list(view)) == len(view.to_pandas())
    assert table.column_names == list(view.columns) == list(view.to_pandas().columns)


def test_rows_of_tables_are_published_columns() -> None:
    """Each field of a published row's type is a column of its table."""
    for row, table in (
        (RebalanceResult, "rebalances"), (EventResult, "events"), (OwnershipResult, "ownership"),
    ):  # fmt: skip
        names = [row.COLUMNS.get(one.name, one.name) for one in fields(row)]
        assert set(names) <= set(table_schema(table).names)
        kinds = [str(one.type).endswith("| None") for one in fields(row)]
        assert kinds == [table_schema(table).field(name).nullable for name in names]


def test_a_slice_and_a_filter_are_views(run: pg.Run) -> None:
    """Slices keep the type of rows; a filter by a wrong column or type names it."""
    assert isinstance(run.rebalances[1:3], TableView)
    assert [one.generation for one in run.rebalances[::2]] == [1, 1]
    assert len(run.rebalances.where(group="orders", generation=2)) == 1
    assert len(run.rebalances.where(storm=None)) == 4
    with pytest.raises(pg.InvalidConfigError, match="setting kind: must be one of group"):
        run.rebalances.where(kind="join")
    with pytest.raises(pg.InvalidConfigError, match="setting generation: must be int64"):
        run.rebalances.where(generation="two")


def test_wrong_names_are_errors_that_name_them(run: pg.Run, tmp_path: Path) -> None:
    """A group, a table, a folder that is not there."""
    with pytest.raises(
        pg.InvalidConfigError, match=r"setting group: must be a group of the run .*mean orders\?"
    ):
        run.group("ordres")
    with pytest.raises(pg.InvalidConfigError) as nothing_near:
        run.group("zzz")
    assert "did you mean" not in str(nothing_near.value)
    with pytest.raises(pg.InvalidConfigError, match="setting name: must be one of"):
        run.table("group")
    with pytest.raises(pg.InvalidCaptureError, match="no published run"):
        pg.open_run(tmp_path)
    assert run.table("groups").num_rows == 3


def test_the_page_is_written(run: pg.Run, tmp_path: Path) -> None:
    """`report` returns the path of the page; a folder that is missing is an error."""
    assert run.report(tmp_path / "page.html").stat().st_size > 10_000
    with pytest.raises(pg.InvalidConfigError, match="setting path: cannot be written"):
        run.report(tmp_path / "none" / "page.html")


def test_an_address_is_no_local_folder(run: pg.Run, tmp_path: Path, monkeypatch) -> None:
    """Every function that writes refuses s3a://, which became a local folder `s3a:`."""
    monkeypatch.chdir(tmp_path)
    root = Path(__file__).resolve().parents[3]
    plan = pg.reassign(root / "examples/new_broker.json", "rebalance")
    for call in (
        lambda: run.report("s3a://bucket/page.html"),
        lambda: plan.write("s3a://bucket/plan"),
        lambda: pg.capture_cluster("s3a://bucket/capture", "localhost:1"),
        lambda: pg.replay(run.folder, out="s3a://bucket/run"),
    ):
        with pytest.raises(pg.InvalidConfigError, match="cannot write to s3a addresses yet"):
            call()
    assert not list(tmp_path.iterdir())


def test_text_in_a_terminal_is_short(run: pg.Run) -> None:
    """A run, a group and a table print a head and at most ten rows, each on one line."""
    assert repr(run).startswith(f"Run {run.id}: ")
    assert "3 rows of GroupResult" in repr(run)
    assert repr(run.group("orders")).startswith("Group orders: classic, replayed, 2 rebalances")
    many = TableView.of(AdviceResult, [
        AdviceResult("g\n" * 50, rank, "t", "", None, None, None, None, "", "", (), None, "", "", "", "")
        for rank in range(1, 13)
    ])  # fmt: skip
    lines = repr(many).splitlines()
    assert lines[0] == "12 rows of AdviceResult, 11 more columns"
    assert len(lines) == 13
    assert lines[-1] == "... 2 more rows"
    assert repr(TableView.of(PolicyResult, [])).startswith("0 rows of PolicyResult")
    assert TableView.of(GroupResult, []).to_arrow().num_rows == 0


def test_a_replay_without_a_folder_removes_its_tables(tmp_path: Path) -> None:
    """The temporary folder lasts as long as the run; with `out` the run can be opened again."""
    folder = capture(tmp_path / "c", records().slice(0, 1_000))
    run = pg.replay(folder, policies="range", groups="*")
    assert run.summary["engine"]["name"] == "local"
    assert run.summary["selection"] == {"groups": ["*"]}
    place = run.folder
    assert (place / "manifest.json").is_file()
    del run
    assert not place.exists()
    kept = pg.replay(folder, policies=["range"], out=tmp_path / "out", engine="local")
    assert pg.open_run(tmp_path / "out").id == kept.id
    with pytest.raises(pg.InvalidConfigError, match="setting since"):
        pg.replay(folder, since="yesterday")


def test_notebooks_show_tables_with_pictures(run: pg.Run) -> None:
    """Names of groups and members stay text; a run and a group have a small picture."""
    group = run.group(NASTY)
    for value in (run, group, run.groups, run.rebalances, run.policies, run.advice):
        html = value._repr_html_()
        found = parsed(html)
        assert "script" not in found.tags
        assert {"table", "style"} <= set(found.tags)
        assert "prefers-color-scheme" in html
    assert "svg" in parsed(run._repr_html_()).tags  # no bar: the cost of its groups is unknown
    assert {"svg", "rect"} <= set(parsed(group._repr_html_()).tags)
    text = "".join(parsed(run._repr_html_()).text)
    assert NASTY in text
    assert repr(run).splitlines()[0] in text


def test_progress_is_shown_if_wanted_and_in_a_session(tmp_path, capsys, monkeypatch) -> None:
    """One line on stderr with progress=True or at a prompt, nothing in a script; an error ends the
    line with its stage.
    """
    folder = capture(tmp_path / "c", records().slice(0, 1_000))
    arguments = {"policies": "range", "engine": "local"}
    pg.replay(folder, **arguments)
    assert capsys.readouterr() == ("", "")
    pg.replay(folder, progress=True, **arguments)
    shown = capsys.readouterr()
    assert shown.out == ""
    stages = [re.split(r" \(|:", one)[0].strip() for one in shown.err.split("\r")]
    assert list(dict.fromkeys(stages[1:-1])) == [
        "checking the capture", "decoding records", "rebuilding histories",
        "simulating rebalances under other policies", "publishing tables",
    ]  # fmt: skip
    assert re.fullmatch(
        r"replayed 1,000 records, \d+ rebalances in \d+ s *\n", shown.err.split("\r")[-1]
    )
    monkeypatch.setattr("sys.ps1", ">>> ", raising=False)
    pg.replay(folder, **arguments)
    assert capsys.readouterr().err.startswith("\rchecking the capture")
    pg.replay(folder, progress=False, **arguments)
    assert capsys.readouterr() == ("", "")
    with pytest.raises(pg.InvalidConfigError, match="setting groups"):
        pg.replay(folder, groups="none", **arguments)
    assert "stopped while rebuilding histories after" in capsys.readouterr().err


def test_a_notebook_has_one_output_for_progress(tmp_path, capsys, monkeypatch) -> None:
    """Each update replaces the output; the last one has the counts and the time."""
    shown: list[str] = []

    class Output:
        def update(self, data: dict[str, str], *, raw: bool) -> None:
            assert raw
            shown.append(data["text/plain"])

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> Output:
        assert not shown
        assert display_id
        Output().update(data, raw=raw)
        return Output()

    monkeypatch.setattr("sys.ps1", "In : ", raising=False)  # as IPython does
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    folder = capture(tmp_path / "c", records().slice(0, 1_000))
    pg.replay(folder, policies="range", engine="local")
    assert capsys.readouterr() == ("", "")
    assert shown[0].startswith("checking the capture")
    assert shown[-1].startswith("replayed 1,000 records")
