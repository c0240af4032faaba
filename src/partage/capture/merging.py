"""Small parts of a capture become larger ones: who follows for a month would have 43,000 of them.

A part is of a level: 0 as it was written, and one more than those that it was made of. As soon as
the last sixty are of one level they are merged, so that there are some dozens at any time and each
row is written again once a level. The merged part has a number of its own. It counts, and the ones
that it was made of no longer do, from the moment that the manifest says so; a kill before that
leaves parts that nobody counts. What was replaced stays on the disk until the next time, out of
sight: another process may be reading it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from partage.capture.manifest import Manifest, Part

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TOGETHER", "merge"]

#: So many parts of one level make one of the next.
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
    """Merge the last parts, if they are many of one level; False where there is nothing to do.

    The manifest is changed and not yet written; what it replaces is in ``replaced``.

    Args:
        manifest: of the capture.
        paths: of a part's two tables, by its number.
        put: writes a table, whole or not at all.
        rows: a merged part has at most so many, in either table.
        size: and at most so many bytes as its tables have encoded, before compression.
        together: how many parts of one level are needed.
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
        return False  # all of them are as large as one may be
    manifest.parts[-together:] = made
    manifest.replaced = replaced
    return True


def _chunks(
    parts: Sequence[Part], paths: Callable[[int], tuple[Path, Path]], rows: int, size: int
) -> Iterator[list[Part]]:
    """Neighbours that fit into one part."""
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
    """Rows of the longer table, and bytes of both before compression."""
    from pyarrow import parquet

    metadata = [parquet.read_metadata(path) for path in tables]
    size = sum(
        one.row_group(n).total_byte_size for one in metadata for n in range(one.num_row_groups)
    )
    return max(one.num_rows for one in metadata), size


def _table(path: Path) -> pa.Table:
    from pyarrow import parquet

    return parquet.ParquetFile(path).read()
