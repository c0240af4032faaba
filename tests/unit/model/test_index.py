"""Numbers of topics and partitions stay true when topics appear and grow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partage.errors import InvalidProblemError
from partage.model import Index, java_rank

ROWS = st.lists(st.tuples(st.sampled_from("abcde"), st.none(), st.integers(0, 9)), max_size=12)


def test_numbers_follow_the_given_order():
    """Topics are numbered as given, not sorted: `orders` first, then `clicks`."""
    index = Index.of({"orders": 2, "clicks": 1})
    assert [index.name(p) for p in range(3)] == [("orders", 0), ("orders", 1), ("clicks", 0)]
    assert index.first_partition.tolist() == [0, 2, 3]


@given(ROWS, ROWS)
def test_growth_keeps_every_number(first, then):
    """Whatever appears or grows later, a number given before means the same partition."""
    before = Index.of(first)
    after = before.extended(then)
    assert [before.name(p) for p in range(before.partitions)] == [
        after.name(p) for p in range(before.partitions)
    ]
    for p in range(after.partitions):
        assert after.locate(*after.name(p)) == p


@given(ROWS)
def test_partitions_beyond_a_topic_have_no_number(rows):
    """Numbers below 0 or at the count and above, and unknown topics, are located at -1."""
    index = Index.of(rows)
    for t, name in enumerate(index.topics):
        assert index.locate(name, -1) == -1
        assert index.locate(name, index.count(t)) == -1
        assert index.locate(name, 2**31 - 1) == -1
    assert index.locate("nobody", 0) == -1


def test_a_topic_made_anew_under_its_old_name_is_another_topic():
    """Ids tell incarnations apart; the name then means the newest one."""
    index = Index.of([("t", "id-1", 3)]).extended([("t", "id-2", 2)])
    assert index.topics == ("t", "t")
    assert index.topic("t") == 1
    assert index.topic_by_id("id-1") == 0
    assert index.locate(0, 2) == 2
    assert index.locate("t", 2) == -1


def test_more_partitions_than_any_cluster_has_are_refused_before_memory_is_taken():
    """A damaged count raises our error instead of filling the machine."""
    with pytest.raises(InvalidProblemError, match=r"topics\.t"):
        Index.of({"t": 2**31 - 1})


def test_java_order_is_by_utf16_units():
    """U+10000 sorts before U+FF5A in Java, after it in Python."""
    names = ["\uff5a", "\U00010000"]
    assert sorted(names) == ["\uff5a", "\U00010000"]
    assert java_rank(names).tolist() == [1, 0]


def test_an_empty_index_locates_nothing():
    """No topics, no partitions, and no error either."""
    index = Index.of({})
    assert index.partitions == 0
    assert index.locate_all(np.zeros(1, np.int32), np.zeros(1, np.int32)).tolist() == [-1]
