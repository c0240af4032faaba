"""One version's run: everything that is compared, written as text files into a folder.

The interpreter and PYTHONPATH of the caller decide which version of Partage is imported.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from itertools import groupby
from pathlib import Path

__all__ = ["PARTS", "main"]

PARTS = ("signatures", "problems", "tables", "commands")


def main() -> None:
    """Run the requested parts, or print one case of a subject."""
    parser = argparse.ArgumentParser(prog="same.probe")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--root", type=Path, required=True, help="the project's folder")
    parser.add_argument("--capture", type=Path, help="the recorded cluster")
    parser.add_argument("--cases", type=int, default=100, help="problems for each subject")
    parser.add_argument("--parts", default=",".join(PARTS), help="parts to run, with commas")
    parser.add_argument("--show", nargs=2, metavar=("SUBJECT", "CASE"), help="print one case")
    arguments = parser.parse_args()
    vectors = arguments.root / "tests" / "data" / "vectors" / "consumer"
    if arguments.show:
        subject, case = arguments.show
        _show(vectors, subject, int(case))
        return
    parts = arguments.parts.split(",")
    arguments.out.mkdir(parents=True, exist_ok=True)
    if "signatures" in parts:
        from same.signatures import signatures

        _write(arguments.out / "signatures.txt", "\n".join(signatures()) + "\n")
    if "problems" in parts:
        _solve_problems(vectors, arguments.cases, arguments.out / "problems")
    work = arguments.out / "work"
    work.mkdir(exist_ok=True)
    if "tables" in parts or "commands" in parts:
        _replay(arguments.capture, work, arguments.out / "tables")
    if "commands" in parts:
        _run_commands(arguments.root, arguments.capture, work, arguments.out / "commands")


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _solve_problems(vectors: Path, cases: int, out: Path) -> None:
    """Write a digest of each outcome, a line a case, so that a case can be shown again."""
    from same.subjects import subjects

    every = sorted(subjects(vectors).items())
    for area, members in groupby(every, key=lambda one: one[0].partition("/")[0]):
        started = time.monotonic()
        group = list(members)
        digests: dict[str, list[str]] = {name: [] for name, _ in group}
        # Case by case, and not subject by subject: the subjects of an area share the problem.
        for case in range(cases):
            for name, solve in group:
                text = solve(case)
                kind = "raises" if text.startswith("raises") else "value"
                digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
                digests[name].append(f"{digest.hexdigest()} {kind}")
        for name, lines in digests.items():
            _write(out / f"{name.replace('/', ' ')}.txt", "\n".join(lines) + "\n")
        seconds = time.monotonic() - started
        _report(f"  {area}: {len(group)} subjects, {cases} problems each, {seconds:.0f} s")


def _show(vectors: Path, subject: str, case: int) -> None:
    from same.subjects import input_of, subjects

    print(input_of(subject, case))
    print(subjects(vectors)[subject](case))


def _replay(capture: Path, work: Path, out: Path) -> None:
    """Replay the capture and write its tables; a failed replay is a result as well."""
    from same.commands import run
    from same.tables import COMMAND, tables

    started = time.monotonic()
    result = run(("replay", str(capture), "--out", str(work / "run"), *COMMAND), work)
    _write(out / "replay.txt", result)
    if (work / "run" / "manifest.json").exists():
        for name, text in tables(work / "run").items():
            _write(out / f"{name}.txt", text)
    _report(f"  tables: {time.monotonic() - started:.0f} s")


def _run_commands(root: Path, capture: Path, work: Path, out: Path) -> None:
    from same.commands import commands, run

    started = time.monotonic()
    for number, command in enumerate(commands(root, capture, work)):
        line = "partage " + " ".join(command).replace(str(work), "WORK")
        _write(out / f"{number:02} {command[0]}.txt", f"$ {line}\n{run(command, work)}")
    _report(f"  commands: {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
