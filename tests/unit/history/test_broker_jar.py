"""A recorded group whose broker assigned with the jar `partage-assignors` 0.1.0."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import partage as pg
from partage.history.agreement import UNEXPLAINED

CAPTURE = Path(__file__).resolve().parents[2] / "data" / "broker_jar"


def test_recorded_targets_are_the_plans_of_the_jar() -> None:
    """Three brokers, one of them killed, and 60 joins, departures and added partitions.

    `tests/clients/test_broker_assignor.py` recorded it: members of Java and confluent-kafka, on three
    racks. Five targets were decided by metadata that the log has some milliseconds later.
    """
    run = pg.replay(CAPTURE, policies=["own"], engine="local")
    rows = run.table("rebalances").to_pylist()
    assert {row["strategy"] for row in rows} == {"server:partage-optimal"}
    assert Counter(row["agrees"] for row in rows) == {True: 34, False: 5}
    reasons = [row["disagreement"] for row in rows if not row["agrees"]]
    assert UNEXPLAINED not in reasons
    assert all("after the coordinator saw it" in reason for reason in reasons)
