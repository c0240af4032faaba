"""Task assignors against the released classes: clients, roles, threads, follow-ups, turns."""

from __future__ import annotations

import json
import random

import pytest
from tests.support.jvm import TARGET, JvmOracle
from tests.support.stream_problems import ANSWERS, WITH_THREADS, answer, early_answer, server_answer

from parity.stream_random import nasty_server_group, nasty_stream_problem, with_offsets
from partage.errors import PartageError
from partage.kernels import force_kernel_form
from partage.legacy.streams_0_x import Release0102, Release011
from partage.streams.kip1071_sticky import ServerSticky, ServerSticky43

AT_ONCE = 500
#: `make test` asks every assignor 60 times, `make parity` 20,000 times and more.
SHARE = 5


@pytest.fixture(scope="module")
def oracles():
    """Java programs by name, each started once and only if it is asked."""
    started = {}

    def started_once(name, *arguments):
        key = (name, *arguments)
        if key not in started:
            started[key] = JvmOracle(name, *arguments)
        return started[key]

    yield started_once
    for oracle in started.values():
        oracle.close()


def compare(oracle, problems, ours):
    """Ask in pieces of 500; the first difference is shown with its problem."""
    asked = 0
    with force_kernel_form("compiled"):
        while asked < problems.count:
            some = [problems.make() for _ in range(min(AT_ONCE, problems.count - asked))]
            for one, theirs in zip(some, oracle.ask_all(some), strict=True):
                got = ours(one)
                if got != theirs:
                    shown = {"problem": one, "kafka": theirs, "partage": got}
                    pytest.fail(f"differs from Kafka's class:\n{json.dumps(shown)}", pytrace=False)
            asked += len(some)
    assert asked > 0


class Problems:
    def __init__(self, count, make):
        self.count, self.make = count, make


@pytest.mark.parametrize("kind", sorted(ANSWERS))
def test_equals_the_released_class(kind, oracles, parity_n) -> None:
    """The same plan as kafka-streams 4.3.1 on random problems, with racks and tags and without."""
    rng = random.Random(f"streams {kind}")
    oracle = oracles("StreamsAssignors" if kind in WITH_THREADS else "StreamsPublic")
    racks = True if kind.endswith("rack") else None

    def make():
        return {"kind": kind, **nasty_stream_problem(rng, racks=racks)}

    count = max(1, parity_n // SHARE)
    compare(oracle, Problems(count, make), lambda one: answer(kind, one))


@pytest.mark.parametrize(
    ("release", "assignor"), [("0.10.2.1", Release0102()), ("0.11.0.3", Release011())]
)
def test_equals_the_released_class_of_2017(release, assignor, oracles, parity_n) -> None:
    """The same tasks, and the same turns of a client's consumers, as kafka-streams of 2017."""
    rng = random.Random(f"streams {release}")
    oracle = oracles(
        "EarlyStreams", str(TARGET / "old" / f"streams-{release}"), str(TARGET / "lib")
    )

    def make():
        return nasty_stream_problem(rng, named=False)

    count = max(1, parity_n // SHARE)
    compare(oracle, Problems(count, make), lambda one: early_answer(assignor, one))


@pytest.mark.parametrize("assignor", [ServerSticky43, ServerSticky])
def test_equals_the_coordinators_class(assignor, oracles, parity_n) -> None:
    """The same targets as the group coordinators of 4.3.1 and 4.4.0, over rounds that follow each
    other; members report offsets to that of 4.4.
    """
    is_old = assignor is ServerSticky43
    rng = random.Random("streams coordinator" if is_old else "streams coordinator 4.4")
    oracle = (
        oracles("ServerStreams") if is_old else oracles("ServerStreamsNext", str(TARGET / "old"))
    )
    before = []

    def make():
        one = nasty_server_group(rng, before[-1] if before and rng.random() < 0.7 else None)
        if not is_old and rng.random() < 0.8:
            one = with_offsets(rng, one)
        before[:] = [(one, None)]
        return one

    def ours(one):
        try:
            got = server_answer(one, assignor)
        except PartageError as refused:
            return {"error": "NumberFormatException" if "number" in str(refused) else str(refused)}
        if before and before[0][0] is one:
            before[:] = [(one, got)]
        return got

    compare(oracle, Problems(max(1, parity_n // SHARE), make), ours)


def test_the_coordinators_of_both_releases_differ(oracles) -> None:
    """Each release needs its own assignor: the other one's targets are other ones."""
    rng = random.Random(44)
    problems = [with_offsets(rng, nasty_server_group(rng)) for _ in range(60)]
    theirs = list(oracles("ServerStreamsNext", str(TARGET / "old")).ask_all(problems))
    known = [(one, said) for one, said in zip(problems, theirs, strict=True) if "error" not in said]
    equal = sum(server_answer(one, ServerSticky43) == said for one, said in known)
    assert 0 < equal < len(known)


def test_a_difference_would_be_seen(oracles) -> None:
    """The comparison is not blind: asked for another class, Kafka's answers differ from ours."""
    rng = random.Random(7)
    problems = [{"kind": "ha", **nasty_stream_problem(rng)} for _ in range(20)]
    theirs = oracles("StreamsAssignors").ask_all({**one, "kind": "sticky"} for one in problems)
    assert any(answer("ha", one) != said for one, said in zip(problems, theirs, strict=True))
