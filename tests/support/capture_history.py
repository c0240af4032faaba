"""The history of a capture's groups as the pipeline rebuilds it, in this process, without Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.history.pauses import Pause
from partage.history.transactions import Transactions
from partage.jobs.replay.capture import files_of, read_context
from partage.jobs.replay.decode import decode_table
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.group_input import read_group_inputs
from partage.jobs.replay.group_rows import GroupRows

_ORDER = ("group", "log_partition", "log_offset", "kind")


class _NoTables:
    """Writer that drops all rows."""

    def add(self, table: str, row: dict) -> None:
        """Drop a row."""

    def add_columns(self, table: str, columns: dict, count: int) -> None:
        """Drop rows."""


@dataclass
class RebuiltGroup:
    """Rebalances and pauses of one group, in the order in which the history yields them."""

    generations: list[Generation] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)

    def generation(self, found: Generation) -> None:
        self.generations.append(found)

    def pause(self, found: Pause) -> None:
        self.pauses.append(found)


def rebuild_groups(folder: Path) -> dict[str, RebuiltGroup]:
    """Return the rebuilt groups of a capture's folder."""
    files = files_of(folder / "consumer_offsets.parquet")
    table = pa.concat_tables([parquet.read_table(file) for file in files])
    at = table.schema.get_field_index("partition")
    table = table.set_column(at, "partition", table["partition"].cast(pa.int64()))
    batches = folder / "batches.parquet"
    markers = []
    if batches.exists():
        for file in files_of(batches):
            markers += parquet.read_table(file).to_pylist()
    rows = pa.Table.from_batches(decode_table(table, Transactions(markers)))
    rows = rows.filter(pa.array(rows["kind"].to_numpy() <= DecodedKind.COMMIT_RUNS))
    rows = rows.sort_by([(name, "ascending") for name in _ORDER])
    states = (folder / "cluster.jsonl").read_text(encoding="utf-8").splitlines()
    clusters = ClusterHistory([json.loads(state) for state in states])
    context = read_context(folder)
    out: dict[str, RebuiltGroup] = {}
    writers: dict[str, GroupRows] = {}
    for some in read_group_inputs(rows.to_batches(max_chunksize=5_000)):
        if some.group not in writers:
            out[some.group] = RebuiltGroup()
            writers[some.group] = GroupRows(
                some.group, clusters, _NoTables(), context, out[some.group]
            )
        writers[some.group].feed(some)
    for one in writers.values():
        one.finish()
    return out
