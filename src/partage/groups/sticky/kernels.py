"""Compiled inner loops (numba kernels) of the sticky assignors.

`assign_or_move_each` is one pass of the general algorithm over slots (numbered partitions); its
parts are the member queue (`_update_key`, `_first_key`) and Kafka's ``PartitionMovements`` (`_find`
to `_record_move`). `assign_on_racks`, `keep_up_to_quota` and `append_to_lists` belong to the
constrained algorithm; `resolve_disputes`, `hash_names` and `read_claims` process claims.
"""
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False

from __future__ import annotations

from typing import NamedTuple

from partage.kernels import Booleans, Bytes, Int32Rows, Int32s, Int64s, kernel, kernel_helper
from partage.wire.columns.distinct import int16_at, int32_at

__all__ = [
    "CHECK", "CLOCK", "FROM", "MOVED", "MOVES", "ONE_MOVE", "PREV", "SET", "SET_ROWS", "TABLE",
    "TAINTED", "TO", "UNUSED", "ClaimColumns", "DraftArrays", "EncodedNames", "MovementArrays",
    "QueueArrays", "SlotArrays", "UnderQuota", "WaitingMembers", "append_to_lists",
    "assign_on_racks", "assign_or_move_each", "hash_names", "keep_up_to_quota", "read_claims",
    "resolve_disputes",
]  # fmt: skip


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


class SlotArrays(NamedTuple):
    """Topic of each partition ("slot") and racks of its replicas, as arrays for compiled functions.

    Attributes:
        topic: int32[S], topic of each partition.
        rack_start: int32[S + 1], where each partition's racks begin in ``rack`` (CSR).
        rack: int32, racks of the partitions' replicas.
    """

    topic: Int32s
    rack_start: Int32s
    rack: Int32s


class DraftArrays(NamedTuple):
    """Assignment of partitions to members while a sticky assignor builds it, changed in place.

    Attributes:
        owner: int32[S], owner of each of S partitions, -1 for none.
        seq: int32[S], sort keys: a member's list has its partitions in this order.
        size: int64[M], number of partitions of each of M members.
        previous: int32[S], previous owner of each partition, -1 for none; constant.
        fixed: bool[M], members whose partitions do not move; constant.
        state: int64[8], see `CLOCK` to `MOVED`.
    """

    owner: Int32s
    seq: Int32s
    size: Int64s
    previous: Int32s
    fixed: Booleans
    state: Int64s


class QueueArrays(NamedTuple):
    """Arrays of `MemberQueue`, which finds the subscriber of a topic with the fewest partitions.

    Members with the same subscription and rack form a cell, with a tournament tree ordered by load.

    Attributes:
        cell_start: int32[K + 1], index of each topic's first cell in ``cell`` (CSR).
        cell: int32, cells that subscribe to the topics.
        cell_rack: int32[C], rack of each cell, -1 for members without rack.
        cell_of: int32[M], cell of each member.
        base: int64[C], where each cell's tree begins in ``tree``.
        leaf: int32[M], offset of each member's leaf in the tree of its cell.
        tree: int64, least keys; the root of a tree is at offset 1.
        rank: int32[M], rank of each member in Java's order of ids.
        by_rank: int32[M], member of each rank.
        stamp: int32[C], buffer: the topic for which a cell was last seen.
    """

    cell_start: Int32s
    cell: Int32s
    cell_rack: Int32s
    cell_of: Int32s
    base: Int64s
    leaf: Int32s
    tree: Int64s
    rank: Int32s
    by_rank: Int32s
    stamp: Int32s


class MovementArrays(NamedTuple):
    """Partitions that moved to another member in this rebalance (Kafka's ``PartitionMovements``).

    Moves of one topic from the same source to the same target member form a linked list.

    Attributes:
        net: int32[5, S], each partition's move: source, target, list, next and previous element.
        sets: int32[SET_ROWS, ...], each linked list: source, target, size and ends (`SOURCE`, ...).
        hashed: int64[K], Java's hash of each topic name.
        number: int32[S], partition number of each partition.
    """

    net: Int32Rows
    sets: Int32Rows
    hashed: Int64s
    number: Int32s


@kernel_helper
def _update_key(queue, m, key):
    tree = queue.tree
    start, i = queue.base[queue.cell_of[m]], queue.leaf[m]
    tree[start + i] = key
    while i > 1:
        i >>= 1
        left, right = tree[start + 2 * i], tree[start + 2 * i + 1]
        least = min(right, left)
        if tree[start + i] == least:
            break
        tree[start + i] = least


