"""Rename modules, or functions, classes and constants of modules, in the whole repository.

    .venv/bin/python tools/rename.py partage.deciding partage.choosing
    .venv/bin/python tools/rename.py partage.groups.registry.contestants partage.groups.registry.candidates
    .venv/bin/python tools/rename.py --csv planned.csv

A module is moved with ``git mv``. Imports and uses are rewritten by LibCST, which is installed
into ``.tools/rename`` on the first call. Strings change only where they are the whole dotted name,
as in ``"partage.groups.range:Range"``; names of loggers never change. Documents change where they
have the whole dotted name or the path of the file. ``tools/same`` and the changelog keep the old
names. Each rename is appended to ``tools/renames.csv``; ``--record-only`` does nothing else.
"""  # noqa: E501 - command lines stay whole

from __future__ import annotations

import argparse
import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".tools" / "rename"
LIBCST = "libcst==1.9.0"

try:
    import libcst as cst
    from libcst.metadata import MetadataWrapper, QualifiedNameProvider, QualifiedNameSource
except ImportError:
    if TYPE_CHECKING or sys.prefix == str(HOME):
        raise
    uv, python = str(ROOT / ".venv" / "bin" / "uv"), str(HOME / "bin" / "python")
    if not (HOME / "bin" / "python").exists():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(HOME)], check=True)
    install = ("install", "--quiet", LIBCST)
    if subprocess.run([uv, "pip", *install, "--python", python], check=False).returncode:
        subprocess.run([sys.executable, "-m", "pip", "--python", python, *install], check=True)
    os.execv(python, [python, __file__, *sys.argv[1:]])  # noqa: S606 - this file, once more

sys.path.insert(0, str(ROOT / "tools"))

from same.renames import Rename, append, replace  # noqa: E402 - needs the path above

_SOURCES = ("src", "tests")  # folders from which modules are imported
_TEXTS = {".md", ".toml", ".sh", ".rst", ".cfg", ".java", ".html", ".yml"}
_KEPT = ("CHANGELOG.md", "tools/same/", "tools/rename.py", "tools/renames.csv")
_DOTTED = re.compile(r"^[A-Za-z_]\w*(\.\w+)+(:\w+)?$")


class RenameError(Exception):
    """A rename that cannot be done safely, with the reason."""


class Target(NamedTuple):
    """What a rename applies to.

    Attributes:
        rename: the old and the new dotted name.
        is_module: whether it is a module or package, else an attribute of one.
        path: of the module that is moved, or that defines the attribute.
        names: dotted names under which the object is imported, the old one included.
    """

    rename: Rename
    is_module: bool
    path: Path
    names: frozenset[str]

    @property
    def old(self) -> str:
        """The last part of the old name."""
        return self.rename.old.rpartition(".")[2]

    @property
    def new(self) -> str:
        """The last part of the new name."""
        return self.rename.new.rpartition(".")[2]

    def renamed(self, name: str) -> str:
        """Return a dotted name after the rename; re-exports of an attribute count."""
        for known in self.names:
            base = known.rpartition(".")[0]
            new = self.rename.new if self.is_module else f"{base}.{self.new}"
            after = replace(name, Rename(known, new))
            if after != name:
                return after
        return name


# --- finding ---


def find_target(rename: Rename) -> Target:
    """Return what a rename applies to.

    Raises:
        RenameError: the name does not exist, or the rename is not one that this script does.
    """
    path = _module_path(rename.old)
    if path is not None:
        new = _planned_path(path, rename)
        if new.exists():
            raise RenameError(f"{rename.new}: {new.relative_to(ROOT)} exists already")
        if not new.parent.is_dir():
            raise RenameError(f"{rename.new}: create the package {new.parent.name} first")
        return Target(rename, True, path, frozenset([rename.old]))
    module, _, _ = rename.old.rpartition(".")
    path = _module_path(module)
    if path is None:
        what = "neither a module nor an attribute of one (members of classes are not renamed)"
        raise RenameError(f"{rename.old}: {what}")
    if rename.new.rpartition(".")[0] != module:
        raise RenameError(f"{rename.new}: move code by hand, then use --record-only")
    file = path / "__init__.py" if path.is_dir() else path
    return Target(rename, False, file, frozenset(_exports(rename.old)))


