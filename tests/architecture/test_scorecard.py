"""The scorecard: counts of the source tree that may fall and never rise.

Other rules are tests of their own: no import cycle (`test_rooms`), the imperative mood (ruff's
D401), shared class names and lengths (`test_house`), words (`test_language`).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest

from architecture.source_tree import ROOT, import_graph, module_name, sources, tree
from architecture.test_language import OPENINGS, unwanted

_SMALL = 60
_MOST_POSITIONAL = 8


def _where(file: object, line: int) -> str:
    return f"{file.relative_to(ROOT)}:{line}"  # type: ignore[attr-defined]  # a path


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for file in sources():
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{_where(file, node.lineno)} {node.name}", node


def words() -> Iterator[str]:
    """Yield the lines of the source with a word or phrase of the private vocabulary."""
    for file in sources():
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if (word := unwanted(line)) is not None:
                yield f"{_where(file, number)} {word!r}"


def openings() -> Iterator[str]:
    """Yield the functions whose docstring opens with a question word or a pronoun."""
    for where, node in _functions():
        docstring = ast.get_docstring(node)
        if docstring and OPENINGS.match(docstring):
            yield where


def positional() -> Iterator[str]:
    """Yield the functions with more than eight positional arguments."""
    for where, node in _functions():
        count = len(node.args.posonlyargs) + len(node.args.args)
        if count > _MOST_POSITIONAL:
            yield f"{where} ({count})"


def small() -> Iterator[str]:
    """Yield the modules of fewer than 60 lines, packages aside."""
    for file in sources():
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines < _SMALL and file.name != "__init__.py":
            yield f"{file.relative_to(ROOT)} ({lines})"


def one_importer() -> Iterator[str]:
    """Yield the modules that one module of the same package imports, and no other."""
    importers: dict[str, list[str]] = defaultdict(list)
    for name, used in import_graph().items():
        for one in used:
            importers[one].append(name)
    packages = {module_name(file) for file in sources() if file.name == "__init__.py"}
    for name, by in importers.items():
        same = by[0].rpartition(".")[0] == name.rpartition(".")[0]
        if len(by) == 1 and same and name not in packages:
            yield f"{name} <- {by[0]}"


def class_names() -> Iterator[str]:
    """Yield the public class names that more than one module defines."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in sources():
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(_where(file, node.lineno))
    yield from (f"{name}: {', '.join(two)}" for name, two in places.items() if len(two) > 1)


#: Measure and the largest count allowed. A commit that lowers a count lowers its limit here.
LIMITS: list[tuple[Callable[[], Iterator[str]], int]] = [
    (words, 0),
    (openings, 0),
    (class_names, 5),
    (positional, 0),
    (small, 6),
    (one_importer, 36),
]


@pytest.mark.parametrize(("measure", "limit"), LIMITS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_count_does_not_rise(measure: Callable[[], Iterator[str]], limit: int) -> None:
    """No measure of the source tree exceeds its limit."""
    found = sorted(measure())
    assert len(found) <= limit, f"{len(found)} > {limit}\n" + "\n".join(found)
