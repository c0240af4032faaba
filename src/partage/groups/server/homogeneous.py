"""Uniform where all members subscribe alike: quotas, and the rest in consecutive runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.groups.server.answer import Answer, runs_of
from partage.groups.server.claim_steps import larger_quotas
from partage.groups.server.refusals import CoordinatorRefusal
from partage.groups.server.spec import GroupSpec
from partage.groups.server.walks import copied_order, walk_copied_sets, walk_maps
from partage.model.index import Int32Array

__all__ = ["homogeneous"]

_DEFAULT_TABLE = 16
#: Java's maps mix the upper half of a hash into the lower one.
_MIXED_FROM = 1 << 16


def homogeneous(spec: GroupSpec) -> Answer:
    """Kafka's ``UniformHomogeneousAssignmentBuilder``; the group has members.

    Only how many partitions a member had decides its quota. Which of them it loses, if it
    had more, is decided by the order of Java's maps and sets.

    Raises:
        CoordinatorRefusal: a topic's partition count is unknown, or previous targets have
            a partition twice or one that does not exist.
    """
    topics = _topics(spec)
    if not len(topics):
        return Answer.nothing(spec)
    had = _Had.of(spec, topics)
    spec.refuse_uncounted(topics)
    kept, missing = _quotas(spec.visit, int(spec.numbered[1][topics].sum()), had.total)
    before = spec.previous.partition
    keeps, released = _released(spec, had, kept)
    free = spec.free_of(topics)
    free = np.concatenate([free, released]) if len(released) else free
    if len(free) != int(missing.sum()):
        # Quotas add up to what there is, so this cannot happen to a coordinator's own targets.
        raise CoordinatorRefusal(
            "previous targets have a partition twice, or one that does not exist: "
            f"{len(free)} partitions are left for {int(missing.sum())} places"
        )
    stays = before if keeps is None else before[keeps]
    start, owned = _runs(spec, stays, kept, free, missing)
    return Answer(start, owned, emptied=spec.previous.empty(had.wanted))


def _topics(spec: GroupSpec) -> Int32Array:
    """Topics of the first member, in the order of a ``HashSet`` copied from its view of them."""
    named, size = spec.named(int(spec.problem.group.subscription_of[spec.visit[0]]))
    hashes = spec.ids.hashes[named].tolist()
    return named[copied_order(hashes, size)]


@dataclass(frozen=True, eq=False)
class _Had:
    """What members had of the topics that they (still) subscribe to.

    Attributes:
        wanted: bool[S], sets of subscribed topics.
        total: int64[M], partitions in these.
    """

    wanted: NDArray[np.bool_]
    total: NDArray[np.int64]

    @classmethod
    def of(cls, spec: GroupSpec, topics: Int32Array) -> _Had:
        before = spec.previous
        subscribed = np.zeros(len(spec.problem.index.topics) + 1, bool)
        subscribed[topics] = True
        wanted = subscribed[before.topic]  # topic -1 is the last, and nobody's
        total = np.zeros(spec.members, np.int64)
        np.add.at(total, before.member[wanted], before.size[wanted])
        return cls(wanted, total)


def _quotas(
    visit: list[int], partitions: int, total: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many partitions each member keeps, and how many more it gets.

    A larger quota is on loan: who cannot fill it with what it had gives it back as long as
    more members are to come than larger quotas are left.
    """
    quota, extra = divmod(partitions, len(visit))
    order = np.array(visit, np.intp)
    in_turn, kept, missing = np.zeros((3, len(visit)), np.int64)
    in_turn[:] = total[order]
    larger_quotas(in_turn, quota, extra, kept, missing, work=4 * len(visit))
    by_member = np.empty((2, len(visit)), np.int64)
    by_member[0, order], by_member[1, order] = kept, missing
    return by_member[0], by_member[1]


