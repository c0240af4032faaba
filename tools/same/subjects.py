"""The deciding code under test: one function a subject, from a case number to its outcome."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import partage as pg
from same import inputs
from same.plain import outcome
from same.renames import find, load, replace

__all__ = ["Subject", "input_of", "subjects"]

Subject = Callable[[int], str]

_MOST_ROUNDS = 40
_PLACERS = ("striped", "rack-aware", "rack-unaware")
_TASK_PLAN = ("active", "standby", "probing", "warmups", "follow_up", "in_turn")


def subjects(vectors: Path) -> dict[str, Subject]:
    """Return every subject by name, for example ``strategy/range``.

    Args:
        vectors: folder of Kafka's bytes, from which the codecs' inputs are made.
    """
    made: dict[str, Subject] = {}
    for name in pg.strategies():
        made[f"strategy/{name}"] = partial(_assign, name)
    made["judge/measure"] = _measure
    for name in find("partage.streams.registry.find_task_assignors")():
        made[f"streams/{name.removeprefix('streams:')}"] = partial(_assign_tasks, name)
    made["streams/server-sticky"] = _assign_server_tasks
    for name in _PLACERS:
        made[f"placement/{name}"] = partial(_place, name)
    for name in pg.partitioners():
        made[f"partitioner/{name}"] = partial(_partition, name)
    for name in _samples(vectors):
        made[f"codec/{name}"] = partial(_decode_and_encode, name, vectors)
    return made


def input_of(subject: str, case: int) -> str:
    """Return the input of a case as text, to show it beside two outcomes that differ."""
    area = subject.partition("/")[0]
    rng = _random(area, case)
    if area in {"strategy", "judge"}:
        rng = _random("strategy", case)
        problem = inputs.group_problem(rng)
        return json.dumps([problem, inputs.membership_changes(rng, problem)], ensure_ascii=False)
    if subject == "streams/server-sticky":
        return json.dumps(inputs.server_streams_problem(rng))
    if area == "streams":
        return json.dumps(inputs.streams_problem(rng))
    return f"see {subject.partition('/')[0]} in tools/same/subjects.py, case {case}"


def _random(area: str, case: int) -> random.Random:
    return random.Random(f"{area} {case}")


# --- consumer groups ---


@lru_cache(maxsize=2)
def _group(case: int) -> tuple[pg.Group, pg.Cluster, list[Any]]:
    """Return a group, its cluster and the changes of its membership; strategies share them."""
    rng = _random("strategy", case)
    problem = inputs.group_problem(rng)
    group = pg.Group.from_json(problem)
    changes = [pg.Join(*group)]
    changes += [_change(*one) for one in inputs.membership_changes(rng, problem)]
    return group, pg.Cluster.from_json(problem), changes


def _change(kind: str, value: Any) -> Any:
    if kind == "leave":
        return pg.Leave(value)
    if kind == "join":
        return pg.Join(pg.Member(value["id"], topics=value["topics"]))
    if kind == "subscribe":
        return pg.Subscribe(*value)
    return pg.Metadata(pg.Cluster.from_topics(value))


def _assign(strategy: str, case: int) -> str:
    group, cluster, changes = _group(case)
    if case % 3 == 0:
        return outcome(
            lambda: [one.plan.to_dict() for one in pg.play(_limited(strategy), cluster, changes)]
        )
    config = {"assignment.optimal.max.moves": case % 10} if case % 4 == 1 else None

    def assign() -> list[Any]:
        plan = pg.assign(strategy, group, cluster, config=config)
        return [plan.to_dict(), getattr(plan, "memory", None)]

    return outcome(assign)


def _limited(name: str) -> Any:
    """Return a strategy that fails after 40 assignments.

    A dialect may ask for one follow-up rebalance after the other and never settle.
    """
    strategy = find("partage.groups.registry.find")(name)
    assign, calls = strategy.assign, count()

    def assign_limited(problem: Any, memory: object = None) -> Any:
        if next(calls) == _MOST_ROUNDS:
            raise TimeoutError
        return assign(problem, memory)

    public = {one: getattr(strategy, one) for one in dir(strategy) if not one.startswith("_")}
    return SimpleNamespace(**public | {"assign": assign_limited})


def _measure(case: int) -> str:
    group, cluster, _ = _group(case)
    strategy = ("range", "roundrobin", "fair")[case % 3]

    def measure() -> list[Any]:
        plan = pg.assign(strategy, group, cluster)
        return [pg.measure(plan, group, cluster), len(list(pg.check(plan, group, cluster)))]

    return outcome(measure)


# --- Kafka Streams ---


def _assign_tasks(assignor: str, case: int) -> str:
    def assign() -> list[Any]:
        plan = find("partage.streams.registry.find_assignor")(assignor).assign(_tasks(case))
        return [_attribute(plan, f"partage.streams.plan.TaskPlan.{name}") for name in _TASK_PLAN]

    return outcome(assign)


@cache
def _newest(name: str) -> str:
    """Return the last part of an attribute's newest name that its class has."""
    owner = find(name.rpartition(".")[0])
    known = {*dir(owner), *getattr(owner, "__dataclass_fields__", ())}
    names = [name]
    for rename in load():
        names.append(replace(names[-1], rename))
    return next(n for n in (one.rpartition(".")[2] for one in reversed(names)) if n in known)


