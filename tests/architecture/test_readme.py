"""README and documentation show what is there: strategies, and the output of commands."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_table_of_strategies_is_the_registry_s():
    """A strategy that was added without its line in the documentation fails here."""
    tool = [sys.executable, str(ROOT / "tools" / "readme_strategies.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_file_without_its_table_is_found(tmp_path, monkeypatch):
    """The check sees a stale table, a missing one, and a line too many."""
    spec = importlib.util.spec_from_file_location("tool", ROOT / "tools" / "readme_strategies.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    (tmp_path / "docs").mkdir()
    for file in tool.FILES:
        (tmp_path / file).write_text(f"before\n{tool.BEGIN}{tool.END}after\n", "utf-8")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["tool", "--check"])
    assert tool.main() == 1
    monkeypatch.setattr(sys, "argv", ["tool"])
    assert tool.main() == 0
    monkeypatch.setattr(sys, "argv", ["tool", "--check"])
    assert tool.main() == 0
    docs = tmp_path / "docs" / "strategies.md"
    good = docs.read_text("utf-8")
    docs.write_text(good.replace("| `sticky` |", "| `sticki` |"), "utf-8")
    assert tool.main() == 1
    for bad in (good.replace(tool.END, ""), good + tool.BEGIN):
        docs.write_text(bad, "utf-8")
        with pytest.raises(SystemExit, match=r"docs/strategies\.md: needs the lines"):
            tool.main()


def test_the_picture_is_there():
    """The README shows the report; the file is in the repository, and small."""
    picture = ROOT / "docs" / "img" / "report.png"
    assert picture.is_file()
    assert picture.stat().st_size < 400_000


def _blocks():
    spec = importlib.util.spec_from_file_location("blocks", ROOT / "tools" / "console_blocks.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


@pytest.mark.parametrize("page", ["README.md", "docs/guides/hot_consumer.md"])
def test_commands_print_what_the_page_shows(page):
    """The output below each command is what the command prints now (those on a replay aside)."""
    text = (ROOT / page).read_text("utf-8")
    assert text.count("$ partage") >= 3
    assert _blocks().renewed(text, None) == text


def test_every_command_of_a_page_can_be_read():
    """Each console block has commands of partage only, with their output below."""
    tool = _blocks()
    found = {page.name: tool.BLOCK.findall(page.read_text("utf-8")) for page in tool.pages()}
    assert {"README.md", "getting_started.md", "keys.md"} <= found.keys()
    for blocks in found.values():
        for block in blocks:
            assert all(output for _, output in tool.commands(block))


def test_the_readme_is_short():
    """The README fits in 80 lines: what it is, how to install it, what it prints, where to read on."""
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 80
