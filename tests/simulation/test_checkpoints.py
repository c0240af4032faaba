"""A simulation that continues from a stored checkpoint gives the rows of a whole one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.support.captured import clusters
from tests.support.rebuilt import rebalances, rebuilt

from partage.history.pauses import Pause
from partage.simulation import cumulative
from partage.simulation.commit_statistics import CommitStatistics
from partage.simulation.context import SimulationContext
from partage.simulation.cumulative import simulate_cumulative, simulate_policies
from partage.simulation.policies import Policy
from partage.simulation.policy_state import Checkpoint, Continuation, StoredRow
from partage.simulation.recorded_rebalances import RecordedRebalance, recorded_rebalances

#: Bounces, kills and second phases; static members.
GROUPS = ["c-notify", "fulfilment-static"]
#: Each protocol, each kind of memory, members that are expected back, and earlier evictions.
POLICIES = [
    "own",
    "eager/sticky",
    "cooperative/cooperative-sticky+static",
    "cooperative/optimal",
    "consumer/uniform+timeout=2s",
]


class _Store:
    """What a simulation stores, in memory: rows as JSON, checkpoints as bytes."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.checkpoints: list[tuple[int, bytes]] = []

    def store_row(self, row: StoredRow) -> None:
        self.rows.append(json.dumps(row))

    def store_checkpoint(self, found: Checkpoint) -> None:
        self.checkpoints.append((len(self.rows), found.to_bytes()))

    def continued(self, number: int) -> Continuation:
        """What another process reads of it, up to a checkpoint."""
        count, blob = self.checkpoints[number]
        rows: Iterator[StoredRow] = (StoredRow(*json.loads(text)) for text in self.rows[:count])
        return Continuation(_Store(), frozenset(), Checkpoint.from_bytes(blob), rows)


def _history(group: str) -> tuple[RecordedRebalance, ...]:
    return tuple(recorded_rebalances(rebalances(group)[:40], clusters()))


def _context(group: str, found: tuple[RecordedRebalance, ...], **more) -> SimulationContext:
    pauses = [one for one in rebuilt(group)[1] if isinstance(one, Pause)]
    return SimulationContext.of(clusters(), found, CommitStatistics.of(pauses, **more))


@pytest.mark.parametrize("group", GROUPS)
def test_a_simulation_continues_from_every_stored_rebalance(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows equal those of the whole simulation, under other commit rates as well."""
    found = _history(group)
    before = _context(group, found)
    rates = {(topic, p): 3.0 + p for topic in ("orders", "clicks") for p in range(4)}
    now = _context(group, found, rates=rates)
    every = frozenset(range(len(found)))
    for name in POLICIES:
        policy, store = Policy.parse(name), _Store()
        stored = simulate_policies(found, [policy], before, {name: Continuation(store, every)})
        assert len(list(stored)) >= len(store.rows) > 0
        expected = list(simulate_cumulative(found, policy, now))
        assert len(store.checkpoints) > len(found) // 2
        for number in (len(store.checkpoints) // 3, len(store.checkpoints) - 2):
            known = store.continued(number)
            assert known.checkpoint is not None
            applied: list[int] = []
            with monkeypatch.context() as patch:
                real = cumulative._Simulation._apply_membership_changes
                patch.setattr(
                    cumulative._Simulation,
                    "_apply_membership_changes",
                    lambda self, one, real=real, n=applied: n.append(1) or real(self, one),
                )
                some = list(simulate_policies(found, [policy], now, {name: known}))
            assert some == expected, f"{name} from {known.checkpoint.position}"
            assert len(applied) == len(found) - known.checkpoint.position - 1


def test_a_continued_simulation_can_be_continued() -> None:
    """What is stored does not depend on where the simulation began."""
    found, policy = _history("c-notify"), Policy.parse("cooperative/cooperative-sticky")
    context = _context("c-notify", found)
    every, first = frozenset(range(len(found))), _Store()
    whole = list(
        simulate_policies(found, [policy], context, {policy.name: Continuation(first, every)})
    )
    known = first.continued(len(first.checkpoints) // 3)
    second = known.store = _Store()
    known.wanted = every
    list(simulate_policies(found, [policy], context, {policy.name: known}))
    assert second.rows == first.rows[len(first.rows) - len(second.rows) :]
    last = len(second.checkpoints) // 2
    assert last > 2
    count, _ = second.checkpoints[last]
    known = second.continued(last)
    before = first.rows[: len(first.rows) - len(second.rows) + count]
    known.rows = iter([StoredRow(*json.loads(text)) for text in before])
    assert list(simulate_policies(found, [policy], context, {policy.name: known})) == whole