def _attribute(value: Any, name: str) -> Any:
    return getattr(value, _newest(name))


@lru_cache(maxsize=2)
def _tasks(case: int) -> Any:
    """Return the task problem of a case; assignors share it."""
    problem = inputs.streams_problem(_random("streams", case))
    task = find("partage.streams.ids.TaskId").parse
    process = find("partage.streams.ids.ProcessId")
    client = find("partage.streams.client.Client")
    racks = find("partage.streams.client.PartitionRacks")
    stateful = set(problem["stateful"])
    clients = [
        client(
            process(one["msb"], one["lsb"]),
            one["capacity"],
            [task(name) for name in one["active"]],
            [task(name) for name in one["standby"]],
            {task(name): lag for name, lag in one["lags"].items()},
            one["tags"],
            one["rack"],
        )
        for one in problem["clients"]
    ]
    settings = problem["settings"]
    settings["rack_aware_assignment_tags"] = tuple(settings["rack_aware_assignment_tags"])
    return find("partage.streams.problem.TaskProblem")(
        clients,
        [task(name) for name in problem["tasks"]],
        [task(name) for name in problem["stateful"]],
        find("partage.streams.settings.Settings")(**settings),
        racks={
            task(name): racks(
                tuple(map(frozenset, source)),
                tuple(map(frozenset, changelog)) if name in stateful else (),
            )
            for name, (source, changelog) in problem["racks"].items()
        },
    )


def _assign_server_tasks(case: int) -> str:
    problem = inputs.server_streams_problem(_random("streams", case))
    subtopology = find("partage.streams.kip1071_sticky.ServerSubtopology")
    member = find("partage.streams.kip1071_sticky.ServerMember")
    assignor = find("partage.streams.kip1071_sticky.ServerSticky")()
    return outcome(
        lambda: assignor.assign(
            [subtopology(*one) for one in problem["subtopologies"]],
            [member(*one) for one in problem["members"]],
            problem["configs"],
        )
    )


# --- replicas and keys ---


def _place(strategy: str, case: int) -> str:
    rng = _random("placement", case)
    brokers = [pg.Broker(i, rack, fenced=fenced) for i, rack, fenced in inputs.brokers(rng)]
    start = {} if strategy == "striped" else {"start_index": rng.randint(-1, 9)}
    return outcome(
        lambda: pg.place(
            brokers,
            partitions=rng.randint(1, 20),
            replication_factor=rng.randint(1, 5),
            strategy=strategy,
            seed=rng.randint(-9, 99),
            **start,
        )
    )


