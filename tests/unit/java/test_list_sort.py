"""Java's TimSort, which differs from Python's only under a comparator that is no order."""

from __future__ import annotations

import random

import pytest

from partage.java.list_sort import ComparatorError, list_sort


def by_int_difference(a, b):
    return ((a - b + 2**31) & 0xFFFFFFFF) - 2**31


@pytest.mark.parametrize("runs", [1, 2, 5, 40])
def test_an_order_is_followed_and_equals_stay_in_place(runs) -> None:
    """Under a consistent comparator the result equals Python's stable sort, at every size."""
    chance = random.Random(runs)
    for size in [0, 1, 2, 31, 32, 33, 63, 64, 65, 300, 1000]:
        rows = []
        while len(rows) < size:
            some = [chance.randint(0, max(size // 4, 1)) for _ in range(1 + size // runs)]
            rows += sorted(some, reverse=chance.random() < 0.3)
        pairs = list(zip(rows[:size], range(size), strict=True))
        assert list_sort(pairs, lambda a, b: a[0] - b[0]) == sorted(pairs, key=lambda a: a[0])


def test_a_comparator_that_contradicts_itself() -> None:
    """Overflowing differences give Java 17's list, or the error that Java's merge throws."""
    least, most = -(2**31), 2**31 - 1
    assert list_sort([-1, most, 1], by_int_difference) == [1, most, -1]
    assert list_sort([most, -1, 1], by_int_difference) == [-1, 1, most]
    chance = random.Random(3)
    errors = 0
    for _ in range(300):
        rows = [
            chance.choice([least, most, -1, 0, chance.randint(least, most)]) for _ in range(200)
        ]
        try:
            assert sorted(list_sort(rows, by_int_difference)) == sorted(rows)
        except ComparatorError:
            errors += 1
    assert 0 < errors < 300
