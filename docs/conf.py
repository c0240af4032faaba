"""Sphinx: pages in Markdown, the API reference from docstrings."""

from __future__ import annotations

from pathlib import Path

import partage

project = "Partage"
author = "the authors of Partage"
copyright = author
version = release = partage.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
html_theme = "furo"
html_title = f"Partage {release}"
# Pages are read where the network is not: nothing is fetched.
html_theme_options = {"navigation_with_keys": True}
exclude_patterns = ["_build"]
myst_heading_anchors = 3
# Docstrings write `name` for code, as Markdown does.
default_role = "code"

# Two rooms may have a Tally each; an annotation's link then goes to one of them.
# Console blocks may have quotes in their output that the shell lexer cannot pair.
suppress_warnings = ["ref.python", "misc.highlighting_failure"]

# Thousands of functions in the table of contents of every page would take most of the build's time.
toc_object_entries = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
# `tools/setup.sh docs` installs Sphinx and the extra report; half a gigabyte of Spark and the
# clients are mocked, since the text of a docstring does not need them.
autodoc_mock_imports = ["hypothesis", "numba", "pandas", "pyarrow", "pyspark", "py4j", "highspy"]
autodoc_mock_imports += ["llvmlite", "kafka", "google_crc32c", "aiokafka", "faust", "mode"]
autodoc_mock_imports += ["prometheus_client", "loky", "aws_msk_iam_sasl_signer", "deltalake"]
autodoc_mock_imports += ["pyiceberg"]
napoleon_google_docstring = True
napoleon_numpy_docstring = False
# As entries of the class: an attribute may have a line of its own beside its annotation.
napoleon_use_ivar = True

_HERE = Path(__file__).parent
_PACKAGE = Path(partage.__file__).parent
_API = _HERE / "api"


def _modules(room: Path) -> list[str]:
    files = [room] if room.is_file() else sorted(room.rglob("*.py"))
    names = [".".join(file.relative_to(_PACKAGE.parent).with_suffix("").parts) for file in files]
    return sorted(name.removesuffix(".__init__") for name in names)


def _packages() -> set[str]:
    folders = (file.parent for file in _PACKAGE.rglob("__init__.py"))
    return {".".join(folder.relative_to(_PACKAGE.parent).parts) for folder in folders}


def _write(path: Path, text: str) -> None:
    # Unchanged pages keep their time, so that a second build is quick.
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _pages_of_rooms(_app: object) -> None:
    """One page a room, one section a module, from what is there."""
    _API.mkdir(exist_ok=True)
    packages = _packages()
    rooms = {
        entry.stem: _modules(entry)
        for entry in sorted(_PACKAGE.iterdir())
        if (entry.suffix == ".py" or (entry / "__init__.py").exists())
        and entry.stem not in {"__init__", "__main__"}
    }
    for old in _API.glob("*.rst"):
        if old.stem not in {*rooms, "index"}:
            old.unlink()
    for room, modules in rooms.items():
        title = f"partage.{room}"
        parts = [f"{title}\n{'=' * len(title)}\n"]
        for module in modules:
            if module != title:
                parts.append(f"{module}\n{'-' * len(module)}\n")
            # A package's re-exports are documented where they live.
            own = "   :ignore-module-all:\n" if module in packages else ""
            parts.append(f".. automodule:: {module}\n{own}")
        _write(_API / f"{room}.rst", "\n".join(parts))
    listed = "\n".join(f"   {room}" for room in rooms)
    _write(
        _API / "index.rst",
        f"API reference\n=============\n\n.. automodule:: partage\n   :no-members:\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{listed}\n",
    )


def _page_of_tables(_app: object) -> None:
    """Write the reference of tables. It is in the repository, and a test compares it."""
    from partage.tables.schemas import describe_tables

    _write(_HERE / "tables.md", describe_tables())


def _page_of_metrics(_app: object) -> None:
    """Write the reference of metrics from the metrics table."""
    from partage.tables.metrics import METRICS

    rows = [
        f"| `{m.json_key}` | {m.aggregation.value} "
        f"| {', '.join(f'`{c}`' for c in m.input_columns)} | {m.unit} | {m.better} | {m.help} |"
        for m in METRICS
    ]
    text = """# Metrics of policies

Each figure that the report shows for a policy, by its field in JSON. This page and the columns of
table `replays`, their sums, `summary.json`, the report and its glossary are made from
`partage.tables.metrics`. A new figure is one row of that table and one function that computes its
column. Fields of ranges have a lower and an upper bound.

| field | aggregation | made of | unit | better | definition |
|---|---|---|---|---|---|
"""
    _write(_HERE / "metrics.md", text + "\n".join(rows) + "\n")


def _drawings_as_they_stand(_app, _what, _name, _object, _options, lines):
    """Drawings and tables in docstrings are made of characters: keep each where it is."""
    kept: list[str] = []
    inside = False
    for line in lines:
        drawn = line.startswith(("    ", "|"))
        # Google's sections (Args:, Raises:) follow their heading at once, drawings a blank line.
        if drawn and not inside and (not kept or not kept[-1].strip()):
            inside = True
            text = next((one for one in reversed(kept) if one.strip()), "")
            kept += [] if text.endswith("::") else ["::", ""]
        elif inside and line.strip() and not drawn:
            inside = False
            kept += [] if not kept[-1].strip() else [""]
        kept.append(f"    {line}" if inside else line)
    lines[:] = kept


def setup(app):
    app.connect("builder-inited", _pages_of_rooms)
    app.connect("builder-inited", _page_of_tables)
    app.connect("builder-inited", _page_of_metrics)
    # Before napoleon (500), which reads Google's sections.
    app.connect("autodoc-process-docstring", _drawings_as_they_stand, priority=400)
