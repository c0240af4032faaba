"""Every strategy has its page: pictures that are its plans, all sections, and all of its settings."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from partage.groups import registry

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SECTIONS = [
    "What it does", "Guarantees", "Cost", "Where it is not optimal", "A worked example", "Settings",
]  # fmt: skip


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("drawn", ROOT / "tools" / "strategy_pictures.py")
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # dataclasses look their module up
    spec.loader.exec_module(made)
    return made


def test_pictures_are_what_the_strategies_do() -> None:
    """Drawn anew from the plans of today, each picture is the committed one, and none is left over."""
    drawn = [sys.executable, str(ROOT / "tools" / "strategy_pictures.py"), "--check"]
    done = subprocess.run(drawn, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", [n for n in registry.strategies_to_compare() if n in registry._BUILT_IN]
)
def test_a_page_says_all(name, tool) -> None:
    """Sections in order, pictures with their plan in words, examples that run, every setting."""
    file = tool.file_of(name)
    text = (DOCS / "strategies" / f"{file}.md").read_text("utf-8")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == SECTIONS
    assert tool.lines(name) in text
    assert text.count("```python") >= 2
    for one in registry.settings_of(registry.find(name)):
        assert f"| `{one.key}` | {one.default} | {one.meaning} |" in text
    assert f"{{doc}}`strategies/{file}`" in (DOCS / "strategies.md").read_text("utf-8")


def test_dialects_share_a_page() -> None:
    """Each strategy of another client is named on the page of dialects."""
    text = (DOCS / "dialects.md").read_text("utf-8")
    assert [n for n in registry.strategies() if registry.is_dialect(n) and n not in text] == []
