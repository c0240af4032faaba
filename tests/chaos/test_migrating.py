"""Live migrations by the steps of `partage migrate`: nothing is read twice at once or lost."""

from __future__ import annotations

import pytest
from tests.chaos.migrating import double_readers, migrate_live, table

from partage.forecasts.migration import BLOCKED, DONE


def test_two_readers_of_a_partition_are_found() -> None:
    """A second member is assigned a partition before the first one has given it up."""

    def row(at: int, what: str, member: str) -> dict:
        return {"ts_ms": at, "group": "g", "ev": what, "id": member, "parts": [["t", [0]]]}

    clean = [row(1, "assigned", "a"), row(2, "revoked", "a"), row(3, "assigned", "b")]
    assert double_readers(clean, "g") == []
    assert double_readers([clean[0], clean[2]], "g") == ["t-0 was read by a and b"]


@pytest.mark.jvm
@pytest.mark.soak
def test_groups_migrate_and_go_back_by_the_printed_steps(tmp_path, capsys) -> None:
    """Java, kafka-python and librdkafka groups on three brokers: to the consumer protocol, or to
    cooperative rebalances, and back. Each partition has one owner after each step, offsets never
    go back, and a rebalance more or less than simulated is all that differs.
    """
    outcomes = migrate_live(tmp_path, seed=7)
    with capsys.disabled():
        print(f"\n{table(outcomes)}")
    for one in outcomes:
        assert not one["violations"], one
        if one["status"] == BLOCKED:
            continue
        assert one["status_after"] == DONE
        assert one["back"].startswith("classic")
        assert one["rebalances"][1] == pytest.approx(one["forecast"]["rebalances"], abs=3)
    tried = {claim: seen for one in outcomes for claim, seen in one["tried"]}
    assert len(tried) == 4
    assert any("cannot be set when group.protocol" in seen for seen in tried.values())
    assert any("UnreleasedInstanceId" in seen for seen in tried.values())