def _module_path(name: str) -> Path | None:
    for source in _SOURCES:
        path = ROOT.joinpath(source, *name.split("."))
        if path.is_dir():
            return path
        if path.with_suffix(".py").is_file():
            return path.with_suffix(".py")
    return None


def _planned_path(path: Path, rename: Rename) -> Path:
    source = path.relative_to(ROOT).parts[0]
    new = ROOT.joinpath(source, *rename.new.split("."))
    return new.with_suffix(".py") if path.suffix else new


def module_name(path: Path) -> str:
    """Return the dotted name of a Python file, as imports have it."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] in _SOURCES else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tracked_files() -> list[Path]:
    """Return the repository's files in which names may change."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and not name.startswith(_KEPT)]


def _exports(old: str) -> set[str]:
    """Return the names of an attribute: its own, and those of modules that import it.

    A lazy package has a table from name to module; its entries count as imports.
    """
    attribute = old.rpartition(".")[2]
    sources = {
        module_name(path): path.read_text(encoding="utf-8")
        for path in tracked_files()
        if path.suffix == ".py" and attribute in path.read_text(encoding="utf-8")
    }
    names = {old}
    while True:
        found = set(names)
        for module, text in sources.items():
            for name in names:
                home = re.escape(name.rpartition(".")[0])
                imported = rf"^from {home} import (\([^)]*|[^(\n]*)\b{attribute}\b(?! as (?!{attribute}\b))"  # noqa: E501
                lazy = rf'"{attribute}": "{home}"'
                if re.search(imported, text, re.MULTILINE) or re.search(lazy, text):
                    found.add(f"{module}.{attribute}")
        if found == names:
            return names
        names = found


def _is_public(name: str) -> bool:
    """Return whether a re-export is one of a package's face, which users import from."""
    path = ROOT.joinpath("src", *name.split(".")[:-1])
    return (path / "__init__.py").is_file()


# --- rewriting Python ---