@kernel_helper
def _first_key(topic, slot, racks, slots, queue):
    """Return the queue key of the subscriber of a topic with the fewest partitions, -1 for none.

    The key is the member's number of partitions times the number of members, plus its rank. With
    ``racks``, only members on the rack of a replica of ``slot``, or without a rack, count.
    """
    best = -1
    for j in range(queue.cell_start[topic], queue.cell_start[topic + 1]):
        c = queue.cell[j]
        if racks and queue.cell_rack[c] != -1:
            found = False
            for i in range(slots.rack_start[slot], slots.rack_start[slot + 1]):
                if slots.rack[i] == queue.cell_rack[c]:
                    found = True
                    break
            if not found:
                continue
        key = queue.tree[queue.base[c] + 1]
        if best < 0 or key < best:
            best = key
    return best


@kernel_helper
def _bucket_of_partition(movements, topic, slot, bucket_count):
    """Return a partition's bucket in a Java ``HashMap``; it decides the iteration order."""
    h = (31 * (31 + movements.number[slot]) + movements.hashed[topic]) & 0xFFFFFFFF
    return (h ^ (h >> 16)) & (bucket_count - 1)


@kernel_helper
def _find(sets, topic, source, target):
    # -1: no partition of the topic moved from source to target.
    s = sets[OF_TOPIC, topic]
    while s >= 0 and not (sets[SOURCE, s] == source and sets[TARGET, s] == target):
        s = sets[AFTER, s]
    return s


@kernel_helper
def _remove(movements, state, topic, slot):
    # An empty set of movements becomes unused.
    net, sets = movements.net, movements.sets
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
    if sets[OF_TOPIC, topic] == s:
        sets[OF_TOPIC, topic] = sets[AFTER, s]
    else:
        other = sets[OF_TOPIC, topic]
        while sets[AFTER, other] != s:
            other = sets[AFTER, other]
        sets[AFTER, other] = sets[AFTER, s]
    state[TOP] -= 1
    sets[UNUSED, state[TOP]] = s


@kernel_helper
def _add_movement(movements, state, topic, slot, source, target):
    """Record that partition ``slot`` of ``topic`` moved from member ``source`` to ``target``."""
    net, sets = movements.net, movements.sets
    s = _find(sets, topic, source, target)
    if s < 0:
        s = sets[UNUSED, state[TOP]]
        state[TOP] += 1
        sets[SOURCE, s], sets[TARGET, s], sets[COUNT, s] = source, target, 0
        sets[TABLE, s], sets[FIRST, s], sets[LAST, s] = _SMALLEST_TABLE, -1, -1
        sets[AFTER, s] = sets[OF_TOPIC, topic]
        sets[OF_TOPIC, topic] = s
    # The number of buckets grows as in Java's HashMap, because it decides the iteration order.
    if sets[TABLE, s] < _MIN_TREE_TABLE:
        bucket, chain = _bucket_of_partition(movements, topic, slot, sets[TABLE, s]), 0
        other = sets[FIRST, s]
        while other >= 0:
            if _bucket_of_partition(movements, topic, other, sets[TABLE, s]) == bucket:
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


@kernel_helper
def _partition_to_move(movements, topic, slot, owner, target):
    """Return the partition of ``topic`` to move from member ``owner`` to member ``target``.

    It is ``slot``, unless a partition moved from ``target`` to ``owner`` before: then that one
    moves back, the first in Java's order (Kafka's ``getTheActualPartitionToBeMoved``).
    """
    net, sets = movements.net, movements.sets
    source = net[FROM, slot] if net[TO, slot] >= 0 else owner
    s = _find(sets, topic, target, source)
    if s < 0:
        return slot
    best = one = sets[FIRST, s]
    least = _bucket_of_partition(movements, topic, best, sets[TABLE, s])
    while one >= 0:
        bucket = _bucket_of_partition(movements, topic, one, sets[TABLE, s])
        if bucket < least:
            best, least = one, bucket
        one = net[NEXT, one]
    return best


@kernel_helper
def _record_move(movements, state, topic, slot, owner, target):
    """Record that partition ``slot`` now moves from member ``owner`` to member ``target``.

    If it has moved before, both moves become one, or none if it is back at its first owner.
    """
    source = owner
    if movements.net[TO, slot] >= 0:
        source = movements.net[FROM, slot]
        _remove(movements, state, topic, slot)
        if source == target:
            return
    _add_movement(movements, state, topic, slot, source, target)


