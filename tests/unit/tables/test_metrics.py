"""The metrics table and its sums: declarations, sums by column, JSON fields."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from partage.tables.metrics import (
    BY_NAME,
    METRICS,
    OWN,
    REPLAY_COLUMNS,
    Aggregation,
    Condition,
    OutputLevel,
)
from partage.tables.schemas import COLUMNS, table_schema
from partage.tables.statuses import CUMULATIVE, RECORDED, STATUSES
from partage.tables.sums import (
    Estimate,
    FigureRange,
    add_sums,
    empty_sums,
    json_metrics,
    metric_value,
    sum_differences,
    sum_rows,
)

KEY = ["group", "policy"]


def replays(rows: list[dict]) -> pa.Table:
    names = table_schema("replays").names
    return pa.Table.from_pylist(
        [{name: row.get(name) for name in names} for row in rows],
        pa.schema([field.with_nullable(True) for field in table_schema("replays")]),
    )


def random_rows(seed: int, size: int = 60) -> list[dict]:
    chance = random.Random(seed)
    rows = []
    for i in range(size):
        low = chance.choice([None, chance.uniform(0, 5)])
        row = {
            "group": chance.choice("ab"), "policy": chance.choice(["x", RECORDED]),
            "incarnation": 0, "generation": i, "step": chance.choice([0, 0, 1]),
            "status": chance.choice(STATUSES), "caused": chance.choice([True, True, False, None]),
            "claimed": chance.random() < 0.5, "counts": chance.random() < 0.5,
            "agrees": chance.choice([True, False, None]),
        }  # fmt: skip
        row |= {name: chance.choice([None, 0, 1, 4]) for name, _, _ in REPLAY_COLUMNS}
        rows.append(row | {"stopped_at_least_ps": low, "stopped_at_most_ps": low and low + 1})
    return rows


def meets(one: Condition, row: dict) -> bool:
    value = row[one.column]
    return {
        "is": lambda: value == one.operand,
        "is not": lambda: value != one.operand,
        "is known": lambda: value is not None,
        "above": lambda: value is not None and value > one.operand,
        "equals": lambda: value is not None and value == row[one.operand],
    }[one.test]()


def by_hand(rows: list[dict]) -> dict:
    """Return the sums of some rows, one value after the other."""
    found = empty_sums()
    for row in rows:
        for metric in METRICS:
            name, how = metric.name, metric.aggregation
            if how is Aggregation.COUNT:
                found[name] += all(meets(one, row) for one in metric.where)
                continue
            if how in {Aggregation.RATIO, Aggregation.DIFFERENCE}:
                continue
            values = [row[column] for column in metric.input_columns]
            if how is Aggregation.ESTIMATE:
                best, p10, p90 = (value or 0 for value in values)
                for end, distance in (("below", best - p10), ("above", p90 - best)):
                    found[f"{name}_{end}"] += distance
                    found[f"{name}_{end}_square"] += distance**2
                found[f"{name}_best"] += best
                found[f"{name}_known"] += values[0] is not None
                continue
            if how is Aggregation.INTERVAL:
                found[f"{name}_low"] += values[0] or 0
                found[f"{name}_high"] += values[1] or 0
                found[f"{name}_known"] += values[1] is not None
            elif how is Aggregation.MAXIMUM:
                known = [v for v in (found[name], values[0]) if v is not None]
                found[name] = max(known, default=None)
            else:
                found[name] += values[0] or 0
                if how is Aggregation.MEAN:
                    found[f"{name}_known"] += values[0] is not None
    return found


@pytest.mark.parametrize("seed", range(5))
def test_sums_by_column_equal_sums_by_row(seed: int) -> None:
    """The sums of a table equal those added up row by row, for each key and each metric."""
    rows = random_rows(seed)
    found = sum_rows(replays(rows), KEY)
    assert len(found) == len({(row["group"], row["policy"]) for row in rows})
    for sums in found:
        key = sums.pop("group"), sums.pop("policy")
        wanted = by_hand([row for row in rows if (row["group"], row["policy"]) == key])
        assert {**empty_sums(), **sums} == pytest.approx(wanted)


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_parts_add_up_to_the_whole(seed: int) -> None:
    """Sums of two halves, added up, are the sums of all rows."""
    rows = random_rows(seed)
    whole, first, second = (
        {(s.pop("group"), s.pop("policy")): s for s in sum_rows(replays(part), KEY)}
        for part in (rows, rows[:20], rows[20:])
    )
    for key, sums in whole.items():
        added = add_sums(first.get(key, {}), second.get(key, {}))
        assert added == pytest.approx(sums)


def test_a_difference_is_a_range_of_each_rebalance() -> None:
    """The saving of each rebalance lies between the differences of its bounds, in their order."""
    rows = [
        {"group": "g", "incarnation": 0, "generation": n, "policy": policy, "reading": CUMULATIVE,
         "stopped_at_least_ps": low, "stopped_at_most_ps": high}
        for n, policy, low, high in (
            (1, RECORDED, 2.0, 10.0), (1, "x", 1.0, 4.0),
            (2, RECORDED, 3.0, 4.0), (2, "x", 3.5, 3.5),
            (3, RECORDED, 3.0, 4.0), (3, "x", None, None),
        )
    ]  # fmt: skip
    place = ["group", "incarnation", "generation"]
    (sums,) = sum_differences(replays(rows), BY_NAME["saved"], KEY, place)
    assert metric_value(BY_NAME["saved"], sums) == FigureRange(0.5, 6.5)
    assert sums["saved_known"] == 2
    assert sum_differences(replays(rows), BY_NAME["saved_against_own"], KEY, place) == []


def test_an_estimate_of_a_sum_is_narrower_than_the_sum_of_its_intervals() -> None:
    """Errors of several rebalances partly cancel out; those of a single one do not."""
    rows = [
        {"group": "g", "policy": RECORDED, "stopped_ps": 10.0, "stopped_p10_ps": 6.0,
         "stopped_p90_ps": 16.0}
    ] * 4 + [{"group": "g", "policy": RECORDED}]  # fmt: skip
    one, four = (sum_rows(replays(part), KEY)[0] for part in (rows[3:], rows))
    assert metric_value(BY_NAME["stopped_estimate"], one) == Estimate(10.0, 6.0, 16.0)
    found = metric_value(BY_NAME["stopped_estimate"], four)
    assert found.best == 40
    assert 24 < found.low < 36
    assert 46 < found.high < 64
    assert four["stopped_estimate_known"] == 4
    (none,) = sum_rows(replays(rows[4:]), KEY)
    assert metric_value(BY_NAME["stopped_estimate"], none) is None


def test_sums_without_differences_have_a_document() -> None:
    """The JSON fields of a worker's sums lack differences between policies, and nothing else."""
    (sums,) = sum_rows(replays(random_rows(1)), ["reading"])
    del sums["reading"]
    keys = {m.json_key for m in METRICS if m.aggregation is not Aggregation.DIFFERENCE}
    assert set(json_metrics(sums)) == keys
    assert set(json_metrics(empty_sums())) == {m.json_key for m in METRICS}


def test_each_metric_is_declared_completely() -> None:
    """Names are unique, sources exist, and each shown metric has a label and a help text."""
    assert len(BY_NAME) == len(METRICS) == len({m.json_key for m in METRICS})
    columns = {name for name, _, _ in COLUMNS["replays"]}
    for metric in METRICS:
        assert metric.help
        assert metric.label or metric.shown is OutputLevel.DATA
        if metric.aggregation is Aggregation.RATIO:
            assert set(metric.input_columns) <= set(BY_NAME)
        elif metric.aggregation is Aggregation.DIFFERENCE:
            assert set(metric.input_columns) <= {RECORDED, OWN}
        else:
            assert set(metric.input_columns) | {one.column for one in metric.where} <= columns
