"""Our own sources, read as syntax trees: which module imports what, and where."""

from __future__ import annotations

import ast
import gc
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "partage"


@dataclass(frozen=True)
class Import:
    """One imported module: its importer, the line, and whether loading the importer imports it."""

    file: Path
    line: int
    module: str
    on_load: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"

    @property
    def room(self) -> str:
        """The importing module's first name below partage; the front door is `partage`."""
        return room_of(module_name(self.file))

    @property
    def library(self) -> str:
        """The imported module's outermost package."""
        return self.module.split(".")[0]


def sources() -> list[Path]:
    """Every Python file that ships."""
    return sorted(PACKAGE.rglob("*.py"))


@cache
def tree(file: Path) -> ast.Module:
    """The file's syntax tree, exempt from garbage collection.

    All trees have 800,000 nodes, and collections take longer than the parser.
    """
    gc.disable()
    try:
        return ast.parse(file.read_text(encoding="utf-8"), str(file))
    finally:
        gc.freeze()
        gc.enable()


def module_name(file: Path) -> str:
    """src/partage/groups/range.py is partage.groups.range."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """partage.groups.range lives in groups; partage itself is the front door."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def rooms() -> list[str]:
    """All rooms that exist."""
    return sorted({room_of(module_name(file)) for file in sources()})


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {
        "TYPE_CHECKING",
        "typing.TYPE_CHECKING",
    }


def _absolute(file: Path, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module_name(file).split(".")
    if file.name != "__init__.py":
        package = package[:-1]
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def _is_submodule(module: str) -> bool:
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _named(file: Path, node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    module = _absolute(file, node)
    # `from partage.groups import registry` imports a module, `from partage.model import Plan` a name.
    inner = [f"{module}.{alias.name}" for alias in node.names]
    return [
        name if name.startswith("partage.") and _is_submodule(name) else module for name in inner
    ]


@cache
def imports_of(file: Path) -> tuple[Import, ...]:
    """Every import in the file: on load, under TYPE_CHECKING, inside functions, by name too."""
    found: list[Import] = []

    def walk(node: ast.AST, *, on_load: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = dict.fromkeys(_named(file, node))
            found.extend(Import(file, node.lineno, name, on_load) for name in names)
        if isinstance(node, ast.Call):
            found.extend(_by_name(file, node, on_load=on_load))
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            inside = later or (_is_type_checking(node) and child not in node.orelse)
            walk(child, on_load=on_load and not inside)

    walk(tree(file), on_load=True)
    return tuple(found)


def _by_name(file: Path, node: ast.Call, *, on_load: bool) -> list[Import]:
    # `ast.unparse` of every call would take longer than all else here.
    called = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if called not in {"import_module", "__import__"} or not node.args:
        return []
    name = node.args[0]
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return [Import(file, node.lineno, name.value, on_load)]
    return []


def all_imports() -> list[Import]:
    """Every import of every file that ships."""
    return [one for file in sources() for one in imports_of(file)]


def import_graph() -> dict[str, set[str]]:
    """Return the modules of ours that each module imports, inside functions too; types aside."""
    graph: dict[str, set[str]] = {}
    for file in sources():
        name = module_name(file)
        hidden = {
            inner.lineno
            for node in ast.walk(tree(file))
            if isinstance(node, ast.If) and _is_type_checking(node)
            for child in node.body
            for inner in ast.walk(child)
            if isinstance(inner, ast.Import | ast.ImportFrom)
        }
        graph[name] = {
            one.module
            for one in imports_of(file)
            if one.library == "partage" and one.line not in hidden and one.module != name
        }
    return graph
