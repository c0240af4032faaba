"""Kafka's ``GeneralAssignmentBuilder``: the sticky algorithm for different subscriptions.

Unassigned slots (numbered partitions) go to the least loaded subscriber; then slots move one by one
while a move makes loads more even (Kafka's ``performReassignments``). `ArrayBalancer` needs at most
one owner per slot; `quirks.member_lists` has the same algorithm on lists for claims that violate
this.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.groups.layout import group_by_member, string_hashes
from partage.groups.sticky.claims import ClaimedSlots, ResolvedClaims
from partage.groups.sticky.decision import Decision
from partage.groups.sticky.general_problem import (
    GeneralProblem,
    build_general_problem,
    find_fixed_members,
    null_pointer_error,
)
from partage.groups.sticky.kernels import (
    CHECK,
    CLOCK,
    FROM,
    MOVED,
    MOVES,
    ONE_MOVE,
    PREV,
    SET,
    SET_ROWS,
    TABLE,
    TAINTED,
    TO,
    UNUSED,
    DraftArrays,
    MovementArrays,
    QueueArrays,
    SlotArrays,
    assign_or_move_each,
)
from partage.groups.sticky.problem import Racks, StickyProblem, distinct_with_index
from partage.groups.sticky.quirks.member_lists import ListBalancer
from partage.model.index import Int32Array
from partage.model.repeated_state import EndlessLoop, RepeatedState

__all__ = ["ArrayBalancer", "MemberQueue", "assign_general"]


def assign_general(
    sticky: StickyProblem,
    claimed: ClaimedSlots,
    owned: ResolvedClaims,
    racks: Racks,
    max_generation: int,
) -> Decision:
    """Assign all partitions by Kafka's sticky algorithm for groups with different subscriptions.

    Members keep the partitions that they own. Each other partition goes to the subscriber with the
    fewest partitions. Then partitions move one by one until the loads are even. Kafka's class is
    ``GeneralAssignmentBuilder``.

    Args:
        sticky: members, topics and partitions of the rebalance.
        claimed: the partitions that members report as owned.
        owned: the owner of each partition after conflicting reports are resolved.
        racks: racks of members and replicas.
        max_generation: the highest generation that members reported so far.

    Raises:
        StickyAssignorError: Kafka's class throws, because a member reports a partition that it may
            not own.
    """
    inputs = build_general_problem(sticky, claimed, owned, racks, max_generation)
    regular = sticky.counted and not (inputs.slot >= claimed.slots.real).any()
    if not regular:
        decision = ListBalancer(inputs).assign_and_balance()
        return (
            decision
            if decision.loop is None
            else ListBalancer(inputs, watch=True).assign_and_balance()
        )
    return _assign_and_balance(inputs)


def _assign_and_balance(inputs: GeneralProblem) -> Decision:
    """Assign all partitions, then move some to balance the members' loads, as Kafka's class does.

    ``inputs`` has the members' owned partitions that are valid, and the unassigned partitions.
    """
    balancing = ArrayBalancer(inputs)
    balancing.assign_unassigned()
    balancing.balance_loads()
    # Kafka's class would loop forever. The second run returns the most even valid assignment that
    # the loop visits.
    if balancing.loop is not None:
        balancing = ArrayBalancer(inputs)
        balancing.assign_unassigned()
        balancing.balance_loads(watch=True)
    owner, seq = balancing.owner, balancing.seq
    assigned = np.flatnonzero(owner >= 0)
    assigned = assigned[np.argsort(seq[assigned], kind="stable")]
    start, order = group_by_member(inputs.sticky.members, owner[assigned])
    slot = assigned[order].astype(np.int32)
    return Decision(start, slot, inputs.claimed.slots, loop=balancing.loop)


class ArrayBalancer:
    """One run of Kafka's sticky algorithm for groups with different subscriptions.

    It works on arrays, which is faster than Kafka's maps. Call `assign_unassigned`, then
    `balance_loads`; the attributes have the result.

    Attributes:
        owner: int32[S], the owner of each of S partitions, -1 for none.
        seq: int32[S], sort keys: each member's list has its partitions in this order.
        size: int64[M], number of partitions of each of M members.
        loop: the endless loop of Kafka's class, None if it returns.
    """

    def __init__(self, inputs: GeneralProblem) -> None:
        slots, members = inputs.claimed.slots.count, inputs.sticky.members
        self._inputs = inputs
        self.owner: Int32Array = np.full(slots, -1, np.int32)
        self.seq: Int32Array = np.zeros(slots, np.int32)
        self.owner[inputs.slot] = inputs.member
        self.seq[inputs.slot] = np.arange(len(inputs.slot), dtype=np.int32)
        self.size: NDArray[np.int64] = np.bincount(inputs.member, minlength=members).astype(
            np.int64
        )
        self._queue = MemberQueue(inputs, self.size)
        self._fresh = not len(inputs.slot)
        self._state = np.zeros(8, np.int64)
        self._state[CLOCK] = len(inputs.slot)
        self._net = np.full((5, 1), -1, np.int32)
        self._sets = np.full((SET_ROWS, 1), -1, np.int32)
        self._hash = np.zeros(1, np.int64)
        self._fixed = np.zeros(members, bool)
        self._best: _BestAssignment
        self.loop: EndlessLoop | None = None

    def assign_unassigned(self) -> None:
        """Assign each partition without an owner to the subscriber with the fewest partitions.

        If racks matter (KIP-881), subscribers on the rack of a replica come first.
        """
        free = self._inputs.free
        if self._inputs.racks.active:
            self._run_pass(free, racks=True, filling=True)
            free = free[self.owner[free] < 0]
        self._run_pass(free, filling=True)

    def balance_loads(self, *, watch: bool = False) -> None:
        """Move partitions one by one to subscribers with fewer partitions, until no move helps.

        The order of the moves is that of Kafka's class. If that class would loop forever on this
        input, the attribute `loop` describes the loop.

        Args:
            watch: whether to remember the most even valid assignment after any move. In case of an
                endless loop it is then the result; otherwise the result is arbitrary.
        """
        inputs, slots = self._inputs, self._inputs.claimed.slots
        if self._is_level(self.size):
            return
        assigned = np.flatnonzero(self.owner >= 0).astype(np.int32)
        self._fixed = find_fixed_members(inputs, self.size, self.owner[assigned], assigned)
        if self._fixed.all() or self._is_level(self.size[~self._fixed]):
            return
        self._prepare_movements()
        owner, seq, size = self.owner.copy(), self.seq.copy(), self.size.copy()
        self._best = _BestAssignment(owner.copy(), seq.copy(), self._score(size))
        self._state[ONE_MOVE] = watch
        shared = inputs.subscriptions.topics_with_several_subscribers
        moved = False
        if not inputs.revoked:
            self._move_until_even(inputs.free[shared[slots.topic[inputs.free]]])
        if self.loop is None:
            moved = self._move_until_even(inputs.every[shared[slots.topic[inputs.every]]])
        if self.loop is not None:
            self._best.restore(self.owner, self.seq, self.size)
        elif not self._fresh and moved and self._score(self.size) >= self._score(size):
            self.owner, self.seq, self.size = owner, seq, size

    def _move_until_even(self, slots: Int32Array) -> bool:
        """Try to move each of the partitions ``slots``, and repeat this until no partition moves.

        Return whether any partition moved. The loop also ends if an earlier state recurs, because
        Kafka's class would then never return.
        """
        moved_at_all, repeated = False, RepeatedState()
        while self._run_pass(slots):
            moved_at_all = True
            if repeated.is_repeated(self._snapshot()):
                # An earlier state recurs, so Kafka's class would loop forever.
                self.loop = self._describe_loop(slots, repeated)
                break
        return moved_at_all

    def _snapshot(self) -> tuple[bytes | int, ...]:
        # Sizes and the queue of members follow from the owners. Java's iteration order of a set of
        # movements depends on its order of insertion and its table length.
        net = self._net
        at = np.flatnonzero(net[TO] >= 0)
        table_size = self._sets[TABLE, net[SET, at]]
        return (
            self.owner.tobytes(), int(self._state[TAINTED]), at.tobytes(),
            net[FROM, at].tobytes(), net[TO, at].tobytes(), net[PREV, at].tobytes(),
            table_size.tobytes(),
        )  # fmt: skip

    def _describe_loop(self, slots: Int32Array, repeated: RepeatedState) -> EndlessLoop:
        # This runs the passes of one more period.
        begin = self._state[CLOCK]
        for _ in range(repeated.length):
            self._run_pass(slots)
        moving = np.flatnonzero(self.seq >= begin)
        names = self._inputs.partition_names(
            moving[np.argsort(self._inputs.claimed.slots.sort_keys[moving])]
        )
        return EndlessLoop(repeated.passes, repeated.length, names)

    def _run_pass(self, slots: Int32Array, *, filling: bool = False, racks: bool = False) -> bool:
        """Try once to move each given partition to a less loaded member; return whether any moved.

        With ``filling``, the partitions have no owner yet and are assigned. With ``racks``, only
        members on the rack of a replica, or without a rack, can get them.
        """
        queue, inputs, state = self._queue, self._inputs, self._state
        known = inputs.claimed.slots
        slot_arrays = SlotArrays(known.topic, inputs.racks.start, inputs.racks.rack)
        draft = DraftArrays(self.owner, self.seq, self.size, inputs.previous, self._fixed, state)
        movements = MovementArrays(self._net, self._sets, self._hash, known.number)
        state[MOVES] = state[CHECK] = 0
        at, work, moves = 0, len(slots) * queue.depth, 0
        while at < len(slots):
            at = int(
                assign_or_move_each(
                    slots,
                    at,
                    filling,
                    racks,
                    slot_arrays,
                    draft,
                    queue.arrays,
                    movements,
                    work=work,
                )
            )
            if state[ONE_MOVE] and state[MOVES] > moves:
                moves = int(state[MOVES])
                self._watch(int(state[MOVED]))
            if state[CHECK] == 1:
                if self._is_balanced():
                    break
                self._raise_null_pointer(int(slots[at]))
                state[CHECK] = 2  # checked: this slot may move
        return bool(state[MOVES])

    def _watch(self, slot: int) -> None:
        self._best.record(slot, int(self.owner[slot]), int(self.seq[slot]))
        score = self._score(self.size)
        if score < self._best.score and self._is_valid():
            self._best.update(score)

    def _is_valid(self) -> bool:
        # Only a move to a previous owner can give a member a topic to which it does not subscribe.
        if not self._state[TAINTED]:
            return True
        assigned = np.flatnonzero(self.owner >= 0)
        topic = self._inputs.claimed.slots.topic[assigned]
        return bool(self._inputs.subscriptions.is_subscribed(self.owner[assigned], topic).all())

    def _raise_null_pointer(self, slot: int) -> None:
        """Raise `StickyAssignorError` where Kafka's class throws a NullPointerException.

        ``slot`` is the partition that the class would move. It throws if the partition's previous
        owner can neither lose nor get partitions (Q2 in docs/quirks.md).
        """
        # Kafka's class throws if the previous owner can neither lose nor get partitions, because
        # such a member is no longer in its queue of members by load (Q2 in docs/quirks.md).
        previous = self._inputs.previous[slot]
        if previous >= 0 and self._fixed[previous]:
            raise null_pointer_error(self._inputs, slot)

    @staticmethod
    def _is_level(size: NDArray[np.int64]) -> bool:
        return bool(size.max(initial=0) - size.min(initial=1 << 40) <= 1)

    def _is_balanced(self) -> bool:
        """Return whether the loads are balanced, so that no partition needs to move any more.

        They are if each partition's owner has at most one partition more than any other subscriber
        of the topic. It is the method ``isBalanced`` of Kafka's ``AbstractStickyAssignor``.
        """
        # Only called if a partition may go to a member that does not subscribe to its topic. In
        # other cases a possible move already proves that the group is not balanced.
        inputs, in_queue = self._inputs, ~self._fixed
        if self._is_level(self.size[in_queue]):
            return True
        subscriptions, sticky = inputs.subscriptions, inputs.sticky
        holder = self.owner[: sticky.partitions]  # slots that do not exist come after these
        most_on_topic = np.maximum.reduceat(self.size[holder], sticky.start[:-1])
        may_grow = in_queue & (self.size != subscriptions.most)
        least = np.full(len(subscriptions.listed), 1 << 40, np.int64)
        np.minimum.at(least, subscriptions.of_member[may_grow], self.size[may_grow])
        per_entry = np.repeat(least, np.diff(subscriptions.start))
        return not (most_on_topic[subscriptions.topic] > per_entry + 1).any()

    def _score(self, size: NDArray[np.int64]) -> int:
        sizes = np.sort(size[~self._fixed])
        return int(((2 * np.arange(len(sizes)) - len(sizes) + 1) * sizes).sum())

    def _prepare_movements(self) -> None:
        # The arrays for Kafka's PartitionMovements.
        slots = self._inputs.claimed.slots
        sticky = self._inputs.sticky
        self._net = np.full((5, slots.count), -1, np.int32)
        # Each set has a column, and each topic a column for its first set.
        width = max(slots.count, len(sticky.topics))
        self._sets = np.full((SET_ROWS, width), -1, np.int32)
        self._sets[UNUSED] = np.arange(width)
        names = [sticky.problem.index.topics[t] for t in sticky.topics.tolist()]
        self._hash = np.array(string_hashes(names), np.int64)


class _BestAssignment:
    """Most even valid assignment that Kafka's balancing has reached so far, to return to it.

    It is used if Kafka's class would loop forever: all later moves are then undone.

    Args:
        owner: int32[S], owner of each partition before the first move.
        seq: int32[S], sort keys of the partitions before the first move.
        score: Kafka's balance score of the assignment; lower is more even.
    """

    def __init__(self, owner: Int32Array, seq: Int32Array, score: int) -> None:
        self.score = score
        self._owner, self._seq = owner, seq
        self._moves: list[tuple[int, int, int]] = []

    def record(self, slot: int, owner: int, seq: int) -> None:
        self._moves.append((slot, int(self._owner[slot]), int(self._seq[slot])))
        self._owner[slot], self._seq[slot] = owner, seq

    def update(self, score: int) -> None:
        self.score = score
        self._moves.clear()

    def restore(self, owner: Int32Array, seq: Int32Array, size: NDArray[np.int64]) -> None:
        for slot, old_owner, old_seq in reversed(self._moves):
            size[owner[slot]] -= 1
            size[old_owner] += 1
            owner[slot], seq[slot] = old_owner, old_seq


class MemberQueue:
    r"""Priority queue that finds the subscriber of a topic with the fewest partitions.

    Kafka's class sorts all members in a ``TreeSet``. Here members with the same subscription and
    rack form a cell, which has a tournament tree of keys. A member's key is ``partitions * members
    + rank of its id``, so the least key belongs to the least loaded member. A topic's first
    subscriber is the least root of the cells that subscribe to it. A change of a key updates one
    path from leaf to root.

    For members a, b, c (ranks 0, 1, 2) of one cell with 4, 2, 2 partitions the keys are 12, 7, 8,
    and the tree of the cell is (offsets in brackets)::

               7 [1]              root: b comes first
             /       \
          7 [2]      8 [3]
          /   \      /   \
        12[4]  7[5] 8[6]  -[7]    leaves a, b, c; unused leaves hold the largest int64

    The children of offset ``i`` are at ``2i`` and ``2i + 1``.

    Attributes:
        arrays: cells, trees and ranks.
        depth: approximate steps of one change.
    """

    def __init__(self, inputs: GeneralProblem, size: NDArray[np.int64]) -> None:
        subscriptions, members = inputs.subscriptions, inputs.sticky.members
        rank: Int32Array = inputs.sticky.problem.group.member_rank
        racks = inputs.racks.of_member if inputs.racks.active else np.full(members, -1, np.int32)
        pair = subscriptions.of_member.astype(np.int64) << 32 | (racks.astype(np.int64) + 2)
        kinds, cell_of = distinct_with_index(pair)
        cell_start, cell = _member_sets_by_topic(inputs, (kinds >> 32).astype(np.int32))
        self.arrays = QueueArrays(
            cell_start,
            cell,
            ((kinds & 0xFFFFFFFF) - 2).astype(np.int32),
            cell_of,
            *_build_trees(cell_of, rank, size),
            rank,
            np.argsort(rank).astype(np.int32),
            np.full(len(kinds), -1, np.int32),
        )
        self.depth = 10 + int(members).bit_length()


def _build_trees(
    cell_of: Int32Array, rank: Int32Array, member_sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Int32Array, NDArray[np.int64]]:
    """Build the tournament trees of `MemberQueue`, which find the subscriber with the fewest
    partitions.

    There is one tree for each set of members with the same subscription and rack (a cell). Each
    node has the smaller key of its two children, so the root has the least loaded member. The
    result has the offset of each tree, the offset of each member's leaf, and the keys of all trees.
    """
    members = len(cell_of)
    count = np.bincount(cell_of)
    width = np.array([1 << max(int(n) - 1, 0).bit_length() for n in count], np.int64)
    ends = np.cumsum(2 * width)
    base = ends - 2 * width
    order = np.lexsort((rank, cell_of))
    nth = np.arange(members) - np.repeat(np.cumsum(count) - count, count)
    leaf = np.empty(members, np.int32)
    leaf[order] = (np.repeat(width, count) + nth).astype(np.int32)
    tree = np.full(int(ends[-1]), np.iinfo(np.int64).max, np.int64)
    tree[base[cell_of] + leaf] = member_sizes * members + rank
    for begin, wide in zip(base.tolist(), width.tolist(), strict=True):
        level = wide
        while level > 1:
            row = tree[begin + level : begin + 2 * level]
            level //= 2
            tree[begin + level : begin + 2 * level] = np.minimum(row[::2], row[1::2])
    return base, leaf, tree


def _member_sets_by_topic(
    inputs: GeneralProblem, subscription: Int32Array
) -> tuple[Int32Array, Int32Array]:
    """List, for each topic, the sets of members (cells) that subscribe to it, as a sparse matrix
    (CSR).

    A cell is the set of members with the same subscription and the same rack. The result has the
    offset of each topic's first cell, and the cells.
    """
    subscriptions = inputs.subscriptions
    sizes = np.diff(subscriptions.start)[subscription]
    ends = np.cumsum(sizes)
    at = np.arange(ends[-1]) + np.repeat(subscriptions.start[subscription] - (ends - sizes), sizes)
    topic = subscriptions.topic[at]
    cell = np.repeat(np.arange(len(subscription), dtype=np.int32), sizes)
    order = np.argsort(topic, kind="stable")
    topics = len(inputs.sticky.topics)
    start = np.searchsorted(topic[order], np.arange(topics + 1)).astype(np.int32)
    return start, cell[order]
