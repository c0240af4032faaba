"""The coordinator's assignors on problems worked out by hand, as Kafka 4.3.1 answered them.

A line: strategy; topics; members with subscription and previous target; what comes out.
"""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from partage.groups.registry import find
from partage.groups.server.group_assignment import assignment_to_json
from partage.groups.server.spec import CoordinatorAssignorError
from partage.testing.server_problems import spec_from_json

IDS = {
    "T1": "T1-A4s3VTwiI5CTbEp6POw",
    "T2": "T2-B4s3VTwiI5YHbPp6YUe",
    "T3": "T3-CU8fVTLCz5YMkLoDQsa",
    "T4": "T4-Tw9fVTLCz5HbPp6YQsa",
}

SCENARIOS = {
    "U1": ("uniform; T1×3 T3×2; A[T1 T3] B[T1 T3]", "A: T3{0,1}; B: T1{0,1,2}"),
    "U2": ("uniform; T3×2; A[T3] B[T3] C[T3]", "A: ; B: T3{0}; C: T3{1}"),
    "U3": (
        "uniform; T1×3 T2×3; A[T1 T2]T1{0,1}T2{0,1} B[T1 T2]T1{2}T2{2}",
        "A: T1{0} T2{0,1}; B: T1{1,2} T2{2}",
    ),
    "U4": (
        "uniform; T1×6 T2×5; A[T1 T2]T1{0,2}T2{0} B[T1 T2]T1{1}T2{1,2}",
        "A: T1{0,2} T2{0,3,4}; B: T1{1,3,4,5} T2{1,2}",
    ),
    "U5": (
        "uniform; T1×3 T2×3; A[T1 T2]T1{0,2}T2{0} B[T1 T2]T1{1}T2{1,2} C[T1 T2]",
        "A: T1{0} T2{0}; B: T2{1,2}; C: T1{1,2}",
    ),
    "U6": (
        "uniform; T1×3 T2×3; A[T1 T2]T1{0}T2{0} B[T1 T2]T1{1}T2{1}",
        "A: T1{0} T2{0,2}; B: T1{1,2} T2{1}",
    ),
    "U7": ("uniform; T1×2 T2×2; A[T2]T1{0}T2{0} B[T2]T1{1}T2{1}", "A: T2{0}; B: T2{1}"),
    "U8": ("uniform; T1×5; A[T1]T1{0,1} B[T1]T1{2,3,4}", "A: T1{0,1}; B: T1{2,3,4}"),
    "U9": ("uniform; T1×5; A[]", ""),
    "U11": (
        "uniform; T1×5; consumer1[T1] consumer2[T1] consumer3[T1]",
        "consumer1: T1{3,4}; consumer2: T1{1,2}; consumer3: T1{0}",
    ),
    "V1": ("uniform; T1×3 T3×6; A[T1 T3] B[T3]", "A: T1{0,1,2} T3{4}; B: T3{0,1,2,3,5}"),
    "V2": ("uniform; T3×1 T1×2; A[T3] B[T3] C[T1]", "A: T3{0}; B: ; C: T1{0,1}"),
    "V3": (
        "uniform; T1×6 T2×4 T3×4; A[T1]T1{0,1,2} B[T1 T2]T1{3}T2{0} "
        "C[T1 T2 T3]T1{4,5}T2{1,2,3}T3{0,1,2,3}",
        "A: T1{0,1,2,5}; B: T1{3} T2{0,1,2,3}; C: T1{4} T3{0,1,2,3}",
    ),
    "V5": (
        "uniform; T1×6 T2×7; A[T1]T1{0,2}T2{0} B[T1 T2]T1{1}T2{1,2} C[T1 T2]",
        "A: T1{0,2,3,4,5}; B: T1{1} T2{1,2,6}; C: T2{0,3,4,5}",
    ),
    "V9": ("uniform; T1×3; A[T1] B[]", "A: T1{0,1,2}; B: "),
    "V10": ("uniform; T1×3; A[] B[]", ""),
    "W1": ("range; T1×3 T3×2; A[T1 T3] B[T1 T3]", "A: T1{0,1} T3{0}; B: T1{2} T3{1}"),
    "W2": (
        "range; T1×3 T2×3 T3×2; A[T1 T2] B[T3] C[T2 T3]",
        "A: T1{0,1,2} T2{0,1}; B: T3{0}; C: T2{2} T3{1}",
    ),
    "W3": ("range; T1×3 T3×2; A[T1 T3] B[T1 T3] C[T1 T3]", "A: T1{0} T3{0}; B: T1{1} T3{1}; C: T1{2}"),
    "W4": ("range; T1×5; A#instanceA[T1] B[T1] C#instanceC[T1]", "A: T1{0,1}; B: T1{4}; C: T1{2,3}"),
    "W6": (
        "range; T1×4 T2×3; A[T1 T2] B[T1 T2] C[T1]",
        "A: T1{0,1} T2{0,1}; B: T1{2} T2{2}; C: T1{3}",
    ),
    "W8": ("range; T1×5; A[]", "A: "),
    "X1": ("simple; T1×3 T3×2; A[T1 T3] B[T1 T3]", "A: T1{1,2} T3{1}; B: T1{0} T3{0}"),
    "X2": ("simple; T1×3 T2×2; A[T1 T2] B[]", "A: T1{0,1,2} T2{0,1}; B: "),
    "X4": ("simple; T1×3 T3×2; A[T1 T3] B[T1 T3] C[T1 T3]", "A: T1{2} T3{0}; B: T1{0} T3{1}; C: T1{1}"),
    "X5": (
        "simple; T1×2; A[T1] B[T1] C[T1] D[T1] E[T1]",
        "A: T1{0,1}; B: T1{0}; C: T1{0}; D: T1{1}; E: T1{1}",
    ),
    "X6": ("simple; T1×4; A[T1]T1{0,1,2,3} B[T1]", "A: T1{0,1}; B: T1{2,3}"),
    "X7": (
        "simple; T1×2; A[T1]T1{0} B[T1]T1{0} C[T1]T1{0} D[T1]T1{1}",
        "A: T1{1}; B: T1{0}; C: T1{0}; D: T1{1}",
    ),
    "X8": (
        "simple; T1×3 T2×2; A[T1 T2] B[T2] C[T1]",
        "A: T1{0,2} T2{0}; B: T2{1}; C: T1{1}",
    ),
    "X9": (
        "simple; T1×3 T2×2 T3×-1; A[T1]T3{0} B[T2]T1{1}",
        "A: T1{0,1,2} T3{0}; B: T1{} T2{0,1}",
    ),
}  # fmt: skip

