"""Values of a problem's JSON; errors have the path of the malformed value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from partage.errors import InvalidProblemError

__all__ = ["expect_list", "parse_json", "parse_problem", "required_field"]


def parse_problem(problem: object) -> Mapping[str, Any]:
    """Return a problem as a mapping, from JSON text, a path, or the mapping itself."""
    if isinstance(problem, PathLike):
        problem = _read(Path(problem))
    if isinstance(problem, (str, bytes)):
        try:
            problem = parse_json(problem)
        except (ValueError, RecursionError) as e:
            what = f"not JSON ({e}); give JSON text, or a pathlib.Path to read"
            raise InvalidProblemError(what, path="problem", value=problem) from None
    if not isinstance(problem, Mapping):
        what = "must be an object with topics and members"
        raise InvalidProblemError(what, path="problem", value=problem)
    return problem


def parse_json(text: str | bytes) -> Any:
    """Parse JSON in which no object has a duplicate key.

    Raises:
        InvalidProblemError: a key is duplicated.
        ValueError, RecursionError: the text is not JSON.
    """
    return json.loads(text, object_pairs_hook=_unique_keys)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # add returns None
        raise InvalidProblemError("a key is there twice", path="problem", value=twice)
    return made


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        what = f"cannot be read ({e.strerror})"
        raise InvalidProblemError(what, path="problem", value=str(path)) from None


def required_field(problem: Mapping[str, Any], name: str) -> Any:
    """Return a required field."""
    if name not in problem:
        raise InvalidProblemError("is missing", path=name, value=None)
    return problem[name]


def expect_list(value: object, path: str, what: str) -> Sequence[Any]:
    """Return a value that must be a JSON list."""
    if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple)):
        raise InvalidProblemError(f"must be {what}", path=path, value=value)
    return value
