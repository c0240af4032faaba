"""A leader's bytes: arrays and the wire engine give the same assignments, warnings and errors."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from partage.clients.shared import (
    ClusterView,
    Consumer,
    Joined,
    configure_strategy,
    consumer,
    joined,
)
from partage.clients.shared.loads import Loads
from partage.errors import AssignorFailedError
from partage.groups.sticky import claims
from partage.kernels import force_kernel_form
from partage.wire.columns import partition_lists
from partage.wire.columns.partition_lists import (
    encode_assignments,
    read_pairs,
    read_partition_lists,
    write_pairs,
)
from partage.wire.columns.subscriptions import decode_subscriptions
from partage.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_sticky_user_data,
    encode_subscription,
)
from partage.wire.member_extras import Extras, append_trailer

NAMES = ["a", "orders", "o", "größe", "𝕏-topic", "x" * 300]
STRATEGIES = [
    "sticky", "cooperative-sticky", "optimal", "range", "roundrobin", "failover", "server:uniform",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _read_small_groups_by_arrays(monkeypatch) -> None:
    monkeypatch.setattr(partition_lists, "_MIN_PAIRS_PER_STEP", 0)


def _view(chance: random.Random) -> ClusterView:
    """Return metadata with holes, topics without partitions and brokers that are down."""
    topics = {
        name: {
            p: chance.sample(range(5), chance.randrange(3))
            for p in range(chance.randrange(7))
            if chance.random() < 0.95
        }
        for name in NAMES
        if chance.random() < 0.8
    }
    return ClusterView(topics, {node: chance.choice([None, "r1", "r2"]) for node in range(4)})


def _claims(chance: random.Random, view: ClusterView) -> list[tuple[str, int]]:
    have = [(t, p) for t, partitions in view.topics.items() for p in partitions]
    claims = chance.sample(have, min(len(have), chance.randrange(6)))
    if chance.random() < 0.1:
        claims.append((chance.choice(NAMES), chance.choice([0, 3, 99, -1, 2**31 - 1])))
    if claims and chance.random() < 0.1:
        claims.append(claims[0])
    return claims


def _metadata(chance: random.Random, strategy: str, view: ClusterView) -> bytes:
    """Return a member's subscription, now and then an unusual or a damaged one."""
    claims, generation = _claims(chance, view), chance.choice([-1, 2, 3, 3, 3, 3, 9])
    data = None
    if strategy == "sticky":
        version = chance.choice([0, 1, 1, 1])
        data = encode_sticky_user_data(claims, generation, version=version)
    elif strategy == "cooperative-sticky":
        data = generation.to_bytes(4, "big", signed=True)
    elif strategy not in {"range", "roundrobin"}:
        loads = {("a", 0): 2.5} if chance.random() < 0.1 else {}
        data = append_trailer(chance.choice([None, b"\0\0\0\5"]), Extras(tuple(claims), 3, loads))
    if data and chance.random() < 0.1:
        data = chance.choice([b"", data[:-1], data + b"\0", data[1:], b"PTG1", bytes(4) + b"PTG1"])
    sent = encode_subscription(
        chance.choice([NAMES, NAMES, NAMES[:3], []]), user_data=data,
        owned=claims if chance.random() < 0.5 else (), generation=generation,
        rack=chance.choice([None, "", "r1", "r9"]), version=chance.choice([0, 1, 2, 3, 3, 3, 3]),
    )  # fmt: skip
    if chance.random() < 0.1:
        damaged = bytearray(sent)
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        sent = chance.choice([bytes(damaged), sent[:-2], sent + b"more", b"\0\7" + sent[2:], b""])
    return sent


