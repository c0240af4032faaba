"""Random task problems that look for trouble, in the notation of tests/data/vectors/streams."""

from __future__ import annotations

LONG_MAX = 2**63 - 1
RACKS = ["r0", "r1", "r2", "r3"]
LAGS = [0, 0, 1, 50, 99, 100, 101, 1000, 10_000, 10_001, 10**6, LONG_MAX, -2, -2, -3]


#: Names of processes; in a small table many of them share a bucket, some at any size.
_PROCESSES = [*(f"p{number}" for number in range(24)), "AaAa", "AaBB", "BBAa", "BBBB"]


def nasty_stream_problem(rng, *, racks=None, named=True, most_tasks=40):
    """One problem; with ``racks`` a rack-aware strategy is on, and mostly all racks are known."""
    names = ["a", "Topology \N{GRINNING FACE}"]
    named = rng.choice(names) if named and rng.random() < 0.1 else None
    tasks, stateful = _tasks(rng, named, most_tasks)
    cfg = _settings(rng, rack_aware=rng.random() < 0.3 if racks is None else racks)
    clients = _clients(rng, tasks, stateful, named)
    return {
        "all": tasks,
        "stateful": stateful,
        "clients": clients,
        "cfg": cfg,
        "pr": {task: [_replicas(rng, 3), _replicas(rng, 2)] for task in tasks},
    }


def _tasks(rng, named, most):
    prefix = f"{named}__" if named else ""
    tasks, stateful = [], []
    for group in rng.sample(range(12), rng.randint(1, 4)):
        count = rng.choice([1, 2, 3, 4, rng.randint(1, most)])
        mine = [f"{prefix}{group}_{number}" for number in range(count)]
        tasks += mine
        if rng.random() < 0.7:
            stateful += mine
    tasks, stateful = tasks[:most], [one for one in stateful if one in tasks[:most]]
    if rng.random() < 0.7:
        rng.shuffle(tasks)
        rng.shuffle(stateful)
    return tasks, stateful


def _settings(rng, *, rack_aware):
    strategies = ["min_traffic", "balance_subtopology"]
    return {
        "arl": rng.choice([0, 100, 10_000, 10_000, LONG_MAX]),
        "mw": rng.choice([1, 1, 2, 2, 3, 10]),
        "nst": rng.choice([0, 0, 1, 1, 2, 3]),
        "tags": rng.choice([[], [], ["zone"], ["zone", "cluster"], ["cluster", "nowhere"]]),
        "strat": rng.choice(strategies) if rack_aware else "none",
        "tc": rng.choice([-1, 0, 1, 3, 10]),
        "noc": rng.choice([-1, 0, 1, 7, 10]),
    }


def _clients(rng, tasks, stateful, named):
    count = rng.choice([1, 2, 2, 3, 3, 4, 5, rng.randint(1, 9), rng.randint(1, 16)])
    alike = rng.choice([None, 1, 2])
    small = rng.random() < 0.3
    past = tasks + [f"{named + '__' if named else ''}{group}_7" for group in (12, 13)]
    everywhere_known = rng.random() < 0.9
    clients, seen = [], set()
    owner = {task: rng.randrange(count) for task in past}
    while len(clients) < count:
        msb = 0 if small else rng.getrandbits(64) - 2**63
        lsb = rng.randint(0, 40) if small else rng.getrandbits(64) - 2**63
        if (msb, lsb) in seen:
            continue
        seen.add((msb, lsb))
        number = len(clients)
        ran = [task for task in past if owner[task] == number and rng.random() < 0.8]
        had = [task for task in past if task not in ran and rng.random() < 0.25]
        if rng.random() < 0.1:  # two that both say they ran it: a zombie came back
            ran += [task for task in past if task not in ran + had and rng.random() < 0.2]
        rng.shuffle(ran)
        rng.shuffle(had)
        clients.append(
            {
                "msb": msb,
                "lsb": lsb,
                "cap": alike or rng.randint(1, 4),
                "pa": ran,
                "ps": had,
                "lag": _lags(rng, stateful, set(ran), set(had)),
                "tags": _tags(rng),
                "rack": rng.choice(RACKS) if everywhere_known or rng.random() < 0.8 else "",
            }
        )
    return clients


