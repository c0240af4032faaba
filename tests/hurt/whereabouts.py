"""Where a record is that a Faust app has not counted: by the broker, not by the workers' words."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from kafka import KafkaConsumer, TopicPartition


@dataclass
class Whereabouts:
    """What the broker has of an app's words and its table.

    Attributes:
        missing: partition and offset of acknowledged records that no worker has told of.
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

    def wrong(self, times: int) -> list[str]:
        """Sentences on what is lost: records that were passed over, counts that fell behind.

        ``times`` is how often each word was acknowledged; where a record still waits, its word may
        be one behind.
        """
        said = [
            f"record {p}@{at} was passed over (committed {self.committed[p]})"
            for p, at in sorted(self.missing) if self.committed.get(p, 0) > at
        ]  # fmt: skip
        waits = {p: sum(one == p for one, _ in self.missing) for p in self.waiting}
        for word, count in sorted(self.table.items()):
            if count < times - waits.get(int(word[1:]), 0):
                said.append(f"the table's changelog has {word} {count} times, not {times}")
        if not (said or self.missing):
            said.append(f"all was read, the changelog has {self.table}, and the workers count less")
        return said

    def told(self) -> str:
        """All of it in a line."""
        return f"missing {sorted(self.missing)}, committed {self.committed}, table {self.table}"


def look(
    bootstrap: str, app: str, records: set[tuple[int, int]], read: set[tuple[int, int]]
) -> Whereabouts:
    """Ask the broker: what the app's group has committed, and its table's changelog to the end."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), group_id=app, enable_auto_commit=False
    )
    try:
        numbers = {p for p, _ in records}
        asked = {p: consumer.committed(TopicPartition(f"{app}-words", p)) for p in numbers}
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
    return Whereabouts(records - read, committed, table)
