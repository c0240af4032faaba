"""Synthetic captures of any size, with the statistics of the recorded cluster.

Members join, leave and bounce; at each rebalance the group writes its generation with a plan of
Kafka's range, nobody commits for a moment, some records are read twice, and then every partition
has a commit a second. Seeded: the same arguments give the same capture.

```
python -m partage.testing.histories --records 1000000 --out big
```

Commits are made by the column: a value is a template that the wire's own encoder wrote, with
offset and time put in by NumPy, and keys are taken from a dictionary. Group records are written
by the encoder itself. Whatever the size, one log partition's rounds of some seconds are in memory.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.java.uuids import uuid_text
from partage.wire.consumer_protocol import encode_assignment, encode_subscription
from partage.wire.group_log import encode_record

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Size", "write_capture"]

_BEGAN_MS = 1_795_208_600_000
#: Rows of a row group, about.
_ROWS = 250_000
#: In the recorded cluster a generation was written for every 175 commits.
_COMMITS_A_REBALANCE = 175
_MARK = 0x5A5A5A5A5A5A5A5A


@dataclass(frozen=True)
class Size:
    """How large a history is, and of which shape.

    Attributes:
        records: of all, about.
        groups: how many groups; 0 chooses one for 20,000 records.
        partitions: of each group's topic.
        members: of a group, on average.
        commits_a_rebalance: commits for one generation.
        huge: the first group has half of all rebalances.
        log_partitions: of ``__consumer_offsets``; each has a file.
    """

    records: int
    groups: int = 0
    partitions: int = 12
    members: int = 4
    commits_a_rebalance: int = _COMMITS_A_REBALANCE
    huge: bool = False
    log_partitions: int = 8

    @property
    def many(self) -> int:
        """Groups, at least one for each log partition."""
        return self.groups or min(max(self.records // 20_000, self.log_partitions), 2_000)

    @property
    def rounds(self) -> int:
        """Seconds that the history lasts."""
        return max(2, self.records // (self.many * self.partitions))


class _Group:
    """One group: who is in it, and the generations that it writes."""

    def __init__(self, number: int, size: Size, seed: int) -> None:
        self.rng = Random(f"{seed} {number}")  # noqa: S311 - made-up histories, no secrets
        self.name = f"{self.rng.choice(('orders', 'billing', 'search-index', 'etl'))}-{number}"
        self.topic = f"{self.rng.choice(('events', 'payments.v2', 'clicks'))}-{number}"
        self.topic_id = uuid_text(self.rng.randbytes(16))
        self.size = size
        self.generation = 0
        self.members = [self._member() for _ in range(self.rng.randint(1, 2 * size.members - 1))]
        every = max(2, size.commits_a_rebalance // size.partitions)
        if size.huge:  # the others together have as many as the first one has alone
            others = max(1, size.many - 1)
            every = (
                max(2, 2 * every // size.many) if number == 0 else 2 * every * others // size.many
            )
        self.every, self.phase = every, 0 if number == 0 else self.rng.randrange(every)

    def _member(self) -> str:
        return f"{self.name}-{self.rng.getrandbits(64):016x}"

    def record(self, time_ms: int) -> tuple[bytes, bytes]:
        """Key and value of the next generation, with somebody gone or come."""
        if self.generation:
            self._change()
        self.generation += 1
        members = sorted(self.members)
        value = {
            "protocolType": "consumer", "generation": self.generation, "protocol": "range",
            "leader": members[0], "currentStateTimestamp": time_ms,
            "members": [self._member_value(m, i, len(members)) for i, m in enumerate(members)],
        }  # fmt: skip
        key, made = encode_record(2, {"group": self.name}, version=3, value=value)
        return key, made or b""

    def _change(self) -> None:
        what = self.rng.random()
        if what < 0.3 or len(self.members) < 2:
            self.members.append(self._member())
        elif what < 0.7 or len(self.members) >= 2 * self.size.members:
            self.members.pop(self.rng.randrange(len(self.members)))
        else:  # a bounce: the same process under another member id
            self.members[self.rng.randrange(len(self.members))] = self._member()

    def _member_value(self, member: str, place: int, count: int) -> dict[str, Any]:
        each, more = divmod(self.size.partitions, count)
        first = place * each + min(place, more)
        mine = [(self.topic, p) for p in range(first, first + each + (place < more))]
        return {
            "memberId": member, "groupInstanceId": None, "clientId": "synthetic",
            "clientHost": "/10.0.0.1", "rebalanceTimeout": 300_000, "sessionTimeout": 45_000,
            "subscription": encode_subscription([self.topic], version=1),
            "assignment": encode_assignment(mine, version=1),
        }  # fmt: skip

    def key(self, partition: int) -> bytes:
        """Of a commit."""
        names = {"group": self.name, "topic": self.topic, "partition": partition}
        return encode_record(1, names)[0]

    def value(self) -> bytes:
        """Of a commit, with marks where offset and time go."""
        cells = {
            "offset": _MARK, "leaderEpoch": 0, "metadata": "", "commitTimestamp": _MARK,
            "topicId": self.topic_id,
        }  # fmt: skip
        key = {"group": "", "topic": "", "partition": 0}
        return encode_record(1, key, version=4, value=cells)[1] or b""


def write_capture(size: Size, out: str | Path, *, seed: int = 1) -> int:
    """Write a capture's folder; how many records it has.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_capture(Size(2_000, groups=2, log_partitions=1), folder) > 1_500
    True
    """
    from pyarrow import parquet

    folder = Path(out) / "consumer_offsets.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    groups = [_Group(i, size, seed) for i in range(size.many)]
    (Path(out) / "cluster.jsonl").write_text(json.dumps(_state(groups)) + "\n", encoding="utf-8")
    total = 0
    for p in range(min(size.log_partitions, size.many)):
        writer = None
        for table in _partition(p, groups[p :: size.log_partitions], size):
            file = folder / f"part-{p:05d}.parquet"
            writer = writer or parquet.ParquetWriter(file, table.schema, compression="zstd")
            writer.write_table(table)
            total += table.num_rows
        if writer is not None:
            writer.close()
    return total


def _state(groups: list[_Group]) -> dict[str, Any]:
    """The cluster, as it was all the time."""
    brokers = [{"id": b, "rack": "abc"[b - 1]} for b in (1, 2, 3)]
    topics = {
        g.topic: {
            "id": g.topic_id,
            "partitions": [
                {"p": p, "leader": p % 3 + 1, "replicas": [p % 3 + 1, (p + 1) % 3 + 1]}
                for p in range(g.size.partitions)
            ],
        }
        for g in groups
    }
    return {"ts_ms": _BEGAN_MS - 1, "brokers": brokers, "topics": topics}


def _partition(p: int, groups: list[_Group], size: Size) -> Iterator[pa.Table]:
    """One log partition, some rounds at a time."""
    columns = _Columns(p, groups, size)
    step = max(1, _ROWS // (len(groups) * size.partitions))
    for first in range(0, size.rounds, step):
        yield columns.rounds(first, min(first + step, size.rounds))


class _Columns:
    """The records of one log partition, made by the column."""

    def __init__(self, p: int, groups: list[_Group], size: Size) -> None:
        import pyarrow as pa

        self.p, self.groups, self.size = p, groups, size
        self.next_offset = 0
        self.keys = [g.key(n) for g in groups for n in range(size.partitions)]
        width = len(groups[0].value())
        whole = b"".join(g.value() for g in groups)
        self.values = np.frombuffer(whole, np.uint8).reshape(-1, width)
        mark = groups[0].value().index(_MARK.to_bytes(8, "big"))
        self.offset_at = mark
        self.time_at = groups[0].value().index(_MARK.to_bytes(8, "big"), mark + 8)
        self.schema = pa.schema([
            ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp_ms", pa.int64()),
            ("key", pa.binary()), ("value", pa.binary()),
        ])  # fmt: skip

    def rounds(self, first: int, end: int) -> pa.Table:
        """The records of some rounds in log order."""
        import pyarrow as pa

        count, each = len(self.groups), self.size.partitions
        when = np.repeat(np.arange(first, end), count)
        whose = np.tile(np.arange(count), end - first)
        every = np.array([g.every for g in self.groups])[whose]
        phase = np.array([g.phase for g in self.groups])[whose]
        due = (when == 0) | (when % every == phase)
        rank = when * count + whose
        written = np.flatnonzero(due)
        made = [self.groups[whose[i]].record(self._ms(int(when[i]))) for i in written.tolist()]
        quiet = np.flatnonzero(~due)  # in a round with a rebalance nobody commits
        commit = np.repeat(quiet, each)
        number = np.tile(np.arange(each), len(quiet))
        time_ms = _BEGAN_MS + when[commit] * 1_000 + 37 * number
        values = self._values(whose[commit], when[commit], every[commit], phase[commit], time_ms)
        keys = pa.array([*self.keys, *(k for k, _ in made)], pa.binary())
        code = np.concatenate(
            [whose[commit] * each + number, len(self.keys) + np.arange(len(made))]
        )
        order = np.argsort(np.concatenate([rank[commit], rank[written]]), kind="stable")
        times = np.concatenate([time_ms, _BEGAN_MS + when[written] * 1_000])[order]
        content = pa.concat_arrays([values, pa.array([v for _, v in made], pa.binary())])
        offset = self.next_offset + np.arange(len(order))
        self.next_offset += len(order)
        return pa.Table.from_arrays(
            [
                pa.array(np.full(len(order), self.p, np.int32)), pa.array(offset),
                pa.array(times), keys.take(pa.array(code[order])), content.take(pa.array(order)),
            ],
            schema=self.schema,
        )  # fmt: skip

    def _ms(self, round_: int) -> int:
        return _BEGAN_MS + round_ * 1_000

    def _values(
        self,
        whose: NDArray[np.int64],
        when: NDArray[np.int64],
        every: NDArray[np.int64],
        phase: NDArray[np.int64],
        time_ms: NDArray[np.int64],
    ) -> pa.Array:
        """Values of commits: 100 records a second, and 50 read twice right after a rebalance."""
        import pyarrow as pa

        rows = self.values[whose]
        offset = when * 100 - 150 * ((when - phase) % every == 1)
        for at, cells in ((self.offset_at, np.maximum(offset, 0)), (self.time_at, time_ms)):
            rows[:, at : at + 8] = cells.astype(">i8").view(np.uint8).reshape(-1, 8)
        starts = np.arange(len(rows) + 1, dtype=np.int32) * self.values.shape[1]
        buffers = [None, pa.py_buffer(starts), pa.py_buffer(rows)]
        return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m partage.testing.histories")
    parser.add_argument("--records", type=int, required=True, help="about how many")
    parser.add_argument("--out", type=Path, required=True, help="folder of the capture")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--huge", action="store_true", help="one group has half the rebalances")
    for name in ("groups", "partitions", "members", "commits_a_rebalance", "log_partitions"):
        default = getattr(Size, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    given = vars(parser.parse_args())
    out, seed = given.pop("out"), given.pop("seed")
    count = write_capture(Size(**given), out, seed=seed)
    print(f"{count:,} records in {out}")  # noqa: T201 - a command prints


if __name__ == "__main__":
    main()
