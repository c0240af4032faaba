"""The time span of a group's timeline, and the downtime of migrations and second steps."""

from __future__ import annotations

import pyarrow as pa
import pytest

from partage.report.group_details import _history_span
from partage.report.traits import _count_crowded, causes_by_group

DAY = 86_400_000


@pytest.mark.parametrize(
    ("times", "cover", "ends"),
    [
        ([5, 9], {"first_ms": 0, "last_ms": 20}, (5, 20)),
        ([], {"last_ms": None}, (0, 1)),
        ([50 * 365 * DAY], {"first_ms": 0, "last_ms": 50 * 365 * DAY}, (50 * 365 * DAY,) * 2),
        ([5, 9], {"last_ms": 500 * DAY}, (5, 9)),
    ],
)
def test_a_wrong_clock_elsewhere_does_not_stretch_a_groups_picture(times, cover, ends) -> None:
    """A timestamp of 1970 or years ahead does not stretch the timeline."""
    first, last = _history_span(times, cover)
    assert (first, max(last - (ends[0] == ends[1]), first)) == ends


def rebalances() -> pa.Table:
    """Return two generations; the second is also written in the other protocol's form."""
    return pa.table({
        "group": ["g"] * 3, "incarnation": [0] * 3, "generation": [1, 2, 2],
        "time_ms": [1_000, 2_000, 2_100], "log_partition": [0] * 3, "log_offset": [1, 2, 3],
        "cause_kind": ["first", "join", "migration"], "cause_source": ["inferred"] * 3,
        "members": [1, 4, 4], "partitions": [3, 3, 3],
    })  # fmt: skip


def test_shares_by_cause_add_up_to_what_was_lost() -> None:
    """A migration record has its generation's number, and none of its downtime."""
    replays = pa.table({
        "group": ["g"] * 2, "incarnation": [0] * 2, "generation": [1, 2],
        "policy": ["recorded"] * 2, "strategy": ["range"] * 2,
        "stopped_at_least_ps": [1.0, 2.0], "stopped_at_most_ps": [3.0, 5.0],
        "stopped_ps": [2.0, 4.0],
    })  # fmt: skip
    shares = {one.kind: one for one in causes_by_group(rebalances(), replays)["g"]}
    assert sum(one.high for one in shares.values()) == 8.0
    assert sum(one.best for one in shares.values()) == 6.0
    assert (shares["join"].high, shares["migration"].high, shares["migration"].timed) == (5.0, 0, 0)


def test_the_time_of_a_second_step_is_its_causes() -> None:
    """The downtime of a second step counts for the cause of its first step."""
    steps = pa.table({
        "group": ["g", "g", "g", "h"], "incarnation": [0] * 4, "generation": [1, 2, 3, 1],
        "log_partition": [0] * 4, "log_offset": [1, 2, 3, 4],
        "time_ms": [1_000, 2_000, 3_000, 4_000], "cause_kind": ["leave", "follow-up", "join", "follow-up"],
        "cause_source": ["inferred"] * 4, "members": [2, 2, 3, 2],
    })  # fmt: skip
    replays = pa.table({
        "group": ["g", "g", "g", "h"], "incarnation": [0] * 4, "generation": [1, 2, 3, 1],
        "policy": ["recorded"] * 4, "strategy": ["range"] * 4,
        "stopped_at_least_ps": [1.0] * 4, "stopped_at_most_ps": [1.0, 10.0, 100.0, 7.0],
        "stopped_ps": [1.0, 5.0, None, 7.0],
    })  # fmt: skip
    found = causes_by_group(steps, replays)
    shares = {one.kind: (one.rebalances, one.high, one.best) for one in found["g"]}
    assert shares == {"join": (1, 100.0, 0), "leave": (1, 11.0, 6.0), "follow-up": (1, 0.0, 0)}
    assert [(one.kind, one.high) for one in found["h"]] == [("follow-up", 7.0)]
    worst = {one.kind: one.worst for one in found["g"]}
    assert worst == {"join": (), "leave": ((2_000, 5.0), (1_000, 1.0)), "follow-up": ()}


@pytest.mark.parametrize(("lost", "cause"), [("expiry", "expiry"), ("leave", "join")])
def test_the_time_after_a_group_lost_its_last_member_is_the_losss(lost, cause) -> None:
    """The rejoin ends what an eviction began; after a leave, a join has its own downtime."""
    steps = pa.table({
        "group": ["g"] * 3, "incarnation": [0] * 3, "generation": [1, 2, 3],
        "log_partition": [0] * 3, "log_offset": [1, 2, 3], "members": [0, 1, 2],
        "time_ms": [1_000, 2_000, 3_000],
        "cause_kind": [lost, "join", "join"], "cause_source": ["inferred"] * 3,
    })  # fmt: skip
    replays = pa.table({
        "group": ["g"] * 3, "incarnation": [0] * 3, "generation": [1, 2, 3],
        "policy": ["recorded"] * 3, "strategy": ["range"] * 3,
        "stopped_at_least_ps": [0.0] * 3, "stopped_at_most_ps": [0.0, 10.0, 100.0],
        "stopped_ps": [0.0, 8.0, 1.0],
    })  # fmt: skip
    shares = {one.kind: one.best for one in causes_by_group(steps, replays)["g"]}
    assert max(shares, key=shares.__getitem__) == cause
    assert shares["join"] == (1.0 if cause == "expiry" else 9.0)


def test_crowds_are_counted_by_rebalance() -> None:
    """Two of three rebalances have more members than partitions."""
    assert _count_crowded(rebalances()) == {"g": (2, 3)}
