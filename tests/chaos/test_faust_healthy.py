"""Faust workers that are killed while all brokers are healthy: stock groups beside ours."""

from __future__ import annotations

import os
import time

import pytest
from tests.support.brokers import brokers

from chaos.fausts import Fausts

pytestmark = [pytest.mark.jvm, pytest.mark.soak]

MINUTES = float(os.environ.get("PARTAGE_SOAK_MINUTES", "4"))
#: Without a stock worker: only workers with our assignor have the guard.
OURS = ("faust", "faust:copartitioned")


def test_ours_lose_nothing_with_healthy_brokers(tmp_path, capsys) -> None:
    """Workers with our assignor process every acknowledged record, though one of two is killed all the
    time; what stock workers lose beside them is printed.
    """
    with brokers(3) as cluster:
        groups = [
            Fausts(cluster, tmp_path, f"{name}-{number}", kinds)
            for name, kinds in (("stock", ("stock",)), ("ours", OURS)) for number in range(2)
        ]  # fmt: skip
        time.sleep(60 * MINUTES)
        for one in groups:
            one.close()
    with capsys.disabled():
        for one in groups:
            print(f"\n{one.summary()}, {one.missed} records or counts missed")
            for said in (*one.stood, *one.died, *one.violations):
                print(f"  {said[:400]}")
    assert not [said for one in groups[2:] for said in one.violations]
    assert not sum(one.missed for one in groups[2:])
