"""Records that are there twice: the same capture given twice, or those of two clusters mixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partage.errors import InvalidCaptureError
from partage.jobs.replay.all_records import record_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from partage.jobs.replay.capture import Capture
    from partage.jobs.replay.tally import Tally

__all__ = ["expect_no_doubles", "overlapping"]


def overlapping(tally: Tally) -> list[int]:
    """Log partitions whose batches overlap: only there can a record be twice.

    >>> from partage.jobs.replay.tally import Tally
    >>> tally = Tally()
    >>> tally.ranges = {0: [[0, 9, 10], [10, 19, 10]], 1: [[0, 9, 10], [5, 9, 2]]}
    >>> overlapping(tally)
    [1]
    """
    out = []
    for p, ranges in sorted(tally.ranges.items()):
        highest = None
        for first, last, _ in sorted(ranges):
            if highest is not None and first <= highest:
                out.append(p)
                break
            highest = last if highest is None else max(highest, last)
        else:
            if any(count > last - first + 1 for first, last, count in ranges):
                out.append(p)
    return out


def expect_no_doubles(spark: SparkSession, capture: Capture, tally: Tally) -> None:
    """No place in the log has two records. Reads places once more, where ranges overlap.

    Raises:
        InvalidCaptureError: some have; says which one, and whether both are the same.
    """
    partitions = overlapping(tally)
    if not partitions:
        return
    wanted = ", ".join(map(str, partitions))
    found = (
        _places(spark, capture)
        .where(f"partition in ({wanted})")
        .groupBy("partition", "offset")
        .agg({"*": "count", "content": "approx_count_distinct"})
        .toDF("partition", "offset", "records", "contents")
        .where("records > 1")
    )
    doubles = found.count()
    if not doubles:
        return
    row = found.orderBy("partition", "offset").first()
    if row is None:
        return
    two = row.contents > 1
    what = (
        "they differ: captures of two clusters are mixed; give those of one"
        if two
        else "they are the same: was a capture given twice? give it once"
    )
    raise InvalidCaptureError(
        f"{capture.folder}: {doubles} places in the log have more than one record, the first is "
        f"partition {row.partition} offset {row.offset}; {what}"
    )


def _places(spark: SparkSession, capture: Capture) -> DataFrame:
    """Where each record stands, and a hash of what it says."""
    rows = record_rows(spark, capture)
    return rows.selectExpr("partition", "offset", "xxhash64(key, value) as content")
