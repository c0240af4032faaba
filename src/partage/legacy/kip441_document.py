"""The Kafka Streams task assignor that KIP-441's document proposed before its implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, InvalidProblemError
from partage.streams.problem import DraftAssignment, TaskPlan, TaskProblem
from partage.wire.streams.subscription_info import LATEST_OFFSET, UNKNOWN_OFFSET_SUM

__all__ = ["Kip441Document", "Movement"]

#: Ranks of a client for a task; above the acceptable lag, the rank is the lag itself.
_RUNNING, _CAUGHT_UP, _UNKNOWN = -1, 0, 1


@dataclass(frozen=True)
class Movement:
    """Planned move of an active Kafka Streams task from one client to another.

    The task stays on its old client until the new one has caught up with the task's changelog
    (KIP-441).

    Attributes:
        task: index of the task.
        source: index of the client that has the task now.
        destination: index of the client that gets the task.
    """

    task: int
    source: int
    destination: int


class Kip441Document:
    """Kafka Streams task assignor that follows the text of KIP-441, not its implementation.

    An active task with state only moves to a client that has caught up with the task's changelog:
    its lag is at most ``acceptable_recovery_lag``. The aim is a balanced assignment, in which the
    clients' tasks per thread differ by at most ``balance_factor``. A task that is not yet on its
    client of the balanced assignment is a planned *movement*. A movement is *available* if its
    destination has caught up (rank 0). Another rebalance follows only if a movement is available.
    Standbys and stateless tasks are assigned separately.

    The document leaves gaps. They are filled as in the first implementation of April 2020, with the
    parameters of the KIP's page:

    * rank: -1 where the task runs (lag -2), 0 up to the acceptable lag, 1 where the lag is unknown,
      else the lag itself;
    * ``proposeBalancedAssignment``: tasks round robin over clients by id; then, while loads per
      thread (whole numbers) differ by more than ``balance_factor``, the lowest task of the fullest
      client moves to the emptiest; ties by id;
    * until a movement: tasks stay if every task ran on one caught-up client and loads are within
      the factor. Otherwise a task goes to its caught-up owner, else to the caught-up (else
      best-ranked) client with the fewest tasks. Then tasks move, last id first, from fuller to
      emptier caught-up clients until loads are within the factor;
    * ``num_standbys``: the next best-ranked clients without a copy, the emptier first;
    * warm-ups: the first ``max_warmup_replicas`` movements whose destination has no copy;
    * stateless tasks: clients by id are filled up to ceil(all tasks / all threads) tasks a thread,
      then the emptiest.

    The plan's ``probing`` is True if a movement is still pending. The document's rebalances may
    never end. Example: the only task is on the second of two clients. It stays, because the loads
    are within the factor, while the round robin proposes the first client each time. Such a loop is
    detected exactly and without memory: if the plan equals the previous assignment and all its
    copies are ready, the next rebalance has the same input. The plan then asks for no probing and
    has a warning. The document does not consider racks and tags.

    Kafka's release differs (`partage.streams.high_availability`): it has no factor, lags sort as
    plain numbers, all tasks that lag move at once, and each movement causes another probing
    rebalance.

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(group, number) for group in range(3) for number in range(3)]
    >>> lags = dict.fromkeys(tasks, 0)
    >>> clients = [ClientState(ProcessId(0, 1), 6, lags=lags),
    ...            ClientState(ProcessId(0, 2), 2, lags=lags)]
    >>> problem = TaskProblem(clients, tasks, tasks)
    >>> proposed = Kip441Document(balance_factor=2).propose_balanced_assignment(problem)
    >>> [str(task) for task, owner in zip(tasks, proposed) if owner == 1]
    ['0_1', '1_0', '1_2', '2_1']
    """

    name = "streams:kip-441-document"
    exact_to = None

    def __init__(self, balance_factor: int = 1) -> None:
        if balance_factor < 1:
            raise InvalidConfigError(
                "balance_factor", "must be a whole number >= 1", balance_factor
            )
        self.balance_factor = balance_factor

    def with_balance_factor(self, balance_factor: int) -> Kip441Document:
        """Return a copy of the task assignor with another balance factor.

        The balance factor is the allowed difference between two clients' numbers of tasks per
        thread, for example 1.

        Raises:
            InvalidConfigError: it is below 1.
        """
        return Kip441Document(balance_factor)

    # --- printed in the document ---

    def check(self, problem: TaskProblem, active: Sequence[int]) -> bool:
        """Return whether another rebalance must follow, because a task's new client has caught up.

        KIP-441 moves a task only to a client that is caught up: its lag for the task's state is at
        most ``acceptable_recovery_lag``.

        Args:
            problem: the tasks and the clients, with the current lags.
            active: the current client of each task in ``problem.stateful``, in that order.

        Raises:
            InvalidProblemError: ``active`` does not have one client for each stateful task.
        """
        return bool(self.moves_available_now(problem, active))

    def moves_available_now(self, problem: TaskProblem, active: Sequence[int]) -> list[Movement]:
        """Return the planned task moves whose new client is already caught up.

        A planned move (see `moves_to_balance`) waits until the new client's lag for the task's
        state is acceptable. These moves need not wait any longer.

        Args:
            problem: the tasks and the clients, with the current lags.
            active: the current client of each task in ``problem.stateful``, in that order.
        """
        ranks = self.rank_clients(problem)
        return [
            one
            for one in self.moves_to_balance(problem, active)
            if ranks[one.destination, one.task] == _CAUGHT_UP
        ]

    def moves_to_balance(self, problem: TaskProblem, active: Sequence[int]) -> list[Movement]:
        """Return the moves of active tasks that lead from the current to the balanced assignment.

        A task moves if `propose_balanced_assignment` gives it to another client. It may have to
        wait until that client is caught up.

        Args:
            problem: the tasks and the clients, with the current lags.
            active: the current client of each task in ``problem.stateful``, in that order.
        """
        if len(active) != len(problem.stateful):
            raise InvalidProblemError(
                "must have one client for each stateful task", path="active", value=len(active)
            )
        proposed = self.propose_balanced_assignment(problem)
        return [
            Movement(task, source, destination)
            for task, source, destination in zip(problem.stateful, active, proposed, strict=True)
            if source != destination
        ]

    def rank_clients(self, problem: TaskProblem) -> NDArray[np.int64]:
        """Rank the clients for each task by their lags; a lower rank is better.

        The rank is -1 if the client runs the task, 0 if its lag is acceptable, 1 if its lag is
        unknown; otherwise it is the lag itself. ``problem`` has the tasks, and the clients with
        their lags. The ranks of stateless tasks have no meaning.

        Returns:
            The ranks, as int64[clients, tasks].
        """
        lags = problem.changelog_lags
        ranks: NDArray[np.int64] = lags.copy()
        ranks[(lags >= 0) & (lags <= problem.settings.acceptable_recovery_lag)] = _CAUGHT_UP
        ranks[lags == LATEST_OFFSET] = _RUNNING
        ranks[lags == UNKNOWN_OFFSET_SUM] = _UNKNOWN
        return ranks

    def propose_balanced_assignment(self, problem: TaskProblem) -> list[int]:
        """Return the client of each stateful task in a balanced assignment, the aim of all moves.

        Tasks go to the clients round robin. Then tasks move from the fullest to the emptiest client
        until their numbers of tasks per thread differ by at most the balance factor. ``problem``
        has the tasks and the clients; lags have no effect.
        """
        clients = len(problem.clients)
        owned: list[list[int]] = [[] for _ in range(clients)]
        for place, task in enumerate(problem.stateful):
            owned[place % clients].append(task)
        while True:
            loads = _loads(owned, problem)
            fullest, emptiest = loads.index(max(loads)), loads.index(min(loads))
            if loads[fullest] - loads[emptiest] <= self.balance_factor:
                break
            task = min(owned[fullest])
            owned[fullest].remove(task)
            owned[emptiest].append(task)
        owner = {task: client for client, tasks in enumerate(owned) for task in tasks}
        return [owner[task] for task in problem.stateful]

    # --- left out of the document ---

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """Assign all tasks of a Kafka Streams application to its clients as KIP-441 describes.

        ``problem`` has the tasks and the clients with their lags. The plan has a warning if
        KIP-441's rule would repeat rebalances forever.

        Raises:
            InvalidProblemError: a client does not report a stateful task's lag.
        """
        ranks = self.rank_clients(problem)
        draft = DraftAssignment(problem)
        active = self._reuse_owners(problem, ranks) or self._choose_by_rank(problem, ranks)
        for task, client in zip(problem.stateful, active, strict=True):
            draft.assign_active(client, task)
        movements = self.moves_to_balance(problem, active)
        self._place_standbys(problem, draft, ranks)
        warmups = self._warm_up(problem, draft, movements)
        repeats = bool(movements) and self._repeats_forever(problem, draft, ranks)
        _place_stateless(problem, draft)
        return TaskPlan.from_draft(
            problem,
            draft,
            probing=bool(movements) and not repeats,
            warmups=warmups,
            warnings=[self._loop_warning(problem, movements)] if repeats else [],
        )

    @staticmethod
    def _repeats_forever(
        problem: TaskProblem, draft: DraftAssignment, ranks: NDArray[np.int64]
    ) -> bool:
        """Return whether the next rebalance would make the same plan, so that rebalances never end.

        True if every task stays on its previous client, and all clients with a copy of a task's
        state are caught up.

        Args:
            problem: the tasks and the clients.
            draft: the new assignment.
            ranks: int64[clients, tasks], the rank of each client for each task (see
                `rank_clients`).
        """
        # This is so if every stateful task stays on its previous owner, and all clients with a copy
        # of a task in the plan are caught up.
        stateful = set(problem.stateful)
        return all(
            {problem.number_of.get(task) for task in client.previous_active} & stateful
            == draft.active[number]
            and all(ranks[number, task] <= _CAUGHT_UP for task in draft.active[number])
            and all(ranks[number, task] <= _CAUGHT_UP for task in draft.standby[number])
            for number, client in enumerate(problem.clients)
        )

    def _loop_warning(self, problem: TaskProblem, movements: Sequence[Movement]) -> str:
        first = movements[0]
        more = f" and {len(movements) - 1} more" if len(movements) > 1 else ""
        source, destination = (
            problem.clients[one].process for one in (first.source, first.destination)
        )
        return (
            f"{self.name} would rebalance for ever: each time it proposes to move task"
            f" {problem.tasks[first.task]}{more} ({source} to {destination}) and moves nothing,"
            f" although the copies are ready (balance_factor={self.balance_factor}); this plan asks"
            " for no probing rebalance"
        )

    def _reuse_owners(self, problem: TaskProblem, ranks: NDArray[np.int64]) -> list[int] | None:
        # None unless all previous owners are caught up and balanced.
        owners: dict[int, list[int]] = {task: [] for task in problem.stateful}
        for number, client in enumerate(problem.clients):
            for name in client.previous_active:
                task = problem.number_of.get(name)
                if task in owners:
                    owners[task].append(number)
        active = []
        for task, previous in owners.items():
            if len(previous) != 1 or ranks[previous[0], task] > _CAUGHT_UP:
                return None
            active.append(previous[0])
        owned: list[list[int]] = [[] for _ in problem.clients]
        for task, owner in zip(problem.stateful, active, strict=True):
            owned[owner].append(task)
        loads = _loads(owned, problem)
        return active if max(loads) - min(loads) <= self.balance_factor else None

    def _choose_by_rank(self, problem: TaskProblem, ranks: NDArray[np.int64]) -> list[int]:
        """Choose a client for each stateful task, preferably one that has the task's state already.

        Clients with the least lag are preferred, then those with the fewest tasks. Afterwards tasks
        move between caught-up clients until their loads differ by at most the balance factor.

        Args:
            problem: the tasks and the clients.
            ranks: int64[clients, tasks], the rank of each client for each task (see
                `rank_clients`).

        Returns:
            The client of each stateful task.
        """
        owned: list[list[int]] = [[] for _ in problem.clients]
        before = [
            {problem.number_of.get(task) for task in client.previous_active}
            for client in problem.clients
        ]
        for task in problem.stateful:
            rank = ranks[:, task]
            best = int(rank.min())
            candidates = np.flatnonzero(rank <= max(best, _CAUGHT_UP)).tolist()
            owners = [c for c in candidates if task in before[c] and rank[c] <= _CAUGHT_UP]
            chosen = owners or sorted(candidates, key=lambda c: (len(owned[c]), c))
            owned[chosen[0]].append(task)
        while self._move_one_task(problem, ranks, owned):
            pass
        owner = {task: client for client, tasks in enumerate(owned) for task in tasks}
        return [owner[task] for task in problem.stateful]

    def _move_one_task(
        self, problem: TaskProblem, ranks: NDArray[np.int64], owned: list[list[int]]
    ) -> bool:
        """Move one task to a client that is caught up and has fewer tasks per thread.

        Nothing moves if the clients' tasks per thread differ by no more than the balance factor, or
        if no less loaded client is caught up. Return whether a task was moved.

        Args:
            problem: the tasks and the clients.
            ranks: int64[clients, tasks], the rank of each client for each task (see
                `rank_clients`).
            owned: the tasks of each client; changed in place.
        """
        loads = _loads(owned, problem)
        clients = range(len(owned))
        for source in sorted(clients, key=lambda one: (-loads[one], one)):
            for destination in sorted(clients, key=lambda one: (loads[one], one)):
                if loads[source] - loads[destination] <= self.balance_factor:
                    break
                for task in sorted(owned[source], reverse=True):
                    if ranks[destination, task] <= _CAUGHT_UP:
                        owned[source].remove(task)
                        owned[destination].append(task)
                        return True
        return False

    @staticmethod
    def _place_standbys(
        problem: TaskProblem, draft: DraftAssignment, ranks: NDArray[np.int64]
    ) -> None:
        # The best-ranked clients without a copy of the task come first.
        for task in problem.stateful:
            for _ in range(problem.settings.num_standby_replicas):
                free = [one for one in range(len(draft.count)) if not draft.has_copy(one, task)]
                if not free:
                    break
                draft.assign_standby(
                    min(free, key=lambda one: (ranks[one, task], draft.count[one], one)), task
                )

    @staticmethod
    def _warm_up(
        problem: TaskProblem, draft: DraftAssignment, movements: Sequence[Movement]
    ) -> list[tuple[int, int]]:
        warmups: list[tuple[int, int]] = []
        for one in movements:
            if len(warmups) == problem.settings.max_warmup_replicas:
                break
            if not draft.has_copy(one.destination, one.task):
                draft.assign_standby(one.destination, one.task)
                warmups.append((one.destination, one.task))
        return warmups


def _loads(owned: Sequence[Sequence[int]], problem: TaskProblem) -> list[int]:
    return [
        len(tasks) // capacity for tasks, capacity in zip(owned, problem.thread_counts, strict=True)
    ]


def _place_stateless(problem: TaskProblem, draft: DraftAssignment) -> None:
    # Fill all clients to the average per thread, then the least loaded one.
    tasks_per_thread = -(-len(problem.tasks) // sum(problem.thread_counts))
    for task in problem.stateless_tasks:
        client = next(
            (
                one
                for one, tasks in enumerate(draft.active)
                if len(tasks) < tasks_per_thread * problem.thread_counts[one]
            ),
            None,
        )
        if client is None:
            client = min(range(len(draft.active)), key=lambda one: (len(draft.active[one]), one))
        draft.assign_active(client, task)
