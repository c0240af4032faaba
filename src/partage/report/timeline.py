"""Timelines of single groups for the page: owners of partitions, and times without a reader.

A timeline has partitions down and time across. A group of up to 500 partitions has one row for
each; a larger one has several partitions per row. If there are too many changes to draw, time is
divided into bins: each bin shows the member that owned most of it, and the share that it owned.

Times without a reader (table ``unread``) are drawn over the owners. The time up to the 10th
percentile of their length is certain, the rest up to the 90th percentile is possible.

The page's script reads columns with names (`columns_of`), which keep the page small. A group that
rebalances every few minutes has a million intervals in a year. So they are arrays, and nothing here
loops over them in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MAX_BINNED_ROWS", "MAX_MEMBERS", "MAX_ROWS", "OwnedIntervals", "UnreadTimes", "columns_of",
    "count_partition_changes", "draw_timeline", "merge_owners", "to_owned_intervals",
    "to_unread_times",
]  # fmt: skip

#: Partitions that have a row each.
MAX_ROWS = 500
#: Rows of a group with more partitions, or with too few boxes for a row each.
MAX_BINNED_ROWS = 48
#: Boxes that a row needs at least: fewer say nothing about its changes.
_LEAST_BOXES = 8
#: Numbers of columns that are tried in turn, until the boxes are few enough.
_BINS = (240, 160, 96, 64, 40, 24, 12)
#: Time bins of the line with the share of partitions without a reader.
_SHARE_BINS = 240
#: Smallest share of a bin without a reader that a reduced timeline draws.
_LEAST_SHARE = 0.01
#: Columns of the boxes of a timeline, and of its times without a reader.
_BOX = ("row", "start", "end", "owner", "share")
_UNREAD = ("row", "start", "end", "certain", "share")
#: Members in the comparison before and after a rebalance.
MAX_MEMBERS = 12
_FOREVER = np.iinfo(np.int64).max
_Ints = NDArray[np.int64]


def columns_of(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Convert a list of dicts with equal keys to a dict of lists, with one list per key.

    The page's script reads this form, because it takes less space than repeated keys.

    >>> columns_of([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    found: dict[str, list[Any]] = {}
    for record in records:
        for name, value in record.items():
            found.setdefault(name, []).append(value)
    return found


@dataclass(frozen=True, slots=True)
class OwnedIntervals:
    """Time intervals in which members owned the partitions of a consumer group, as equally long
    arrays.

    Each array has one element per interval.

    Attributes:
        row: index of the partition in ``partitions``.
        owner: index of the owner in ``owners``.
        start, end: times in ms; an interval that has not ended has the end of the history.
        partitions: (topic, partition number), sorted.
        owners: instance ids or member ids, in order of appearance.
    """

    row: _Ints
    owner: _Ints
    start: _Ints
    end: _Ints
    partitions: Sequence[tuple[str, int]]
    owners: Sequence[str]


@dataclass(frozen=True, slots=True)
class UnreadTimes:
    """Time intervals in which partitions of a consumer group had no consumer, as equally long
    arrays.

    Each array has one element per interval.

    Attributes:
        row: index of the partition in the group's partitions.
        until: end of the interval (ms), when the partition got its next owner.
        best: estimated length (ms).
        least, most: 10th and 90th percentile of this length (ms).
        apart_start, apart_end: time in it in which no member existed or subscribed (ms); it is not
            drawn, and no length includes it. Both are ``until`` without such a time.
    """

    row: _Ints
    until: _Ints
    best: _Ints
    least: _Ints
    most: _Ints
    apart_start: _Ints
    apart_end: _Ints

    def rows_without_consumer(
        self, length_ms: _Ints, excluded_ms: _Ints | None = None
    ) -> tuple[_Ints, _Ints, _Ints]:
        """Return when partitions had no consumer, as arrays: partition index, start and end (ms).

        Only the last part of each interval is returned. For example, a length of 500 returns the
        last 500 ms before the partition's next owner. A part is split in two around a time in which
        no member existed or subscribed.

        Args:
            length_ms: length of each part, one per interval.
            excluded_ms: length at the end of each part that is left out; None for nothing.
        """
        begin = self._start_of_time_without_consumer(length_ms)
        end = (
            self.until if excluded_ms is None else self._start_of_time_without_consumer(excluded_ms)
        )
        before, after = np.minimum(end, self.apart_start), np.maximum(begin, self.apart_end)
        parts = [(self.row, begin, before), (self.row, after, end)]
        row, start, stop = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        kept = stop > start
        return row[kept], start[kept], stop[kept]

    def _start_of_time_without_consumer(self, length_ms: _Ints) -> _Ints:
        """Return the start times (ms) of the last ``length_ms`` ms without a consumer, one per
        interval.

        For example, the last 200 ms of an interval that ends at 900 ms start at 700 ms. Times in
        which no member existed or subscribed do not count, so that the start may be earlier.
        """
        after = self.until - self.apart_end
        return np.where(
            length_ms <= after, self.until - length_ms, self.apart_start - (length_ms - after)
        )


class _Spans(NamedTuple):
    """Time intervals in which members owned the partitions of timeline rows, as parallel arrays.

    An interval has a timeline row, an owner, a start and an end (ms since the start of the
    timeline).
    """

    row: _Ints
    owner: _Ints
    start: _Ints
    end: _Ints


class _Bins(NamedTuple):
    """Time bins of a timeline, each with the member that owned most of it, as equally long arrays.

    All bins have the same length. They are sorted by row and time; bins without an owner are left
    out.

    Attributes:
        row: index of the timeline's row.
        column: number of the bin in the row.
        owner: index of the member.
        share: fraction of the bin that this member owned.
    """

    row: _Ints
    column: _Ints
    owner: _Ints
    share: NDArray[np.float64]


def draw_timeline(
    owned: OwnedIntervals,
    first_ms: int,
    last_ms: int,
    budget: int,
    unread: UnreadTimes | None = None,
    *,
    peaks: bool = False,
) -> dict[str, Any]:
    """Compute the rectangles of a consumer group's timeline, which show the owner of each
    partition.

    The result is a dict for the page's script. If there are too many owner changes to draw, time is
    divided into bins.

    Args:
        owned: ownership intervals; times outside the timeline are cut off.
        first_ms: start of the timeline.
        last_ms: end of the timeline.
        budget: approximate maximum number of boxes (drawn rectangles), and of unread periods.
        unread: periods without a consumer; None if they are unknown.
        peaks: whether the line shows the largest share of partitions without a consumer in each
            bin instead of the mean. In a long history, the mean is near zero in all bins.

    Returns:
        ``rows``: first and last topic and partition of each row; ``boxes``: row, start and end (ms
        since ``first_ms``), owner and its share in percent; ``exact``: whether each box is one
        partition and one interval; ``unread``: row, start, end, whether it is certain, and the
        share of the row's partitions in percent; ``unread_exact``: whether each of them is one
        interval; ``unread_share``: the share of all partitions without a consumer in percent, from
        each time on; ``unread_peaks``: whether these are the largest shares.
    """
    span = max(last_ms - first_ms, 1)
    start = np.clip(owned.start - first_ms, 0, span)
    end = np.clip(owned.end - first_ms, 0, span)
    seen = end > start
    row, owner, start, end = (a[seen] for a in (owned.row, owned.owner, start, end))
    size = len(owned.partitions)
    rows = _row_count(size, budget)
    exact = rows == size and len(row) <= budget and not _has_overlaps(row, start, end)
    if exact:
        boxes = np.column_stack([row, start, end, owner, np.full(len(row), 100)])
    else:
        boxes = _bin_ownership(_Spans(row * rows // max(size, 1), owner, start, end), span, budget)
    names = owned.partitions
    edges = [(r * size + rows - 1) // rows for r in range(rows + 1)] if rows else [0]
    return {
        "rows": columns_of(
            {
                "first_topic": names[a][0],
                "first_partition": names[a][1],
                "last_topic": names[b - 1][0],
                "last_partition": names[b - 1][1],
            }
            for a, b in pairwise(edges)
        ),
        "boxes": dict(zip(_BOX, boxes.astype(np.int64).T.tolist(), strict=True)),
        "exact": bool(exact),
        **_draw_unread(unread, first_ms, span, np.diff(edges), budget, peaks=peaks),
        "unread_peaks": peaks and unread is not None,
    }


def _row_count(partitions: int, budget: int) -> int:
    """Return how many rows a group's timeline has: one per partition, or fewer in a large group.

    Each row draws rectangles, and ``budget`` limits their number on the page (approximately).
    """
    most = max(budget // _LEAST_BOXES, 4)
    return partitions if partitions <= min(MAX_ROWS, most) else min(MAX_BINNED_ROWS, most)


def _has_overlaps(partition: _Ints, start: _Ints, end: _Ints) -> bool:
    """Return whether any partition has two owners at the same time, as share groups allow.

    The arguments are arrays with one element per ownership interval.
    """
    order = np.lexsort((start, partition))
    partition, start, end = partition[order], start[order], end[order]
    return bool(((partition[1:] == partition[:-1]) & (start[1:] < end[:-1])).any())


# --- times without a reader --------------------------------------------------------------------


def _draw_unread(
    unread: UnreadTimes | None,
    first_ms: int,
    span: int,
    partitions: _Ints,
    budget: int,
    *,
    peaks: bool,
) -> dict[str, Any]:
    """Compute the rectangles of a timeline that show when partitions had no consumer.

    Args:
        unread: the periods; None if they are unknown.
        first_ms: start of the timeline.
        span: length of the timeline (ms).
        partitions: number of partitions in each row of the timeline.
        budget: approximate maximum number of drawn periods.
        peaks: whether the line shows the largest shares instead of mean ones.
    """
    if unread is None or not len(partitions):
        return {"unread": {}, "unread_exact": True, "unread_share": {}}
    size, rows = int(partitions.sum()), len(partitions)
    certain, possible = (
        unread.rows_without_consumer(unread.least),
        unread.rows_without_consumer(unread.most, unread.least),
    )
    parts = [
        (kind, *_within(row * rows // size, start - first_ms, end - first_ms, span))
        for kind, (row, start, end) in ((1, certain), (0, possible))
    ]
    _, start, end = unread.rows_without_consumer(unread.best)
    exact = rows == size and sum(len(part[1]) for part in parts) <= budget
    drawn = [
        _exact_unread(*part)
        if exact
        else _bin_unread(*part, span, partitions, budget // 2, _LEAST_SHARE if peaks else 0.0)
        for part in parts
    ]
    columns = np.concatenate(drawn).T.tolist()
    found: dict[str, list[Any]] = dict(zip(_UNREAD, columns, strict=True))
    found["certain"] = [bool(one) for one in found["certain"]]
    return {
        "unread": found,
        "unread_exact": exact,
        "unread_share": (_largest_unread_share if peaks else _unread_share)(
            start - first_ms, end - first_ms, span, size
        ),
    }


def _within(row: _Ints, start: _Ints, end: _Ints, span: int) -> tuple[_Ints, _Ints, _Ints]:
    start, end = np.clip(start, 0, span), np.clip(end, 0, span)
    seen = end > start
    return row[seen], start[seen], end[seen]


def _exact_unread(certain: int, row: _Ints, start: _Ints, end: _Ints) -> _Ints:
    full = np.full(len(row), 100)
    return np.column_stack([row, start, end, np.full(len(row), certain), full])


def _bin_unread(  # noqa: PLR0917 - one kind of interval, and the drawing
    certain: int,
    timeline_row: _Ints,
    start: _Ints,
    end: _Ints,
    span: int,
    partitions: _Ints,
    budget: int,
    min_share: float,
) -> _Ints:
    """Summarize many unread intervals as rectangles with the share of partitions without a
    consumer.

    The finest time resolution with at most ``budget`` rectangles is used.

    Args:
        certain: 1 for periods that surely had no consumer, 0 for possible ones.
        timeline_row: row of each period.
        start: start of each period (ms).
        end: its end (ms).
        span: length of the timeline (ms).
        partitions: number of partitions in each row.
        budget: maximum number of rectangles.
        min_share: smallest share of a bin that is drawn.
    """
    # The finest time bins with at most ``budget`` rectangles are used.
    found = np.zeros((0, 5), np.int64)
    for columns in _BINS:
        width = span / columns
        place, column, weight = _split_by_bin(start, end, span, columns)
        key, which = np.unique(timeline_row[place] * columns + column, return_inverse=True)
        share = np.bincount(which, weight, len(key)) / (width * partitions[key // columns])
        drawn = share >= min_share
        key, share = key[drawn], np.minimum(share[drawn], 1)
        cells = _Bins(key // columns, key % columns, np.zeros_like(key), share)
        found = _merge_bins(cells, span, columns)
        if len(found) <= budget:
            break
    found[:, 3] = certain
    return found


def _unread_share(start: _Ints, end: _Ints, span: int, size: int) -> dict[str, list[Any]]:
    """Return the share of all partitions without a consumer over time, as a step function.

    The result has the times of its steps (``at``, ms), and the percentage from each step on
    (``percent``).

    Args:
        start: start of each period without a consumer (ms).
        end: its end (ms).
        span: length of the timeline (ms).
        size: number of partitions.
    """
    start, end = np.clip(start, 0, span), np.clip(end, 0, span)
    _, column, weight = _split_by_bin(start, end, span, _SHARE_BINS)
    sums = np.bincount(column, weight, _SHARE_BINS)
    return _steps(np.round(100 * sums / (span / _SHARE_BINS * size), 1), span)


def _largest_unread_share(start: _Ints, end: _Ints, span: int, size: int) -> dict[str, list[Any]]:
    """Return the largest share of partitions without a consumer in each bin, as a step function.

    The arguments and the result are those of `_unread_share`.
    """
    start, end = np.clip(start, 0, span), np.clip(end, 0, span)
    times = np.concatenate([start, end])
    changes = np.repeat([1, -1], [len(start), len(end)])
    order = np.lexsort((changes, times))  # intervals that touch do not overlap
    times, unread = times[order], np.cumsum(changes[order])
    peaks = np.zeros(_SHARE_BINS)
    if len(times):
        until = np.append(times[1:], times[-1])
        lasts = until > times
        place, column, _ = _split_by_bin(times[lasts], until[lasts], span, _SHARE_BINS)
        np.maximum.at(peaks, column, unread[lasts][place])
    return _steps(np.minimum(np.round(100 * peaks / size, 1), 100.0), span)


def _steps(percent: NDArray[np.float64], span: int) -> dict[str, list[Any]]:
    """Convert values of equally long time bins to a step function: times (ms) and values
    (percent).
    """
    changes = np.flatnonzero(np.append([True], percent[1:] != percent[:-1]))
    at = np.rint(changes * span / _SHARE_BINS).astype(np.int64)
    return {"at": at.tolist(), "percent": percent[changes].tolist()}


# --- bins --------------------------------------------------------------------------------------


def _bin_ownership(spans: _Spans, span: int, budget: int) -> NDArray[np.int64]:
    """Divide a timeline into equally long bins, and draw the main owner of each row and bin.

    The finest division with at most ``budget`` rectangles is used. ``span`` is the length of the
    timeline (ms).
    """
    # The finest time bins within the budget are used, else the coarsest ones.
    found = np.zeros((0, 5), np.int64)
    for columns in _BINS:
        found = _merge_bins(_find_bin_owners(spans, span, columns), span, columns)
        if len(found) <= budget:
            break
    return found


def _split_by_bin(
    start: _Ints, end: _Ints, span: int, columns: int
) -> tuple[_Ints, _Ints, NDArray[np.float64]]:
    """Split time intervals at the borders of equally long time bins.

    The three results are arrays with one element per part: the index of its interval, its bin, and
    its length (ms).

    Args:
        start: start of each interval (ms).
        end: its end (ms).
        span: length of the timeline (ms).
        columns: number of bins.
    """
    width = span / columns
    first = np.minimum((start / width).astype(np.int64), columns - 1)
    last = np.minimum(np.ceil(end / width).astype(np.int64), columns)
    last = np.maximum(last, first + 1)
    times = last - first
    place = np.repeat(np.arange(len(start)), times)
    column = np.arange(len(place)) - np.repeat(np.cumsum(times) - times, times) + first[place]
    weight = np.minimum(end[place], (column + 1) * width) - np.maximum(start[place], column * width)
    return place, column, np.maximum(weight, 0)


def _find_bin_owners(spans: _Spans, span: int, columns: int) -> _Bins:
    """Find the member that owned partitions longest in each time bin of each timeline row.

    ``span`` is the length of the timeline (ms), ``columns`` the number of equally long bins.
    """
    row, owner, start, end = spans
    place, column, weight = _split_by_bin(start, end, span, columns)
    owners = int(owner.max(initial=0)) + 1
    key = (row[place] * columns + column) * owners + owner[place]
    keys, which = np.unique(key, return_inverse=True)
    weights = np.bincount(which, weight, len(keys))
    cell, member = keys // owners, keys % owners
    order = np.lexsort((weights, cell))
    newest = np.append(cell[order][1:] != cell[order][:-1], [True] * (len(order) > 0))
    best = order[newest.astype(bool)]
    whole = np.bincount(np.unique(cell, return_inverse=True)[1], weights)
    share = weights[best] / np.maximum(whole, 1e-9)
    return _Bins(cell[best] // columns, cell[best] % columns, member[best], share)


def _merge_bins(cells: _Bins, span: int, columns: int) -> NDArray[np.int64]:
    """Merge adjacent time bins with the same owner into rectangles, so that less has to be drawn.

    Bins are merged if the owner owned about the same share of each. The result has one row per
    rectangle: timeline row, start, end (ms), owner and share in percent.
    """
    # Bins are merged if the same member owned about the same share of each.
    row, column, owner, share = cells
    if not len(row):
        return np.zeros((0, 5), np.int64)
    coarse = np.ceil(share * 4)
    new = np.append(
        [True],
        (row[1:] != row[:-1])
        | (column[1:] != column[:-1] + 1)
        | (owner[1:] != owner[:-1])
        | (coarse[1:] != coarse[:-1]),
    )
    begins = np.flatnonzero(new)
    ends = np.append(begins[1:], len(row)) - 1
    mean = np.add.reduceat(share, begins) / (ends - begins + 1)
    width = span / columns
    return np.column_stack([
        row[begins], np.rint(column[begins] * width), np.rint((column[ends] + 1) * width),
        owner[begins], np.maximum(np.rint(100 * mean), 1),
    ]).astype(np.int64)  # fmt: skip


# -- intervals as arrays, and what rebalances changed ---------------------------------------------


def to_owned_intervals(table: pa.Table, last_ms: int) -> OwnedIntervals:
    """Convert rows of table ``ownership`` to arrays of time intervals in which members owned
    partitions.

    An interval that has not ended gets the end ``last_ms``, which is the end of the timeline.
    """
    from pyarrow import compute as pc

    topics = sorted(pc.unique(table["topic"]).to_pylist())
    pair, numbers = _pair_numbers(table, topics)
    known, row = np.unique(pair, return_inverse=True)
    partitions = [(topics[p // numbers], p % numbers) for p in known.tolist()]
    # An owner is a member or, if it is static, its instance id, which survives restarts.
    is_static = pc.fill_null(pc.not_equal(table["instance"], ""), False)
    names = pc.if_else(is_static, table["instance"], table["member"])
    codes = pc.dictionary_encode(names).combine_chunks()
    code = _to_ints(codes.indices)
    start = _to_ints(table["from_ms"])
    end = _to_ints(pc.fill_null(table["to_ms"], last_ms))
    order = np.argsort(start, kind="stable")
    appeared, first = np.unique(code[order], return_index=True)
    by_time = appeared[np.argsort(first)]
    place = np.zeros(int(code.max(initial=-1)) + 1, np.int64)
    place[by_time] = np.arange(len(by_time))
    every = codes.dictionary.to_pylist()
    owners = [every[c] for c in by_time.tolist()]
    return OwnedIntervals(row, place[code], start, end, partitions, owners)


def _to_ints(column: Any) -> _Ints:
    found: _Ints = np.asarray(column.to_numpy(zero_copy_only=False) if len(column) else [])
    return found.astype(np.int64)


def _pair_numbers(table: pa.Table, topics: Sequence[str]) -> tuple[_Ints, int]:
    """Encode each row's topic and partition as an integer; return the integers and a factor.

    The integer is the index of the topic in ``topics`` times the factor, plus the partition, so
    integers sort like the pairs. It is negative if the topic is not in ``topics``.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    place = pc.index_in(table["topic"], pa.array(topics, pa.string()))
    partition = _to_ints(table["partition"])
    numbers = int(partition.max(initial=0)) + 1
    return _to_ints(pc.fill_null(place, -1)) * numbers + partition % numbers, numbers


