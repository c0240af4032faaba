"""Sizing of a group: loads by minute, capacity, lag of a fluid queue, limits, scaler settings."""

from __future__ import annotations

from math import ceil, isinf

import numpy as np
import pytest

import partage as pg
from partage.errors import InvalidConfigError
from partage.forecasts.loads import (
    CommitMinute,
    GroupLoad,
    OwnedSpan,
    constant_load,
    learn_capacity,
    load_by_minute,
)
from partage.forecasts.sizing import (
    HOT_PARTITION,
    PARTITIONS,
    STRATEGY,
    scaler_lines,
    size_group,
)
from partage.groups.rounds import Change, GroupSimulation
from partage.java.random import JavaRandom

MINUTE = 60_000


def test_loads_by_minute_add_up_to_the_offsets() -> None:
    """Gaps are filled evenly, resets count as zero, and the cut minutes at both ends are left out."""
    offsets = {0: 1_000, 1: 1_600, 4: 3_400, 5: 100, 6: 700, 7: 701}
    rows = [CommitMinute("t", 1, m * MINUTE, at) for m, at in offsets.items()]
    load = load_by_minute({"t": 3}, rows)
    assert load.first_ms == MINUTE
    assert load.by_minute[:, 1].tolist() == [10.0, 10.0, 10.0, 10.0, 0.0, 10.0]
    assert not load.by_minute[:, [0, 2]].any()
    with pytest.raises(InvalidConfigError, match="fewer than three minutes"):
        load_by_minute({"t": 3}, rows[:2])


def test_capacity_is_learnt_from_a_catch_up_phase() -> None:
    """The rate of a member counts over partitions that it owned for the whole minute."""
    steps = [60, 60, 60, 600, 60, 60]
    rows = [CommitMinute("t", p, m * MINUTE, sum(steps[: m + 1])) for p in (0, 1) for m in range(6)]
    load = load_by_minute({"t": 2}, rows)
    spans = [OwnedSpan("t", 0, "a", 0, None), OwnedSpan("t", 1, "a", 3 * MINUTE + 1, None)]
    found = learn_capacity(load, spans)
    assert found is not None
    assert (found.rate, found.member, found.minutes) == (10.0, "a", 1)
    spans[1] = OwnedSpan("t", 1, "a", 3 * MINUTE, None)
    both = learn_capacity(load, spans)
    assert both is not None
    assert both.rate == 20.0
    assert learn_capacity(constant_load({"t": 2}, 1.0), spans) is None


def test_a_catch_up_phase_counts_for_its_own_member() -> None:
    """A busy member without a catch-up phase does not lend its rate to one that caught up."""
    steps = {0: [600] * 6, 1: [60, 60, 60, 300, 60, 60]}
    rows = [
        CommitMinute("t", p, m * MINUTE, sum(of[: m + 1]))
        for p, of in steps.items() for m in range(6)
    ]  # fmt: skip
    load = load_by_minute({"t": 2}, rows)
    busy, quiet = OwnedSpan("t", 0, "busy", 0, None), OwnedSpan("t", 1, "quiet", 0, None)
    found = learn_capacity(load, [busy, quiet])
    assert found is not None
    assert (found.rate, found.member, found.minutes, found.is_near_capacity) == (
        10.0,
        "busy",
        0,
        False,
    )
    alone = learn_capacity(load, [quiet])
    assert alone is not None
    assert (alone.rate, alone.minutes, alone.is_near_capacity) == (5.0, 1, True)


@pytest.mark.parametrize("partitions", [1, 5, 12])
def test_the_answer_is_that_of_arithmetic_for_an_even_load(partitions: int) -> None:
    """With equal partitions the busiest of n consumers has ceil(P / n), and of n - 1 while one is down."""
    load = constant_load({"t": partitions}, 10.0 * partitions)
    for capacity in (9.0, 10.0, 25.0, 60.0, 1_000.0):
        found = size_group(load, strategy="range", capacity=capacity, max_lag_s=1)
        fits = [n for n in range(2, partitions + 2) if ceil(partitions / (n - 1)) * 10 < capacity]
        assert found.needed == min(fits, default=None)
        for row in found.rows:
            assert row.busiest == pytest.approx(10 * ceil(partitions / row.consumers))


