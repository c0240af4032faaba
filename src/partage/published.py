"""The published run of an output folder: what its writer leaves, and how readers find it.

```
OUT/manifest.json         format, run id, summary, the files of each table
OUT/summary.json          the same run's summary
OUT/tables/...            Parquet files; only those that the manifest names count
```
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidCaptureError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMAT", "MANIFEST", "SUMMARY", "Published", "read_summary", "read_table"]

FORMAT = 1
"""Of the manifest, and of the tables that it names; a reader takes no other."""
MANIFEST = "manifest.json"
SUMMARY = "summary.json"


class Published:
    """The newest published run of a folder; what is read belongs to one run.

    Args:
        out: the output folder.

    Attributes:
        summary: the content of ``summary.json``.

    Raises:
        InvalidCaptureError: there is no published run, or not one of this format.

    >>> Published("no-such-folder")
    Traceback (most recent call last):
    partage.errors.InvalidCaptureError: ...no published run...
    """

    def __init__(self, out: str | Path) -> None:
        self.out = Path(out)
        path = self.out / MANIFEST
        self._manifest = _object(path)
        if self._manifest.get("format") != FORMAT:
            what = "written by another version of Partage; run partage replay again"
            raise InvalidCaptureError(f"{path}: {what}")
        self.summary = _object(self.out / str(self._manifest.get("summary", SUMMARY)))

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A table, or some of its columns.

        Raises:
            InvalidCaptureError: a file of it cannot be read.
            MissingExtraError: pyarrow is not installed.
        """
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError:
            raise MissingExtraError("pyarrow", extra="spark") from None
        wanted = None if columns is None else list(columns)
        try:
            paths = [self.out / f["path"] for f in self._manifest["tables"][name]]
            return pa.concat_tables(parquet.ParquetFile(p).read(wanted) for p in paths)
        except (pa.ArrowException, OSError, KeyError, TypeError) as e:
            what = f"table {name} cannot be read ({e}); run partage replay again"
            raise InvalidCaptureError(f"{self.out}: {what}") from None


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as e:
        what = f"no published run ({e}); run partage replay first"
        raise InvalidCaptureError(f"{path}: {what}") from None
    if not isinstance(found, dict):
        raise InvalidCaptureError(f"{path}: must be a JSON object; run partage replay again")
    return found


def read_table(out: str | Path, table: str) -> pa.Table:
    """A table of the newest published run, as its manifest lists it.

    Raises:
        InvalidCaptureError: there is no published run in the folder, or it cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    return Published(out).table(table)


def read_summary(out: str | Path) -> dict[str, Any]:
    """The summary of the newest published run.

    Raises:
        InvalidCaptureError: there is no published run in the folder.
    """
    return Published(out).summary
