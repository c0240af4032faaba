"""How faust-streaming 0.15.3 deals the partitions of a group of topics (`CopartitionedAssignor`).

Every step is as there, odd ones too: who comes first is decided by loads at the start of a
phase only, the circle of candidates goes on where it stopped, and a standby of partition ``p``
is offered to the candidate ``p`` places further. A member's partitions are Python sets of small
integers, because two answers hang on them: which one `set.pop` takes, and the order of a
member's list. CPython's sets of integers know no hash seed, so these are the same everywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from partage.groups.dialects.refusals import PeerRefusal

__all__ = ["Hands", "deal"]

#: From here on a repeated state is looked for: nobody evicts that often on the way to an end.
_MANY_EVICTIONS = 1024


@dataclass(slots=True)
class Hands:
    """What a member holds of a group of topics: partition numbers, each for all of the topics.

    >>> Hands.of([0, 1], [1, 2])
    Hands(actives={0, 1}, standbys={2})
    """

    actives: set[int] = field(default_factory=set)
    standbys: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, actives: Iterable[int], standbys: Iterable[int]) -> Hands:
        """From lists as sent; an active partition needs no copy beside it."""
        made = cls(set(actives), set(standbys))
        if not made.actives.isdisjoint(made.standbys):
            made.standbys.difference_update(made.actives)
        return made


def deal(hands: Sequence[Hands], partitions: int, replicas: int) -> None:
    """Give each partition one active member and its standbys, in place.

    Args:
        hands: by member what it had, in the order in which members joined; at least one.
        partitions: how many there are, numbered from 0.
        replicas: standbys wanted of each; no more than there are other members.

    Raises:
        PeerRefusal: the class fails, or goes on for ever, on this.

    >>> hands = [Hands(), Hands(), Hands()]
    >>> deal(hands, 6, 1)
    >>> hands[0]
    Hands(actives={0, 3}, standbys={2, 5})
    """
    members = len(hands)
    replicas = min(replicas, members - 1)
    most = -(-partitions // members)
    # Without standbys everybody is cut down to the floor, so that a newcomer gets something.
    keeps = partitions // members if replicas == 0 and 0 < partitions >= members else most
    for one in hands:
        while len(one.actives) > keeps:
            one.actives.pop()
        while len(one.standbys) > keeps * replicas:
            one.standbys.pop()
    _deal_actives(hands, partitions, most)
    _deal_standbys(hands, partitions, most, replicas)


def _deal_actives(hands: Sequence[Hands], partitions: int, most: int) -> None:
    """One active member a partition: who holds its copy if one can be found, else the next."""
    missing = _missing([one.actives for one in hands], partitions, 1)
    circle = sorted(hands, key=lambda one: len(one.actives))
    holders: dict[int, list[int]] = {}
    for place, one in enumerate(circle):
        for p in one.standbys:
            holders.setdefault(p, []).append(place)
    size, at = len(circle), 0
    for p in missing:
        steps = [
            (place - at) % size
            for place in holders.get(p, ())
            if len(circle[place].actives) != most
        ]
        if steps:
            at = (at + min(steps)) % size
            circle[at].standbys.remove(p)
        else:
            at = _with_room(circle, at, most)
        circle[at].actives.add(p)
        at = (at + 1) % size


def _deal_standbys(hands: Sequence[Hands], partitions: int, most: int, replicas: int) -> None:
    """So many copies a partition; where nobody has room, somebody with a full hand makes some."""
    limit = most * replicas
    queue = deque(_missing([one.standbys for one in hands], partitions, replicas))
    circle = sorted(hands, key=lambda one: len(one.standbys))
    size, at = len(circle), 0
    watch = _Watch()
    while queue:
        p = queue.popleft()
        at = (at + p) % size
        found = _able_to_copy(circle, at, p, limit)
        if found >= 0:
            taker = circle[found]
            at = (found + 1) % size
        else:
            taker = _full_but_able(hands, p, limit)
            queue.append(_evicted(hands, taker, limit))
            watch.look(queue, at, hands)
        taker.standbys.add(p)
    if any(n != replicas for n in _counts([one.standbys for one in hands], partitions)):
        raise _fails("some partition has too many or too few standbys in the end")


def _with_room(circle: Sequence[Hands], at: int, most: int) -> int:
    """Place of the next candidate that can take another active partition."""
    for step in range(len(circle)):
        place = (at + step) % len(circle)
        if len(circle[place].actives) != most:
            return place
    raise _fails("all members have their fill before every partition has a member")


def _able_to_copy(circle: Sequence[Hands], at: int, p: int, limit: int) -> int:
    """Place of the next candidate that has room for a copy and nothing of it yet; -1 for none."""
    for step in range(len(circle)):
        place = (at + step) % len(circle)
        one = circle[place]
        if len(one.standbys) != limit and p not in one.standbys and p not in one.actives:
            return place
    return -1


def _full_but_able(hands: Sequence[Hands], p: int, limit: int) -> Hands:
    for one in hands:
        if len(one.standbys) == limit and p not in one.standbys and p not in one.actives:
            return one
    raise _fails("nobody can take another standby, full or not", "StopIteration")


def _evicted(hands: Sequence[Hands], taker: Hands, limit: int) -> int:
    """The partition that makes room: the lowest that somebody with room can take, or just that."""
    held = taker.standbys
    if not held:
        raise _fails("a member is full with nothing in its hand", "ValueError")
    roomy = [one for one in hands if one is not taker and len(one.standbys) != limit]
    for p in sorted(held):
        if any(p not in one.standbys and p not in one.actives for one in roomy):
            break
    else:
        p = min(held)
    held.remove(p)
    return p


def _missing(held: Sequence[set[int]], partitions: int, wanted: int) -> list[int]:
    """Partitions ascending, each as often as a copy is missing; of too many the first ones go."""
    counts = _counts(held, partitions)
    out = []
    for p, count in enumerate(counts):
        for _ in range(count - wanted):
            next(one for one in held if p in one).remove(p)
        out += [p] * (wanted - count)
    return out


def _counts(held: Sequence[set[int]], partitions: int) -> list[int]:
    counts = [0] * partitions
    for one in held:
        for p in one:
            # Numbers that the topic no longer has are never taken away, and count as load.
            if p < partitions:
                counts[p] += 1
    return counts


class _Watch:
    """Finds out that evictions go round and round: each state follows from the one before."""

    def __init__(self) -> None:
        self._seen = 0
        self._look_again = _MANY_EVICTIONS
        self._state: object = None

    def look(self, queue: deque[int], at: int, hands: Sequence[Hands]) -> None:
        self._seen += 1
        if self._seen < _MANY_EVICTIONS:
            return
        state = (tuple(queue), at, tuple(frozenset(one.standbys) for one in hands))
        if state == self._state:
            raise _fails("two standbys change places for ever", "hangs")
        if self._seen >= self._look_again:
            self._state, self._look_again = state, 2 * self._seen


def _fails(what: str, error: str = "AssertionError") -> PeerRefusal:
    return PeerRefusal(f"Faust's assignor fails on this: {what} ({error})", error)
