"""Index of a table's Parquet row groups by consumer group, to read a large table in parts.

A year of a large cluster has more rows than fit in memory. Writers store the rows of a group next
to each other, so that a part of the groups is in few row groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["Part", "RowGroup", "cut_generations", "index_row_groups", "split_groups"]

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class Part(NamedTuple):
    """Selection of rows of a table: the rows of some consumer groups, and of some generations.

    Attributes:
        groups: names of the consumer groups.
        generations: first generation, and the first one after the last; None for all.
    """

    groups: Collection[str]
    generations: tuple[int, int] | None = None


class RowGroup(NamedTuple):
    """A row group of a Parquet file, with the consumer groups whose rows it has.

    Attributes:
        path: the file.
        number: index of the row group in the file.
        rows: number of rows by consumer group.
        first: smallest generation in it, or a lower bound.
        last: largest generation in it, or an upper bound.
    """

    path: Path
    number: int
    rows: Mapping[str, int]
    first: int
    last: int

    def may_have(self, part: Part) -> bool:
        """Return whether this Parquet row group may have rows of some consumer groups and
        generations.

        ``part`` names them. The check only uses this index, not the file.
        """
        if part.generations is not None:
            begin, end = part.generations
            if self.last < begin or end <= self.first:
                return False
        return not self.rows.keys().isdisjoint(part.groups)


def index_row_groups(paths: Iterable[Path]) -> Iterator[RowGroup]:
    """Yield the row groups of Parquet files that have a column ``group``, in order.

    Raises:
        OSError: a file cannot be read.
        pyarrow.ArrowException: a file is damaged, or has no column ``group``.
    """
    from pyarrow import parquet

    for path in paths:
        file = parquet.ParquetFile(path, read_dictionary=["group"])
        for number in range(file.num_row_groups):
            counts = file.read_row_group(number, ["group"])["group"].value_counts()
            names, sizes = counts.field("values").to_pylist(), counts.field("counts").to_pylist()
            rows = dict(zip(names, sizes, strict=True))
            yield RowGroup(path, number, rows, *_generation_bounds(file.metadata, number))


def _generation_bounds(metadata: object, number: int) -> tuple[int, int]:
    """Return the smallest and the largest generation in a Parquet row group.

    They come from the file's statistics (``metadata``). Without statistics, the result is the
    smallest and the largest int64.
    """
    row_group = metadata.row_group(number)  # type: ignore[attr-defined]  # pyarrow has no stubs
    for i in range(row_group.num_columns):
        column = row_group.column(i)
        if column.path_in_schema == "generation":
            known = column.statistics
            if known is not None and known.has_min_max:
                return int(known.min), int(known.max)
    return _LOWEST, _HIGHEST


def split_groups(sizes: Mapping[str, int], most: int) -> Iterator[list[str]]:
    """Split consumer groups into consecutive batches of limited size.

    Args:
        sizes: size of each group.
        most: largest size of a batch. A larger group is a batch of its own.

    >>> list(split_groups({"a": 2, "b": 1, "c": 9, "d": 0}, 3))
    [['a', 'b'], ['c'], ['d']]
    """
    batch: list[str] = []
    total = 0
    for name, size in sizes.items():
        if batch and total + size > most:
            yield batch
            batch, total = [], 0
        batch.append(name)
        total += size
    if batch:
        yield batch


def cut_generations(
    row_groups: Iterable[RowGroup], groups: Collection[str], most: int
) -> Iterator[Part]:
    """Split the rows of some consumer groups into parts of limited size, by generation.

    All rows of a generation stay in one part.

    Args:
        row_groups: the row groups of a table.
        groups: names of the consumer groups.
        most: approximate number of rows in a part.
    """
    places = sorted(
        (one.first, sum(one.rows.get(name, 0) for name in groups))
        for one in row_groups
        if one.may_have(Part(groups))
    )
    begin, lowest, total = _LOWEST, _LOWEST, 0
    for first, size in places:
        if total and total + size > most and first > lowest:
            yield Part(groups, (begin, first))
            begin, total = first, 0
        lowest = lowest if total else first
        total += size
    yield Part(groups, (begin, _HIGHEST))
