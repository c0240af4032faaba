"""The sticky algorithm of librdkafka: Kafka's general one of 2.4, with racks (KIP-881)."""

from __future__ import annotations

from collections.abc import Sequence

from partage.groups.dialects.librdkafka_claims import Owned
from partage.groups.dialects.librdkafka_movements import LibrdkafkaMovements, crash
from partage.groups.dialects.librdkafka_scene import LibrdkafkaScene
from partage.groups.dialects.python_claims import Believed
from partage.groups.dialects.python_order import in_turns
from partage.groups.dialects.ring import Ring
from partage.model.repeated_state import EndlessLoop, RepeatedState

__all__ = ["balanced"]


def balanced(scene: LibrdkafkaScene) -> tuple[list[list[int]], EndlessLoop | None]:
    """Return each member's partitions in the library's order, and the loop of the library.

    A partition may be in two lists. Where the library never returns, these are the best valid
    plan after any of its moves.

    Raises:
        PeerRefusal: the library would crash, or its behaviour is undefined.
    """
    run = _Run(scene, Owned.of(scene)).finish()
    if run.loop is not None:
        run = _Run(scene, Owned.of(scene), watch=True).finish()
    return run.lists, run.loop


class _Run:
    """One run.

    Args:
        scene: the problem.
        owned: the outcome of all claims; it is changed.
        watch: whether to compare the plan after each move with the best one so far, which is the
            result where the library never returns.

    Attributes:
        lists: by member its spots.
        loop: the endless loop of the library, None where it returns.
    """

    def __init__(self, scene: LibrdkafkaScene, owned: Owned, *, watch: bool = False) -> None:
        self._scene, self._previous, self._holder = scene, owned.previous, owned.holder
        self._may_have = [set(topics) for topics in scene.subscribed]
        counts = [b - a for a, b in zip(scene.start, scene.start[1:], strict=False)]
        self._most = [sum(counts[k] for k in topics) for topics in scene.subscribed]
        self._racks = scene.racks_matter(
            # Metadata has the topics that do not exist too, so all members count.
            range(len(scene.topics)),
            range(len(scene.problem.group)),
        )
        self._order = self._in_order(owned)
        self.lists, self._revoked = self._kept(owned)
        kept = {spot for mine in self.lists for spot in mine}
        self._new = [spot for spot in self._order if spot not in kept]
        self._ring = Ring([len(mine) for mine in self.lists], scene.id_rank)
        self._movements = LibrdkafkaMovements()
        self._fixed: set[int] = set()
        self._empty_before = not kept
        self.loop: EndlessLoop | None = None
        self._moving: set[int] = set()
        self._watches = watch
        self._best: list[list[int]] = []
        self._best_score = 0
        # Where holder and lists disagree nothing can be taken for granted.
        holds = {spot: m for m, mine in enumerate(self.lists) for spot in mine}
        self._odd = any(holds[spot] != self._holder[spot] for spot in kept)

    def _in_order(self, owned: Owned) -> list[int]:
        """All spots; what is owned first where subscriptions are equal, see `in_turns`."""
        scene, topic_of = self._scene, self._scene.topic_of
        alike = all(one == scene.audience[0] for one in scene.audience)
        if not alike or any(one != self._may_have[0] for one in self._may_have):
            return sorted(range(len(topic_of)), key=lambda s: len(scene.audience[topic_of[s]]))
        for mine in owned.lists:
            mine.sort()
        # It takes the first of a list where the Python clients take the last.
        backwards = [mine[::-1] for mine in owned.lists]
        out = in_turns(scene, Believed(backwards, owned.previous, fresh=False))
        if not out:
            return list(range(len(topic_of)))
        done = set(out)
        for k in reversed(scene.asked):
            spots = range(scene.start[k + 1] - 1, scene.start[k] - 1, -1)
            out += [spot for spot in spots if spot not in done]
        return out

    def _kept(self, owned: Owned) -> tuple[list[list[int]], bool]:
        """What members may keep, and whether somebody must give up what is still there."""
        out = [[s for s in mine if self._may_keep(m, s)] for m, mine in enumerate(owned.lists)]
        return out, sum(map(len, out)) < sum(map(len, owned.lists))

    def _may_keep(self, member: int, spot: int) -> bool:
        return self._scene.topic_of[spot] in self._may_have[member] and self._rack_fits(
            member, spot
        )

    def _rack_fits(self, member: int, spot: int) -> bool:
        """A member's rack is none (null, as Java sends it), or one of the replicas'.

        The empty rack, which members without one of this library send, fits nothing.
        """
        rack = self._scene.problem.group[member].rack
        return not self._racks or rack is None or rack in self._scene.racks[spot]

    def finish(self) -> _Run:
        """Run all steps; return itself."""
        self.fill()
        self.narrow_down()
        self.improve()
        return self

    def fill(self) -> None:
        """What nobody owns to the first of the ring that subscribes, by rack before all."""
        rest = self._new
        if self._racks:
            rest = [spot for spot in self._new if not self._fill(spot, by_rack=True)]
        for spot in rest:
            self._fill(spot, by_rack=False)

    def _fill(self, spot: int, *, by_rack: bool) -> bool:
        topic, may_have = self._scene.topic_of[spot], self._may_have
        member = self._ring.first(
            lambda m: topic in may_have[m] and (not by_rack or self._rack_fits(m, spot))
        )
        if member < 0:
            return False
        self._give(member, spot)
        return True

    def _give(self, member: int, spot: int) -> None:
        self.lists[member].append(spot)
        self._holder[spot] = member
        self._ring.put(member, len(self.lists[member]))

    def narrow_down(self) -> None:
        """Leave out partitions with one subscriber, and members that have all they can have."""
        scene = self._scene
        shared = [len(audience) >= 2 for audience in scene.audience]
        self._order = [s for s in self._order if shared[scene.topic_of[s]]]
        self._new = [s for s in self._new if shared[scene.topic_of[s]]]
        for member, topics in enumerate(scene.subscribed):
            full = len(self.lists[member]) >= self._most[member]
            if full and not any(shared[k] for k in topics):
                self._ring.remove(member)
                self._fixed.add(member)

    def improve(self) -> None:
        """Move partitions while that evens loads out; take it all back if it did not help."""
        before, score = [list(mine) for mine in self.lists], self._score()
        self._best, self._best_score, moved = before, score, False
        if not self._revoked:
            self._go_through(self._new)
        if self.loop is None:
            moved = self._go_through(self._order)
        if self.loop is not None:
            self.lists = self._best
        elif not self._empty_before and moved and self._score() >= score:
            self.lists = before

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
            self._best, self._best_score = [list(mine) for mine in self.lists], score

    def _is_valid(self) -> bool:
        """Return whether each owner subscribes and no partition has two owners."""
        held = [(m, spot) for m, mine in enumerate(self.lists) for spot in mine]
        topic_of, may_have = self._scene.topic_of, self._may_have
        return len(held) == len({spot for _, spot in held}) and all(
            topic_of[spot] in may_have[m] for m, spot in held
        )

    def _snapshot(self) -> tuple[object, ...]:
        """Return everything that decides the next passes; the ring follows from the lists."""
        lists = tuple(map(tuple, self.lists))
        return lists, dict(self._holder), self._movements.state(), self._odd

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
            if ring.lowest >= ring.highest - 1 or (self._odd and self._is_balanced()):
                break
            topic, holder = self._scene.topic_of[spot], self._holder[spot]
            target = self._previous.get(spot, -1)
            if target in self._fixed or holder in self._fixed:
                if self._is_balanced():
                    break
                raise crash("asks for the load of a member that it has put aside")
            load = len(self.lists[holder])
            foreign = target >= 0 and topic not in self._may_have[target]
            if target < 0 or load <= ring.load[target] + 1:
                target, foreign = self._first(topic), False
                if target == holder or load <= ring.load[target] + 1:
                    continue
            if foreign and self._is_balanced():
                break
            self._odd |= foreign
            self._move(spot, topic, target)
            if self._watches:
                self._watch()
            moved = True
        return moved

    def _move(self, spot: int, topic: int, target: int) -> None:
        moving, source = self._movements.move(spot, topic, self._holder, target)
        # What moves in place of another may be with somebody else by now.
        self._odd |= self._holder[moving] != source
        self._moving.add(moving)
        self._give(target, moving)
        if moving in self.lists[source]:
            self.lists[source].remove(moving)
            self._ring.put(source, len(self.lists[source]))

    def _first(self, topic: int) -> int:
        may_have = self._may_have
        return self._ring.first(lambda m: topic in may_have[m])

    def _is_balanced(self) -> bool:
        """Nobody could get one more from a member that has more."""
        ring, scene = self._ring, self._scene
        if ring.lowest >= ring.highest - 1:
            return True
        owner = {}
        for member in reversed(range(len(self.lists))):
            if member not in self._fixed:
                owner.update(dict.fromkeys(self.lists[member], member))
        for member in ring:
            if ring.load[member] == self._most[member]:
                continue
            mine = set(self.lists[member])
            for k in self._may_have[member]:
                for spot in range(scene.start[k], scene.start[k + 1]):
                    if spot in mine:
                        continue
                    if spot not in owner:
                        raise crash("looks for the owner of a partition that has none")
                    if ring.load[member] < ring.load[owner[spot]]:
                        return False
        return True

    def _score(self) -> int:
        """Sum of the differences of all pairs' loads."""
        loads = sorted(self._ring.load[m] for m in self._ring)
        last = len(loads) - 1
        return sum((2 * i - last) * load for i, load in enumerate(loads))
