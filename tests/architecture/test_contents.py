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


_FILE = r"`([\w./-]+(?:\.(?:py|md|j2)|/))`"


def _table_rows() -> list[str]:
    """Return the rows of the tables in DESIGN.md, without their first cells."""
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    table = text.partition("## Where to look")[2].partition("## Allowed imports")[0]
    rows = [line for line in table.splitlines() if re.match(r"\| [^t|]|\| t(?!o find)", line)]
    return [row.replace(r"\|", " ").split("|", 2)[2] for row in rows]


def _find(name: str, folder: Path) -> Path | None:
    """Return the file or folder that DESIGN.md names: beside the one before, or from a root."""
    return next((at for root in (folder, PACKAGE, ROOT) if (at := root / name).exists()), None)


def test_design_names_files_and_functions_that_exist() -> None:
    """Each file of the tables exists, and contains the names in parentheses behind it."""
    wrong, rows = [], _table_rows()
    assert len(rows) > 100
    for row in rows:
        folder = PACKAGE
        for file, names in re.findall(_FILE + r"(?: \(([^)]*)\))?", row):
            at = _find(file, folder)
            if at is None:
                wrong.append(f"{file} does not exist: {row}")
                continue
            folder = at if at.is_dir() else at.parent
            text = at.read_text(encoding="utf-8") if at.is_file() else ""
            wrong += [
                f"{file} has no {dotted}"
                for dotted in re.findall(r"`([A-Za-z_][\w.]*)`", names if text else "")
                if not all(re.search(rf"\b{one}\b", text) for one in dotted.split("."))
            ]
    assert not wrong, "\n".join(wrong)


def _resolves(name: str) -> bool:
    """Return whether a dotted name is a module, or a module that contains the rest of the name."""
    at, names = PACKAGE, name.split(".")[1:]
    while names and (at / names[0]).is_dir():
        at /= names.pop(0)
    file = at / f"{names[0]}.py" if names else at / "__init__.py"
    names, file = (names[1:], file) if file.exists() else (names, at / "__init__.py")
    text = file.read_text(encoding="utf-8") if names else ""
    return all(re.search(rf"\b{one}\b", text) for one in names)


def test_dotted_names_of_the_documentation_exist() -> None:
    """Each `partage.` name of the docs is in the source; OpenTelemetry's metrics are no names."""
    files = [ROOT / "README.md", ROOT / "DESIGN.md", *(ROOT / "docs").rglob("*.md")]
    used = {
        name
        for file in files
        for name in re.findall(r"`(partage(?:\.\w+)+)`", file.read_text(encoding="utf-8"))
    }
    assert "partage.replicas.place_added_partitions" in used
    assert not _resolves("partage.replicas.extend")
    wrong = sorted(
        one for one in used if not one.startswith("partage.assignor.") and not _resolves(one)
    )
    assert not wrong, "\n".join(wrong)