def to_unread_times(table: pa.Table, owned: OwnedIntervals) -> UnreadTimes:
    """Convert rows of table ``unread`` to arrays of time intervals in which partitions had no
    consumer.

    Partitions that no member ever owned are left out. ``owned`` are the ownership intervals of the
    same consumer group.
    """
    from pyarrow import compute as pc

    topics = sorted({topic for topic, _ in owned.partitions})
    pair, numbers = _pair_numbers(table, topics)
    index = {topic: i for i, topic in enumerate(topics)}
    # Partitions beyond the largest unread one cannot be unread.
    known = [
        (index[topic] * numbers + partition, row)
        for row, (topic, partition) in enumerate(owned.partitions)
        if partition < numbers
    ]
    codes, places = (np.array(of, np.int64) for of in zip(*known, strict=True)) if known else (
        np.zeros(0, np.int64), np.zeros(0, np.int64)
    )  # fmt: skip
    at = np.minimum(np.searchsorted(codes, pair), max(len(codes) - 1, 0))
    found = codes[at] == pair if len(codes) else np.zeros(len(pair), bool)
    row = places[at[found]] if len(codes) else places
    names = ("assigned_ms", "unread_ms", "unread_p10_ms", "unread_p90_ms")
    until, best, least, most = (_to_ints(table[name])[found] for name in names)
    since = _to_ints(pc.coalesce(table["no_consumer_from_ms"], table["assigned_ms"]))[found]
    apart = _to_ints(pc.fill_null(table["no_consumer_ms"], 0))[found]
    return UnreadTimes(row, until, best, least, most, since, np.minimum(since + apart, until))


