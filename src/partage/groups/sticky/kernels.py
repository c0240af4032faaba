"""One pass of the general algorithm over a list of partitions, as a kernel.

The pieces are one thought each: the ring (who comes first), the movements (what went where
before), the list order (`_place`). Names of rows and of states are at the top.
"""
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False

from __future__ import annotations

from partage.kernels import kernel, piece

__all__ = ["CHECK", "CLOCK", "FROM", "MOVED", "MOVES", "ONE_MOVE", "PREV", "SET", "SET_ROWS", "TABLE", "TAINTED", "TO", "UNUSED", "dispute", "give", "give_rows", "go_through", "hash_names", "keep_rows", "read_claims"]


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


@piece
def _alive(after, row):
    """The first row from ``row`` on that is not gone; the way there is made short."""
    root = row
    while after[root] != root:
        root = after[root]
    while after[row] != root:
        step = after[row]
        after[row] = root
        row = step
    return root


@piece
def _not_before(under_place, begin, end, place):
    """The first row of a rack whose position is ``place`` or later."""
    while begin < end:
        middle = (begin + end) >> 1
        if under_place[middle] < place:
            begin = middle + 1
        else:
            end = middle
    return begin


@piece
def _next_under(spot, place, rack_start, rack, under_start, under_place, after):
    """The row of the next member in the circle, from ``place`` on, that is on the spot's racks."""
    ahead, behind = -1, -1
    best, first = -1, -1
    for j in range(rack_start[spot], rack_start[spot + 1]):
        r = rack[j]
        begin, end = under_start[r], under_start[r + 1]
        row = _alive(after, _not_before(under_place, begin, end, place) + r)
        if row - r < end:
            if best < 0 or under_place[row - r] < best:
                best, ahead = under_place[row - r], row
            continue
        row = _alive(after, begin + r)
        if row - r < end and (first < 0 or under_place[row - r] < first):
            first, behind = under_place[row - r], row
    return (ahead, best) if ahead >= 0 else (behind, first)


@piece
def _longest_waiting(spot, rack_start, rack, queue, head, tail, sequence):
    """Of the heads of the queues of the spot's racks the one with the lowest number."""
    chosen = -1
    for j in range(rack_start[spot], rack_start[spot + 1]):
        r = rack[j]
        if head[r] < tail[r]:
            m = queue[head[r]]
            if chosen < 0 or sequence[m] < sequence[chosen]:
                chosen = m
    return chosen


@kernel(
    "int64(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1],"
    " int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int64[::1], boolean[::1],"
    " int32[::1], int64[::1])"
)
def give(
    free, rack_start, rack, member_rack, under, under_start, under_place, after, queue, head,
    tail, sequence, size, gone, out, numbers,
):  # fmt: skip
    """One spot after the other; answers how many members have one more than the low quota.

    ``under`` is walked in a circle from ``place``. For each rack, ``under_place`` has the
    positions in ``under`` of its members; ``after`` leads from each of these (one row more
    per rack ends it) to the next that is not gone yet. ``queue`` has, per rack, members
    that wait for one more; the one with the lowest ``sequence`` has waited longest.
    """
    low, high, extra = numbers[0], numbers[1], numbers[2]
    over, clock, place = numbers[3], numbers[4], 0
    for i in range(len(free)):
        row, at = _next_under(free[i], place, rack_start, rack, under_start, under_place, after)
        if row >= 0:
            m = under[at]
            size[m] += 1
            out[i] = m
            place = at + 1
            if size[m] >= low:
                after[row] = row + 1
                gone[at] = True
                if size[m] < high and over < extra:
                    r = member_rack[m]
                    queue[tail[r]] = m
                    tail[r] += 1
                    sequence[m] = clock
                    clock += 1
            continue
        if over == extra:
            continue
        m = _longest_waiting(free[i], rack_start, rack, queue, head, tail, sequence)
        if m >= 0:
            size[m] += 1
            out[i] = m
            if size[m] == high:
                head[member_rack[m]] += 1
                sequence[m] = -1
                over += 1
                if over == extra:  # nobody waits any more
                    for other in range(len(sequence)):
                        sequence[other] = -1
    return over


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1])")
def keep_rows(order, owner, at, end, out, taken_from):
    """Spots in ``order`` to their owner's row (``at`` to ``end``); what does not fit is taken."""
    for i in range(len(order)):
        spot = order[i]
        m = owner[spot]
        if m < 0:
            continue
        if at[m] < end[m]:
            out[at[m]] = spot
            at[m] += 1
        else:
            taken_from[spot] = m
            owner[spot] = -1


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1])")
def give_rows(spot, member, at, out):
    """Spots to their new owner's row, from ``at`` on."""
    for i in range(len(spot)):
        m = member[i]
        out[at[m]] = spot[i]
        at[m] += 1


