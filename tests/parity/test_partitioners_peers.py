"""Partitioners of the other clients against the published packages themselves."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
from pathlib import Path

import pytest
from tests.support.go_programs import built_go

import partage as pg
from parity.partitioner_calls import COUNTS, LENGTHS
from partage.keys import start
from partage.keys.clients.go import draw_next_partition
from partage.keys.clients.python import _pin
from peers.asking import python

pytestmark = pytest.mark.parity
PEERS = Path(__file__).parents[1] / "peers"
KEYS_AT_ONCE = 2000


class Asked:
    """A program that answers JSON lines."""

    def __init__(self, *command) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def peers():
    asked = Asked(python(), PEERS / "partitioners.py")
    yield asked
    asked.close()


@pytest.fixture(scope="module")
def go():
    asked = Asked(built_go(PEERS / "partitioners-go", "partitioners-go"))
    yield asked
    asked.close()


def random_keys(rng, *, null=0.0, empty=True):
    lengths = LENGTHS if empty else LENGTHS[1:]
    return [
        None if rng.random() < null else rng.randbytes(rng.choice(lengths))
        for _ in range(KEYS_AT_ONCE)
    ]


def hexed(keys):
    return [None if key is None else key.hex() for key in keys]


def rounds(parity_n):
    return max(2, min(parity_n, 100_000) // KEYS_AT_ONCE)


@pytest.mark.parametrize(
    ("name", "null", "empty"),
    [
        ("kafka-python", 0.0, True),
        ("aiokafka", 0.0, True),
        ("librdkafka:consistent", 0.1, True),
        ("librdkafka:consistent_random", 0.0, False),
        ("librdkafka:murmur2", 0.1, True),
        ("librdkafka:murmur2_random", 0.0, True),
        ("librdkafka:fnv1a", 0.1, True),
        ("librdkafka:fnv1a_random", 0.0, True),
    ],
)
def test_keys_go_where_the_package_puts_them(peers, parity_n, name, null, empty) -> None:
    """kafka-python 3.0.12, aiokafka 0.14.0 and the functions of librdkafka 2.16.0: 0 differences."""
    rng = random.Random(name)
    for _ in range(rounds(parity_n)):
        keys = random_keys(rng, null=null, empty=empty)
        for count in (rng.choice(COUNTS), rng.randint(1, 2**31 - 1) if "librd" in name else 7):
            theirs = peers.ask(who=name, keys=hexed(keys), count=count)
            ours = pg.partition_for(keys, partitions=count, partitioner=name)
            assert ours.tolist() == theirs


def test_the_defaults_are_what_the_packages_say(peers) -> None:
    """The names without more stand for what each client does when nothing is configured."""
    said = peers.ask(who="defaults")
    assert said == {
        "kafka-python": "kafka.partitioner.default.DefaultPartitioner",
        "aiokafka": "aiokafka.partitioner.DefaultPartitioner",
        "librdkafka": "consistent_random",
    }
    assert pg.keys.registry.find_partitioner("librdkafka").name == "librdkafka:consistent_random"


@pytest.mark.parametrize(
    "name", ["", "murmur2", "murmur2_random", "consistent", "fnv1a", "fnv1a_random"]
)
def test_records_on_a_broker_are_where_we_say(peers, name) -> None:
    """confluent-kafka produces to the mock cluster: keyed, null and empty keys arrive as reported."""
    rng = random.Random(name)
    keys = [None, b"", *(rng.randbytes(rng.choice(LENGTHS)) for _ in range(200))]
    said = peers.ask(who="delivered", partitioner=name, keys=hexed(keys))
    ours = pg.partition_for(
        keys, partitions=said["count"], partitioner=f"librdkafka:{name}" if name else "librdkafka"
    )
    assert said["count"] > 1
    for mine, theirs in zip(ours.tolist(), said["partitions"], strict=True):
        assert mine in {-1, theirs}
    by_chance = {"": 2, "murmur2_random": 1, "fnv1a_random": 1}.get(name, 0)
    assert [key for key, p in zip(keys, ours.tolist(), strict=True) if p == -1][:2] == [None, b""][
        :by_chance
    ]


def test_kafka_pythons_sticky_partitioner(peers) -> None:
    """Null keys stay, and leave at a new batch: the same choices give the same partitions."""
    rng = random.Random("sticky")
    for _ in range(30):
        count = rng.choice(COUNTS)
        available = [p for p in range(count) if rng.random() < 0.7]
        keys = [None if rng.random() < 0.6 else rng.randbytes(4) for _ in range(100)]
        batches = [i for i in range(1, 100) if keys[i - 1] is None and rng.random() < 0.2]
        draws = [rng.randrange(2**31) for _ in range(200)]
        theirs = peers.ask(
            who="kafka-python:sticky", keys=hexed(keys), count=count, available=available,
            batches=batches, draws=draws,
        )  # fmt: skip
        assert kafka_pythons_sticky(keys, count, available, batches, draws) == theirs


def kafka_pythons_sticky(keys, count, available, batches, draws):
    state = start("kafka-python:sticky", seed=draws, available=available)
    out = []
    for i, key in enumerate(keys):
        if i in batches and state.partition == out[-1]:
            _, state = _pin(state, count, out[-1])
        if key is None and state.partition is None:
            _, state = _pin(state, count, None)
        placed = pg.partition_for([key], partitions=count, partitioner="murmur2").tolist()[0]
        out.append(state.partition if key is None else placed)
    return out


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("sarama:default", "sarama"),
        ("sarama:hash", "sarama:hash"),
        ("sarama:custom", "sarama:hash"),
        ("sarama:reference", "sarama:reference"),
        ("sarama:abs-first", "sarama:reference"),
        ("sarama:crc32", "sarama:crc32"),
        ("sarama:murmur2", "sarama:murmur2"),
        ("franz-go:default", "franz-go"),
        ("franz-go:sticky-key", "franz-go:sticky-key"),
        ("franz-go:sarama-compat", "franz-go:sarama-compat"),
    ],
)
def test_keys_go_where_the_go_module_puts_them(go, parity_n, theirs, ours) -> None:
    """Sarama 1.61.1 and franz-go 1.22.2, defaults as their modules have them: 0 differences."""
    rng = random.Random(theirs)
    for _ in range(rounds(parity_n)):
        keys = random_keys(rng)
        for count in (rng.choice(COUNTS), rng.randint(1, 2**31 - 1)):
            said = go.ask(who=theirs, keys=hexed(keys), count=count)
            assert pg.partition_for(keys, partitions=count, partitioner=ours).tolist() == said


@pytest.mark.parametrize(
    "name", ["sarama:hash", "sarama:random", "sarama:roundrobin", "franz-go:roundrobin"]
)
def test_turns_and_chance_in_go(go, name) -> None:
    """The same numbers under Go's Intn give the same partitions; rounds begin anew at the end."""
    rng = random.Random(name)
    for _ in range(20):
        count = rng.choice(COUNTS)
        numbers = [rng.randint(0, 2**31 - 1) for _ in range(400)]
        keys = [None if rng.random() < 0.6 else rng.randbytes(5) for _ in range(150)]
        said = go.ask(who=name, keys=hexed(keys), count=count, numbers=numbers)
        seed = numbers if name in {"sarama:hash", "sarama:random"} else 0
        placed, _ = pg.partition_for(keys, partitions=count, partitioner=name, seed=seed)
        assert placed.tolist() == said


