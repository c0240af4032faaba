"""Every command on fixed inputs: its exit code and what it prints, volatile parts masked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Command", "commands", "run"]

Command = tuple[str, ...]

_REASSIGN = (
    ("rebalance",),
    ("rebalance", "--max-moves", "5"),
    ("add-broker", "--broker", "7"),
    ("drain-broker", "--broker", "1"),
    ("replace-broker", "--broker", "1", "--by", "9"),
    ("change-rf", "--replication-factor", "2"),
    ("fix-racks",),
    ("elect-leaders",),
)
_SECONDS = 900

# Times, run ids, durations and paths, which differ between two runs of one version.
_VOLATILE = (
    (re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}"), "RUN"),
    (re.compile(r'("(?:started_ms|ended_ms)": ?)\d+'), r"\1MS"),
    (re.compile(r'("seconds": ?)(?:\{[^}]*\}|[\d.]+)'), r"\1SECONDS"),
    (re.compile(r"part-[\w-]+\.parquet"), "PART"),
)


def commands(root: Path, capture: Path, work: Path) -> Iterator[Command]:
    """Yield the command lines; those that read ``work/run`` need the replay of `tables`.

    Args:
        root: the project's folder, whose examples and vectors are inputs.
        capture: a recorded cluster.
        work: an empty folder of this run.
    """
    problem, lines = _problem_files(root, work)
    yield ("--version",)
    yield ("strategies",)
    yield ("strategies", "--json")
    yield ("assign", str(problem), "--json")
    yield ("assign", str(problem), "--strategy", "sticky", "--strategy", "range")
    yield ("assign", str(lines), "--jsonl", "--strategy", "cooperative-sticky")
    yield ("assign", str(problem), "--strategy", "no-such-strategy")
    yield ("assign", str(work / "missing.json"))
    yield ("compare", str(problem))
    yield ("compare", str(problem), "--json")
    yield ("decode", str(capture), "--limit", "3000")
    yield ("decode", str(work / "missing.parquet"))
    yield ("keys", "--list")
    yield ("keys", str(_keys_file(work)), "--key", "key", "--json", "--quiet")
    yield ("keys", str(_keys_file(work)), "--key", "key", "--who-agrees", "--quiet")
    yield ("streams", str(root / "examples" / "streams_app.json"), "--json", "--quiet")
    yield ("streams", str(root / "examples" / "streams_app.json"), "--quiet")
    for strategy in ("striped", "rack-aware", "rack-unaware"):
        yield (
            "place", "1:a,2:b,3:c,4:a", "--partitions", "12", "--replication-factor", "3",
            "--strategy", strategy, *([] if strategy == "striped" else ["--start-index", "1"]),
        )  # fmt: skip
    yield ("place", "1:a,2:b", "--replication-factor", "3")
    for words in _REASSIGN:
        yield ("reassign", words[0], str(capture), *words[1:], "--json")
    yield ("reassign", "rebalance", str(capture))
    yield ("groups", "--bootstrap-server", "nonsense")
    yield ("capture", "--out", str(work / "capture"))
    yield ("demo", "--no-such-option")
    yield ("audit", str(capture), "--json", "--quiet")
    yield ("replay", str(work / "missing"), "--out", str(work / "none"), "--quiet")
    yield ("report", str(work / "run"), "--format", "terminal")
    yield ("report", str(work / "run"), "--format", "json", "--out", "-")
    yield ("owner", str(work / "run"), "--at", "2026-11-20T21:00:00", "--json")


def _problem_files(root: Path, work: Path) -> tuple[Path, Path]:
    """Write one problem, and a hundred of them line by line, out of the vectors."""
    vectors = root / "tests" / "data" / "vectors" / "consumer" / "range.jsonl"
    rows = [json.loads(line) for line in vectors.read_text(encoding="utf-8").splitlines()[:100]]
    texts = [json.dumps({"topics": row["topics"], "members": row["members"]}) for row in rows]
    problem, lines = work / "problem.json", work / "problems.jsonl"
    problem.write_text(texts[0], encoding="utf-8")
    lines.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return problem, lines


def _keys_file(work: Path) -> Path:
    file = work / "keys.csv"
    rows = [f"customer-{i * i % 97},{i}" for i in range(2_000)]
    file.write_text("\n".join(["key,value", *rows]) + "\n", encoding="utf-8")
    return file


def run(command: Command, work: Path) -> str:
    """Return the exit code and the masked standard output of a command.

    Standard error is left out: progress and the wording of errors are no part of the contract.
    """
    done = subprocess.run(
        [sys.executable, "-m", "partage", *command],
        cwd=work,
        env=os.environ | {"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"},
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
    text = done.stdout.decode(errors="replace").replace(str(work), "WORK")
    for pattern, mask in _VOLATILE:
        text = pattern.sub(mask, text)
    return f"exit code {done.returncode}\n{text}"