def _partition(partitioner: str, case: int) -> str:
    rng = _random("partitioner", case)
    keys: list[Any] = inputs.keys(rng)
    if case % 2:
        keys = [None if key is None else key.hex() for key in keys]
    partitions, seed = rng.randint(1, 60), rng.randint(-9, 1 << 40)
    explicit = [rng.randrange(partitions) for _ in keys] if "manual" in partitioner else None
    place = partial(
        pg.partition_for,
        keys,
        partitions=partitions,
        partitioner=partitioner,
        explicit=explicit,
    )
    return f"{outcome(place)} {outcome(lambda: place(seed=seed).partition)}"


# --- bytes ---


@cache
def _samples(vectors: Path) -> dict[str, list[list[bytes | None]]]:
    """Return real bytes by codec: Kafka's own, as the vectors print them."""
    samples: dict[str, list[list[bytes | None]]] = {
        "record": [], "subscription": [], "assignment": [], "sticky-user-data": [],
        "streams-subscription": [], "streams-assignment": [],
    }  # fmt: skip
    for line in _lines(vectors, "record.jsonl"):
        samples["record"].append([_unbase64(line["out"][k]) for k in ("keyBytes", "valueBytes")])
    for name, file in (
        ("subscription", "wire-subscription"),
        ("assignment", "wire-assignment"),
        ("sticky-user-data", "sticky-userdata"),
        ("streams-subscription", "streams-subscription-info"),
        ("streams-assignment", "streams-assignment-info"),
    ):
        for line in _lines(vectors, f"{file}.jsonl"):
            data = line.get("bytes") or line.get("out", {}).get("bytes")
            if data is not None:
                samples[name].append([_unbase64(data)])
    return samples


def _lines(vectors: Path, name: str) -> Iterator[Any]:
    with (vectors / name).open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _unbase64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _decode_and_encode(codec: str, vectors: Path, case: int) -> str:
    rng = _random("codec", case)
    parts = rng.choice(_samples(vectors)[codec])
    if rng.random() < 0.7:
        parts = [None if data is None else inputs.damage(rng, data) for data in parts]
    return outcome(lambda: _CODECS[codec](*parts))


def _record(key: bytes, value: bytes | None) -> list[Any]:
    record = find("partage.wire.group_log.decode_record")(key, value)
    encode = find("partage.wire.group_log.encode_record")
    return [
        record,
        outcome(
            lambda: encode(
                record.key_version, record.key, version=record.value_version, value=record.value
            )
        ),
    ]


def _subscription(data: bytes) -> list[Any]:
    read = find("partage.wire.consumer_protocol.decode_subscription")(data)
    encode = find("partage.wire.consumer_protocol.encode_subscription")
    return [read, encode(read.topics, version=1), encode(read.topics, user_data=read.user_data)]


def _assignment(data: bytes) -> list[Any]:
    read = find("partage.wire.consumer_protocol.decode_assignment")(data)
    return [read, find("partage.wire.consumer_protocol.encode_assignment")(read.partitions)]


def _sticky_user_data(data: bytes) -> list[Any]:
    read = find("partage.wire.sticky_userdata.decode_sticky_user_data")(data)
    encode = find("partage.wire.sticky_userdata.encode_sticky_user_data")
    return [read, encode(read.partitions, read.generation or -1)]


def _streams_subscription(data: bytes) -> list[Any]:
    read = find("partage.wire.streams.subscription_bytes.decode_subscription_info")(data)
    return [
        find("partage.wire.streams.info_json.subscription_json")(data),
        find("partage.wire.streams.subscription_bytes.encode_subscription_info")(read),
    ]


def _streams_assignment(data: bytes) -> list[Any]:
    read = find("partage.wire.streams.assignment_bytes.decode_assignment_info")(data)
    return [
        find("partage.wire.streams.info_json.assignment_json")(data),
        find("partage.wire.streams.assignment_bytes.encode_assignment_info")(read),
    ]


_CODECS: dict[str, Callable[..., list[Any]]] = {
    "record": _record,
    "subscription": _subscription,
    "assignment": _assignment,
    "sticky-user-data": _sticky_user_data,
    "streams-subscription": _streams_subscription,
    "streams-assignment": _streams_assignment,
}
