"""Sums of table ``replays`` by policy, computed as the metrics table declares.

Workers sum what they write, the driver adds up workers, and the report sums a published table: all
by `sum_rows` and `add_sums`. Sums are plain dictionaries, so that they travel as JSON. A metric has
these entries in them:

| aggregation | entries |
|---|---|
| count, sum, maximum | ``name`` |
| mean | ``name`` (a sum) and ``name_known`` (rows with a value) |
| interval sum, difference | ``name_low``, ``name_high``, and ``name_known`` |
| estimate sum | ``name_best``, ``name_below``, ``name_above``, squares of both, ``name_known`` |
| ratio | none: its parts have them |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.tables.metrics import BY_NAME, METRICS, Aggregation, Condition, Metric
from partage.tables.statuses import RECORDED

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Estimate",
    "FigureRange",
    "Sums",
    "add_sums",
    "count_flags",
    "empty_sums",
    "json_metrics",
    "metric_value",
    "sum_differences",
    "sum_rows",
]  # fmt: skip

#: Entries of the metrics; a maximum is None where no row has a value.
Sums = dict[str, Any]
_INTERVALS = {Aggregation.INTERVAL, Aggregation.DIFFERENCE}
#: Entries of an estimate: sums over rows of the best estimate, of the distances to the 10th and the
#: 90th percentile, and of the squares of these distances.
_OF_ESTIMATE = ("best", "below", "below_square", "above", "above_square", "known")
#: Correlation of the errors of two rebalances: clients of one recording behave alike.
_CORRELATION = 0.3
_MAXIMA = frozenset(m.name for m in METRICS if m.aggregation is Aggregation.MAXIMUM)


@dataclass(frozen=True, slots=True)
class FigureRange:
    """Lower and upper bound of a metric whose exact value is unknown.

    The unit is partition-seconds (seconds summed over partitions) unless stated otherwise.

    >>> FigureRange(1.0, 2.0) + FigureRange(0.5, 4.0)
    FigureRange(low=1.5, high=6.0)
    """

    low: float
    high: float

    def __add__(self, other: FigureRange) -> FigureRange:
        return FigureRange(self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Best estimate of a metric, with the bounds of its 80 % interval (10th and 90th percentile).

    The unit is partition-seconds (seconds summed over partitions) unless stated otherwise.

    >>> Estimate.from_sums(10, below=(4, 16), above=(6, 36))
    Estimate(best=10, low=6.0, high=16.0)
    """

    best: float
    low: float
    high: float

    @classmethod
    def from_sums(
        cls, best: float, below: tuple[float, float], above: tuple[float, float]
    ) -> Estimate:
        """Estimate the sum of several uncertain values, with an 80 % interval that is cut at 0.

        An example is the downtime of a group, summed over its rebalances. The errors of the values
        are assumed to be equally correlated. With correlation r, the variance of the sum is (1 - r)
        times the sum of the squared errors plus r times the square of their sum.

        Args:
            best: sum of the best estimates.
            below: sum of the distances to the 10th percentiles, and sum of their squares.
            above: sum of the distances to the 90th percentiles, and sum of their squares.
        """
        down, up = (_distance_to_percentile(*sums) for sums in (below, above))
        return cls(best, max(0.0, best - down), best + up)

    @classmethod
    def from_differences(cls, parts: Iterable[Estimate]) -> Estimate:
        """Estimate the sum of uncertain values that may be negative, such as seconds saved.

        ``parts`` are the estimates of the single values. Unlike in `from_sums`, the 80 % interval
        of the sum may go below 0.

        >>> Estimate.from_differences([Estimate(-10, -14, -6)])
        Estimate(best=-10, low=-14.0, high=-6.0)
        """
        known = list(parts)
        best = sum(one.best for one in known)
        below, above = [o.best - o.low for o in known], [o.high - o.best for o in known]
        down, up = (
            _distance_to_percentile(sum(of), sum(d * d for d in of)) for of in (below, above)
        )
        return cls(best, best - down, best + up)

    @property
    def excludes_zero(self) -> bool:
        """Return whether zero lies outside the 80 % interval of this estimate.

        A report shows the sign of a difference, such as time saved, only in this case.
        """
        return self.low > 0 or self.high < 0