class Rewriter(cst.CSTTransformer):
    """The rename of one target in one file."""

    METADATA_DEPENDENCIES = (QualifiedNameProvider,)

    def __init__(self, target: Target, module: str, tree: cst.Module) -> None:
        super().__init__()
        self.target = target
        self.module = module
        self.is_exporter = f"{module}.{target.old}" in target.names and not target.is_module
        words = set(re.findall(r"\w+", tree.code))
        # Where the new name has another meaning, the module keeps its old name in this file.
        self.keeps_name = target.is_module and target.new != target.old and target.new in words
        self.constants = dict(re.findall(r'^(\w+) = "([\w.]+)"$', tree.code, re.MULTILINE))
        self.kept_strings: set[int] = set()
        self.texts: set[int] = set()
        self.exports: set[int] = set()

    # Imports.

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> cst.Import:
        names = [
            alias.with_changes(name=_dotted(self.target.renamed(_text(alias.name))))
            if self.target.is_module
            else alias
            for alias in updated_node.names
        ]
        return updated_node.with_changes(names=names)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        node = original_node.body[0]
        if not isinstance(node, cst.ImportFrom) or node.relative or node.module is None:
            return updated_node
        module = _text(node.module)
        if not self.target.is_module:
            changed = self._rename_imported(node, module)
            return updated_node.with_changes(body=[changed])
        new = self.target.renamed(module)
        if new != module:
            return updated_node.with_changes(body=[node.with_changes(module=_dotted(new))])
        return self._split_import(node, module, updated_node)

    def _rename_imported(self, node: cst.ImportFrom, module: str) -> cst.ImportFrom:
        if isinstance(node.names, cst.ImportStar):
            return node
        names = []
        for alias in node.names:
            if f"{module}.{_text(alias.name)}" in self.target.names:
                new = cst.Name(self.target.new)
                alias = alias.with_changes(name=new)  # noqa: PLW2901 - the same alias, renamed
                if alias.asname and _text(alias.asname.name) == self.target.old:
                    alias = alias.with_changes(asname=alias.asname.with_changes(name=new))  # noqa: PLW2901
            names.append(alias)
        return node.with_changes(names=names)

    def _split_import(
        self, node: cst.ImportFrom, module: str, line: cst.SimpleStatementLine
    ) -> Any:
        """Give a module that is imported from its package an import of its own."""
        if isinstance(node.names, cst.ImportStar):
            return line
        rest, moved = [], []
        for alias in node.names:
            is_target = f"{module}.{_text(alias.name)}" == self.target.rename.old
            (moved if is_target else rest).append(alias)
        if not moved:
            return line
        alias = moved[0].with_changes(
            name=cst.Name(self.target.new), comma=cst.MaybeSentinel.DEFAULT
        )
        if self.keeps_name and alias.asname is None:
            name = cst.Name(self.target.old)
            alias = alias.with_changes(asname=cst.AsName(name=name))
        parent = self.target.rename.new.rpartition(".")[0]
        own = cst.ImportFrom(module=_dotted(parent), names=[alias])
        if not rest:
            return line.with_changes(body=[own])
        rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        kept = line.with_changes(body=[node.with_changes(names=rest)])
        return cst.FlattenSentinel([kept, cst.SimpleStatementLine(body=[own])])

    # Uses.

    def _is_use(self, node: cst.CSTNode) -> bool:
        """Return whether a name or attribute refers to the target."""
        for found in self.get_metadata(QualifiedNameProvider, node, set()) or ():
            if found.source is QualifiedNameSource.IMPORT and found.name in self.target.names:
                return True
            is_local = found.source is QualifiedNameSource.LOCAL and self.is_exporter
            if is_local and found.name == self.target.old:
                return True
        return False

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        if original_node.value != self.target.old or self.keeps_name:
            return updated_node
        if not self._is_use(original_node):
            return updated_node
        return updated_node.with_changes(value=self.target.new)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Any:
        if original_node.attr.value != self.target.old or not self._is_use(original_node):
            return updated_node
        if self.target.is_module and _text(original_node) == self.target.rename.old:
            return _dotted(self.target.rename.new)
        return updated_node.with_changes(attr=cst.Name(self.target.new))

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        return self._rename_definition(original_node, updated_node)

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        return self._rename_definition(original_node, updated_node)

    def _rename_definition(self, original: Any, updated: Any) -> Any:
        if original.name.value == self.target.old and self._is_use(original):
            return updated.with_changes(name=cst.Name(self.target.new))
        return updated

    def leave_NameItem(
        self, original_node: cst.NameItem, updated_node: cst.NameItem
    ) -> cst.NameItem:
        if self.is_exporter and original_node.name.value == self.target.old:
            return updated_node.with_changes(name=cst.Name(self.target.new))
        return updated_node

    # Strings, docstrings and comments.

    def visit_Call(self, node: cst.Call) -> None:
        if _text(node.func).endswith("getLogger"):
            self.kept_strings.update(id(argument.value) for argument in node.args)

    def visit_Expr(self, node: cst.Expr) -> None:
        if isinstance(node.value, cst.SimpleString):
            self.texts.add(id(node.value))

    def visit_Assign(self, node: cst.Assign) -> None:
        is_export = any(_text(one.target) == "__all__" for one in node.targets)
        if is_export and self.is_exporter and isinstance(node.value, cst.List | cst.Tuple):
            self.exports.update(id(element.value) for element in node.value.elements)

    def leave_DictElement(
        self, original_node: cst.DictElement, updated_node: cst.DictElement
    ) -> cst.DictElement:
        """Rename the key of a lazy package's table, name to module."""
        key, value = original_node.key, original_node.value
        if not (isinstance(key, cst.SimpleString) and isinstance(value, cst.SimpleString)):
            return updated_node
        if self.target.is_module or f"{value.raw_value}.{key.raw_value}" not in self.target.names:
            return updated_node
        return updated_node.with_changes(key=_with_text(key, self.target.new))

    def leave_SimpleString(
        self, original_node: cst.SimpleString, updated_node: cst.SimpleString
    ) -> cst.SimpleString:
        text = original_node.raw_value
        if id(original_node) in self.texts:
            return _with_text(updated_node, rewrite_prose(text, self.target, self._is_bound(text)))
        if id(original_node) in self.exports and text == self.target.old:
            return _with_text(updated_node, self.target.new)
        if id(original_node) in self.kept_strings or not _DOTTED.match(text):
            return updated_node
        return _with_text(updated_node, self._renamed_string(text))

    def _renamed_string(self, text: str) -> str:
        """Return a whole dotted name, perhaps with a colon before its last part, renamed."""
        new = self.target.renamed(text.replace(":", "."))
        return ":".join(new.rsplit(".", 1)) if ":" in text else new

    def leave_FormattedString(
        self, original_node: cst.FormattedString, updated_node: cst.FormattedString
    ) -> cst.FormattedString:
        """Rename in ``f"{PACKAGE}.module:Class"`` behind a constant of this file."""
        if len(original_node.parts) != 2:
            return updated_node
        head, tail = original_node.parts
        if not isinstance(head, cst.FormattedStringExpression):
            return updated_node
        package = self.constants.get(_text(head.expression))
        if package is None or not isinstance(tail, cst.FormattedStringText):
            return updated_node
        if not _DOTTED.match(package + tail.value):
            return updated_node
        new = self._renamed_string(package + tail.value)
        new_package = self.target.renamed(package)
        if not new.startswith(new_package):
            raise RenameError(f"{self.module}: rewrite {_text(original_node)} by hand first")
        value = new[len(new_package) :]
        return updated_node.with_changes(
            parts=[updated_node.parts[0], tail.with_changes(value=value)]
        )

    def leave_Comment(self, original_node: cst.Comment, updated_node: cst.Comment) -> cst.Comment:
        text = rewrite_prose(original_node.value, self.target, is_bound=False)
        return updated_node.with_changes(value=text)

    def _is_bound(self, text: str) -> bool:
        """Return whether the file, or a doctest in this docstring, has the name to itself."""
        imported = re.search(rf"import .*\b{self.target.old}\b", text)
        return self.is_exporter or (imported is not None and not self.target.is_module)