@kernel(
    "void(int32[::1], int32[::1], int64[::1], int64[::1], int32[::1], int64[::1],"
    " boolean[::1], boolean[::1])"
)
def dispute(member, spot, generation, sent, owner, entry, holds, disputed):
    """Claims in order; ``owner`` and ``entry`` are by spot, -1 for none."""
    for i in range(len(member)):
        m, s = member[i], spot[i]
        other = owner[s]
        if other >= 0:
            if generation[m] < sent[other]:
                continue
            held = entry[s] >= 0
            if held:
                holds[entry[s]] = False
                entry[s] = -1
            if generation[m] == sent[other]:
                disputed[s] = True
                owner[s] = m
                continue
            # Kafka adds to the new owner's list, then takes the first out of the old one's: who
            # had lost the spot to a dispute and claims it again gets it and loses it at once.
            if other == m and not held:
                continue
        owner[s] = m
        entry[s] = i
        holds[i] = True


_PRIME = 0x01000193
_BASIS = 0x811C9DC5
_MASK = 0xFFFFFFFF


@piece
def _hash(data, begin, end):
    """FNV-1a of some bytes."""
    value = _BASIS
    for i in range(begin, end):
        value = ((value ^ data[i]) * _PRIME) & _MASK
    return value


@piece
def _int(data, at, size):
    """A big-endian signed integer of ``size`` bytes."""
    value = 0
    for i in range(at, at + size):
        value = (value << 8) | data[i]
    half = 1 << (8 * size - 1)
    return value - 2 * half if value >= half else value


@piece
def _same(data, at, names, begin, size):
    """Whether ``size`` bytes are alike."""
    for i in range(size):  # noqa: SIM110 - Numba has no generators in all()
        if data[at + i] != names[begin + i]:
            return False
    return True


@piece
def _is(k, data, at, size, names, name_start):
    """Whether the name in the bytes is that of topic ``k``."""
    begin = name_start[k]
    return name_start[k + 1] - begin == size and _same(data, at, names, begin, size)


@piece
def _topic(data, at, size, names, name_start, table):
    """The topic of a name in the bytes, -1 for a name that is not known."""
    mask = len(table) - 1
    place = _hash(data, at, at + size) & mask
    while table[place] >= 0:
        if _is(table[place], data, at, size, names, name_start):
            return table[place]
        place = (place + 1) & mask
    return -1


@kernel("void(uint8[::1], int64[::1], int32[::1])")
def hash_names(names, name_start, table):
    """Enter names into a hash table that has more slots than there are names; -1 is empty."""
    mask = len(table) - 1
    for k in range(len(name_start) - 1):
        if name_start[k + 1] == name_start[k]:
            continue
        place = _hash(names, name_start[k], name_start[k + 1]) & mask
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = k


@kernel(
    "int64(uint8[::1], int64[::1], uint8[::1], int64[::1], int32[::1], int32[::1], int32[::1],"
    " int32[::1], int64[::1], int64[::1], boolean[::1])"
)
def read_claims(
    data, start, names, name_start, table, after, topic, number, count, generation, dated
):
    """Claims on known topics of members one after the other; answers how many there are.

    ``start`` has where each member's bytes begin and, last, end. Out: ``topic`` and ``number``
    a claim, ``count`` of claims, ``generation`` and ``dated`` a member. Bytes are what
    `decode_sticky_user_data` says: those that are damaged claim nothing, with generation -1.
    ``after`` (scratch, -1) has which topic came after each one last: Java's hash order is the
    same for all members, so it does so again more often than not, and needs no look-up.
    """
    total = 0
    for m in range(len(start) - 1):
        at, end, first, before = start[m], start[m + 1], total, -1
        if at == end:
            continue
        good = end - at >= 4
        groups = _int(data, at, 4) if good else 0
        at += 4
        good = good and 0 <= groups <= end - at
        while good and groups > 0:
            groups -= 1
            good = end - at >= 2
            size = _int(data, at, 2) if good else 0
            at += 2
            good = good and 0 <= size <= end - at - 4
            if not good:
                break
            k = after[before + 1]
            if k < 0 or not _is(k, data, at, size, names, name_start):
                k = _topic(data, at, size, names, name_start, table)
                after[before + 1] = k
            before = k
            at += size
            numbers = _int(data, at, 4)
            at += 4
            good = 0 <= numbers <= (end - at) // 4
            if good and k >= 0:
                for i in range(numbers):
                    topic[total] = k
                    number[total] = _int(data, at + 4 * i, 4)
                    total += 1
            at += 4 * numbers
        if good:
            if end - at >= 4:
                generation[m] = _int(data, at, 4)
                dated[m] = True
        else:
            total = first
            dated[m] = True
        count[m] = total - first
    return total
