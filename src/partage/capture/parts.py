"""Parquet files of a capture's tables: writing one, and dropping rows of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from partage.capture.durable import published

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["drop_cut_rows", "put_table"]


def put_table(path: Path, table: pa.Table) -> None:
    """Write one file of a table atomically and flush it to the disk."""
    from pyarrow import parquet

    def write(aside: Path) -> None:
        parquet.write_table(table, aside, compression="zstd", write_page_checksum=True)

    published(path, write)


def drop_cut_rows(path: Path, column: str, cut: Mapping[int, int]) -> int:
    """Rewrite a part without the rows that the log has lost; return the number of rows left.

    Args:
        path: the part.
        column: the column with the offset to compare.
        cut: log partition -> the first offset that the log has lost.
    """
    from pyarrow import compute, parquet

    table = parquet.ParquetFile(path).read()
    stays = None
    for partition, offset in cut.items():
        other = compute.not_equal(table["partition"], partition)
        one = compute.or_(other, compute.less(table[column], offset))
        stays = one if stays is None else compute.and_(stays, one)
    kept = table if stays is None else table.filter(stays)
    if kept.num_rows < table.num_rows:
        put_table(path, kept)
    return int(kept.num_rows)