MEMBER = re.compile(r"(\w+)(?:#(\w+))?\[([^\]]*)\]((?:\w+\{[^}]*\})*)")
SET = re.compile(r"(\w+)\{([^}]*)\}")


def sets(text):
    return [[IDS[t], [int(p) for p in ps.split(",") if p]] for t, ps in SET.findall(text)]


def problem(topics, members):
    rows = []
    for topic in topics.split():
        name, count = topic.split("×")
        gone = {"noname": True} if count == "-1" else {}
        rows.append({"name": name, "id": IDS[name], "n": int(count), **gone})
    made = []
    for name, instance, subscription, target in MEMBER.findall(members):
        one = {"id": name, "topics": subscription.split(), "target": sets(target)}
        made.append(one | ({"instance": instance} if instance else {}))
    return {"topics": rows, "members": made}


def decided(strategy, made):
    spec = spec_from_json(made)
    return assignment_to_json(find(f"server:{strategy}").assign_from_spec(spec), spec)["assignment"]


def canonical(assignment):
    known = {i[:21]: name for name, i in IDS.items()}
    return {m: {known[i[:21]]: ps for i, ps in of} for m, of in assignment.items()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name) -> None:
    """What the released class answered: the same members, topics and sets."""
    text, expected = SCENARIOS[name]
    strategy, topics, members = (part.strip() for part in text.split(";"))
    wanted = {}
    for one in filter(None, expected.split(";")):
        member, _, its = one.partition(":")
        wanted[member.strip()] = {
            t: [int(p) for p in ps.split(",") if p] for t, ps in SET.findall(its)
        }
    assert canonical(decided(strategy, problem(topics, members))) == wanted


def test_where_all_had_everything_half_goes() -> None:
    """V8 (heterogeneous flag forced by a third member without topics): A loses half, B gets it."""
    members = "A[T1 T2 T3]T1{0,1}T2{0,1}T3{0,1} B[T1 T2 T3] C[]"
    got = canonical(decided("uniform", problem("T1×2 T2×2 T3×2", members)))
    assert got == {
        "A": {"T2": [0], "T3": [0, 1]},
        "B": {"T1": [0, 1], "T2": [1]},
        "C": {},
    }


