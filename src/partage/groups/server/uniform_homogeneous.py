"""Kafka's ``UniformHomogeneousAssignmentBuilder``: all members subscribe to the same topics.

Members keep previous partitions up to their quota; the other partitions are assigned in
consecutive runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.groups.server.group_assignment import GroupAssignment, concatenate_runs
from partage.groups.server.kernels import larger_quotas
from partage.groups.server.spec import CoordinatorAssignorError, GroupSpec
from partage.java.hash_order import copied_order, walk_copied_sets, walk_maps
from partage.model.index import Int32Array

__all__ = ["assign_homogeneous"]

#: Slots of a Java HashMap that was made without a capacity.
_DEFAULT_TABLE = 16
#: From this hash on, HashMap's mixing (h ^ h >>> 16) changes the bucket.
_MIXED_FROM = 1 << 16


def assign_homogeneous(spec: GroupSpec) -> GroupAssignment:
    """Return the assignment of a group whose members subscribe to the same topics.

    The number of a member's previous partitions decides its quota. The iteration order of
    Java's maps and sets decides which partitions beyond the quota it loses.

    Raises:
        CoordinatorAssignorError: a topic's partition count is unknown, or the previous targets
            contain a partition twice or one that does not exist.
    """
    topics = _topics_in_order(spec)
    if not len(topics):
        return GroupAssignment.empty(spec)
    before = _PreviousSets.of(spec, topics)
    spec.require_partition_counts(topics)
    kept, missing = _quotas(spec.visit, int(spec.numbered[1][topics].sum()), before.total)
    partition = spec.previous.partition
    keeps, released = _revoke_over_quota(spec, before, kept)
    free = spec.unassigned_partitions(topics)
    free = np.concatenate([free, released]) if len(released) else free
    if len(free) != int(missing.sum()):
        # Quotas add up to the partitions, so a coordinator's own targets never come here.
        raise CoordinatorAssignorError(
            "previous targets have a partition twice, or one that does not exist: "
            f"{len(free)} partitions are left for {int(missing.sum())} places"
        )
    stays = partition if keeps is None else partition[keeps]
    start, owned = _append_runs(spec, stays, kept, free, missing)
    return GroupAssignment(start, owned, emptied=spec.previous.empty_sets(before.subscribed))


def _topics_in_order(spec: GroupSpec) -> Int32Array:
    """Return the first member's topics in the iteration order of its copied ``HashSet``."""
    named, size = spec.named(int(spec.problem.group.subscription_of[spec.visit[0]]))
    hashes = spec.ids.hashes[named].tolist()
    return named[copied_order(hashes, size)]


@dataclass(frozen=True, eq=False)
class _PreviousSets:
    """The previous partitions of topics that members still subscribe to.

    Attributes:
        subscribed: bool[S], whether a set's topic is subscribed to.
        total: int64[M], partitions in such sets.
    """

    subscribed: NDArray[np.bool_]
    total: NDArray[np.int64]

    @classmethod
    def of(cls, spec: GroupSpec, topics: Int32Array) -> _PreviousSets:
        before = spec.previous
        is_subscribed = np.zeros(len(spec.problem.index.topics) + 1, bool)
        is_subscribed[topics] = True
        subscribed = is_subscribed[before.topic]  # topic -1 is the last one: False
        total = np.zeros(spec.members, np.int64)
        np.add.at(total, before.member[subscribed], before.size[subscribed])
        return cls(subscribed, total)


