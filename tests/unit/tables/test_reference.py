"""The reference of tables in the documents."""

from __future__ import annotations

from tests.support.processes import ROOT

from partage.tables.schemas import describe_tables


def test_the_page_of_tables_is_that_of_the_schemas() -> None:
    """After a change of a column, docs/tables.md is written anew (see `describe_tables`)."""
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    assert page == describe_tables(), "write docs/tables.md anew: see describe_tables"
