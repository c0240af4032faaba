# ruff: noqa: PLR0917 - kernels take arrays by place, and have many
"""Placement by the KRaft controller's ``StripedReplicaPlacer`` (4.3.1), with its random numbers.

Each rack has a ring of unfenced brokers and one of fenced ones. Partitions begin one rack and,
within the racks, one broker later each time; when as many partitions are placed as there are
unfenced brokers, racks and rings are shuffled, so that pairs of brokers do not repeat.

Rows are computed with array operations if that is exact, else one by one. Between two shuffles, as
many partitions are placed as there are unfenced brokers (an epoch each). A shuffle depends on its
draws alone. So all shuffles are computed at once and applied one after another. A ring advances by
one broker in each epoch that uses it. Counting these epochs gives the broker of each row by
arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidPlacementError
from partage.java.hash_order import hash_set_order
from partage.java.strings import string_hash, string_order_key
from partage.kernels import kernel, kernel_helper
from partage.model import Broker
from partage.replicas.draws import LookaheadDraws, next_int

__all__ = ["place_in_stripes"]

Int32Array = NDArray[np.int32]

_REFUSED = "InvalidReplicationFactorException"
#: Draws beyond those that are sure to be needed: ``nextInt`` rejects one in millions.
_SPARE = 64


def place_in_stripes(
    brokers: Sequence[Broker], draws: LookaheadDraws, partitions: int, factor: int
) -> Int32Array:
    """Place the replicas of each partition as KRaft's ``StripedReplicaPlacer`` does.

    The result has broker ids, the preferred leader first (int32[partitions, factor]).

    Args:
        brokers: the brokers with racks, fenced ones included.
        draws: Java's random number generator; numbers are consumed.
        partitions: number of partitions.
        factor: replication factor.

    Raises:
        InvalidPlacementError: the factor is not positive, all brokers are fenced, or there are
            fewer brokers than the factor; checked in this order, as Kafka does.
    """
    rings = _Rings(brokers, draws)
    if factor <= 0:
        raise InvalidPlacementError(
            f"invalid replication factor {factor}: it must be positive", java_exception=_REFUSED
        )
    if rings.unfenced == 0:
        raise InvalidPlacementError("all brokers are currently fenced", java_exception=_REFUSED)
    if factor > len(brokers):
        raise InvalidPlacementError(
            f"replication factor {factor} cannot be reached: only {len(brokers)} "
            f"{'broker is' if len(brokers) == 1 else 'brokers are'} registered",
            java_exception=_REFUSED,
        )
    return rings.place(draws, partitions, factor)


class _Rings:
    """Circular lists (rings) of each rack's brokers, from which KRaft's replica placer chooses.

    Each rack has a ring of unfenced brokers and a ring of fenced ones, which are used last.
    """

    def __init__(self, brokers: Sequence[Broker], draws: LookaheadDraws) -> None:
        # A missing rack is Optional.empty(), which hashes to 0 and sorts first.
        racks = hash_set_order(
            [b.rack for b in brokers], lambda rack: 0 if rack is None else string_hash(rack)
        )
        self.unfenced = sum(not b.fenced for b in brokers)
        rows: list[list[int]] = []
        self.offset = np.zeros(2 * len(racks), np.int64)
        for r, rack in enumerate(racks):
            rings = [
                sorted(b.id for b in brokers if b.rack == rack and b.fenced is fenced)
                for fenced in (False, True)
            ]
            rows += rings
            for which in (1, 0):  # fenced brokers draw first
                if rings[which]:
                    self.offset[2 * r + which] = next_int(draws, len(rings[which]))
        self.start = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        self.broker = np.array([b for row in rows for b in row], np.int32)
        names = sorted(range(len(racks)), key=lambda r: _rack_key(racks[r]))
        self.names = np.array(names, np.int64)
        self.rack_offset = next_int(draws, len(racks)) if racks else 0

    def place(self, draws: LookaheadDraws, partitions: int, factor: int) -> Int32Array:
        size = len(self.broker) + len(self.names)
        shuffles = max(partitions - 1, 0) // self.unfenced if self.unfenced > 1 else 0
        wanted = shuffles * size + _SPARE
        while True:
            raw = draws.peek_numbers(wanted)
            # Nearly always all partitions at once; step by step where rings run dry.
            found = place_at_once(
                self.start, self.broker, self.names, self.offset, self.rack_offset,
                raw, (partitions, factor),
            )  # fmt: skip
            if found is not None:
                draws.skip_numbers(shuffles * _draws_of_a_shuffle(self.start, len(self.names)))
                return found
            out = np.empty((partitions, factor), np.int32)
            state = np.zeros((3, len(self.offset)), np.int64)  # epoch, index, offset
            state[2] = self.offset
            used = place_one_by_one(
                self.start, self.broker.copy(), self.names.copy(), state, self.rack_offset,
                self.unfenced, raw, out, work=2 * partitions * factor + wanted,
            )  # fmt: skip
            if used >= 0:
                draws.skip_numbers(used)
                return out
            wanted *= 2  # ``nextInt`` rejected more draws than the spare ones


def _draws_of_a_shuffle(start: NDArray[np.int64], racks: int) -> int:
    # n - 1 for a list of n items: the list of racks, and each ring.
    return max(racks - 1, 0) + int(np.maximum(np.diff(start) - 1, 0).sum())


def _rack_key(rack: str | None) -> tuple[bool, bytes]:
    # A missing rack comes first, then Java's string order.
    return rack is not None, string_order_key(rack or "")


Ints = NDArray[np.int64]


def place_at_once(
    start: Ints,
    broker: NDArray[np.int32],
    names: Ints,
    offset: Ints,
    rack_offset: int,
    random_numbers: Ints,
    shape: tuple[int, int],
) -> NDArray[np.int32] | None:
    """Place the replicas of all partitions at once like KRaft's ``StripedReplicaPlacer``.

    The placer itself places one partition after the other. A ring is the circular list of a rack's
    brokers.

    Args:
        start: int64[2 racks + 1], first index of each ring in ``broker``: for each rack the ring of
            unfenced brokers, then the ring of fenced ones.
        broker: int32, ids of all brokers, ring by ring.
        names: int64[racks], racks in order of their names.
        offset: int64[2 racks], index within each ring of its first broker to use.
        rack_offset: index in ``names`` of the first partition's first rack.
        random_numbers: int64, the next random numbers, at least as many as all shuffles need.
        shape: number of partitions, and replicas of each.

    Returns:
        int32[shape]; None in rare cases, for which `place_one_by_one` must be used.
    """
    # The rare cases: an unfenced ring can run dry in a row, a ring may stay unused until its epoch
    # number recurs, or Java rejects a draw.
    rows, factor = shape
    racks, sizes = len(names), np.diff(start)
    unfenced = sizes[0::2]
    block = int(unfenced.sum())  # partitions between two shuffles
    if -(-factor // racks) > int(unfenced.min()):
        return None
    if factor < racks and block <= 2 * (racks - factor) + 1:
        return None
    blocks = max(-(-rows // block), 1) if block > 1 else 1
    length = block if block > 1 else max(rows, 1)
    shuffles = _shuffle_lists([racks, *_rings_in_turn(sizes)], random_numbers, blocks - 1)
    if shuffles is None:
        return None
    # All lists in one: names, then each rack's fenced ring and unfenced one, as they are shuffled.
    rings = [broker[start[r ^ 1] : start[(r ^ 1) + 1]] for r in range(2 * racks)]
    whole = np.empty((blocks, shuffles.shape[1]), np.int64)
    whole[0, :racks], whole[0, racks:] = names, np.concatenate(rings)
    for i, one in enumerate(shuffles):
        whole[i + 1] = whole[i][one]
    return _look_up_brokers(whole, sizes, offset[0::2], (rack_offset, length), shape)


def _rings_in_turn(sizes: Ints) -> list[int]:
    # A shuffle visits the fenced ring of a rack before the unfenced one.
    return [int(sizes[ring ^ 1]) for ring in range(len(sizes))]


def _shuffle_lists(lengths: list[int], random_numbers: Ints, shuffle_count: int) -> Ints | None:
    """Compute many shuffles of several lists at once, equal to Java's ``Collections.shuffle``.

    KRaft's replica placer shuffles its lists of racks and brokers each time when it has placed as
    many partitions as there are unfenced brokers.

    Args:
        lengths: number of elements of each list.
        random_numbers: the next numbers of Java's random generator.
        shuffle_count: number of shuffles of all lists.

    Returns:
        int64[count, sum of lengths], the old index for each new index; None in rare cases.
    """
    # Java rejects one draw in millions, which would shift all later draws: the result is None then.
    bounds = np.concatenate([np.arange(size, 1, -1) for size in lengths]).astype(np.int64)
    drawn = random_numbers[: shuffle_count * len(bounds)].reshape(shuffle_count, len(bounds))
    rest = drawn % bounds
    powers = (bounds & (bounds - 1)) == 0
    if ((drawn - rest + (bounds - 1) >= 1 << 31) & ~powers).any():
        return None
    places = np.where(powers, (bounds * drawn) >> 31, rest)
    begin = np.cumsum([0, *lengths])
    drawn_at = np.cumsum([0, *(max(size - 1, 0) for size in lengths)])
    out = np.empty((shuffle_count, int(begin[-1])), np.int64)
    for size in sorted(set(lengths) - {0}):
        alike = [i for i, one in enumerate(lengths) if one == size]
        mine = np.stack([places[:, drawn_at[i] : drawn_at[i] + size - 1] for i in alike])
        done = _permutations_from_swaps(mine.reshape(len(alike) * shuffle_count, size - 1), size)
        for i, one in zip(alike, done.reshape(len(alike), shuffle_count, size), strict=True):
            out[:, begin[i] : begin[i + 1]] = one + begin[i]
    return out


def _permutations_from_swaps(places: Ints, list_length: int) -> Ints:
    """Compute the permutations that the swaps of Java's ``Collections.shuffle`` produce.

    All lists have the same length and are computed together.

    Args:
        places: int64[n, swaps], for each list the index that is swapped with the last element, then
            the index that is swapped with the last but one, and so on.
        list_length: length of each list.

    Returns:
        int64[n, size], one permutation for each row.
    """
    out = np.repeat(np.arange(list_length)[:, None], len(places), axis=1)
    each = np.arange(len(places))
    for i, last in enumerate(range(list_length - 1, 0, -1)):
        other = places[:, i]
        kept = out[last].copy()
        out[last] = out[other, each]
        out[other, each] = kept
    turned: Ints = out.T
    return turned


def _look_up_brokers(
    shuffled: Ints, sizes: Ints, offset: Ints, turn: tuple[int, int], shape: tuple[int, int]
) -> NDArray[np.int32]:
    """Return the broker of each replica from shuffled lists of brokers.

    The result is int32[partitions, replicas]. KRaft's placer shuffles the lists after a number of
    partitions. The partitions between two shuffles form a block: they use the same lists.

    Args:
        shuffled: for each block, the racks in order and then the brokers of each rack.
        sizes: number of brokers in the list of each rack.
        offset: index in each list of the first broker to use.
        turn: index of the first partition's first rack, and number of partitions in a block.
        shape: number of partitions, and replicas of each.
    """
    (rows, factor), (rack_offset, length) = shape, turn
    blocks, racks = len(shuffled), len(offset)
    order = shuffled[:, :racks]
    epoch, block = np.arange(length), np.arange(blocks)
    begin = (rack_offset + block * length) % racks
    # Of each block and place in its order: the ring's beginning in ``shuffled``, size and turns.
    in_turn = np.cumsum([racks, *_rings_in_turn(sizes)])
    ring_at = (in_turn[1:-1:2] + (block * shuffled.shape[1])[:, None])[block[:, None], order]
    size = sizes[0::2][order]
    earlier = _count_uses_before_block(order, begin, length, factor)
    turned = (offset + earlier)[block[:, None], order]
    out = np.empty((blocks, length, factor), np.int32)
    flat = shuffled.ravel()
    for j in range(factor):
        place = (begin[:, None] + (epoch + j)) % racks + (block * racks)[:, None]
        at = turned.ravel()[place] + _count_uses_in_block(epoch, j, factor, racks) + j // racks
        at %= size.ravel()[place] if (size != size[0, 0]).any() else size[0, 0]
        out[:, :, j] = flat[ring_at.ravel()[place] + at]
    return out.reshape(blocks * length, factor)[:rows]


def _count_uses_in_block(epoch: Ints, replica_index: Any, factor: int, racks: int) -> Ints:
    """Count how often KRaft's replica placer has used a rack since it last shuffled the brokers.

    The count tells which broker of the rack comes next.

    Args:
        epoch: number of each partition, counted from the shuffle on.
        replica_index: index of the replica whose rack is counted.
        factor: replicas of each partition.
        racks: number of racks.

    Returns:
        int64[epochs], one count for each partition, which includes it.
    """
    # The first rack moves on by one with each partition, so earlier partitions used this rack for
    # the replicas after `replica_index`.
    if factor >= racks:
        return epoch + 1
    rounds = (epoch + replica_index) // racks
    earlier = (rounds - 1) * factor + np.minimum((epoch + replica_index) % racks + 1, factor)
    out: Ints = np.minimum(factor - 1 - replica_index, epoch) + np.where(rounds > 0, earlier, 0) + 1
    return out


def _count_uses_before_block(order: Ints, begin: Ints, length: int, factor: int) -> Ints:
    """Count how often KRaft's replica placer used each rack before each shuffle of the brokers.

    The counts tell at which broker of a rack the placer continues. The result is int64[shuffles,
    racks].

    Args:
        order: racks in their order after each shuffle (int64[shuffles, racks]).
        begin: index in ``order`` of the first rack of the first partition after each shuffle.
        length: number of partitions between two shuffles.
        factor: replicas of each partition.
    """
    blocks, racks = order.shape
    replicas = np.minimum(factor, racks)
    # The last row of a block that uses a rack is the block's last row, or some rows before.
    last = (np.arange(racks) - (begin[:, None] + length - 1)) % racks
    there = last < replicas
    epochs = length - 1 - np.where(there, 0, racks - last)
    asked = _count_uses_in_block(epochs, np.where(there, last, 0), factor, racks)
    each = np.where(epochs >= 0, asked, 0)
    out = np.zeros((blocks, racks), np.int64)
    of_rack = np.empty((blocks, racks), np.int64)
    np.put_along_axis(of_rack, order, each, axis=1)
    np.cumsum(of_rack[:-1], axis=0, out=out[1:])
    # The very first use of a rack does not count, because a ring only advances from its second use
    # on.
    out[:, order[0, (begin[0] + np.arange(replicas)) % racks]] -= 1
    return out


@kernel_helper
def _bounded(raw: Any, used: int, bound: int) -> int:
    # The first draw from ``used`` on that Java's nextInt(bound) accepts, -1 for none.
    if bound & (bound - 1) == 0:
        return used if used < len(raw) else -1
    while used < len(raw) and raw[used] - raw[used] % bound + bound - 1 >= 2147483648:
        used += 1
    return used if used < len(raw) else -1


@kernel_helper
def _shuffle_range(items: Any, begin: int, end: int, random_numbers: Any, used: int) -> int:
    """Shuffle ``items[begin:end]`` in place like Java's ``Collections.shuffle``.

    KRaft's replica placer shuffles its lists of brokers in this way.

    Args:
        items: the array whose range is shuffled.
        begin: first index of the range.
        end: index after the range.
        random_numbers: random numbers of Java's generator.
        used: number of them that are already consumed.

    Returns:
        the number of random numbers consumed afterwards; -1 if ``random_numbers`` has too few.
    """
    for size in range(end - begin, 1, -1):
        used = _bounded(random_numbers, used, size)
        if used < 0:
            return -1
        bits = random_numbers[used]
        used += 1
        other = begin + (size * bits >> 31 if size & (size - 1) == 0 else bits % size)
        last = begin + size - 1
        kept = items[last]
        items[last] = items[other]
        items[other] = kept
    return used


@kernel_helper
def _next(ring: int, epoch: int, start: Any, state: Any) -> int:
    # -1: all brokers of the ring were used in this epoch.
    size = start[ring + 1] - start[ring]
    if size == 0:
        return -1
    if state[0, ring] != epoch:
        state[0, ring] = epoch
        state[1, ring] = 0
        state[2, ring] += 1
        if state[2, ring] >= size:
            state[2, ring] = 0
    if state[1, ring] >= size:
        return -1
    at = state[1, ring] + state[2, ring]
    state[1, ring] += 1
    return start[ring] + (at - size if at >= size else at)  # type: ignore[no-any-return]  # an item


@kernel(
    "int64(int64[::1], int32[::1], int64[::1], int64[:, ::1], int64, int64, int64[::1],"
    " int32[:, ::1])"
)
def place_one_by_one(
    start: Any,
    broker: Any,
    names: Any,
    state: Any,
    offset: int,
    unfenced: int,
    random_numbers: Any,
    out: Any,
) -> int:
    """Place the replicas of one partition after another like KRaft's ``StripedReplicaPlacer``.

    The broker ids are written into ``out``. The result is the number of random numbers consumed, or
    -1 if ``random_numbers`` has too few.

    Args:
        start: first index of each ring in ``broker``, as in `place_at_once`.
        broker: ids of all brokers, ring by ring; shuffled in place.
        names: racks in order of their names; shuffled in place.
        state: epoch, index and offset of each ring.
        offset: index in ``names`` of the first partition's first rack.
        unfenced: number of unfenced brokers.
        random_numbers: the next random numbers of Java's generator.
        out: int32[partitions, replicas], output.
    """
    racks = len(names)
    used = 0
    epoch = 0
    for row in range(len(out)):
        if epoch == unfenced and unfenced > 1:
            used = _shuffle_range(names, 0, racks, random_numbers, used)
            for ring in range(2 * racks):
                fenced_first = ring ^ 1
                if used >= 0:
                    used = _shuffle_range(
                        broker, start[fenced_first], start[fenced_first + 1], random_numbers, used
                    )
            if used < 0:
                return -1
            epoch = 0
        if offset == racks:
            offset = 0
        first = offset
        at = _next(2 * names[first], epoch, start, state)
        while at < 0:
            first = first + 1 if first + 1 < racks else 0
            at = _next(2 * names[first], epoch, start, state)
        out[row, 0] = broker[at]
        i = offset
        for j in range(1, out.shape[1]):
            at = -1
            while at < 0:
                if i == first:
                    first = -1
                else:
                    at = _next(2 * names[i], epoch, start, state)
                    if at < 0:
                        at = _next(2 * names[i] + 1, epoch, start, state)
                i = i + 1 if i + 1 < racks else 0
            out[row, j] = broker[at]
        epoch += 1
        offset += 1
    return used