@kernel(
    "int64(int32[::1], int64, boolean, boolean, SlotArrays, DraftArrays, QueueArrays,"
    " MovementArrays)",
    SlotArrays, DraftArrays, QueueArrays, MovementArrays,
)  # fmt: skip
def assign_or_move_each(order, begin, filling, racks, slots, draft, queue, movements):
    """Move each listed partition to a member with fewer partitions, if that evens out the loads.

    The partitions are ``order[begin:]``; the result is the index where the pass stopped. With
    ``filling``, partitions without an owner are assigned; with ``racks``, only members on the rack
    of a replica can get them. ``slots``, ``draft``, ``queue`` and ``movements`` are the arrays of
    the assignment.
    """
    owner, size, state, stamp = draft.owner, draft.size, draft.state, queue.stamp
    members, topic = len(queue.rank), -1
    for i in range(begin, len(order)):
        slot = order[i]
        k, holder = slots.topic[slot], owner[slot]
        if k != topic:
            topic = k
            for j in range(queue.cell_start[k], queue.cell_start[k + 1]):
                stamp[queue.cell[j]] = k
        target, not_subscribed = -1, False
        if not filling and draft.previous[slot] >= 0:
            v = draft.previous[slot]
            if draft.fixed[v] and state[CHECK] != 2:
                state[CHECK] = 1
                return i
            if size[holder] > size[v] + 1:
                target = v
                not_subscribed = stamp[queue.cell_of[v]] != k
        if target < 0:
            key = _first_key(k, slot, racks, slots, queue)
            if key < 0 or (not filling and size[holder] <= key // members + 1):
                state[CHECK] = 0
                continue
            target = queue.by_rank[key % members]
        if not filling:
            if (not_subscribed or state[TAINTED] == 1) and state[CHECK] != 2:
                state[CHECK] = 1
                return i
            if not_subscribed:
                state[TAINTED] = 1
            slot = _partition_to_move(movements, k, slot, holder, target)
            holder = owner[slot]
            _record_move(movements, state, k, slot, holder, target)
            size[holder] -= 1
            _update_key(queue, holder, size[holder] * members + queue.rank[holder])
        state[CHECK] = 0
        owner[slot], draft.seq[slot] = target, state[CLOCK]
        state[CLOCK] += 1
        state[MOVES] += 1
        size[target] += 1
        _update_key(queue, target, size[target] * members + queue.rank[target])
        if state[ONE_MOVE] == 1:
            state[MOVED] = slot
            return i + 1
    return len(order)


@kernel_helper
def _next_remaining_row(after, row):
    """Return the first row that is not removed yet, searching from ``row`` on (union-find).

    Row r is removed if ``after[r]`` is a later row; the search goes on there.
    """
    root = row
    while after[root] != root:
        root = after[root]
    while after[row] != root:
        step = after[row]
        after[row] = root
        row = step
    return root


@kernel_helper
def _not_before(under_place, begin, end, place):
    while begin < end:
        middle = (begin + end) >> 1
        if under_place[middle] < place:
            begin = middle + 1
        else:
            end = middle
    return begin


class UnderQuota(NamedTuple):
    """Members with fewer partitions than their quota, listed by rack for rack-aware assignment.

    Attributes:
        member: int32[U], these members in order.
        full: bool[U], whether a member has reached the quota; updated.
        rack_start: int32[R + 1], index of each rack's first entry in ``position`` (CSR).
        position: int32, by rack the indexes of its members in ``member``, ascending.
        after: int32, union-find structure over ``position``, with one more row per rack: the next
            row whose member is below the quota.
    """

    member: Int32s
    full: Booleans
    rack_start: Int32s
    position: Int32s
    after: Int32s


class WaitingMembers(NamedTuple):
    """Members that may get one partition more than the low quota, in one FIFO queue per rack.

    Attributes:
        queue: int32, members by rack; the entries from ``head`` to ``tail`` of a rack wait.
        head: int32[R], index of each rack's first waiting member.
        tail: int32[R], index after each rack's last waiting member.
        sequence: int32[M], when each member began to wait, -1 for others.
    """

    queue: Int32s
    head: Int32s
    tail: Int32s
    sequence: Int32s


@kernel_helper
def _next_below_quota(slot, place, slots, under):
    """Return the next member below its quota that is on the rack of a replica of ``slot``.

    The cyclic search begins at index ``place`` of ``under.member``. The result is the member's row
    in ``under.after`` and its index in ``under.member``, or (-1, -1).
    """
    ahead, behind = -1, -1
    best, first = -1, -1
    position, after = under.position, under.after
    for j in range(slots.rack_start[slot], slots.rack_start[slot + 1]):
        r = slots.rack[j]
        begin, end = under.rack_start[r], under.rack_start[r + 1]
        row = _next_remaining_row(after, _not_before(position, begin, end, place) + r)
        if row - r < end:
            if best < 0 or position[row - r] < best:
                best, ahead = position[row - r], row
            continue
        row = _next_remaining_row(after, begin + r)
        if row - r < end and (first < 0 or position[row - r] < first):
            first, behind = position[row - r], row
    return (ahead, best) if ahead >= 0 else (behind, first)


@kernel_helper
def _longest_waiting(slot, slots, waiting):
    chosen = -1
    for j in range(slots.rack_start[slot], slots.rack_start[slot + 1]):
        r = slots.rack[j]
        if waiting.head[r] < waiting.tail[r]:
            m = waiting.queue[waiting.head[r]]
            if chosen < 0 or waiting.sequence[m] < waiting.sequence[chosen]:
                chosen = m
    return chosen


@kernel(
    "int64(int32[::1], SlotArrays, int32[::1], UnderQuota, WaitingMembers, int64[::1],"
    " int32[::1], int64[::1])",
    SlotArrays, UnderQuota, WaitingMembers,
)  # fmt: skip
def assign_on_racks(free, slots, member_rack, under, waiting, size, out, counts):
    """Assign partitions to consumers on the rack of a replica, up to the consumers' quotas.

    The partitions are ``free``; the members that may get more are ``under`` their low quota, or
    ``waiting`` for one partition more. ``out`` gets each partition's member, -1 for none.
    ``counts`` are: low quota, high quota, how many members may reach the high quota, how many have,
    and how many are waiting. Return the number of members above the low quota.
    """
    low, high, extra = counts[0], counts[1], counts[2]
    over, clock, place = counts[3], counts[4], 0
    sequence = waiting.sequence
    for i in range(len(free)):
        row, at = _next_below_quota(free[i], place, slots, under)
        if row >= 0:
            m = under.member[at]
            size[m] += 1
            out[i] = m
            place = at + 1
            if size[m] >= low:
                under.after[row] = row + 1
                under.full[at] = True
                if size[m] < high and over < extra:
                    r = member_rack[m]
                    waiting.queue[waiting.tail[r]] = m
                    waiting.tail[r] += 1
                    sequence[m] = clock
                    clock += 1
            continue
        if over == extra:
            continue
        m = _longest_waiting(free[i], slots, waiting)
        if m >= 0:
            size[m] += 1
            out[i] = m
            if size[m] == high:
                waiting.head[member_rack[m]] += 1
                sequence[m] = -1
                over += 1
                if over == extra:  # no member waits any more
                    for other in range(len(sequence)):
                        sequence[other] = -1
    return over


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1])")
def keep_up_to_quota(order, owner, position, end, out, previous_owner):
    """Let each member keep its owned partitions up to its quota, and revoke the others.

    ``order`` has the partitions, ``owner`` their owners. Those that member m keeps are written to
    ``out``, from index ``position[m]`` to ``end[m]``. A revoked one gets owner -1, and its old
    owner is written to ``previous_owner``.
    """
    for i in range(len(order)):
        slot = order[i]
        m = owner[slot]
        if m < 0:
            continue
        if position[m] < end[m]:
            out[position[m]] = slot
            position[m] += 1
        else:
            previous_owner[slot] = m
            owner[slot] = -1


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1])")
def append_to_lists(slot, member, position, out):
    """Append newly assigned partitions to the lists of their owners, which are sections of ``out``.

    The list of member m continues at ``out[position[m]]``, and ``position[m]`` is advanced.
    Partition ``slot[i]`` goes to ``member[i]``.
    """
    for i in range(len(slot)):
        m = member[i]
        out[position[m]] = slot[i]
        position[m] += 1


