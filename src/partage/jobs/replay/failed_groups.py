"""Groups whose replay failed: an unexpected exception in one group does not end the run.

Table ``groups`` marks the group as `failed`, with the reason and the traceback. Other tables have
the rows of the group that were written before the exception. All other groups are published.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidCaptureError, InvalidConfigError, MissingExtraError
from partage.tables.statuses import FAILED

if TYPE_CHECKING:
    from partage.jobs.replay.replay import JobResults

__all__ = ["WHOLE_RUN", "GroupFailure", "mark_failed"]

#: Errors that concern the machine or the input as a whole: they end the run.
WHOLE_RUN = (OSError, MemoryError, InvalidCaptureError, InvalidConfigError, MissingExtraError)
#: Characters of a reason and of a traceback that are kept; the end of a traceback tells most.
_LONGEST_WHY = 400
_LONGEST_TRACEBACK = 8_000


@dataclass(frozen=True, slots=True)
class GroupFailure:
    """The unexpected exception that ended the replay of one group, as text."""

    group: str
    why: str
    traceback: str

    @classmethod
    def of(cls, group: str, error: Exception) -> GroupFailure:
        """Describe the exception that ended a group's replay; call it in the ``except`` block."""
        lines = "".join(traceback.format_exception(error))
        why = f"{type(error).__name__}: {error}"
        return cls(group, why[:_LONGEST_WHY], lines[-_LONGEST_TRACEBACK:])

    def cells(self) -> dict[str, str]:
        """Return the group's failure as values of columns in table ``groups``."""
        return {"status": FAILED, "why": self.why, "traceback": self.traceback}


def mark_failed(out: Path, done: JobResults) -> None:
    """Mark groups whose simulation failed, in the written table ``groups`` and in the run's totals.

    The histories job wrote those rows before the replay began.

    Args:
        out: the output folder.
        done: results of the run's jobs; its receipts, groups and simulation totals are updated.
    """
    failed = done.failed
    if not failed:
        return
    for name in failed:
        done.simulated.groups.pop(name, None)
        done.simulated.disagreements.pop(name, None)
    done.groups[:] = [_mark_totals(text, failed) for text in done.groups]
    receipts = enumerate(done.receipts)
    for i in [i for i, one in receipts if one.table == "groups"]:
        one = done.receipts[i]
        done.receipts[i] = replace(one, bytes=_rewrite(out / one.path, failed))


def _mark_totals(text: str, failed: Mapping[str, GroupFailure]) -> str:
    totals: dict[str, Any] = json.loads(text)
    failure = failed.get(totals["group"])
    return text if failure is None else json.dumps(totals | failure.cells())


def _rewrite(path: Path, failed: Mapping[str, GroupFailure]) -> int:
    """Rewrite a Parquet file of table ``groups`` with failed groups marked;
    return its size in bytes.
    """
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.ParquetFile(path).read()
    rows = [
        row | failed[row["group"]].cells() if row["group"] in failed else row
        for row in table.to_pylist()
    ]
    parquet.write_table(pa.Table.from_pylist(rows, schema=table.schema), path, compression="zstd")
    return path.stat().st_size
