"""Placement: Kafka's vectors, the document's tables, what holds of every placement, bad input."""

from __future__ import annotations

import inspect
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.placements import answer, vectors

import partage as pg
from partage.cli.place import place as place_command
from partage.kernels import force_kernel_form
from partage.replicas import StripedPlacer, default_directory, place_added_partitions
from partage.replicas.draws import JavaDraws, next_int
from partage.replicas.placing import alternate_racks


@pytest.mark.parametrize("how", ["compiled", "interpreted"])
@pytest.mark.parametrize("name", ["adminutils", "striped"])
def test_kafkas_vectors(name, how) -> None:
    """The same replicas, in the same order, or the same exception as Kafka's class printed."""
    with force_kernel_form(how):
        for one in vectors(name):
            given_in = {k: v for k, v in one.items() if k not in {"out", "error"}}
            said = {k: one[k] for k in ("out", "error") if k in one}
            assert answer(given_in) == said


def racked(text):
    """Brokers from ``id:rack`` words; a bare id has no rack, ``!`` means fenced."""
    made = []
    for word in text.split():
        number, _, rack = word.removesuffix("!").partition(":")
        made.append(pg.Broker(int(number), rack or None, fenced=word.endswith("!")))
    return made


def test_the_table_of_five_brokers() -> None:
    """Ten partitions of three replicas on five brokers, as Kafka's own documentation draws it."""
    got = pg.place(racked("0 1 2 3 4"), partitions=10, replication_factor=3, strategy="rack-aware",
                   start_index=0)  # fmt: skip
    assert got.tolist() == [
        [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1],
        [0, 2, 3], [1, 3, 4], [2, 4, 0], [3, 0, 1], [4, 1, 2],
    ]  # fmt: skip


SIX = "0:rack1 1:rack3 2:rack3 3:rack2 4:rack2 5:rack1"


def test_the_alternating_list() -> None:
    """Racks take turns: 0, 3, 1, 5, 4, 2."""
    assert alternate_racks(racked(SIX)) == [0, 3, 1, 5, 4, 2]


def test_the_seventh_partition_is_shifted() -> None:
    """Partition 6 goes to 0, 4, 2 instead of repeating partition 0."""
    got = pg.place(
        racked(SIX), partitions=7, replication_factor=3, strategy="rack-aware", start_index=0
    ).tolist()
    assert got[:6] == [[0, 3, 1], [3, 1, 5], [1, 5, 4], [5, 4, 2], [4, 2, 0], [2, 0, 3]]
    assert got[6] == [0, 4, 2]


@pytest.mark.parametrize(
    ("brokers", "asked", "expected"),
    [
        ("0:a 1:b 2:c 3:a 4:a", (6, 4, 2, 0), "2013 3124 4213 0123 1423 2413"),
        ("0:1 1:2 2:2 3:3 4:3 5:1", (6, 3, 2, 0), "320 541 203 415 032 154"),
        ("0 1 2 3 4", (3, 2, 1, 4), "02 14 20"),
        ("5 1 3", (4, 2, 0, 0), "51 13 35 53"),
        ("7", (3, 1, 0, 0), "7 7 7"),
    ],
)
def test_adminutils_by_hand(brokers, asked, expected) -> None:
    """The scenarios of Kafka's unit tests, run on 3.9.1."""
    partitions, factor, start, first = asked
    got = pg.place(
        racked(brokers), partitions=partitions, replication_factor=factor,
        strategy="rack-aware", start_index=start, first_partition=first,
    )  # fmt: skip
    assert got.tolist() == [[int(digit) for digit in word] for word in expected.split()]


class MockDraws:
    """The generator of Kafka's tests: another LCG, of 64 bits."""

    def __init__(self) -> None:
        self.state = 17

    def _run(self, count):
        state, out = self.state, []
        for _ in range(count):
            state = (state * 2862933555777941757 + 3037000493) % 2**64
            out.append(state >> 33)
        return state, out

    def peek_numbers(self, count):
        return np.array(self._run(count)[1], np.int64)

    def skip_numbers(self, count):
        self.state = self._run(count)[0]


