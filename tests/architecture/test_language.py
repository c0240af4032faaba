"""Plain language: the whole repository keeps to the vocabulary, functions say what they do."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from architecture.source_tree import tree

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "partage"

#: Folders and files (patterns below the root) that use the field's terms only.
PLACES = {
    "src": ("*.py", "*.toml", "*.html", "*.js"),
    "tests": ("*.py",),
    "docs": ("*.md",),
    "benchmarks": ("*.py",),
    "examples": ("*.py",),
    "tools": ("*.py",),
    ".": ("README.md", "DESIGN.md", "CONTRIBUTING.md"),
}
#: The vocabulary is a text file, so that this module passes its own check.
VOCABULARY = (Path(__file__).parent / "vocabulary.txt").read_text(encoding="utf-8")
_, WORD_LINES, PHRASE_LINES, EXAMPLES = re.split(r"^\w+:\n", VOCABULARY, flags=re.MULTILINE)
WORDS = frozenset(WORD_LINES.split())
PHRASES = re.compile("|".join(PHRASE_LINES.splitlines()), re.IGNORECASE)
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
#: Openings of a docstring that is neither an imperative sentence nor a noun phrase.
OPENINGS = re.compile(
    r"(?:Wh(?:om?|at|ere|en|ether|ich|y)|How|That|Of|As|If|It|So|For|Is|Does|Are)\b"
)


def unwanted(line: str) -> str | None:
    """Return the first word or phrase of the private vocabulary in a line."""
    if (found := PHRASES.search(line)) is not None:
        return found.group(0)
    return next((part for part in PARTS.findall(line) if part.lower() in WORDS), None)


@pytest.mark.parametrize("folder", PLACES)
def test_a_folder_uses_the_fields_terms(folder: str) -> None:
    """No line of a folder contains a word of the private vocabulary."""
    root = ROOT / folder
    walk = root.glob if folder == "." else root.rglob
    paths = [path for pattern in PLACES[folder] for path in sorted(walk(pattern))]
    assert paths, f"{folder} has no such files"
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word!r}"
        for path in paths
        if "vendor" not in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (word := unwanted(line)) is not None
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", sorted(path.name for path in SOURCE.iterdir()))
def test_functions_say_what_they_do(name: str) -> None:
    """No function's docstring in the source opens with a question word or a pronoun."""
    found = []
    path = SOURCE / name
    for module in [path] if path.suffix == ".py" else sorted(path.rglob("*.py")):
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node)
                if docstring and OPENINGS.match(docstring):
                    where = f"{module.relative_to(SOURCE)}:{node.lineno} {node.name}"
                    found.append(f"{where}: {docstring.splitlines()[0]}")
    assert not found, "\n".join(found)


def test_the_vocabulary_is_recognised() -> None:
    """The check sees words inside identifiers and phrases, and leaves Kafka's terms alone."""
    assert len(WORDS) == 18
    assert len(PHRASE_LINES.splitlines()) == 17
    for word in WORDS:
        assert unwanted(f"for one in self._{word}:") == word
        assert unwanted(f"class Sticky{word.title()}:") == word.title()
    assert all(map(unwanted, EXAMPLES.splitlines()))
    assert unwanted("Return the partitions of each member.") is None
