from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.captured import DATA, SAMPLE

from partage.history.transactions import TransactionOutcome, Transactions


def batch(base: int, last: int, producer: int, control: str | None = None) -> dict:
    return {"partition": 0, "base_offset": base, "last_offset": last, "producer_id": producer,
            "transactional": True, "control": control is not None, "control_type": control,
            "max_timestamp_ms": base * 10}  # fmt: skip


def outcomes(rows: list[dict], *offsets: int) -> list[tuple[str, int, int]]:
    at = np.array(offsets, np.int64)
    found = Transactions(rows).find_outcomes(0, at, at)
    return [(TransactionOutcome(o).name, a, t) for o, a, t in
            zip(found.outcome, found.offset.tolist(), found.time_ms.tolist(), strict=True)]  # fmt: skip


def test_two_producers_interleave() -> None:
    """Each batch belongs to the next marker of its own producer, even if others write in between."""
    rows = [batch(1, 2, 7), batch(3, 4, 8), batch(5, 5, 7, "ABORT"), batch(6, 6, 8, "COMMIT")]
    assert outcomes(rows, 1, 2, 3, 4, 9) == [
        ("ABORTED", 5, 50), ("ABORTED", 5, 50), ("COMMITTED", 6, 60), ("COMMITTED", 6, 60),
        ("PLAIN", 9, 9),
    ]  # fmt: skip


def test_a_transaction_without_end_has_had_no_effect() -> None:
    """Where the log ends before the marker, the commit is open."""
    assert outcomes([batch(1, 2, 7, None)], 1) == [("OPEN", 1, 10)]


def test_without_batches_all_is_plain() -> None:
    """No table of batches, no transactions: every record counts where it stands."""
    assert outcomes([], 4) == [("PLAIN", 4, 4)]


def test_the_recording_has_the_aborted_records_it_counted() -> None:
    """163 records of the sample belong to aborted transactions, as its summary says."""
    parquet = pytest.importorskip("pyarrow.parquet")
    compute = pytest.importorskip("pyarrow.compute")
    table = parquet.read_table(SAMPLE / "batches.parquet").to_pylist()
    records = parquet.read_table(
        SAMPLE / "consumer_offsets.parquet", columns=["partition", "offset"]
    )
    found = Transactions(table)
    aborted = 0
    for p in range(8):
        mine = records.filter(compute.equal(records["partition"], p))
        offset = mine["offset"].to_numpy()
        effects = found.find_outcomes(p, offset, offset)
        aborted += int(np.count_nonzero(effects.outcome == TransactionOutcome.ABORTED))
    wanted = json.loads((DATA / "summary.json").read_text(encoding="utf-8"))["aborted_records"]
    assert aborted == wanted == 163
