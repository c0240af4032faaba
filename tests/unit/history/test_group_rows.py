"""Rows of the tables of all recorded groups, made as a worker makes them, without Spark."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.support.captured import SAMPLE, clusters

from partage.history.transactions import Transactions
from partage.jobs.replay.capture import read_context
from partage.jobs.replay.decode import decode_table
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.group_rows import GroupRows, read_group_inputs
from partage.tables.schemas import COLUMNS, table_schema


class Rows:
    """Takes rows as `TableWriters` does."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict]] = {name: [] for name in COLUMNS}

    def write_row(self, table: str, row: dict) -> None:
        self.tables[table].append(row)

    def add_columns(self, table: str, columns: dict, count: int) -> None:
        rows = pa.table(columns).to_pylist()
        assert len(rows) == count
        self.tables[table] += rows


@cache
def made() -> dict[str, list[dict]]:
    table = parquet.read_table(SAMPLE / "consumer_offsets.parquet")
    table = table.set_column(0, "partition", table["partition"].cast(pa.int64()))
    batches = Transactions(parquet.read_table(SAMPLE / "batches.parquet").to_pylist())
    rows = pa.Table.from_batches(decode_table(table, batches))
    rows = rows.filter(pa.array(rows["kind"].to_numpy() <= DecodedKind.COMMIT_RUNS))
    order = ("group", "log_partition", "log_offset", "kind")
    rows = rows.sort_by([(name, "ascending") for name in order])
    out, groups = Rows(), {}
    for some in read_group_inputs(rows.to_batches(max_chunksize=5_000)):
        if some.group not in groups:
            groups[some.group] = GroupRows(some.group, clusters(), out, read_context(SAMPLE))
        groups[some.group].process_input(some)
    for one in groups.values():
        one.finish_group()
    return out.tables


@pytest.mark.parametrize(
    "table",
    [
        "groups",
        "events",
        "rebalances",
        "members",
        "ownership",
        "pauses",
        "commit_rates",
        "unread",
    ],
)
def test_rows_are_of_their_tables(table: str) -> None:
    """Every row has columns of its table only, of their types, and null only where it may be."""
    rows = made()[table]
    open_yet = {"run_id", "agrees", "judged_by", "disagreement", "assumed", "partage"}
    assert rows
    names = {name for name, _, _ in COLUMNS[table]}
    for row in rows:
        assert names - open_yet <= row.keys() <= names
    whole = pa.Table.from_pylist([{**r, "run_id": "r"} for r in rows], schema=table_schema(table))
    for column in table_schema(table):
        if not column.nullable:
            assert not whole[column.name].null_count, column.name


def test_each_rebalance_is_there_once() -> None:
    """688 rows: generations and target assignments, each with a cause; 68 follow-ups, of these
    62 of 176 cooperative-sticky ones.
    """
    rows = made()["rebalances"]
    keys = [(r["group"], r["incarnation"], r["generation"], r["protocol"]) for r in rows]
    assert len(set(keys)) == len(keys) == 688
    assert Counter(r["protocol"] for r in rows) == {
        "classic": 479, "consumer": 155, "share": 40, "streams": 14,
    }  # fmt: skip
    cooperative = [r for r in rows if r["strategy"] == "cooperative-sticky"]
    assert sum(r["follow_up"] for r in cooperative) == 62


def test_lengths_of_rebalances_are_bounds() -> None:
    """Where commits tell how long a rebalance took, at least is never more than at most."""
    rows = [r for r in made()["rebalances"] if r["stopped_high_ms"] is not None]
    assert len(rows) > 400
    assert all(0 <= r["stopped_low_ms"] <= r["stopped_high_ms"] for r in rows)


def test_events_have_an_order() -> None:
    """Events of one record are numbered from 0 without a gap."""
    seen: dict = {}
    for row in made()["events"]:
        key = row["group"], row["log_partition"], row["log_offset"]
        seen.setdefault(key, []).append(row["position"])
    assert sum(p == list(range(len(p))) for p in seen.values()) >= 0.99 * len(seen)


def test_minutes_are_there_once() -> None:
    """Each partition and minute has one row of rates, whatever cut its runs."""
    keys = Counter(
        (r["group"], r["topic"], r["partition"], r["minute_ms"]) for r in made()["commit_rates"]
    )
    assert max(keys.values()) == 1
    commits = sum(r["commits"] for r in made()["commit_rates"])
    assert commits == 91_692 - 163, "all but those of aborted transactions"


def test_coverage_is_what_is_there_by_what_was() -> None:
    """Two groups lack one number each; a group of offsets only has no coverage."""
    by_group = {r["group"]: r for r in made()["groups"]}
    assert {g for g, r in by_group.items() if r["coverage"] not in (1.0, None)} == {
        "clicks-ml", "mailer.alerts",
    }  # fmt: skip
    assert by_group["clicks-ml"]["coverage"] == 23 / 24
    assert by_group["offset-only-job"]["coverage"] is None
    assert by_group["checkout-workers"]["kind"] == "classic+consumer"


def test_roles_of_owners() -> None:
    """Owners, releasing ones, and the tasks' roles; warm-ups the recording had none."""
    roles = Counter(r["role"] for r in made()["ownership"])
    assert set(roles) == {"owner", "releasing", "active", "standby"}
