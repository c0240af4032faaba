"""Rows of the histories job as they come: runs from columns, records as rows, in their order."""

from __future__ import annotations

import pyarrow as pa

from captures import records
from partage.history.commits import CommitRun
from partage.history.transactions import Transactions
from partage.pipeline.arriving import RECORD_COLUMNS, arriving
from partage.pipeline.decode import Kind, decoded
from partage.pipeline.rows import run_of
from partage.pipeline.slices import widened


def test_columns_give_the_runs_that_rows_give() -> None:
    """Every run and record, whatever the size of batches, is what its row as a dict says."""
    table = pa.Table.from_batches(
        list(decoded(widened(records().slice(0, 20_000)), Transactions()))
    )
    kinds = table["kind"].to_numpy()
    table = table.filter(pa.array(kinds <= Kind.COMMIT_RUN))
    ordered = table.sort_by([("group", "ascending"), ("log_offset", "ascending")])
    wanted = [
        (row["group"], run_of(row))
        if row["kind"] == Kind.COMMIT_RUN
        else (row["group"], {name: row[name] for name in RECORD_COLUMNS})
        for row in ordered.to_pylist()
    ]
    assert {type(one) for _, one in wanted} == {CommitRun, dict}
    for size in (1, 999, 100_000):
        assert list(arriving(ordered.to_batches(max_chunksize=size))) == wanted
