"""Random groups against the jar's client-side assignors: Java's bytes are Python's bytes."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
from tests.support.jvm import JvmOracle

from parity.problems import names
from partage.clients.shared import ClusterView, Consumer, Joined
from partage.groups.registry import find
from partage.wire.consumer_protocol import decode_assignment, encode_subscription
from partage.wire.member_extras import Extras, append_trailer

pytestmark = [pytest.mark.parity, pytest.mark.jvm]

RACKS = ["a", "b", "c"]
PRIORITY = "assignment.consumer.priority"
Group = dict[str, Any]


@pytest.fixture(scope="module")
def java():
    with JvmOracle("ClientAssignors") as oracle:
        yield oracle


def random_group(rng: random.Random, strategy: str) -> Group:
    """Topics with replicas on three nodes, and members without partitions."""
    racks = {str(n): rng.choice([*RACKS, None]) for n in range(3)}
    # Topic names are ASCII. Revoked partitions follow in the order of code points in Python and of
    # UTF-16 units in Java, which differ above U+FFFF.
    named = [one for one in names(rng, "topic", rng.choice([1, 2, 3, 5])) if max(one) <= "\uffff"]
    topics = {
        name: [rng.sample(range(3), rng.randint(1, 3)) for _ in range(rng.choice([1, 2, 3, 7, 12]))]
        for name in sorted(named or ["topic"])
    }
    known = [*topics, "not-there"] if rng.random() < 0.2 else [*topics]
    same = rng.random() < 0.5
    racked = rng.random() < 0.5
    members = []
    for one in names(rng, "member", rng.choice([1, 2, 3, 4, 6, 9])):
        mine = known if same else rng.sample(known, rng.randint(1, len(known)))
        members.append({
            "id": one, "topics": mine, "owned": [], "generation": -1,
            "rack": rng.choice(RACKS) if racked and rng.random() < 0.8 else None,
            "instance": f"i-{one}" if rng.random() < 0.3 else None,
            "config": _config(rng, known) if strategy == "failover" else {},
        })  # fmt: skip
    return {"topics": topics, "racks": racks, "members": members}


def _config(rng: random.Random, topics: list[str]) -> dict[str, int]:
    """A member's priorities; none for a member without the setting."""
    config = {PRIORITY: rng.choice([1, 5, 5, -(2**31)])} if rng.random() < 0.9 else {}
    for topic in topics:
        if rng.random() < 0.2:
            config[f"{PRIORITY}.{topic}"] = rng.randint(0, 9)
    return config


def next_group(rng: random.Random, group: Group, sent: dict[str, bytes], generation: int) -> Group:
    """The members rejoin with what they were sent; some leave, join, or claim something false."""
    members = []
    for member in group["members"]:
        if rng.random() < 0.15:
            continue
        received = sent[member["id"]]
        owned = [
            pair for pair in decode_assignment(received).partitions if pair[0] in member["topics"]
        ]
        if rng.random() < 0.1:
            topic = rng.choice([*group["topics"]])
            owned.append((topic, rng.randrange(len(group["topics"][topic]) + 1)))
        of = generation - (rng.random() < 0.1)
        members.append({**member, "owned": owned, "generation": of})
    members += random_group(rng, "optimal")["members"][: rng.randint(0, 2)]
    taken = {}
    for member in members:
        mine = [one for one in member["topics"] if one in group["topics"]]
        taken[member["id"]] = {**member, "topics": mine or [*group["topics"]]}
    some = list(taken.values())
    rng.shuffle(some)
    return {**group, "members": some}


def joined(rng: random.Random, strategy: str, group: Group) -> list[Joined]:
    """The members as their subscriptions; some have revoked their partitions and say so."""
    out = []
    for one in group["members"]:
        made = find(strategy).configure(one["config"])
        data = made.subscription_user_data(one["topics"])
        owned = one["owned"]
        if strategy == "optimal" and rng.random() < 0.2:
            data, owned = append_trailer(data, Extras(tuple(owned), one["generation"])), []
        if strategy == "failover" and rng.random() < 0.1:
            data = rng.choice([None, b"", b"\0\0", b"12345"])
        metadata = encode_subscription(
            one["topics"], user_data=data, owned=owned, generation=one["generation"],
            rack=one["rack"],
        )  # fmt: skip
        out.append(Joined(one["id"], metadata, one["instance"]))
    return out


def ours(strategy: str, group: Group, members: list[Joined]) -> dict[str, bytes]:
    topics = {topic: dict(enumerate(rows)) for topic, rows in group["topics"].items()}
    view = ClusterView(topics, {int(node): rack for node, rack in group["racks"].items()})
    return dict(Consumer(find(strategy)).assign(members, view).sent)


def asked(strategy: str, group: Group, members: list[Joined]) -> dict[str, Any]:
    sent = [
        {"id": m.id, "instance": m.instance_id, "metadata": base64.b64encode(m.metadata).decode()}
        for m in members
    ]
    return {
        "strategy": strategy,
        "topics": group["topics"],
        "racks": group["racks"],
        "members": sent,
    }


@pytest.mark.parametrize("strategy", ["optimal", "fair", "failover"])
def test_a_leader_in_java_sends_the_bytes_of_a_leader_in_python(strategy, java, parity_n) -> None:
    """Same assignment bytes for every member, over rounds in which claims are kept or disputed."""
    rng = random.Random(f"clients {strategy}")
    group, generation = random_group(rng, strategy), 1
    for nth in range(parity_n if parity_n > 300 else 100):
        members = joined(rng, strategy, group)
        request = asked(strategy, group, members)
        expected = ours(strategy, group, members)
        answer = {k: base64.b64decode(v) for k, v in java.ask(request).items()}
        if answer != expected:
            texts = {
                m: [str(decode_assignment(b[m])) for b in (answer, expected)] for m in expected
            }
            pytest.fail(f"{nth}: {json.dumps([request, group, texts], default=str)}", pytrace=False)
        if rng.random() < 0.7 and len(group["members"]) > 1:
            group, generation = next_group(rng, group, expected, generation), generation + 1
        else:
            group, generation = random_group(rng, strategy), 1


def test_user_data_of_a_member_are_the_bytes_of_python(java) -> None:
    """Priorities, with and without exceptions; optimal and fair send nothing."""
    rng = random.Random("user data")
    for _ in range(50):
        topics = names(rng, "topic", 3)
        config = _config(rng, topics)
        request = {"strategy": "failover", "config": config, "say": topics}
        expected = find("failover").configure(config).subscription_user_data(topics)
        assert base64.b64decode(java.ask(request)["userData"]) == expected
    for name in ("optimal", "fair"):
        assert java.ask({"strategy": name, "say": ["t"]}) == {"userData": None}
