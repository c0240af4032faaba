"""The sticky algorithm that kafka-python and aiokafka share: Kafka's general one, of 2.3.

The pieces are a thought each: what claims mean (`python_claims`), the order of partitions
(`python_order`), who comes first (`ring`), what moved before (`movements`).
"""

from __future__ import annotations

from collections.abc import Sequence

from partage.groups.dialects.movements import Movements
from partage.groups.dialects.python_claims import Believed
from partage.groups.dialects.python_order import in_order
from partage.groups.dialects.python_userdata import Claims
from partage.groups.dialects.refusals import PeerRefusal
from partage.groups.dialects.ring import Ring
from partage.groups.dialects.scene import PeerScene

__all__ = ["Balancing", "balanced"]


def balanced(scene: PeerScene, claims: Sequence[Claims], *, swaps: bool) -> list[list[int]]:
    """By member its spots in the end, by topic and number.

    Args:
        scene: the problem.
        claims: by member what it says it owned.
        swaps: kafka-python's cure for endless exchanges, see `Balancing`.

    Raises:
        PeerRefusal: the class raises, or goes on for ever.
    """
    run = Balancing(scene, Believed.of(scene, claims), swaps=swaps)
    run.fill()
    run.narrow_down()
    run.improve()
    lists: list[list[int]] = [[] for _ in scene.problem.group]
    for spot, owner in enumerate(run.owner):
        lists[owner].append(spot)
    return lists


class Balancing:
    """One run.

    Args:
        scene: the problem.
        believed: who owned what.
        swaps: when a partition that went the other way is to move instead, and is with
            somebody else by now, first undo the move of the one at hand (kafka-python 3.0).
            Without, its owner never gets rid of it: the class may exchange for ever.

    Attributes:
        owner: by spot its member, -1 for nobody.
    """

    def __init__(self, scene: PeerScene, believed: Believed, *, swaps: bool) -> None:
        self._scene = scene
        self._swaps = swaps
        self._previous = believed.previous
        self._order = in_order(scene, believed)
        self._may_have = [set(topics) for topics in scene.subscribed]
        counts = [b - a for a, b in zip(scene.start, scene.start[1:], strict=False)]
        self._most = [sum(counts[k] for k in topics) for topics in scene.subscribed]
        self._revoked = False
        self.owner = [-1] * len(scene.topic_of)
        load = [0] * len(believed.owned)
        for member, mine in enumerate(believed.owned):
            for spot in mine:
                if scene.topic_of[spot] in self._may_have[member]:
                    self.owner[spot] = member
                    load[member] += 1
                else:
                    self._revoked = True
        self._new = [spot for spot in self._order if self.owner[spot] < 0]
        self._ring = Ring(load, scene.id_rank)
        self._movements = Movements()
        self._fixed: set[int] = set()
        self._ghosts: set[int] = set()
        self._foreign = False  # somebody was given what it does not subscribe to
        if not load:
            what = "the sticky assignor needs at least one member (its ring is empty)"
            raise PeerRefusal(what, "TypeError" if swaps else "ValueError")
        self._empty_before = self._ring.highest == 0

    def fill(self) -> None:
        """What nobody owns goes to the first of the ring that subscribes."""
        for spot in self._new:
            member = self._first(self._scene.topic_of[spot])
            self.owner[spot] = member
            self._ring.put(member, self._ring.load[member] + 1)

    def narrow_down(self) -> None:
        """Leave out partitions with one subscriber, and members that have all they can have."""
        scene = self._scene
        shared = [len(audience) >= 2 for audience in scene.audience]
        self._order = [s for s in self._order if shared[scene.topic_of[s]]]
        self._new = [s for s in self._new if shared[scene.topic_of[s]]]
        for member, topics in enumerate(scene.subscribed):
            if self._ring.load[member] >= self._most[member] and not any(shared[k] for k in topics):
                self._ring.remove(member)
                self._fixed.add(member)

    def improve(self) -> None:
        """Move partitions while that evens loads out; take it all back if it did not help."""
        owner, score = list(self.owner), self._score()
        if not self._revoked:
            self._go_through(self._new)
        moved = self._go_through(self._order)
        if not self._empty_before and moved and self._score() >= score:
            self.owner = owner

    def _go_through(self, spots: Sequence[int]) -> bool:
        """Again and again until nothing moves; whether anything did."""
        seen = set()
        moved = False
        while self._one_pass(spots):
            moved = True
            state = (tuple(self.owner), self._movements.state())
            if state in seen:
                what = "the class exchanges partitions for ever on this problem"
                raise PeerRefusal(what, "hangs")
            seen.add(state)
        return moved

    def _one_pass(self, spots: Sequence[int]) -> bool:
        ring, moved = self._ring, False
        for spot in spots:
            if ring.lowest >= ring.highest - 1:
                break
            topic, holder = self._scene.topic_of[spot], self.owner[spot]
            target = self._previous.get(spot, -1)
            if target in self._fixed:
                if self._is_balanced():
                    break
                self._ghosts.add(target)
                if ring.load[holder] > 1:
                    raise PeerRefusal(
                        "a partition is to go back to a member that is out of the game (KeyError)",
                        "KeyError",
                    )
                target = -1
            elif target >= 0 and ring.load[holder] <= ring.load[target] + 1:
                target = -1
            if target < 0:
                target = self._first(topic)
                if target < 0 or ring.load[holder] <= ring.load[target] + 1:
                    continue
            foreign = topic not in self._may_have[target]
            # Kafka's test for balance is true only where nothing could move anyway, unless
            # somebody has, or is about to get, what it does not subscribe to.
            if (foreign or self._foreign) and self._is_balanced():
                break
            self._foreign |= foreign
            self._reassign(spot, topic, target)
            moved = True
        return moved

    def _first(self, topic: int) -> int:
        may_have = self._may_have
        return self._ring.first(lambda m: topic in may_have[m])

    def _reassign(self, spot: int, topic: int, target: int) -> None:
        holder = self.owner[spot]
        other = self._movements.instead(spot, topic, holder, target)
        if self._swaps and self.owner[other] != holder:
            self._move(spot, topic, self.owner[other])
        self._move(other, topic, target)

    def _move(self, spot: int, topic: int, target: int) -> None:
        holder = self.owner[spot]
        self._movements.moved(spot, topic, holder, target)
        self.owner[spot] = target
        self._ring.put(holder, self._ring.load[holder] - 1)
        self._ring.put(target, self._ring.load[target] + 1)

    def _is_balanced(self) -> bool:
        """Nobody could get one more from a member that has more."""
        ring, scene = self._ring, self._scene
        if ring.lowest >= ring.highest - 1:
            return True
        for member in ring:
            load = ring.load[member]
            if load == self._most[member]:
                continue
            for k in self._may_have[member]:
                for spot in range(scene.start[k], scene.start[k + 1]):
                    if load < ring.load[self.owner[spot]]:
                        return False
        return True

    def _score(self) -> int:
        """Sum of the differences of all pairs' loads; a ghost counts as a member with nothing."""
        loads = sorted([*(self._ring.load[m] for m in self._ring), *(0 for _ in self._ghosts)])
        last = len(loads) - 1
        return sum((2 * i - last) * load for i, load in enumerate(loads))
