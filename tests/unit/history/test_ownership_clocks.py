"""Owners whatever the clocks say: one after the other, in the log's order."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from partage.history.events import Generation
from partage.history.ownership import OwnershipIntervals
from partage.history.records import ClassicState, LogPosition, MemberState


def _generation(number: int, time_ms: int) -> Generation:
    name = f"m{number}"
    member = MemberState(
        name, None, "app", "/h", 0, 6_000, None, (("t", (0,)),), 0, None, None
    )  # fmt: skip
    state = ClassicState("consumer", number, "range", name, None, (member,))
    return Generation(1, LogPosition(0, number), time_ms, state, state, 1, 0, None)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12))
def test_no_partition_has_two_owners(times: list[int]) -> None:
    """Intervals of one partition neither overlap nor go back, and each generation has one."""
    owned = OwnershipIntervals(lambda *_: None)
    found = [one for n, t in enumerate(times) for one in owned.process_item(_generation(n + 1, t))]
    found += owned.finish_intervals()
    found.sort(key=lambda one: one.from_generation)
    assert [one.from_generation for one in found] == list(range(1, len(times) + 1))
    assert found[-1].to_ms is None
    for before, after in pairwise(found):
        assert before.to_ms is not None
        assert before.from_ms <= before.to_ms <= after.from_ms
