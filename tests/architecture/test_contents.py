"""Tables of contents: a package's docstring names its modules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from architecture.source_tree import PACKAGE, ROOT, sources, tree


def _modules_of(package: Path) -> list[str]:
    """Return the names of a package's modules and subpackages."""
    files = [one.stem for one in package.glob("*.py") if not one.stem.startswith("__")]
    return sorted(files + [one.parent.name for one in package.glob("*/__init__.py")])


def _names_in(docstring: str) -> set[str]:
    """Return the names in backticks, and those at the start of a table's line."""
    quoted = re.findall(r"(?<!`)`(?:\w+\.)*(\w+)`", docstring)
    listed = re.findall(r"^ *(\w+(?:, \w+)*) {2,}\S", docstring, re.MULTILINE)
    return {*quoted, *(name for row in listed for name in row.split(", "))}


def test_the_docstring_of_a_package_names_each_of_its_modules() -> None:
    """A reader who opens `__init__.py` learns of every module beside it."""
    packages = [file for file in sources() if file.name == "__init__.py"]
    assert PACKAGE / "__init__.py" in packages
    missing = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in packages
        for name in _modules_of(file.parent)
        if name not in _names_in(ast.get_docstring(tree(file)) or "")
    ]
    assert not missing, "\n".join(missing)


def test_a_table_of_contents_is_read_in_both_forms() -> None:
    """A name counts in backticks or before two spaces; inside a sentence it does not."""
    text = "About sums.\n\n`data.rows` and `a`\n\n    b, c   two of one kind\n    so many words\n"
    assert _names_in(text) == {"rows", "a", "b", "c"}
