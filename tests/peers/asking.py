"""The other clients' assignors as oracles: processes in an environment of their own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.processes import ROOT, JsonLines, built

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
PYTHON = ROOT / ".tools" / "peers" / "bin" / "python"
_SECONDS = 120
_GROUPS_AT_ONCE = 20

Problem = dict[str, Any]


def python() -> str:
    """The interpreter that has kafka-python, aiokafka and confluent-kafka; skips without."""
    built("peers.sh")
    return str(PYTHON)


class PeerOracle(JsonLines):
    """kafka-python or aiokafka: a problem in, its class's answer out."""

    def __init__(self, peer: str, *more: str, hash_seed: str = "random") -> None:
        super().__init__([python(), HERE / "oracle.py", peer, *more], hash_seed)

    def ask(self, strategy: str, problem: Problem, seconds: float = 2.0) -> dict[str, Any]:
        """``assignment``, or ``error``: the exception's name, "hangs" after so many seconds."""
        line = {**problem, "strategy": strategy, "seconds": seconds}
        self._write(json.dumps(line) + "\n")
        return self._read()


def librdkafka_plans(strategy: str, problems: list[Problem]) -> dict[int, dict[str, Any]]:
    """By position the plan that the library made; those that crash it are not there."""
    plans: dict[int, dict[str, Any]] = {}
    crashed: set[int] = set()
    while left := [i for i in range(len(problems)) if i not in plans and i not in crashed]:
        found, open_ = _asked_together(strategy, problems, left, clients=20)
        plans |= found
        for i in open_:
            alone, _ = _asked_together(strategy, problems, [i], clients=1)
            plans |= alone
            if not alone:
                crashed.add(i)
        assert found or open_, "the oracle answers nothing"
    return plans


def _asked_together(
    strategy: str, problems: list[Problem], which: list[int], clients: int
) -> tuple[dict[int, dict[str, Any]], set[int]]:
    """The plans, and what was asked and not answered when the process ended."""
    lines = "".join(json.dumps(problems[i]) + "\n" for i in which)
    process = subprocess.Popen(
        [python(), HERE / "coordinator.py", strategy, str(clients)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        out, _ = process.communicate(lines, timeout=_SECONDS + len(which) / 10)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
    plans, asked = {}, set()
    for line in out.splitlines():
        answer = json.loads(line)
        if "asked" in answer:
            asked.add(which[answer["asked"]])
        else:
            plans[which[answer["line"]]] = answer["assignment"]
    return plans, asked - set(plans)


def mock_groups(strategy: str, count: int, seed: str) -> Iterator[dict[str, Any]]:
    """Groups of real members on librdkafka's mock cluster, and what each was given."""
    for first in range(0, count, _GROUPS_AT_ONCE):
        some = min(_GROUPS_AT_ONCE, count - first)
        done = subprocess.run(
            [python(), HERE / "mock_cluster.py", strategy, str(some), f"{seed} {first}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=_SECONDS,
        )
        yield from (json.loads(line) for line in done.stdout.splitlines())
