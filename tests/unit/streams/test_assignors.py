"""Facts of Kafka's own tests, the KIP-441 document beside what was shipped, and bad input."""

from __future__ import annotations

import pytest

from partage.errors import (
    InvalidConfigError,
    InvalidProblemError,
    UnknownStrategyError,
    UnsupportedProblemError,
)
from partage.legacy.kip441_document import Kip441Document
from partage.streams import (
    AssignmentConfigs,
    ClientState,
    PartitionRacks,
    ProcessId,
    TaskId,
    TaskProblem,
)
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.high_availability import HighAvailability
from partage.streams.min_cost_flow import FlowGraph
from partage.streams.problem import DraftAssignment
from partage.streams.registry import find_assignor, find_task_assignors
from partage.streams.standbys import TagAwareStandbys
from partage.streams.sticky import LegacySticky, TaskPairs
from partage.streams.task_assignment_utils import (
    AssignmentError,
    identity_assignment,
    validate_task_assignment,
)
from partage.streams.task_ids import early_task_hash
from partage.wire.streams.arrays import task_hash

NINE = [TaskId(group, number) for group in range(3) for number in range(3)]
FOUR = [TaskId(0, number) for number in range(4)]


def client(number, capacity=1, *, ran=(), lag=0, lags=None, of=NINE, **more):
    """Lag -2 of what it ran, ``lag`` of all else."""
    known = {task: -2 if task in ran else lag for task in of} | (lags or {})
    return ClientState(ProcessId(0, number), capacity, list(ran), lags=known, **more)


def shown(plan):
    names = [str(task) for task in plan.problem.tasks]
    return [
        (" ".join(names[task] for task in mine), " ".join(names[task] for task in copies))
        for mine, copies in zip(plan.active, plan.standby, strict=True)
    ]


def ha(clients, tasks, stateful=None, **settings):
    settings = {"acceptable_recovery_lag": 100, **settings}
    return HighAvailability().assign(
        TaskProblem(
            clients, tasks, tasks if stateful is None else stateful, AssignmentConfigs(**settings)
        )
    )


def test_a_standby_doubles_as_a_warm_up() -> None:
    """P1 runs four tasks, P2 has nothing: with a standby no copy beyond it is made."""
    clients = [client(1, ran=FOUR, of=FOUR), client(2, lag=LONG_MAX, of=FOUR)]
    plan = ha(clients, FOUR, max_warmup_replicas=1)
    assert shown(plan) == [("0_0 0_1 0_2 0_3", ""), ("", "0_1")]
    plan = ha(clients, FOUR, max_warmup_replicas=1, num_standby_replicas=1)
    assert shown(plan) == [("0_0 0_1 0_2 0_3", ""), ("", "0_0 0_1 0_2 0_3")]
    assert plan.probing


def test_three_lags_nine_tasks() -> None:
    """Caught up, nearly caught up and far behind, with one standby and two warm-ups."""
    clients = [client(1, ran=NINE), client(2, lag=10), client(3, lag=LONG_MAX)]
    plan = ha(clients, NINE, acceptable_recovery_lag=11, num_standby_replicas=1)
    assert shown(plan) == [
        ("0_0 0_2 1_0 2_0 2_2", "0_1 1_1 1_2 2_1"),
        ("0_1 1_1 1_2 2_1", "0_0 0_2 1_0 2_0 2_2"),
        ("", "0_1 0_2"),
    ]
    assert plan.probing


def test_unequal_threads() -> None:
    """Six and three threads share nine tasks 6 : 3 once all are caught up; so do 1, 2 and 3."""
    plan = ha([client(1, 6), client(2, 3)], NINE)
    assert shown(plan) == [("0_0 0_1 0_2 1_1 2_0 2_2", ""), ("1_0 1_2 2_1", "")]
    six = NINE[:6]
    plan = ha([client(n, n, lag=10, of=six) for n in (1, 2, 3)], six, acceptable_recovery_lag=0)
    assert [mine for mine, _ in shown(plan)] == ["1_0", "0_1 1_1", "0_0 0_2 1_2"]


def test_nobody_is_caught_up() -> None:
    """The least lagging client runs the task meanwhile; where it is to be, a warm-up begins."""
    task = [TaskId(0, 0)]
    clients = [client(n, lag=lag, of=task) for n, lag in ((1, LONG_MAX), (2, 1000), (3, 500))]
    plan = ha(clients, task, num_standby_replicas=1)
    assert shown(plan) == [("", "0_0"), ("", "0_0"), ("0_0", "")]
    assert plan.warmups == ((0, 0),)


