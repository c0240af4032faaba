"""Who had which partition, from when to when: intervals from recorded assignments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from partage.history.classic import Generation, Life
from partage.history.records import ClassicState, MemberState

__all__ = ["Interval", "Ownership", "assigned_pairs"]


@dataclass(frozen=True, slots=True)
class Interval:
    """One row of table ``ownership``; ``to_ms`` and ``to_generation`` are None while it lasts."""

    incarnation: int
    topic_id: str | None
    topic: str
    partition: int
    member: str
    instance: str | None
    from_ms: int
    from_generation: int
    to_ms: int | None = None
    to_generation: int | None = None


_Key = tuple[str, str | None, int, str]


def assigned_pairs(member: MemberState) -> tuple[tuple[str, int], ...]:
    """A member's (topic, partition) pairs once each, in the order stored.

    librdkafka's cooperative-sticky may list a topic twice in one assignment.
    """
    flat = ((topic, p) for topic, numbers in member.assigned for p in numbers)
    return tuple(dict.fromkeys(flat))


class Ownership:
    """Intervals of one group: feed generations in order; each call yields those that ended.

    Args:
        topic_id: (topic name, time in ms) -> id of the topic of that name then, or None. A
            topic deleted and made anew is another topic: its intervals end with it.
    """

    def __init__(self, topic_id: Callable[[str, int], str | None]) -> None:
        self._topic_id = topic_id
        self._open: dict[_Key, Interval] = {}

    def feed(self, found: Generation | Life) -> Iterator[Interval]:
        """Intervals that end with this generation, or with the group's life."""
        if isinstance(found, Generation):
            yield from self._become(found, found.first)
        elif found.what in ("deleted", "migrated"):
            yield from self._end(list(self._open), found.timestamp_ms, found.generation)

    def finish(self) -> Iterator[Interval]:
        """The intervals that last when the log ends."""
        yield from self._open.values()
        self._open = {}

    def _become(self, found: Generation, state: ClassicState) -> Iterator[Interval]:
        now: dict[_Key, Interval] = {}
        for member in state.members:
            for topic, p in assigned_pairs(member):
                topic_id = self._topic_id(topic, found.timestamp_ms)
                now[topic, topic_id, p, member.owner] = Interval(
                    found.incarnation, topic_id, topic, p, member.id, member.instance,
                    found.timestamp_ms, found.number,
                )  # fmt: skip
        yield from self._end(
            [key for key in self._open if key not in now], found.timestamp_ms, found.number
        )
        for key, interval in now.items():
            self._open.setdefault(key, interval)

    def _end(self, keys: list[_Key], time_ms: int, generation: int) -> Iterator[Interval]:
        for key in keys:
            i = self._open.pop(key)
            yield Interval(
                i.incarnation, i.topic_id, i.topic, i.partition, i.member, i.instance,
                i.from_ms, i.from_generation, time_ms, generation,
            )  # fmt: skip
