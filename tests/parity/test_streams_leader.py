"""From members to every consumer's assignment, beside the leader's own classes of 4.3.1."""

from __future__ import annotations

import json
import random

import pytest
from tests.support.jvm import JvmOracle

from partage.streams import (
    AssignmentConfigs,
    ProcessId,
    StreamsApplication,
    StreamsMember,
    Subtopology,
    TaskId,
    Topology,
    compute_group_assignment,
)

LONG_MAX = 2**63 - 1


def group_request(rng):
    """Members with owned partitions, sums and end points: sound, stale and contradicting ones."""
    counts, groups, ends, tasks = {}, [], {}, {}
    for number in sorted(rng.sample(range(9), rng.randint(1, 3))):
        sources = [f"topic{number}{letter}" for letter in "abc"[: rng.randint(1, 3)]]
        most = rng.randint(1, 8)
        counts |= {topic: rng.randint(1, most) for topic in sources} | {sources[0]: most}
        stateful = rng.random() < 0.7
        groups.append({"number": number, "sources": sources, "stateful": stateful})
        for place in range(most):
            name = f"{number}_{place}"
            tasks[name] = [[topic, place] for topic in sources if place < counts[topic]]
            if stateful:
                ends[name] = rng.choice([0, 1, 10_000, 150_000, LONG_MAX])
    members = _members(rng, tasks, ends)
    leader = rng.choice(members)
    return {
        "groups": groups,
        "counts": counts,
        "ends": ends,
        "members": members,
        "leader": {"msb": leader["msb"], "lsb": leader["lsb"]},
        "now": rng.choice([0, 1_700_000_000_000]),
        "all": list(tasks),
        "stateful": list(ends),
        "clients": [],
        "cfg": {
            "arl": rng.choice([0, 10_000, LONG_MAX]),
            "mw": rng.randint(1, 3),
            "nst": rng.choice([0, 0, 1, 2]),
            "tags": rng.choice([[], [], ["zone"]]),
            "strat": "none",
            "tc": -1,
            "noc": -1,
        },
    }


def _members(rng, tasks, ends):
    processes = [(0, number) for number in range(rng.randint(1, 5))]
    if rng.random() < 0.5:
        processes = [(rng.getrandbits(63), rng.getrandbits(64) - 2**63) for _ in processes]
    endpoints = {
        one: rng.choice([None, f"host{place}:{9000 + place}"])
        for place, one in enumerate(processes)
    }
    every = [partition for its in tasks.values() for partition in its]
    holder = {}
    members = []
    for number in range(rng.randint(1, 8)):
        process = rng.choice(processes)
        members.append(
            {
                "id": rng.choice(["c", "Aa", "BB", "consumer-"]) + str(number),
                "msb": process[0],
                "lsb": process[1],
                "owned": [],
                "sums": {},
                "tags": {"zone": rng.choice("ab")} if rng.random() < 0.7 else {},
                "endpoint": endpoints[process],
            }
        )
    past = rng.choice(["none", "whole", "whole", "torn"])
    for name, its in tasks.items():
        owner = rng.choice(members)
        if past != "none" and rng.random() < 0.9:
            owner["owned"] += its
            holder[name] = owner
            if name in ends:
                owner["sums"][name] = -2
        for other in members:
            if name in ends and rng.random() < 0.2 and name not in other["sums"]:
                other["sums"][name] = rng.choice([0, 1, 9_999, 150_000, 10**6, -3, -2])
    if past == "torn":
        for member in members:
            member["owned"] = [one for one in member["owned"] if rng.random() < 0.8]
            member["owned"] += [
                one for one in every if one not in member["owned"] and rng.random() < 0.1
            ]
    return members


def ours(one):
    """What partage says, as jvm/StreamsLeader.java says it."""
    topology = Topology(
        Subtopology(
            its["number"],
            tuple(its["sources"]),
            changelogs=(f"log{its['number']}",) if its["stateful"] else (),
        )
        for its in one["groups"]
    )
    ends = {
        (f"log{TaskId.parse(name).subtopology}", TaskId.parse(name).partition): end
        for name, end in one["ends"].items()
    }
    logs = {}
    for topic, number in ends:
        logs[topic] = max(logs.get(topic, 0), number + 1)
    cfg = one["cfg"]
    settings = AssignmentConfigs(
        acceptable_recovery_lag=cfg["arl"],
        max_warmup_replicas=cfg["mw"],
        num_standby_replicas=cfg["nst"],
        rack_aware_assignment_tags=tuple(cfg["tags"]),
        probing_rebalance_interval_ms=60_000,
    )
    members = [
        StreamsMember(
            its["id"],
            ProcessId(its["msb"], its["lsb"]),
            [tuple(partition) for partition in its["owned"]],
            {TaskId.parse(task): total for task, total in its["sums"].items()},
            its["tags"],
            endpoint=its["endpoint"]
            and (its["endpoint"].split(":")[0], int(its["endpoint"].split(":")[1])),
        )
        for its in one["members"]
    ]
    answer = compute_group_assignment(
        StreamsApplication(topology, {**one["counts"], **logs}, settings, ends),
        members,
        leader=ProcessId(one["leader"]["msb"], one["leader"]["lsb"]),
        now_ms=one["now"],
    )
    said = {
        "stable": answer.stable,
        "consumers": {
            name: {
                "partitions": [list(one) for one in its.partitions],
                "active": [str(task) for task in its.active],
                "standby": {
                    str(task): [list(one) for one in of] for task, of in its.standby.items()
                },
                "next": its.next_rebalance_ms,
            }
            for name, its in answer.consumers.items()
        },
    }
    for key, hosts in (("hosts", answer.hosts), ("standbyHosts", answer.standby_hosts)):
        if hosts:
            said[key] = {host: [list(one) for one in of] for (host, _), of in hosts.items()}
    return said


def test_equals_the_leader_of_4_3_1(parity_n) -> None:
    """Partitions, tasks, standbys, withheld tasks, hosts, follow-ups: the same for every consumer."""
    rng = random.Random("streams leader")
    withheld = probed = 0
    with JvmOracle("StreamsLeader") as oracle:
        asked = max(60, parity_n // 5)
        while asked > 0:
            some = [group_request(rng) for _ in range(min(500, asked))]
            for one, theirs in zip(some, oracle.ask_all(some), strict=True):
                got = ours(one)
                if got != theirs:
                    shown = {"problem": one, "kafka": theirs, "partage": got}
                    pytest.fail(f"differs from Kafka's leader:\n{json.dumps(shown)}", pytrace=False)
                times = {its["next"] for its in got["consumers"].values()}
                withheld += 0 in times
                probed += one["now"] + 60_000 in times
            asked -= len(some)
    assert withheld > 5
    assert probed > 2