def test_the_lag_is_that_of_a_queue_second_by_second() -> None:
    """Lindley's recursion over minutes equals a queue that is stepped through each second."""
    random, rates = JavaRandom.from_seed(5), []
    for _ in range(30):
        number, random = random.next_below(400)
        rates.append(float(number))
    load = GroupLoad(pg.Cluster.from_topics({"t": 1}), np.array(rates)[:, None], 0)
    capacity = max(1.05 * float(np.mean(rates)), 1.0)
    backlog = longest = 0.0
    for rate in rates:
        for _ in range(60):
            backlog = max(0.0, backlog + rate - capacity)
            longest = max(longest, backlog)
    found = size_group(load, strategy="range", capacity=capacity, max_lag_s=1)
    assert longest > 0
    assert found.row(1).lag_s == pytest.approx(longest / capacity)


def test_one_hot_partition_is_named_as_the_limit() -> None:
    """If one partition alone exceeds a consumer, no number of consumers helps."""
    rates = np.array([[5.0, 90.0, 5.0, 5.0]])
    load = GroupLoad(pg.Cluster.from_topics({"t": 4}), rates)
    found = size_group(load, strategy="sticky", capacity=50.0, max_lag_s=30)
    assert (found.needed, found.limit) == (None, HOT_PARTITION)
    assert (found.hottest.topic, found.hottest.partition) == ("t", 1)
    assert isinf(found.hottest.lag_s)
    assert found.hottest.share == pytest.approx(90 / 105)
    assert scaler_lines(found, "g") == ()


def test_a_consumer_without_partitions_takes_over() -> None:
    """One consumer more than partitions fits if one consumer for each partition is enough."""
    found = size_group(
        constant_load({"t": 2}, 200.0), strategy="range", capacity=150.0, max_lag_s=30
    )
    assert (found.needed, found.limit, found.useful) == (3, None, 2)
    assert isinf(found.row(2).lag_down_s or 0)
    assert (found.row(3).idle, found.row(3).lag_down_s) == (1, 0)
    alone = size_group(constant_load({"t": 1}, 50.0), strategy="range", capacity=100, max_lag_s=30)
    assert (alone.needed, alone.limit) == (2, None)


def test_too_few_partitions_are_named_as_the_limit() -> None:
    """Partitions with an even load are too few if one consumer cannot keep up with one of them."""
    for rate in (200.0, 400.0):
        load = constant_load({"t": 2}, rate)
        found = size_group(load, strategy="range", capacity=100.0, max_lag_s=30)
        assert (found.needed, found.limit) == (None, PARTITIONS)


def test_the_strategy_is_named_as_the_limit() -> None:
    """Range assigns the only partition of each topic to the first consumer, however many join."""
    load = constant_load({"a": 1, "b": 1, "c": 1}, 90.0)
    found = size_group(load, strategy="range", capacity=50.0, max_lag_s=30)
    assert (found.needed, found.limit) == (None, STRATEGY)
    even = size_group(load, strategy="roundrobin", capacity=50.0, max_lag_s=30)
    assert (even.needed, even.limit) == (4, None)


def test_the_strategys_unevenness_counts() -> None:
    """Range gives the first members of each topic more: four consumers of 2 x 3, one of them idle."""
    load = constant_load({"a": 3, "b": 3}, 60.0)
    even = size_group(load, strategy="roundrobin", capacity=100.0, max_lag_s=1).row(4)
    uneven = size_group(load, strategy="range", capacity=100.0, max_lag_s=1).row(4)
    assert (even.busiest, even.idle) == (20.0, 0)
    assert (uneven.busiest, uneven.idle, uneven.spread) == (20.0, 1, 20.0)
    assert size_group(load, strategy="range", capacity=100.0, max_lag_s=1).useful == 3