def _distance_to_percentile(total: float, squares: float) -> float:
    """Return the distance between the best estimate of a sum and its 10th or 90th percentile.

    The summands are uncertain values, whose errors are assumed to be equally correlated.

    Args:
        total: sum of the values' own distances to the percentile.
        squares: sum of the squares of these distances.
    """
    return sqrt((1 - _CORRELATION) * squares + _CORRELATION * total * total)


def sum_rows(rows: pa.Table, keys: Sequence[str]) -> list[Sums]:
    """Add up the metrics of simulated rebalances, grouped by columns such as group and policy.

    Args:
        rows: rows of table ``replays``: one per rebalance and simulated policy.
        keys: names of the columns to group by.

    Returns:
        one dict for each combination of key values. It has the key values and the sums from which
            `metric_value` computes each metric.
    """
    table = rows.select(list(keys))
    how: dict[str, str] = {}
    for metric in METRICS:
        for entry, column in _columns_to_sum(metric, rows).items():
            table = table.append_column(entry, column)
            how[entry] = "max" if metric.name in _MAXIMA else "sum"
    found = table.group_by(list(keys)).aggregate(list(how.items()))
    names = [*keys, *(f"{entry}_{function}" for entry, function in how.items())]
    sums: list[Sums] = found.select(names).rename_columns([*keys, *how]).to_pylist()
    return sums


def _columns_to_sum(metric: Metric, rows: pa.Table) -> dict[str, Any]:
    """Return the columns whose sums are needed to compute a metric.

    The result is a dict from name to column, with one value per row of ``rows``. For example, a
    mean needs two columns: the values, and flags that count the known values. For a maximum, the
    column is the one whose largest value is taken.
    """
    from pyarrow import compute as pc

    name, how = metric.name, metric.aggregation
    if how is Aggregation.COUNT:
        return {name: count_flags(_meets_all(metric.where, rows))}
    if how is Aggregation.MAXIMUM:
        return {name: rows[metric.input_columns[0]]}
    if how is Aggregation.SUM:
        column = pc.fill_null(rows[metric.input_columns[0]], 0)
        is_whole = metric.columns[0][1].startswith("int")
        return {name: pc.cast(column, "int64" if is_whole else "double")}
    if how is Aggregation.MEAN:
        column = rows[metric.input_columns[0]]
        return {name: pc.fill_null(column, 0), f"{name}_known": count_flags(pc.is_valid(column))}
    if how is Aggregation.INTERVAL:
        low, high = (rows[column] for column in metric.input_columns)
        known = count_flags(pc.is_valid(high))
        bounds = {f"{name}_low": pc.fill_null(low, 0), f"{name}_high": pc.fill_null(high, 0)}
        return {**bounds, f"{name}_known": known}
    if how is Aggregation.ESTIMATE:
        return dict(zip(_estimate_entries(name), _estimate_columns(metric, rows), strict=True))
    return {}


def _estimate_entries(name: str) -> list[str]:
    return [f"{name}_{entry}" for entry in _OF_ESTIMATE]


def _estimate_columns(metric: Metric, rows: pa.Table) -> list[Any]:
    """Return the six columns whose sums give the estimate of a metric with its 80 % interval.

    These are the best estimate, the distance to the 10th percentile and its square, the distance to
    the 90th percentile and its square, and a flag. The flag is 1 if the row has an estimate.
    """
    from pyarrow import compute as pc

    best, p10, p90 = (pc.fill_null(pc.cast(rows[c], "double"), 0) for c in metric.input_columns)
    below, above = pc.subtract(best, p10), pc.subtract(p90, best)
    known = count_flags(pc.is_valid(rows[metric.input_columns[0]]))
    return [best, below, pc.multiply(below, below), above, pc.multiply(above, above), known]


def _meets_all(conditions: Iterable[Condition], rows: pa.Table) -> Any:
    from pyarrow import compute as pc

    masks = [_meets(one, rows) for one in conditions]
    found = masks[0]
    for mask in masks[1:]:
        found = pc.and_(found, mask)
    return found


def _meets(condition: Condition, rows: pa.Table) -> Any:
    # A null does not meet a condition, except ``is not``.
    from pyarrow import compute as pc

    column, operand = rows[condition.column], condition.operand
    if condition.test == "is known":
        return pc.is_valid(column)
    if condition.test == "is not":
        return pc.fill_null(pc.not_equal(column, operand), True)
    compare = pc.greater if condition.test == "above" else pc.equal
    other = rows[str(operand)] if condition.test == "equals" else operand
    return pc.fill_null(compare(column, other), False)


