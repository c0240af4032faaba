"""Merging of a capture's small parts; without it a capture of a month would have 43,000 parts.

A part has a level: 0 when it is written, one more than its sources when it is merged. When the
last sixty parts have one level they are merged. A capture then has some dozens of parts, and each
row is written once more for each level. A merged part has a new number. It replaces its sources
when the manifest is written; a kill before that leaves parts that the manifest does not list.
Replaced files stay on the disk, hidden, until the next merge, because another process may be
reading them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from partage.capture.manifest import Manifest, Part

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TOGETHER", "merge"]

#: Number of parts of one level that are merged into a part of the next level.
TOGETHER = 60


def merge(
    manifest: Manifest,
    paths: Callable[[int], tuple[Path, Path]],
    put: Callable[[Path, pa.Table], None],
    *,
    rows: int,
    size: int,
    together: int = TOGETHER,
) -> bool:
    """Merge the last parts if enough have one level; return whether any were merged.

    The manifest is changed but not written; the numbers of merged parts are in ``replaced``.

    Args:
        manifest: manifest of the capture.
        paths: returns the paths of a part's two tables for its number.
        put: writes a table atomically.
        rows: maximum rows of a merged part, in either table.
        size: maximum bytes of a merged part, encoded, before compression.
        together: number of parts of one level that are merged.
    """
    last = manifest.parts[-together:]
    if len(last) < together or len({one.level for one in last}) > 1:
        return False
    from pyarrow import concat_tables

    made: list[Part] = []
    replaced: list[int] = []
    for some in _chunks(last, paths, rows, size):
        number = some[0].number
        if len(some) > 1:
            number, manifest.next_part = manifest.next_part, manifest.next_part + 1
            for at, path in enumerate(paths(number)):
                put(path, concat_tables([_table(paths(one.number)[at]) for one in some]))
            replaced += [one.number for one in some]
        made.append(Part(number, some[0].level + 1))
    if not replaced:
        return False  # every part already has the maximum size
    manifest.parts[-together:] = made
    manifest.replaced = replaced
    return True


def _chunks(
    parts: Sequence[Part], paths: Callable[[int], tuple[Path, Path]], rows: int, size: int
) -> Iterator[list[Part]]:
    """Yield runs of consecutive parts that fit into one part."""
    some: list[Part] = []
    has, takes = 0, 0
    for one in parts:
        more, bytes_more = _size(paths(one.number))
        if some and (has + more > rows or takes + bytes_more > size):
            yield some
            some, has, takes = [], 0, 0
        some.append(one)
        has, takes = has + more, takes + bytes_more
    yield some


def _size(tables: Sequence[Path]) -> tuple[int, int]:
    """Return the rows of the longer table, and the bytes of both before compression."""
    from pyarrow import parquet

    metadata = [parquet.read_metadata(path) for path in tables]
    size = sum(
        one.row_group(n).total_byte_size for one in metadata for n in range(one.num_row_groups)
    )
    return max(one.num_rows for one in metadata), size


def _table(path: Path) -> pa.Table:
    from pyarrow import parquet

    return parquet.ParquetFile(path).read()
