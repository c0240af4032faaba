"""Growth of a partition count: moved keys, successors of partitions, drain times, steps."""

from __future__ import annotations

import pytest

import partage as pg
from partage.errors import InvalidConfigError
from partage.forecasts.growth import drain_time, plan_growth


@pytest.mark.parametrize(("before", "after"), [(12, 24), (6, 9), (5, 7), (1, 2), (8, 12), (10, 30)])
def test_moved_keys_are_those_of_the_partitioner(before: int, after: int) -> None:
    """The share and the successors agree with Kafka's partitioner on 20,000 keys."""
    found = plan_growth(before, after)
    keys = [f"user-{i}".encode() for i in range(20_000)]
    old = pg.partition_for(keys, partitions=before)
    new = pg.partition_for(keys, partitions=after)
    assert float((old != new).mean()) == pytest.approx(found.moved, abs=0.02)
    for p, successors in enumerate(found.successors):
        assert set(new[old == p].tolist()) == set(successors)


def test_a_group_drains_at_its_capacity() -> None:
    """Old records are read at the group's rate; without a rate the time is unknown."""
    assert drain_time("g", 0, drain_rate=None).seconds == 0
    assert drain_time("g", 10, drain_rate=None).seconds is None
    assert drain_time("g", 10, drain_rate=5.0).seconds == 2
    steps = plan_growth(12, 24, [drain_time("g", 6_000, drain_rate=400.0)]).steps
    assert any("15 s for the slowest group" in one for one in steps)
    assert steps.index(next(one for one in steps if "--alter" in one)) > steps.index(
        next(one for one in steps if one.startswith("stop all producers"))
    )


def test_wrong_counts_are_errors() -> None:
    """Partition counts only grow."""
    for before, after in ((12, 12), (12, 6), (0, 4)):
        with pytest.raises(InvalidConfigError, match="grow"):
            plan_growth(before, after)
    with pytest.raises(InvalidConfigError, match="lag"):
        drain_time("g", -1, drain_rate=1.0)
    for before, after in ((12, 24.5), ("12", 24)):
        with pytest.raises(InvalidConfigError):
            plan_growth(before, after)
