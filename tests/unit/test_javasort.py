"""Java's sort, step by step: an order like any other where there is one."""

from __future__ import annotations

import random

import pytest

from partage.groups.sticky.javasort import java_sorted
from partage.groups.sticky.refusals import JavaRefusal


def by_int_difference(a, b):
    return ((a - b + 2**31) & 0xFFFFFFFF) - 2**31


@pytest.mark.parametrize("runs", [1, 2, 5, 40])
def test_an_order_is_followed_and_equals_stay_in_place(runs) -> None:
    """For every size and for lists of runs, what Python's stable sort gives."""
    chance = random.Random(runs)
    for size in [0, 1, 2, 31, 32, 33, 63, 64, 65, 300, 1000]:
        rows = []
        while len(rows) < size:
            some = [chance.randint(0, max(size // 4, 1)) for _ in range(1 + size // runs)]
            rows += sorted(some, reverse=chance.random() < 0.3)
        pairs = list(zip(rows[:size], range(size), strict=True))
        assert java_sorted(pairs, lambda a, b: a[0] - b[0]) == sorted(pairs, key=lambda a: a[0])


def test_a_comparator_that_contradicts_itself() -> None:
    """Three numbers in a circle come as Java 17 leaves them; a merge that notices is refused."""
    least, most = -(2**31), 2**31 - 1
    assert java_sorted([-1, most, 1], by_int_difference) == [1, most, -1]
    assert java_sorted([most, -1, 1], by_int_difference) == [-1, 1, most]
    chance = random.Random(3)
    refused = []
    for _ in range(300):
        rows = [
            chance.choice([least, most, -1, 0, chance.randint(least, most)]) for _ in range(200)
        ]
        try:
            assert sorted(java_sorted(rows, by_int_difference)) == sorted(rows)
        except JavaRefusal as refusal:
            refused.append(refusal.java_exception)
    assert 0 < len(refused) < 300
    assert set(refused) == {"IllegalArgumentException"}
