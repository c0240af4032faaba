"""Claims as the coordinator's previous targets: read in one pass, or column by column."""

from __future__ import annotations

import random

import numpy as np
import pytest

from partage.groups.registry import find
from partage.groups.server import spec as server_spec
from partage.groups.server import uniform
from partage.groups.server.kernels import compute_quotas, read_claims
from partage.groups.server.spec import GroupSpec
from partage.kernels import force_kernel_form
from partage.model import Claims, Cluster, Group, Member, Problem

TOPICS = {"a": 7, "b": 1, "c": 0, "d": 12}


class Never:
    """A kernel that is not there."""

    is_compiled = False


def group_of(rng: random.Random, *, clean: bool) -> Group:
    """Members with claims; unless clean also twice, on what is not there, and interleaved."""
    pairs = [(t, p) for t, n in TOPICS.items() for p in range(n)]
    rng.shuffle(pairs)
    people: list[list[tuple[str, int]]] = [[] for _ in range(rng.randint(1, 6))]
    for pair in pairs[: rng.randint(0, len(pairs))]:
        rng.choice(people).append(pair)
    for mine in people:
        mine.sort() if clean or rng.random() < 0.3 else rng.shuffle(mine)
        if not clean and rng.random() < 0.5:
            mine.insert(0, rng.choice([("a", 0), ("a", 7), ("gone", 0), ("d", -1), ("d", 11)]))
    return Group(
        Member(
            f"m{i}", ["d", "a", "b"], owned=Claims.from_owned(mine), generation=rng.randint(-1, 2)
        )
        for i, mine in enumerate(people)
    )


@pytest.mark.parametrize("clean", [True, False])
def test_one_pass_reads_what_columns_read(monkeypatch, clean) -> None:
    """Whatever members claim, both ways of reading give the same targets and the same plan."""
    rng = random.Random(f"claims {clean}")
    read_claims.compile()
    cluster, by_pass = Cluster.from_topics(TOPICS), 0
    for _ in range(300):
        problem = Problem(group_of(rng, clean=clean), cluster)
        with monkeypatch.context() as one:
            one.setattr(server_spec, "read_claims", Never)
            slow, plan = GroupSpec(problem).previous_targets, find("server:uniform").assign(problem)
        fast, again = GroupSpec(problem).previous_targets, find("server:uniform").assign(problem)
        by_pass += fast.given is not None or not len(fast.topic)  # no claims, no pass
        for name in ("set_start", "topic", "uuid_hash", "start", "partition"):
            assert getattr(fast, name).tolist() == getattr(slow, name).tolist(), name
        assert np.array_equal(fast.owned_partitions(20), slow.owned_partitions(20))
        assert plan.to_pairs() == again.to_pairs()
    assert by_pass == 300 if clean and read_claims.is_compiled else by_pass < 300


def test_both_forms_of_the_quotas_agree_and_add_up() -> None:
    """Both forms of the kernel lend and take back larger quotas as Kafka's loop does."""
    rng = random.Random(3)
    for _ in range(200):
        had = np.array([rng.randint(0, 5) for _ in range(rng.randint(1, 9))], np.int64)
        partitions = rng.randint(0, 30)
        said = []
        for one in ("interpreted", "compiled"):
            kept, missing = np.zeros((2, len(had)), np.int64)
            with force_kernel_form(one):
                compute_quotas(had, *divmod(partitions, len(had)), kept, missing, work=1)
            said.append((kept.tolist(), missing.tolist()))
        assert said[0] == said[1]
        assert sum(said[0][0]) + sum(said[0][1]) == partitions
        assert max(np.add(*said[0])) - min(np.add(*said[0])) <= 1


def test_what_a_member_loses_is_the_same_with_and_without_the_short_way(monkeypatch) -> None:
    """Sets that Java walks as they lie lose their tails, as the walk bucket by bucket says."""
    rng, short, released = random.Random(5), uniform._find_revoked_in_order, 0
    answers = []

    def counted(*arguments):
        answers.append(short(*arguments))
        return answers[-1]

    for _ in range(300):
        width = rng.choice([3, 14, 40, 200])
        cluster = Cluster.from_topics({"a": width, "b": rng.randint(1, 30), "c": 70_000})
        first = rng.randint(0, width - 1)
        mine = {"a": range(first, width), "b": [0], "c": range(6_999, 70_000, 9_000)}
        owned = [{t: list(mine[t]) for t in rng.sample(list(mine), rng.randint(1, 3))}, {}]
        if rng.random() < 0.2:
            owned[0] = {t: some[::-1] for t, some in owned[0].items()}
        topics = ["a", "b", "c"] if rng.random() < 0.2 else ["a", "b"]
        group = Group(Member(f"m{i}", topics, owned=one) for i, one in enumerate(owned))
        with monkeypatch.context() as one:
            one.setattr(uniform, "_find_revoked_in_order", lambda *_: None)
            slow = find("server:uniform").assign(Problem(group, cluster))
        with monkeypatch.context() as one:
            one.setattr(uniform, "_find_revoked_in_order", counted)
            fast = find("server:uniform").assign(Problem(group, cluster))
        assert fast.to_pairs() == slow.to_pairs()
        released += bool(answers) and answers[-1] is not None and len(answers[-1]) > 0
    assert released > 20
    assert any(one is None for one in answers)
