"""Kernels of the sticky package.

`balance_pass` is one pass of the general algorithm over a list of slots; its pieces are the member
queue (`_update_key`, `_first_key`) and Kafka's ``PartitionMovements`` (`_find` to `_record`).
`assign_on_racks`, `keep_up_to_quota` and `append_to_lists` belong to the constrained algorithm,
`resolve_disputes`, `hash_names` and `read_claims` to the claims.
"""
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False

from __future__ import annotations

from partage.kernels import kernel, piece

__all__ = [
    "CHECK",
    "CLOCK",
    "FROM",
    "MOVED",
    "MOVES",
    "ONE_MOVE",
    "PREV",
    "SET",
    "SET_ROWS",
    "TABLE",
    "TAINTED",
    "TO",
    "UNUSED",
    "append_to_lists",
    "assign_on_racks",
    "balance_pass",
    "hash_names",
    "keep_up_to_quota",
    "read_claims",
    "resolve_disputes",
]


# Indexes into ``state``: the next order number; moves of this pass; 1 = the caller must check
# whether the group is balanced before this slot moves, 2 = checked; whether a member has a slot of
# a topic that it does not subscribe to; sets in use; 1 = stop after each move; the last moved slot.
CLOCK, MOVES, CHECK, TAINTED, TOP, ONE_MOVE, MOVED = 0, 1, 2, 3, 4, 5, 6
# Rows of ``net``, by slot: its first owner in this run and its present one (-1 if it has not
# moved), its set of movements, and its neighbours in that set in order of insertion.
FROM, TO, SET, NEXT, PREV = 0, 1, 2, 3, 4
# Rows of ``sets``, by set: source and target member, number of slots, length of Java's table, first
# and last slot, next set of the topic; by topic: its first set; a stack of unused set numbers.
SOURCE, TARGET, COUNT, TABLE, FIRST, LAST, AFTER, OF_TOPIC, UNUSED = 0, 1, 2, 3, 4, 5, 6, 7, 8
SET_ROWS = 9

#: Initial table length of a HashMap.
_SMALLEST_TABLE = 16
#: ``TREEIFY_THRESHOLD`` and ``MIN_TREEIFY_CAPACITY`` of Java's HashMap.
_MAX_CHAIN = 8
_MIN_TREE_TABLE = 64


@piece
def _update_key(cell, base, leaf, tree, m, key):
    """Set a member's key and update the tournament tree above it."""
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
def _first_key(k, slot, racks, cell_start, cell, cell_rack, rack_start, rack, base, tree):
    """Return the least key of the topic's subscribers, with ``racks`` of those on its racks."""
    best = -1
    for j in range(cell_start[k], cell_start[k + 1]):
        c = cell[j]
        if racks and cell_rack[c] != -1:
            found = False
            for i in range(rack_start[slot], rack_start[slot + 1]):
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
def _bucket(number, hashed, table):
    """Return the bucket of a ``TopicPartition`` in a Java table."""
    h = (31 * (31 + number) + hashed) & 0xFFFFFFFF
    return (h ^ (h >> 16)) & (table - 1)


@piece
def _find(sets, k, source, target):
    """Return the topic's set of movements between a pair of members, -1 if there is none."""
    s = sets[OF_TOPIC, k]
    while s >= 0 and not (sets[SOURCE, s] == source and sets[TARGET, s] == target):
        s = sets[AFTER, s]
    return s


@piece
def _remove(net, sets, state, k, slot):
    """Remove a slot from its set; an empty set is freed."""
    s, before, after = net[SET, slot], net[PREV, slot], net[NEXT, slot]
    if before >= 0:
        net[NEXT, before] = after
    else:
        sets[FIRST, s] = after
    if after >= 0:
        net[PREV, after] = before
    else:
        sets[LAST, s] = before
    net[TO, slot] = -1
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
def _add(net, sets, state, k, slot, source, target, number, hashed):
    """Add a slot to the set of its pair; Java's table grows by load and by long chains."""
    s = _find(sets, k, source, target)
    if s < 0:
        s = sets[UNUSED, state[TOP]]
        state[TOP] += 1
        sets[SOURCE, s], sets[TARGET, s], sets[COUNT, s] = source, target, 0
        sets[TABLE, s], sets[FIRST, s], sets[LAST, s] = _SMALLEST_TABLE, -1, -1
        sets[AFTER, s] = sets[OF_TOPIC, k]
        sets[OF_TOPIC, k] = s
    if sets[TABLE, s] < _MIN_TREE_TABLE:
        bucket, chain = _bucket(number[slot], hashed, sets[TABLE, s]), 0
        other = sets[FIRST, s]
        while other >= 0:
            if _bucket(number[other], hashed, sets[TABLE, s]) == bucket:
                chain += 1
            other = net[NEXT, other]
        if chain >= _MAX_CHAIN:
            sets[TABLE, s] *= 2
    last = sets[LAST, s]
    net[FROM, slot], net[TO, slot], net[SET, slot] = source, target, s
    net[PREV, slot], net[NEXT, slot] = last, -1
    if last >= 0:
        net[NEXT, last] = slot
    else:
        sets[FIRST, s] = slot
    sets[LAST, s] = slot
    sets[COUNT, s] += 1
    if 4 * sets[COUNT, s] > 3 * sets[TABLE, s]:
        sets[TABLE, s] *= 2