def test_what_may_not_be_assigned_any_more_is_spread_all_the_same() -> None:
    """X10, Kafka's own quirk Q23: T1-0 goes to all, T1-1 to nobody."""
    made = problem("T1×2", "A[T1]T1{0} B[T1] C[T1]")
    got = decided("simple", made | {"assignable": [[IDS["T1"], [1]]]})
    assert canonical(got) == {"A": {"T1": [0]}, "B": {"T1": [0]}, "C": {"T1": [0]}}


@pytest.mark.parametrize("strategy", ["range", "uniform", "simple"])
def test_a_topic_whose_count_is_unknown_is_refused(strategy) -> None:
    """U10, W9, X3: the metadata names it, the describer does not know it."""
    made = problem("T1×3", "A[T1] B[T1]")
    made["topics"][0]["n"] = -1
    with pytest.raises(CoordinatorAssignorError, match="'T1'") as caught:
        decided(strategy, made)
    assert caught.value.java_exception == "PartitionAssignorException"


@pytest.mark.parametrize("strategy", ["range", "uniform", "simple"])
def test_an_empty_group_gets_an_empty_answer(strategy) -> None:
    """Q8: no members, no error."""
    assert decided(strategy, problem("T1×3", "")) == {}


def large(members, topics, partitions, *, mixed):
    """The digests' problems: five buckets of topics and members where subscriptions differ."""
    rows = []
    for k in range(1, topics + 1):
        raw = (k * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "big") + k.to_bytes(8, "big")
        rows.append({"name": f"topic{k - 1}", "id": _text(raw), "n": partitions})
    names = [row["name"] for row in rows]
    made = []
    for i in range(members):
        mine = names
        if mixed:
            bucket, width = i // -(-members // 5), -(-topics // 5)
            mine = names[bucket * width : (bucket + 1) * width]
        made.append({"id": f"member{i}", "topics": mine})
    return {"topics": rows, "members": made}


def _text(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def digest(assignment):
    lines = []
    for member in sorted(assignment):
        its = sorted(assignment[member])
        lines.append(
            f"{member}=" + ";".join(f"{t}:{','.join(map(str, ps))}" for t, ps in its) + "\n"
        )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


DIGESTS = {
    ("range", False): "ff52b5757214b0fdffc29df3820e657d88f55e6ac9d775e4bf16db9bd2d0462c",
    ("range", True): "42b4a3e3c717de2b2a0b233502fd251130ce9c4d5ff63c36de479ec8d53a839a",
    ("uniform", False): "f98e0ab4bc3a3acaca48d1c9a6dbdfbfb48157d77e147cf2c42866252aeecce9",
    ("uniform", True): "0c3652e31332d7c8bf27d3191001ed221cfd36d7707d2a27d283727646ab22a1",
}


@pytest.mark.parametrize(("strategy", "mixed"), DIGESTS)
def test_a_hundred_members_on_ten_topics_as_kafka_has_them(strategy, mixed) -> None:
    """10 topics of 50 partitions, 100 members: the digest of the class's own answer."""
    assert digest(decided(strategy, large(100, 10, 50, mixed=mixed))) == DIGESTS[strategy, mixed]


@pytest.mark.parametrize(
    ("mixed", "before", "after"),
    [
        (
            False,
            "933a6c02885a492c04c2773624771424b97120a9972dbf38ae70b9ae3e6c600a",
            "86545182a6aa4a42759a78ab2c97c3983523d36d78afe1edeb208e3ae0e7d306",
        ),
        (
            True,
            "a170d8892f7f1662204d44796beba9e652137d14457e80ab611206bc28db7908",
            "2d6e6dcba60fba3d4522ef82450ab64511e1d1d6eb07739898b0c85c3453c80b",
        ),
    ],
)
def test_then_a_member_joins(mixed, before, after) -> None:
    """99 members, and a hundredth with the first answer as previous target."""
    made = large(99, 10, 50, mixed=mixed)
    first = decided("uniform", made)
    assert digest(first) == before
    order = {row["id"]: i for i, row in enumerate(made["topics"])}
    for member in made["members"]:
        member["target"] = sorted(first[member["id"]], key=lambda pair: order[pair[0]])
    made["members"].append({"id": "newMember", "topics": made["members"][98]["topics"]})
    assert digest(decided("uniform", made)) == after
