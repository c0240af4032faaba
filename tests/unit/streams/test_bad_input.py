"""What no Kafka would send, and what an assignor of one's own may get wrong: errors that name it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from partage.errors import (
    InvalidConfigError,
    InvalidProblemError,
    InvalidTopologyError,
    PartageError,
    PlanInvariantError,
)
from partage.streams import (
    AssignmentConfigs,
    ClientState,
    HighAvailability,
    ProcessId,
    StreamsApplication,
    StreamsMember,
    Subtopology,
    TaskId,
    TaskPlan,
    TaskProblem,
    Topology,
    compute_group_assignment,
)
from partage.streams.kip1071_sticky import ServerMember, ServerSticky, ServerSubtopology

A, B = ProcessId(0, 1), ProcessId(0, 2)
TASKS = [TaskId(0, 0), TaskId(0, 1)]
COUNTED = Topology([Subtopology(0, ("t",), changelogs=("log",))])
PLAIN = Topology([Subtopology(0, ("t",))])


def led(topology=COUNTED, counts=None, members=(), **more):
    """A rebalance of two members, led by the first."""
    known = {"t": 2, "log": 2} if counts is None else counts
    there = members or (StreamsMember("a", A), StreamsMember("b", B))
    assignor = more.pop("assignor", None)
    ends = {"end_offsets": {("log", 0): 5, ("log", 1): 5}} | more
    app = StreamsApplication(topology, known, **ends)
    return compute_group_assignment(app, there, leader=A, now_ms=0, assignor=assignor)


def ends(offset):
    return {("log", 0): offset, ("log", 1): 5}


def lags(matrix):
    problem = TaskProblem(
        [ClientState(A), ClientState(B)], TASKS, TASKS, lags=np.array(matrix, np.int64)
    )
    return HighAvailability().assign(problem)


def server(tasks=2, members=("a",), config="1"):
    given = [ServerMember(one, f"process of {one}") for one in members]
    config = {"num.standby.replicas": config}
    return ServerSticky().assign([ServerSubtopology("0", tasks, stateful=True)], given, config)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: led(end_offsets=ends(-2)), "offset of log-0: must be an int64 >= 0, got -2"),
        (lambda: led(end_offsets=ends(2**63)), "offset of log-0"),
        (
            lambda: led(
                Topology([Subtopology(0, ("t",), changelogs=("t",))]), {"t": 1},
                committed={("t", 0): -7},
            ),
            "offset of t-0",
        ),
        (lambda: lags([[-7, 0], [0, 0]]), "'0_0': -7"),
        (lambda: lags([[0], [0]]), "2 clients and a column for each of 2 tasks, got (2, 1)"),
        (lambda: lags([[0, 0]]), "got (1, 2)"),
        (
            lambda: led(
                members=[StreamsMember("a", A, offset_sums={TaskId(0, 0, "x"): 5, TaskId(0, 1): 5})]
            ),
            "member a.offset_sums: must all have a topology's name or none",
        ),
        (lambda: server(members=()), "members: must be at least one"),
        (lambda: server(tasks=-1), "subtopologies.0.tasks: must not be negative"),
        (lambda: server(config="1_0"), "num.standby.replicas: must be a number"),
        (lambda: server(config=" 1"), "num.standby.replicas: must be a number"),
        (lambda: server(config="-1"), "num.standby.replicas: must be from 0 to"),
        (lambda: server(config="2147483648"), "num.standby.replicas: must be from 0 to"),
        (lambda: AssignmentConfigs.from_config({"max.warmup.replicas": "1_0"}), "must be a whole number"),
        (lambda: AssignmentConfigs(rack_aware_assignment_tags=("k" * 21,)), "at most 20 characters"),
    ],
)  # fmt: skip
def test_bad_numbers_are_named(ask, words: str) -> None:
    """An error of ours, with the place, what is wrong and the value."""
    with pytest.raises((InvalidProblemError, InvalidConfigError)) as caught:
        ask()
    assert words in str(caught.value)


def test_what_java_reads_is_read() -> None:
    """Signs are fine for all, spaces around for settings."""
    assert server(config="+1").active == {"a": [("0", 0), ("0", 1)]}
    assert AssignmentConfigs.from_config({"max.warmup.replicas": " +3 "}).max_warmup_replicas == 3
    assert AssignmentConfigs(rack_aware_assignment_tags=("k" * 20,)).rack_aware_assignment_tags


@dataclass
class Mine:
    """An assignor that a user wrote."""

    active: tuple[tuple[int, ...], ...]
    standby: tuple[tuple[int, ...], ...] = ((), ())
    name: str = "streams:mine"
    exact_to: str | None = None

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """Return the plan given at construction."""
        return TaskPlan(problem, self.active, self.standby)


@pytest.mark.parametrize(
    ("mine", "words"),
    [
        (Mine(((0, 1), (0,))), "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES"),
        (Mine(((0, 1), ()), ((), (1,))), "INVALID_STANDBY_TASK"),
        (Mine(((0, 5), ())), "UNKNOWN_TASK_ID: a task that does not exist (number 5 on 0"),
        (Mine(((0, 1), (-1,))), "UNKNOWN_TASK_ID"),
        (Mine(((0, 1),)), "2 clients, but 1 rows of actives and 2 of standbys"),
    ],
)
def test_the_leader_looks_at_a_foreign_plan(mine: Mine, words: str) -> None:
    """By Kafka's rules for assignors of users (KIP-924), with the assignor, the task and the client."""
    with pytest.raises(PlanInvariantError) as caught:
        led(PLAIN, {"t": 2}, assignor=mine)
    assert words in str(caught.value)
    assert "streams:mine" in str(caught.value)


def test_a_task_that_nobody_got_is_no_error_to_kafka() -> None:
    """It looks at what is given only."""
    answer = led(PLAIN, {"t": 2}, assignor=Mine(((0,), ())))
    assert [one.active for one in answer.consumers.values()] == [(TASKS[0],), ()]


OLD = StreamsMember("a", A, version=2, latest_version=2)
NEWER = StreamsMember("b", B, version=12, latest_version=12)


def codes(topology, counts):
    answer = led(topology, counts, (OLD, NEWER))
    return {one.error_code for one in answer.consumers.values()}


def test_a_leader_looks_at_topics_before_versions() -> None:
    """A version that cannot be probed is code 3; a missing topic comes first (1), as in Kafka 4.3.1."""
    assert codes(PLAIN, {"t": 2}) == {3}
    assert codes(PLAIN, {}) == {1}
    # Repartition topics are made before versions are looked at, changelogs after.
    again = Topology([
        Subtopology(0, ("t",), sinks=("r",)), Subtopology(1, ("r",), repartition={"r": None}),
    ])  # fmt: skip
    with pytest.raises(InvalidTopologyError, match="r has 3, not 2"):
        codes(again, {"t": 2, "r": 3})
    assert codes(COUNTED, {"t": 2, "log": 3}) == {3}
    with pytest.raises(PartageError, match="log has 3, not 2"):
        led(COUNTED, {"t": 2, "log": 3})
