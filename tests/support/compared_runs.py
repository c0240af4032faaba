"""Runs with given rebalances, unread times and settings, for comparisons and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.published import group, published, rebalance, replayed, summary

from partage.tables.statuses import RECORDED

HOUR_MS = 3_600_000


def made_run(
    out: Path,
    groups: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    hours: int = 1,
    session_ms: int = 45_000,
    **more: Any,
) -> Path:
    """Publish a run whose groups have two partitions each.

    Args:
        out: output folder.
        groups: group -> its rebalances; keys are columns of table ``rebalances``, ``unread`` in
            partition-seconds with an interval of 20 % on each side, and ``moved``.
        hours: length of the recording; rebalances are at equal distances in its first half.
        session_ms: session timeout of all members.
        more: objects of ``summary.json``.
    """
    end = hours * HOUR_MS
    rows: dict[str, list[dict]] = {
        name: [] for name in ("groups", "rebalances", "replays", "members", "ownership")
    }
    for name, steps in groups.items():
        rows["groups"].append(
            group(name, rebalances=len(steps), first_ms=0, last_ms=end, coverage=None)
        )
        for generation, step in enumerate(steps, start=1):
            columns = dict(step)
            unread, moved = columns.pop("unread", 0.0), columns.pop("moved", 0)
            at = (generation - 1) * end // (2 * len(steps))
            rows["rebalances"].append(rebalance(name, generation, time_ms=at, **columns))
            rows["replays"].append(_recorded(name, generation, unread, moved))
            rows["members"] += [member_row(name, generation, i, session_ms) for i in range(2)]
        rows["ownership"] += [owned_row(name, partition) for partition in range(2)]
    cover = summary()["coverage"] | {"first_ms": 0, "last_ms": end, "missing_before": 0,
                                     "rebalances": len(rows["rebalances"])}  # fmt: skip
    return published(out, rows, coverage=cover, **({"run_id": out.name} | more))


def _recorded(name: str, generation: int, unread: float | None, moved: int) -> dict:
    costs = {"stopped_ps": unread, "stopped_p10_ps": None, "stopped_p90_ps": None,
             "stopped_at_least_ps": None, "stopped_at_most_ps": None}  # fmt: skip
    if unread is not None:
        costs = {"stopped_ps": unread, "stopped_p10_ps": 0.8 * unread,
                 "stopped_p90_ps": 1.2 * unread, "stopped_at_least_ps": 0.5 * unread,
                 "stopped_at_most_ps": 2.0 * unread}  # fmt: skip
    return replayed(name, generation, RECORDED, moved=moved, **costs)


def member_row(name: str, generation: int, position: int, session_ms: int) -> dict:
    return {"group": name, "incarnation": 0, "generation": generation, "position": position,
            "member": f"m{position}", "instance": None, "client_id": "c",
            "client_host": "/10.0.0.1", "client": "java", "certainty": "certain",
            "leader": position == 0, "rack": None, "session_timeout_ms": session_ms,
            "rebalance_timeout_ms": 300_000, "subscription": "h", "topics": ["orders"],
            "subscription_version": 1, "user_data": None, "claims": [], "claims_generation": -1,
            "assignment_version": 1, "assignment": []}  # fmt: skip


def owned_row(name: str, partition: int) -> dict:
    return {"group": name, "incarnation": 0, "topic_id": None, "topic": "orders",
            "partition": partition, "member": f"m{partition}", "instance": None, "role": "owner",
            "from_ms": 0, "to_ms": None, "from_generation": 1, "to_generation": None}  # fmt: skip
