"""Check of the arguments of public functions against their annotations.

Annotations are read as text, at the first call: no class that only type checkers need is imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from os import PathLike
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np

from partage.errors import InvalidConfigError

__all__ = ["check_argument_types"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _ArgumentType(NamedTuple):
    """Accepted type of a function argument: a test for values, and a name for error messages.

    For example, "a number" accepts integers and floats, but neither booleans nor NaN.

    Attributes:
        accepts: function that returns whether a value has this type.
        words: the type's name in error messages.
    """

    accepts: Callable[[object], bool]
    words: str


def check_argument_types(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function to check the types of its arguments against its type annotations.

    A call with an argument of another type raises `InvalidConfigError`, which names the argument.

    Two kinds of arguments are not checked: a string where a list is expected (the function itself
    calls `partage.model.validation.reject_text`), and classes of other libraries.

    >>> @check_argument_types
    ... def wait(seconds: float, names: Sequence[str] | None = None) -> None: ...
    >>> wait("x")
    Traceback (most recent call last):
    partage.errors.InvalidConfigError: setting seconds: must be a number, got 'x'
    >>> wait(1.5, names=[3])
    Traceback (most recent call last):
    partage.errors.InvalidConfigError: setting names: must be a list (of text) or None, got [3]
    """
    kinds: dict[str, list[_ArgumentType]] = {}
    parameters: list[Parameter] = []

    @wraps(function)
    def run(*args: _P.args, **named: _P.kwargs) -> _R:
        if not parameters:
            parameters.extend(signature(function).parameters.values())
            kinds.update((one.name, _allowed_types(str(one.annotation))) for one in parameters)
        given = dict(zip((one.name for one in parameters), args, strict=False)) | named
        for name, value in given.items():
            expected = kinds.get(name)
            if expected and not any(kind.accepts(value) for kind in expected):
                what = f"must be {' or '.join(kind.words for kind in expected)}"
                raise InvalidConfigError(name, what, value)
        return function(*args, **named)

    return run


@cache
def _allowed_types(annotation: str) -> list[_ArgumentType]:
    """Return the types that an annotation such as ``"int | None"`` allows, and their tests.

    The list is empty if one of the types cannot be tested, for example a class of another library.
    Such an argument is not checked.
    """
    found = [_kind(one) for one in _split_outside_brackets(annotation, "|")]
    return [one for one in found if one is not None] if None not in found else []


def _split_outside_brackets(text: str, separator: str) -> list[str]:
    """Split the text of a type annotation at a separator, but not inside square brackets.

    It separates the parts of a union, and the arguments of a generic type.

    >>> _split_outside_brackets("Mapping[str, int] | None", "|")
    ['Mapping[str, int]', 'None']
    """
    parts, depth = [""], 0
    for c in text:
        depth += (c == "[") - (c == "]")
        if c == separator and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def _kind(name: str) -> _ArgumentType | None:
    outer, _, rest = name.partition("[")
    inner = _split_outside_brackets(rest.removesuffix("]"), ",")
    if name in _PLAIN:
        return _PLAIN[name]
    if outer == "Callable":
        return _ArgumentType(callable, "a function")
    if outer in {"Sequence", "Collection", "Iterable"}:
        of = _allowed_types(inner[0])
        return _ArgumentType(lambda value: _is_list(value, of), f"a list{_of(of)}")
    if outer == "Mapping":
        of = _allowed_types(inner[-1])
        return _ArgumentType(lambda value: _is_mapping(value, of), f"a mapping from text{_to(of)}")
    if outer == "tuple" and "..." not in inner:
        of = _allowed_types(inner[0])
        several = len(inner)
        return _ArgumentType(
            lambda value: _is_list(value, of) and isinstance(value, tuple | list)
            and len(value) == several,
            f"a tuple of {several}{_of(of)}",
        )  # fmt: skip
    if name in _OURS:
        return _ArgumentType(
            lambda value: name in (c.__name__ for c in type(value).__mro__), f"a {name}"
        )
    return None


def _of(kinds: list[_ArgumentType]) -> str:
    return f" (of {' or '.join(kind.words for kind in kinds)})" if kinds else ""


def _to(kinds: list[_ArgumentType]) -> str:
    return f" to {' or '.join(kind.words for kind in kinds)}" if kinds else ""


def _is_list(value: object, of: list[_ArgumentType]) -> bool:
    if isinstance(value, str | bytes):
        return True  # the function says what its list has
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        return False
    if not of or not hasattr(value, "__len__"):  # an iterator may be read only once
        return True
    return all(any(kind.accepts(one) for kind in of) for one in value)


def _is_mapping(value: object, of: list[_ArgumentType]) -> bool:
    if not isinstance(value, Mapping):
        return False
    rows = [any(kind.accepts(one) for kind in of) or not of for one in value.values()]
    return all(rows) and all(isinstance(key, str) for key in value)


def _is_number(value: object) -> bool:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:  # an int of 400 digits
        return False


_PLAIN = {
    "None": _ArgumentType(lambda value: value is None, "None"),
    "bool": _ArgumentType(lambda value: isinstance(value, bool | np.bool_ | int), "True or False"),
    "int": _ArgumentType(
        lambda value: isinstance(value, Integral) and not isinstance(value, bool | np.bool_),
        "a whole number",
    ),
    "float": _ArgumentType(_is_number, "a number"),
    "str": _ArgumentType(lambda value: isinstance(value, str), "text"),
    "Path": _ArgumentType(lambda value: isinstance(value, PathLike), "a path"),
}  # fmt: skip
#: Classes of Partage that arguments may have, by name.
_OURS = {"Run", "MeasuredGroup", "ReplicaCluster", "SimulatedApplication"}
