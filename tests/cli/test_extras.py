"""Commands without their optional libraries name the extra that installs them."""

from __future__ import annotations

import importlib.abc
import sys

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")

from tests.support.synthetic_runs import published_run, synthetic
from typer.testing import CliRunner

from partage.cli.app import app
from partage.cli.command_errors import describe_error


class Blocked(importlib.abc.MetaPathFinder):
    """Finds no module of some libraries, as where they are not installed."""

    def __init__(self, *libraries: str):
        self.libraries = libraries

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in self.libraries:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


@pytest.mark.parametrize(
    ("libraries", "extra"), [(("jinja2", "markupsafe"), "report"), (("pyarrow",), "report")]
)
def test_report_without_its_extra_names_it(tmp_path, monkeypatch, libraries, extra) -> None:
    """Neither a traceback nor a request to report a mistake: one line with what to install."""
    out = published_run(tmp_path / "out", synthetic(1))
    from partage.report import html

    html.create_jinja_environment.cache_clear()
    for name in [n for n in sys.modules if n.partition(".")[0] in libraries]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Blocked(*libraries), *sys.meta_path])
    done = CliRunner().invoke(app, ["report", str(out)])
    assert done.exit_code == 1
    assert done.stderr == (
        f"partage: {libraries[0]} is not installed: pip install 'partage[{extra}]'\n"
    )


def test_a_dependency_of_pyspark_is_named_pyspark() -> None:
    """Users know Spark; py4j comes with it."""
    error = ModuleNotFoundError("No module named 'py4j'", name="py4j.protocol")
    assert describe_error(error) == "pyspark is not installed: pip install 'partage[spark]'"
