"""A problem from a file or stdin, and the settings of strategies."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from partage.errors import InvalidProblemError

if TYPE_CHECKING:
    from partage.model import Cluster, Group

__all__ = [
    "DEFAULT",
    "STDIN",
    "parse_json_object",
    "parse_problem",
    "parse_settings",
    "preferred_strategies",
    "read_problem",
]

#: What decides when neither the command nor the problem names a strategy.
DEFAULT = "range"
#: Instead of a file name: standard input.
STDIN = "-"


def read_problem(file: Path) -> Mapping[str, Any]:
    """Read an assignment problem (a JSON object with topics and members) from a file.

    The file name ``-`` stands for stdin.

    Raises:
        InvalidProblemError: the content is not a JSON object; the error names the file.
        OSError: the file cannot be read.
    """
    piped = str(file) == STDIN
    text = sys.stdin.buffer.read() if piped else file.read_bytes()
    where = "stdin" if piped else str(file)
    if not text.strip():
        raise InvalidProblemError("is empty; expected a JSON object", path=where, value="")
    return parse_json_object(text, where)


def parse_json_object(text: bytes, source: str) -> Mapping[str, Any]:
    """Parse the text of an input file as a JSON object.

    ``source`` is the name of the file, for the error message.

    Raises:
        InvalidProblemError: the text is not a JSON object.
    """
    from partage.model.validation import parse_json

    try:
        found = parse_json(text)
    except (ValueError, RecursionError) as e:
        what = f"is not JSON in UTF-8 ({e})"
        raise InvalidProblemError(what, path=source, value=text[:60]) from None
    if not isinstance(found, dict):
        what = "must be a JSON object"
        raise InvalidProblemError(what, path=source, value=found)
    return found


def parse_problem(problem: Mapping[str, Any]) -> tuple[Group, Cluster]:
    """Convert an assignment problem from JSON to a consumer group and a cluster.

    ``problem`` is an object with ``topics`` and ``members``.

    Raises:
        InvalidProblemError: a field is wrong; the error has its path and value.
    """
    from partage.model import Cluster, Group

    return Group.from_json(problem), Cluster.from_json(problem)


def preferred_strategies(
    requested: Sequence[str] | None, problem: Mapping[str, Any]
) -> list[str] | None:
    """Return the names of the strategies to try, preferred first.

    Names on the command line take precedence over those in the problem. The result is None if
    neither names a strategy.

    Args:
        requested: strategy names from the command line.
        problem: the assignment problem, whose strategy names are used if ``requested`` is empty.

    Raises:
        InvalidProblemError: the problem's ``strategy`` is neither a name nor a list of names.
    """
    if requested:
        return list(requested)
    for field in ("strategy", "kind"):
        value = problem.get(field)
        if value is None:
            continue
        names = value if isinstance(value, list) else [value]
        if not names or not all(isinstance(name, str) for name in names):
            raise InvalidProblemError("must be a name or a list of names", path=field, value=value)
        return names
    return None


def parse_settings(pairs: Sequence[str] | None) -> dict[str, object]:
    """Parse the values of the option ``--config`` (``KEY=VALUE``) to a dict.

    Values stay text; strategies parse them as Kafka's clients do.

    Raises:
        BadParameter: a value is not KEY=VALUE.
    """
    out: dict[str, object] = {}
    for pair in pairs or ():
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--config")
        out[key] = value
    return out
