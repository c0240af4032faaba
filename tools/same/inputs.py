"""Random problems as plain JSON values: the same seed gives the same problem in each version.

Nothing of Partage is used here, so that a changed version cannot change its own input.
"""

from __future__ import annotations

import base64
import random
import struct
from typing import Any

__all__ = [
    "brokers", "damage", "group_problem", "keys", "membership_changes", "server_streams_problem",
    "streams_problem",
]  # fmt: skip

Json = dict[str, Any]

_TOPICS = ("orders", "clicks", "t-1", "payments", "zażółć", "😀", "BB", "Aa", "a.b.c", "topic10")
_RACKS = ("a", "b", "c", None, "")
_UNKNOWN_LAG = -3
_RUNNING_LAG = -2


def group_problem(rng: random.Random) -> Json:
    """Return a consumer group and its cluster, in the format of `Group.from_json`."""
    names = rng.sample(_TOPICS, rng.randint(1, 6))
    has_racks = rng.random() < 0.3
    topics = {name: _partitions(rng, has_racks) for name in names}
    is_uniform = rng.random() < 0.5
    claims = rng.choice(["none", "valid", "invented"])
    free = [(name, p) for name in names for p in range(_count(topics[name]))]
    rng.shuffle(free)
    members = []
    for i in rng.sample(range(20), rng.randint(1, 9)):
        subscribed = names if is_uniform else rng.sample(names, rng.randint(0, len(names)))
        member: Json = {"id": f"consumer-{i}", "topics": list(subscribed)}
        if rng.random() < 0.2:
            member["instance"] = f"instance-{rng.randint(0, 30)}-{i}"
        if has_racks:
            member["rack"] = rng.choice(_RACKS)
        if rng.random() < 0.05:
            member["weight"] = rng.choice([0.5, 2.0, 3.5])
        if claims == "valid":
            _claim(rng, member, [free.pop() for _ in range(min(len(free), rng.randint(0, 6)))])
        elif claims == "invented":
            _claim(rng, member, _invented(rng, names))
        members.append(member)
    return {"topics": topics, "members": members}


def _partitions(rng: random.Random, has_racks: bool) -> Any:  # noqa: FBT001 - private
    count = rng.choice([0, 1, 2, 3, 4, 6, 8, 12, 17])
    if not has_racks:
        return count
    return [rng.sample(_RACKS[:4], rng.randint(0, 3)) for _ in range(count)]


def _count(partitions: Any) -> int:
    return partitions if isinstance(partitions, int) else len(partitions)


def _invented(rng: random.Random, names: list[str]) -> list[tuple[str, int]]:
    """Return claims that may conflict, repeat or name what does not exist."""
    pool = [*names, "deleted"]
    return [(rng.choice(pool), rng.randint(0, 13)) for _ in range(rng.randint(0, 8))]


def _claim(rng: random.Random, member: Json, partitions: list[tuple[str, int]]) -> None:
    generation = rng.choice([-1, 1, 4, 4, 4, 5])
    if rng.random() < 0.9:
        member["owned"] = [list(pair) for pair in partitions]
        member["generation"] = generation
    if rng.random() < 0.7:
        data = _sticky_user_data(partitions, generation if rng.random() < 0.8 else None)
        if rng.random() < 0.1:
            data = damage(rng, data)
        member["userData"] = base64.b64encode(data).decode()


