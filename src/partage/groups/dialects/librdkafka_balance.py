"""The sticky algorithm of librdkafka: Kafka's general one of 2.4, with racks (KIP-881)."""

from __future__ import annotations

from collections.abc import Sequence

from partage.groups.dialects.librdkafka_claims import Owned
from partage.groups.dialects.librdkafka_movements import LibrdkafkaMovements, crash
from partage.groups.dialects.librdkafka_scene import LibrdkafkaScene
from partage.groups.dialects.python_claims import Believed
from partage.groups.dialects.python_order import in_turns
from partage.groups.dialects.refusals import PeerRefusal
from partage.groups.dialects.ring import Ring

__all__ = ["balanced"]


def balanced(scene: LibrdkafkaScene) -> list[list[int]]:
    """By member its spots, in the library's order; a spot may be in two lists.

    Raises:
        PeerRefusal: the library would crash, never end, or do what nobody can tell.
    """
    run = _Run(scene, Owned.of(scene))
    run.fill()
    run.narrow_down()
    run.improve()
    return run.lists


class _Run:
    """One run.

    Attributes:
        lists: by member its spots.
    """

    def __init__(self, scene: LibrdkafkaScene, owned: Owned) -> None:
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
        if not self._revoked:
            self._go_through(self._new)
        moved = self._go_through(self._order)
        if not self._empty_before and moved and self._score() >= score:
            self.lists = before

    def _go_through(self, spots: Sequence[int]) -> bool:
        seen = set()
        moved = False
        while self._one_pass(spots):
            moved = True
            lists = tuple(tuple(mine) for mine in self.lists)
            state = (lists, frozenset(self._holder.items()), self._movements.state())
            if state in seen:
                raise PeerRefusal("the library never ends on this problem", "hangs")
            seen.add(state)
        return moved

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
            moved = True
        return moved

    def _move(self, spot: int, topic: int, target: int) -> None:
        moving, source = self._movements.move(spot, topic, self._holder, target)
        # What moves in place of another may be with somebody else by now.
        self._odd |= self._holder[moving] != source
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
