"""The algorithm for subscriptions that differ: fill, then move while that evens out loads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.groups.ordering import string_hashes
from partage.groups.sticky.claims import Claimed, Owned
from partage.groups.sticky.decision import Decision, by_member
from partage.groups.sticky.general_problem import Table, fixed_members, laid, null_pointer
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
    go_through,
)
from partage.groups.sticky.problem import Scene, numbered
from partage.groups.sticky.quirks.member_lists import Listed
from partage.groups.sticky.racks import Racks
from partage.model.index import Int32Array
from partage.model.repeated_state import EndlessLoop, RepeatedState

__all__ = ["Balancing", "Ring", "general"]


def general(
    scene: Scene, claimed: Claimed, owned: Owned, racks: Racks, max_generation: int
) -> Decision:
    """Kafka's ``GeneralAssignmentBuilder``.

    Raises:
        JavaRefusal: claims of partitions that a member may not own led the class to an error.
    """
    table = laid(scene, claimed, owned, racks, max_generation)
    regular = scene.counted and not (table.spot >= claimed.spots.real).any()
    if not regular:
        decision = Listed(table).decide()
        return decision if decision.loop is None else Listed(table, watch=True).decide()
    return _decided(table)


def _decided(table: Table) -> Decision:
    """Run the algorithm; where its class never returns, run it again to find its best plan.

    Watching each move costs time, and problems without a loop need none of it.
    """
    balancing = Balancing(table)
    balancing.fill()
    balancing.even_out()
    if balancing.loop is not None:
        balancing = Balancing(table)
        balancing.fill()
        balancing.even_out(watch=True)
    owner, seq = balancing.owner, balancing.seq
    given = np.flatnonzero(owner >= 0)
    given = given[np.argsort(seq[given], kind="stable")]
    start, order = by_member(table.scene.members, owner[given])
    return Decision(start, given[order].astype(np.int32), table.claimed.spots, loop=balancing.loop)


class Balancing:
    """One run: `fill`, then `even_out`.

    Attributes:
        owner: int32[S], who has each spot, -1 for nobody.
        seq: int32[S], order numbers: a member's list is its spots by these.
        size: int64[M], how many each member has.
        loop: the endless loop of Kafka's class, None where it returns.
    """

    def __init__(self, table: Table) -> None:
        spots, members = table.claimed.spots.count, table.scene.members
        self._table = table
        self.owner: Int32Array = np.full(spots, -1, np.int32)
        self.seq: Int32Array = np.zeros(spots, np.int32)
        self.owner[table.spot] = table.member
        self.seq[table.spot] = np.arange(len(table.spot), dtype=np.int32)
        self.size: NDArray[np.int64] = np.bincount(table.member, minlength=members).astype(np.int64)
        self._ring = Ring(table, self.size)
        self._fresh = not len(table.spot)
        self._state = np.zeros(8, np.int64)
        self._state[CLOCK] = len(table.spot)
        self._net = np.full((5, 1), -1, np.int32)
        self._sets = np.full((SET_ROWS, 1), -1, np.int32)
        self._hash = np.zeros(1, np.int64)
        self._fixed = np.zeros(members, bool)
        self._best: _Best
        self.loop: EndlessLoop | None = None

    def fill(self) -> None:
        """Every free spot to the member that has least and subscribes, on its rack if it can."""
        free = self._table.free
        if self._table.racks.active:
            self._pass(free, racks=True, filling=True)
            free = free[self.owner[free] < 0]
        self._pass(free, filling=True)

    def even_out(self, *, watch: bool = False) -> None:
        """Move single partitions from members with more to members with fewer.

        Where Kafka's class repeats its passes for ever, `loop` is set. The plan is then the best
        valid one after any move if each move is watched, else any one.

        Args:
            watch: whether to compare the plan after each move with the best one so far.
        """
        table, spots = self._table, self._table.claimed.spots
        if self._level(self.size):
            return
        held = np.flatnonzero(self.owner >= 0).astype(np.int32)
        self._fixed = fixed_members(table, self.size, self.owner[held], held)
        if self._fixed.all() or self._level(self.size[~self._fixed]):
            return
        self._ready_for_movements()
        owner, seq, size = self.owner.copy(), self.seq.copy(), self.size.copy()
        self._best = _Best(owner.copy(), seq.copy(), self._score(size))
        self._state[ONE_MOVE] = watch
        shared = table.audience.shared
        moved = False
        if not table.revoked:
            self._improve(table.free[shared[spots.topic[table.free]]])
        if self.loop is None:
            moved = self._improve(table.every[shared[spots.topic[table.every]]])
        if self.loop is not None:
            self._best.restore(self.owner, self.seq, self.size)
        elif not self._fresh and moved and self._score(self.size) >= self._score(size):
            self.owner, self.seq, self.size = owner, seq, size

    def _improve(self, spots: Int32Array) -> bool:
        """Repeat passes until one moves nothing or the state repeats; return whether any moved."""
        moved_at_all, repeated = False, RepeatedState()
        while self._pass(spots):
            moved_at_all = True
            if repeated.matches(self._snapshot()):
                self.loop = self._endless(spots, repeated)
                break
        return moved_at_all

    def _snapshot(self) -> tuple[bytes | int, ...]:
        """Return everything that decides the next passes, and nothing else.

        These are the owners (sizes and the ring follow from them), the recorded movements, and
        for each set of movements its order and the size of its Java table.
        """
        net = self._net
        at = np.flatnonzero(net[TO] >= 0)
        table_size = self._sets[TABLE, net[SET, at]]
        return (
            self.owner.tobytes(), int(self._state[TAINTED]), at.tobytes(),
            net[FROM, at].tobytes(), net[TO, at].tobytes(), net[PREV, at].tobytes(),
            table_size.tobytes(),
        )  # fmt: skip

    def _endless(self, spots: Int32Array, repeated: RepeatedState) -> EndlessLoop:
        """Return the loop; one more period shows what moves in it."""
        begin = self._state[CLOCK]
        for _ in range(repeated.length):
            self._pass(spots)
        moving = np.flatnonzero(self.seq >= begin)
        names = self._table.names(moving[np.argsort(self._table.claimed.spots.keys[moving])])
        return EndlessLoop(repeated.passes, repeated.length, names)

    def _pass(self, spots: Int32Array, *, filling: bool = False, racks: bool = False) -> bool:
        """Go through the partitions once; return whether any moved."""
        ring, table, state = self._ring, self._table, self._state
        state[MOVES] = state[CHECK] = 0
        at, work, moves = 0, len(spots) * ring.depth, 0
        while at < len(spots):
            at = int(go_through(
                spots, at, filling, racks, state, table.claimed.spots.topic, self.owner, self.seq,
                self.size, table.previous, self._fixed, ring.cell_start, ring.cell,
                ring.cell_rack, table.racks.start, table.racks.rack, ring.cell_of, ring.base,
                ring.leaf, ring.tree, ring.rank, ring.by_rank, ring.stamp,
                self._net, self._sets, self._hash, table.claimed.spots.number,
                work=work,
            ))  # fmt: skip
            if state[ONE_MOVE] and state[MOVES] > moves:
                moves = int(state[MOVES])
                self._watch(int(state[MOVED]))
            if state[CHECK] == 1:
                if self._balanced():
                    break
                self._no_null_pointer(int(spots[at]))
                state[CHECK] = 2  # looked at: this one may move
        return bool(state[MOVES])

    def _watch(self, spot: int) -> None:
        """Note a move, and whether the plan is the best valid one from here on."""
        self._best.note(spot, int(self.owner[spot]), int(self.seq[spot]))
        score = self._score(self.size)
        if score < self._best.score and self._is_valid():
            self._best.is_now(score)

    def _is_valid(self) -> bool:
        """Return whether each owner subscribes; only returns to previous owners can break that."""
        if not self._state[TAINTED]:
            return True
        held = np.flatnonzero(self.owner >= 0)
        topic = self._table.claimed.spots.topic[held]
        return bool(self._table.audience.subscribed(self.owner[held], topic).all())

    def _no_null_pointer(self, spot: int) -> None:
        previous = self._table.previous[spot]
        if previous >= 0 and self._fixed[previous]:
            raise null_pointer(self._table, spot)

    @staticmethod
    def _level(size: NDArray[np.int64]) -> bool:
        return bool(size.max(initial=0) - size.min(initial=1 << 40) <= 1)

    def _balanced(self) -> bool:
        """Kafka's test whether nobody could get more. The steps ask only where it matters.

        A spot that is about to move from c to a subscriber o shows that o could get more, so
        the test need not be made, unless o is at what Kafka thinks is its maximum without
        having all its partitions. That takes a partition it does not subscribe to, which
        only the return to a previous owner brings about.
        """
        table, ring = self._table, ~self._fixed
        if self._level(self.size[ring]):
            return True
        audience, scene = table.audience, table.scene
        holder = self.owner[: scene.partitions]  # foreign spots have none, and lie behind
        most_on_topic = np.maximum.reduceat(self.size[holder], scene.start[:-1])
        may_grow = ring & (self.size != audience.most)
        least = np.full(len(audience.listed), 1 << 40, np.int64)
        np.minimum.at(least, audience.of_member[may_grow], self.size[may_grow])
        per_entry = np.repeat(least, np.diff(audience.start))
        return not (most_on_topic[audience.topic] > per_entry + 1).any()

    def _score(self, size: NDArray[np.int64]) -> int:
        """Sum of differences over all pairs of members."""
        sizes = np.sort(size[~self._fixed])
        return int(((2 * np.arange(len(sizes)) - len(sizes) + 1) * sizes).sum())

    def _ready_for_movements(self) -> None:
        spots = self._table.claimed.spots
        scene = self._table.scene
        self._net = np.full((5, spots.count), -1, np.int32)
        # Every set has a spot of its own, and every topic a place for its first set.
        width = max(spots.count, len(scene.topics))
        self._sets = np.full((SET_ROWS, width), -1, np.int32)
        self._sets[UNUSED] = np.arange(width)
        names = [scene.problem.index.topics[t] for t in scene.topics.tolist()]
        self._hash = np.array(string_hashes(names), np.int64)


class _Best:
    """The best plan so far, as the moves that lead back to it.

    Args:
        owner, seq: see `Balancing`, before the first move; they are changed.
        score: Kafka's balance score of it.
    """

    def __init__(self, owner: Int32Array, seq: Int32Array, score: int) -> None:
        self.score = score
        self._owner, self._seq = owner, seq
        self._moves: list[tuple[int, int, int]] = []

    def note(self, spot: int, owner: int, seq: int) -> None:
        """Note that a partition has moved, with its new owner and order number."""
        self._moves.append((spot, int(self._owner[spot]), int(self._seq[spot])))
        self._owner[spot], self._seq[spot] = owner, seq

    def is_now(self, score: int) -> None:
        """Take the present plan for the best one."""
        self.score = score
        self._moves.clear()

    def restore(self, owner: Int32Array, seq: Int32Array, size: NDArray[np.int64]) -> None:
        """Undo in place all moves since the best plan."""
        for spot, its_owner, its_seq in reversed(self._moves):
            size[owner[spot]] -= 1
            size[its_owner] += 1
            owner[spot], seq[spot] = its_owner, its_seq


class Ring:
    """A tournament tree a cell: its root is the member that comes first in Kafka's tree set.

    A member's key is ``size * members + rank of its id``. Cell ``c`` has the tree from
    ``base[c]`` on, root at offset 1, children of ``i`` at ``2i`` and ``2i + 1``.

    Attributes:
        cell_of: int32[M]; leaf: int32[M], offset of a member's leaf in its tree.
        base: int64[C]; tree: int64, all trees.
        cell_start, cell: the cells that subscribe to each topic (CSR by topic).
        cell_rack: int32[C], -1 for members without rack.
        rank, by_rank: int32[M], Java's order of ids and its inverse.
        stamp: int32[C], scratch: the topic for which a cell was last seen.
        depth: steps that one change costs, about.
    """

    def __init__(self, table: Table, size: NDArray[np.int64]) -> None:
        audience, members = table.audience, table.scene.members
        self.rank: Int32Array = table.scene.problem.group.member_rank
        self.by_rank = np.argsort(self.rank).astype(np.int32)
        racks = table.racks.of_member if table.racks.active else np.full(members, -1, np.int32)
        pair = audience.of_member.astype(np.int64) << 32 | (racks.astype(np.int64) + 2)
        kinds, cell_of = numbered(pair)
        self.cell_of: Int32Array = cell_of
        self.cell_rack = ((kinds & 0xFFFFFFFF) - 2).astype(np.int32)
        self._trees(size, members)
        self._cells_of_topics(table, (kinds >> 32).astype(np.int32))
        self.stamp = np.full(len(kinds), -1, np.int32)
        self.depth = 10 + int(members).bit_length()

    def _trees(self, size: NDArray[np.int64], members: int) -> None:
        count = np.bincount(self.cell_of)
        width = np.array([1 << max(int(n) - 1, 0).bit_length() for n in count], np.int64)
        ends = np.cumsum(2 * width)
        self.base = ends - 2 * width
        order = np.lexsort((self.rank, self.cell_of))
        nth = np.arange(members) - np.repeat(np.cumsum(count) - count, count)
        self.leaf = np.empty(members, np.int32)
        self.leaf[order] = (np.repeat(width, count) + nth).astype(np.int32)
        self.tree = np.full(int(ends[-1]), np.iinfo(np.int64).max, np.int64)
        self.tree[self.base[self.cell_of] + self.leaf] = size * members + self.rank
        for base, wide in zip(self.base.tolist(), width.tolist(), strict=True):
            level = wide
            while level > 1:
                row = self.tree[base + level : base + 2 * level]
                level //= 2
                self.tree[base + level : base + 2 * level] = np.minimum(row[::2], row[1::2])

    def _cells_of_topics(self, table: Table, subscription: Int32Array) -> None:
        audience = table.audience
        sizes = np.diff(audience.start)[subscription]
        ends = np.cumsum(sizes)
        at = np.arange(ends[-1]) + np.repeat(audience.start[subscription] - (ends - sizes), sizes)
        topic = audience.topic[at]
        cell = np.repeat(np.arange(len(subscription), dtype=np.int32), sizes)
        order = np.argsort(topic, kind="stable")
        topics = len(table.scene.topics)
        self.cell_start = np.searchsorted(topic[order], np.arange(topics + 1)).astype(np.int32)
        self.cell: Int32Array = cell[order]
