"""One pass of the general algorithm over a list of partitions, as a kernel.

The pieces are one thought each: the ring (who comes first), the movements (what went where
before), the list order (`_place`). Names of rows and of states are at the top.
"""
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False

from __future__ import annotations

from partage.kernels import kernel, piece

__all__ = [
    "CHECK", "CLOCK", "FROM", "MOVED", "MOVES", "ONE_MOVE", "PREV", "SET", "SET_ROWS", "TABLE",
    "TAINTED", "TO", "UNUSED", "go_through",
]  # fmt: skip

# Places in ``state``: the next order number; moves of this pass; 1 = look whether the group
# is balanced before this spot moves, 2 = looked at; somebody was given a spot that it does
# not subscribe to; sets in use; 1 = stop after each move; the spot that moved last.
CLOCK, MOVES, CHECK, TAINTED, TOP, ONE_MOVE, MOVED = 0, 1, 2, 3, 4, 5, 6
# Rows of ``net``, by spot: where it came from in this run and where it is, -1 for unmoved;
# its set, and its neighbours in it in order of insertion.
FROM, TO, SET, NEXT, PREV = 0, 1, 2, 3, 4
# Rows of ``sets``, by set: the pair of members, how many spots, slots of Java's table, first
# and last spot, next set of the topic; by topic: its first set; a stack of unused numbers.
SOURCE, TARGET, COUNT, TABLE, FIRST, LAST, AFTER, OF_TOPIC, UNUSED = 0, 1, 2, 3, 4, 5, 6, 7, 8
SET_ROWS = 9

_SMALLEST_TABLE = 16
_CROWD = 8
_TREE_TABLE = 64


@piece
def _raised(cell, base, leaf, tree, m, key):
    """A member's key changed: bring its tree up to date."""
    start, i = base[cell], leaf[m]
    tree[start + i] = key
    while i > 1:
        i >>= 1
        left, right = tree[start + 2 * i], tree[start + 2 * i + 1]
        least = min(right, left)
        if tree[start + i] == least:
            break
        tree[start + i] = least


@piece
def _first(k, spot, racks, cell_start, cell, cell_rack, rack_start, rack, base, tree):
    """The least key of the topic's subscribers, with ``racks`` of those on the spot's racks."""
    best = -1
    for j in range(cell_start[k], cell_start[k + 1]):
        c = cell[j]
        if racks and cell_rack[c] != -1:
            found = False
            for i in range(rack_start[spot], rack_start[spot + 1]):
                if rack[i] == cell_rack[c]:
                    found = True
                    break
            if not found:
                continue
        key = tree[base[c] + 1]
        if best < 0 or key < best:
            best = key
    return best


@piece
def _slot(number, hashed, table):
    """The bucket of a topic-partition in a Java table."""
    h = (31 * (31 + number) + hashed) & 0xFFFFFFFF
    return (h ^ (h >> 16)) & (table - 1)


@piece
def _find(sets, k, source, target):
    """The topic's set of movements of a pair of members, -1 if there is none."""
    s = sets[OF_TOPIC, k]
    while s >= 0 and not (sets[SOURCE, s] == source and sets[TARGET, s] == target):
        s = sets[AFTER, s]
    return s


@piece
def _forget(net, sets, state, k, spot):
    """Take a spot out of its set; an empty set ceases to be."""
    s, before, after = net[SET, spot], net[PREV, spot], net[NEXT, spot]
    if before >= 0:
        net[NEXT, before] = after
    else:
        sets[FIRST, s] = after
    if after >= 0:
        net[PREV, after] = before
    else:
        sets[LAST, s] = before
    net[TO, spot] = -1
    sets[COUNT, s] -= 1
    if sets[COUNT, s] > 0:
        return
    if sets[OF_TOPIC, k] == s:
        sets[OF_TOPIC, k] = sets[AFTER, s]
    else:
        other = sets[OF_TOPIC, k]
        while sets[AFTER, other] != s:
            other = sets[AFTER, other]
        sets[AFTER, other] = sets[AFTER, s]
    state[TOP] -= 1
    sets[UNUSED, state[TOP]] = s


