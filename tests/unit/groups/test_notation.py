"""The compact notation for clusters, groups and assignments."""

from __future__ import annotations

import pytest

import partage as pg
from partage.testing import assignment, cluster, group, written


def test_a_group_in_a_line() -> None:
    """Id, instance, rack, topics, claims and their generation."""
    a, b, c = group("a: t1 t2 {t1-0 t2-3 @4} | b#i-1@rack-a: t1 | c:")
    assert a == pg.Member("a", ["t1", "t2"], owned=[("t1", 0), ("t2", 3)], generation=4)
    assert b == pg.Member("b", ["t1"], instance_id="i-1", rack="rack-a")
    assert c == pg.Member("c")


def test_a_cluster_in_a_line() -> None:
    """Counts, racks of replicas, and names with an x in them."""
    made = cluster("box×2(a b|c) y-1x3")
    assert made.index.topics == ("box", "y-1")
    assert made.racks_of(1) == ("c",)
    assert made.partitions_of("y-1").tolist() == [2, 3, 4]


def test_an_assignment_there_and_back() -> None:
    """What is written is what was read; a partition that does not exist is kept as unresolved."""
    text = "a: t-1 t-0 | b: – | c: t-2"
    assert written(assignment(text, cluster("t×3"))) == text
    assert assignment("a: t-9", cluster("t×3")).unresolved[0].partition == 9


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (cluster, "t1"),
        (cluster, "t1×2(a)"),
        (cluster, "t1×2 ("),
        (group, "a t1"),
        (group, "a: t1 {t1}"),
        (group, "a: t1 {t1-0"),
        (lambda text: assignment(text, cluster("t×1")), "a t-0"),
        (lambda text: assignment(text, cluster("t×1")), "a: t-x"),
    ],
)
def test_what_is_not_the_notation_is_refused(made, text) -> None:
    """An error, never a guess."""
    with pytest.raises(pg.InvalidProblemError):
        made(text)
