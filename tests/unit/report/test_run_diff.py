"""Rates of recordings, and the comparison of two runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from tests.support.compared_runs import HOUR_MS, made_run

from partage.report.rates import CAUSE, MOVED, REBALANCES, UNREAD, Rate, read_recording
from partage.report.run_diff import (
    BETTER,
    NOISE,
    UNKNOWN,
    WORSE,
    _beta_cdf,
    compare_rates,
    diff_document,
    diff_runs,
)
from partage.tables.metrics import BY_NAME
from partage.tables.sums import Estimate


def test_rates_count_episodes_and_not_the_first_rebalance(tmp_path) -> None:
    """Follow-ups and storms are one episode; the first rebalance is no rebalance by the hour."""
    out = made_run(tmp_path, {"g": [
        {"cause_kind": "first"}, {"unread": 60.0}, {"unread": 20.0, "follow_up": True},
        {"unread": 30.0, "storm": 0}, {"unread": 10.0, "storm": 0}, {"unread": 0.0, "moved": 5},
    ]})  # fmt: skip
    rates = read_recording(out).groups["g"]
    unread = rates.rates[UNREAD]
    # Two partitions, assigned for the whole hour.
    assert (unread.total, unread.hours, unread.per_hour) == (120.0, 2.0, 60.0)
    assert (unread.squares, unread.episodes) == (80.0**2 + 40.0**2, 2)
    assert (rates.rates[REBALANCES].total, rates.rates[REBALANCES].episodes) == (5.0, 3)
    assert rates.rates[REBALANCES].squares == 2**2 + 2**2 + 1
    assert rates.rates[MOVED].per_hour == 5.0
    assert rates.rates[f"{CAUSE}join"].total == 5.0
    assert rates.has_enough_generations


def test_coverage_counts_what_is_missing_after_the_first_recorded_generation(tmp_path) -> None:
    """A group that was old when the recording began is covered; gaps in the recording count."""
    steps = [{"cause_kind": "first", "gap_before": 500}, {"unread": 1.0}, {"unread": 1.0}]
    out = made_run(tmp_path, {"old": steps, "gaps": [*steps, {"unread": 1.0, "gap_before": 4}]})
    groups = read_recording(out).groups
    assert groups["old"].has_enough_generations
    assert (groups["gaps"].coverage, groups["gaps"].has_enough_generations) == (0.5, False)
    assert "50%" in groups["gaps"].why_unknown


def test_a_group_without_rebalances_lost_nothing(tmp_path) -> None:
    """Only the first rebalance: zero, which is known; a run without estimates is unknown."""
    out = made_run(tmp_path, {"calm": [{"cause_kind": "first"}],
                              "old": [{"cause_kind": "first"}, {"unread": None}]})  # fmt: skip
    groups = read_recording(out).groups
    assert groups["calm"].rates[UNREAD].per_hour == 0.0
    assert groups["old"].hourly_rate(UNREAD) is None
    assert "no estimate" in groups["old"].why_unknown


@pytest.mark.parametrize(
    ("x", "a", "b", "value"),
    [(0.5, 2, 3, 0.6875), (0.25, 0.5, 0.5, 1 / 3), (0.3, 1, 1, 0.3), (0.9, 40, 2, 0.071999)],
)
def test_the_beta_distribution_has_its_known_values(x, a, b, value) -> None:
    """Closed forms, and a binomial tail: P(Bin(41, 0.9) >= 40) is I(0.9; 40, 2)."""
    if (a, b) == (40, 2):
        value = sum(math.comb(41, k) * 0.9**k * 0.1 ** (41 - k) for k in (40, 41))
    assert _beta_cdf(math.log(x / (1 - x)), a, b) == pytest.approx(value, rel=1e-9)


def _recording(chance: np.random.Generator, mean: float, hours: float) -> Rate:
    """Return a recording of episodes of very different size, ``mean`` of them per hour."""
    sizes = chance.lognormal(0, 1, chance.poisson(mean * hours))
    total = float(sizes.sum())
    error = 0.2 * total
    interval = Estimate(total, total - 1.28 * error, total + 1.28 * error)
    measured = max(0.0, total + error * chance.standard_normal())
    return Rate(measured, float((sizes**2).sum()), len(sizes), hours, interval)


def test_equal_rates_are_seldom_called_different() -> None:
    """Of 300 pairs of recordings with equal rates and different length, about 5 %; seed fixed."""
    chance = np.random.default_rng(22)
    pairs = [(_recording(chance, mean, 1), _recording(chance, mean, 3))
             for mean in (2, 10, 50) for _ in range(100)]  # fmt: skip
    called = sum(compare_rates(one, other).verdict != NOISE for one, other in pairs)
    assert 0 < called / len(pairs) <= 0.11  # 0.05 to 0.07 with other seeds


def test_a_large_difference_is_found() -> None:
    """A quarter of the rate, with forty episodes and more: found in most of 50 pairs."""
    chance = np.random.default_rng(22)
    pairs = [(_recording(chance, 40, 3), _recording(chance, 10, 4)) for _ in range(50)]
    verdicts = [compare_rates(one, other).verdict for one, other in pairs]
    assert verdicts.count(BETTER) >= 35  # 42 to 46 with other seeds
    assert WORSE not in verdicts


def test_the_metrics_table_says_which_direction_is_better() -> None:
    """The same difference is better or worse by the metric's declaration."""
    few, many = Rate(3, 3, 3, 1), Rate(60, 60, 60, 1)
    assert BY_NAME["stopped_estimate"].better == "lower"
    assert compare_rates(few, many, better="lower").verdict == WORSE
    assert compare_rates(few, many, better="higher").verdict == BETTER
    assert compare_rates(many, few, better="lower").verdict == BETTER


