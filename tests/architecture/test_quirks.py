"""The numbered behaviours of Kafka that the source code refers to."""

from __future__ import annotations

import re

from architecture.source_tree import ROOT, sources


def test_each_number_in_the_source_has_a_row_in_the_docs() -> None:
    """A reader who meets (Q26) in a comment finds it in docs/quirks.md, which lists nothing else."""
    used = {
        number
        for file in sources()
        for number in re.findall(r"\bQ\d+\b", file.read_text(encoding="utf-8"))
    }
    page = (ROOT / "docs" / "quirks.md").read_text(encoding="utf-8")
    assert used == set(re.findall(r"^\| (Q\d+) ", page, re.MULTILINE))