@pytest.mark.parametrize(
    ("brokers", "partitions", "factor", "expected"),
    [
        ("3 1! 0 4 2", 5, 4, "3,4,0,2 4,0,2,3 0,2,3,4 2,3,4,0 0,4,3,2"),
        ("0 1!", 3, 1, "0 0 0"),
        ("3 1! 2", 4, 3, "3,2,1 2,3,1 3,2,1 2,3,1"),
        ("11:1 10:1 30:3 31:3 21:2 20:2!", 3, 4, "11,21,31,10 21,30,10,20 31,11,21,30"),
        ("11:1 10:1 30:3! 31:3! 20:2! 21:2! 41:4 40:4!", 3, 4,
         "41,11,21,30 10,20,31,41 41,21,30,11"),
        ("0 3 2 1", 5, 3, "2,3,0 3,0,1 0,1,2 1,2,3 1,0,2"),
    ],
)  # fmt: skip
def test_stripes_by_hand(brokers, partitions, factor, expected) -> None:
    """The scenarios of Kafka's unit tests, with their own generator."""
    got = StripedPlacer(racked(brokers), draws=MockDraws()).place_topic(partitions, factor)
    assert [",".join(map(str, row)) for row in got.tolist()] == expected.split()


def test_stripes_spread_pairs_of_brokers() -> None:
    """Two hundred pairs on four brokers: the shuffles keep every pair near its share."""
    got = StripedPlacer(racked("0 3 2 1"), draws=MockDraws()).place_topic(200, 2)
    expected = "01:14 02:22 03:14 10:17 12:17 13:16 20:13 21:17 23:20 30:20 31:19 32:11"
    counted = Counter(f"{a}{b}" for a, b in got.tolist())
    assert counted == {k: int(v) for k, v in (word.split(":") for word in expected.split())}


@pytest.mark.parametrize(
    ("brokers", "partitions", "factor", "strategy", "java"),
    [
        ("0", 0, 0, "rack-aware", "InvalidPartitionsException: partitions"),
        ("0", -1, 1, "striped", "InvalidPartitionsException: partitions"),
        ("0", 1, 0, "rack-aware", "InvalidReplicationFactorException: larger than 0"),
        ("0 1 2 3 4", 1, 6, "rack-unaware", "InvalidReplicationFactorException: available"),
        ("0:a 1", 1, 1, "rack-aware", "AdminOperationException: 1 has none"),
        ("0! 1!", 1, 1, "striped", "InvalidReplicationFactorException: fenced"),
        ("0 1", 1, 3, "striped", "InvalidReplicationFactorException: only 2"),
        ("0 1", 1, 0, "striped", "InvalidReplicationFactorException: positive"),
        ("0!", 1, 5, "striped", "InvalidReplicationFactorException: fenced"),
        ("0", 1, 2, "striped", "InvalidReplicationFactorException: only 1"),
        ("", 1, 1, "striped", "InvalidReplicationFactorException: fenced"),
        ("", 1, 1, "rack-aware", "InvalidReplicationFactorException: available brokers: 0"),
    ],
)
def test_what_kafka_refuses(brokers, partitions, factor, strategy, java) -> None:
    """Kafka's exception by name, the first of its checks that fails, with the number in question."""
    kind, _, said = java.partition(": ")
    with pytest.raises(pg.InvalidPlacementError, match=said) as refused:
        pg.place(
            racked(brokers), partitions=partitions, replication_factor=factor, strategy=strategy
        )
    assert refused.value.java_exception == kind


def test_racks_do_not_matter_to_those_who_do_not_ask() -> None:
    """rack-unaware takes brokers some of which have a rack."""
    got = pg.place(
        racked("0:a 1"), partitions=2, replication_factor=2, strategy="rack-unaware", start_index=0
    )
    assert got.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"strategy": "stripes"}, "rack-aware, rack-unaware, striped"),
        ({"strategy": "striped", "start_index": 1}, "draws its own"),
        ({"start_index": 1}, "choose the strategy rack-aware"),
        ({"partitions": 2.5}, "partitions: must be an int"),
        ({"replication_factor": 2**31}, "replication_factor: must be an int32"),
        ({"strategy": "rack-aware", "start_index": 2**31 - 1}, "int32 arithmetic would overflow"),
        ({"partitions": 2**31 - 1}, "at most 200,000,000"),
        ({"brokers": [pg.Broker(1), pg.Broker(1)]}, r"brokers\[1\].id: two brokers have this id"),
        ({"brokers": [7]}, r"brokers\[0\]: must be a Broker"),
        ({"brokers": [pg.Broker(1, rack=3)]}, r"brokers\[0\].rack: must be text"),
    ],
)
def test_bad_arguments(changed, error) -> None:
    """What is wrong, which one, and what would be right."""
    asked = {"brokers": racked("0 1"), "partitions": 1, "replication_factor": 2, **changed}
    with pytest.raises(pg.PartageError, match=error):
        pg.place(asked.pop("brokers"), **asked)