@piece
def _note(net, sets, state, k, spot, source, target, number, hashed):
    """Put a spot into the set of its pair; Java's table grows for load and for a crowd."""
    s = _find(sets, k, source, target)
    if s < 0:
        s = sets[UNUSED, state[TOP]]
        state[TOP] += 1
        sets[SOURCE, s], sets[TARGET, s], sets[COUNT, s] = source, target, 0
        sets[TABLE, s], sets[FIRST, s], sets[LAST, s] = _SMALLEST_TABLE, -1, -1
        sets[AFTER, s] = sets[OF_TOPIC, k]
        sets[OF_TOPIC, k] = s
    if sets[TABLE, s] < _TREE_TABLE:
        mine, mates = _slot(number[spot], hashed, sets[TABLE, s]), 0
        other = sets[FIRST, s]
        while other >= 0:
            if _slot(number[other], hashed, sets[TABLE, s]) == mine:
                mates += 1
            other = net[NEXT, other]
        if mates >= _CROWD:
            sets[TABLE, s] *= 2
    last = sets[LAST, s]
    net[FROM, spot], net[TO, spot], net[SET, spot] = source, target, s
    net[PREV, spot], net[NEXT, spot] = last, -1
    if last >= 0:
        net[NEXT, last] = spot
    else:
        sets[FIRST, s] = spot
    sets[LAST, s] = spot
    sets[COUNT, s] += 1
    if 4 * sets[COUNT, s] > 3 * sets[TABLE, s]:
        sets[TABLE, s] *= 2


@piece
def _actual(net, sets, k, spot, holder, target, number, hashed):
    """The spot to move instead: the first, in Java's order, that went the opposite way."""
    source = net[FROM, spot] if net[TO, spot] >= 0 else holder
    s = _find(sets, k, target, source)
    if s < 0:
        return spot
    best = one = sets[FIRST, s]
    least = _slot(number[best], hashed, sets[TABLE, s])
    while one >= 0:
        slot = _slot(number[one], hashed, sets[TABLE, s])
        if slot < least:
            best, least = one, slot
        one = net[NEXT, one]
    return best


@piece
def _record(net, sets, state, k, spot, holder, target, number, hashed):
    """A spot goes from its holder to another; only where it came from first counts."""
    source = holder
    if net[TO, spot] >= 0:
        source = net[FROM, spot]
        _forget(net, sets, state, k, spot)
        if source == target:
            return
    _note(net, sets, state, k, spot, source, target, number, hashed)


@kernel(
    "int64(int32[::1], int64, boolean, boolean, int64[::1], int32[::1], int32[::1], int32[::1],"
    " int64[::1], int32[::1], boolean[::1], int32[::1], int32[::1], int32[::1], int32[::1],"
    " int32[::1], int32[::1], int64[::1], int32[::1], int64[::1], int32[::1], int32[::1],"
    " int32[::1], int32[:, ::1], int32[:, ::1], int64[::1], int32[::1])"
)
def go_through(
    spots, at, filling, racks, state, topic_of, owner, seq, size, previous, fixed,
    cell_start, cell, cell_rack, rack_start, rack, cell_of, base, leaf, tree, rank, by_rank,
    stamp, net, sets, hashed, number,
):  # fmt: skip
    """Go through ``spots`` from ``at`` on; answers where it stopped.

    Filling, each goes to the first member of the ring that subscribes. Otherwise one moves if
    its holder has two more than its previous owner, or than a subscriber. Where Kafka's test
    for balance could decide (see ``Balancing``), the pass stops with ``state[CHECK] = 1``; with
    ``state[ONE_MOVE]``, after each move.
    """
    members, topic = len(rank), -1
    for i in range(at, len(spots)):
        spot = spots[i]
        k, holder = topic_of[spot], owner[spot]
        if k != topic:
            topic = k
            for j in range(cell_start[k], cell_start[k + 1]):
                stamp[cell[j]] = k
        target, doubtful = -1, False
        if not filling and previous[spot] >= 0:
            v = previous[spot]
            if fixed[v] and state[CHECK] != 2:
                state[CHECK] = 1
                return i
            if size[holder] > size[v] + 1:
                target = v
                doubtful = stamp[cell_of[v]] != k
        if target < 0:
            key = _first(k, spot, racks, cell_start, cell, cell_rack, rack_start, rack, base, tree)
            if key < 0 or (not filling and size[holder] <= key // members + 1):
                state[CHECK] = 0
                continue
            target = by_rank[key % members]
        if not filling:
            if (doubtful or state[TAINTED] == 1) and state[CHECK] != 2:
                state[CHECK] = 1
                return i
            if doubtful:
                state[TAINTED] = 1
            spot = _actual(net, sets, k, spot, holder, target, number, hashed[k])
            holder = owner[spot]
            _record(net, sets, state, k, spot, holder, target, number, hashed[k])
            size[holder] -= 1
            key = size[holder] * members + rank[holder]
            _raised(cell_of[holder], base, leaf, tree, holder, key)
        state[CHECK] = 0
        owner[spot], seq[spot] = target, state[CLOCK]
        state[CLOCK] += 1
        state[MOVES] += 1
        size[target] += 1
        _raised(cell_of[target], base, leaf, tree, target, size[target] * members + rank[target])
        if state[ONE_MOVE] == 1:
            state[MOVED] = spot
            return i + 1
    return len(spots)