def test_hash_order_decides_which_task_the_sticky_keeps() -> None:
    """P1 had 0_0 and 0_2 and may keep one: a Java hash map meets 0_2 first."""
    clients = [client(1, ran=[FOUR[0], FOUR[2]]), client(2, ran=[FOUR[1]]), client(3)]
    plan = LegacySticky().assign(TaskProblem(clients, FOUR[:3], FOUR[:3]))
    assert [mine for mine, _ in shown(plan)] == ["0_2", "0_1", "0_0"]


def test_standbys_by_two_tags_in_hash_order() -> None:
    """Nine clients on a grid of zones and clusters: two standbys in other zones and clusters."""
    tasks = [TaskId(group, number) for group in (0, 1) for number in range(3)]
    grid = [(zone, cluster) for cluster in "123" for zone in "123"]
    clients = [
        ClientState(ProcessId(0, place), 2, tags={"zone": f"z{zone}", "cluster": f"c{cluster}"})
        for place, (zone, cluster) in enumerate(grid, 1)
    ]
    settings = AssignmentConfigs(
        num_standby_replicas=2, rack_aware_assignment_tags=("zone", "cluster")
    )
    problem = TaskProblem(clients, tasks, tasks, settings)
    board = DraftAssignment(problem)
    for place, numbers in ((0, (0, 3)), (3, (1, 4)), (6, (2, 5))):
        for number in numbers:
            board.assign_active(place, number)
    TagAwareStandbys(problem).assign_standbys(
        board, problem.task_hash_order(problem.stateful_arrival)
    )
    got = {place + 1: sorted(mine) for place, mine in enumerate(board.standby) if mine}
    assert got == {5: [0, 3], 9: [0, 3], 3: [1, 4], 8: [1, 4], 2: [2, 5], 6: [2, 5]}


def test_a_cheaper_flow_is_found_in_the_graph_of_kafkas_test() -> None:
    """0->1 and 2->3 carry one unit each at cost 5; crossing them over costs 2."""
    import numpy as np

    edges = [(0, 1, 1, 3, 1), (0, 3, 1, 1, 0), (2, 1, 1, 1, 0), (2, 3, 1, 2, 1)]
    edges += [(-1, 0, 1, 0, 1), (-1, 2, 1, 0, 1), (1, 99, 1, 0, 1), (3, 99, 1, 0, 1)]
    graph = FlowGraph.from_edges(
        *(np.array(column, np.int64) for column in zip(*edges, strict=True))
    )
    assert graph.cancel_negative_cycles() == 1
    assert graph.flow_by_edge()[:4].tolist() == [0, 1, 1, 0]


def test_racks_of_all_or_none() -> None:
    """One client, or one partition, without a known rack turns the optimiser off without an error."""
    racks = {
        task: PartitionRacks((frozenset({"r2" if task.partition else "r1"}),)) for task in FOUR[:2]
    }
    settings = AssignmentConfigs(rack_aware_assignment_strategy="min_traffic")

    def moved(first="r2", racks=racks):
        clients = [client(1, rack=first), client(2, rack="r1")]
        problem = TaskProblem(clients, FOUR[:2], FOUR[:2], settings, racks=racks)
        return [mine for mine, _ in shown(HighAvailability().assign(problem))]

    assert moved() == ["0_1", "0_0"]
    assert moved(first=None) == ["0_0", "0_1"]
    assert moved(racks=racks | {FOUR[0]: PartitionRacks((None,))}) == ["0_0", "0_1"]


# -- the document of KIP-441 ---------------------------------------------------------------------


def document(clients, tasks, factor=1, **settings):
    problem = TaskProblem(clients, tasks, tasks, AssignmentConfigs(**settings))
    return Kip441Document(factor), problem


def test_ranks_as_the_document_has_them() -> None:
    """Runs: -1, acceptable: 0, unknown: 1 (before any real lag above 1), else the lag itself."""
    lags = dict(zip(FOUR, (-2, 10_000, -3, 10_001), strict=True))
    kip, problem = document([ClientState(ProcessId(0, 1), lags=lags)], FOUR)
    assert kip.rank_clients(problem).tolist() == [[-1, 0, 1, 10_001]]


