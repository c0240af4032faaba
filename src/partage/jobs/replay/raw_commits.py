"""Table ``commits``: each commit that took effect, by option; written where it is decoded.

From columns to columns: names are taken from a dictionary, no commit is an object.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.history.commits import Commits
from partage.jobs.replay.write import TableWriters, task_name
from partage.tables.schemas import schema
from partage.wire.columns.commits import OffsetCommits

__all__ = ["RawCommits", "RawWriter"]


@dataclass(frozen=True)
class RawCommits:
    """Where the table goes."""

    out: str
    run_id: str

    def writer(self) -> RawWriter:
        """The writer of one task."""
        return RawWriter(TableWriters(self.out, self.run_id, task_name()))


class RawWriter:
    """Commits by the batch into the task's file."""

    def __init__(self, writers: TableWriters) -> None:
        self._writers = writers

    def __enter__(self) -> RawWriter:  # noqa: PYI034 - typing.Self is of Python 3.11
        self._writers.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writers.__exit__(kind, value, trace)

    def add(self, found: OffsetCommits, number: NDArray[np.int64], commits: Commits) -> None:
        """Commits that took effect; ``number`` are their numbers in ``found``."""
        import pyarrow as pa

        if not len(number):
            return
        names = [pa.array([pair[i] for pair in found.pairs], pa.string()) for i in (0, 1)]
        pair, gone = pa.array(commits.pair), ~commits.real
        code = found.topic_id[number]
        ids = pa.array(found.topic_ids, pa.string())
        columns = {
            "run_id": pa.repeat(pa.scalar(self._writers.run_id), len(number)),
            "group": names[0].take(pair), "topic": names[1].take(pair),
            "partition": pa.array(commits.partition),
            "log_partition": pa.array(commits.log_partition.astype(np.int32)),
            "log_offset": pa.array(commits.log_offset), "time_ms": pa.array(commits.time_ms),
            "offset": pa.array(commits.offset, mask=gone),
            "leader_epoch": _known(found.leader_epoch[number]),
            "commit_ms": _known(found.commit_timestamp[number]),
            "topic_id": ids.take(pa.array(np.maximum(code, 0), mask=code < 0)),
            "transactional": pa.array(commits.transactional),
        }  # fmt: skip
        wanted = schema("commits")
        table = pa.Table.from_arrays([columns[n] for n in wanted.names], schema=wanted)
        self._writers.add_table("commits", table)

    def receipts(self) -> list[str]:
        """The files that were written, as JSON."""
        return [json.dumps(asdict(r)) for r in self._writers.finish()]


def _known(numbers: NDArray[np.signedinteger[Any]]) -> Any:
    """-1 means that there is none."""
    import pyarrow as pa

    return pa.array(numbers, mask=numbers < 0)
