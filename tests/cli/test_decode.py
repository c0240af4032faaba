"""`partage decode`: every record of the sample as Kafka's own decoder printed it, and damaged ones."""

from __future__ import annotations

import json
import lzma

import pytest

pytest.importorskip("pyarrow")

from tests.support.captured import DATA, SAMPLE
from tests.support.captures import capture, records
from typer.testing import CliRunner

from partage.cli.app import app


def run(*arguments: str):
    return CliRunner().invoke(app, ["decode", *arguments])


def lines(*arguments: str) -> list[dict]:
    done = run(*arguments)
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_all_records_as_kafka_decodes_them() -> None:
    """94,434 lines, each equal to Kafka's; of Streams' user data it has texts, we have fields."""
    wanted = {}
    with lzma.open(DATA / "decoded.jsonl.xz", "rt", encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            wanted[record["partition"], record["offset"]] = record
    found = lines(str(SAMPLE))
    ours_at = {(record["partition"], record["offset"]): record for record in found}
    assert len(found) == len(wanted) == 94_434
    assignments = 0
    for record in wanted.values():
        ours = ours_at[record["partition"], record["offset"]].get("members_decoded", ())
        for member, mine in zip(record.get("members_decoded", ()), ours, strict=True):
            for name in ("streamsSubscription", "streamsAssignment"):
                assert (member.pop(name, None) is None) == (mine.pop(name, None) is None)
                assignments += name == "streamsAssignment"
    assert assignments > 48
    wrong = [r for r in found if r != wanted[r["partition"], r["offset"]]]
    assert not wrong


def test_a_file_a_type_a_group_and_a_limit() -> None:
    """A file instead of a capture; only a type, by name or number; only a group; only so many."""
    file = str(SAMPLE / "consumer_offsets.parquet")
    some = lines(file, "--type", "group_metadata", "--limit", "3")
    assert [r["type"] for r in some] == ["GROUP_METADATA"] * 3
    assert lines(file, "--type", "2", "-n", "3") == some
    assert {r["key"]["group"] for r in lines(file, "--type", "2", "-g", "billing")} == {"billing"}
    assert lines(file, "--limit", "0") == []


def test_damaged_records_are_kept_and_counted(tmp_path) -> None:
    """A record that cannot be decoded is a line with its place and reason; stderr counts them."""
    import pyarrow as pa

    table = records().slice(0, 10)
    keys = table["key"].to_pylist()
    keys[3], keys[7] = None, b"\x7f\xff"
    table = table.set_column(
        table.schema.get_field_index("key"), "key", pa.array(keys, pa.binary())
    )
    done = run(str(capture(tmp_path / "capture", table)))
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 0
    assert len(found) == 10
    bad = [r for r in found if "error" in r]
    places = [(table["partition"][i].as_py(), table["offset"][i].as_py()) for i in (3, 7)]
    assert [(r["partition"], r["offset"]) for r in bad] == places
    assert all(set(r) == {"partition", "offset", "error"} for r in bad)
    assert "2 of 10 records could not be decoded" in done.stderr


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: None, "no such"),
        (lambda p: p.mkdir(), "no Parquet files"),
        (lambda p: p.write_bytes(b""), "not a readable Parquet file"),
        (lambda p: p.write_text("{}"), "not a readable Parquet file"),
    ],
)
def test_what_is_no_capture_is_said(tmp_path, make, said) -> None:
    """No file, an empty folder, an empty or foreign file: one line, exit code 1."""
    path = tmp_path / "it"
    make(path)
    done = run(str(path))
    assert done.exit_code == 1
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_unknown_type_is_wrong_usage() -> None:
    """A record type that Kafka does not have: exit code 2, and the list of those it has."""
    done = run(str(SAMPLE), "--type", "NO_SUCH")
    assert done.exit_code == 2
    assert "GROUP_METADATA" in done.stderr
