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
from partage.model.repeated_state import EndlessLoop, RepeatedState

__all__ = ["Balancing", "balanced"]


def balanced(
    scene: PeerScene, claims: Sequence[Claims], *, swaps: bool
) -> tuple[list[list[int]], EndlessLoop | None]:
    """Return the partitions of each member, by topic and number, and the loop of the class.

    Where the class never returns, these are the best valid plan after any of its moves.

    Args:
        scene: the problem.
        claims: by member what it says it owned.
        swaps: kafka-python's cure for endless exchanges, see `Balancing`.

    Raises:
        PeerRefusal: the class raises.
    """
    believed = Believed.of(scene, claims)
    run = Balancing(scene, believed, swaps=swaps).finish()
    if run.loop is not None:
        run = Balancing(scene, believed, swaps=swaps, watch=True).finish()
    lists: list[list[int]] = [[] for _ in scene.problem.group]
    for spot, owner in enumerate(run.owner):
        lists[owner].append(spot)
    return lists, run.loop


class Balancing:
    """One run.

    Args:
        scene: the problem.
        believed: who owned what.
        swaps: when a partition that went the other way is to move instead, and is with
            somebody else by now, first undo the move of the one at hand (kafka-python 3.0).
            Without, its owner never gets rid of it: the class may exchange for ever.
        watch: whether to compare the plan after each move with the best one so far, which is the
            result where the class never returns.

    Attributes:
        owner: by spot its member, -1 for nobody.
        loop: the endless loop of the class, None where it returns.
    """

    def __init__(
        self, scene: PeerScene, believed: Believed, *, swaps: bool, watch: bool = False
    ) -> None:
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
        self.loop: EndlessLoop | None = None
        self._moving: set[int] = set()
        self._watches = watch
        self._best: list[int] = []
        self._best_score = 0

    def finish(self) -> Balancing:
        """Run all steps; return itself."""
        self.fill()
        self.narrow_down()
        self.improve()
        return self

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
        self._best, self._best_score, moved = owner, score, False
        if not self._revoked:
            self._go_through(self._new)
        if self.loop is None:
            moved = self._go_through(self._order)
        if self.loop is not None:
            self.owner = self._best
        elif not self._empty_before and moved and self._score() >= score:
            self.owner = owner

    def _go_through(self, spots: Sequence[int]) -> bool:
        """Repeat passes until one moves nothing or the state repeats; return whether any moved."""
        moved, repeated = False, RepeatedState()
        while self._one_pass(spots):
            moved = True
            if repeated.matches(self._snapshot()):
                self.loop = self._endless(spots, repeated)
                break
        return moved

    def _watch(self) -> None:
        """Store the plan if it is valid and more even than the best one so far."""
        score = self._score()
        if score < self._best_score and self._is_valid():
            self._best, self._best_score = list(self.owner), score

    def _is_valid(self) -> bool:
        """Return whether each owner subscribes; only returns to previous owners can break that."""
        topic_of, may_have = self._scene.topic_of, self._may_have
        return not self._foreign or all(
            topic_of[spot] in may_have[owner] for spot, owner in enumerate(self.owner) if owner >= 0
        )

    def _snapshot(self) -> tuple[object, ...]:
        """Return everything that decides the next passes; the ring follows from the owners."""
        return tuple(self.owner), self._movements.state(), self._foreign, frozenset(self._ghosts)

    def _endless(self, spots: Sequence[int], repeated: RepeatedState) -> EndlessLoop:
        """Return the loop; one more period shows what moves in it."""
        self._moving = set()
        for _ in range(repeated.length):
            self._one_pass(spots)
        names = tuple(map(self._scene.name, sorted(self._moving)))
        return EndlessLoop(repeated.passes, repeated.length, names)

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
            if self._watches:
                self._watch()
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
        self._moving.add(spot)
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
