"""Partition counts of repartition topics, beside Kafka's own resolution of them."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from tests.support.jvm import JvmOracle

from partage.errors import InvalidTopologyError
from partage.streams.topology import Subtopology, repartition_counts


def application(rng):
    """Sub-topologies that write to each other: chains, diamonds, cycles, what nobody writes."""
    counts, groups = {}, []
    every = []
    for number in range(rng.randint(1, 5)):
        external = [f"in-{number}-{n}" for n in range(rng.randint(0, 2))]
        inside = [f"re-{number}-{n}" for n in range(rng.randint(0, 2))]
        size = rng.randint(1, 6)
        counts |= {topic: rng.choice([size, rng.randint(1, 6)]) for topic in external}
        fixed = {
            topic: rng.choice([size, rng.randint(1, 6)]) if rng.random() < 0.2 else None
            for topic in inside
        }
        every += inside
        groups.append({"sources": external + inside, "repartition": fixed, "sinks": []})
    for topic in every:
        owner = int(topic.split("-")[1])
        before = [g for n, g in enumerate(groups) if n < owner] or groups
        writers = before if rng.random() < 0.8 else groups
        for writer in rng.sample(writers, min(len(writers), rng.choice([0, 1, 1, 1, 1, 2]))):
            writer["sinks"].append(topic)
    joined = []
    for group in groups:
        if len(group["sources"]) > 1 and rng.random() < 0.4:
            some = rng.sample(group["sources"], rng.randint(2, len(group["sources"])))
            if rng.random() < 0.6:
                size = rng.randint(1, 6)
                counts |= {topic: size for topic in some if topic in counts}
            joined.append(some)
    if rng.random() < 0.05 and counts:
        del counts[rng.choice(sorted(counts))]
    return {"groups": groups, "counts": counts, "joined": joined}


def ours(one):
    try:
        found = repartition_counts(
            [
                Subtopology(
                    number,
                    tuple(group["sources"]),
                    tuple(group["sinks"]),
                    group["repartition"],
                )
                for number, group in enumerate(one["groups"])
            ],
            [frozenset(some) for some in one["joined"]],
            one["counts"],
        )
    except InvalidTopologyError as error:
        return {"error": error.java_exception}
    return {"counts": dict(sorted(found.items()))}


def test_counts_are_those_of_the_released_class(parity_n) -> None:
    """Resolved upstream, made equal where joined, or the same refusal: walked in the same order."""
    rng = random.Random("repartition topics")
    kinds = Counter()
    with JvmOracle("StreamsTopics") as oracle:
        left = max(200, parity_n // 5)
        while left > 0:
            some = [application(rng) for _ in range(min(500, left))]
            for one, theirs in zip(some, oracle.ask_all(some), strict=True):
                got = ours(one)
                if got != theirs:
                    shown = {"problem": one, "kafka": theirs, "partage": got}
                    pytest.fail(f"differs from Kafka's class:\n{json.dumps(shown)}", pytrace=False)
                kinds[got.get("error", "counts")] += 1
            left -= len(some)
    assert kinds["counts"] > 50
    assert {"TaskAssignmentException", "TopologyException"} <= kinds.keys()
