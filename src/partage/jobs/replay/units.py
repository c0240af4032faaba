"""Work that can be done anywhere, cut so that no group holds the job.

A group of ordinary size is one unit. A large one is cut: its rebalances, each by itself, into
stretches (`per_rebalance`), its lives by policy (`cumulative`, which is sequential in each).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partage.jobs.replay.kept import Kept

__all__ = ["Unit", "bundles", "units"]

#: A group of so many rebalances is never cut.
_ORDINARY = 32
#: Units of equal size that each core should have at least, so that all end at about one time.
_SHARES = 4


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work.

    Attributes:
        kept: the group.
        chunks: places of its chunks whose rebalances are lived by themselves; may be empty.
        policies: places of the policies under which all of its life is lived; may be empty.
        cost: rebalances times policies: what it weighs beside others.
    """

    kept: Kept
    chunks: tuple[int, ...]
    policies: tuple[int, ...]
    cost: int

    @property
    def whole(self) -> bool:
        """Whether it is both: all of its group's rebalances, and lives."""
        return bool(self.policies) and len(self.chunks) == len(self.kept.chunks)


def units(groups: Sequence[Kept], *, policies: int, cores: int) -> list[Unit]:
    """All the work; what costs most comes first."""
    total = sum(one.rebalances for one in groups)
    share = max(_ORDINARY, total // (_SHARES * cores))
    made: list[Unit] = []
    every = tuple(range(policies))
    for one in groups:
        if one.rebalances <= share:
            whole = tuple(range(len(one.chunks)))
            made.append(Unit(one, whole, every, 2 * one.rebalances * policies))
            continue
        made += [Unit(one, (), (p,), one.rebalances) for p in every]
        made += _stretches(one, policies, max(1, share // max(1, policies)))
    return sorted(made, key=lambda u: (-u.cost, u.kept.group, u.chunks, u.policies))


def _stretches(one: Kept, policies: int, share: int) -> list[Unit]:
    """The rebalances of a large group, some chunks at a time."""
    made, chunks, count = [], [], 0
    for i, (_, _, rebalances) in enumerate(one.chunks):
        chunks.append(i)
        count += rebalances
        if count >= share or i + 1 == len(one.chunks):
            made.append(Unit(one, tuple(chunks), (), count * policies))
            chunks, count = [], 0
    return made


def bundles(work: Sequence[Unit], *, tasks: int) -> list[list[Unit]]:
    """Units in tasks: the dearest have one of their own, small ones share; the dearest first.

    >>> from dataclasses import replace
    >>> kept = Kept("g", "", (0, 0), ())
    >>> costs = [[u.cost for u in one] for one in bundles(
    ...     [Unit(kept, (), (), cost) for cost in (9, 2, 2, 1)], tasks=3)]
    >>> costs
    [[9], [2, 1], [2]]
    """
    made: list[list[Unit]] = [[] for _ in range(min(tasks, len(work)))]
    weight = [0] * len(made)
    for one in sorted(work, key=lambda u: -u.cost):
        lightest = weight.index(min(weight))
        made[lightest].append(one)
        weight[lightest] += one.cost + 1
    order = sorted(range(len(made)), key=lambda i: -weight[i])
    return [made[i] for i in order]
