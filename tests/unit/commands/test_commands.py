"""Functions that do what the commands do: the documented table, results, and wrong arguments."""

from __future__ import annotations

import json
import re
import sys
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.support.compared_runs import made_run
from typer.testing import CliRunner

import partage as pg
from partage.cli.app import COMMANDS, app

ROOT = Path(__file__).resolve().parents[3]
KEY = b"\x00\x03\x00\x01g"
DAMAGED = b"\x00"
CLUSTER = {
    "brokers": [{"id": 1}, {"id": 2}],
    "topics": {"t": {"partitions": [{"p": p, "leader": 1, "replicas": [1]} for p in (0, 1)]}},
}


def _table() -> list[tuple[str, list[str]]]:
    """Return command and functions of each row of the table in docs/python.md."""
    text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `partage ([^`]+)` \| (.+?) \|", text, re.MULTILINE)
    return [(command, re.findall(r"`pg\.([\w.]+)", functions)) for command, functions in rows]


def test_the_table_has_every_command_and_each_function_exists() -> None:
    """docs/python.md lists all commands and no other; each function can be called."""
    rows = _table()
    assert {command.split()[0] for command, _ in rows} == set(COMMANDS)
    for command, functions in rows:
        assert functions, command
        for name in functions:
            assert callable(attrgetter(name)(pg)), name


@pytest.mark.parametrize(
    "columns",
    [
        ([KEY, DAMAGED], [None, None]),
        (np.array([KEY, DAMAGED], object), np.array([None, None], object)),
        (pa.array([KEY, DAMAGED]), pa.array([None, None], pa.binary())),
        (pa.chunked_array([[KEY], [DAMAGED]]), pa.chunked_array([[None, None]], pa.binary())),
        (pd.Series([KEY, DAMAGED]), pd.Series([None, float("nan")])),
        ({"key": [KEY, DAMAGED], "value": [None, None]},),
        (pd.DataFrame({"key": [KEY, DAMAGED], "value": [None, pd.NA]}),),
        (pa.table({"key": [KEY, DAMAGED], "value": pa.array([None, None], pa.binary())}),),
    ],
    ids=["lists", "numpy", "arrow", "chunked", "pandas", "dict", "data frame", "table"],
)
def test_columns_are_decoded_in_order(columns) -> None:
    """A damaged record has its error, the others are as a single record is decoded."""
    first, second = pg.decode(*columns)
    assert first == pg.decode(KEY, None)
    assert list(second) == ["error"]


def test_places_of_a_table_become_fields() -> None:
    """Partition and offset come first, as the command prints them, also of a damaged record."""
    table = pa.table({"offset": [7, 8], "key": [KEY, DAMAGED], "partition": [1, 1],
                      "value": pa.array([None, None], pa.binary())})  # fmt: skip
    first, second = pg.decode(table)
    assert list(first)[:3] == ["partition", "offset", "type"]
    assert (second["partition"], second["offset"]) == (1, 8)


def test_one_damaged_record_is_an_error() -> None:
    """Bytes that are no record raise, because there is no other record to go on with."""
    with pytest.raises(pg.WireFormatError):
        pg.decode(DAMAGED, None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, Path]:
    """A quiet run, and one with many rebalances."""
    folder = tmp_path_factory.mktemp("runs")
    first, step = {"cause_kind": "first"}, {"unread": 3.6}
    return (
        made_run(folder / "before", {"a": [first, step], "b": [first, step]}, run_id="run-1"),
        made_run(
            folder / "after",
            {"a": [first, *[{"unread": 7.2}] * 30], "b": [first, step]},
            run_id="run-1",
        ),
    )


def _printed(*arguments: str) -> dict:
    return json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)


def test_runs_are_compared_and_checked_as_the_commands_do(runs) -> None:
    """Folders and `Run` objects give the same result, which is that of the commands."""
    from partage.report.run_diff import diff_document

    before, after = runs
    opened = pg.open_run(before), pg.open_run(after)
    printed = _printed("diff", str(before), str(after), "--group", "a")
    assert diff_document(pg.diff(before, after, groups="a")) == printed
    assert diff_document(pg.diff(*opened, groups=["a"])) == printed
    checked = pg.check_run(after, max_unread=0.01, max_rebalances=10)
    expected = _printed("check", str(after), "--max-unread", "1%", "--max-rebalances", "10/h")
    assert checked.to_dict() == expected
    assert pg.check_run(after, max_unread="1%", max_rebalances="10/h").to_dict() == expected
    assert (checked.overall_status, checked.passed) == ("failed", False)
    assert pg.check_run(opened[0], max_rebalances=10).passed


def test_owners_are_those_of_the_command(runs) -> None:
    """Owners at an instant, of one group."""
    found = pg.owner(pg.open_run(runs[0]), 3_600_000, groups="a")
    assert found.to_dict() == _printed("owner", str(runs[0]), "--at", "3600000", "-g", "a")
    assert {one.group for one in found.owners} <= {"a"}


