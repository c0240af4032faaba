"""Rows of the histories job as they come: runs as columns, records made when they are asked for."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pytest
from tests.support.captures import expanded, records

from partage import kernels
from partage.history.commit_kernels import RUN
from partage.history.records import GroupRecord, LogPosition, parse_classic_state
from partage.history.transactions import Transactions
from partage.jobs.replay import decoded_rows
from partage.jobs.replay.decode import decode_table
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.group_rows import read_group_inputs
from partage.jobs.replay.records import cast_record_columns
from partage.wire.group_log import decode_record


@cache
def ordered() -> pa.Table:
    """Rows of many groups, sorted as Spark sorts them."""
    table = pa.Table.from_batches(
        list(decode_table(cast_record_columns(records().slice(0, 20_000)), Transactions()))
    )
    table = table.filter(pa.array(table["kind"].to_numpy() <= DecodedKind.COMMIT_RUNS))
    return table.sort_by([("group", "ascending"), ("log_offset", "ascending")])


@cache
def raw() -> dict[tuple[int, int], dict]:
    """The capture's rows by their place."""
    return {(row["partition"], row["offset"]): row for row in records().to_pylist()}


def record_of(row: dict) -> GroupRecord:
    """A record as the engine reads it; a classic group's state is compared, not its fields."""
    stored = raw()[row["log_partition"], row["log_offset"]]
    made = decode_record(stored["key"], stored["value"])
    return record_with_state(
        GroupRecord(
            LogPosition(row["log_partition"], row["log_offset"]), row["timestamp_ms"], made.type,
            made.key, made.value,
        )
    )  # fmt: skip


def record_with_state(record: GroupRecord) -> GroupRecord:
    if record.group_protocol != "classic" or record.value is None:
        return record
    at = record.position, record.timestamp_ms, record.type, record.key
    return GroupRecord(*at, None, parse_classic_state(record.value))


@pytest.mark.parametrize(
    ("size", "form"), [(1, "compiled"), (999, "compiled"), (100_000, "by cost")]
)
def test_columns_give_what_rows_give(size: int, form: kernels.Form) -> None:
    """Every run and record, in order, whatever the size of batches; nobody need take records."""
    table = ordered()
    rows = table.to_pylist()
    if size == 1:
        rows, table = rows[:700], table.slice(0, 700)
    rows = expanded(rows)
    got: list[tuple] = []
    with kernels.force_kernel_form(form):
        for some in read_group_inputs(table.to_batches(max_chunksize=size)):
            made = [record_with_state(one) for one in some.records]
            columns = some.runs
            runs = list(zip(
                columns.column_of_runs("stretch").tolist(), columns.topic.tolist(),
                columns.partition.tolist(), columns.positions.T.tolist(),
                columns.table[2:].T.tolist(), strict=True,
            ))  # fmt: skip
            for before in range(len(made) + 1):
                for stretch, topic, *rest in runs:
                    if stretch == before:
                        got.append((some.group, columns.topics[topic], *rest))
                got += [(some.group, one) for one in made[before : before + 1]]
    wanted = [
        (row["group"], record_of(row)) if row["kind"] == DecodedKind.GROUP_RECORD
        else (row["group"], row["topic"], row["topic_partition"],
              [row["log_partition"], row["log_offset"]], numbers(row))
        for row in rows
    ]  # fmt: skip
    assert {len(one) for one in wanted} == {2, 5}
    assert got == wanted


def test_large_batches_are_cut_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of large rows becomes several batches with the same rows, each of limited size."""
    monkeypatch.setattr(decoded_rows, "_MOST_BYTES_AT_ONCE", 5_000)
    batch = ordered().combine_chunks().to_batches()[0]
    pieces = list(decoded_rows.cut_by_bytes(batch))
    assert len(pieces) > 10
    assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches([batch]))
    for piece in pieces:
        sizes = [len(value or b"") for value in piece["value"].to_pylist()]
        assert sum(sizes[1:]) < 5_000


def numbers(row: dict) -> list[int]:
    """The run's cells as `RUN` has them."""
    return [row[name] for name in RUN[2:]]


def test_records_that_nobody_takes_are_not_the_next_groups() -> None:
    """Who leaves a group's records alone does not get them with the group behind it."""
    table = ordered()
    wanted = {(row["group"], row["log_partition"], row["log_offset"]) for row in table.to_pylist()}
    groups = [some.group for some in read_group_inputs(table.to_batches())]
    for i, some in enumerate(read_group_inputs(table.to_batches())):
        if i % 2:
            for one in some.records:
                assert (groups[i], one.position.partition, one.position.offset) in wanted
