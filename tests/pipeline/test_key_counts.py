"""What a worker counts of keys, without Spark: dropped keys, and records without a time."""

from __future__ import annotations

from collections import Counter

import pytest

from partage.pipeline import key_counts
from partage.pipeline.key_counts import Counting, Kind, Spec
from partage.pipeline.key_sources import Columns

pa = pytest.importorskip("pyarrow")

HOUR = 3_600_000


def _rows(counting: Counting) -> list[dict]:
    return [row for batch in counting.rows() for row in batch.to_pylist()]


def test_an_approximate_count_says_by_how_much_it_may_be_low(monkeypatch) -> None:
    """Of thousands of rare keys most are dropped: no count is too high, none is low by more than
    is said, and a key that has more records than that is still there.
    """
    monkeypatch.setattr(key_counts, "_SKETCH", 100)
    counting = Counting(Spec(Columns("id"), "murmur2", (6,), approximate=True))
    true: Counter = Counter()
    for i in range(30):
        keys = [f"rare{i}-{j}" for j in range(150)] + ["hot"] * 40 + ["warm"] * (i % 3)
        keys += [f"often{j}" for j in range(0, 120, 1 + i % 2)]
        true.update(keys)
        counting.add(pa.RecordBatch.from_pydict({"id": keys}))
    rows = _rows(counting)
    low_by = sum(r["records"] for r in rows if r["kind"] == Kind.DROPPED)
    seen = {r["key"].decode(): r["records"] for r in rows if r["kind"] == Kind.KEY}
    assert 0 < low_by < true["hot"]
    assert len(seen) <= 100 < len(true)
    for key, count in true.items():
        assert count - low_by <= seen.get(key, 0) <= count, key
    by_partition = sum(r["records"] for r in rows if r["kind"] == Kind.PARTITION)
    assert by_partition == sum(true.values())  # loads stay exact


def test_records_without_a_time_are_in_no_hour() -> None:
    """A null time is not taken for 1970: its record counts in its partition, and in no hour."""
    counting = Counting(Spec(Columns("id", time="at"), "murmur2", (6,)))
    at = pa.array([None, 5 * HOUR + 1, None, 0], pa.int64())
    batch = pa.RecordBatch.from_pydict({"id": pa.array(["a", "b", "c", "d"]), "at": at})
    counting.add(batch)
    rows = [r for r in _rows(counting) if r["kind"] == Kind.PARTITION]
    assert sum(r["records"] for r in rows) == 4
    assert sorted(r["hour"] for r in rows if r["hour"] >= 0) == [0, 5 * HOUR]
