"""KIP-49: the tables of the document, its story, and what it leaves open."""

from __future__ import annotations

import numpy as np
import pytest

import partage as pg
from partage.model import Problem
from partage.testing import cluster, group, written

# The document spells T3 in this row with a Cyrillic letter (Т3); in the tables it is Latin.
INVENTORY = "T1×2 T2×1 T3×2 T4×1 T5×2"
OLD, NEW = "T1 T3 T5", "T1 T2 T3 T4 T5"


def members(*refreshed):
    """C1 to C4; those named have the new configuration, the others the old one."""
    return " | ".join(f"C{i}: {NEW if f'C{i}' in refreshed else OLD}" for i in (1, 2, 3, 4))


TABLES = {
    "range": "C1: T1-0 T2-0 T3-0 T4-0 T5-0 | C2: T1-1 T3-1 T5-1 | C3: – | C4: –",
    "roundrobin": "C1: T1-0 T3-0 T5-0 | C2: T1-1 T3-1 T5-1 | C3: – | C4: T2-0 T4-0",
    "fair": "C1: T2-0 T3-0 | C2: T1-0 T3-1 | C3: T1-1 T5-0 | C4: T4-0 T5-1",
}


def by_name(text):
    return {
        part.split(":")[0].strip(): sorted(part.split(":")[1].split()) for part in text.split("|")
    }


@pytest.mark.parametrize("strategy", TABLES)
def test_the_tables_of_the_document(strategy) -> None:
    """Range, round robin and fair on five topics, with C1 and C4 already refreshed."""
    found = pg.assign(strategy, group(members("C1", "C4")), cluster(INVENTORY))
    assert by_name(written(found)) == by_name(TABLES[strategy])


STORY = [(), ("C1",), ("C1", "C4"), ("C1", "C2", "C4"), ("C1", "C2", "C3", "C4")]


def spreads(strategy):
    return [
        pg.measure(pg.assign(strategy, group(members(*done)), cluster(INVENTORY)),
                   group(members(*done)), cluster(INVENTORY), optimum=False).spread
        for done in STORY
    ]  # fmt: skip


def test_the_story_of_the_document() -> None:
    """C1 refreshes, then C4, then C2 and C3: fair stays even at every step, the others do not."""
    assert all(spread <= 1 for spread in spreads("fair"))
    # After C1 and C4 they are as printed: five and none, three and none.
    assert spreads("range")[2] == 5
    assert spreads("roundrobin")[2] == 3


def test_further_ties_go_by_name_and_member_order() -> None:
    """Topics that tie on consumers and partitions go by Java's string order, members likewise."""
    found = pg.assign(
        "fair", group("b: \U00010000 ｚ | a: ｚ \U00010000"), cluster("ｚ×1 \U00010000×1")
    )
    # U+10000 is stored as two units that are lower than U+FF5A, so Java has it first.
    assert found.to_dict() == {"b": {"ｚ": [0]}, "a": {"\U00010000": [0]}}
    found = pg.assign("fair", group("a: t | z#i: t"), cluster("t×1"))
    assert found.to_dict() == {"a": {}, "z": {"t": [0]}}, "static members come first"


def test_topics_with_more_partitions_go_first() -> None:
    """Of two topics with equally many consumers the larger one is given out first."""
    found = pg.assign("fair", group("a: s t | b: s t"), cluster("s×1 t×2"))
    assert written(found) == "a: t-0 s-0 | b: t-1"


def test_it_is_not_optimal_and_says_so() -> None:
    """The docstring's example: fair has spread 2 where 0 is possible."""
    who, what = group("a: t1 t2 | b: t1 | c: t2 t3"), cluster("t1×1 t2×1 t3×1")
    found = pg.assign("fair", who, what)
    measured = pg.measure(found, who, what)
    assert written(found) == "a: t1-0 t2-0 | b: – | c: t3-0"
    assert (measured.spread, measured.best_spread) == (2, 0)


def plain(problem):
    """The document's rule, one partition after the other."""
    order = {m.id: (m.instance_id is None, m.instance_id or m.id) for m in problem.group}
    consumers = {t: [m for m in problem.group if t in m.topics] for t in problem.index.topics}
    topics = [t for t in problem.index.topics if consumers[t]]
    size = {t: len(problem.cluster.partitions_of(t)) for t in topics}
    load, got = {m.id: 0 for m in problem.group}, {m.id: [] for m in problem.group}
    for topic in sorted(topics, key=lambda t: (len(consumers[t]), -size[t], t)):
        for number in range(size[topic]):
            least = min(consumers[topic], key=lambda m: (load[m.id], order[m.id]))
            load[least.id] += 1
            got[least.id].append([topic, number])
    return got


def test_arrays_and_the_plain_rule_agree() -> None:
    """Random groups: the form without loops gives what the rule gives, order included."""
    rng = np.random.default_rng(49)
    for _ in range(300):
        topics = {f"t{i}": int(rng.integers(0, 9)) for i in range(rng.integers(1, 7))}
        who = [
            pg.Member(f"m{i}", [t for t in topics if rng.random() < 0.6],
                      instance_id=f"i{9 - i}" if rng.random() < 0.2 else None)
            for i in range(rng.integers(1, 7))
        ]  # fmt: skip
        group_, cluster_ = pg.Group(who), pg.Cluster.from_topics(topics)
        assert pg.assign("fair", group_, cluster_).to_json() == plain(Problem(group_, cluster_))
