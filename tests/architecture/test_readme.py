"""The README says what is there: its table of strategies is the registry's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_of_strategies_is_the_registry_s():
    """A strategy that was added without its line in the README fails here."""
    tool = [sys.executable, str(ROOT / "tools" / "readme_strategies.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_picture_is_there():
    """The README shows the report; the file is in the repository, and small."""
    picture = ROOT / "docs" / "img" / "report.png"
    assert picture.is_file()
    assert picture.stat().st_size < 400_000