def rewrite_prose(text: str, target: Target, is_bound: bool) -> str:  # noqa: FBT001 - see below
    """Return a docstring, comment or document with whole dotted names and paths replaced.

    Args:
        text: to rewrite.
        target: the rename.
        is_bound: whether the plain name means the target in doctests and in backticks.
    """
    for name in target.names:
        pattern = rf"(?<![\w.]){re.escape(name)}(?!\w)"
        text = re.sub(pattern, target.renamed(name), text)
    if target.is_module:
        for before, after in _paths(target):
            text = re.sub(rf"(?<![\w/.-]){re.escape(before)}(?![\w-])", after, text)
    elif is_bound:
        text = re.sub(rf"(?<!`)`{target.old}`(?!`)", f"`{target.new}`", text)
        word = re.compile(rf"(?<![\w.\"'-]){target.old}(?![\w\"'=-])")
        code = re.compile(r"^\s*(?:>>>|\.\.\.) .*$", re.MULTILINE)
        text = code.sub(lambda line: word.sub(target.new, line[0]), text)
    return text


def _paths(target: Target) -> Iterator[tuple[str, str]]:
    """Yield the spellings of a moved path: from the root, from its source, from `partage`."""
    old = target.path.relative_to(ROOT)
    new = _planned_path(target.path, target.rename).relative_to(ROOT)
    ending = "" if target.path.suffix else "/"
    for start in range(3):
        before, after = "/".join(old.parts[start:]), "/".join(new.parts[start:])
        # A bare folder name or file name may mean another one.
        if "/" in before:
            yield before + ending, after + ending
    if len(old.parts) == 3 and target.path.suffix:
        yield f"`{old.name}`", f"`{'/'.join(new.parts[2:])}`"


def _dotted(name: str) -> Any:
    return cst.parse_expression(name)


