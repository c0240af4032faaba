"""Values of a description in JSON, each checked where it stands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from partage.errors import InvalidProblemError

__all__ = ["millis", "names", "number", "only", "record", "switch", "text", "whole"]

_LONGEST_NAME = 200


def record(value: object, path: str) -> Mapping[str, Any]:
    """A JSON object."""
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for one in value):
        raise InvalidProblemError("must be an object", path=path, value=value)
    return value


def only(value: Mapping[str, Any], path: str, known: Collection[str]) -> None:
    """No field but these: a misspelt one would be a default in silence."""
    for name in value:
        if name not in known:
            what = f"is not known here; there are {', '.join(known)}"
            raise InvalidProblemError(what, path=f"{path}.{name}", value=value[name])


def whole(value: object, path: str, least: int, most: int) -> int:
    """An int within bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        what = f"must be a whole number from {least} to {most}"
        raise InvalidProblemError(what, path=path, value=value)
    return value


def number(value: object, path: str, least: float, most: float) -> float:
    """A finite number within bounds."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    # Compared as it is: an int of hundreds of digits is no float, and a NaN is within no bounds.
    if not real or not least <= value <= most:  # type: ignore[operator]  # real says so
        what = f"must be a number from {least:g} to {most:g}"
        raise InvalidProblemError(what, path=path, value=value)
    return float(value)  # type: ignore[arg-type]  # real says so


def millis(value: object, path: str, least: float, most: float) -> int:
    """Seconds as JSON has them, in milliseconds."""
    return round(number(value, path, least, most) * 1000)


def text(value: object, path: str) -> str:
    """A name."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME:
        what = f"must be text of 1 to {_LONGEST_NAME} characters"
        raise InvalidProblemError(what, path=path, value=value)
    return value


def names(value: object, path: str) -> tuple[str, ...]:
    """A list of names."""
    if not isinstance(value, list | tuple):
        raise InvalidProblemError("must be a list", path=path, value=value)
    return tuple(text(one, f"{path}.{place}") for place, one in enumerate(value))


def switch(value: object, path: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise InvalidProblemError("must be true or false", path=path, value=value)
    return value
