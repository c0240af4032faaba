"""Rows of table ``commit_rates`` by the column, from whole minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from partage.history.commits import MinuteColumns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["commit_columns"]


def commit_columns(minutes: MinuteColumns, group: str) -> dict[str, pa.Array]:
    """The table's columns, run id left out."""
    import pyarrow as pa

    series = minutes.column("series")
    names = pa.array([topic for topic, _ in minutes.series], pa.string())
    numbers = np.array([partition for _, partition in minutes.series], np.int32)
    without, gap = minutes.column("commits") == 0, minutes.column("gap")
    columns = {
        "group": pa.repeat(pa.scalar(group), len(minutes)), "topic": names.take(pa.array(series)),
        "partition": pa.array(numbers[series]),
        "first_offset": pa.array(minutes.column("first_offset"), mask=without),
        "last_offset": pa.array(minutes.column("last_offset"), mask=without),
        "largest_gap_ms": pa.array(gap, mask=gap < 0),
    }  # fmt: skip
    same = ("minute_ms", "commits", "transactional", "tombstones")
    return columns | {name: pa.array(minutes.column(name)) for name in same}
