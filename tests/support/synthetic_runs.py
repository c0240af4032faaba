"""PublishedRun runs of any size for tests of the report, made up without Spark."""

from __future__ import annotations

import random
from pathlib import Path

from tests.support.published import group, rebalance, replayed, summary

from partage.tables.statuses import CUMULATIVE, PER_REBALANCE, RECORDED

POLICIES = (
    "eager/range", "eager/range+static", "cooperative/cooperative-sticky", "consumer/uniform",
    "eager/optimal", "own",
)  # fmt: skip
_SHARE = (1.0, 0.55, 0.3, 0.2, 0.9, 1.0)
_CAUSES = ("join", "bounce", "expiry", "leave", "topics", "follow-up")
BEGIN = 1_795_208_600_000


def synthetic(
    groups: int, *, rebalances: int = 8, partitions: int = 24, members: int = 4, seed: int = 7
) -> dict[str, list[dict]]:
    """Rows of all tables: members come and go, the last three rebalances are a storm."""
    chance = random.Random(seed)
    rows: dict[str, list[dict]] = {
        name: []
        for name in (
            "groups",
            "rebalances",
            "replays",
            "members",
            "ownership",
            "pauses",
            "unread",
        )
    }
    for number in range(groups):
        name = f"team-{number % 37:02}.service-{number:04}"
        _one_group(rows, name, chance, rebalances, partitions, members)
    return rows


def _one_group(  # noqa: PLR0917 - a builder
    rows, name, chance, rebalances, partitions, members
) -> None:
    times = sorted(chance.sample(range(480_000), rebalances))
    calm = rebalances - 3
    for i in range(calm, rebalances):
        times[i] = times[calm] + 2_000 * (i - calm)
    rows["groups"].append(
        group(name, rebalances=rebalances, members_max=members, partitions_max=partitions,
              coverage=1.0, first_ms=BEGIN, last_ms=BEGIN + 490_000)
    )  # fmt: skip
    people = [f"{name}-m{i}" for i in range(members + 2)]
    owner: dict[int, tuple[str, int, int]] = {}
    for generation, at in enumerate(times, start=1):
        time = BEGIN + at
        kind = "first" if generation == 1 else chance.choice(_CAUSES)
        here = sorted(chance.sample(people, members))
        length = chance.uniform(0.5, 4)
        rows["rebalances"].append(
            rebalance(name, generation, time_ms=time, members=members, partitions=partitions,
                      cause=f"{kind} of one", cause_kind=kind, cause_source="inferred",
                      protocol="classic", follow_up=kind == "follow-up",
                      storm=0 if generation > calm else None,
                      stopped_low_ms=int(400 * length), stopped_high_ms=int(1_000 * length))
        )  # fmt: skip
        for position, member in enumerate(here):
            rows["members"].append(_member(name, generation, position, member))
        rows["pauses"].append(
            {"group": name, "incarnation": 0, "generation": generation, "topic": "orders",
             "partition": 0, "last_ms": time - 1_000, "first_ms": time + int(9_000 * length),
             "pause_ms": int(9_000 * length) + 1_000, "rewind": 3, "resolution_ms": 500}
        )  # fmt: skip
        _replays(rows, name, generation, partitions * length, chance)
        for p in range(partitions):
            now = here[p * members // partitions]
            if p in owner:
                rows["unread"].append(_unread(name, generation, p, owner[p][0], now, time, length))
            _owned(rows, name, p, owner, now, time, generation)
    for p, (who, since, generation) in owner.items():
        rows["ownership"].append(_interval(name, p, who, since, None, generation, None))


def _replays(rows, name, generation, cost, chance) -> None:
    costs = {"stopped_at_least_ps": 0.4 * cost, "stopped_at_most_ps": cost, "policy": RECORDED,
             "reading": RECORDED, "step": 0, "caused": True, "time_ms": BEGIN,
             "protocol": "eager"}  # fmt: skip
    rows["replays"].append(replayed(name, generation, RECORDED, moved=chance.randrange(9), **costs))
    for policy, share in zip(POLICIES, _SHARE, strict=True):
        for reading in (PER_REBALANCE, CUMULATIVE):
            mine = {
                "policy": policy, "reading": reading, "stopped_at_least_ps": 0.4 * cost * share,
                "stopped_at_most_ps": cost * share, "reread_low": 0, "reread_high": 40,
                "load_spread": 12.5, "colocation": 0.5,
            }  # fmt: skip
            rows["replays"].append(
                replayed(name, generation, policy, moved=chance.randrange(9), **(costs | mine))
            )


def _owned(  # noqa: PLR0917 - a builder
    rows, name, p, owner, now, time, generation
) -> None:
    if p in owner and owner[p][0] != now:
        who, since, first = owner[p]
        rows["ownership"].append(_interval(name, p, who, since, time, first, generation))
    if p not in owner or owner[p][0] != now:
        owner[p] = (now, time, generation)


def _unread(name, generation, p, old, new, time, length) -> dict:  # noqa: PLR0917 - a builder
    best = int(700 * length)
    return {"group": name, "incarnation": 0, "generation": generation, "topic": "orders",
            "partition": p, "member": old, "new_owner": new, "stopped_ms": time - best,
            "stopped_p10_ms": time - 2 * best, "stopped_p90_ms": time - best // 2,
            "assigned_ms": time, "unread_ms": best, "unread_p10_ms": best // 2,
            "unread_p90_ms": 2 * best, "no_consumer_ms": 0}  # fmt: skip


def _interval(  # noqa: PLR0917 - a builder
    name, p, who, start, end, first, last
) -> dict:
    return {"group": name, "incarnation": 0, "topic_id": None, "topic": "orders", "partition": p,
            "member": who, "instance": None, "role": "owner", "from_ms": start, "to_ms": end,
            "from_generation": first, "to_generation": last}  # fmt: skip


def _member(name, generation, position, member) -> dict:
    return {"group": name, "incarnation": 0, "generation": generation, "position": position,
            "member": member, "instance": None, "client_id": "c", "client_host": "/10.0.0.1",
            "client": "java", "certainty": "certain", "leader": position == 0, "rack": None,
            "session_timeout_ms": 10_000, "rebalance_timeout_ms": 300_000, "subscription": "h",
            "topics": ["orders"], "subscription_version": 1, "user_data": None, "claims": [],
            "claims_generation": -1, "assignment_version": 1, "assignment": []}  # fmt: skip


def published_run(out: Path, rows: dict[str, list[dict]]) -> Path:
    """An output folder with these rows."""
    from tests.support.published import published

    cover = {**summary()["coverage"], "first_ms": BEGIN, "last_ms": BEGIN + 490_000,
             "rebalances": len(rows["rebalances"]), "missing_before": 0}  # fmt: skip
    return published(out, rows, coverage=cover, asked=list(POLICIES))
