"""The plain form of results: text that is equal in both versions if the values are equal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from same.renames import rename_words

__all__ = ["outcome", "plain"]


def outcome(compute: Callable[[], Any]) -> str:
    """Return the result of a call as JSON text, or the class of the error that it raised.

    The error's message is left out: its wording may improve between two versions.
    """
    try:
        value = plain(compute())
    except Exception as e:  # noqa: BLE001 - an error of any class is a result to compare
        return rename_words(f"raises {type(e).__name__}")
    return json.dumps(value, ensure_ascii=False)


def plain(value: Any) -> Any:
    """Return a value as lists, text, numbers and None.

    A record becomes the list of its values, so that the name of a field may change. The order of
    a mapping is part of the result; a set has none and is sorted.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"0x{bytes(value).hex()}"
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return [[plain(key), plain(one)] for key, one in value.items()]
    if isinstance(value, set | frozenset):
        return sorted((plain(one) for one in value), key=repr)
    if is_dataclass(value) and not isinstance(value, type):
        return [plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, Iterable):
        return [plain(one) for one in value]
    return str(value)