def count_flags(mask: Any) -> Any:
    """Convert a column of booleans (``mask``) to integers, so that its sum counts the true values.

    True becomes 1. False and null become 0.
    """
    from pyarrow import compute as pc

    return pc.cast(pc.fill_null(mask, False), "int64")


def sum_differences(
    rows: pa.Table, metric: Metric, keys: Sequence[str], rebalance: Sequence[str]
) -> list[Sums]:
    """Add up the downtime that each simulated policy (group configuration) saves.

    It is compared with the downtime of a base policy: the time in which partitions have no consumer
    because of a rebalance. The saved time of a rebalance is a range with a lower and an upper
    bound. It is negative if the policy has more downtime.

    Args:
        rows: rows of table ``replays``: one per rebalance and simulated policy.
        metric: a metric with aggregation `DIFFERENCE`; its source is the base policy.
        keys: names of the columns to group by, including ``policy``.
        rebalance: names of the columns that identify a rebalance under all policies.

    Returns:
        one dict for each combination of key values: the key values and the summed bounds.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    low, high = BY_NAME["stopped"].input_columns
    rows = rows.select(list(dict.fromkeys([*rebalance, *keys, "policy", low, high])))
    known = rows.filter(pc.and_(pc.is_valid(rows[low]), pc.is_valid(rows[high])))
    place, key = _number_rows(known, rebalance), _number_rows(known, keys)
    pair, size = _to_dense_numbers(place * (int(key.max(initial=0)) + 1) + key)
    first = _first_positions(pair, size)
    bounds = np.array([np.bincount(pair, known[column].to_numpy(), size) for column in (low, high)])
    policy = known["policy"].take(pa.array(first))
    is_base = _to_mask(pc.equal(policy, metric.input_columns[0]))
    # The bounds of the base policy by rebalance; NaN for a rebalance without the base policy.
    base = np.full((2, int(place.max(initial=-1)) + 1), np.nan)
    base[:, place[first[is_base]]] = bounds[:, is_base]
    change = base[:, place[first]] - bounds
    found = _to_mask(pc.not_equal(policy, RECORDED)) & ~np.isnan(change[0])
    first, change = first[found], change[:, found]
    which, size = _to_dense_numbers(key[first])
    table = known.select(list(keys)).take(pa.array(first[_first_positions(which, size)]))
    for end, ends in (("low", change.min(axis=0)), ("high", change.max(axis=0))):
        column = pa.array(np.bincount(which, ends, size))
        table = table.append_column(f"{metric.name}_{end}", column)
    table = table.append_column(
        f"{metric.name}_known", pa.array(np.bincount(which, minlength=size))
    )
    sums: list[Sums] = table.to_pylist()
    return sums


#: Largest number that codes of several columns are combined to, below the limit of int64.
_MAX_NUMBER = 2**62
#: Largest number up to which numbers are made dense with a table instead of by sorting.
_MAX_TABLE = 2**24


def _number_rows(table: pa.Table, columns: Sequence[str]) -> NDArray[np.int64]:
    """Number the rows of a table so that rows with equal values in some columns share a number.

    For example, the values a, b, a become 0, 1, 0. Integers are faster to group by than strings.
    """
    from pyarrow import compute as pc

    number, size = np.zeros(table.num_rows, np.int64), 1
    for column in columns:
        codes = pc.dictionary_encode(table[column], null_encoding="encode")
        code = codes.combine_chunks().indices.to_numpy() if table.num_rows else number
        values = int(code.max(initial=0)) + 1
        if size * values > _MAX_NUMBER:
            number, size = _to_dense_numbers(number)
        number, size = number * values + code, size * values
    return _to_dense_numbers(number)[0]


def _to_dense_numbers(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Replace the distinct values of an array by 0, 1 and so on, in the same order.

    The array has non-negative integers; 7, 3, 7 becomes 1, 0, 1. Also return the number of distinct
    values.
    """
    most = int(numbers.max(initial=-1)) + 1
    if most > _MAX_TABLE:
        known, dense = np.unique(numbers, return_inverse=True)
        return dense, len(known)
    is_used = np.zeros(most, np.int64)
    is_used[numbers] = 1
    position = np.cumsum(is_used)
    return position[numbers] - 1, int(position[-1]) if most else 0