@piece
def _actual(net, sets, k, slot, holder, target, number, hashed):
    """Return the slot to move instead: the first in Java's order that moved the opposite way."""
    source = net[FROM, slot] if net[TO, slot] >= 0 else holder
    s = _find(sets, k, target, source)
    if s < 0:
        return slot
    best = one = sets[FIRST, s]
    least = _bucket(number[best], hashed, sets[TABLE, s])
    while one >= 0:
        bucket = _bucket(number[one], hashed, sets[TABLE, s])
        if bucket < least:
            best, least = one, bucket
        one = net[NEXT, one]
    return best


@piece
def _record(net, sets, state, k, slot, holder, target, number, hashed):
    """Record that a slot moves to another member; only its first owner in this run counts."""
    source = holder
    if net[TO, slot] >= 0:
        source = net[FROM, slot]
        _remove(net, sets, state, k, slot)
        if source == target:
            return
    _add(net, sets, state, k, slot, source, target, number, hashed)


@kernel(
    "int64(int32[::1], int64, boolean, boolean, int64[::1], int32[::1], int32[::1], int32[::1],"
    " int64[::1], int32[::1], boolean[::1], int32[::1], int32[::1], int32[::1], int32[::1],"
    " int32[::1], int32[::1], int64[::1], int32[::1], int64[::1], int32[::1], int32[::1],"
    " int32[::1], int32[:, ::1], int32[:, ::1], int64[::1], int32[::1])"
)
def balance_pass(
    slots, at, filling, racks, state, topic_of, owner, seq, size, previous, fixed,
    cell_start, cell, cell_rack, rack_start, rack, cell_of, base, leaf, tree, rank, by_rank,
    stamp, net, sets, hashed, number,
):  # fmt: skip
    """Process ``slots`` from position ``at``; return the position at which the pass stopped.

    With ``filling``, each slot goes to the first member of the queue that subscribes to its
    topic. Otherwise a slot moves if its owner has at least two slots more than the previous
    owner, or than a subscriber. The pass stops with ``state[CHECK] = 1`` where Kafka's balance
    test could matter (see ``ArrayBalancer``), and with ``state[ONE_MOVE]`` after each move.
    """
    members, topic = len(rank), -1
    for i in range(at, len(slots)):
        slot = slots[i]
        k, holder = topic_of[slot], owner[slot]
        if k != topic:
            topic = k
            for j in range(cell_start[k], cell_start[k + 1]):
                stamp[cell[j]] = k
        target, not_subscribed = -1, False
        if not filling and previous[slot] >= 0:
            v = previous[slot]
            if fixed[v] and state[CHECK] != 2:
                state[CHECK] = 1
                return i
            if size[holder] > size[v] + 1:
                target = v
                not_subscribed = stamp[cell_of[v]] != k
        if target < 0:
            key = _first_key(
                k, slot, racks, cell_start, cell, cell_rack, rack_start, rack, base, tree
            )
            if key < 0 or (not filling and size[holder] <= key // members + 1):
                state[CHECK] = 0
                continue
            target = by_rank[key % members]
        if not filling:
            if (not_subscribed or state[TAINTED] == 1) and state[CHECK] != 2:
                state[CHECK] = 1
                return i
            if not_subscribed:
                state[TAINTED] = 1
            slot = _actual(net, sets, k, slot, holder, target, number, hashed[k])
            holder = owner[slot]
            _record(net, sets, state, k, slot, holder, target, number, hashed[k])
            size[holder] -= 1
            key = size[holder] * members + rank[holder]
            _update_key(cell_of[holder], base, leaf, tree, holder, key)
        state[CHECK] = 0
        owner[slot], seq[slot] = target, state[CLOCK]
        state[CLOCK] += 1
        state[MOVES] += 1
        size[target] += 1
        _update_key(
            cell_of[target], base, leaf, tree, target, size[target] * members + rank[target]
        )
        if state[ONE_MOVE] == 1:
            state[MOVED] = slot
            return i + 1
    return len(slots)


@piece
def _next_row(after, row):
    """Return the first row from ``row`` that is not removed (with path compression)."""
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
    """Return the first row of a rack whose position is at least ``place``."""
    while begin < end:
        middle = (begin + end) >> 1
        if under_place[middle] < place:
            begin = middle + 1
        else:
            end = middle
    return begin


@piece
def _next_under(slot, place, rack_start, rack, under_start, under_place, after):
    """Return the row of the next member on the slot's racks, cyclically from ``place``."""
    ahead, behind = -1, -1
    best, first = -1, -1
    for j in range(rack_start[slot], rack_start[slot + 1]):
        r = rack[j]
        begin, end = under_start[r], under_start[r + 1]
        row = _next_row(after, _not_before(under_place, begin, end, place) + r)
        if row - r < end:
            if best < 0 or under_place[row - r] < best:
                best, ahead = under_place[row - r], row
            continue
        row = _next_row(after, begin + r)
        if row - r < end and (first < 0 or under_place[row - r] < first):
            first, behind = under_place[row - r], row
    return (ahead, best) if ahead >= 0 else (behind, first)


@piece
def _longest_waiting(slot, rack_start, rack, queue, head, tail, sequence):
    """Return the member at the head of a queue of the slot's racks that has waited longest."""
    chosen = -1
    for j in range(rack_start[slot], rack_start[slot + 1]):
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
def assign_on_racks(
    free, rack_start, rack, member_rack, under, under_start, under_place, after, queue, head,
    tail, sequence, size, full, out, numbers,
):  # fmt: skip
    """Assign free slots to members on their racks; return how many members exceed the low quota.

    ``under`` is iterated cyclically from ``place``. ``under_place`` has, by rack, the positions
    of its members in ``under``; ``after`` leads from each row (and one more per rack) to the
    next member below the quota. ``queue`` has, by rack, the members that wait for one more; the
    one with the lowest ``sequence`` has waited longest.
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
                full[at] = True
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
                if over == extra:  # no member waits any more
                    for other in range(len(sequence)):
                        sequence[other] = -1
    return over


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1])")
def keep_up_to_quota(order, owner, at, end, out, previous_owner):
    """Copy slots in ``order`` to their owner's row (``at`` to ``end``); revoke those beyond it."""
    for i in range(len(order)):
        slot = order[i]
        m = owner[slot]
        if m < 0:
            continue
        if at[m] < end[m]:
            out[at[m]] = slot
            at[m] += 1
        else:
            previous_owner[slot] = m
            owner[slot] = -1


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1])")
def append_to_lists(slot, member, at, out):
    """Append slots to their new owner's row, of which ``at`` is the next free place."""
    for i in range(len(slot)):
        m = member[i]
        out[at[m]] = slot[i]
        at[m] += 1


