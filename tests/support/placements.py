"""Placement problems in the notation of tests/data/vectors/consumer, answered by Partage."""

from __future__ import annotations

import json
from pathlib import Path

import partage as pg
from partage.replicas import StripedPlacer

VECTORS = Path(__file__).parents[1] / "data" / "vectors" / "consumer"


def vectors(name):
    """The lines of a file of vectors."""
    lines = (VECTORS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 150
    return [json.loads(line) for line in lines]


def brokers(problem):
    """The brokers of a problem."""
    return [
        pg.Broker(b["id"], b.get("rack"), fenced=b.get("fenced", False)) for b in problem["brokers"]
    ]


def answer(problem):
    """What Kafka's class is to answer: ``{"out": ...}`` or ``{"error": ...}``."""
    try:
        if problem["kind"] == "striped":
            placer = StripedPlacer(brokers(problem), seed=problem["seed"])
            out = [
                placer.place_topic(problem["partitions"], problem["rf"]).tolist()
                for _ in range(problem.get("times", 1))
            ]
            return {"out": out if "times" in problem else out[0]}
        rows = pg.place(
            brokers(problem),
            partitions=problem["partitions"],
            replication_factor=problem["rf"],
            strategy="rack-aware",
            start_index=problem["start"],
            first_partition=problem["first"],
        ).tolist()
    except pg.InvalidPlacementError as refused:
        return {"error": refused.java_exception}
    return {"out": [[max(0, problem["first"]) + i, row] for i, row in enumerate(rows)]}
