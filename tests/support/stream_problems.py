"""Task problems in the notation of tests/data/vectors/streams, read and answered."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from partage.streams import (
    AssignmentConfigs,
    ClientState,
    PartitionRacks,
    ProcessId,
    TaskId,
    TaskProblem,
)
from partage.streams.high_availability import HighAvailability
from partage.streams.kip1071_sticky import ServerMember, ServerSticky43, ServerSubtopology
from partage.streams.member_assignments import assign_to_threads
from partage.streams.problem import DraftAssignment, TaskPlan
from partage.streams.sticky import (
    FallbackPrior,
    LegacySticky,
    PublicSticky,
    PublicSticky44,
    PublicStickyPreserving,
    PublicStickyPreserving44,
)
from partage.streams.task_assignment_utils import (
    default_standby_task_assignment,
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
)

VECTORS = Path(__file__).parents[1] / "data" / "vectors" / "streams"


def lines(kind):
    with gzip.open(VECTORS / f"{kind}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def tasks(names):
    return [TaskId.parse(name) for name in names]


def read(one):
    stateful = set(one["stateful"])
    clients = [
        ClientState(
            ProcessId(its["msb"], its["lsb"]),
            its["cap"],
            tasks(its["pa"]),
            tasks(its["ps"]),
            {TaskId.parse(task): lag for task, lag in its["lag"].items()},
            its["tags"],
            its["rack"] or None,
        )
        for its in one["clients"]
    ]
    racks = {
        TaskId.parse(task): PartitionRacks(
            tuple(map(known, source)), tuple(map(known, logs)) if task in stateful else ()
        )
        for task, (source, logs) in one["pr"].items()
    }
    return TaskProblem(
        clients, tasks(one["all"]), tasks(one["stateful"]), settings(one["cfg"]), racks=racks
    )


def known(racks):
    return None if None in racks else frozenset(racks)


def settings(cfg):
    return AssignmentConfigs(
        acceptable_recovery_lag=cfg["arl"],
        max_warmup_replicas=cfg["mw"],
        num_standby_replicas=cfg["nst"],
        rack_aware_assignment_strategy=cfg["strat"],
        rack_aware_assignment_tags=tuple(cfg["tags"]),
        rack_aware_assignment_traffic_cost=None if cfg["tc"] < 0 else cfg["tc"],
        rack_aware_assignment_non_overlap_cost=None if cfg["noc"] < 0 else cfg["noc"],
    )


def helpers(problem):
    """The program of the vectors `utils`: assigned to threads, then one public helper after the other."""
    board = DraftAssignment(problem)
    for place, task in enumerate(problem.task_arrival):
        clients = problem.client_arrival
        board.assign_active(clients[5 * place % len(clients)], task)
    optimize_rack_aware_active_tasks(problem, board)
    default_standby_task_assignment(problem, board)
    optimize_rack_aware_standby_tasks(problem, board)
    return TaskPlan.from_draft(problem, board)


ANSWERS = {
    "ha": HighAvailability().assign,
    "harack": HighAvailability().assign,
    "sticky": LegacySticky().assign,
    "stickyrack": LegacySticky().assign,
    "fallback": FallbackPrior().assign,
    "k924": PublicSticky().assign,
    "k924rack": PublicSticky().assign,
    "pres": PublicStickyPreserving().assign,
    "utils": helpers,
    "utilsrack": helpers,
}
#: The kinds whose classes of 4.4.0 decide otherwise, with the assignors of that release.
ANSWERS_44 = {
    "k924": PublicSticky44().assign,
    "k924rack": PublicSticky44().assign,
    "pres": PublicStickyPreserving44().assign,
}
WITH_THREADS = {"ha", "harack", "sticky", "stickyrack", "fallback"}


def answer(kind, one, answers=ANSWERS):
    """What partage says, as the vectors say it under `out`."""
    plan = answers[kind](read(one))
    problem = plan.problem
    said = {
        "a": [
            [
                [str(problem.tasks[task]) for task in plan.active[client]],
                [str(problem.tasks[task]) for task in plan.standby[client]],
            ]
            for client in problem.client_arrival
        ]
    }
    if kind in WITH_THREADS:
        said["probing"] = plan.probing
        said["threads"] = [
            threads(plan, its, client)
            for its, client in zip(one["clients"], problem.client_arrival, strict=True)
        ]
    else:
        said["fu"] = [int(client in plan.follow_up) for client in problem.client_arrival]
    return said


def threads(plan, its, client):
    """Per consumer c0.. the tasks as lists; the i-th stateful task was reported by 7 i mod n."""
    problem = plan.problem
    stateful = set(problem.stateful)
    before = sorted(
        problem.number_of[task]
        for task in tasks(its["pa"] + its["ps"])
        if task in problem.number_of
    )
    reported = {f"c{place}": [] for place in range(its["cap"])}
    for place, task in enumerate(task for task in before if task in stateful):
        reported[f"c{7 * place % its['cap']}"].append(task)
    dealt = assign_to_threads(plan, client, reported)
    return [
        [
            [str(problem.tasks[task]) for task in sorted(role)]
            for role in (mine.stateful, mine.standby, mine.stateless)
        ]
        for mine in (dealt[f"c{place}"] for place in range(its["cap"]))
    ]


def early_answer(assignor, one):
    """What an assignor of 2017 says: roles as in the vectors, and the turns of the consumers."""
    plan = assignor.assign(read(one))
    names = [str(task) for task in plan.problem.tasks]

    def rows(of):
        return [[names[task] for task in of[client]] for client in plan.problem.client_arrival]

    roles = zip(rows(plan.active), rows(plan.standby), strict=True)
    return {"a": [list(pair) for pair in roles], "turns": rows(plan.in_turn)}


def server_answer(one, assignor=ServerSticky43):
    """What the coordinator's assignor says, as server-streams-sticky.jsonl says it."""
    plan = assignor().assign(
        [ServerSubtopology(its["id"], its["n"], its["stateful"]) for its in one["subtopologies"]],
        [
            ServerMember(
                its["id"],
                its["process"],
                dict(its.get("active", [])),
                dict(its.get("standby", [])),
                {name: dict(sums) for name, sums in its.get("offsets", [])},
            )
            for its in one["members"]
        ],
        one["configs"],
    )
    return {
        member: {"active": by_name(plan.active[member]), "standby": by_name(plan.standby[member])}
        for member in plan.active
    }


def by_name(given):
    rows = {}
    for name, number in sorted(given, key=lambda task: (task[0].encode("utf-16-be"), task[1])):
        rows.setdefault(name, []).append(number)
    return [[name, numbers] for name, numbers in rows.items()]
