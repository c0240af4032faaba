"""Public names without a user: nothing in `src`, the docs or the examples calls them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from architecture.source_tree import ROOT, sources, tree

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: Names that a library calls, each with its caller.
CALLED_FROM_OUTSIDE = {
    "emit": "logging.Handler",
    "writelines": "writers of a text stream",
    "on_generation_assignment": "kafka-python up to 2.2, for its sticky assignor",
    "do_GET": "http.server, for a request",
    "handle_error": "http.server, for a client that disconnects",
    "log_message": "http.server, for its log",
    "process_request_thread": "http.server, in the thread of a request",
    "list_commands": "typer, for help",
    "collect": "prometheus_client, for a registry",
    "streamReader": "Spark, for a data source",
    "initialOffset": "Spark, for a stream's reader",
    "getDefaultReadLimit": "Spark, for a stream's reader",
    "latestOffset": "Spark, for a stream's reader",
    "prepareForTriggerAvailableNow": "Spark, for a stream's reader",
    "init": "Spark, for a stateful processor",
    "handleInputRows": "Spark, for a stateful processor",
    "handleExpiredTimer": "Spark, for a stateful processor",
    "drift_picture": "tools/drift.py, for its option --picture",
}


def _definitions() -> Iterator[tuple[str, str]]:
    """Return name and place of each public function, class and method."""
    for file in sources():
        # Layouts of drafts: nothing sends them, and legacy keeps them to be read.
        if file.name == "kip441_messages.py" or "testing" in file.parts:
            continue
        for node in tree(file).body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            inner = node.body if isinstance(node, ast.ClassDef) else []
            for one in (node, *inner):
                is_definition = isinstance(
                    one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
                )
                if is_definition and not one.name.startswith("_"):
                    yield one.name, f"{file.relative_to(ROOT)}:{one.lineno} {one.name}"


def _docstrings(module: ast.Module) -> set[int]:
    """Return the ids of the constants that are docstrings, or attributes' descriptions."""
    return {
        id(node.value)
        for node in ast.walk(module)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _used_in(module: ast.Module) -> Iterator[str]:
    """Return the names that a module uses: read, called, or spelled in a string."""
    ignored = _docstrings(module)
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            ignored |= {id(one) for one in ast.walk(node)}
    for node in ast.walk(module):
        if id(node) in ignored:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from WORD.findall(node.value)


def _documented() -> set[str]:
    """Return the words of the docs, the README and the examples."""
    files = [ROOT / "README.md"]
    for folder, suffixes in (("docs", ("md", "rst", "py", "html")), ("examples", ("py", "md"))):
        files += [file for suffix in suffixes for file in (ROOT / folder).rglob(f"*.{suffix}")]
    return {word for file in files for word in WORD.findall(file.read_text(encoding="utf-8"))}


def test_every_public_name_has_a_user() -> None:
    """Functions, classes and methods that only tests use are deleted, or move to `partage.testing`."""
    used = _documented() | CALLED_FROM_OUTSIDE.keys()
    for file in sources():
        used.update(_used_in(tree(file)))
    # Templates call methods of what they show.
    for file in (ROOT / "src").rglob("*.html*"):
        used.update(WORD.findall(file.read_text(encoding="utf-8")))
    unused = [where for name, where in _definitions() if name not in used]
    assert not unused, "\n".join(unused)
