"""Public names that have changed, as `tools/renames.csv` lists them in order of time."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["FILE", "Rename", "append", "find", "load", "rename_text", "rename_words", "replace"]

FILE = Path(__file__).resolve().parents[1] / "renames.csv"


class Rename(NamedTuple):
    """One row: a module, or an attribute of a module or class, by its dotted names."""

    old: str
    new: str


@cache
def load() -> tuple[Rename, ...]:
    """Return all renames, the oldest first."""
    if not FILE.exists():
        return ()
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(Rename(*row) for row in csv.reader(file) if row[:1] != ["old"])


def append(renames: list[Rename]) -> None:
    """Add rows to the file."""
    is_new = not FILE.exists()
    with FILE.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(Rename._fields)
        writer.writerows(renames)
    load.cache_clear()


def replace(name: str, rename: Rename) -> str:
    """Return a dotted name after one rename.

    >>> replace("partage.deciding.assign", Rename("partage.deciding", "partage.api.assigning"))
    'partage.api.assigning.assign'
    >>> replace("partage.decidings", Rename("partage.deciding", "partage.api.assigning"))
    'partage.decidings'
    """
    if name == rename.old or name.startswith(f"{rename.old}."):
        return rename.new + name[len(rename.old) :]
    return name


def find(name: str) -> Any:
    """Return the object of a dotted name, under its newest name that exists in this version.

    Raises:
        LookupError: this version has the object under none of its names.
    """
    # A later module may have the name of an earlier one: the names before a rename stay candidates.
    candidates = [name]
    for rename in load():
        renamed = (replace(one, rename) for one in candidates)
        candidates += [one for one in renamed if one not in candidates]
    for candidate in reversed(candidates):
        for value in _resolve(candidate):
            return value
    raise LookupError(f"{name}: not in this version; add its new name to {FILE.name}")


def _resolve(name: str) -> Iterator[Any]:
    """Yield the object of a dotted name, if it exists: the longest module prefix comes first."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        try:
            value = import_module(module)
        except ModuleNotFoundError as e:
            if e.name is None or not f"{module}.".startswith(f"{e.name}."):
                raise
            continue
        try:
            for attribute in parts[length:]:
                value = getattr(value, attribute)
        except AttributeError:
            return
        yield value
        return


def rename_text(text: str) -> str:
    """Return text with the dotted names in it renamed; `module:attribute` counts as dotted."""
    for old, new in load():
        pattern = re.escape(old)
        text = re.sub(rf"(?<![\w.]){pattern}(?!\w)", new, text)
        module, _, attribute = old.rpartition(".")
        new_module, _, new_attribute = new.rpartition(".")
        text = re.sub(
            rf"(?<![\w.]){re.escape(module)}:{attribute}(?!\w)",
            f"{new_module}:{new_attribute}",
            text,
        )
    return text


def rename_words(text: str) -> str:
    """Return text with the last parts of renamed classes replaced wherever they are a word.

    Annotations name a class without its module.
    """
    for old, new in load():
        before, after = old.rpartition(".")[2], new.rpartition(".")[2]
        if before[:1].isupper() and before != after:
            text = re.sub(rf"\b{before}\b", after, text)
    return text
