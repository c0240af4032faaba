"""Damaged problems: an error of ours with its place, or a plan; never anything else."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from pathlib import Path

import pytest

import partage as pg
from partage.errors import InvalidProblemError, PartageError
from partage.groups import registry

VECTORS = Path(__file__).parents[1] / "data" / "vectors" / "consumer"
pytestmark = pytest.mark.fuzz
#: Damaged problems and files at most; `make test` has fewer.
MOST_MUTATIONS, MOST_FILES = 10_000, 400
VALUES = [
    None, True, False, 0, 1, -1, 2**31 - 1, 2**31, -(2**31) - 1, 2**63, 10**30, 0.5, -0.0,
    float("nan"), float("inf"), "", "x", "\x00", "\ud800", "é" * 300, "====", "AAECAw==", [], {},
    [[]], [[None]], [["t", 0]], [["t"]], [{}], {"t": 1}, {"": []}, [1, [2, [3, [4]]]],
]  # fmt: skip
FIELDS = [
    "id", "topics", "members", "instance", "rack", "owned", "generation", "userData", "weight",
    "capacity", "strategy", "kind", "unheard",
]  # fmt: skip


def valid() -> list[dict]:
    """Problems of the vectors, and those with every optional field and with racks."""
    problems = []
    for kind in ("range", "roundrobin"):
        lines = (VECTORS / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()
        problems += [json.loads(line) for line in lines]
    problems.append(
        {
            "topics": {"t": [["a", None], []], "u": 2},
            "members": [
                {"id": "m", "topics": ["t"], "instance": "i", "rack": "a", "owned": [["t", 1]],
                 "generation": 3, "userData": "AAE=", "weight": 2.0, "capacity": 5},
                {"id": "n", "topics": ["t", "u", "u"]},
            ],
        }
    )  # fmt: skip
    return [{k: v for k, v in p.items() if k != "out"} for p in problems if "error" not in p]


def places(value: object, path: tuple = ()) -> list[tuple]:
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            found += places(inner, (*path, i))
    return found


def mutated(problem: dict, chance: random.Random) -> object:
    """One to three changes: a value replaced, removed, repeated, renamed, added, or moved."""
    made: object = copy.deepcopy(problem)
    for _ in range(chance.randint(1, 3)):
        path = chance.choice(places(made))
        if not path:
            if chance.random() < 0.02:
                return chance.choice(VALUES)
            continue
        at = made
        for step in path[:-1]:
            at = at[step]  # type: ignore[index]
        change, last = chance.randrange(5), path[-1]
        if change == 0:
            at[last] = copy.deepcopy(chance.choice(VALUES))  # type: ignore[index]
        elif change == 1:
            del at[last]  # type: ignore[attr-defined]
        elif change == 2 and isinstance(at, list):
            at.append(copy.deepcopy(at[last]))
        elif change == 3 and isinstance(at, dict):
            at[chance.choice(FIELDS)] = at.pop(last)
        elif isinstance(at, dict):
            at[chance.choice(FIELDS)] = copy.deepcopy(chance.choice(VALUES))
        else:
            at[last] = copy.deepcopy(problem)  # type: ignore[index]
    return made


def answered(problem: object, strategy: str) -> str:
    """What became of a problem; anything but a plan or an error of ours is raised."""
    try:
        group, cluster = pg.Group.from_json(problem), pg.Cluster.from_json(problem)  # type: ignore[arg-type]
    except InvalidProblemError as e:
        return "malformed" if e.path and str(e).startswith(e.path) else f"without its place: {e}"
    try:
        plan = pg.assign(strategy, group, cluster)
    except PartageError:
        return "refused"
    # Kafka's sticky family takes subscriptions of equal size for equal (["a", "b", "b"] and
    # ["a", "b", "c"]), and so do its twins here: the judge objects, as it should.
    # Dialects are faithful to other clients, slips included.
    excused = "sticky" in strategy or registry.is_dialect(strategy)
    assert excused or not pg.check(plan, group, cluster)
    assert set(plan.to_json()) == set(group.ids)
    return "assigned"


def test_mutations_never_give_a_traceback(fuzz_n: int) -> None:
    """Random damage to valid problems: `InvalidProblemError` with a path, or a valid plan."""
    mutations = min(fuzz_n // 2, MOST_MUTATIONS)
    chance = random.Random(20_260_121)
    problems = valid()
    counts: Counter[str] = Counter()
    names = [name for name in pg.strategies() if not name.startswith("server:")]
    for i in range(mutations):
        damaged = mutated(chance.choice(problems), chance)
        counts[answered(damaged, names[i % len(names)])] += 1
    print(counts)
    assert set(counts) <= {"malformed", "refused", "assigned"}
    assert counts["malformed"] > mutations // 10
    assert counts["assigned"] > mutations // 10


def test_mutations_of_the_text_never_give_a_traceback(tmp_path, fuzz_n: int) -> None:
    """A file with bytes changed, cut or added: the same, through the command that reads files."""
    from typer.testing import CliRunner

    from partage.cli.app import app

    chance = random.Random(7)
    problems = [json.dumps(p, ensure_ascii=False).encode() for p in valid()]
    path = tmp_path / "problem.json"
    codes = set()
    for _ in range(min(fuzz_n // 50, MOST_FILES)):
        text = bytearray(chance.choice(problems))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(text) + 1)
            text[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        path.write_bytes(text)
        done = CliRunner().invoke(app, ["assign", str(path)])
        assert done.exit_code in {0, 1}, text
        assert "unexpected" not in done.stderr, text
        codes.add(done.exit_code)
    assert codes == {0, 1}
