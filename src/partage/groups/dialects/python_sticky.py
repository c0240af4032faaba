"""The sticky algorithm that kafka-python and aiokafka share: Kafka's general one of 2.3.

The algorithm is in `partage.groups.dialects.sticky_core`. This module resolves claims (partitions
that members say they own), and orders and moves partitions, as the Python clients do.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import partial

from partage.groups.dialects.problem import PeerAssignorError, PeerProblem
from partage.groups.dialects.sticky_core import (
    GeneralAssignment,
    SettledClaims,
    owned_slots_in_turns,
    run_to_end,
    subscriptions_identical,
)
from partage.groups.dialects.user_data import Claims
from partage.model.repeated_state import EndlessLoop

__all__ = ["assign_sticky"]


def assign_sticky(
    peer: PeerProblem, claims: Sequence[Claims], *, undoes_exchanges: bool
) -> tuple[list[list[int]], EndlessLoop | None]:
    """Assign partitions by the sticky algorithm of kafka-python or aiokafka.

    Return each member's partitions, and the endless loop if the client would never return. In that
    case the partitions are the most even valid assignment after any of its moves. Partitions are
    numbers in this problem.

    Args:
        peer: the problem.
        claims: the partitions that each member says it owns.
        undoes_exchanges: whether to apply kafka-python's remedy for endless exchanges, see
            `PythonAssignment`.

    Raises:
        PeerAssignorError: the class raises on this problem.
    """
    if not claims:
        what = "the sticky assignor needs at least one member (its queue is empty)"
        raise PeerAssignorError(what, "TypeError" if undoes_exchanges else "ValueError")
    settled = settle_claims(peer, claims)
    has_claims = any(partitions for partitions, _ in claims)
    order = order_slots(peer, settled, has_claims=has_claims)
    return run_to_end(
        partial(PythonAssignment, peer, settled, order, undoes_exchanges=undoes_exchanges)
    )


def settle_claims(peer: PeerProblem, claims: Sequence[Claims]) -> SettledClaims:
    """Resolve conflicting claims as the Python clients do: the member with the newest generation is
    the owner.

    A claim is a partition that a member says it owns. The second newest claimant is the previous
    owner. Of two claims of one generation the first counts. Of two claims of generation 0 the last
    counts, because the clients take 0 for "no generation".
    """
    claimants_by_slot: dict[int, dict[int, int]] = {}
    for member, (partitions, generation) in enumerate(claims):
        for slot in peer.claimed_slots(partitions):
            claimants = claimants_by_slot.setdefault(slot, {})
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


def order_slots(peer: PeerProblem, claims: SettledClaims, *, has_claims: bool) -> list[int]:
    """Return all partitions in the order in which the Python clients assign and move them.

    Those with the fewest subscribers come first. Where members claim anything and subscriptions are
    identical, the owned partitions come first (`owned_slots_in_turns`). Partitions are numbers in
    this problem.

    Args:
        peer: the problem.
        claims: the owners after conflicting claims are resolved.
        has_claims: whether a member claims anything, even partitions that do not exist.
    """
    subscribers = [len(members) for members in peer.subscribers]
    slots = range(len(peer.topic_of_slot))
    by_subscribers = sorted(slots, key=lambda s: subscribers[peer.topic_of_slot[s]])
    # The order of topic names as sent counts. A client may send a set's elements in any order, so
    # members with the same topics may have "different" subscriptions.
    if not has_claims or not subscriptions_identical(peer, peer.subscriptions):
        return by_subscribers
    owned = owned_slots_in_turns(peer, claims)
    is_owned = set(owned)
    return owned + [slot for slot in by_subscribers if slot not in is_owned]


class PythonAssignment(GeneralAssignment):
    """One run of the general sticky algorithm as kafka-python and aiokafka implement it.

    Args:
        peer: the problem.
        claims: the owners after conflicting claims are resolved.
        order: all partitions in the order of `order_slots`, as numbers in this problem.
        undoes_exchanges: whether a slot that has to move in place of another (`Movements`), but
            has a new owner by now, first undoes the move of that other slot, as in kafka-python
            3.0. In aiokafka the owner then never loses a slot: the class may exchange two slots
            forever.
        watch: whether to compare the plan after each move with the best one so far.
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
        self._movements = Movements()
        # Fixed members that the class looked up in a defaultdict and so added again, empty.
        self._added_again: set[int] = set()

    def _replace_fixed(self, owner: int, target: int) -> int:
        """Return -1, by which a partition goes to the least loaded subscriber, not to its previous
        owner.

        This is called if the previous owner can take no partition. The class takes its load for 0,
        so it fails where the owner has more than one partition.

        Raises:
            PeerAssignorError: the class raises KeyError.
        """
        self._added_again.add(target)
        if self._queue.load[owner] > 1:
            what = "a partition is to return to a previous owner that can take none (KeyError)"
            raise PeerAssignorError(what, "KeyError")
        return -1

    def _move(self, slot: int, topic: int, target: int) -> None:
        # Kafka's getTheActualPartitionToBeMoved: a partition of the topic that moved in the
        # opposite direction earlier moves back instead.
        owner = self.owner[slot]
        moving = self._movements.opposite(slot, topic, owner, target)
        if self._undoes_exchanges and self.owner[moving] != owner:
            self._move_one(slot, topic, self.owner[moving])
        self._move_one(moving, topic, target)

    def _move_one(self, slot: int, topic: int, target: int) -> None:
        source = self.owner[slot]
        self._moving.add(slot)
        self._movements.add(slot, topic, source, target)
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

    def _state(self) -> tuple[object, ...]:
        # The queue of members follows from the owners.
        return (
            tuple(self.owner),
            self._movements.state(),
            self._is_irregular,
            frozenset(self._added_again),
        )

    def _loads(self) -> list[int]:
        # The class counts 0 for each excluded member that its look-up has added again.
        return [*super()._loads(), *(0 for _ in self._added_again)]


class Movements:
    """Record of the partitions moved so far: first source and present target of each.

    It is Kafka's ``PartitionMovements``. The clients keep the partitions that moved from one member
    to another in a hash set and take any of them, in an order that changes with the process's hash
    seed. Here they are sorted.
    """

    def __init__(self) -> None:
        self._way: dict[int, tuple[int, int]] = {}
        self._slots: dict[tuple[int, int, int], list[int]] = {}

    def opposite(self, slot: int, topic: int, source: int, target: int) -> int:
        """Return the partition to move back instead of moving ``slot``, or ``slot`` if there is
        none.

        It is a partition of the topic that moved in the opposite direction earlier. Moving it back
        has the same effect on loads and keeps one more partition in place.
        """
        if slot in self._way:
            source = self._way[slot][0]
        back = self._slots.get((topic, target, source))
        return back[0] if back else slot

    def add(self, slot: int, topic: int, source: int, target: int) -> None:
        """Record that a partition has moved from one member to another.

        If it is back at its first source, it counts as not moved.
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

    def state(self) -> frozenset[tuple[int, tuple[int, int]]]:
        """Return all moves recorded so far as a comparable value, to detect endless loops.

        The run never ends if it has equal values after two of its passes.
        """
        return frozenset(self._way.items())
