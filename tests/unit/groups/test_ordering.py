"""The orders in which Kafka meets members and topics."""

from __future__ import annotations

import pytest

from partage.groups.layout import member_order, string_hashes, topics_in_map_order
from partage.java.strings import string_hash
from partage.model import Problem
from partage.testing import cluster, group

ODD = ["", "Aa", "BB", "\U00010000", "ｚ", "é", "a" * 300, "\ud800"]


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 500])
def test_many_hashes_are_the_hashes_of_each(count) -> None:
    """By columns or one by one: the same numbers, for empty, long and odd names as well."""
    names = [f"{ODD[i % len(ODD)]}{i if i % 3 else ''}" for i in range(count)]
    assert string_hashes(names) == [string_hash(name) for name in names]


def test_static_members_come_first_by_instance_id() -> None:
    """Then dynamic ones by member id, in Java's string order."""
    problem = Problem(group("z: | b#2: | 𐀀: | ｚ: | a#1:"), cluster(""))
    ids = [problem.group.ids[m] for m in member_order(problem)]
    assert ids == ["a", "b", "z", "𐀀", "ｚ"]


def test_topics_come_in_the_order_of_two_hash_maps() -> None:
    """Names that no member has, that the cluster lacks or that have no partitions are left out."""
    problem = Problem(
        group("a: foo bar gone | b: baz topic10 topic9 empty"),
        cluster("unread×1 foo×1 bar×1 baz×1 topic10×1 topic9×1 empty×0"),
    )
    names = [problem.index.topics[t] for t in topics_in_map_order(problem)]
    assert names == ["bar", "topic10", "foo", "topic9", "baz"]


def test_inside_a_bucket_who_was_met_first_comes_first() -> None:
    """Aa and BB share a bucket; the order of the members' map decides, not the join order."""
    for text, first in [("a: BB | b: Aa", "BB"), ("b: Aa | a: BB", "BB"), ("a: Aa BB", "Aa")]:
        problem = Problem(group(text), cluster("Aa×1 BB×1"))
        assert problem.index.topics[topics_in_map_order(problem)[0]] == first
