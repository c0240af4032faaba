"""Who owned what at an instant, and `partage owner`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from pyarrow import parquet
from tests.support.published import NASTY, published, tables
from typer.testing import CliRunner

from partage.cli.command_errors import exit_on_error
from partage.cli.owner import owner
from partage.errors import InvalidConfigError
from partage.jobs.replay.selection import parse_time
from partage.report.owners import Holding, Owner, format_number_ranges, group_by_member, owners_at
from partage.runs.published_run import PublishedRun


def interval(partition: int, member: str, start: int, end: int | None, **more) -> dict:
    return {"group": "g", "incarnation": 0, "topic_id": None, "topic": "t", "partition": partition,
            "member": member, "instance": None, "role": "owner", "from_ms": start, "to_ms": end,
            "from_generation": 1, "to_generation": None} | more  # fmt: skip


ROWS = {
    "groups": [
        {
            "group": one,
            "kind": "classic",
            "status": "replayed",
            "log_partition": 0,
            "records": 1,
            "commits": 0,
            "rebalances": 1,
            "incarnations": 1,
            "missing_generations": 0,
            "claimed": [],
            "clients": [],
        }
        for one in ("g", NASTY)
    ],
    "ownership": [
        interval(0, "a", 1_000, 5_000),
        interval(0, "b", 5_000, None, from_generation=2),
        interval(1, "a", 1_000, None),
        interval(2, "a", 1_000, None),
        interval(0, "x", 1_000, None, topic="other", instance="i-1"),
        interval(0, "n", 1_000, None, group=NASTY),
    ],
}


def run(*arguments: str):
    import typer

    app = typer.Typer()
    app.command()(exit_on_error(owner))
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def out(tmp_path):
    return published(tmp_path, ROWS)


@pytest.mark.parametrize(
    ("time", "first"), [(999, None), (1_000, "a"), (4_999, "a"), (5_000, "b"), (10**12, "b")]
)
def test_an_interval_holds_from_its_beginning_to_before_its_end(out, time, first) -> None:
    """At the instant of a rebalance its new owners own the partitions; open intervals continue."""
    found = owners_at(PublishedRun(out), time, topic="t", groups=["g"])
    assert next((o.member for o in found if o.partition == 0), None) == first


def test_topic_and_group_narrow_it_down(out) -> None:
    """Filters by topic and group work alone, together, and without matches."""
    folder = PublishedRun(out)
    assert len(owners_at(folder, 6_000)) == 5
    assert {o.group for o in owners_at(folder, 6_000, groups=[NASTY])} == {NASTY}
    assert [o.instance for o in owners_at(folder, 6_000, topic="other")] == ["i-1"]
    assert owners_at(folder, 6_000, topic="nope") == []


def test_holdings_put_partitions_together(out) -> None:
    """Owners are grouped by group, topic and member; partitions are ranges."""
    found = list(group_by_member(owners_at(PublishedRun(out), 6_000, topic="t", groups=["g"])))
    assert [(h.member, h.partitions, h.generation) for h in found] == [
        ("b", (0,), 2),
        ("a", (1, 2), 1),
    ]
    assert format_number_ranges([]) == ""
    assert format_number_ranges([3, 4, 5, 9]) == "3-5, 9"


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "1e3", "٣", "9" * 30])
def test_what_is_no_time_is_said(text) -> None:
    """An unreadable time is an error that shows the expected form."""
    with pytest.raises(InvalidConfigError, match="2026-11-21T12:00:00Z"):
        parse_time(text, "--at")


def test_the_command_shows_members_and_a_sum(out) -> None:
    """The table has one row per member, JSON one per partition; names are text."""
    done = run(str(out), "--at", "1970-01-01T00:00:06Z")
    assert done.exit_code == 0, done.stderr
    assert "1-2" in done.stdout
    assert "i-1 (x)" in done.stdout
    assert "5 partitions, 4 members, 2 groups, at 1970-01-01 00:00:06.000 UTC" in done.stdout
    found = json.loads(run(str(out), "--at", "6000", "--topic", "t", "--json").stdout)
    assert found["at_ms"] == 6_000
    assert [o["partition"] for o in found["owners"] if o["group"] == "g"] == [0, 1, 2]


def test_members_are_called_what_people_call_them() -> None:
    """A label has instance or client id and host; a member id that starts with the client id replaces it."""
    one = Holding("g", "t", "Zx81", None, "owner", (0,), 0, 1, "orders-1", "/10.0.0.7")
    assert one.member_label == "orders-1 /10.0.0.7 (Zx81)"
    assert replace(one, member="orders-1-77").member_label == "orders-1-77 /10.0.0.7"
    assert replace(one, instance="i-1").member_label == "i-1 /10.0.0.7 (Zx81)"
    assert replace(one, client_id=None).member_label == "Zx81"


def test_a_static_member_is_one_under_two_ids() -> None:
    """A static member that restarts is one owner under both member ids."""
    old = Owner("g", "t", 0, "i-1-a", "i-1", "owner", 5, None, 1)
    (held,) = group_by_member([old, replace(old, partition=1, member="i-1-b", from_ms=9)])
    assert (held.member, held.partitions) == ("i-1-b", (0, 1))


def test_groups_may_be_a_pattern(out) -> None:
    """A group pattern without matches is an error, as in replay."""
    assert "1-2" in run(str(out), "--at", "6000", "--group", "[f-h]*").stdout
    done = run(str(out), "--at", "6000", "--group", "orders-*")
    assert done.exit_code == 1
    assert "no such group in this run" in done.stderr


def test_times_outside_the_record_are_doubted(out) -> None:
    """Before the record no owner is known; after it the last owners are shown; both with a warning."""
    early = run(str(out), "--at", "0")
    assert early.exit_code == 0
    assert "the record begins at" in early.stderr
    assert "no member owned a partition at" in early.stdout
    assert "the record ends at" in run(str(out), "--at", "99999").stderr


def test_a_folder_without_a_run_is_said(tmp_path) -> None:
    """A missing run prints one line on stderr and exits with code 1."""
    done = run(str(tmp_path), "--at", "0")
    assert done.exit_code == 1
    assert "partage replay" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_of_32_kb_takes_a_few_lines(tmp_path) -> None:
    """The table shortens long names; JSON has them whole."""
    long = "g" * 32_767
    rows = ROWS | {"ownership": [interval(0, "m" * 32_767, 1_000, None, group=long)]}
    out = published(tmp_path, rows)
    shown = run(str(out), "--at", "6000").stdout
    assert "32,767 characters" in shown
    assert len(shown) < 2_000
    assert json.loads(run(str(out), "--at", "6000", "--json").stdout)["owners"][0]["group"] == long


@pytest.mark.parametrize("table", ["ownership", "rebalances", "members", "groups"])
@pytest.mark.parametrize("spoil", ["drop", "null", "other"])
def test_a_table_edited_by_hand_is_named(tmp_path, table, spoil) -> None:
    """A missing, null or mistyped column is an InvalidCaptureError that names it."""
    out = published(tmp_path, {**tables(), **ROWS})
    column = {"ownership": "from_generation", "rebalances": "time_ms", "members": "member",
              "groups": "group"}[table]  # fmt: skip
    for path in (out / "tables" / table).rglob("*.parquet"):
        found = parquet.ParquetFile(path).read()
        at = found.schema.get_field_index(column)
        if spoil == "drop":
            found = found.remove_column(at)
        else:
            cells = pa.nulls(found.num_rows) if spoil == "null" else [b"x"] * found.num_rows
            found = found.set_column(at, column, pa.array(cells) if spoil == "other" else cells)
        parquet.write_table(found, path)
    done = run(str(out), "--at", "6000", "--group", "g")
    assert done.exit_code == 1
    assert "unexpected" not in done.stderr
    assert column in done.stderr or table in done.stderr or "no such group" in done.stderr