def _released(
    spec: GroupSpec, had: _Had, kept: NDArray[np.int64]
) -> tuple[NDArray[np.bool_] | None, Int32Array]:
    """Which previous partitions stay (bool[n], None for all), and those taken away, in order.

    A member's sets are walked in the order of its map, and each set in its own, until the
    quota is used up; what comes later is free. (Kafka keeps a set that fits as a whole, and
    walks only one that does not: the same members keep the same partitions.)
    """
    before = spec.previous
    keeps = None if had.wanted.all() else np.repeat(had.wanted, before.size)
    visit = np.array(spec.visit, np.int32)
    over = visit[had.total[visit] > kept[visit]]
    if not len(over):
        return keeps, np.zeros(0, np.int32)
    sets, rank = _pieces(before.set_start, over)
    sets = sets[walk_maps(rank, before.uuid_hash[sets])]
    # The rank of the member is that of its place: walking leaves each map's keys together.
    within = had.wanted[sets]
    sets, rank = sets[within], rank[within]
    begin = _running(before.size[sets], rank)
    quota = kept[over][rank]
    cut = begin + before.size[sets] > quota
    sets, begin, quota = sets[cut], begin[cut], quota[cut]
    keeps = np.ones(len(before.partition), bool) if keeps is None else keeps
    tails = _tails(spec, sets, np.maximum(quota - begin, 0))
    if tails is not None:
        keeps[tails] = False
        return keeps, before.partition[tails]
    spots, rank = _pieces(before.start, sets)
    number = spec.problem.index.number_of[before.partition[spots]]
    spots = spots[walk_copied_sets(rank, number.view(np.uint32))]
    nth = _running(np.ones(len(spots), np.int64), rank) + begin[rank]
    gone = spots[nth >= quota[rank]]
    keeps[gone] = False
    return keeps, before.partition[gone]


def _tails(spec: GroupSpec, sets: Int32Array, kept: NDArray[np.int64]) -> Int32Array | None:
    """What follows the first so many of some sets, where Java walks these as they lie; else None.

    It does where partition numbers ascend and are smaller than the slots of the set's table
    (and than 65,536, beyond which hashing mixes): each is alone in the bucket of its number.
    """
    before, index = spec.previous, spec.problem.index
    spots, rank = _pieces(before.start, sets)
    number = index.number_of[before.partition[spots]]
    room = np.maximum(before.size[sets] * 4 // 3, _DEFAULT_TABLE - 1)
    slots = np.int64(1) << np.frexp(room)[1]  # the least power of two above
    alone = (number < slots[rank]) & (number < _MIXED_FROM)
    if not bool(alone.all()) or bool((np.diff(number)[np.diff(rank) == 0] <= 0).any()):
        return None
    begin, end = before.start[:-1][sets] + kept, before.start[1:][sets]
    left = np.maximum(end - begin, 0)
    first = np.repeat(begin - (np.cumsum(left) - left), left)
    return (first + np.arange(len(first))).astype(np.int32)


def _pieces(start: Int32Array, which: Int32Array) -> tuple[Int32Array, NDArray[np.int64]]:
    """Entries of some rows of a CSR, row after row, and the rank of the row of each."""
    sizes = np.diff(start)[which]
    rank = np.repeat(np.arange(len(which)), sizes)
    first = start[:-1][which] - (np.cumsum(sizes) - sizes)
    entries = np.arange(len(rank)) + first[rank]
    return entries.astype(np.int32), rank


def _running(values: NDArray[Any], rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum of the values before each one within its rank; ranks are ascending."""
    before = np.cumsum(values, dtype=np.int64) - values
    first = np.flatnonzero(np.diff(rank, prepend=-1))
    since: NDArray[np.int64] = before - np.repeat(before[first], np.diff(first, append=len(rank)))
    return since


def _runs(
    spec: GroupSpec,
    stays: Int32Array,
    kept: NDArray[np.int64],
    free: Int32Array,
    missing: NDArray[np.int64],
) -> tuple[Int32Array, Int32Array]:
    """Each member's kept partitions (by member in join order), then its run of the free ones."""
    end = np.cumsum(kept)
    visit = np.array(spec.visit, np.intp)
    given_end = np.zeros(spec.members, np.int64)
    given_end[visit] = np.cumsum(missing[visit])
    parts = [
        (stays, end - kept, end),
        (free, given_end - missing, given_end),
    ]
    return runs_of(parts, spec.members)
