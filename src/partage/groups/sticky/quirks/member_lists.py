"""The general algorithm on plain lists, as Kafka runs it.

`balancing` is many times faster and equal, but holds that every partition has one owner.
Claims of partitions that do not exist break that: members keep them, and Kafka then hands out
some partitions twice (Q26). Such problems, and clusters whose partition numbers have holes,
come here.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

import numpy as np

from partage.groups.sticky.decision import Decision, JavaRefusal
from partage.groups.sticky.general_problem import Table, null_pointer
from partage.groups.sticky.quirks.movements import Movements
from partage.groups.sticky.quirks.owner_map import WalkedOwners
from partage.model.repeated_state import EndlessLoop, RepeatedState

__all__ = ["Listed"]


class Listed:
    """One run; `decide` returns the decision.

    Args:
        table: what the algorithm starts from.
        watch: whether to compare the plan after each move with the best one so far, which is the
            decision where Kafka's class never returns.
    """

    def __init__(self, table: Table, *, watch: bool = False) -> None:
        scene, audience, spots = table.scene, table.audience, table.claimed.spots
        self._table = table
        self._spots = spots
        self._topic = spots.topic.tolist()
        self._rank = scene.problem.group.member_rank.tolist()
        self._most = audience.most.tolist()
        self._class = audience.of_member.tolist()
        self._listed = [one.tolist() for one in audience.listed]
        self._wanted = [set(one) for one in self._listed]
        self._shared = audience.shared.tolist()
        self._previous: list[int] = table.previous.tolist()
        self._walk: list[list[int]] = [[] for _ in range(len(scene.topics))]
        for s in spots.walk.tolist():
            self._walk[self._topic[s]].append(s)
        self._racks = [
            set(table.racks.rack[a:b].tolist())
            for a, b in zip(table.racks.start[:-1], table.racks.start[1:], strict=True)
        ]
        self._rack = table.racks.of_member.tolist()
        self._subscribers = [
            [m for m in scene.visit for t in self._listed[self._class[m]] if t == k]
            for k in range(len(scene.topics))
        ]
        self._owners = WalkedOwners(scene)
        self.have: dict[int, list[int]] = {m: [] for m in self._owners.order}
        self._holder: dict[int, int] = {}
        for m, s in zip(table.member.tolist(), table.spot.tolist(), strict=True):
            self.have[m].append(s)
            self._holder[s] = m
        self._ring = sorted((len(mine), self._rank[m], m) for m, mine in self.have.items())
        hashes = scene.problem.index.topics
        names = [hashes[t] for t in scene.topics.tolist()]
        self._watches = watch
        self._best: dict[int, list[int]] = {}
        self._loop: EndlessLoop | None = None
        self._movements = Movements(names, self._topic, spots.number.tolist())

    def decide(self) -> Decision:
        """Fill, even out, and write down."""
        fresh = self._ring[-1][0] == 0
        self._fill()
        every = [s for s in self._table.every.tolist() if self._shared[self._topic[s]]]
        free = [s for s in self._table.free.tolist() if self._shared[self._topic[s]]]
        fixed = {m: mine for m, mine in self.have.items() if self._is_fixed(m)}
        for m in fixed:
            self._leave_ring(m)
            del self.have[m]
        self._owners.set_aside(fixed)
        before = self._best = self._copy()
        moved = False
        if not self._table.revoked:
            self._improve(free)
        if self._loop is None:
            moved = self._improve(every)
        if self._loop is not None:
            self.have = self._best
        elif not fresh and moved and self._score(self.have) >= self._score(before):
            self.have = before
            self._owners.undo()
        self._owners.put_back()
        lists = {**self.have, **fixed}
        start = np.zeros(len(lists) + 1, np.int32)
        np.cumsum([len(lists[m]) for m in range(len(lists))], out=start[1:])
        spot = np.array([s for m in range(len(lists)) for s in lists[m]], np.int32)
        return Decision(start, spot, self._spots, walked=self._owners.order, loop=self._loop)

    def _fill(self) -> None:
        waiting = self._table.free.tolist()
        if self._table.racks.active:
            waiting = [s for s in waiting if not self._give(s, by_rack=True)]
        for s in waiting:
            self._give(s, by_rack=False)

    def _give(self, spot: int, *, by_rack: bool) -> bool:
        for m in self._in_ring(self._topic[spot]):
            rack = self._rack[m]
            if by_rack and rack != -1 and rack not in self._racks[spot]:
                continue
            self._leave_ring(m)
            self.have[m].append(spot)
            self._holder[spot] = m
            self._join_ring(m)
            return True
        return False

    def _improve(self, spots: list[int]) -> bool:
        """Repeat passes until one moves nothing or the state repeats; return whether any moved."""
        moved_at_all, repeated = False, RepeatedState()
        while self._pass(spots):
            moved_at_all = True
            if repeated.matches(self._snapshot()):
                self._loop = self._endless(spots, repeated)
                break
        return moved_at_all

    def _pass(self, spots: list[int]) -> list[int]:
        """Go through the partitions once; return those that moved."""
        moved = []
        for spot in spots:
            if self._balanced():
                break
            target = self._better(spot)
            if target is not None:
                moved.append(self._move(spot, target))
                if self._watches and self._is_better():
                    self._best = self._copy()
        return moved

    def _copy(self) -> dict[int, list[int]]:
        return {m: list(mine) for m, mine in self.have.items()}

    def _is_better(self) -> bool:
        """Return whether the plan is valid and more even than the best one so far."""
        return self._score(self.have) < self._score(self._best) and self._is_valid()

    def _is_valid(self) -> bool:
        """Return whether each owner subscribes and no partition has two owners."""
        held = [spot for mine in self.have.values() for spot in mine]
        return len(held) == len(set(held)) and all(
            self._topic[spot] in self._wanted[self._class[m]]
            for m, mine in self.have.items()
            for spot in mine
        )

    def _snapshot(self) -> object:
        """Return everything that decides the next passes, and nothing else."""
        lists = {m: sorted(mine) for m, mine in self.have.items()}
        return lists, dict(self._holder), list(self._ring), self._movements.state()

    def _endless(self, spots: list[int], repeated: RepeatedState) -> EndlessLoop:
        """Return the loop; one more period shows what moves in it."""
        moving = {spot for _ in range(repeated.length) for spot in self._pass(spots)}
        keys = self._spots.keys
        names = self._table.names(np.array(sorted(moving, key=lambda spot: int(keys[spot]))))
        return EndlessLoop(repeated.passes, repeated.length, names)

    def _better(self, spot: int) -> int | None:
        holder = self._holder.get(spot)
        if holder is None:
            raise self._null(spot)
        size = len(self.have[holder])
        previous = self._previous[spot]
        if previous >= 0:
            if previous not in self.have:
                raise self._null(spot)
            if size > len(self.have[previous]) + 1:
                return previous
        for m in self._subscribers[self._topic[spot]]:
            if m not in self.have:
                raise self._null(spot)
            if size > len(self.have[m]) + 1:
                return next(self._in_ring(self._topic[spot]))
        return None

    def _move(self, spot: int, target: int) -> int:
        """Move the partition that Kafka picks for ``spot``; return it."""
        spot = self._movements.actual(spot, self._holder[spot], target)
        holder = self._holder[spot]
        self._leave_ring(holder)
        self._leave_ring(target)
        self._movements.record(spot, holder, target)
        if spot in self.have[holder]:
            self.have[holder].remove(spot)
        self.have[target].append(spot)
        self._holder[spot] = target
        self._join_ring(target)
        self._join_ring(holder)
        return spot

    def _balanced(self) -> bool:
        if not self._ring:
            what = "every member has all it can get, and still there is something to move"
            raise JavaRefusal(what, "NoSuchElementException")
        if self._ring[0][0] >= self._ring[-1][0] - 1:
            return True
        holder = {s: m for m in self._owners.order for s in self.have[m]}
        for size, _, m in self._ring:
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
        mine = self.have[m]
        return len(mine) >= self._most[m] and not any(self._shared[self._topic[s]] for s in mine)

    def _in_ring(self, topic: int) -> Iterator[int]:
        return (m for _, _, m in self._ring if topic in self._wanted[self._class[m]])

    def _leave_ring(self, m: int) -> None:
        entry = (len(self.have[m]), self._rank[m], m)
        at = bisect_left(self._ring, entry)
        if at < len(self._ring) and self._ring[at] == entry:
            del self._ring[at]

    def _join_ring(self, m: int) -> None:
        entry = (len(self.have[m]), self._rank[m], m)
        if entry not in self._ring:
            insort(self._ring, entry)

    @staticmethod
    def _score(lists: dict[int, list[int]]) -> int:
        sizes = np.sort(np.array([len(mine) for mine in lists.values()], np.int64))
        weights = 2 * np.arange(len(sizes)) - len(sizes) + 1
        return int((weights * sizes).sum())

    def _null(self, spot: int) -> JavaRefusal:
        return null_pointer(self._table, spot)