def test_many_comparisons_need_a_larger_difference() -> None:
    """The interval widens with the number of groups; zero and unknown have no interval."""
    one, other = Rate(10, 10, 10, 1), Rate(24, 24, 24, 1)
    assert compare_rates(one, other).verdict == WORSE
    assert compare_rates(one, other, comparisons=100).verdict == NOISE
    assert compare_rates(Rate(hours=1), Rate(hours=9)).ratio is None
    assert compare_rates(one, replace(other, hours=0)).verdict == UNKNOWN
    # Zero against five: outside the noise; zero against one is not.
    assert compare_rates(Rate(5, 5, 5, 1), Rate(hours=1)).verdict == BETTER
    assert compare_rates(Rate(1, 1, 1, 1), Rate(hours=1)).verdict == NOISE


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Before and after: `fixed` improves, `same` stays, `gap` is unknown, two are in one run."""
    first = {"cause_kind": "first"}
    busy = [first, *({"unread": 30.0 + i, "cause_kind": "expiry", "moved": 2} for i in range(30))]
    calm = [first, *({"unread": 3.0, "cause_kind": "join"} for _ in range(5))]
    gap = [first, {"unread": 9.0, "gap_before": 9}]
    folder = tmp_path_factory.mktemp("runs")
    before = made_run(
        folder / "a", {"fixed": busy, "same": calm, "gap": gap, "gone": calm}, session_ms=10_000
    )
    after = made_run(
        folder / "b", {"fixed": calm, "same": calm * 2, "gap": gap, "new": calm},
        session_ms=45_000, hours=2,
    )  # fmt: skip
    return read_recording(before), read_recording(after)


def test_two_runs_are_compared_by_group_and_in_total(runs) -> None:
    """Verdicts, changed settings, unknown groups, and groups of one run only."""
    found = diff_runs(*runs)
    by_name = {one.name: one for one in found.groups}
    assert {name: one.verdict for name, one in by_name.items()} == {
        "fixed": BETTER, "same": NOISE, "gap": UNKNOWN,
    }  # fmt: skip
    assert found.groups[0].name == "fixed"
    assert found.groups[-1].why_unknown.startswith("before and after: the log has 18%")
    assert (found.only_before, found.only_after) == (("gone",), ("new",))
    assert found.whole.verdict == BETTER
    assert by_name["fixed"].changes[REBALANCES].verdict == BETTER
    assert list(by_name["fixed"].causes) == ["expiry", "join"]
    session = next(one for one in by_name["fixed"].settings if one.name == "session.timeout.ms")
    assert session[1:] == ("10000", "45000")
    whole = found.whole.changes[UNREAD]
    # Only groups that are known in both runs: `fixed` and `same`, two partitions each.
    assert whole.before.hours == 4.0
    assert whole.after.hours == 8.0


def test_a_run_does_not_differ_from_itself(runs) -> None:
    """No verdict but noise and unknown, and a note."""
    found = diff_runs(runs[0], runs[0])
    assert {one.verdict for one in found.groups} == {NOISE, UNKNOWN}
    assert found.whole.changes[UNREAD].relative == 0
    assert not any(one.settings for one in found.groups)
    assert "both are the same run" in found.notes


def test_the_document_has_rates_intervals_and_verdicts(runs) -> None:
    """JSON: totals, hours, rates, shares, intervals; selected groups only."""
    found = diff_document(diff_runs(*runs, ["fixed"]))
    (group,) = found["groups"]
    assert (found["format"], found["version"], found["verdict"]) == ("partage-diff", 1, "better")
    before = group["unread"]["before"]
    assert before["share"] == pytest.approx(before["per_hour"] / 3_600)
    assert before["partition_seconds"]["low"] < before["total"]
    assert group["unread"]["ratio"]["high"] < 1
    assert group["causes"]["expiry"]["after"]["total"] == 0
    assert found["before"]["hours"] == pytest.approx(1.0)
    assert HOUR_MS == 3_600_000


def test_half_an_episode_is_added_to_each_count() -> None:
    """The interval for counts is that of Jeffreys' prior: gamma distributions of count + 1/2."""
    ratio = compare_rates(Rate(3, 3, 3, hours=10), Rate(30, 30, 30, hours=10)).ratio
    random = np.random.default_rng(1)
    drawn = random.gamma(30.5, size=400_000) / random.gamma(3.5, size=400_000)
    assert ratio is not None
    assert (ratio.low, ratio.high) == pytest.approx(np.quantile(drawn, (0.025, 0.975)), rel=0.02)


def test_a_comparison_prints_its_verdicts(tmp_path) -> None:
    """A notebook shows one line for all groups, and one for each group outside the noise."""
    first = {"cause_kind": "first"}
    calm = [first, {"unread": 1.0}]
    busy = [first, *({"unread": 60.0} for _ in range(40))]
    before = read_recording(made_run(tmp_path / "a", {"g": calm, "h": calm}))
    after = read_recording(made_run(tmp_path / "b", {"g": busy, "h": calm}))
    head, whole, group = repr(diff_runs(before, after)).splitlines()
    assert head.endswith(": 2 groups: 0 better, 1 worse, 1 within noise, 0 unknown")
    assert whole.startswith("all groups: +")
    assert group.startswith("g: +")
    assert group.endswith(" unread time, worse")
