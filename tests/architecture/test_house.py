"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile

import pytest

from architecture.source_tree import ROOT, sources, tree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LONGEST_FILE = 700
LONGEST_FUNCTION = 60


def _test_functions() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return [
        (f"{file.relative_to(ROOT)}:{node.lineno} {node.name}", node)
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]


def test_every_test_says_in_a_sentence_what_it_shows() -> None:
    """Each test function has a docstring."""
    found = _test_functions()
    assert found
    silent = [where for where, node in found if not ast.get_docstring(node)]
    assert not silent, "\n".join(silent)


def test_files_and_functions_keep_their_budgets() -> None:
    """A file has at most 700 lines, a function's body at most 60 (its docstring aside)."""
    long = []
    for file in sources():
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines > LONGEST_FILE:
            long.append(f"{file.relative_to(ROOT)}: {lines} lines")
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                if body and (body[-1].end_lineno or 0) - body[0].lineno >= LONGEST_FUNCTION:
                    long.append(f"{file.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert not long, "\n".join(long)


#: Public class names that two modules define: two libraries' parts of one shape.
_SHARED_CLASS_NAMES = {"Assignor", "AssignorError"}
#: How many class names may be used twice in all.
_MOST_SHARED_CLASS_NAMES = 5


def test_a_class_name_means_one_class() -> None:
    """At most five public class names are used twice, those of the clients' modules included."""
    where: dict[str, list[str]] = {}
    for file in sources():
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(f"{file.relative_to(ROOT)}:{node.lineno}")
    twice = {name: places for name, places in where.items() if len(places) > 1}
    assert twice.keys() >= _SHARED_CLASS_NAMES
    assert len(twice) <= _MOST_SHARED_CLASS_NAMES, twice


def test_each_suppression_has_a_reason() -> None:
    """Behind each ``type: ignore`` and ``noqa`` of the library stands why."""
    bare = re.compile(r"# (type: ignore(\[[^]]*\])?|noqa(: [A-Z0-9, ]+)?)\s*$")
    found = [
        f"{file.relative_to(ROOT)}:{number} {line.strip()}"
        for file in sources()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if bare.search(line)
    ]
    assert not found, "\n".join(found)


def test_every_module_and_public_name_is_documented() -> None:
    """Modules, public classes and public functions have a docstring: the API reference is made of them."""
    bare = [str(file.relative_to(ROOT)) for file in sources() if not ast.get_docstring(tree(file))]
    bare += [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"
        for file in sources()
        for node in tree(file).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        # The text of an overloaded function is with its last definition.
        and not any(ast.unparse(one) == "overload" for one in node.decorator_list)
    ]
    assert not bare, "\n".join(bare)


def test_every_module_postpones_annotations() -> None:
    """`from __future__ import annotations` stands in every module that has code."""
    missing = [
        str(file.relative_to(ROOT))
        for file in sources()
        if len(tree(file).body) > 1
        and not any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__"
            for node in tree(file).body
        )
    ]
    assert not missing


def _requirements(pyproject: dict) -> set[str]:
    project = pyproject["project"]
    listed = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        listed += extra
    return {_name(one) for one in listed} - {"partage"}


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def test_the_lock_file_is_of_this_pyproject() -> None:
    """uv.lock knows the same requirements, extras and groups as pyproject.toml: else `make lock`."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    (ours,) = [one for one in lock["package"] if one["name"] == "partage"]
    assert {one["name"] for one in ours["metadata"]["requires-dist"]} - {
        "partage"
    } == _requirements(pyproject)
    assert set(ours["optional-dependencies"]) == set(pyproject["project"]["optional-dependencies"])
    for group, listed in pyproject["dependency-groups"].items():
        locked = {one["name"] for one in ours["metadata"]["requires-dev"][group]}
        assert locked == {_name(one) for one in listed}
    assert lock["requires-python"] == pyproject["project"]["requires-python"]


def test_the_lock_file_names_no_host_and_every_hash() -> None:
    """Where files come from is the person's own setting; what they are is locked by hash."""
    text = (ROOT / "uv.lock").read_text()
    assert "://" not in text
    for package in tomllib.loads(text)["package"]:
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert all(one["hash"].startswith("sha256:") for one in files)


@pytest.mark.slow
def test_the_wheel_carries_types_and_sample(tmp_path) -> None:
    """The built wheel has py.typed, the recorded sample, the licence, and none of the tests."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "partage/py.typed" in names
    assert "partage/sample/consumer_offsets.parquet" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"partage"}


def test_the_extra_all_has_every_extra() -> None:
    """`pip install 'partage[all]'` installs everything that is optional."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    (every,) = extras["all"]
    listed = every.removeprefix("partage[").removesuffix("]").split(",")
    assert sorted(listed) == sorted(extras.keys() - {"all"})


def test_ci_builds_the_docs_in_an_environment_of_their_own() -> None:
    """With the tests' packages beside it, Sphinx would not miss a module that is not mocked."""
    ci = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^PARTAGE_VENV=(?!\.venv\b)\S+ make docs\b", ci, re.MULTILINE)
    assert not re.search(r"^make docs\b", ci, re.MULTILINE)


def test_sphinx_mocks_what_the_docs_environment_lacks() -> None:
    """Modules that only extras and tests install are mocked, but for those of `setup.sh docs`."""
    conf = (ROOT / "docs" / "conf.py").read_text()
    mocked = set(re.findall(r'"(\w+)"', "".join(
        line for line in conf.splitlines() if line.startswith("autodoc_mock_imports"))))  # fmt: skip
    installed = {"partage", "numpy", "typer", "rich", "click", "jinja2", "markupsafe",
                 "typing_extensions", *sys.stdlib_module_names}  # fmt: skip
    imported = set()
    for file in sources():
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Import):
                imported |= {one.name.partition(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add((node.module or "").partition(".")[0])
    assert imported - installed - mocked == set()


def test_the_workflow_runs_every_claimed_python_version() -> None:
    """The workflow's unit tier runs on each version of the classifiers, and from the lowest allowed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [re.search(r"Python :: (3\.\d+)$", one) for one in project["classifiers"]]
    claimed = {found[1] for found in named if found}
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    listed = re.search(r"python: \[(.*)\]", workflow)
    assert listed
    versions = re.findall(r'"([\d.]+)"', listed[1])
    assert claimed <= set(versions)
    assert f">={versions[0]}" == project["requires-python"]


def test_the_verbs_of_the_workflow_exist() -> None:
    """Each `make` verb that the workflow runs is in the Makefile."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    verbs = set(re.findall(r"run: make (\S+)", workflow))
    assert {"unit", "wheel", "docs"} <= verbs
    makefile = (ROOT / "Makefile").read_text()
    assert not [one for one in verbs if not re.search(rf"^{one}:", makefile, re.MULTILINE)]
