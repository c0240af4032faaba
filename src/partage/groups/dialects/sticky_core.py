"""The general sticky algorithm of Kafka 2.3 and 2.4, as other clients ported it.

kafka-python, aiokafka and librdkafka ported ``AbstractStickyAssignor`` before Kafka added a
separate algorithm for equal subscriptions, so they run this one for every group.
`GeneralAssignment` is the common part of the ports. `assign_as_python_clients` adds the rules of
kafka-python and aiokafka, module `librdkafka` those of librdkafka: how claims conflict, in which
order partitions are visited, and what a move does. A slot is a numbered partition (see `problem`).
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from partage.groups.dialects.problem import PeerAssignorError, PeerProblem
from partage.groups.dialects.user_data import Claims
from partage.model.repeated_state import EndlessLoop, RepeatedState

__all__ = [
    "GeneralAssignment", "SettledClaims", "SortedMembers", "assign_as_python_clients",
    "owned_slots_in_turns", "run_to_end", "subscriptions_identical",
]  # fmt: skip


@dataclass(frozen=True)
class SettledClaims:
    """Owner of each partition, chosen where several consumers of a group report the same partition.

    Consumers report the partitions that they own when they join the group.

    Attributes:
        owned: the partitions of each member, as indices of the problem's sorted partitions.
        previous: the previous owner of each partition that several members report as owned.
    """

    owned: list[list[int]]
    previous: dict[int, int]


class GeneralAssignment(ABC):
    """Base class of the sticky assignors of non-Java clients (the algorithm of Kafka 2.3 and 2.4).

    Partitions are given by their index in the problem ("slot"). An instance is used for one call of
    `assign_and_balance`.

    Args:
        peer: members, topics and partitions as the client sees them.
        claims: the owners after conflicting reports of members are resolved.
        order: all slots in the order in which the client visits them.
        watch: whether to keep the best plan so far; it is the result if the client loops forever.

    Attributes:
        owner: the member that the client considers the owner of each slot, -1 for none.
        lists: the slots of each member, after `assign_and_balance`.
        loop: the endless loop of the client, None if it returns.
    """

    def __init__(
        self,
        peer: PeerProblem,
        claims: SettledClaims,
        order: Sequence[int],
        *,
        watch: bool = False,
    ) -> None:
        self._peer = peer
        self._topic_sets = peer.topic_sets
        self._previous = claims.previous
        counts = [len(peer.slots_of(k)) for k in range(len(peer.topics))]
        self._most = [sum(counts[k] for k in topics) for topics in peer.subscriptions]
        self.lists = [self._keepable(member, slots) for member, slots in enumerate(claims.owned)]
        self._is_revoking = sum(map(len, self.lists)) < sum(map(len, claims.owned))
        self.owner = [-1] * len(peer.topic_of_slot)
        for member, slots in enumerate(self.lists):
            for slot in slots:
                self.owner[slot] = member
        self._order = list(order)
        self._unassigned = [slot for slot in order if self.owner[slot] < 0]
        self._queue = SortedMembers([len(slots) for slots in self.lists], peer.id_rank)
        self._starts_empty = self._queue.highest_load == 0
        #: Members that can neither give nor take a slot; they have left the queue.
        self._fixed: set[int] = set()
        #: Whether a member may have a slot to which it does not subscribe, or two owners exist.
        #: Only then can Kafka's test for balance succeed before the queue is even.
        self._is_irregular = False
        self._moving: set[int] = set()
        self._watches = watch
        self._best: list[list[int]] = []
        self._best_score = 0
        self.loop: EndlessLoop | None = None

    def assign_and_balance(self) -> None:
        """Assign partitions without an owner, then move partitions until consumers' loads are even.

        A load is the consumer's number of partitions. The result is in the attribute `lists`.
        """
        self._assign(self._unassigned)
        self._exclude_fixed()
        self._balance_loads()

    # --- steps ---

    def _assign(self, slots: Sequence[int]) -> None:
        topic_of_slot = self._peer.topic_of_slot
        for slot in slots:
            self._give(self._least_loaded(topic_of_slot[slot]), slot)

    def _exclude_fixed(self) -> None:
        # A topic with one subscriber cannot move, and a member without other topics neither loses
        # nor gets a partition.
        peer = self._peer
        is_shared = [len(subscribers) >= 2 for subscribers in peer.subscribers]
        self._order = [s for s in self._order if is_shared[peer.topic_of_slot[s]]]
        self._unassigned = [s for s in self._unassigned if is_shared[peer.topic_of_slot[s]]]
        for member, topics in enumerate(peer.subscriptions):
            is_full = self._queue.load[member] >= self._most[member]
            if is_full and not any(is_shared[k] for k in topics):
                self._queue.remove_member(member)
                self._fixed.add(member)

    def _balance_loads(self) -> None:
        """Move partitions from more loaded to less loaded members until their loads are even.

        A load is a member's number of partitions. If the moves do not make loads more even, all of
        them are undone, as in Kafka's class.
        """
        start, score = self._copied_lists(), self._balance_score()
        self._best, self._best_score, moved = start, score, False
        if not self._is_revoking:
            self._repeat_passes(self._unassigned)
        if self.loop is None:
            moved = self._repeat_passes(self._order)
        if self.loop is not None:
            self.lists = self._best
        # If Kafka's balance score has not improved, all moves are undone.
        elif not self._starts_empty and moved and self._balance_score() >= score:
            self.lists = start
        else:
            self.lists = self._copied_lists()

    def _repeat_passes(self, slots: Sequence[int]) -> bool:
        """Try to move each of the partitions ``slots``, and repeat this until no partition moves.

        Return whether any partition moved. The loop also ends if an earlier state recurs, because
        the client would then never return.
        """
        moved, repeated = False, RepeatedState()
        while self._run_pass(slots):
            moved = True
            if repeated.is_repeated(self._comparable_state()):
                # An earlier state recurs, so the client would loop forever.
                self.loop = self._endless_loop(slots, repeated)
                break
        return moved

    def _run_pass(self, slots: Sequence[int]) -> bool:
        """Try once to move each given partition to a less loaded member; return whether any moved.

        It is one pass of Kafka's ``performReassignments``. ``slots`` are the partitions in order.
        """
        queue, topic_of_slot, moved = self._queue, self._peer.topic_of_slot, False
        for slot in slots:
            if queue.is_even or (self._is_irregular and self._is_balanced()):
                break
            topic, owner = topic_of_slot[slot], self.owner[slot]
            target = self._previous.get(slot, -1)
            if target in self._fixed or owner in self._fixed:
                if self._is_balanced():
                    break
                target = self._replace_excluded_target(owner, target)
            # A partition moves to its previous owner, or else to the least loaded subscriber. The
            # target must have at least two partitions fewer than the current owner.
            load = queue.load[owner]
            if target < 0 or load <= queue.load[target] + 1:
                target = self._least_loaded(topic)
                if load <= queue.load[target] + 1:
                    continue
            is_subscriber = topic in self._topic_sets[target]
            if not is_subscriber and self._is_balanced():
                break
            self._is_irregular |= not is_subscriber
            self._move_partition(slot, topic, target)
            if self._watches:
                self._compare_with_best()
            moved = True
        return moved

    def _least_loaded(self, topic: int) -> int:
        topic_sets = self._topic_sets
        return self._queue.first_member(lambda m: topic in topic_sets[m])

    # --- balance ---

    def _is_balanced(self) -> bool:
        """Return whether the loads are balanced, so that no partition needs to move any more.

        They are if all members' numbers of partitions differ by at most one, or if no subscriber of
        a partition has fewer partitions than its owner. It is the method ``isBalanced`` of Kafka's
        ``AbstractStickyAssignor``.
        """
        queue, peer = self._queue, self._peer
        if queue.is_even:
            return True
        owner = self._listed_owners()
        for member in queue:
            load = queue.load[member]
            if load == self._most[member]:
                continue
            own = self._own_slots(member)
            for topic in self._topic_sets[member]:
                for slot in peer.slots_of(topic):
                    if slot not in own and load < queue.load[owner[slot]]:
                        return False
        return True

    def _balance_score(self) -> int:
        # Kafka's getBalanceScore: load differences of all pairs of members; 0 is even.
        loads = sorted(self._loads())
        last = len(loads) - 1
        return sum((2 * i - last) * load for i, load in enumerate(loads))

    def _loads(self) -> list[int]:
        return [self._queue.load[m] for m in self._queue]

    # --- endless loops ---

    def _compare_with_best(self) -> None:
        score = self._balance_score()
        if score < self._best_score and self._is_valid():
            self._best, self._best_score = self._copied_lists(), score

    def _endless_loop(self, slots: Sequence[int], repeated: RepeatedState) -> EndlessLoop:
        """Describe the endless loop in which another client's sticky assignor moves partitions.

        To find these partitions, the moves of one period of the loop are repeated.
        """
        self._moving = set()
        for _ in range(repeated.length):
            self._run_pass(slots)
        names = tuple(map(self._peer.partition_name, sorted(self._moving)))
        return EndlessLoop(repeated.passes, repeated.length, names)

    # --- parts that differ between the clients ---

    def _keepable(self, member: int, slots: Sequence[int]) -> list[int]:
        topic_of_slot, topics = self._peer.topic_of_slot, self._topic_sets[member]
        return [slot for slot in slots if topic_of_slot[slot] in topics]

    def _give(self, member: int, slot: int) -> None:
        self.owner[slot] = member
        self._queue.change_load(member, 1)

    def _listed_owners(self) -> Sequence[int] | Mapping[int, int]:
        # As the client's balance test looks them up.
        return self.owner

    def _own_slots(self, member: int) -> Collection[int]:
        # The client's balance test skips a member's own partitions; here it skips none.
        return ()

    @abstractmethod
    def _replace_excluded_target(self, owner: int, target: int) -> int:
        """Choose a new owner for a partition that cannot go back to its previous owner.

        The algorithm prefers the previous owner, but members that can neither lose nor get
        partitions are excluded. Each client treats this case differently, so subclasses override
        this method. The result -1 stands for the least loaded subscriber. Where the client fails,
        `PeerAssignorError` is raised.
        """

    @abstractmethod
    def _move_partition(self, slot: int, topic: int, target: int) -> None:
        """Move one partition of a topic from the owner of ``slot`` to the member ``target``.

        It is the partition ``slot``, unless another partition of the topic moved from ``target`` to
        the owner before: then this one moves back. Kafka's method is
        ``getTheActualPartitionToBeMoved``.
        """

    @abstractmethod
    def _copied_lists(self) -> list[list[int]]:
        """Return a copy of each member's list of partitions.

        Later moves do not change the copy, so it can be restored if they do not help.
        """

    @abstractmethod
    def _is_valid(self) -> bool:
        """Return whether each partition has at most one owner, and the owner subscribes to its
        topic.

        Only valid assignments are kept as the best one so far, which is the result if the client
        loops forever.
        """

    @abstractmethod
    def _comparable_state(self) -> object:
        """Return the owners and all recorded moves as one value that can be compared with ``==``.

        If it has the same value twice, the client's algorithm loops forever.
        """


def run_to_end(
    create_algorithm: Callable[..., GeneralAssignment],
) -> tuple[list[list[int]], EndlessLoop | None]:
    """Run the sticky algorithm of another client library, and stop it if it loops forever.

    In case of an endless loop, the result is the best assignment that the loop visits.

    Args:
        create_algorithm: function that creates the algorithm (`GeneralAssignment`); its argument
            ``watch`` says whether to keep the best plan so far.

    Returns:
        The partitions of each member, and the endless loop, if any. In case of a loop the
        partitions are the best plan that it visits.
    """
    run = create_algorithm(watch=False)
    run.assign_and_balance()
    if run.loop is not None:
        run = create_algorithm(watch=True)
        run.assign_and_balance()
    return run.lists, run.loop


def subscriptions_identical(peer: PeerProblem, by_member: Sequence[object]) -> bool:
    """Return whether all members of a consumer group subscribe to the same topics.

    Sticky assignors then handle the owned partitions first. Otherwise they begin with the
    partitions that have the fewest subscribers.

    Args:
        peer: members, topics and partitions as the client library sees them.
        by_member: each member's subscription as a list or a set, whichever the library compares.
            With lists, the order of topics matters.
    """
    by_topic = peer.subscribers
    return all(one == by_topic[0] for one in by_topic) and all(
        one == by_member[0] for one in by_member
    )


class SortedMembers:
    """Queue of a group's members in ascending order of their number of partitions (load).

    Members with equal loads are sorted by the rank of their id, as in Java's ``TreeSet``. For
    example, loads ``[2, 0, 2]`` and ranks ``[1, 2, 0]`` of members 0, 1, 2 give the keys ``[(0, 2),
    (2, 0), (2, 1)]``, so the order of members is 1, 2, 0.

    >>> queue = SortedMembers([2, 0], rank=[0, 1])
    >>> queue.change_load(1, 3)
    >>> list(queue), queue.highest_load, queue.is_even
    ([0, 1], 3, True)
    """

    def __init__(self, load: Sequence[int], rank: Sequence[int]) -> None:
        self.load = list(load)
        self._rank = rank
        self._member_of_rank = sorted(range(len(rank)), key=rank.__getitem__)
        self._keys = sorted((n, rank[m]) for m, n in enumerate(load))

    def __iter__(self) -> Iterator[int]:
        return (self._member_of_rank[rank] for _, rank in self._keys)

    @property
    def highest_load(self) -> int:
        """Largest number of partitions that any member in the queue has.

        It is 0 if no member owns a partition yet.
        """
        return self._keys[-1][0]

    @property
    def is_even(self) -> bool:
        """True if the partition counts of the members in the queue differ by at most one.

        No move can then make them more even.
        """
        return self._keys[0][0] >= self._keys[-1][0] - 1

    def remove_member(self, member: int) -> None:
        """Remove a member from the queue, because it can neither lose nor get partitions."""
        del self._keys[bisect_left(self._keys, (self.load[member], self._rank[member]))]

    def change_load(self, member: int, change: int) -> None:
        """Add ``change`` to a member's number of partitions, and move it to its new place in the
        queue.

        ``change`` is negative if the member loses partitions.
        """
        self.remove_member(member)
        self.load[member] += change
        insort(self._keys, (self.load[member], self._rank[member]))

    def first_member(self, condition: Callable[[int], bool]) -> int:
        """Return the member with the fewest partitions for which ``condition(member)`` is true.

        The condition is, for example, that the member subscribes to a topic. The result is -1 if it
        is true for no member.
        """
        return next((m for m in self if condition(m)), -1)


def owned_slots_in_turns(peer: PeerProblem, claims: SettledClaims) -> list[int]:
    """List all owned partitions in the order in which other clients' sticky assignors visit them.

    The next partition always comes from the member with the most partitions that are not listed
    yet.

    Args:
        peer: members, topics and partitions as the client sees them.
        claims: the owner of each partition.
    """
    disputed = claims.previous
    others = [[s for s in slots if s not in disputed] for slots in claims.owned]
    first = [sorted((s for s in slots if s in disputed), reverse=True) for slots in claims.owned]
    rank = peer.id_rank
    # Of several such members, the last one by id is next. A member first gives the partitions that
    # several members report as owned, by topic and number. Then it gives the others from the end of
    # its list.
    heap = [(-len(slots), -rank[m], m) for m, slots in enumerate(claims.owned) if slots]
    heapq.heapify(heap)
    in_turns = []
    while heap:
        negative_left, _, m = heap[0]
        in_turns.append((first[m] or others[m]).pop())
        if negative_left < -1:
            heapq.heapreplace(heap, (negative_left + 1, -rank[m], m))
        else:
            heapq.heappop(heap)
    return in_turns


# --- kafka-python and aiokafka ---------------------------------------------------------------


def assign_as_python_clients(
    peer: PeerProblem, claims: Sequence[Claims], *, undoes_exchanges: bool
) -> tuple[list[list[int]], EndlessLoop | None]:
    """Assign partitions by the sticky algorithm of the Python clients kafka-python and aiokafka.

    If the client would loop forever on this input, the most even valid assignment in the loop is
    returned.

    Args:
        peer: members, topics and partitions as the client sees them.
        claims: the partitions that each member reports as owned, and their generation.
        undoes_exchanges: whether to apply kafka-python's remedy for endless exchanges, see
            `PythonAssignment`.

    Returns:
        The partitions of each member (indices of the problem's sorted partitions); and the endless
        loop if the client would loop forever, else None. In case of a loop the partitions are the
        most even valid assignment that it visits.

    Raises:
        PeerAssignorError: the client raises an error on this problem.
    """
    if not claims:
        what = "the sticky assignor needs at least one member (its queue is empty)"
        raise PeerAssignorError(what, "TypeError" if undoes_exchanges else "ValueError")
    settled = settle_python_claims(peer, claims)
    has_claims = any(partitions for partitions, _ in claims)
    order = order_python_slots(peer, settled, has_claims=has_claims)
    return run_to_end(
        partial(PythonAssignment, peer, settled, order, undoes_exchanges=undoes_exchanges)
    )


def settle_python_claims(peer: PeerProblem, claims: Sequence[Claims]) -> SettledClaims:
    """Choose one owner for each partition that consumers report as owned, as the Python clients do.

    The newest generation decides the owner, the second newest the previous owner.

    Args:
        peer: members, topics and partitions as the client sees them.
        claims: the partitions that each member reports as owned, and their generation.
    """
    claimants_by_slot: dict[int, dict[int, int]] = {}
    for member, (partitions, generation) in enumerate(claims):
        for slot in peer.claimed_slots(partitions):
            claimants = claimants_by_slot.setdefault(slot, {})
            # With equal generations the first member counts. Only with generation 0, which the
            # clients take for "no generation", the last one does.
            if generation == 0 or generation not in claimants:
                claimants[generation] = member
    owned: list[list[int]] = [[] for _ in claims]
    previous = {}
    for slot, claimants in claimants_by_slot.items():
        generations = sorted(claimants, reverse=True)
        owned[claimants[generations[0]]].append(slot)
        if len(generations) > 1:
            previous[slot] = claimants[generations[1]]
    return SettledClaims(owned, previous)


def order_python_slots(peer: PeerProblem, claims: SettledClaims, *, has_claims: bool) -> list[int]:
    """Sort all partitions into the order in which the Python clients' sticky assignors handle them.

    Partitions with the fewest subscribers come first; if all subscriptions are equal, owned
    partitions come first.

    Args:
        peer: members, topics and partitions as the client sees them.
        claims: the owner of each partition after conflicting reports are resolved.
        has_claims: whether any member reports a partition as owned, even one that does not exist.
    """
    subscribers = [len(members) for members in peer.subscribers]
    slots = range(len(peer.topic_of_slot))
    by_subscribers = sorted(slots, key=lambda s: subscribers[peer.topic_of_slot[s]])
    # The order of topic names as sent counts. A client may send a set's elements in any order, so
    # members with the same topics may have "different" subscriptions.
    if not has_claims or not subscriptions_identical(peer, peer.subscriptions):
        return by_subscribers
    # With identical subscriptions the owned partitions come first.
    owned = owned_slots_in_turns(peer, claims)
    is_owned = set(owned)
    return owned + [slot for slot in by_subscribers if slot not in is_owned]


class PythonAssignment(GeneralAssignment):
    """One run of Kafka's sticky algorithm, as implemented in kafka-python and aiokafka.

    The two clients differ in one point: aiokafka may exchange two partitions forever.

    Args:
        peer: the group's members, topics and partitions.
        claims: the owners after conflicting reports of members are resolved.
        order: all partitions in the order of `order_python_slots`.
        undoes_exchanges: whether kafka-python's remedy for endless exchanges is applied (3.0):
            before a partition moves in place of another one (`PythonMovements`) but has a new owner
            already, the move of that other one is undone. aiokafka may exchange two partitions
            forever.
        watch: whether to keep the best plan so far, for inputs on which the client loops forever.
    """

    def __init__(
        self,
        peer: PeerProblem,
        claims: SettledClaims,
        order: Sequence[int],
        *,
        undoes_exchanges: bool,
        watch: bool = False,
    ) -> None:
        super().__init__(peer, claims, order, watch=watch)
        self._undoes_exchanges = undoes_exchanges
        self._movements = PythonMovements()
        # Fixed members that the class looked up in a defaultdict and so added again, empty.
        self._added_again: set[int] = set()

    def _replace_excluded_target(self, owner: int, target: int) -> int:
        """Return -1, so that a partition goes to the least loaded subscriber, not to its previous
        owner.

        The method is called if the previous owner is excluded from balancing, because it can
        neither lose nor get partitions. If the current owner has other partitions, kafka-python
        raises KeyError, so this method raises `PeerAssignorError`.
        """
        self._added_again.add(target)
        if self._queue.load[owner] > 1:
            what = "a partition is to return to a previous owner that can take none (KeyError)"
            raise PeerAssignorError(what, "KeyError")
        return -1

    def _move_partition(self, slot: int, topic: int, target: int) -> None:
        # Kafka's getTheActualPartitionToBeMoved: a partition of the topic that moved in the
        # opposite direction earlier moves back instead.
        owner = self.owner[slot]
        moving = self._movements.partition_to_move(slot, topic, owner, target)
        if self._undoes_exchanges and self.owner[moving] != owner:
            self._move_one(slot, topic, self.owner[moving])
        self._move_one(moving, topic, target)

    def _move_one(self, slot: int, topic: int, target: int) -> None:
        source = self.owner[slot]
        self._moving.add(slot)
        self._movements.add_movement(slot, topic, source, target)
        self._queue.change_load(source, -1)
        self._give(target, slot)

    def _copied_lists(self) -> list[list[int]]:
        lists: list[list[int]] = [[] for _ in self.lists]
        for slot, owner in enumerate(self.owner):
            lists[owner].append(slot)
        return lists

    def _is_valid(self) -> bool:
        topic_of_slot, topic_sets = self._peer.topic_of_slot, self._topic_sets
        return not self._is_irregular or all(
            topic_of_slot[slot] in topic_sets[owner] for slot, owner in enumerate(self.owner)
        )

    def _comparable_state(self) -> tuple[object, ...]:
        # The queue of members follows from the owners.
        return (
            tuple(self.owner),
            self._movements.comparable_state(),
            self._is_irregular,
            frozenset(self._added_again),
        )

    def _loads(self) -> list[int]:
        # The class counts 0 for each excluded member that its look-up has added again.
        return [*super()._loads(), *(0 for _ in self._added_again)]


class PythonMovements:
    """Record of partition moves so far, with source and target (Kafka's ``PartitionMovements``).

    If a partition of the same topic moved in the opposite direction before, the clients move that
    one back instead of moving another partition.
    """

    def __init__(self) -> None:
        # The clients keep the partitions that moved from one member to another in a hash set and
        # pick an arbitrary one, which depends on the process's hash seed. Here the first one by
        # topic and number is picked.
        self._way: dict[int, tuple[int, int]] = {}
        self._slots: dict[tuple[int, int, int], list[int]] = {}

    def partition_to_move(self, slot: int, topic: int, source: int, target: int) -> int:
        """Return the partition to move from member ``source`` to member ``target``.

        It is ``slot``, unless another partition of the same topic moved from ``target`` to
        ``source`` before: then that one moves back. Both moves give the same loads, but the second
        one returns a partition to its old owner.

        Args:
            slot: the partition that should move (an index of the sorted partitions).
            topic: its topic.
            source: the member that has it.
            target: the member that should get it.
        """
        if slot in self._way:
            source = self._way[slot][0]
        back = self._slots.get((topic, target, source))
        return back[0] if back else slot

    def add_movement(self, slot: int, topic: int, source: int, target: int) -> None:
        """Record that a partition has moved from member ``source`` to member ``target``.

        If it is back at its first owner, all its moves are forgotten.

        Args:
            slot: the partition (an index of the sorted partitions).
            topic: its topic.
            source: the member that had it.
            target: the member that got it.
        """
        if slot in self._way:
            source, before = self._way.pop(slot)
            slots = self._slots[topic, source, before]
            del slots[bisect_left(slots, slot)]
            if not slots:
                del self._slots[topic, source, before]
            if source == target:
                return
        self._way[slot] = (source, target)
        insort(self._slots.setdefault((topic, source, target), []), slot)

    def comparable_state(self) -> frozenset[tuple[int, tuple[int, int]]]:
        """Return all recorded partition moves as one value that can be compared with ``==``.

        If it has the same value twice, the client's algorithm loops forever.
        """
        return frozenset(self._way.items())