def _sticky_user_data(partitions: list[tuple[str, int]], generation: int | None) -> bytes:
    """Return StickyAssignorUserData, version 1, or version 0 without a generation."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    out = [struct.pack(">i", len(by_topic))]
    for topic, numbers in by_topic.items():
        name = topic.encode()
        out.append(struct.pack(f">h{len(name)}si", len(name), name, len(numbers)))
        out.append(struct.pack(f">{len(numbers)}i", *numbers))
    if generation is not None:
        out.append(struct.pack(">i", generation))
    return b"".join(out)


def membership_changes(rng: random.Random, problem: Json) -> list[tuple[str, Any]]:
    """Return up to four changes of a group: ("leave", id), ("join", member), and so on.

    The values of ("subscribe", (id, topics)) and ("metadata", topics) are plain as well.
    """
    ids = [member["id"] for member in problem["members"]]
    names = list(problem["topics"])
    changes: list[tuple[str, Any]] = []
    for number in range(rng.randint(1, 4)):
        kind = rng.choice(["leave", "join", "subscribe", "metadata"])
        if kind == "leave" and len(ids) > 1:
            changes.append(("leave", ids.pop(rng.randrange(len(ids)))))
        elif kind == "subscribe":
            topics = rng.sample(names, rng.randint(1, len(names)))
            changes.append(("subscribe", (rng.choice(ids), topics)))
        elif kind == "metadata":
            topics_now = {name: rng.randint(0, 15) for name in names if rng.random() < 0.9}
            changes.append(("metadata", topics_now))
        else:
            ids.append(f"joined-{number}")
            changes.append(("join", {"id": ids[-1], "topics": names}))
    return changes


def streams_problem(rng: random.Random) -> Json:
    """Return a Streams application: tasks, clients with state, racks and settings."""
    tasks = [f"{sub}_{p}" for sub in range(rng.randint(1, 4)) for p in range(rng.randint(1, 6))]
    stateful = [task for task in tasks if rng.random() < 0.6]
    free = list(tasks)
    rng.shuffle(free)
    clients = []
    for i in range(rng.randint(1, 6)):
        active = [free.pop() for _ in range(min(len(free), rng.randint(0, 5)))]
        others = [task for task in stateful if task not in active]
        standby = rng.sample(others, rng.randint(0, len(others)) // 2)
        clients.append({
            "msb": rng.choice([0, -5, 1 << 40]) + i,
            "lsb": rng.choice([i, -i, 1 << 61]),
            "capacity": rng.randint(1, 4),
            "active": active,
            "standby": standby,
            "lags": {task: _lag(rng, task in active) for task in stateful},
            "tags": {"zone": rng.choice("abc"), "cluster": rng.choice("xy")},
            "rack": rng.choice("abc"),
        })  # fmt: skip
    return {
        "tasks": tasks,
        "stateful": stateful,
        "clients": clients,
        "racks": {task: [_rack_sets(rng), _rack_sets(rng)] for task in tasks},
        "settings": {
            "acceptable_recovery_lag": rng.choice([0, 10, 10_000]),
            "max_warmup_replicas": rng.randint(1, 3),
            "num_standby_replicas": rng.randint(0, 2),
            "rack_aware_assignment_strategy": rng.choice(
                ["none", "none", "min_traffic", "balance_subtopology"]
            ),
            "rack_aware_assignment_tags": rng.choice([[], [], ["zone"], ["zone", "cluster"]]),
        },
    }


def _lag(rng: random.Random, is_running: bool) -> int:  # noqa: FBT001 - private
    if is_running:
        return _RUNNING_LAG
    return rng.choice([_UNKNOWN_LAG, 0, 5, 11, 9_000, 20_000])


def _rack_sets(rng: random.Random) -> list[list[str]]:
    return [sorted(rng.sample("abc", rng.randint(1, 3))) for _ in range(rng.randint(1, 2))]


def server_streams_problem(rng: random.Random) -> Json:
    """Return a Streams group of the coordinator (KIP-1071): sub-topologies and members."""
    subtopologies = [(str(i), rng.randint(0, 7), rng.random() < 0.5) for i in range(4)]
    free = [(name, p) for name, count, _ in subtopologies for p in range(count)]
    rng.shuffle(free)
    members = []
    for i in range(rng.randint(1, 7)):
        targets: list[dict[str, list[int]]] = [{}, {}]
        for _ in range(min(len(free), rng.randint(0, 6))):
            name, partition = free.pop()
            targets[rng.random() < 0.3].setdefault(name, []).append(partition)
        members.append((f"member-{i}", f"process-{rng.randint(0, 4)}", *targets))
    configs = {"num.standby.replicas": str(rng.randint(0, 2))} if rng.random() < 0.7 else {}
    return {"subtopologies": subtopologies, "members": members, "configs": configs}


def brokers(rng: random.Random) -> list[tuple[int, str | None, bool]]:
    """Return brokers as (id, rack, fenced)."""
    has_racks = rng.random() < 0.7
    ids = rng.sample(range(30), rng.randint(1, 9))
    return [(i, rng.choice("abc") if has_racks else None, rng.random() < 0.1) for i in ids]


def keys(rng: random.Random) -> list[bytes | None]:
    """Return 12 record keys of zero to 20 bytes, some of them null."""
    return [None if rng.random() < 0.1 else rng.randbytes(rng.randint(0, 20)) for _ in range(12)]


def damage(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with one byte changed, a part cut off or a few bytes appended."""
    kind = rng.randrange(3)
    if kind == 0 and data:
        at = rng.randrange(len(data))
        return data[:at] + rng.randbytes(1) + data[at + 1 :]
    if kind == 1:
        return data[: rng.randint(0, len(data))]
    return data + rng.randbytes(rng.randint(1, 4))
