"""Ownership intervals and unread times of one group as arrays, and what rebalances changed.

`partage.report.timeline` draws these arrays. A group that rebalances every few minutes has a
million intervals in a year, so nothing here loops over them in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.report.timeline import OwnedIntervals, UnreadTimes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MAX_MEMBERS",
    "count_partition_changes",
    "keep_owners",
    "merge_owners",
    "to_owned_intervals",
    "to_unread_times",
]

#: Members in the comparison before and after a rebalance.
MAX_MEMBERS = 12
_FOREVER = np.iinfo(np.int64).max
_Ints = NDArray[np.int64]


def to_owned_intervals(table: pa.Table, last_ms: int) -> OwnedIntervals:
    """Convert the rows that say when which member owned a partition from an Arrow table to arrays.

    Intervals that have not ended get the end ``last_ms``, which is the end of the timeline.
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
    """Return a number for the topic and partition of each row, in the order of these pairs.

    The number is the index of the topic in ``topics`` times a factor, plus the partition. The
    second result is the factor. The number is negative if the topic is not in ``topics``.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    place = pc.index_in(table["topic"], pa.array(topics, pa.string()))
    partition = _to_ints(table["partition"])
    numbers = int(partition.max(initial=0)) + 1
    return _to_ints(pc.fill_null(place, -1)) * numbers + partition % numbers, numbers


def to_unread_times(table: pa.Table, owned: OwnedIntervals) -> UnreadTimes:
    """Convert the rows that say when partitions had no consumer from an Arrow table to arrays.

    Partitions that no member ever owned are left out. ``owned`` has the owned intervals of the same
    consumer group.
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
    """Return the intervals with one owner for all members of one client id and host.

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


def keep_owners(columns: Sequence[list[int]], owners: int) -> list[int]:
    """Keep the owners that are used, and number them again in place, in the same order.

    Args:
        columns: lists of owners' numbers, which are changed.
        owners: number of owners.

    Returns:
        the former numbers of the owners that are kept.

    >>> columns = [[5, 2, 5], [2]]
    >>> keep_owners(columns, 7), columns
    ([2, 5], [[1, 0, 1], [0]])
    """
    used = np.zeros(owners, bool)
    for column in columns:
        used[column] = True
    places = np.cumsum(used) - 1
    for column in columns:
        column[:] = places[column].tolist()
    kept: list[int] = np.flatnonzero(used).tolist()
    return kept


def count_partition_changes(
    rows: Sequence[Mapping[str, Any]], times: Sequence[int], owned: OwnedIntervals, last_ms: int
) -> Iterator[dict[str, int]]:
    """Yield how many partitions each member owned before and after each listed rebalance.

    Members whose partitions did not change are left out. Each result also has the numbers of lost
    and gained partitions.

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
    """Times at which members begin, or end, to own a partition, as arrays of equal length."""

    owner: _Ints
    time: _Ints


def _pairs_within(events: _OwnerTimes, begin: _Ints, end: _Ints, owners: int) -> _Ints:
    """Return a number for each event within one of the periods: the period times ``owners``, plus
    its owner.

    Args:
        events: times of owners.
        begin: sorted starts of the periods.
        end: ends of the periods, which do not overlap; an event at the end is not within.
        owners: number of owners.
    """
    period = np.searchsorted(begin, events.time, "right") - 1
    within = (period >= 0) & (events.time < np.append(end, [0])[period])
    return period[within] * owners + events.owner[within]


def _count_before(events: _OwnerTimes, owner: _Ints, time: _Ints) -> _Ints:
    """Return how many events each owner has before a time; both are arrays of equal length."""
    known, rank = np.unique(np.concatenate([events.time, time]), return_inverse=True)
    size = len(events.time)
    codes = np.sort(events.owner * len(known) + rank[:size])
    first = np.searchsorted(codes, owner * len(known))
    return np.searchsorted(codes, owner * len(known) + rank[size:]) - first


def _merged_times(owned: OwnedIntervals, last_ms: int) -> tuple[_OwnerTimes, _OwnerTimes]:
    """Return when members began and ended to own partitions.

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
