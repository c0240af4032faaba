"""What stands beside a capture's records and helps to understand them: all of it optional.

| file                   | what for                                                           |
|------------------------|--------------------------------------------------------------------|
| ``batches.parquet``    | leader epochs: when a group's coordinator moved                    |
| ``cluster-config.json``| the broker's session timeout, for members that send none (KIP-848) |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from partage.errors import InvalidCaptureError
from partage.history.coordinator_moves import CoordinatorMove, find_moves
from partage.jobs.replay.capture import files_of
from partage.jobs.replay.clocks import Clocks

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Surroundings", "surroundings"]

_EPOCHS = ("partition", "base_offset", "leader_epoch", "max_timestamp_ms")
_TIMEOUT = "group.consumer.session.timeout.ms"


@dataclass(frozen=True)
class Surroundings:
    """Small, and sent to every worker.

    Attributes:
        session_timeout_ms: of members that have none of their own; None if it is not known.
        moves: of coordinators, by log partition.
        span: first and last time of the record, see `Tally.span`: times beyond are of a wrong
            clock, and tell no length. None if it is not known.
        clocks: places of the log whose times are not believed.
    """

    session_timeout_ms: int | None = None
    moves: Mapping[int, tuple[CoordinatorMove, ...]] = field(default_factory=dict)
    span: tuple[int, int] | None = None
    clocks: Clocks = field(default_factory=Clocks)


def surroundings(folder: Path | str) -> Surroundings:
    """What is beside the records of a capture.

    Args:
        folder: of the capture, or a file in it; anything else has nothing beside it.

    Raises:
        InvalidCaptureError: a file is there and cannot be read.

    >>> surroundings("no-such-folder").moves
    {}
    """
    at = Path(folder)
    inside = at if at.is_dir() else at.parent
    batches, config = inside / "batches.parquet", inside / "cluster-config.json"
    return Surroundings(
        _session_timeout(config) if config.is_file() else None,
        _moves(batches) if at.exists() and batches.exists() else {},
    )


def _session_timeout(path: Path) -> int | None:
    try:
        told = json.loads(path.read_bytes())
        value = told["configs"].get(_TIMEOUT)
        return None if value is None else int(value)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
        what = f"{path}: {_TIMEOUT} cannot be read ({type(e).__name__})"
        raise InvalidCaptureError(f"{what}; record it again, or remove the file") from None


def _moves(path: Path) -> dict[int, tuple[CoordinatorMove, ...]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        files = files_of(path)
        if any(name not in parquet.read_schema(one).names for one in files for name in _EPOCHS):
            return {}  # a recorder that does not know them
        tables = [parquet.read_table(one, columns=list(_EPOCHS)) for one in files]
        if not tables:
            return {}
        table: pa.Table = pa.concat_tables(tables)
        return find_moves(*(table[name].fill_null(-1).to_numpy() for name in _EPOCHS))
    except (pa.ArrowException, OSError, ValueError) as e:
        what = f"{path}: leader epochs cannot be read ({e})"
        raise InvalidCaptureError(f"{what}; record it again, or remove the file") from None