def merge_owners(owned: OwnedIntervals, labels: Mapping[str, str]) -> OwnedIntervals:
    """Combine all members that have the same client id and host into one owner of a timeline.

    A dynamic member gets a new member id with each restart, so that a long history has many more
    member ids than clients. ``labels`` maps a member to its label.
    """
    places: dict[str, int] = {}
    names = [labels.get(name, name) for name in owned.owners]
    merged = np.array([places.setdefault(name, len(places)) for name in names], np.int64)
    owner = merged[owned.owner] if names else owned.owner
    return OwnedIntervals(
        owned.row, owner, owned.start, owned.end, owned.partitions, list(places)
    )  # fmt: skip


def count_partition_changes(
    rows: Sequence[Mapping[str, Any]], times: Sequence[int], owned: OwnedIntervals, last_ms: int
) -> Iterator[dict[str, int]]:
    """Yield how many partitions each member owned before and after each listed rebalance.

    Members whose partitions did not change are left out. Each result also has the numbers of
    partitions that the member lost and gained.

    Args:
        rows: the listed rebalances.
        times: times of all rebalances of the group, listed or not (ms).
        owned: the intervals in which members owned partitions.
        last_ms: end of the timeline; an interval that reaches it has not ended.
    """
    # The count after a rebalance is taken right before the next one, because members of a consumer
    # group take over their partitions one after the other. Members without a change are left out.
    # If there are many members, only those with the largest changes are yielded.
    begins = np.array([row["time_ms"] for row in rows], np.int64)
    known = np.unique(np.array(times, np.int64))
    moments, which = np.unique(begins, return_inverse=True)
    until = np.append(known, _FOREVER)[np.searchsorted(known, moments, "right")]
    starts, ends = _merged_times(owned, last_ms)
    count = max(len(owned.owners), 1)
    gained, lost = (_pairs_within(of, moments, until, count) for of in (starts, ends))
    pairs, places = np.unique(np.concatenate([gained, lost]), return_inverse=True)
    more, less = (
        np.bincount(of, minlength=len(pairs))
        for of in (places[: len(gained)], places[len(gained) :])
    )
    moment, owner = pairs // count, pairs % count
    before = _count_before(starts, owner, moments[moment]) - _count_before(
        ends, owner, moments[moment]
    )
    order = np.lexsort((owner, -(more + less), moment))
    edges = np.searchsorted(moment[order], np.arange(len(moments) + 1)).tolist()
    for step, of in enumerate(which.tolist()):
        for i in order[edges[of] : min(edges[of + 1], edges[of] + MAX_MEMBERS)].tolist():
            had, plus, minus = int(before[i]), int(more[i]), int(less[i])
            yield {"step": step, "owner": int(owner[i]), "before": had,
                   "after": had - minus + plus, "lost": minus, "gained": plus}  # fmt: skip


