"""Plain language: reworded packages keep to the vocabulary and to imperative docstrings."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "partage"

#: Packages and modules whose names, docstrings and comments follow CONTRIBUTING's language rules.
REWORDED = [
    "api", "clients", "errors.py", "groups", "history", "java", "jobs", "judge", "kernels.py",
    "keys", "legacy",
    "model", "replicas", "report", "runs",
    "simulation", "solve", "streams", "tables", "testing", "weights",
    "wire",
]  # fmt: skip

#: Words of the private vocabulary that CONTRIBUTING's rules replace, as parts of identifiers too.
WORDS = frozenset({
    "audience", "audiences", "doubt", "doubts", "heir", "heirs", "lodger", "lodgers", "restless",
    "scene", "scenes", "shelve", "shelving", "somebody", "spot", "spots", "told", "whoever",
})  # fmt: skip
PHRASES = re.compile(
    r"\b(?:who|whom) of (?:them|us)\b|\bof (?:one|those|these|such) (?:that|who)\b"
    r"|\bit is (?:known|told|said)\b|\bwhom\b|\bput out\b|\bgives? (?:everything )?up\b"
    r"|\bdealt out\b|\bhanded? out\b|\bis there already\b|\bas (?:it|they) stands?\b"
    r"|\bfor good\b|\bagain and again\b|\bcame of it\b",
    re.IGNORECASE,
)
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
#: Openings of a docstring that is neither an imperative sentence nor a noun phrase.
OPENINGS = re.compile(
    r"(?:Who|Whom|What|Where|How|When|Which|Why|That|Of|As|If|It|So|For|Is|Does|Are)\b"
)


def files(name: str) -> list[Path]:
    """Return the Python files of a package or module."""
    path = SOURCE / name
    return [path] if path.suffix else sorted(path.rglob("*.py"))


def unwanted(line: str) -> str | None:
    """Return the first word or phrase of the private vocabulary in a line."""
    if (found := PHRASES.search(line)) is not None:
        return found.group(0)
    return next((part for part in PARTS.findall(line) if part.lower() in WORDS), None)


@pytest.mark.parametrize("name", REWORDED)
def test_a_reworded_package_uses_the_fields_terms(name: str) -> None:
    """No line of a reworded package contains a word of the private vocabulary."""
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {word!r}"
        for path in files(name)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (word := unwanted(line)) is not None
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", REWORDED)
def test_functions_of_a_reworded_package_say_what_they_do(name: str) -> None:
    """No function's docstring in a reworded package opens with a question word or a pronoun."""
    found = []
    for path in files(name):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node)
                if docstring and OPENINGS.match(docstring):
                    where = f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"
                    found.append(f"{where}: {docstring.splitlines()[0]}")
    assert not found, "\n".join(found)


def test_the_vocabulary_is_recognised() -> None:
    """The check sees words inside identifiers and phrases, and leaves Kafka's terms alone."""
    assert unwanted("for spot in self._spots:") == "spot"
    assert unwanted("class StickyScene:") == "Scene"
    assert unwanted("the partitions are handed out") == "handed out"
    assert unwanted("Return the partitions of each member.") is None
