"""Owners at an instant in a gap of the log: unknown, with the missing generations."""

from __future__ import annotations

import pyarrow as pa
import pytest

from partage.report.owners import HistoryGap, gaps_at


class Run:
    """Return a run with one table."""

    def table(self, name: str, columns: list[str]) -> pa.Table:
        assert name == "rebalances"
        rows = [("g", 5, 1_000, 4), ("g", 9, 9_000, 3), ("g", 10, 9_500, 0), ("h", 1, 5_000, 0)]
        table = pa.table({
            "group": [r[0] for r in rows], "incarnation": [0] * 4,
            "generation": [r[1] for r in rows], "time_ms": [r[2] for r in rows],
            "gap_before": [r[3] for r in rows], "log_partition": [0] * 4,
            "log_offset": [1, 2, 3, 4],
        })  # fmt: skip
        return table.select(columns)


@pytest.mark.parametrize(
    ("time_ms", "missing"),
    [
        (500, HistoryGap("g", 4, None, None, 1_000, 5)),
        (1_000, HistoryGap("g", 3, 1_000, 5, 9_000, 9)),
        (8_999, HistoryGap("g", 3, 1_000, 5, 9_000, 9)),
        (9_000, None),
        (99_000, None),
    ],
)
def test_a_gap_is_found_at_its_instants(time_ms, missing) -> None:
    """An instant before the first record, or between two with missing generations, is in a gap."""
    assert gaps_at(Run(), time_ms) == ([] if missing is None else [missing])
    assert gaps_at(Run(), time_ms, groups=["h"]) == []