class _OwnerTimes(NamedTuple):
    """Members and the times at which they got, or lost, a partition, as two parallel arrays."""

    owner: _Ints
    time: _Ints


def _pairs_within(events: _OwnerTimes, begin: _Ints, end: _Ints, owners: int) -> _Ints:
    """Find which members gained or lost a partition in which time period, as encoded pairs.

    The pair of period p and owner o is the number p times ``owners``, plus o. There is one pair per
    event; events outside the periods are left out.

    Args:
        events: times at which owners gained or lost a partition.
        begin: sorted starts of the periods.
        end: ends of the periods, which do not overlap; an event at the end is not within.
        owners: number of owners.
    """
    period = np.searchsorted(begin, events.time, "right") - 1
    within = (period >= 0) & (events.time < np.append(end, [0])[period])
    return period[within] * owners + events.owner[within]


def _count_before(events: _OwnerTimes, owner: _Ints, time: _Ints) -> _Ints:
    """Count how often a member got (or lost) a partition before a time, for many members and times.

    Result i is the number of ``events`` of the member ``owner[i]`` before ``time[i]``.
    """
    known, rank = np.unique(np.concatenate([events.time, time]), return_inverse=True)
    size = len(events.time)
    codes = np.sort(events.owner * len(known) + rank[:size])
    first = np.searchsorted(codes, owner * len(known))
    return np.searchsorted(codes, owner * len(known) + rank[size:]) - first


def _merged_times(owned: OwnedIntervals, last_ms: int) -> tuple[_OwnerTimes, _OwnerTimes]:
    """Return the times at which members began, and ended, to own partitions.

    Adjacent intervals with the same owner and partition are merged. An interval that reaches
    ``last_ms`` has not ended; its end is the largest int64.
    """
    order = np.lexsort((owned.start, owned.row, owned.owner))
    row, owner, start, end = (a[order] for a in (owned.row, owned.owner, owned.start, owned.end))
    new = (row[1:] != row[:-1]) | (owner[1:] != owner[:-1]) | (start[1:] != end[:-1])
    edge = np.full(min(len(row), 1), True)
    begins, ends = np.append(edge, new), np.append(new, edge)
    end = np.where(end >= last_ms, _FOREVER, end)
    return _OwnerTimes(owner[begins], start[begins]), _OwnerTimes(owner[ends], end[ends])
