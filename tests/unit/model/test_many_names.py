"""Groups with many equal subscriptions, and claims by the column: same answers, same errors."""

from __future__ import annotations

import numpy as np
import pytest

import partage as pg
from partage.model import Claims, validation
from partage.model.validation import check_subscription

NAMES = [f"topic-{i}" for i in range(50)]


def test_equal_lists_become_one_tuple():
    """Members that come one after the other with equal lists share their subscription."""
    members = [pg.Member(f"c{i}", [("x" + name)[1:] for name in NAMES]) for i in range(5)]
    assert all(member.topics is members[0].topics for member in members)
    assert len(pg.Group(members).subscriptions) == 1


def test_a_list_changed_later_changes_no_member():
    """A member keeps what it was given, and the next one gets what the list is by then."""
    names = list(NAMES)
    first = pg.Member("a", names)
    names[3] = "another"
    second = pg.Member("b", names)
    assert first.topics == tuple(NAMES)
    assert second.topics == tuple(names)


def test_alternating_subscriptions_are_numbered_as_met():
    """Identity only saves time: equal tuples that are two objects are one subscription."""
    members = [pg.Member(f"c{i}", NAMES if i % 2 else NAMES[::-1]) for i in range(6)]
    group = pg.Group(members)
    assert group.subscription_of.tolist() == [0, 1, 0, 1, 0, 1]
    assert group.subscriptions == (tuple(NAMES[::-1]), tuple(NAMES))


@pytest.mark.parametrize("wrong", [7, None, b"topic-3", np.zeros(2), np.zeros(0)])
def test_a_wrong_name_raises_after_a_good_list_as_well(wrong):
    """A list that was checked before does not exempt a list that differs from it."""
    pg.Member("good", NAMES)
    names = [*NAMES[:3], wrong, *NAMES[4:]]
    with pytest.raises(pg.InvalidProblemError) as raised:
        pg.Member("bad", names)
    assert raised.value.path == "members.bad.topics[3]"
    assert raised.value.what == "must be text"


def test_names_may_come_from_any_iterable():
    """Tuples, generators and dict keys are lists of names too."""
    wanted = pg.Member("a", NAMES).topics
    assert pg.Member("b", iter(NAMES)).topics == wanted
    assert pg.Member("c", dict.fromkeys(NAMES)).topics == wanted
    assert pg.Member("d", tuple(NAMES)).topics == wanted
    assert pg.Member("e", ()).topics == ()


@pytest.mark.parametrize(
    "numbers",
    [
        [3, 1, 1],
        (3, 1, 1),
        np.array([3, 1, 1], np.int32),
        np.array([3, 1, 1], np.int64),
        np.array([3, 1, 1], np.uint8),
        [np.int64(3), 1, np.uint8(1)],
    ],
)
def test_claims_take_numbers_in_any_form(numbers):
    """Lists, tuples and arrays of whatever integers make the same columns."""
    claims = Claims.from_owned({"b": numbers, "empty": [], "a": [0]})
    assert claims.topics == ("b", "a")
    assert claims.topic_ix.tolist() == [0, 0, 0, 1]
    assert claims.partition.tolist() == [3, 1, 1, 0]
    assert (claims.topic_ix.dtype, claims.partition.dtype) == (np.int32, np.int32)


def test_claims_are_a_copy_of_the_array():
    """Later writes into an array of claims change no member."""
    numbers = np.array([0, 1], np.int32)
    claims = Claims.from_owned({"t": numbers})
    numbers[:] = 9
    assert claims.partition.tolist() == [0, 1]


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 2**31],
        [-(2**31) - 1],
        [0, True],
        [0, "1"],
        [0.0],
        np.array([2**31]),
        np.array([0.0]),
        np.array([True]),
        np.zeros((2, 2), np.int32),
        np.array([2**63], np.uint64),
    ],
)
def test_claims_that_are_no_int32_are_refused(numbers):
    """One number out of bounds or of another type is named with its topic."""
    with pytest.raises(pg.InvalidProblemError, match="'t' must be an int32"):
        Claims.from_owned({"s": [0], "t": numbers})


def test_an_index_counts_what_has_grown():
    """Counts are sums over a topic's extents; no topic has none."""
    index = pg.Cluster.from_topics({"a": 2, "b": 0, "c": 1}).index.extended([("a", None, 5)])
    assert index.counts.tolist() == [5, 0, 1]
    assert [index.count(t) for t in (-1, 0, 1, 2)] == [0, 5, 0, 1]


def test_equal_lists_with_other_strings_are_compared_by_identity_from_then_on() -> None:
    """The last validated list is replaced by an equal one with new strings, as each generation has."""
    first = [f"orders-{i}" for i in range(3)]
    shared = check_subscription(first, "c1")
    again = ["".join(name) for name in first]
    assert check_subscription(again, "c2") is shared
    assert all(a is b for a, b in zip(validation._last[0], again, strict=True))


def test_an_object_that_equals_every_name_is_not_remembered() -> None:
    """Only lists of strings are remembered, so that the next list is still validated."""

    class Any:
        __hash__ = None

        def __eq__(self, other: object) -> bool:
            return True

    check_subscription(["a"], "c1")
    check_subscription([Any()], "c2")
    assert check_subscription(["b"], "c3") == ("b",)