def test_start_and_shift() -> None:
    """The shift is the start index unless it is given; without both they are drawn, start first."""
    five = racked("0 1 2 3 4")
    asked = {"partitions": 20, "replication_factor": 3, "strategy": "rack-aware"}
    fixed = pg.place(five, start_index=3, **asked)
    assert (fixed == pg.place(five, start_index=3, start_shift=3, **asked)).all()
    assert not (fixed == pg.place(five, start_index=3, start_shift=1, **asked)).all()
    draws = JavaDraws(11)
    start, shift = next_int(draws, 5), next_int(draws, 5)
    drawn = pg.place(five, seed=11, **asked)
    assert (drawn == pg.place(five, start_index=start, start_shift=shift, **asked)).all()
    assert (drawn == pg.place(five, start_index=-1, seed=11, **asked)).all()
    assert (pg.place(five, start_shift=2, seed=11, **asked)[:, 0] == drawn[:, 0]).all()


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 40), st.data(),
    st.sampled_from(["rack-aware", "striped"]),
)  # fmt: skip
def test_racks_hold_what_they_should(sizes, partitions, data, strategy) -> None:
    """At least as many replicas as racks: each rack has one; fewer: no rack has two; never a broker twice."""
    if strategy == "striped":
        sizes = [sizes[0]] * len(sizes)  # a rack that runs out of brokers skews its stripes
    brokers = [pg.Broker(10 * r + i, f"r{r}") for r, n in enumerate(sizes) for i in range(n)]
    factor = data.draw(st.integers(1, len(brokers)))
    got = pg.place(
        data.draw(st.permutations(brokers)), partitions=partitions, replication_factor=factor,
        strategy=strategy, seed=data.draw(st.integers(0, 99)),
    )  # fmt: skip
    for row in got.tolist():
        racks = {b // 10 for b in row}
        assert len(set(row)) == factor
        assert len(racks) == min(factor, len(sizes))


@pytest.mark.parametrize("strategy", ["rack-aware", "striped"])
def test_even_over_brokers_and_racks(strategy) -> None:
    """As many replicas as racks of equal size: every broker and every rack holds the same."""
    brokers = [pg.Broker(i, "abc"[i % 3]) for i in range(12)]
    got = pg.place(brokers, partitions=120, replication_factor=3, strategy=strategy, seed=5)
    held = np.bincount(got.ravel(), minlength=12)
    assert set(held.tolist()) == {30}


def test_partitions_added_to_a_topic() -> None:
    """Start and shift come from partition 0's first replica, of brokers by id; the rest follows on."""
    brokers = racked("4 0 2 8 6")
    old = {"strategy": "rack-aware"}
    whole = pg.place(
        racked("0 2 4 6 8"), partitions=9, replication_factor=3, start_index=2, **old
    ).tolist()
    assert place_added_partitions(brokers, whole[:4], 5, **old).tolist() == whole[4:]
    gone = [[5, 1], [0, 2]]  # broker 5 is no more: the next one by id counts
    expected = pg.place(
        racked("0 2 4 6 8"),
        partitions=2,
        replication_factor=2,
        start_index=3,
        first_partition=2,
        **old,
    )
    assert (place_added_partitions(brokers, gone, 2, **old) == expected).all()
    assert place_added_partitions(brokers, [[9]], 1, **old).tolist() == [
        [2]
    ]  # none follows: the first
    striped = place_added_partitions(brokers, whole[:4], 5, seed=1)
    placed = pg.place(racked("0 2 4 6 8"), partitions=5, replication_factor=3, seed=1)
    assert (striped == placed).all()
    with pytest.raises(pg.InvalidPlacementError, match="partition 0"):
        place_added_partitions(brokers, [], 1)


def test_one_default_strategy() -> None:
    """`pg.place`, `extend` and `partage place` all default to Kafka 4's placer."""
    defaults = {
        inspect.signature(function).parameters["strategy"].default
        for function in (pg.place, place_added_partitions, place_command)
    }
    assert defaults == {"striped"}


def test_directories_of_new_replicas() -> None:
    """One directory is known at once; of several the broker chooses; none registered: migrating."""
    assert default_directory(pg.Broker(1, directories=("dir",))) == "dir"
    unassigned = default_directory(pg.Broker(1, directories=("a", "b")))
    assert unassigned != default_directory(pg.Broker(1))


def test_numbers_are_javas() -> None:
    """Skipping ahead is the same as drawing one by one."""
    one, other = JavaDraws(-5), JavaDraws(-5)
    drawn = one.peek_numbers(1000)
    for count in (0, 1, 2, 5, 300, 692):
        other.skip_numbers(count)
    one.skip_numbers(1000)
    assert one.peek_numbers(3).tolist() == other.peek_numbers(3).tolist()
    assert len(set(drawn.tolist())) > 990
