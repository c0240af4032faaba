"""The active member of each partition, by successive shortest paths of a minimum-cost flow.

A *newcomer* is a member that was active for nothing; a partition is *lost* if its active member is
gone and a standby of it is left. Aims, each only as far as those before it allow:

1. no member is idle while there are as many partitions as members;
2. a lost partition goes to one of its standbys, or to a newcomer;
3. while partitions are lost, members other than newcomers take over nothing else;
4. loads are as even as possible (the sum of their squares is least);
5. as few partitions as possible start cold, with a member that has no copy;
6. as few as possible change their member.

A newcomer's share starts cold whichever partitions it is made of. Lost partitions change their
member anyway, so a newcomer gets them first: with a standby in between, each of them would move
a second partition from that standby to the newcomer.

A failure may leave loads uneven, and the next rebalance without one evens them out, mostly
to members that have a copy by then.

Every partition starts at one of its cheapest members, so that no exchange among members alone can
be cheaper. Then the cheapest path of members, from one that should have less to one that should
have more, is taken until none pays. The costs of two aims are a factor apart that no path can
make up for: a path visits every member once at most.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import ProblemTooLargeError
from partage.groups.faust.remembered import Remembered

__all__ = ["LARGEST_TABLE", "heirs"]

Costs = NDArray[np.int64]

#: Most pairs of partition and member, or of members, in one bundle: 8 bytes for each. Prices
#: of so many fit int64.
LARGEST_TABLE = 16_000_000

_FAR = 2**62


class _Prices(NamedTuple):
    """What one unit of each aim costs, from the last one to the first."""

    cold: int
    load: int
    disturbed: int
    disinherited: int
    idle: int

    @classmethod
    def of(cls, partitions: int, members: int) -> _Prices:
        cold = members + 1
        load = (members + 1) * cold
        disturbed = (partitions + 1) * load
        disinherited = (members + 1) * disturbed
        idle = (members + 1) * disinherited if partitions >= members else 0
        return cls(cold, load, disturbed, disinherited, idle)


def heirs(before: Remembered, members: int) -> list[int]:
    """Return by partition number the position of its active member.

    Args:
        before: who had what.
        members: how many there are, at least one.

    Raises:
        ProblemTooLargeError: more than `LARGEST_TABLE` pairs of partition and member.

    >>> heirs(Remembered([0, -1, -1, 0], [[], [1], [0], []]), 2)
    [1, 1, 0, 0]
    """
    partitions = len(before.owner)
    if max(partitions, members) * members > LARGEST_TABLE:
        what = f"{partitions} partitions on {members} members: more than {LARGEST_TABLE} pairs"
        raise ProblemTooLargeError(f"{what} to choose from")
    prices = _Prices.of(partitions, members)
    owner = _at_home(before, members)
    _Chains(owner, _costs(before, members, prices), members, prices).shorten()
    return owner


def _at_home(before: Remembered, members: int) -> list[int]:
    """Every partition at one of its cheapest members: its owner, the least loaded heir, anybody."""
    owner = list(before.owner)
    load = np.bincount([m for m in owner if m >= 0], minlength=members).tolist()
    for p, copies in enumerate(before.copies):
        if owner[p] < 0 and copies:
            owner[p] = min(copies, key=load.__getitem__)
            load[owner[p]] += 1
    for p, member in enumerate(owner):
        if member < 0:
            owner[p] = min(range(members), key=load.__getitem__)
            load[owner[p]] += 1
    return owner


def _costs(before: Remembered, members: int, prices: _Prices) -> Costs:
    """Return int64[P, M]: the cost of each partition at each member, its load aside."""
    pairs = list(zip(before.owner, before.copies, strict=True))
    cost = np.full((len(before.owner), members), prices.cold + 1, np.int64)
    working = [m for m in set(before.owner) if m >= 0]
    if any(owner < 0 and copies for owner, copies in pairs):
        cost[:, working] += prices.disturbed
    for p, (owner, copies) in enumerate(pairs):
        if owner >= 0:
            cost[p, copies] -= prices.cold
            cost[p, owner] = 0
        elif copies:
            cost[p] = prices.cold
            cost[p, working] = prices.disinherited + prices.cold
            cost[p, copies] = 0
        else:
            cost[p] = 0  # nobody has anything of it: all are equal
    return cost


class _Chains:
    """Moves along chains of members, the cheapest first, until none pays; ``owner`` in place."""

    def __init__(self, owner: list[int], cost: Costs, members: int, prices: _Prices) -> None:
        self._owner = owner
        self._cost = cost
        self._members = members
        self._prices = prices
        self._held: list[list[int]] = [[] for _ in range(members)]
        for p, member in enumerate(owner):
            self._held[member].append(p)
        # By members a, b what the cheapest move of a partition from a to b costs, and which.
        self._step = np.full((members, members), _FAR, np.int64)
        self._which = np.full((members, members), -1, np.int64)
        for member in range(members):
            self._look_at(member)

    def shorten(self) -> None:
        """Take the cheapest chain that pays, again and again."""
        while (chain := self._cheapest()) is not None:
            moves = [(int(self._which[a, b]), a, b) for a, b in pairwise(chain)]
            for p, a, b in moves:
                self._held[a].remove(p)
                self._held[b].append(p)
                self._owner[p] = b
            for member in chain:
                self._look_at(member)

    def _look_at(self, member: int) -> None:
        held = self._held[member]
        self._step[member] = _FAR
        if held:
            change = self._cost[held] - self._cost[held, member][:, None]
            best = change.argmin(axis=0)
            self._step[member] = change[best, np.arange(self._members)]
            self._which[member] = np.array(held)[best]
        self._step[member, member] = _FAR

    def _cheapest(self) -> list[int] | None:
        """The members of the chain that lowers the cost most; None where none lowers it.

        Bellman and Ford's rounds: there is no cycle of members that pays, so a chain is done
        after as many rounds as there are members.
        """
        load = np.array([len(held) for held in self._held])
        leaving = np.where(load > 0, -self._of_load(load), _FAR)
        far = leaving.copy()
        came_from = np.full(self._members, -1, np.int64)
        for _ in range(self._members):
            nowhere = (far[:, None] >= _FAR) | (self._step >= _FAR)
            through = np.where(nowhere, _FAR, far[:, None] + self._step)
            best = through.argmin(axis=0)
            nearest = through[best, np.arange(self._members)]
            shorter = nearest < far
            if not shorter.any():
                break
            far = np.where(shorter, nearest, far)
            came_from = np.where(shorter, best, came_from)
        total = np.where(far >= _FAR, _FAR, far + self._of_load(load + 1))
        end = int(total.argmin())
        if total[end] >= 0:
            return None
        chain = [end]
        while came_from[chain[-1]] >= 0:
            chain.append(int(came_from[chain[-1]]))
        return chain[::-1]

    def _of_load(self, load: Costs) -> Costs:
        """What the last partition of a member with so many costs; the first one may be a gain."""
        cost: Costs = load * self._prices.load
        return cost - np.where(load == 1, self._prices.idle, 0)
