"""Java's and Scala's partitioners against the classes of their own jars, call by call."""

from __future__ import annotations

import random
import uuid

import pytest
from tests.support.jvm import TARGET, JvmOracle, jvm_classpath

import partage as pg
from parity.partitioner_calls import (
    CALLS_AT_ONCE,
    COUNTS,
    EDGES,
    LENGTHS,
    available,
    bytes_of,
    ours_at_once,
    ours_one_by_one,
    random_key,
    random_records,
    random_topic,
)
from partage.keys import serializers, start, with_leaders
from partage.keys.clients.java import (
    Adaptive,
    count_appended_bytes,
    draw_sticky_partition,
    peek_partition,
    sticky_partition,
    with_queues,
)
from partage.keys.hashing import java_string_hash
from partage.keys.partitioner import GivenDraws, fold_hash

pytestmark = [pytest.mark.parity, pytest.mark.jvm]


@pytest.fixture(scope="module")
def java():
    jvm_classpath()
    with JvmOracle("Partitioners", str(TARGET / "old")) as oracle:
        yield oracle


@pytest.fixture
def batches(parity_n):
    """Requests of 200 calls each: 10,000 calls a class in the sample, `make parity` 100,000."""
    return max(50, min(parity_n, 100_000) // CALLS_AT_ONCE)


def same(java, requests, ours):
    for request, said in zip(requests, java.ask_all(requests), strict=True):
        assert "error" not in said, said
        theirs = said["partitions"]
        assert ours(request) == theirs, request


@pytest.mark.parametrize("name", ["java:0.8", "java:0.9"])
def test_one_counter_for_all_topics(java, batches, name) -> None:
    """0.8.2.2 and 0.9: one counter, leaders missing, and in 0.8.2.2 explicit partitions refused."""
    rng = random.Random(name)
    requests = []
    for _ in range(batches):
        topics = {one: random_topic(rng) for one in ("t", "u", "v")}
        explicit = 0.2 if name == "java:0.8" else 0.0
        counter = rng.choice([*EDGES, rng.randint(-(2**31), 2**31 - 1)])
        records = random_records(rng, topics, explicit=explicit)
        requests.append({"what": name, "topics": topics, "records": records, "counter": counter})

    def ours(request):
        out = ours_one_by_one(name, request, start(name, counter=request["counter"]))
        return [as_java_says(one) for one in out]

    same(java, requests, ours)


def as_java_says(answer):
    """Our errors name the record and show the value; between them stands what Java says."""
    if isinstance(answer, int):
        return answer
    return answer.partition(": ")[2].rpartition(", got ")[0]


@pytest.mark.parametrize("name", ["java:2.3", "java:roundrobin", "java:roundrobin:4"])
def test_a_counter_for_each_topic(java, batches, name) -> None:
    """2.3.1's default, and round robin of 3.9.1 and 4.3.1: a whole column at a time."""
    rng = random.Random(name)
    requests = []
    for _ in range(batches):
        topics = {"t": random_topic(rng)}
        request = {"what": name, "topics": topics, "records": random_records(rng, topics)}
        if name == "java:2.3":
            request["counter"] = rng.choice([*EDGES, rng.randint(-(2**31), 2**31 - 1)])
        requests.append(request)

    def ours(request):
        settings = {"counter": request["counter"]} if "counter" in request else {}
        return ours_at_once(name.removesuffix(":4"), request, **settings)

    same(java, requests, ours)


@pytest.mark.parametrize("name", ["java:3.9", "java:uniform-sticky"])
def test_the_sticky_cache(java, batches, name) -> None:
    """KIP-480: the same draws give the same partitions; new batches, late ones too, as they come."""
    rng = random.Random(name)
    requests = []
    for i in range(batches):
        topics = {"t": random_topic(rng)}
        records = random_records(rng, topics)
        for one in rng.sample(range(len(records)), 40):
            records[one] = ["!t", None, rng.randrange(len(topics["t"]))]
        requests.append({"what": name, "topics": topics, "records": records, "random": i + 1})
    rule = pg.keys.registry.find_partitioner(name).rule
    for request, said in zip(requests, java.ask_all(requests), strict=True):
        topic = request["topics"]["t"]
        state = start(name, available=available(topic), seed=said["drawn"])
        ours = []
        for record in request["records"]:
            if record[0] == "!t":
                _, state = draw_sticky_partition(state, len(topic), record[2])
                ours.append(None)
            elif record[1] is not None and rule is not None:
                ours.append(rule.place_key(bytes_of(record), len(topic)))
            else:
                one, state = sticky_partition(state, len(topic))
                ours.append(one)
        assert ours == said["partitions"], request


@pytest.mark.parametrize(
    "name", ["scala:0.8.1", "scala:0.8.2", "scala:0.8.1:bytes", "scala:0.8.2:bytes"]
)
def test_the_scala_producer(java, batches, name) -> None:
    """HashCode of strings and of arrays, with the abs of each release."""
    rng = random.Random(name)
    requests = []
    for _ in range(batches):
        topics = {"t": [[p, True] for p in range(rng.choice(COUNTS))]}
        text = not name.endswith("bytes")
        records = random_records(rng, topics, null=0.0, text=text)
        requests.append({"what": name, "topics": topics, "records": records})

    def ours(request):
        keys = [bytes_of(one) for one in request["records"]]
        return pg.partition_for(
            keys, partitions=len(request["topics"]["t"]), partitioner=name
        ).tolist()

    same(java, requests, ours)


def test_abs_is_not_always_abs(java) -> None:
    """Utils.abs masks the sign in 0.8.2.2's clients and 0.8.1's core, and is one from 0.9 and 0.8.2 on."""
    rng = random.Random("abs")
    numbers = [*EDGES, *(rng.randint(-(2**31), 2**31 - 1) for _ in range(1000))]
    folds = {
        "java-0.8.2.2": "masked",
        "java-0.9.0.1": "java-abs",
        "scala-0.8.1.1": "masked",
        "scala-0.8.2.2": "java-abs",
    }
    for release, fold in folds.items():
        theirs = java.ask({"what": "abs", "release": release, "numbers": numbers})
        assert [fold_hash(x & 0xFFFFFFFF, 2**31 - 1, fold) for x in numbers] == [
            x % (2**31 - 1) for x in theirs
        ], release


def test_murmur2_of_every_short_length(java, batches) -> None:
    """4.3.1's partitionForKey on 200 keys a batch, and on all keys of one byte."""
    rng = random.Random("murmur2")
    requests = [{"what": "murmur2", "keys": [f"{b:02x}" for b in range(256)], "count": 2**31 - 1}]
    for _ in range(batches):
        keys = [random_key(rng).hex() for _ in range(CALLS_AT_ONCE)]
        count = rng.choice([*COUNTS, 2**31 - 1, rng.randint(1, 2**31 - 1)])
        requests.append({"what": "murmur2", "keys": keys, "count": count})
    for request, theirs in zip(requests, java.ask_all(requests), strict=True):
        keys = [bytes.fromhex(one) for one in request["keys"]]
        assert pg.partition_for(keys, partitions=request["count"]).tolist() == theirs


def test_windowed_keys_of_streams(java) -> None:
    """WindowedStreamPartitioner hashes what TimeWindowedSerializer wrote without its last 8 bytes."""
    rng = random.Random("windowed")
    for _ in range(20):
        windows = [[random_key(rng).hex(), rng.randint(0, 2**40)] for _ in range(100)]
        count = rng.choice(COUNTS)
        theirs = java.ask({"what": "streams:windowed", "windows": windows, "count": count})
        keys = [bytes.fromhex(one[0]) for one in theirs]
        ours = pg.partition_for(keys, partitions=count, partitioner="streams:windowed")
        assert ours.tolist() == [one[1] for one in theirs]


def steps_of(rng, count):
    steps = []
    for _ in range(60):
        kind = rng.random()
        if kind < 0.4:
            steps.append(["peek"])
        elif kind < 0.8:
            steps.append(
                ["update", rng.choice([0, 1, 10, 60, 99, 100, 150, 250]), rng.random() < 0.6]
            )
        elif kind < 0.85:
            steps.append(["cluster", rng.randrange(3)])
        elif kind < 0.88:
            steps.append(["queues", None, None, 0])
        else:
            size = rng.choice([1, 2, count, count])
            queues = [rng.choice([0, 0, 1, 2, 7, 100]) for _ in range(size)]
            if rng.random() < 0.2:
                queues = [queues[0]] * size
            ids = rng.sample(range(count), size) if size <= count else list(range(size))
            steps.append(["queues", queues, ids, rng.choice([size, size, max(0, size - 1)])])
    return steps


def test_adaptive_partitioning_step_by_step(java, batches) -> None:
    """KIP-794: the same numbers give the same partitions, through bytes, leaders and queues."""
    rng = random.Random("adaptive")
    requests = []
    for _ in range(batches):
        count = rng.choice(COUNTS)
        clusters = [
            [[p, rng.random() < 0.7] for p in rng.sample(range(count), count)] for _ in range(3)
        ]
        numbers = [rng.randint(-(2**31), 2**31 - 1) for _ in range(130)]
        requests.append(
            {"what": "java:builtin", "size": 100, "clusters": clusters, "numbers": numbers, "steps": steps_of(rng, count)}
        )  # fmt: skip
    for request, theirs in zip(requests, java.ask_all(requests), strict=True):
        assert "error" not in theirs, (theirs, request)
        assert adaptive(request) == theirs, request


def adaptive(request):
    clusters, out = request["clusters"], []
    count = len(clusters[0])
    state = Adaptive(batch_size=request["size"], draws=GivenDraws(tuple(request["numbers"])))
    state = with_leaders(state, available(clusters[0]))
    for step in request["steps"]:
        if step[0] == "peek":
            one, state = peek_partition(state, count)
            out.append(one)
        elif step[0] == "update":
            _, state = peek_partition(state, count)
            state = count_appended_bytes(state, step[1], count, switch=step[2])
        elif step[0] == "cluster":
            state = with_leaders(state, available(clusters[step[1]]))
        else:
            state = with_queues(state, step[1], step[2] or (), step[3] if step[1] else None)
    return out


def test_a_hundred_thousand_keys_of_all_lengths(java) -> None:
    """100,000 calls of 4.3.1's partitionForKey, hashed by us as one column: 0 differences."""
    rng = random.Random("100,000")
    keys = [rng.randbytes(rng.choice(LENGTHS)) for _ in range(100_000)]
    chunks = [keys[i : i + 2000] for i in range(0, len(keys), 2000)]
    requests = [
        {"what": "murmur2", "keys": [one.hex() for one in chunk], "count": 12} for chunk in chunks
    ]
    theirs = [p for answer in java.ask_all(requests) for p in answer]
    assert pg.partition_for(keys, partitions=12).tolist() == theirs


def test_serializers_give_the_bytes_of_kafkas(java) -> None:
    """String, short, int, long, float, double and UUID of 4.3.1; hashCodes of what Scala was given."""
    rng = random.Random("serializers")
    cases = [("string", "é€😀a", serializers.string("é€😀a")), ("string", "", b"")]
    for _ in range(200):
        short, int_ = rng.randint(-(2**15), 2**15 - 1), rng.randint(-(2**31), 2**31 - 1)
        long_, real = rng.randint(-(2**63), 2**63 - 1), rng.uniform(-1e9, 1e9)
        one = str(uuid.UUID(int=rng.getrandbits(128)))
        cases += [
            ("short", short, serializers.short(short)),
            ("int", int_, serializers.int_(int_)),
            ("long", long_, serializers.long_(long_)),
            ("float", real, serializers.float_(real)),
            ("double", real, serializers.double(real)),
            ("uuid", one.upper(), serializers.uuid_text(one.upper())),
            ("long hash", long_, serializers.int_(serializers.java_hash_of_long(long_))),
            ("string hash", one, java_string_hash(one).to_bytes(4, "big")),
        ]
    theirs = java.ask({"what": "serializers", "values": [case[:2] for case in cases]})
    assert [case[2].hex() for case in cases] == theirs