def test_a_rebalance_follows_only_when_a_movement_is_available() -> None:
    """The check is false while the destination is behind, and true once it has rank 0."""
    ran, other = client(1, ran=FOUR, of=FOUR), client(2, lag=20_000, of=FOUR)
    kip, problem = document([ran, other], FOUR)
    active = [0, 0, 0, 0]
    assert [str(problem.tasks[one.task]) for one in kip.moves_to_balance(problem, active)] == [
        "0_1",
        "0_3",
    ]
    assert not kip.check(problem, active)
    kip, problem = document([ran, client(2, lag=20_000, lags={FOUR[3]: 9_999}, of=FOUR)], FOUR)
    assert [one.task for one in kip.moves_available_now(problem, active)] == [3]
    assert kip.check(problem, active)


def test_the_document_and_the_shipped_class_part_ways() -> None:
    """The shipped one bounds extra copies only and probes; the document leaves tasks within the factor."""
    tasks = FOUR
    clients = [client(1, ran=tasks, of=tasks), client(2, lag=50, of=tasks)]
    kip, problem = document(clients, tasks, factor=4)
    assert [mine for mine, _ in shown(kip.assign(problem))] == ["0_0 0_1 0_2 0_3", ""]
    assert [mine for mine, _ in shown(HighAvailability().assign(problem))] == ["0_0 0_2", "0_1 0_3"]
    # Four movements, one warm-up: the shipped class sends every task that is behind away at
    # once and probes; the document leaves what runs, and waits until one is available.
    behind = [client(1, ran=tasks, of=tasks), client(2, lag=10**6, of=tasks)]
    kip, problem = document(behind, tasks, factor=4, max_warmup_replicas=1)
    shipped = HighAvailability().assign(problem)
    assert shipped.probing
    assert len(shipped.warmups) == 1
    plan = kip.assign(problem)
    assert plan.active == ((0, 1, 2, 3), ())
    assert not kip.check(problem, [0, 0, 0, 0])
    # An unknown lag: rank 1 to the document, best of all (-3 < -2) to the shipped class.
    unknown = [client(1, lag=-3, of=tasks[:1]), client(2, lag=50, of=tasks[:1])]
    kip, problem = document(unknown, tasks[:1], acceptable_recovery_lag=10)
    assert shown(kip.assign(problem)) == [("0_0", ""), ("", "")]
    two = [client(1, lag=-3, of=tasks[:1]), client(2, lag=5, of=tasks[:1])]
    kip, problem = document(two, tasks[:1], acceptable_recovery_lag=10)
    assert shown(kip.assign(problem))[1][0] == "0_0"
    assert shown(HighAvailability().assign(problem))[0][0] == "0_0"


def test_the_documents_warm_ups_and_standbys_are_bounded() -> None:
    """At most `max_warmup_replicas` copies beyond `num_standbys`, each where an active is to be."""
    clients = [client(1, ran=NINE), client(2, lag=10**6), client(3, lag=10**6)]
    kip, problem = document(clients, NINE, max_warmup_replicas=2, num_standby_replicas=1)
    plan = kip.assign(problem)
    assert len(plan.active[0]) == 9
    assert sum(map(len, plan.standby)) == 9 + len(plan.warmups)
    assert len(plan.warmups) <= 2
    assert plan.probing
    with pytest.raises(InvalidConfigError):
        Kip441Document(0)


# -- KIP-924 -------------------------------------------------------------------------------------


def test_an_assignment_is_judged_as_kafkas_leader_does() -> None:
    """Each error by name; an active task that nobody got is none."""
    one, two = client(1, ran=FOUR[:1]), client(2)
    problem = TaskProblem([one, two], FOUR[:2], FOUR[:1])

    def judged(*entries):
        return validate_task_assignment(problem, entries)

    p1, p2, p3 = one.process, two.process, ProcessId(0, 3)
    assert judged((p1, FOUR[:1], []), (p2, [], [])) is AssignmentError.NONE
    assert judged((p1, FOUR[2:3], [])) is AssignmentError.UNKNOWN_TASK_ID
    twice = judged((p1, FOUR[:1], []), (p2, FOUR[:1], []))
    assert twice is AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES
    assert judged((p1, [], FOUR[1:2]), (p2, [], [])) is AssignmentError.INVALID_STANDBY_TASK
    assert judged((p1, [], [])) is AssignmentError.MISSING_PROCESS_ID
    assert judged((p1, [], []), (p2, [], []), (p3, [], [])) is AssignmentError.UNKNOWN_PROCESS_ID
    assert identity_assignment(problem)[p1] == (FOUR[:1], [])


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lag", [-1, -4, 2**63])
def test_lags_that_cannot_be_are_refused(lag) -> None:
    """Negative and no sentinel, or beyond int64: an error that names client and task."""
    with pytest.raises(InvalidProblemError, match=r"lags\.0_0"):
        ClientState(ProcessId(0, 1), lags={FOUR[0]: lag})