def _quotas(
    visit: list[int], partitions: int, total: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many partitions each member keeps, and how many more it gets.

    A member that cannot fill the larger quota with previous partitions returns it, as long
    as more members follow than larger quotas are left.
    """
    quota, extra = divmod(partitions, len(visit))
    order = np.array(visit, np.intp)
    in_map_order, kept, missing = np.zeros((3, len(visit)), np.int64)
    in_map_order[:] = total[order]
    larger_quotas(in_map_order, quota, extra, kept, missing, work=4 * len(visit))
    by_member = np.empty((2, len(visit)), np.int64)
    by_member[0, order], by_member[1, order] = kept, missing
    return by_member[0], by_member[1]


def _revoke_over_quota(
    spec: GroupSpec, previous: _PreviousSets, kept: NDArray[np.int64]
) -> tuple[NDArray[np.bool_] | None, Int32Array]:
    """Return which previous partitions stay (bool[n], None for all), and the revoked ones.

    A member's sets are iterated in the order of its map, and each set in its own order, until
    the quota is reached; later partitions are revoked. (Kafka keeps a fitting set as a whole
    and iterates only one that does not fit, with the same result.)
    """
    before = spec.previous
    keeps = None if previous.subscribed.all() else np.repeat(previous.subscribed, before.size)
    visit = np.array(spec.visit, np.int32)
    over = visit[previous.total[visit] > kept[visit]]
    if not len(over):
        return keeps, np.zeros(0, np.int32)
    sets, rank = _rows_of(before.set_start, over)
    sets = sets[walk_maps(rank, before.uuid_hash[sets])]
    # The walk keeps the keys of one map together, so ranks stay ascending.
    within = previous.subscribed[sets]
    sets, rank = sets[within], rank[within]
    begin = _exclusive_sums(before.size[sets], rank)
    quota = kept[over][rank]
    cut = begin + before.size[sets] > quota
    sets, begin, quota = sets[cut], begin[cut], quota[cut]
    keeps = np.ones(len(before.partition), bool) if keeps is None else keeps
    tails = _skip_walk(spec, sets, np.maximum(quota - begin, 0))
    if tails is not None:
        keeps[tails] = False
        return keeps, before.partition[tails]
    entries, rank = _rows_of(before.start, sets)
    number = spec.problem.index.number_of[before.partition[entries]]
    entries = entries[walk_copied_sets(rank, number.view(np.uint32))]
    nth = _exclusive_sums(np.ones(len(entries), np.int64), rank) + begin[rank]
    revoked = entries[nth >= quota[rank]]
    keeps[revoked] = False
    return keeps, before.partition[revoked]


def _skip_walk(spec: GroupSpec, sets: Int32Array, kept: NDArray[np.int64]) -> Int32Array | None:
    """Return the entries after the first ``kept`` of each set if Java iterates them in order.

    Java does so where partition numbers ascend and are smaller than the set's table length
    (and than 65,536, where hash mixing begins): each is alone in its bucket. Otherwise the
    result is None, and the caller walks the buckets.
    """
    before, index = spec.previous, spec.problem.index
    entries, rank = _rows_of(before.start, sets)
    number = index.number_of[before.partition[entries]]
    room = np.maximum(before.size[sets] * 4 // 3, _DEFAULT_TABLE - 1)
    slots = np.int64(1) << np.frexp(room)[1]  # the least power of two above
    alone = (number < slots[rank]) & (number < _MIXED_FROM)
    if not bool(alone.all()) or bool((np.diff(number)[np.diff(rank) == 0] <= 0).any()):
        return None
    begin, end = before.start[:-1][sets] + kept, before.start[1:][sets]
    left = np.maximum(end - begin, 0)
    first = np.repeat(begin - (np.cumsum(left) - left), left)
    return (first + np.arange(len(first))).astype(np.int32)


def _rows_of(start: Int32Array, which: Int32Array) -> tuple[Int32Array, NDArray[np.int64]]:
    """Return the entries of some CSR rows, row after row, and the rank of each one's row."""
    sizes = np.diff(start)[which]
    rank = np.repeat(np.arange(len(which)), sizes)
    first = start[:-1][which] - (np.cumsum(sizes) - sizes)
    entries = np.arange(len(rank)) + first[rank]
    return entries.astype(np.int32), rank


def _exclusive_sums(values: NDArray[Any], rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each value, the sum of the values before it in its rank (ascending)."""
    before = np.cumsum(values, dtype=np.int64) - values
    first = np.flatnonzero(np.diff(rank, prepend=-1))
    since: NDArray[np.int64] = before - np.repeat(before[first], np.diff(first, append=len(rank)))
    return since


def _append_runs(
    spec: GroupSpec,
    stays: Int32Array,
    kept: NDArray[np.int64],
    free: Int32Array,
    missing: NDArray[np.int64],
) -> tuple[Int32Array, Int32Array]:
    """Return as CSR each member's kept partitions, followed by its run of the free ones."""
    end = np.cumsum(kept)
    visit = np.array(spec.visit, np.intp)
    given_end = np.zeros(spec.members, np.int64)
    given_end[visit] = np.cumsum(missing[visit])
    parts = [
        (stays, end - kept, end),
        (free, given_end - missing, given_end),
    ]
    return concatenate_runs(parts, spec.members)