def test_a_plan_is_written_as_the_command_writes_it(tmp_path: Path) -> None:
    """The same files with the same bytes, and the summary of --json."""
    source = tmp_path / "cluster.json"
    source.write_text(json.dumps(CLUSTER))
    planned = pg.reassign(source, throttle=1_000)
    planned.write(tmp_path / "ours")
    folder = tmp_path / "theirs"
    printed = _printed(
        "reassign", "rebalance", str(source), "--throttle", "1000", "-o", str(folder)
    )
    assert json.loads(json.dumps(planned.summary)) == printed
    ours = {file.name: file.read_bytes() for file in (tmp_path / "ours").iterdir()}
    assert ours == {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(pg.InvalidConfigError, match="folder"):
        planned.write(tmp_path / "ours")


def test_streams_values_may_be_numbers() -> None:
    """Settings are written as Kafka's properties, whatever type they have in Python."""
    application = {"seconds": 60, "subtopologies": [{"sources": {"in": 2}}], "clients": {"a": {}}}
    numbers = pg.simulate_streams(application, sweeps={"num.standby.replicas": [0, 1]})
    texts = pg.simulate_streams(application, sweeps={"num.standby.replicas": ["0", "1"]})
    assert numbers == texts


WRONG = [
    (lambda: pg.decode([KEY], None), "source"),
    (lambda: pg.decode(None, "v"), "value"),
    (lambda: pg.decode([KEY], [None, None]), "value"),
    (lambda: pg.decode(KEY, None, groups="g"), "groups"),
    (lambda: pg.decode("capture", types=["NO"]), "types"),
    (lambda: pg.decode({"key": [KEY]}), "source"),
    (lambda: pg.diff(7, "run"), "before"),
    (lambda: pg.check_run("run"), "max_unread"),
    (lambda: pg.check_run("run", max_unread="0.01"), "max_unread"),
    (lambda: pg.check_run("run", max_rebalances=True), "max_rebalances"),
    (lambda: pg.check_run("run", max_rebalances="ten"), "max_rebalances"),
    (lambda: pg.check_run("run", max_unread=2), "max_unread"),
    (lambda: pg.owner("run", "noon"), "at"),
    (lambda: pg.reassign(7), "source"),
    (lambda: pg.reassign("capture", "drain"), "command"),
    (lambda: pg.reassign("capture", "drain-broker"), "brokers"),
    (lambda: pg.reassign("capture", "rebalance", factor=3), "factor"),
    (lambda: pg.reassign("capture", "replace-broker", brokers=[1, 2], by=3), "brokers"),
    (lambda: pg.capture_cluster("capture"), "bootstrap"),
    (lambda: pg.capture_cluster("capture", "b:9092", follow=True), "follow"),
    (lambda: pg.capture_cluster("capture", log_dirs="x", roll_every=0), "roll_every"),
    (lambda: pg.watch_groups("capture", "out"), "stop"),
    (lambda: pg.watch_groups("capture", "out", once=True, every=0), "every"),
    (lambda: pg.simulate_streams(7), "application"),
    (lambda: pg.simulate_streams({}, sweeps={"num.standby.replicas": "1"}), None),
    (lambda: pg.audit("capture", joins=["orders"]), "joins"),
    (lambda: pg.count_keys("no-such.parquet", serializer="none"), "serializer"),
    (lambda: pg.count_keys("no-such.parquet"), "source"),
    (lambda: pg.count_keys("no-such.parquet", partitions=0), "partitions"),
    # A text in place of a list is not taken apart into letters.
    (lambda: pg.count_keys("no-such.parquet", partitions="12"), "partitions"),
    (lambda: pg.live_groups("h:1", strategies="range"), "strategies"),
    (lambda: pg.decode("capture", types="OFFSET_COMMIT"), "types"),
    (lambda: pg.audit("capture", topics="orders"), "topics"),
    (lambda: pg.reassign("no-such.json", "drain-broker", brokers="12"), "brokers"),
    (lambda: pg.reassign("no-such.json", "change-rf", factor=2, topics="t"), "topics"),
    (lambda: pg.reassign("no-such.json", pinned="t"), "pinned"),
    (lambda: pg.reassign("no-such.json", excluded="t"), "excluded"),
    (lambda: pg.size(topics="orders", rate=1.0, capacity=1.0), "topics"),
]


@pytest.mark.parametrize(("call", "argument"), WRONG)
def test_errors_name_the_wrong_argument(call, argument: str | None, tmp_path, monkeypatch) -> None:
    """A wrong argument is named as the function calls it, not as the command does."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pg.PartageError) as raised:
        call()
    assert argument is None or getattr(raised.value, "setting", None) == argument, raised.value


@pytest.mark.parametrize(("made", "message"), [(False, "no such folder"), (True, "cluster.jsonl")])
def test_watch_checks_its_input_before_spark(made, message: str, tmp_path, monkeypatch) -> None:
    """A folder that is missing or empty is reported where Spark and protobuf are not installed."""
    monkeypatch.setitem(sys.modules, "partage.jobs.watch.watch", None)  # its import fails
    folder, out = tmp_path / "capture", str(tmp_path / "out")
    if made:
        folder.mkdir()
    with pytest.raises(pg.InvalidCaptureError, match=message):
        pg.watch_groups(folder, out, once=True)
    done = CliRunner().invoke(app, ["watch", str(folder), "--out", out])
    assert (done.exit_code, message in done.stderr.replace("\n", " ")) == (1, True)
    assert not (tmp_path / "out").exists()