@kernel(
    "void(int32[::1], int32[::1], int64[::1], int64[::1], int32[::1], int64[::1],"
    " boolean[::1], boolean[::1])"
)
def resolve_disputes(
    member, slot, generation, subscription_generation, owner, valid_report, is_valid, disputed
):
    """Choose the true owner of each partition that several members report as owned.

    Report i says that ``member[i]`` owns ``slot[i]``. The newest ``generation`` wins; of equal
    ones, none. Outputs: each partition's ``owner``, its ``valid_report`` or -1, whether each report
    ``is_valid``, and which partitions are ``disputed``, because their newest reports tie.
    """
    for i in range(len(member)):
        m, s = member[i], slot[i]
        other = owner[s]
        if other >= 0:
            if generation[m] < subscription_generation[other]:
                continue
            held = valid_report[s] >= 0
            if held:
                is_valid[valid_report[s]] = False
                valid_report[s] = -1
            if generation[m] == subscription_generation[other]:
                disputed[s] = True
                owner[s] = m
                continue
            # Kafka adds to the new owner's list, then removes from the old one's. A member that
            # lost the slot in a dispute and claims it again therefore gets and loses it.
            if other == m and not held:
                continue
        owner[s] = m
        valid_report[s] = i
        is_valid[i] = True


_PRIME = 0x01000193
_BASIS = 0x811C9DC5
_MASK = 0xFFFFFFFF