def _text(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


def _with_text(node: cst.SimpleString, text: str) -> cst.SimpleString:
    if text == node.raw_value:
        return node
    return node.with_changes(value=f"{node.prefix}{node.quote}{text}{node.quote}")


# --- the whole repository ---


def rewrite(target: Target) -> dict[Path, str]:
    """Return the new text of each file that changes, by its present path."""
    changed = {}
    for path in tracked_files():
        if path.suffix not in {".py", ".pyi"} | _TEXTS and path.name != "Makefile":
            continue
        text = path.read_text(encoding="utf-8")
        if target.old not in text:
            continue
        if path.suffix in {".py", ".pyi"}:
            new = _rewrite_python(path, text, target)
        else:
            is_bound = re.search(rf"import .*\b{target.old}\b", text) is not None
            new = rewrite_prose(text, target, is_bound and not target.is_module)
        if new != text:
            changed[path] = new
    return changed


def _rewrite_python(path: Path, text: str, target: Target) -> str:
    wrapper = MetadataWrapper(cst.parse_module(text))
    new = wrapper.visit(Rewriter(target, module_name(path), wrapper.module)).code
    clash = re.search(rf"(?<![\w.]){target.new}(?!\w)", text)
    if new != text and clash and not target.is_module and re.search(rf"\b{target.old}\b", text):
        line = text[: clash.start()].count("\n") + 1
        raise RenameError(f"{path.relative_to(ROOT)}:{line}: {target.new} is used here already")
    return new


def apply(target: Target) -> list[Path]:
    """Write the new texts, move the module, and return the files that changed."""
    changed = rewrite(target)
    moved = _planned_path(target.path, target.rename) if target.is_module else target.path
    if target.is_module:
        subprocess.run(["git", "-C", str(ROOT), "mv", str(target.path), str(moved)], check=True)
    written = []
    for path, text in changed.items():
        inside = path == target.path or target.path in path.parents
        place = moved / path.relative_to(target.path) if inside and target.is_module else path
        place = moved if path == target.path else place
        place.write_text(text, encoding="utf-8")
        written.append(place)
    return written


def tidy(files: Sequence[Path]) -> None:
    """Sort the imports of changed files and format them, since lengths have changed."""
    sources = [str(path) for path in files if path.suffix in {".py", ".pyi"}]
    ruff = str(ROOT / ".venv" / "bin" / "ruff")
    if sources:
        fix = [ruff, "check", "--quiet", "--select", "I,RUF022", "--fix", *sources]
        subprocess.run(fix, check=False, cwd=ROOT)
        subprocess.run([ruff, "format", "--quiet", *sources], check=True, cwd=ROOT)
        subprocess.run([ruff, "check", "--quiet", *sources], check=False, cwd=ROOT)


def show_leftovers(target: Target) -> None:
    """Print quoted mentions of the old name, which only a reader can judge."""
    quoted = rf"[\"'`]([a-z_]*[./])?{target.old}[\"'`]"
    kept = [f":!{one.rstrip('/')}" for one in _KEPT]
    subprocess.run(["git", "-C", str(ROOT), "grep", "-nE", quoted, "--", ".", *kept], check=False)


def main() -> int:
    """Apply the renames of the command line in their order; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="OLD NEW", help="dotted names, in pairs")
    parser.add_argument("--csv", type=Path, help="a file of rows: old,new")
    parser.add_argument("--record-only", action="store_true", help="only append to renames.csv")
    arguments = parser.parse_args()
    if len(arguments.names) % 2:
        parser.error("names come in pairs: OLD NEW")
    renames = list(map(Rename, arguments.names[::2], arguments.names[1::2]))
    if arguments.csv:
        with arguments.csv.open(encoding="utf-8", newline="") as file:
            renames += [Rename(*row) for row in csv.reader(file) if row[:1] != ["old"]]
    try:
        for rename in renames:
            rows = [rename]
            if not arguments.record_only:
                target = find_target(rename)
                tidy(apply(target))
                exported = sorted(filter(_is_public, target.names - {rename.old}))
                rows += [Rename(name, target.renamed(name)) for name in exported]
                print(f"{rename.old} is now {rename.new}; mentions to read:", flush=True)
                show_leftovers(target)
            append(rows)
    except (RenameError, cst.ParserSyntaxError) as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
