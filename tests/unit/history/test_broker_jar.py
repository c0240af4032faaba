"""A recorded group whose broker assigned with the jar `partage-assignors` 0.1.0."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.recordings import Recording, json_lines
from tests.support.target_proofs import grown_clusters, growth_shown, shortfall

import partage as pg
from partage.history.agreement import UNEXPLAINED
from partage.history.clusters import ClusterHistory
from partage.history.events import Generation

CAPTURE = Path(__file__).resolve().parents[2] / "data" / "broker_jar"


@pytest.fixture(scope="module")
def targets() -> list[Generation]:
    """The recorded target assignments of the group."""
    return Recording(CAPTURE).rebalances["party"]


@pytest.fixture(scope="module")
def clusters(targets) -> ClusterHistory:
    """The metadata over time: the log has no other trace of it than the targets themselves."""
    newest = json_lines(CAPTURE, "cluster.jsonl")[-1]
    return grown_clusters(newest, growth_shown(targets, newest))


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


def test_the_judge_proves_every_recorded_target_best(targets, clusters) -> None:
    """Certificates prove the loads, rack mismatches and moves of all 39 targets."""
    assert len(targets) == 39
    found = {one.generation_number: shortfall(one, clusters) for one in targets}
    assert not any(found.values()), found


def test_a_worse_target_is_not_proven_best(targets, clusters) -> None:
    """Without the partitions of one member, or with two members' exchanged, the judge objects."""
    found = targets[-1]
    owned = found.target.target
    alike = [m.id for m in found.first.members if len(m.subscription.topics) == 2 and owned[m.id]]
    first, second = alike[:2]
    lost = {**owned, first: ()}
    swapped = {**owned, first: owned[second], second: owned[first]}
    for worse, objection in ((lost, "invalid"), (swapped, "instead of")):
        other = replace(found, target=replace(found.target, target=worse))
        assert objection in (shortfall(other, clusters) or "proven best")