@kernel_helper
def _hash_bytes(data, begin, end):
    value = _BASIS
    for i in range(begin, end):
        value = ((value ^ data[i]) * _PRIME) & _MASK
    return value


@kernel_helper
def _same_bytes(data, at, names, begin, size):
    for i in range(size):  # noqa: SIM110 - Numba has no generators in all()
        if data[at + i] != names[begin + i]:
            return False
    return True


class EncodedNames(NamedTuple):
    """Names of the subscribed topics as UTF-8 bytes, with a hash table to look them up.

    Attributes:
        data: uint8, the names as UTF-8, one after the other.
        start: int64[K + 1], offset of each name in ``data``.
        table: int32, hash table of topics (open addressing); -1 is empty.
        after: int32[K + 1], cache: the topic that followed each topic in the last decoded list, -1
            for none; the first entry is for the first topic of a list.
    """

    data: Bytes
    start: Int64s
    table: Int32s
    after: Int32s


class ClaimColumns(NamedTuple):
    """Output arrays of `read_claims`: the partitions that members report, one after the other.

    Attributes:
        topic: int32, topic of each reported partition (claim).
        number: int32, partition number of each claim.
        claim_count: int64[M], number of claims of each member.
        generation: int64[M], generation of each member's claims.
        dated: bool[M], whether the user data has a generation.
    """

    topic: Int32s
    number: Int32s
    claim_count: Int64s
    generation: Int64s
    dated: Booleans


@kernel_helper
def _is_name(k, data, at, size, names, start):
    # Separate arguments instead of EncodedNames, because a tuple of more arrays costs time in this
    # inner call.
    begin = start[k]
    return start[k + 1] - begin == size and _same_bytes(data, at, names, begin, size)


@kernel_helper
def _find_topic(data, at, size, names):
    # -1: the name is unknown.
    table = names.table
    mask = len(table) - 1
    place = _hash_bytes(data, at, at + size) & mask
    while table[place] >= 0:
        if _is_name(table[place], data, at, size, names.data, names.start):
            return table[place]
        place = (place + 1) & mask
    return -1


@kernel("void(EncodedNames)", EncodedNames)
def hash_names(names):
    """Fill the hash table of topic ``names``, in which `read_claims` looks up topics."""
    start, table = names.start, names.table
    mask = len(table) - 1
    for k in range(len(start) - 1):
        if start[k + 1] == start[k]:
            continue
        place = _hash_bytes(names.data, start[k], start[k + 1]) & mask
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = k


@kernel("int64(uint8[::1], int64[::1], EncodedNames, ClaimColumns)", EncodedNames, ClaimColumns)
def read_claims(data, start, names, claims):
    """Decode the owned partitions in the user data of all members with the sticky assignor.

    ``start`` has the offset of each member's bytes in ``data``. Partitions are written to
    ``claims``; unknown topics (not in ``names``) are left out. Return the number of partitions.
    """
    after, topic, number = names.after, claims.topic, claims.number
    total = 0
    for m in range(len(start) - 1):
        at, end, first, before = start[m], start[m + 1], total, -1
        if at == end:
            continue
        good = end - at >= 4
        groups = int32_at(data, at) if good else 0
        at += 4
        good = good and 0 <= groups <= end - at
        while good and groups > 0:
            groups -= 1
            good = end - at >= 2
            size = int16_at(data, at) if good else 0
            at += 2
            good = good and 0 <= size <= end - at - 4
            if not good:
                break
            k = after[before + 1]
            if k < 0 or not _is_name(k, data, at, size, names.data, names.start):
                k = _find_topic(data, at, size, names)
                after[before + 1] = k
            before = k
            at += size
            numbers = int32_at(data, at)
            at += 4
            good = 0 <= numbers <= (end - at) // 4
            if good and k >= 0:
                for i in range(numbers):
                    topic[total] = k
                    number[total] = int32_at(data, at + 4 * i)
                    total += 1
            at += 4 * numbers
        if good:
            if end - at >= 4:
                claims.generation[m] = int32_at(data, at)
                claims.dated[m] = True
        else:
            # Malformed bytes give no partitions and generation -1, as in `decode_sticky_user_data`.
            total = first
            claims.dated[m] = True
        claims.claim_count[m] = total - first
    return total
