"""All tables of a replay of the recorded capture, sorted, as text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from same.plain import plain

__all__ = ["COMMAND", "tables"]

COMMAND = ("--commits", "--quiet", "--no-report")

# Columns that name the run or the time at which it ran.
_VOLATILE = re.compile(r"^(run_id|started_ms|ended_ms)$")


def tables(run: Path) -> dict[str, str]:
    """Return the rows of each table of a published run, sorted, below its schema."""
    import pyarrow.parquet as pq

    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    texts = {}
    for name, files in manifest["tables"].items():
        rows: list[str] = []
        schema: list[str] = []
        for file in files:
            table = pq.ParquetFile(run / file["path"]).read()
            names = [column for column in table.column_names if not _VOLATILE.match(column)]
            schema = [f"{column}: {table.schema.field(column).type}" for column in names]
            rows += [_row(one, names) for one in table.select(names).to_pylist()]
        texts[name] = "\n".join([f"columns {', '.join(schema)}", *sorted(rows)]) + "\n"
    return texts


def _row(row: dict[str, Any], names: list[str]) -> str:
    values = {name: plain(row[name]) for name in names}
    return json.dumps(values, ensure_ascii=False)
