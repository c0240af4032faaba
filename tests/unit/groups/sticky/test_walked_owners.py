"""The map of owners while members leave it and come back, against what JDK 17's maps answered."""

from __future__ import annotations

from partage.groups.sticky.problem import StickyProblem
from partage.groups.sticky.quirks.member_lists import OwnerMap
from partage.model import Cluster, Group, Member, Problem

#: All share one of 64 buckets; the table has grown so far, and the bucket is a tree.
JOINED = (
    "77BB",
    "103BB",
    "291BB",
    "56Aa",
    "270BB",
    "35Aa",
    "56BB",
    "14BB",
    "103Aa",
    "35BB",
    "270Aa",
)
ASIDE = {"103BB", "56Aa", "270BB"}
WITHOUT = "291BB 77BB 35Aa 56BB 14BB 103Aa 35BB 270Aa"
PUT_BACK = "35Aa 291BB 77BB 56BB 14BB 103Aa 103BB 35BB 56Aa 270Aa 270BB"
PUT_BACK_AFTER_UNDO = "35Aa 291BB 77BB 56BB 14BB 103Aa 35BB 56Aa 270Aa 270BB 103BB"


def owners():
    group = Group([Member(f"consumer.{name}", ["t"]) for name in JOINED])
    return OwnerMap(StickyProblem(Problem(group, Cluster.from_topics({"t": 1}))))


def named(made):
    return " ".join(JOINED[m] for m in made.order)


def aside():
    return [JOINED.index(name) for name in ASIDE]


def test_a_tree_that_lost_members_is_walked_otherwise_when_they_are_back() -> None:
    """Roots come to the front as members leave and return."""
    made = owners()
    made.remove_fixed(aside())
    assert named(made) == WITHOUT
    made.add_fixed()
    assert named(made) == PUT_BACK


def test_undoing_fills_the_map_anew_from_its_copy() -> None:
    """The copy is in a smaller table, the map keeps its slots: another order than without it."""
    made = owners()
    made.remove_fixed(aside())
    made.restore_copy()
    made.add_fixed()
    assert named(made) == PUT_BACK_AFTER_UNDO


def test_who_sets_nobody_aside_keeps_the_order() -> None:
    """Without fixed members nothing leaves the map, and nothing moves."""
    made = owners()
    before = named(made)
    made.remove_fixed([])
    made.add_fixed()
    assert named(made) == before
