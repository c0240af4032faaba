"""Weights move when loads do, and not for noise."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from partage.weights import BAND, compute_lags, record_rates, update_weights, valid_loads
from partage.weights.loads import is_load


def test_noise_within_the_band_changes_nothing_at_all() -> None:
    """A thousand looks at loads that waver by a tenth leave every weight exactly as it was."""
    chance = random.Random(7)
    loads = {("t", p): 10.0 * 1.3**p for p in range(12)}
    weights = update_weights({}, loads)
    first = dict(weights)
    for _ in range(1000):
        wavering = {one: load * chance.uniform(0.9, 1.1) for one, load in loads.items()}
        weights = update_weights(weights, wavering)
        assert weights == first


def test_a_change_of_all_is_no_change() -> None:
    """Traffic that doubles everywhere moves nothing: only shares count."""
    weights = update_weights({}, {("t", p): float(p + 1) for p in range(6)})
    assert update_weights(weights, {one: 2 * load for one, load in weights.items()}) == weights


def test_a_real_change_is_taken_at_once_and_alone() -> None:
    """The partition that became hot gets its new weight; the others keep theirs to the bit."""
    weights = update_weights({}, {("t", p): 5.0 for p in range(10)})
    hot = {**weights, ("t", 3): 50.0}
    now = update_weights(weights, hot)
    assert now["t", 3] > 20 * 0.5
    others = [one for one in weights if one != ("t", 3)]
    # All measured are scaled to the sum of before, so cold ones look colder: by more than the band.
    assert len({now[one] for one in others}) == 1


@pytest.mark.parametrize("factor", [1 + BAND * 0.9, 1 - BAND * 0.9])
def test_the_band_is_where_it_is_said_to_be(factor: float) -> None:
    """A share within a quarter of its weight is noise (the mean of many does not shift)."""
    weights = update_weights({}, {("t", p): 10.0 for p in range(100)})
    assert update_weights(weights, {**weights, ("t", 0): 10.0 * factor}) == weights


def test_a_silent_partition_keeps_a_little_weight() -> None:
    """Weight zero would pile all sleeping partitions on one member."""
    assert update_weights({}, {("t", 0): 100.0, ("t", 1): 0.0})["t", 1] == pytest.approx(0.5)


def test_loads_that_cannot_be_true_are_not_believed() -> None:
    """No number, infinite, negative: as if nobody had said anything."""
    odd = {("t", 0): float("nan"), ("t", 1): float("inf"), ("t", 2): -1.0}
    assert valid_loads(odd) == {}
    assert update_weights({("t", 0): 3.0}, odd) == {("t", 0): 3.0}


def test_measures_know_what_they_cannot_know() -> None:
    """Offsets that went back, and no time between two looks, say nothing."""
    assert record_rates({("t", 0): 5}, {("t", 0): 4}, 1.0) == {}
    assert record_rates({("t", 0): 5}, {("t", 0): 9}, 0.0) == {}
    assert compute_lags({("t", 0): 5}, {("t", 1): 9}) == {}


def test_a_number_that_is_no_float_is_no_load() -> None:
    """A class that calls itself a number and fails as one gives no load and no exception."""

    class Broken(Decimal):
        def __float__(self) -> float:
            raise TypeError

    assert not is_load(Broken(1))