def _first_positions(numbers: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the index at which each of the numbers 0 to ``size - 1`` first occurs in an array.

    For example, 1, 0, 1 becomes 1, 0.
    """
    first = np.zeros(size, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first


def _to_mask(flags: Any) -> NDArray[np.bool_]:
    from pyarrow import compute as pc

    found: NDArray[np.bool_] = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    return found


def empty_sums() -> Sums:
    """Return the start value for adding up the metrics of rebalances with `add_sums`.

    It is a new dict in which all sums are 0 and all maxima are None.
    """
    return dict(_empty_sums())


@cache
def _empty_sums() -> Sums:
    # Cached, because a report needs them for each group and policy.
    found: Sums = {}
    for metric in METRICS:
        if metric.aggregation in _INTERVALS:
            found |= {f"{metric.name}_{end}": 0 for end in ("low", "high", "known")}
        elif metric.aggregation is Aggregation.ESTIMATE:
            found |= dict.fromkeys(_estimate_entries(metric.name), 0)
        elif metric.aggregation is not Aggregation.RATIO:
            found[metric.name] = None if metric.name in _MAXIMA else 0
        if metric.aggregation is Aggregation.MEAN:
            found[f"{metric.name}_known"] = 0
    return found


def add_sums(sums: Mapping[str, Any], other_sums: Mapping[str, Any]) -> Sums:
    """Add up the metric sums of two disjoint sets of rebalances.

    Both arguments are dicts from sum name to value. For a metric that is a maximum, the result has
    the larger of both values.

    >>> add_sums({"moved": 1, "largest_spread": None}, {"moved": 2, "largest_spread": 3})
    {'moved': 3, 'largest_spread': 3}
    """
    found = dict(sums)
    for name, value in other_sums.items():
        if name in _MAXIMA:
            known = [v for v in (found.get(name), value) if v is not None]
            found[name] = max(known, default=None)
        else:
            found[name] = found.get(name, 0) + value
    return found


def metric_value(metric: Metric, sums: Mapping[str, Any]) -> Any:
    """Compute the value of a metric, such as moved partitions, from its sums over rebalances.

    ``sums`` is a dict that `sum_rows` returned. The result is a number, a `FigureRange` or an
    `Estimate`; None if the value is unknown.

    >>> metric_value(BY_NAME["evenness"], empty_sums() | {"even": 1, "judged": 4})
    0.25
    """
    name, how = metric.name, metric.aggregation
    # Comparisons by identity are faster than a lookup in a set, which hashes the member's name.
    if how is Aggregation.INTERVAL or how is Aggregation.DIFFERENCE:
        known = sums[f"{name}_known"]
        return FigureRange(sums[f"{name}_low"], sums[f"{name}_high"]) if known else None
    if how is Aggregation.ESTIMATE:
        best, *distances, known = (sums[entry] for entry in _estimate_entries(name))
        below, below_square, above, above_square = distances
        found = Estimate.from_sums(best, (below, below_square), (above, above_square))
        return found if known else None
    if how is Aggregation.MEAN:
        return sums[name] / sums[f"{name}_known"] if sums[f"{name}_known"] else None
    if how is Aggregation.RATIO:
        part, whole = (sums[source] for source in metric.input_columns)
        return part / whole if whole else None
    return sums[name]


def json_metrics(sums: Mapping[str, Any]) -> dict[str, Any]:
    """Convert metric sums over rebalances to a dict for a JSON document, with one field per metric.

    A range becomes ``{"low": ..., "high": ...}``. An estimate is a range with a field ``best``.
    Differences between policies are left out if ``sums`` does not have them.

    >>> found = json_metrics(empty_sums() | {"moved": 2})
    >>> found["moved"], found["stopped_partition_seconds"]
    (2, None)
    """
    found = {
        metric.json_key: metric_value(metric, sums)
        for metric in METRICS
        if metric.aggregation is not Aggregation.DIFFERENCE or f"{metric.name}_low" in sums
    }
    return {
        key: {name: round(number, 3) for name, number in asdict(value).items()}
        if isinstance(value, FigureRange | Estimate) else value
        for key, value in found.items()
    }  # fmt: skip
