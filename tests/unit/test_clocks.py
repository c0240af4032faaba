"""Times of a wrong clock, found by their neighbours; long waits and small differences are none."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partage.jobs.replay.tally import find_strands, find_wrong_clocks

HOUR = 3_600_000
DAY = 24 * HOUR


def _correct_strands(times: list[int], cuts: list[int]) -> tuple[list[int], int]:
    """What becomes of times of one log partition whose files are cut at some places."""
    offset, time_ms = np.arange(len(times)), np.array(times, np.int64)
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(times)}), len(times)]
    pieces = [slice(a, b) for a, b in pairwise(edges)]
    found = [
        one for piece in reversed(pieces) for one in find_strands(offset[piece], time_ms[piece])
    ]
    clocks = find_wrong_clocks({3: found})
    clocks.correct_timestamps(np.full(len(times), 3), offset, time_ms)
    return time_ms.tolist(), clocks.misdated


@pytest.mark.parametrize(("times", "wanted", "wrong"), [
    ([0, 1, 2], [0, 1, 2], 0),
    ([0, 30 * HOUR, 2], [0, 0, 2], 1),  # ahead
    ([8, 9, -9 * DAY, 10], [8, 9, 9, 10], 1),  # behind
    ([30 * DAY, 1, 2, 3], [1, 1, 2, 3], 1),  # the first one: there is none before
    ([0, 1, 200 * DAY, 200 * DAY + 1], [0, 1, 200 * DAY, 200 * DAY + 1], 0),  # a long wait
    ([5, 4, HOUR, 10], [5, 4, HOUR, 10], 0),  # clocks that differ by less
    ([0, 9 * DAY, 9 * DAY + 1, 3, 4, 5], [0, 0, 0, 3, 4, 5], 2),  # the fewer are wrong
    ([1, 2, (1 << 63) - 1, -(1 << 63), 3], [1, 2, 2, 2, 3], 2),  # any 64 bits
])  # fmt: skip
def test_who_is_believed(times, wanted, wrong) -> None:
    """What fits most records is believed; the others have the time of the one before."""
    assert _correct_strands(times, []) == (wanted, wrong)


@given(
    st.lists(st.sampled_from([0, 1, HOUR, DAY, DAY + HOUR // 2, 40 * DAY]), max_size=40),
    st.lists(st.integers(0, 40), max_size=12),
)
def test_how_files_are_cut_makes_no_difference(times, cuts) -> None:
    """The same records give the same times, one file or many."""
    assert _correct_strands(times, cuts) == _correct_strands(times, [])


def test_thousands_of_files_are_no_leaps() -> None:
    """What is cut by the end of a file alone is one strand: the limit is of leaps, not of files."""
    times = [*range(2_500), 30 * HOUR, *range(2_500, 5_000)]
    believed, wrong = _correct_strands(times, list(range(len(times))))
    assert wrong == 1
    assert believed[2_500] == 2_499
