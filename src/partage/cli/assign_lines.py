"""`partage assign --jsonl`: one answer a line, as the problems come in."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from partage.cli.assign import answer
from partage.cli.consoles import tell, write_json
from partage.cli.failing import FAILED, FAILED_JUDGE
from partage.cli.problems import STDIN, object_of
from partage.errors import PartageError
from partage.groups.subscriptions import missing_topics

__all__ = ["assign_lines"]


def assign_lines(
    problems: Path | None, strategy: list[str] | None, config: Mapping[str, object]
) -> None:
    """Answer each line; a damaged one costs its own answer only.

    Raises:
        OSError: the file cannot be read.
        Exit: 1 if a line had an error, else 3 if a plan failed the judge.
    """
    if problems is None or str(problems) == STDIN:
        counted = _answered(sys.stdin.buffer, strategy, config)
    else:
        with problems.open("rb") as file:
            counted = _answered(file, strategy, config)
    lines, errors, failed = counted
    sys.stdout.flush()
    if errors:
        tell(f"partage: {errors} of {lines} lines had an error", "bold red")
        raise typer.Exit(FAILED)
    if failed:
        tell(f"partage: {failed} of {lines} plans failed the judge", "bold red")
        raise typer.Exit(FAILED_JUDGE)


def _answered(
    lines: Iterable[bytes], strategy: list[str] | None, config: Mapping[str, object]
) -> tuple[int, int, int]:
    """Lines answered, lines with an error, plans that failed the judge."""
    count = errors = failed = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        count += 1
        given = _one(line, number, strategy, config)
        errors += "error" in given
        failed += "breaches" in given
        write_json(given)
        sys.stdout.flush()  # somebody at the other end of a pipe may wait for this answer
    return count, errors, failed


def _one(
    line: bytes, number: int, strategy: list[str] | None, config: Mapping[str, object]
) -> dict[str, Any]:
    try:
        found = answer(object_of(line, f"line {number}"), strategy, config)
    except PartageError as e:
        return {"error": str(e), "line": number}
    except Exception as e:  # noqa: BLE001 - a mistake of whomever: it costs this line only
        return {"error": f"it failed ({type(e).__name__}: {e})", "line": number}
    given = found.to_json()
    # Problems of a stream are a program's: it knows the topics that it left out.
    known = missing_topics(found.group, found.cluster)
    warnings = [one for one in found.warnings if one not in known]
    if warnings:
        given["warnings"] = warnings
    if found.breaches:
        given["breaches"] = [str(breach) for breach in found.breaches]
    return given