def _lags(rng, stateful, ran, had):
    style = rng.choice(["any", "honest", "honest", "fresh"])
    lags = {}
    for task in stateful:
        if style == "any":
            lags[task] = rng.choice(LAGS)
        elif style == "honest" and task in ran:
            lags[task] = -2
        elif style == "honest" and task in had:
            lags[task] = rng.choice([0, 100, 5000, 20_000])
        else:
            lags[task] = 150_000
    return lags


def _tags(rng):
    tags = {"zone": rng.choice("abc"), "cluster": rng.choice("kl"), "other": rng.choice("xy")}
    return {key: value for key, value in tags.items() if rng.random() < 0.8}


def _replicas(rng, most):
    """Racks of each partition of a task; rarely a broker without rack, or no replicas."""
    partitions = [rng.sample(RACKS, rng.randint(1, 3)) for _ in range(rng.randint(1, most))]
    if rng.random() < 0.002:
        partitions[0] = rng.choice([[], [None], ["r0", None]])
    return partitions


def nasty_server_group(rng, before=None):
    """A streams group of the coordinator; ``before`` is (group, plan) of the round before it."""
    if before and before[1]:
        subtopologies = before[0]["subtopologies"]
        old = {one["id"]: one for one in before[0]["members"]}
        plan = before[1]
    else:
        names = rng.sample(
            ["0", "1", "2", "10", "a", "Aa", "BB", "\N{GRINNING FACE}"], rng.randint(1, 4)
        )
        subtopologies = [
            {
                "id": name,
                "n": rng.choice([1, 2, 5, rng.randint(1, 24)]),
                "stateful": rng.random() < 0.7,
            }
            for name in names
        ]
        old, plan = {}, {}
    count = rng.choice([1, 2, 3, 4, 6, rng.randint(1, 16)])
    keep = [one for one in old.values() if rng.random() < 0.8]
    members = [
        {"id": one["id"], "process": one["process"], **plan[one["id"]]}
        for one in keep
        if one["id"] in plan
    ]
    processes = [f"p{number}" for number in range(rng.randint(1, 6))]
    while len(members) < count:
        name = rng.choice(["c", "member-", "Aa", "BB"]) + str(rng.randint(0, 99))
        if name in {one["id"] for one in members}:
            continue
        invented = rng.random() < 0.3
        members.append(
            {
                "id": name,
                "process": rng.choice(processes),
                "active": _claims(rng, subtopologies) if invented else [],
                "standby": _claims(rng, subtopologies) if invented else [],
            }
        )
    rng.shuffle(members)
    configs = rng.choice([{}, {"num.standby.replicas": rng.choice("01123")}])
    if rng.random() < 0.01:
        configs = rng.choice([{"other": "1"}, {"num.standby.replicas": "one"}])
    return {"subtopologies": subtopologies, "members": members, "configs": configs}


def with_offsets(rng, group):
    """Give members offset sums of tasks, and processes names of which many share a bucket."""
    names = rng.sample(_PROCESSES, len(_PROCESSES))
    renamed = {one["process"]: names.pop() for one in group["members"]}
    for one in group["members"]:
        is_alone = rng.random() < 0.5
        one["process"] = names.pop() if is_alone and names else renamed[one["process"]]
        one["offsets"] = [
            [name, [[p, rng.choice([0, 7, rng.randint(0, 2**40)])] for p in numbers]]
            for name, numbers in _claims(rng, group["subtopologies"])
            if rng.random() < 0.7
        ]
    return group


def _claims(rng, subtopologies):
    return [
        [one["id"], sorted(rng.sample(range(one["n"]), rng.randint(0, one["n"])))]
        for one in subtopologies
        if rng.random() < 0.6
    ]
