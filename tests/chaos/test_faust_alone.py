"""Faust workers while brokers die, one after the other: stock groups beside ours, nothing else."""

from __future__ import annotations

import os
import random
import time

import pytest
from tests.support.brokers import brokers

from chaos.faust_history import given, given_otherwise
from chaos.fausts import OURS, PARTITIONS, Fausts
from chaos.history import captured

pytestmark = [pytest.mark.jvm, pytest.mark.soak]

MINUTES = float(os.environ.get("PARTAGE_SOAK_MINUTES", "3"))
CALM = 45.0  # before the first death, in which nothing is excused
SEED = int(os.environ.get("PARTAGE_SOAK_SEED", "8"))


def test_who_owns_what_is_right_whatever_workers_make_of_it(tmp_path, capsys) -> None:
    """In every generation words, table, leader and standbys are where they belong, under Faust's class
    and ours; what workers lose, and where they stand still, is printed for both.
    """
    draw, deaths = random.Random(SEED), []
    with brokers(3) as cluster:
        groups = [
            Fausts(cluster, tmp_path, f"{name}-{number}", kinds, deaths=deaths)
            for name, kinds in (("stock", ("stock",)), ("ours", OURS)) for number in range(2)
        ]  # fmt: skip
        time.sleep(CALM)
        end = time.monotonic() + 60 * MINUTES
        while time.monotonic() < end:
            time.sleep(draw.uniform(3, 8))
            broker = draw.choice(cluster.brokers)
            deaths.append(time.monotonic())
            (broker.kill if draw.random() < 0.5 else broker.stop)()
            time.sleep(draw.uniform(2, 10))
            broker.start()
            deaths.append(time.monotonic())
        for one in groups:
            one.close()
        whole = captured(cluster.bootstrap, tmp_path / "whole")
    wrong = [said for one in groups for said in one.violations]
    wrong += [said for one in groups[2:] for stock in groups[:1] for said in one.worse_than(stock)]
    with capsys.disabled():
        print(f"\n{len(deaths) // 2} times a broker was killed or stopped")
        for one in groups:
            log = given(whole, one.app)
            assert len(log) >= one.killed > 0
            wrong += given_otherwise(one.app, PARTITIONS, log)
            print(f"{one.summary()}, {len(log)} generations")
            for said in (*one.lost, *one.stood, *one.died):
                print(f"  {said[:400]}")
    assert not wrong, "\n".join(wrong)
