"""How fast the recorded cluster's group log is decoded: record by record, and by the column.

Prints CPU seconds of the best of some rounds, on one core; judges nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet

import partage
from partage.wire.columns import BinaryColumn
from partage.wire.columns.commits import decode_offset_commits
from partage.wire.group_log import decode_record, encode_record
from partage.wire.record_json import to_json

ROUNDS = 5
SAMPLE = Path(partage.__file__).parent / "sample" / "consumer_offsets.parquet"


def best(work: Callable[[], Any]) -> float:
    """CPU seconds of the fastest round."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def main() -> None:
    """Print one line a way."""
    table = pyarrow.parquet.read_table(SAMPLE)
    keys, values = table["key"].to_pylist(), table["value"].to_pylist()
    pairs = list(zip(keys, values, strict=True))
    records = [decode_record(key, value) for key, value in pairs]
    columns = []
    for name in ("key", "value"):
        array = table[name].combine_chunks()
        whole = array.chunk(0) if hasattr(array, "num_chunks") else array
        columns.append(
            BinaryColumn.from_buffers(whole.buffers(), length=len(whole), offset=whole.offset)
        )
    ways = {
        "decode_record": lambda: [decode_record(key, value) for key, value in pairs],
        "to_json": lambda: [to_json(r, partition=0, offset=0, timestamp_ms=0) for r in records],
        "encode_record": lambda: [
            encode_record(r.key_version, r.key, version=r.value_version, value=r.value)
            for r in records
        ],
        "decode_offset_commits": lambda: decode_offset_commits(*columns),
    }
    for name, work in ways.items():
        seconds = best(work)
        print(f"{name:24} {seconds:7.3f} s {len(pairs) / seconds:12,.0f} records/s")


if __name__ == "__main__":
    main()
