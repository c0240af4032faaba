"""The general sticky algorithm on Python lists, step by step as in Kafka's class.

`general.ArrayBalancer` gives the same plans many times faster, but needs at most one owner per slot
(numbered partition). Claims of partitions that do not exist violate this: members keep them, and
Kafka then assigns some partitions twice (Q26). Such problems, and clusters whose partition numbers
have holes, use this module.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from partage.groups.sticky.decision import Decision, StickyAssignorError
from partage.groups.sticky.general_problem import GeneralProblem, null_pointer_error
from partage.groups.sticky.problem import StickyProblem
from partage.java.hash_order import DEFAULT_TABLE, table_for_capacity
from partage.java.strings import string_hash
from partage.java.tree_bins import HashTable
from partage.model.repeated_state import EndlessLoop, RepeatedState

__all__ = ["ListBalancer", "OwnerMap", "PartitionMovements"]


class ListBalancer:
    """One run of Kafka's sticky algorithm, for members that report partitions that do not exist.

    Kafka's class may then give a partition two owners. This class follows it step by step on Python
    lists; `ArrayBalancer` is faster, but needs one owner per partition. `assign_and_balance`
    returns the result.

    Args:
        inputs: valid claims and unassigned partitions of the group.
        watch: whether to keep the best assignment so far; it is the result if Kafka's class would
            loop forever.
    """

    def __init__(self, inputs: GeneralProblem, *, watch: bool = False) -> None:
        sticky, subscriptions, slots = inputs.sticky, inputs.subscriptions, inputs.claimed.slots
        self._inputs = inputs
        self._slots = slots
        self._topic = slots.topic.tolist()
        self._rank = sticky.problem.group.member_rank.tolist()
        self._most = subscriptions.most.tolist()
        self._class = subscriptions.of_member.tolist()
        self._listed = [one.tolist() for one in subscriptions.listed]
        self._wanted = [set(one) for one in self._listed]
        self._shared = subscriptions.topics_with_several_subscribers.tolist()
        self._previous: list[int] = inputs.previous.tolist()
        self._walk: list[list[int]] = [[] for _ in range(len(sticky.topics))]
        for s in slots.search_order.tolist():
            self._walk[self._topic[s]].append(s)
        self._racks = [
            set(inputs.racks.rack[a:b].tolist())
            for a, b in zip(inputs.racks.start[:-1], inputs.racks.start[1:], strict=True)
        ]
        self._rack = inputs.racks.of_member.tolist()
        self._subscribers = [
            [m for m in sticky.members_in_map_order for t in self._listed[self._class[m]] if t == k]
            for k in range(len(sticky.topics))
        ]
        self._owners = OwnerMap(sticky)
        self.have: dict[int, list[int]] = {m: [] for m in self._owners.order}
        self._holder: dict[int, int] = {}
        for m, s in zip(inputs.member.tolist(), inputs.slot.tolist(), strict=True):
            self.have[m].append(s)
            self._holder[s] = m
        self._queue = sorted((len(slots), self._rank[m], m) for m, slots in self.have.items())
        hashes = sticky.problem.index.topics
        names = [hashes[t] for t in sticky.topics.tolist()]
        self._watches = watch
        self._best: dict[int, list[int]] = {}
        self._loop: EndlessLoop | None = None
        self._movements = PartitionMovements(names, self._topic, slots.number.tolist())

    def assign_and_balance(self) -> Decision:
        """Assign the partitions without an owner, then move partitions until members' loads are
        even.

        If the moves do not make the loads more even, the assignment before them is restored (unless
        no member owned a partition then). A load is the member's number of partitions.
        """
        fresh = self._queue[-1][0] == 0
        self._assign_unassigned()
        every = [s for s in self._inputs.every.tolist() if self._shared[self._topic[s]]]
        free = [s for s in self._inputs.free.tolist() if self._shared[self._topic[s]]]
        fixed = {m: slots for m, slots in self.have.items() if self._is_fixed(m)}
        for m in fixed:
            self._leave_queue(m)
            del self.have[m]
        self._owners.remove_fixed(fixed)
        before = self._best = self._copy()
        moved = False
        if not self._inputs.revoked:
            self._move_until_even(free)
        if self._loop is None:
            moved = self._move_until_even(every)
        if self._loop is not None:
            self.have = self._best
        elif not fresh and moved and self._score(self.have) >= self._score(before):
            self.have = before
            self._owners.restore_copy()
        self._owners.add_fixed()
        lists = {**self.have, **fixed}
        start = np.zeros(len(lists) + 1, np.int32)
        np.cumsum([len(lists[m]) for m in range(len(lists))], out=start[1:])
        slot = np.array([s for m in range(len(lists)) for s in lists[m]], np.int32)
        return Decision(start, slot, self._slots, owner_order=self._owners.order, loop=self._loop)

    def _assign_unassigned(self) -> None:
        # Subscribers on a rack of a replica come first.
        waiting = self._inputs.free.tolist()
        if self._inputs.racks.active:
            waiting = [s for s in waiting if not self._assign_partition(s, by_rack=True)]
        for s in waiting:
            self._assign_partition(s, by_rack=False)

    def _assign_partition(self, slot: int, *, by_rack: bool) -> bool:
        """Assign partition ``slot`` to the subscriber of its topic with the fewest partitions.

        With ``by_rack``, only subscribers without a rack or on the rack of a replica count. Return
        False if there is no such subscriber.
        """
        for m in self._in_queue(self._topic[slot]):
            rack = self._rack[m]
            if by_rack and rack != -1 and rack not in self._racks[slot]:
                continue
            self._leave_queue(m)
            self.have[m].append(slot)
            self._holder[slot] = m
            self._join_queue(m)
            return True
        return False

    def _move_until_even(self, slots: list[int]) -> bool:
        """Try to move each of the partitions ``slots``, and repeat this until no partition moves.

        Return whether any partition moved. The loop also ends if an earlier state recurs, because
        Kafka's class would then never return.
        """
        moved_at_all, repeated = False, RepeatedState()
        while self._pass(slots):
            moved_at_all = True
            if repeated.is_repeated(self._snapshot()):
                # An earlier state recurs, so Kafka's class would loop forever.
                self._loop = self._describe_loop(slots, repeated)
                break
        return moved_at_all

    def _pass(self, slots: list[int]) -> list[int]:
        moved = []
        for slot in slots:
            if self._is_balanced():
                break
            target = self._better_owner(slot)
            if target is not None:
                moved.append(self._move_partition(slot, target))
                if self._watches and self._is_better():
                    self._best = self._copy()
        return moved

    def _copy(self) -> dict[int, list[int]]:
        return {m: list(slots) for m, slots in self.have.items()}

    def _is_better(self) -> bool:
        return self._score(self.have) < self._score(self._best) and self._is_valid()

    def _is_valid(self) -> bool:
        held = [slot for slots in self.have.values() for slot in slots]
        return len(held) == len(set(held)) and all(
            self._topic[slot] in self._wanted[self._class[m]]
            for m, slots in self.have.items()
            for slot in slots
        )

    def _snapshot(self) -> object:
        # All that decides the next passes: two equal snapshots prove an endless loop.
        lists = {m: sorted(slots) for m, slots in self.have.items()}
        return lists, dict(self._holder), list(self._queue), self._movements.comparable_state()

    def _describe_loop(self, slots: list[int], repeated: RepeatedState) -> EndlessLoop:
        # This runs the passes of one more period.
        moving = {slot for _ in range(repeated.length) for slot in self._pass(slots)}
        keys = self._slots.sort_keys
        names = self._inputs.partition_names(
            np.array(sorted(moving, key=lambda slot: int(keys[slot])))
        )
        return EndlessLoop(repeated.passes, repeated.length, names)

    def _better_owner(self, slot: int) -> int | None:
        # None if the partition stays.
        holder = self._holder.get(slot)
        if holder is None:
            raise self._null(slot)
        size = len(self.have[holder])
        previous = self._previous[slot]
        if previous >= 0:
            if previous not in self.have:
                raise self._null(slot)
            if size > len(self.have[previous]) + 1:
                return previous
        for m in self._subscribers[self._topic[slot]]:
            if m not in self.have:
                raise self._null(slot)
            if size > len(self.have[m]) + 1:
                return next(self._in_queue(self._topic[slot]))
        return None

    def _move_partition(self, slot: int, new_owner: int) -> int:
        """Move partition ``slot``, or another one of its topic, to a member with fewer partitions.

        Another partition of the topic moves if it came from ``new_owner`` in this rebalance, so
        that fewer partitions change their owner. Return the partition that was moved.
        """
        # Kafka may move another partition of the topic back to the target instead.
        slot = self._movements.partition_to_move(slot, self._holder[slot], new_owner)
        holder = self._holder[slot]
        self._leave_queue(holder)
        self._leave_queue(new_owner)
        self._movements.record_move(slot, holder, new_owner)
        if slot in self.have[holder]:
            self.have[holder].remove(slot)
        self.have[new_owner].append(slot)
        self._holder[slot] = new_owner
        self._join_queue(new_owner)
        self._join_queue(holder)
        return slot

    def _is_balanced(self) -> bool:
        """Return whether the loads are balanced, so that no partition needs to move any more.

        They are if each partition's owner has at most one partition more than any other subscriber
        of the topic. It is the method ``isBalanced`` of Kafka's ``AbstractStickyAssignor``.
        """
        if not self._queue:
            what = "every member has all that it can get, but a partition still moves"
            raise StickyAssignorError(what, "NoSuchElementException")
        if self._queue[0][0] >= self._queue[-1][0] - 1:
            return True
        holder = {s: m for m in self._owners.order for s in self.have[m]}
        for size, _, m in self._queue:
            if size == self._most[m]:
                continue
            for k in self._listed[self._class[m]]:
                for s in self._walk[k]:
                    if s in self.have[m]:
                        continue
                    if s not in holder:
                        raise self._null(s)
                    if size + 1 < len(self.have[holder[s]]):
                        return False
        return True

    def _is_fixed(self, m: int) -> bool:
        slots = self.have[m]
        return len(slots) >= self._most[m] and not any(self._shared[self._topic[s]] for s in slots)

    def _in_queue(self, topic: int) -> Iterator[int]:
        return (m for _, _, m in self._queue if topic in self._wanted[self._class[m]])

    def _leave_queue(self, m: int) -> None:
        entry = (len(self.have[m]), self._rank[m], m)
        at = bisect_left(self._queue, entry)
        if at < len(self._queue) and self._queue[at] == entry:
            del self._queue[at]

    def _join_queue(self, m: int) -> None:
        entry = (len(self.have[m]), self._rank[m], m)
        if entry not in self._queue:
            insort(self._queue, entry)

    @staticmethod
    def _score(lists: dict[int, list[int]]) -> int:
        sizes = np.sort(np.array([len(slots) for slots in lists.values()], np.int64))
        weights = 2 * np.arange(len(sizes)) - len(sizes) + 1
        return int((weights * sizes).sum())

    def _null(self, slot: int) -> StickyAssignorError:
        return null_pointer_error(self._inputs, slot)


class _JavaHashSet:
    """Model of a Java ``HashSet`` of partitions, to find its first element in iteration order.

    If several partitions could move back to a member, Kafka's class takes the first one of such a
    set.
    """

    def __init__(self) -> None:
        self.hashes: dict[int, int] = {}
        self.table = 16

    def add_slot(self, slot: int, hashed: int) -> None:
        """Add a partition to the modelled Java ``HashSet``, and enlarge the table as Java does.

        ``slot`` is the partition's index, ``hashed`` its Java hash code.
        """
        self.hashes[slot] = hashed
        # The table grows as Java's does and never shrinks.
        while True:
            spread = [(h & 0xFFFFFFFF) >> 16 ^ (h & 0xFFFFFFFF) for h in self.hashes.values()]
            bucket = spread[-1] & (self.table - 1)
            chain = sum(1 for one in spread[:-1] if one & (self.table - 1) == bucket)
            if chain >= 8 and self.table < 64:
                self.table *= 2
            break
        if len(self.hashes) * 4 > self.table * 3:
            self.table *= 2

    def first_slot(self) -> int:
        """Return the first partition in the iteration order of the modelled Java ``HashSet``.

        It is the one in the lowest bucket; within a bucket, the one that was added first.
        """
        spread = [(h & 0xFFFFFFFF) >> 16 ^ (h & 0xFFFFFFFF) for h in self.hashes.values()]
        buckets = [one & (self.table - 1) for one in spread]
        return list(self.hashes)[buckets.index(min(buckets))]


class PartitionMovements:
    """Partitions that moved between members in this rebalance (Kafka's ``PartitionMovements``).

    Kafka uses it to move a partition back instead of moving another one, so that fewer partitions
    change their owner.

    Args:
        names: topic names.
        topic: topic of each partition.
        number: partition number of each partition.
    """

    def __init__(self, names: Sequence[str], topic: Sequence[int], number: Sequence[int]) -> None:
        self._topic, self._number = topic, number
        self._hash = [string_hash(name) for name in names]
        self._net: dict[int, tuple[int, int]] = {}
        self._sets: dict[tuple[int, int, int], _JavaHashSet] = {}

    def record_move(self, slot: int, old_owner: int, new_owner: int) -> None:
        """Record that partition ``slot`` moves from member ``old_owner`` to member ``new_owner``.

        If it has moved before, both moves become one; a partition that is back at its first owner
        counts as not moved.
        """
        k = self._topic[slot]
        if slot in self._net:
            # A partition that has moved before keeps its first owner as the source.
            source, target = self._net.pop(slot)
            same_pair = self._sets[k, source, target]
            del same_pair.hashes[slot]
            if not same_pair.hashes:
                del self._sets[k, source, target]
            if source == new_owner:
                return
            old_owner = source
        self._net[slot] = (old_owner, new_owner)
        hashed = 31 * (31 + self._number[slot]) + self._hash[k]
        self._sets.setdefault((k, old_owner, new_owner), _JavaHashSet()).add_slot(slot, hashed)

    def partition_to_move(self, slot: int, old_owner: int, new_owner: int) -> int:
        """Return the partition to move from member ``old_owner`` to member ``new_owner``.

        It is ``slot``, unless a partition of the same topic moved from ``new_owner`` to
        ``old_owner`` before: then that one moves back (Kafka's ``getTheActualPartitionToBeMoved``).
        """
        if slot in self._net:
            old_owner = self._net[slot][0]
        opposite = self._sets.get((self._topic[slot], new_owner, old_owner))
        return slot if opposite is None else opposite.first_slot()

    def comparable_state(self) -> object:
        """Return all recorded partition moves as one value that can be compared with ``==``.

        If it has the same value twice, Kafka's class loops forever.
        """
        sets = {key: (one.table, list(one.hashes)) for key, one in self._sets.items()}
        return dict(self._net), sets


class OwnerMap:
    """Model of the Java map from member to partitions in Kafka's sticky assignor.

    It reproduces the iteration order, which matters if the class assigns a partition to two
    members: the last of them in the map (``currentAssignment``) counts as its owner (Q26 in
    docs/quirks.md).

    Attributes:
        order: the present members in iteration order.
    """

    def __init__(self, sticky: StickyProblem) -> None:
        self._sticky = sticky
        # ``GeneralAssignmentBuilder.balance`` removes members that can neither lose nor get a
        # partition from the map, and adds them again at the end. This changes the order of other
        # members only in buckets that are or were trees: a tree's root moves to the front with each
        # removal or insertion, and a small tree becomes a chain again.
        self._table = self._filled(sticky.members_in_map_order, DEFAULT_TABLE)
        self._copy: list[int] = []
        self._aside: list[int] = []
        self.order = self._table.iteration_order()

    def remove_fixed(self, fixed: Collection[int]) -> None:
        """Remove members that can neither lose nor get a partition from the modelled Java map.

        Kafka's class does so before it balances loads, which can change the order of the other
        members. ``fixed`` are the members to remove.
        """
        if fixed:
            visit = self._sticky.members_in_map_order
            # Kafka removes them in the iteration order of another map, which was created with the
            # number of all members as capacity.
            iterated = self._filled(visit, table_for_capacity(len(visit))).iteration_order()
            leaving = [m for m in iterated if m in fixed]
            for m in leaving:
                self._table.remove(m)
            self._aside = self._filled(leaving, DEFAULT_TABLE).iteration_order()
            self.order = self._table.iteration_order()
        self._copy = self.order

    def restore_copy(self) -> None:
        """Refill the modelled Java map from its copy, as Kafka's class does when it undoes its
        moves.

        The iteration order can change, because keys are inserted in another order.
        """
        self._table.clear()
        for m in self._filled(self._copy, DEFAULT_TABLE).iteration_order():
            self._table.put(m)

    def add_fixed(self) -> None:
        """Add the members that `remove_fixed` removed to the modelled Java map again.

        These members can neither lose nor get partitions. Kafka's class adds them at the end, after
        it has balanced the loads.
        """
        for m in self._aside:
            self._table.put(m)
        self.order = self._table.iteration_order()

    def _filled(self, members: list[int], slots: int) -> HashTable:
        rank = self._sticky.problem.group.member_rank
        table = HashTable(self._sticky.member_hash_codes, slots, rank.tolist())
        for m in members:
            table.put(m)
        return table