def _led(strategy: str, seed: int) -> list[object]:
    """Return what a leader says in two rebalances of a random group."""
    chance = random.Random(seed)
    view, out = _view(chance), []
    loads = Loads() if strategy == "optimal" and chance.random() < 0.3 else None
    lead = Consumer(configure_strategy(strategy, {}), loads=loads)
    for generation in (3, 4):
        members = [
            Joined(f"m{i}", _metadata(chance, strategy, view), chance.choice([None, f"i{i}"]))
            for i in range(chance.randrange(1, 6))
        ]
        try:
            answer = lead.assign(members, view, generation=generation)
        except AssignorFailedError as e:
            out.append(str(e))
        else:
            out.append((answer.sent, answer.warnings, answer.plan.owner.tolist(), lead.memory))
    return out


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_arrays_and_the_engine_lead_alike(strategy: str, monkeypatch) -> None:
    """Random groups, with unusual, damaged and contradictory members: equal bytes and warnings."""
    seeds = range(40)
    by_arrays = [_led(strategy, seed) for seed in seeds]
    for module, name in (
        (joined, "decode_subscriptions"),
        (joined, "split_user_data"),
        (claims, "decode_sticky_claims"),
    ):
        monkeypatch.setattr(module, name, lambda payloads: [None] * len(payloads))
    monkeypatch.setattr(consumer, "encode_assignments", partition_lists._encode_one_by_one)
    assert by_arrays == [_led(strategy, seed) for seed in seeds]
    warned = [said for group in by_arrays for said in group if isinstance(said, tuple) and said[1]]
    assert len(warned) > 8


@pytest.fixture(params=["arrays", "interpreted", "compiled"])
def _way(request, monkeypatch) -> Iterator[None]:
    """Lists by NumPy, or by kernels in one of their forms."""
    if request.param == "compiled":
        pytest.importorskip("numba")
    for one in (read_pairs, write_pairs):
        if request.param == "compiled":
            one.compile()
        else:
            is_ready = request.param == "interpreted"
            monkeypatch.setattr(one, "_compiled", one.interpreted if is_ready else None)
    with force_kernel_form("interpreted" if request.param == "interpreted" else "by cost"):
        yield


@pytest.mark.usefixtures("_way")
def test_subscriptions_are_decoded_as_the_engine_decodes_them() -> None:
    """Every subscription that arrays accept has the engine's values, and most are accepted."""
    chance = random.Random(7)
    accepted = 0
    for _ in range(100):
        view = _view(chance)
        sent = [_metadata(chance, chance.choice(STRATEGIES), view) for _ in range(8)]
        for data, found in zip(sent, decode_subscriptions(sent), strict=True):
            if found is not None:
                accepted += 1
                of = decode_subscription(data)
                names = [found.owned.names[t] for t in found.owned.topic]
                owned = tuple(zip(names, found.owned.number.tolist(), strict=True))
                assert (found.topics, found.user_data, owned) == (of.topics, of.user_data, of.owned)
                assert (found.generation, found.rack) == (of.generation, of.rack)
    assert accepted > 500


@pytest.mark.usefixtures("_way")
def test_assignments_are_encoded_as_the_engine_encodes_them() -> None:
    """Topics in any order and several runs, members without partitions, null and empty user data."""
    chance = random.Random(8)
    for _ in range(200):
        lists = [
            [(chance.choice(NAMES), chance.randrange(-1, 9)) for _ in range(chance.randrange(9))]
            for _ in range(chance.randrange(5))
        ]
        data = [chance.choice([None, b"", b"own"]) for _ in lists]
        start = np.cumsum([0, *map(len, lists)]).astype(np.int32)
        topic = np.array([NAMES.index(t) for one in lists for t, _ in one], np.int32)
        number = np.array([p for one in lists for _, p in one], np.int32)
        sent = encode_assignments(NAMES, start, topic, number, data)
        pairs = zip(lists, data, strict=True)
        assert sent == [encode_assignment(one, user_data=own) for one, own in pairs]
        assert [len(decode_assignment(one).partitions) for one in sent] == [
            b - a for a, b in pairwise(start.tolist())
        ]


@pytest.mark.usefixtures("_way")
def test_a_hostile_list_costs_no_more_than_its_bytes() -> None:
    """Counts of two billion, and names that seem to reach into the next member's bytes."""
    huge = (2**31 - 1).to_bytes(4, "big")
    whole = b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\7"
    claims_more = (100).to_bytes(4, "big") + b"\xff" * 4000
    found = read_partition_lists([huge, huge + bytes(9), whole[:-8] + huge, claims_more, whole])
    assert [one is None for one in found] == [True, True, True, True, False]
    assert found[4].number.tolist() == [7]