@kernel(
    "void(int32[::1], int32[::1], int64[::1], int64[::1], int32[::1], int64[::1],"
    " boolean[::1], boolean[::1])"
)
def resolve_disputes(member, slot, generation, sent, owner, entry, holds, disputed):
    """Resolve claims in order; ``owner`` and its claim ``entry`` are by slot, -1 for none."""
    for i in range(len(member)):
        m, s = member[i], slot[i]
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
            # Kafka adds to the new owner's list, then removes from the old one's. A member that
            # lost the slot in a dispute and claims it again therefore gets and loses it.
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
    """Return the FNV-1a hash of some bytes."""
    value = _BASIS
    for i in range(begin, end):
        value = ((value ^ data[i]) * _PRIME) & _MASK
    return value


@piece
def _int(data, at, size):
    """Return a big-endian signed integer of ``size`` bytes."""
    value = 0
    for i in range(at, at + size):
        value = (value << 8) | data[i]
    half = 1 << (8 * size - 1)
    return value - 2 * half if value >= half else value


@piece
def _same(data, at, names, begin, size):
    """Return whether ``size`` bytes are equal."""
    for i in range(size):  # noqa: SIM110 - Numba has no generators in all()
        if data[at + i] != names[begin + i]:
            return False
    return True


@piece
def _is(k, data, at, size, names, name_start):
    """Return whether the name in the bytes is that of topic ``k``."""
    begin = name_start[k]
    return name_start[k + 1] - begin == size and _same(data, at, names, begin, size)


@piece
def _topic(data, at, size, names, name_start, table):
    """Return the topic of a name in the bytes, -1 for an unknown name."""
    mask = len(table) - 1
    place = _hash(data, at, at + size) & mask
    while table[place] >= 0:
        if _is(table[place], data, at, size, names, name_start):
            return table[place]
        place = (place + 1) & mask
    return -1


@kernel("void(uint8[::1], int64[::1], int32[::1])")
def hash_names(names, name_start, table):
    """Insert names into a hash table that is longer than the number of names; -1 is empty."""
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
    """Decode the claims of all members on known topics; return their number.

    ``start`` has the begin of each member's bytes and the end. Outputs: ``topic`` and ``number``
    by claim; ``count``, ``generation`` and ``dated`` by member. The format is that of
    `decode_sticky_user_data`: malformed bytes claim nothing, with generation -1. ``after``
    (buffer of -1) caches the topic that followed each topic last: Java's hash order is the same
    for all members, so the next one usually needs no look-up.
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