@pytest.mark.parametrize("name", ["sarama:manual", "franz-go:manual"])
def test_manual_partitioners_obey(go, name) -> None:
    """The partition that a message names, and 0 where it names none: Go's zero value."""
    rng = random.Random(name)
    named = [rng.choice([None, *range(6)]) for _ in range(50)]
    keys = [rng.randbytes(3) for _ in named]
    said = go.ask(who=name, keys=hexed(keys), count=6, explicit=[p or 0 for p in named])
    placed = pg.partition_for(keys, partitions=6, partitioner=name, explicit=named)
    assert placed.tolist() == said


@pytest.mark.parametrize("name", ["franz-go:sticky", "franz-go:sticky-key"])
def test_franz_gos_sticky_partitioners(go, name) -> None:
    """Pinned for a batch: new batches where our sizes fill one; never the same place twice running."""
    rng = random.Random(name)
    for _ in range(20):
        count = rng.choice(COUNTS)
        numbers = [rng.randint(0, 2**31 - 1) for _ in range(400)]
        keys = [None] * 100
        state = start(name, seed=numbers, batch_size=10)
        said = go.ask(
            who=name,
            keys=hexed(keys),
            count=count,
            numbers=numbers,
            batches=list(range(10, 100, 10)),
        )
        placed, _ = pg.partition_for(keys, partitions=count, partitioner=name, state=state, sizes=1)
        assert placed.tolist() == said


@pytest.mark.parametrize("adaptive", [True, False])
def test_franz_gos_uniform_bytes(go, adaptive) -> None:
    """Pinned until so many bytes, then by chance, or weighted by what waits for each partition."""
    rng = random.Random(f"uniform {adaptive}")
    for _ in range(30):
        count = rng.choice(COUNTS)
        numbers = [rng.randint(0, 2**31 - 1) for _ in range(600)]
        buffered = [rng.choice([0, 0, 1, 5, 300]) for _ in range(count)]
        keys = [None if rng.random() < 0.7 else rng.randbytes(6) for _ in range(100)]
        values = [rng.randint(0, 300) for _ in keys]
        who = "franz-go:uniform-bytes" if adaptive else "franz-go:uniform-bytes:plain"
        said = go.ask(
            who=who, keys=hexed(keys), values=values, count=count, numbers=numbers,
            buffered=buffered, float=adaptive, limit=1000,
        )  # fmt: skip
        state = start(
            "franz-go", seed=numbers, limit=1000, adaptive=adaptive, buffered=tuple(buffered)
        )
        # attributes, two deltas, no headers: a byte each; lengths as zigzag varints.
        sizes = [6 + v + (v >= 64) for v in values]
        placed, _ = pg.partition_for(
            keys, partitions=count, partitioner="franz-go", state=state, sizes=sizes
        )
        assert placed.tolist() == said


def test_repinning_refuses_another_count(go) -> None:
    """What is buffered goes with the partitions, or the weights would be those of other partitions."""
    del go
    with pytest.raises(pg.PartageError, match="must have 3 numbers"):
        draw_next_partition(start("franz-go", buffered=(1, 2)), 3)
