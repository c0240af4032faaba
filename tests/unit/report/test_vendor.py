"""The library that the page carries is the one that its note names."""

from __future__ import annotations

import hashlib
import re
from importlib import resources

VENDOR = resources.files("partage.report") / "vendor"


def test_the_library_is_the_one_that_is_named() -> None:
    """Version and sha256 in the note are those of the file, and the page names the version."""
    note = (VENDOR / "README.md").read_text(encoding="utf-8")
    found = (VENDOR / "echarts.min.js").read_bytes()
    assert hashlib.sha256(found).hexdigest() in note
    (version,) = re.findall(r"\| (\d+\.\d+\.\d+) \|", note)
    assert f'version="{version}"'.encode() in found or f'"{version}"'.encode() in found
    page = resources.files("partage.report") / "templates" / "page.html.j2"
    assert f"Apache ECharts {version}" in page.read_text(encoding="utf-8")


def test_its_licence_is_shipped_with_it() -> None:
    """The vendor folder has the licence and the notice that Apache-2.0 requires."""
    licence = (VENDOR / "echarts.LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "d3" in licence
    assert "Apache ECharts" in (VENDOR / "echarts.NOTICE").read_text(encoding="utf-8")