def test_clients_without_threads_or_with_two_minds_are_refused() -> None:
    """Capacity below 1; a task active and standby at once; the same process twice; no client."""
    with pytest.raises(InvalidProblemError, match="capacity"):
        ClientState(ProcessId(0, 1), 0)
    with pytest.raises(InvalidProblemError, match="previous_active"):
        ClientState(ProcessId(0, 1), previous_active=FOUR[:1], previous_standby=FOUR[:1])
    with pytest.raises(InvalidProblemError, match="twice"):
        TaskProblem([client(1), client(1)], FOUR)
    with pytest.raises(InvalidProblemError, match="at least one"):
        TaskProblem([], FOUR)


def test_tasks_that_do_not_fit_are_refused() -> None:
    """Twice the same, named beside unnamed, stateful but no task, and a lag that is missing."""
    with pytest.raises(InvalidProblemError, match="twice"):
        TaskProblem([client(1)], [FOUR[0], FOUR[0]])
    with pytest.raises(InvalidProblemError, match="name"):
        TaskProblem([client(1)], [FOUR[0], TaskId(0, 0, "x")])
    with pytest.raises(InvalidProblemError, match="no task"):
        TaskProblem([client(1)], FOUR[:1], FOUR[1:2])
    with pytest.raises(InvalidProblemError, match="every stateful task"):
        HighAvailability().assign(TaskProblem([ClientState(ProcessId(0, 1))], FOUR, FOUR))
    for text in ("", "0", "0_", "0_99999999999", "a_b", "0_1_2x"):
        with pytest.raises(InvalidProblemError, match="task"):
            TaskId.parse(text)
    with pytest.raises(InvalidProblemError, match="UUID"):
        ProcessId.parse("nonsense")


def test_a_task_that_two_ran_goes_to_the_later_in_the_map() -> None:
    """A zombie came back: both say that they ran it; it is active once, as Kafka has it."""
    clients = [client(1, ran=FOUR[:1]), client(2, ran=FOUR[:1])]
    problem = TaskProblem(clients, FOUR[:2], FOUR[:2])
    for one in find_task_assignors().values():
        plan = one.assign(problem)
        assert sorted(task for mine in plan.active for task in mine) == [0, 1], one.name
    assert shown(LegacySticky().assign(problem))[1][0].startswith("0_0")


def test_tags_missing_on_some_clients_are_no_error() -> None:
    """A client without the tag never shares it: standbys are placed all the same."""
    clients = [client(1, tags={"zone": "a"}), client(2), client(3, tags={"zone": "a"})]
    settings = AssignmentConfigs(num_standby_replicas=1, rack_aware_assignment_tags=("zone",))
    plan = HighAvailability().assign(TaskProblem(clients, FOUR[:1], FOUR[:1], settings))
    assert sum(map(len, plan.standby)) == 1


def test_more_tasks_than_kafka_can_count_pairs_of() -> None:
    """46,342 tasks overflow the count of pairs: Kafka's hash set refuses, and so do we."""
    TaskPairs(46_341)
    with pytest.raises(UnsupportedProblemError, match="46342"):
        TaskPairs(46_342)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("acceptable.recovery.lag", -1),
        ("max.warmup.replicas", 0),
        ("num.standby.replicas", "many"),
        ("probing.rebalance.interval.ms", 59_999),
        ("rack.aware.assignment.strategy", "fast"),
        ("rack.aware.assignment.traffic_cost", -1),
        ("rack.aware.assignment.tags", "a,b,c,d,e,f"),
    ],
)
def test_settings_that_kafka_refuses_are_refused(name, value) -> None:
    """Each with its name as Kafka writes it."""
    with pytest.raises(InvalidConfigError, match=name.replace(".", r"\.")):
        AssignmentConfigs.from_config({name: value})


def test_assignors_are_found_by_name_and_class() -> None:
    """With and without prefix, by Java class; a slip is answered with what is close."""
    assert find_assignor("streams:0.11").name == "streams:0.11"
    java = "org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor"
    assert find_assignor(java).name == "streams:high-availability"
    with pytest.raises(UnknownStrategyError, match="high-availability"):
        find_assignor("streams:high-avaiability")


def test_hashes_of_tasks_then_and_now() -> None:
    """The task id's hash changed between 0.11 and now; both as Java prints them."""
    assert [task_hash(TaskId(0, n)) for n in (0, 1)] == [29791, 29822]
    assert [early_task_hash(TaskId(g, 3)) for g in (0, 1, 5)] == [3, 4, 8]
