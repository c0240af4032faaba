"""Place replicas by penalty-based local search.

The search minimises the bytes copied plus penalties for brokers and racks outside their bands
(`penalties`). It begins with a greedy placement. In each round of penalties it moves single
replicas (`sweeps`); in the last round it also exchanges pairs (`swaps`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import STAY, is_among
from partage.solve.replicas.penalties import MANY_REPLICAS, Penalties, penalty_schedule
from partage.solve.replicas.problem import (
    SearchState,
    is_moved,
    outside_bands,
    sum_by_broker_and_rack,
)
from partage.solve.replicas.swaps import ReplicaSwaps
from partage.solve.replicas.sweeps import (
    MoveCandidates,
    SweepArrays,
    place_initially,
    sweep_partitions,
)

__all__ = ["LocalSearch", "improve_placement", "place_replicas"]

#: Sweeps of a round: the second one uses the places that the first one vacated. With the last
#: penalties sweeps continue until nothing moves, at most 12 times.
_SWEEPS, _LAST_SWEEPS = 2, 12
#: Rounds in which a plan near the best is improved. Measured: with the last one alone, plans for
#: heavy-tailed sizes move a percent more.
_ROUNDS_OF_IMPROVEMENT = 12
#: Attempts to repair replica counts at a low penalty on bytes, and turns of swaps and sweeps.
_LOOSE_TURNS, _SETTLING_TURNS = 3, 4
#: Another turn follows if at least one replica in so many was swapped.
_REPLICAS_A_SWAP = 5_000


def place_replicas(task: ReplicaTask) -> NDArray[np.int32]:
    """Choose a broker for each replica by penalty-based local search (int32[replicas]).

    The search minimises the bytes copied plus penalties for imbalance. ``task`` has the cluster,
    the brokers to use and the balance limits. The order of a partition's brokers does not determine
    its leader.

    Raises:
        NoFeasiblePlanError: a partition has fewer brokers than it is to have replicas.
    """
    search = LocalSearch(task)
    search.place_greedily()
    return search.search_placement()


def improve_placement(task: ReplicaTask, plan: NDArray[np.int32]) -> NDArray[np.int32]:
    """Improve a placement of replicas that misses some balance limits, by local search.

    Only the last rounds of the search run, at high penalties for imbalance. Return the broker of
    each replica (int32[replicas]).

    Args:
        task: cluster, brokers to use and balance limits.
        plan: int32[replicas], the broker of each replica.
    """
    search = LocalSearch(task)
    search.start_from_plan(plan)
    return search.improve_plan()


class LocalSearch:
    """Local search that chooses the brokers of a reassignment's replicas, with rising penalties.

    The cost of a placement is the bytes copied plus penalties for imbalance.

    Attributes:
        state: the placement, which all steps change in place.
        schedule: the penalties of each round.
        candidates: selects the partitions for which a move may lower the cost.
        swaps: exchanges pairs of replicas.
    """

    def __init__(self, task: ReplicaTask) -> None:
        self.task, self.state = task, SearchState.without_replicas(task)
        self.schedule = penalty_schedule(task)
        self.candidates = MoveCandidates(self.state)
        self.swaps = ReplicaSwaps(self.state)
        self._work_arrays = SweepArrays.for_task(task)
        self._work = 0

    def place_greedily(self) -> None:
        """Give each replica a broker greedily, as the start of the local search.

        Each replica goes to the broker that costs least when imbalance has its highest penalty.
        """
        self.set_penalties(self.schedule[-1])
        place_initially(self.state)

    def start_from_plan(self, plan: NDArray[np.int32]) -> None:
        """Start the search from a known placement of replicas instead of a greedy one.

        ``plan`` is the broker of each replica (int32[replicas]).
        """
        task, state, brokers = self.task, self.state, len(self.task.alive)
        state.broker[:] = plan
        old = task.current_partition * brokers + task.cluster.replica
        state.fixed[:] = is_among(
            task.partition_of_replica * brokers + plan, old[task.fate == STAY]
        )
        state.held += sum_by_broker_and_rack(task, task.partition_of_replica, plan)

    def set_penalties(self, penalties: Penalties) -> None:
        """Set the penalties for brokers and racks outside their balance limits.

        All later moves of the local search use them. They rise from round to round.
        """
        self.state.penalty[:] = penalties.to_array

    def search_placement(self) -> NDArray[np.int32]:
        """Run all rounds of the local search, and return the broker of each replica.

        The penalties for imbalance rise from round to round. The result is int32[replicas].
        """
        if (self.state.fixed == 1).all():
            return self.state.broker
        *rising, last = self.schedule
        moved = 0
        for i, penalties in enumerate(rising):
            if i and not moved and self._can_skip_round(penalties):
                continue
            self.set_penalties(penalties)
            for _ in range(_SWEEPS):
                moved = self.sweep_partitions()
                if not moved:
                    break
        self.set_penalties(last)
        self._sweep_until_idle()
        return self._finish()

    def improve_plan(self) -> NDArray[np.int32]:
        """Run only the last rounds of the local search, and return the broker of each replica.

        The first rounds, with low penalties for imbalance, are skipped so that the placement stays
        nearly balanced. The result is int32[replicas].
        """
        *rising, last = self.schedule
        for penalties in rising[-_ROUNDS_OF_IMPROVEMENT:]:
            self.set_penalties(penalties)
            for _ in range(_SWEEPS):
                self.sweep_partitions()
            self._swap()
            self.swaps.swap_back_moved_replicas()
        self.set_penalties(last)
        self._sweep_until_nothing_moves()
        return self._finish()

    def sweep_partitions(self) -> int:
        """Move each replica to its cheapest broker where that lowers the cost.

        Return the number of moved replicas. Only partitions for which a move may help are visited.
        """
        partitions = self.candidates.find_candidates()
        if not len(partitions):
            return 0
        # The sum over all sweeps: compiling pays once there is enough to do for it.
        self._work += 8 * len(partitions) * len(self.task.alive)
        return int(
            sweep_partitions(
                self.state.kernel_arrays(), self._work_arrays, partitions, work=self._work
            )
        )

    def _sweep_until_idle(self) -> None:
        # With many replicas, it ends when few move and their number hardly falls.
        count = len(self.state.broker)
        before = count
        for _ in range(_LAST_SWEEPS):
            moved = self.sweep_partitions()
            idle = count >= MANY_REPLICAS and moved < count // 200 and moved > 0.9 * before
            if not moved or idle:
                break
            before = moved

    def _sweep_until_nothing_moves(self) -> None:
        for _ in range(_LAST_SWEEPS):
            if not self.sweep_partitions():
                break

    def _finish(self) -> NDArray[np.int32]:
        self._settle()
        # Tasks that do not repair imbalance have no replica counts to repair.
        if not self.task.closed.all():
            self._repair_replica_counts()
        return self.state.broker

    def _settle(self) -> None:
        # Ends as soon as hardly any swap lowers the cost.
        for _ in range(_SETTLING_TURNS):
            swapped = self._swap() + self.swaps.swap_back_moved_replicas()
            if swapped <= len(self.state.broker) // _REPLICAS_A_SWAP:
                break
            self._sweep_until_nothing_moves()

    def _swap(self) -> int:
        # Unbalanced brokers first, then unbalanced racks.
        n, done = len(self.task.alive), 0
        for k in (0, 2, 3, 1):
            if outside_bands(self.task, self.state.held)[k, :n].any():
                done += self.swaps.swap_between_brokers(k)
        for k in (2, 3, 1):
            if outside_bands(self.task, self.state.held)[k, n:].any():
                done += self.swaps.swap_between_racks(k)
        return done

    def _repair_replica_counts(self) -> None:
        """Repair brokers that have too many or too few replicas, at a low penalty for uneven bytes.

        Some repairs need several changes at once, none of which lowers the cost alone. The result
        is discarded unless it is better.
        """
        state, last = self.state, self.schedule[-1]
        for _ in range(_LOOSE_TURNS):
            known, broker, held = (
                self._plan_comparison_key(),
                state.broker.copy(),
                state.held.copy(),
            )
            if not outside_bands(self.task, held)[1].any():
                return
            self.set_penalties(last.with_loose_bytes())
            for _ in range(_SWEEPS):
                self.sweep_partitions()
            self.set_penalties(last)
            self._sweep_until_nothing_moves()
            self._settle()
            if self._plan_comparison_key() >= known:
                state.broker[:], state.held[:] = broker, held
                return

    def _plan_comparison_key(self) -> tuple[float, ...]:
        """Return a tuple by which placements of replicas are compared; the lower tuple is better.

        It has the imbalances, most important first, and then the bytes moved.
        """
        task, broker, n = self.task, self.state.broker, len(self.task.alive)
        off, racks = outside_bands(task, self.state.held), task.rack_low.shape[1]
        pairs, count = np.unique(
            task.partition_of_replica * racks + task.cluster.rack_of_broker[broker],
            return_counts=True,
        )
        factor = task.factor[pairs // racks]
        over = np.maximum(count - task.rack_high[factor, pairs % racks], 0)
        filled = np.minimum(count, task.rack_low[factor, pairs % racks])
        ranks = [off[0, :n].sum(), over.sum() - filled.sum()]
        for k in (1, 2, 3):
            ranks += [off[k, :n].sum(), off[k, n:].sum()]
        return (
            *map(float, ranks),
            float(task.cost[task.partition_of_replica[is_moved(task, broker)]].sum()),
        )

    def _can_skip_round(self, penalties: Penalties) -> bool:
        """Return whether a round of the local search would move no replica, so that it can be
        skipped.

        That is so if ``penalties`` rise only for resources that are within all balance limits.
        """
        n, now = len(self.task.alive), self.state.penalty
        off = outside_bands(self.task, self.state.held)
        brokers, racks = off[:, :n].any(axis=1), off[:, n:].any(axis=1)
        matters = np.concatenate([brokers, [True], racks])
        vector = penalties.to_array
        return bool((vector[matters] == now[matters]).all()) and bool((vector >= now).all())
