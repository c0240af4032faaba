"""A published run made up for tests, written through the pipeline's own schemas."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from partage.tables.statuses import CUMULATIVE, DONE, RECORDED

NAMES = ("range", "fair")
#: A topic or a group may be called this: it must stay text wherever it is shown.
NASTY = "</script><script>alert(1)</script>"


def group(name: str, **more) -> dict:
    row = {
        "group": name, "kind": "classic", "status": "replayed", "why": None, "log_partition": 0,
        "records": 5, "commits": 7, "rebalances": 2, "incarnations": 0, "missing_generations": 0,
        "first_ms": 1_000, "last_ms": 9_000, "claimed": ["range"], "clients": ["java"],
    }  # fmt: skip
    return row | more


def rebalance(group: str, generation: int, **more) -> dict:
    row = {
        "group": group, "incarnation": 0, "generation": generation, "log_partition": 0,
        "log_offset": generation * 10, "time_ms": generation * 1_000, "state_time_ms": None,
        "cluster_ms": 0, "protocol_type": "consumer", "strategy": "range", "leader": "m",
        "members": 2, "partitions": 6, "records": 1, "gap_before": 0, "cause": "1 joined",
        "follow_up": False, "joined": 1, "left": 0, "restarted": 0, "resubscribed": 0,
        "clients": ["java"], "replayed": True, "why_not": None, "protocol": "classic",
        "cause_kind": "join", "cause_source": "inferred", "cause_probability": 1.0, "cause_other": None,
    }  # fmt: skip
    return row | more


def replayed(group: str, generation: int, strategy: str, **more) -> dict:
    row = {
        "group": group, "incarnation": 0, "generation": generation, "strategy": strategy,
        "status": DONE, "claimed": strategy == "range", "agrees": None, "counts": False,
        "partitions": 6, "spread": 0, "idle": 0, "moved": 3, "avoidable": 1, "best_spread": 0,
        "rack_mismatches": 0, "breaches": 0, "changed": 0, "plan": "{}", "policy": strategy,
        "protocol": "eager", "reading": RECORDED if strategy == RECORDED else CUMULATIVE,
        "step": 0, "caused": True, "time_ms": generation * 1_000,
    }  # fmt: skip
    return row | more


def tables() -> dict[str, list[dict]]:
    """Two replayed groups, one of them named to break pages, one that was not, a bad record."""
    rows: dict[str, list[dict]] = {"groups": [], "rebalances": [], "replays": [], "bad_records": []}
    for name in ("orders", NASTY):
        rows["groups"].append(group(name))
        for generation in (1, 2):
            rows["rebalances"].append(rebalance(name, generation))
            for strategy in (RECORDED, *NAMES):
                rows["replays"].append(replayed(name, generation, strategy))
    rows["groups"].append(
        group("streamy", kind="streams", status="not replayed", rebalances=0, claimed=[],
              why="histories of streams groups are not yet in Partage")
    )  # fmt: skip
    rows["bad_records"].append(
        {"partition": 3, "offset": 7, "timestamp_ms": 1, "part": "value", "group": NASTY,
         "why": "value.members at byte 4: 2 bytes needed, 1 left", "key": b"", "value": b"\x00"}
    )  # fmt: skip
    return rows


def summary(**more) -> dict:
    found = {
        "run_id": "run-1", "capture": "somewhere", "started_ms": 0,
        "versions": {"partage": "0.1.0", "python": "3.11"}, "asked": list(NAMES),
        "seconds": {"decode": 1.5},
        "coverage": {
            "first_ms": 1_000, "last_ms": 9_000, "rebalances": 4, "missing_before": 1,
            "missing_within": 0, "transactions": "known", "cluster_states": 1,
            "log_partitions": {"0": {}},
        },
        "accounting": {
            "records": 10, "decoded": 9, "bad": 1, "offset_commits": 5, "group_records": 4,
        },
        "agreement": {
            "counted": 2, "agreed": 1, "by_strategy": {"range": {"counted": 2, "agreed": 1}},
            "disagreements": [
                {"group": NASTY, "generation": 2, "strategy": "range",
                 "why": f"the leader had not yet seen topic {NASTY}"}
            ],
        },
    }  # fmt: skip
    return found | more


def published(
    out: Path, rows: dict[str, list[dict]] | None = None, run_id: str = "run-1", **more
) -> Path:
    """An output folder with these rows, as `partage replay` leaves it behind."""
    from partage.jobs.replay.output import TableWriters, publish_run

    with closing(TableWriters(str(out), run_id, "test")) as writers:
        for table, of in (tables() if rows is None else rows).items():
            for row in of:
                writers.write_row(table, row)
        receipts = writers.close_with_receipts()
    publish_run(out, run_id, receipts, summary(run_id=run_id, **more))
    return out
