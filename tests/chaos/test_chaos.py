"""It gets hurt: groups of all clients on three brokers, and everything that can happen to them."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest
from tests.clients.members import AIOKAFKA, KAFKA_PYTHON
from tests.support.brokers import brokers

from chaos import faults
from chaos.faust_history import given, given_otherwise
from chaos.fausts import PARTITIONS, Fausts
from chaos.history import (
    Recorder,
    assigned_otherwise,
    captured,
    generations,
    judged_otherwise,
    replayed,
    replayed_otherwise,
    rows,
    write_down,
)
from chaos.ledger import Ledger
from chaos.party import CLIENTS, Party
from chaos.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.brokers import Brokers

pytestmark = pytest.mark.jvm

REBALANCES = int(os.environ.get("PARTAGE_SOAK_REBALANCES", "1000"))
SEED = int(os.environ.get("PARTAGE_SOAK_SEED", "8"))
STRATEGIES = (
    "range", "roundrobin", "sticky", "cooperative-sticky", "optimal", "failover", "server:uniform",
)  # fmt: skip
FIRST = 6
MOST_VIOLATIONS = 20


def _parties(cluster: Brokers, strategies: tuple[str, ...], session: int) -> list[Party]:
    """A topic for each group, three copies, of which two must have a record before it counts."""
    made = []
    for strategy in strategies:
        name = f"hurt-{strategy.replace(':', '-')}"
        cluster.create_topic(name, FIRST, 3, configs={"min.insync.replicas": "2"})
        made.append(Party(name, name, strategy, cluster.bootstrap, FIRST, session))
    return made


def _all_read(ledger: Ledger, parties: list[Party], violations: list[str]) -> None:
    """Wait until everything is read; what is still missing then is lost."""
    ledger.close()
    end = time.monotonic() + 90
    while any(ledger.unread(party) for party in parties) and time.monotonic() < end:
        time.sleep(0.2)
    violations += [
        f"{party.group}: {len(lost)} records lost, e.g. {sorted(lost)[:5]}"
        for party in parties if (lost := ledger.unread(party))
    ]  # fmt: skip


def test_for_a_moment(tmp_path, capsys) -> None:
    """A few faults of each kind: owned once, nothing lost, and the log decides it all again."""
    clients = ("java", KAFKA_PYTHON[-1], AIOKAFKA[-1])
    with brokers(3, racks=("a", "b", "c")) as cluster:
        parties = _parties(cluster, ("failover", "cooperative-sticky"), session=3000)
        with World(cluster, parties, clients, random.Random(SEED)) as world:
            for party in parties:
                for host in world.hosts.values():
                    party.join(host)
            with Ledger(cluster.bootstrap, parties, every=0.25) as ledger:
                world.settle()
                with (
                    world.during(faults.freeze_members(world, clients[1])),
                    world.during(faults.kill_members(world, clients[2])),
                ):
                    for party in parties:
                        world.grow(party)
                    world.settle()
                world.settle()
                with world.during(faults.move_coordinator(world, parties[0])):
                    for party in parties:
                        world.leave(party)
                    world.settle()
                world.settle()
                _all_read(ledger, parties, world.violations)
            capture = captured(cluster.bootstrap, tmp_path / "capture")
        count = 0
        for party in parties:
            log = generations(capture, party.group)
            count += len(log)
            world.violations += party.broken() + assigned_otherwise(party, log)
            world.violations += judged_otherwise(party, capture, log, FIRST)
    with capsys.disabled():
        print(f"\n{count} rebalances, {_summary(world, ledger)}")
    assert not world.violations, "\n".join(world.violations)
    assert count >= 8
    assert ledger.records >= 100


def _prefix(some: list[tuple], all_of_them: list[tuple]) -> bool:
    """Whether a capture has every record of another one, up to where it stopped."""
    ends = {partition: offset for partition, offset, *_ in some}
    return some == [one for one in all_of_them if one[1] <= ends.get(one[0], -1)]


def _summary(world: World, ledger: Ledger) -> str:
    faults = ", ".join(f"{n} {kind}" for kind, n in sorted(world.faults.items()))
    return (
        f"{sum(world.faults.values())} faults ({faults}), {ledger.records} records, "
        f"{len(world.violations)} violations; slowest {world.slowest:.1f} s"
    )


@pytest.mark.soak
@pytest.mark.spark
def test_for_a_thousand_rebalances(tmp_path: Path, capsys) -> None:
    """Faults from a seed until each group's generations add up: owned once after each, nothing
    lost, and `partage replay` of what `partage capture` wrote, itself killed now and then, has what
    the members said.
    """
    with brokers(3, racks=("a", "b", "c")) as cluster:
        parties = _parties(cluster, STRATEGIES, session=6000)
        followed = tmp_path / "followed"
        with (
            World(cluster, parties, CLIENTS, random.Random(SEED)) as world,
            Recorder(cluster.bootstrap, followed) as recorder,
            Fausts(cluster, tmp_path, deaths=world.deaths) as workers,
            # Faust's own class with nothing of ours: what a worker alone is to be blamed for.
            Fausts(cluster, tmp_path, "stock-faust", ("stock",), deaths=world.deaths) as stock,
            Ledger(cluster.bootstrap, parties, every=0.5) as ledger,
        ):
            world.topics += workers.topics + stock.topics
            for party in parties:
                for _ in range(4):
                    world.join(party)
            world.settle()
            counted = 0
            while counted < REBALANCES and len(world.violations) < MOST_VIOLATIONS:
                end = time.monotonic() + 60
                world.live(until=lambda end=end: time.monotonic() > end)
                recorder.kill()
                counted = sum(party.settled for party in parties)
                with capsys.disabled():
                    print(f"\n{counted} rebalances, {_summary(world, ledger)}", end="", flush=True)
            world.calm()
            workers.close()
            stock.close()
            _all_read(ledger, parties, world.violations)
            # What members say after the capture has ended nobody could have captured.
            world.end()
            time.sleep(3)
            write_down(parties, tmp_path / "said.jsonl")
            world.violations += workers.violations + stock.violations
            world.violations += [said] if (said := recorder.stop()) else []
            whole = captured(cluster.bootstrap, tmp_path / "whole")
    if not _prefix(rows(followed), rows(whole)):
        world.violations.append("what was followed is not what the log has")
    logged = 0
    tables = replayed(followed, tmp_path / "run")
    for party in parties:
        log = generations(whole, party.group)
        logged += len(log)
        world.violations += party.broken() + assigned_otherwise(party, log)
        world.violations += replayed_otherwise(party, tables, log, FIRST)
    world.violations += workers.worse_than(stock)
    of_faust = 0
    for one in (workers, stock):
        log = given(whole, one.app)
        of_faust += len(log)
        assert len(log) >= one.killed > 0
        world.violations += given_otherwise(one.app, PARTITIONS, log)
    again = sum(len(one.read) for party in parties for one in party.all) - ledger.records
    with capsys.disabled():
        print(
            f"\n{counted} rebalances ({logged} in the log, and {of_faust} of Faust), "
            f"{_summary(world, ledger)}; {world.looks} looks, {again} records read again, "
            f"capture killed {recorder.killed} times; warnings {dict(world.warnings())}\n"
            f"{workers.summary()}\n{stock.summary()}"
        )
        for one in (workers, stock):
            for said in (*one.lost, *one.stood, *one.died):
                print(f"  {one.app}: {said}")
    assert not world.violations, "\n".join(world.violations)
    assert logged >= counted >= REBALANCES
