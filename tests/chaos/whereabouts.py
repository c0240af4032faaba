"""Where a record is that a Faust app has not counted: by the broker, not by the workers' words."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass
class Whereabouts:
    """What the broker has of an app's words and its table.

    Attributes:
        missing: partition and offset of acknowledged records that no worker has reported.
        committed: the group's offset, by partition of the words; none where nobody committed.
        table: the newest count of each word in the changelog.
    """

    missing: set[tuple[int, int]]
    committed: dict[int, int]
    table: dict[str, int] = field(default_factory=dict)

    @property
    def waiting(self) -> set[int]:
        """Partitions with a record that waits at its place: nobody will pass it over."""
        return {p for p, at in self.missing if self.committed.get(p, 0) <= at}

    def passed(self) -> dict[int, list[int]]:
        """By partition the offsets that nobody read, and that the group has committed beyond."""
        found = {
            p: [one for one in at if one < self.committed.get(p, 0)]
            for p, at in self._by_partition().items()
        }
        return {p: at for p, at in found.items() if at}

    def behind(self, times: Mapping[int, int]) -> dict[int, int]:
        """By partition how much its word's count in the table is too low: it was acknowledged
        ``times`` times, of which those that are missing cannot have been counted.
        """
        missing = Counter(p for p, _ in self.missing)
        too_low = {p: n - missing[p] - self.table.get(f"w{p}", 0) for p, n in times.items()}
        return {p: n for p, n in too_low.items() if n > 0}

    def summary(self) -> str:
        """All of it in a line."""
        first = {p: (min(at), len(at)) for p, at in self._by_partition().items()}
        return (
            f"first of the missing and how many {first}, committed {self.committed}, "
            f"table {self.table}"
        )

    def _by_partition(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for p, at in sorted(self.missing):
            found.setdefault(p, []).append(at)
        return found


def look(
    bootstrap: str,
    app: str,
    records: set[tuple[int, int]],
    read: Callable[[], set[tuple[int, int]]],
) -> Whereabouts:
    """Ask the broker: what the app's group has committed, and its table's changelog to the end. What
    was read is asked between the two: what is committed was read before, and reported.
    """
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), group_id=app, enable_auto_commit=False
    )
    try:
        numbers = {p for p, _ in records}
        asked = {p: consumer.committed(TopicPartition(f"{app}-words", p)) for p in numbers}
        missing = records - read()
        parts = [TopicPartition(f"{app}-counts-changelog", p) for p in numbers]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        ends = consumer.end_offsets(parts)
        table: dict[str, int] = {}
        while any(consumer.position(one) < ends[one] for one in parts):
            for batch in consumer.poll(timeout_ms=500).values():
                table |= {json.loads(r.key): json.loads(r.value) for r in batch if r.value}
    finally:
        consumer.close()
    committed = {p: int(at) for p, at in asked.items() if at is not None}
    return Whereabouts(missing, committed, table)
