"""Moves of active partitions when Faust workers are killed while others join, by both assignors.

    python benchmarks/bench_faust_moves.py --groups 3000 --seed 1

Each random group has two to four workers, up to 12 partitions and no or one standby of each. One or
two workers are killed and one or two join, in one rebalance. Both assignors get the same previous
assignment, which `faust:copartitioned` made.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence

from partage.groups.faust.copartitioned import FaustCopartitioned
from partage.groups.faust.inputs import CopartitionedTopics
from partage.groups.faust.plan import CopartitionedAssignment
from partage.groups.faust.settings import REPLICAS
from partage.groups.faust.stock import Faust
from partage.wire.faust import FaustMetadata

TOPIC = "t"
Assignor = Callable[[CopartitionedTopics, Sequence[FaustMetadata]], list[CopartitionedAssignment]]


def previous_assignments(
    assign: Assignor, workers: int, partitions: int
) -> list[CopartitionedAssignment]:
    """Return the assignments of a new group."""
    topics = CopartitionedTopics(0, partitions, (TOPIC,), tuple(range(workers)))
    return assign(topics, [FaustMetadata()] * workers)


def moves_and_evenness(
    assign: Assignor, before: Sequence[CopartitionedAssignment], partitions: int
) -> tuple[int, bool]:
    """Return how many actives get another worker, and whether loads differ by at most one."""
    topics = CopartitionedTopics(0, partitions, (TOPIC,), tuple(range(len(before))))
    sent = [
        FaustMetadata({TOPIC: sorted(one.actives)}, {TOPIC: sorted(one.standbys)}) for one in before
    ]
    after = assign(topics, sent)
    moved = sum(len(new.actives - old.actives) for new, old in zip(after, before, strict=True))
    loads = [len(one.actives) for one in after]
    return moved, max(loads) - min(loads) <= 1


def main() -> None:
    """Print the sums of both assignors over all groups."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    moved, even = {"faust": 0, "faust:copartitioned": 0}, {"faust": 0, "faust:copartitioned": 0}
    for _ in range(arguments.groups):
        workers, partitions = chance.randint(2, 4), chance.randint(1, 12)
        config = {REPLICAS: chance.randint(0, 1)}
        ours = FaustCopartitioned().configure(config).assign_copartitioned
        stock = Faust().configure(config).assign_copartitioned
        survivors = previous_assignments(ours, workers, partitions)
        survivors = survivors[min(chance.randint(1, 2), workers - 1) :]
        joined = [CopartitionedAssignment() for _ in range(chance.randint(1, 2))]
        for name, assign in (("faust", stock), ("faust:copartitioned", ours)):
            count, is_even = moves_and_evenness(assign, [*survivors, *joined], partitions)
            moved[name] += count
            even[name] += is_even
    for name, count in moved.items():
        print(f"{name}: {count:,} active partitions moved, loads even in {even[name]:,} groups")


if __name__ == "__main__":
    main()
