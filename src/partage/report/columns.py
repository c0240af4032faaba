"""The columns that the report reads, with their types: what a run does not have is null.

Runs of older versions lack columns; the report then says that it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidCaptureError

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.runs.published_run import PublishedRun

__all__ = ["WANTED", "flag", "loaded"]

WANTED: dict[str, dict[str, str]] = {
    "groups": {
        "group": "string", "kind": "string", "status": "string", "why": "string",
        "records": "int64", "commits": "int64", "rebalances": "int64", "incarnations": "int64",
        "missing_generations": "int64", "coverage": "double", "members_max": "int64",
        "partitions_max": "int64",
    },
    "rebalances": {
        "group": "string", "incarnation": "int64", "generation": "int64",
        "log_partition": "int64", "log_offset": "int64", "time_ms": "int64", "cause": "string",
        "cause_kind": "string", "cause_source": "string", "follow_up": "bool",
        "strategy": "string", "protocol": "string", "members": "int64", "partitions": "int64",
        "gap_before": "int64", "why_not": "string", "storm": "int64",
        "agrees": "bool", "disagreement": "string",
    },
    "replays": {
        "group": "string", "incarnation": "int64", "generation": "int64", "policy": "string",
        "strategy": "string", "reading": "string", "step": "int64", "caused": "bool",
        "status": "string", "claimed": "bool", "agrees": "bool", "counts": "bool",
        "moved": "int64", "avoidable": "int64", "spread": "int64", "best_spread": "int64",
        "idle": "int64", "rack_mismatches": "int64", "breaches": "int64",
        "stopped_low_ps": "double", "stopped_high_ps": "double", "reread_low": "int64",
        "reread_high": "int64", "load_spread": "double", "colocation": "double",
    },
    "members": {
        "group": "string", "incarnation": "int64", "generation": "int64", "instance": "string",
        "client_id": "string", "client_host": "string", "session_timeout_ms": "int64",
    },
    "ownership": {
        "group": "string", "topic": "string", "partition": "int64", "member": "string",
        "instance": "string", "role": "string", "from_ms": "int64", "to_ms": "int64",
    },
    "bad_records": {
        "partition": "int64", "offset": "int64", "part": "string", "why": "string",
        "group": "string",
    },
}  # fmt: skip
"""Table -> column -> type of pyarrow."""


def loaded(run: PublishedRun, name: str, only: Sequence[str] | None = None) -> pa.Table:
    """A table with all the columns of `WANTED`, or some of them; those it lacks are null.

    Raises:
        InvalidCaptureError: a file cannot be read, or a column is of no such type.
    """
    import pyarrow as pa

    wanted = {c: t for c, t in WANTED[name].items() if only is None or c in only}
    if name not in run.tables:  # an older run
        return pa.schema(list(wanted.items())).empty_table()
    found = run.table(name, list(wanted))
    columns: dict[str, Any] = {}
    for column, kind in wanted.items():
        if column not in found.column_names:
            columns[column] = pa.nulls(found.num_rows, kind)
            continue
        try:
            columns[column] = found[column].cast(kind)
        except pa.ArrowException as e:
            what = f"table {name} has no readable column {column} ({e}); run partage replay again"
            raise InvalidCaptureError(f"{run.out}: {what}") from None
    return pa.table(columns)


def flag(mask: Any) -> Any:
    """Booleans as numbers to add up; null counts as no."""
    from pyarrow import compute as pc

    return pc.cast(pc.fill_null(mask, False), "int64")