def test_many_partitions_are_sampled_and_the_smallest_number_is_exact() -> None:
    """With 200 partitions not each number has a row, but the answer is the smallest that fits."""
    load = constant_load({"t": 200}, 2_000.0)
    found = size_group(load, strategy="range", capacity=70.0, max_lag_s=5)
    assert found.needed == next(n for n in range(2, 202) if ceil(200 / (n - 1)) * 10 < 70)
    assert len(found.rows) < 100


def test_all_sizes_can_be_listed() -> None:
    """The result says whether its rows are a selection; needed and useful numbers are the same."""
    load = constant_load({"t": 40}, 400.0)
    some, every = (
        size_group(load, strategy="range", capacity=70.0, max_lag_s=5, all_sizes=one)
        for one in (False, True)
    )
    assert [row.consumers for row in every.rows] == list(range(1, 42))
    assert (some.is_selection, every.is_selection) == (True, False)
    assert (some.needed, some.useful) == (every.needed, every.useful)
    few = size_group(constant_load({"t": 4}, 40.0), strategy="range", capacity=70.0, max_lag_s=5)
    assert not few.is_selection


def test_the_smallest_number_is_exact_for_an_uneven_strategy() -> None:
    """Two topics of a range group: more consumers may raise the highest load."""
    random, rates = JavaRandom.from_seed(8), []
    for _ in range(60):
        number, random = random.next_below(100)
        rates.append(float(number))
    load = GroupLoad(pg.Cluster.from_topics({"t": 60}), np.array([rates]))
    for capacity in (150.0, 200.0, 300.0, 400.0):
        found = size_group(load, strategy="range", capacity=capacity, max_lag_s=5)
        every = size_group(load, strategy="range", capacity=capacity, max_lag_s=5, all_sizes=True)
        assert found.needed == min((r.consumers for r in every.rows if r.fits), default=None)


@pytest.mark.parametrize(
    "strategy", ["range", "roundrobin", "sticky", "cooperative-sticky", "server:uniform"]
)
@pytest.mark.parametrize("most", [1, 4, 100])
def test_numbers_that_cannot_fit_are_skipped(strategy: str, most: int) -> None:
    """A lower bound and plans without simulated members find the number that the rows show."""
    random = np.random.default_rng(most)
    by_minute = random.integers(1, most + 1, (3, 36)).astype(float)
    load = GroupLoad(pg.Cluster.from_topics({"t": 20, "u": 16}), by_minute)
    for capacity in (most * 1.0, most * 2.0, most * 7.5):
        found, every = (
            size_group(load, strategy=strategy, capacity=capacity, max_lag_s=40, all_sizes=one)
            for one in (False, True)
        )
        assert found.needed == min((r.consumers for r in every.rows if r.fits), default=None)


def test_few_numbers_are_simulated_member_by_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,000 equal partitions each consumer can read 3: the bound leaves nothing to try."""
    sizes = []
    apply = GroupSimulation.apply_change

    def counted(simulation: GroupSimulation, change: Change) -> None:
        sizes.append(len(getattr(change, "members", ())))
        apply(simulation, change)

    monkeypatch.setattr(GroupSimulation, "apply_change", counted)
    found = size_group(
        constant_load({"t": 1_000}, 50_000.0), strategy="range", capacity=200.0, max_lag_s=30
    )
    assert found.needed == 335
    assert [one for one in sizes if 256 < one < 362] == [335]


def test_scaler_lines_are_complete() -> None:
    """KEDA needs brokers, an HPA the metric; a spare consumer needs allowIdleConsumers."""
    many = size_group(
        constant_load({"t": 69}, 5.66), strategy="range", capacity=5.0, max_lag_s=30
    )  # fmt: skip
    lines = scaler_lines(many, "g")
    assert [line.strip() for line in lines if "<" in line] == [
        "bootstrapServers: <host:port,...>", "metric: {name: <metric of the group's lag>}",
    ]  # fmt: skip
    most = int(next(one for one in lines if one.startswith("maxRep")).split(": ")[1])
    assert many.needed is not None
    assert many.row(most).busiest <= many.row(many.needed).busiest / 2
    assert most < many.useful
    assert not [line for line in lines if "allowIdle" in line]
    spare = size_group(
        constant_load({"t": 2}, 200.0), strategy="range", capacity=150.0, max_lag_s=30
    )
    assert '      allowIdleConsumers: "true"' in scaler_lines(spare, "g")


def test_scaler_lines_quote_names() -> None:
    """Names of groups and topics are YAML strings, whatever they contain."""
    found = size_group(
        constant_load({"t": 12}, 600.0), strategy="range", capacity=200.0, max_lag_s=30
    )
    lines = scaler_lines(found, "it's: #1")
    assert "      consumerGroup: 'it''s: #1'" in lines
    assert '      lagThreshold: "3000"' in lines
    assert "      topic: 't'" in lines
    two = size_group(
        constant_load({"t": 6, "u": 6}, 600.0), strategy="range", capacity=200.0, max_lag_s=30
    )
    assert not [line for line in scaler_lines(two, "g") if "topic" in line]


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"capacity": 0.0}, "capacity"),
        ({"max_lag_s": float("nan")}, "max_lag"),
    ],
)
def test_wrong_numbers_are_errors(named: dict[str, float], message: str) -> None:
    """A capacity or a lag that is no positive number is an error that names it."""
    settings = {"capacity": 1.0, "max_lag_s": 1.0} | named
    with pytest.raises(InvalidConfigError, match=message):
        size_group(constant_load({"t": 1}, 1.0), strategy="range", **settings)


def test_the_verb_needs_numbers_without_a_run() -> None:
    """`pg.size` names the argument that is missing."""
    with pytest.raises(InvalidConfigError, match="topics and a rate"):
        pg.size()
    with pytest.raises(InvalidConfigError, match="capacity"):
        pg.size(topics={"t": 1}, rate=1.0)
    with pytest.raises(InvalidConfigError, match="no records"):
        pg.size(topics={"t": 1}, rate=0.0, capacity=1.0)


def test_each_number_of_consumers_is_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumers join once; the busiest one leaves the same simulated group."""
    changes = []
    apply = GroupSimulation.apply_change

    def counted(simulation: GroupSimulation, change: Change) -> None:
        changes.append(type(change).__name__)
        apply(simulation, change)

    monkeypatch.setattr(GroupSimulation, "apply_change", counted)
    found = pg.size(topics={"orders": 4}, rate=10.0, capacity=5.0)
    assert changes == ["Join", *["Join", "Leave"] * 4]
    assert [row.consumers for row in found.rows] == [1, 2, 3, 4, 5]


def test_the_topics_of_a_load_are_counted_once() -> None:
    """A group of many consumers reads them for each one."""
    load = constant_load({"orders": 4, "clicks": 2}, 1.0)
    assert load.topics == {"orders": 4, "clicks": 2}
    assert load.topics is load.topics


def test_progress_counts_the_simulated_members() -> None:
    """The function is called after each number of consumers, and ends at the total."""
    calls: list[tuple[str, int, int]] = []
    pg.size(
        topics={"t": 4}, rate=10.0, capacity=5.0, progress=lambda *call: calls.append(call)
    )  # fmt: skip
    assert calls == [("size", done, 15) for done in (1, 3, 6, 10, 15)]


def test_a_sizing_prints_as_a_table() -> None:
    """The representation has a line with the result, and one row for each number of consumers."""
    lines = repr(pg.size(topics={"t": 4}, rate=10.0, capacity=5.0)).splitlines()
    assert lines[0].startswith("Sizing(range: needed 5, useful 4, limit None; 10 records/s")
    assert [line.split()[0] for line in lines[1:]] == ["consumers", "1", "2", "3", "4", "5"]
