"""Intervals of partition ownership, from recorded assignments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from partage.history.events import OWNER, CurrentAssignment, Generation, LifecycleEvent
from partage.history.records import assigned_partitions

__all__ = ["Interval", "OwnershipIntervals"]


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
    role: str = OWNER


#: Topic, its id, partition, owner, role.
_Key = tuple[str, str | None, int, str, str]


class OwnershipIntervals:
    """Intervals of one group: feed what its history gives, in order; each call yields those
    that ended.

    A classic group's members own what their generation gave them. Members of other groups own
    what their current assignment says: a partition may be ``releasing`` while its member has
    still to let go of it, and tasks of Kafka Streams have roles of their own.

    Args:
        topic_id: (topic name, time in ms) -> id of the topic of that name then, or None. A
            topic deleted and made anew is another topic: its intervals end with it.
        span: first and last time of the record: others are of a wrong clock.
    """

    def __init__(
        self,
        topic_id: Callable[[str, int], str | None],
        span: tuple[int, int] | None = None,
    ) -> None:
        self._topic_id, self._span = topic_id, span
        self._open: dict[_Key, Interval] = {}
        #: Ended at the newest time: a migration takes everything and gives it again at once.
        self._ended: dict[_Key, Interval] = {}
        self._newest: int | None = None
        #: The latest end that was told: nobody has had anything of it since, whatever clocks say.
        self._told: int | None = None

    def feed(self, found: Generation | LifecycleEvent | CurrentAssignment) -> Iterator[Interval]:
        """Yield the intervals that can no longer change."""
        if isinstance(found, Generation) and found.protocol != "classic":
            return  # a target is nobody's yet: members tell what they have by and by
        time_ms = self._since(
            found.time_ms if isinstance(found, CurrentAssignment) else found.timestamp_ms
        )
        yield from self._settled(time_ms)
        if isinstance(found, CurrentAssignment):
            self._become(found.epoch, time_ms, self._held(found), found.owner)
        elif isinstance(found, LifecycleEvent):
            if found.what in ("deleted", "migrated"):
                self._become(found.generation, time_ms, {}, None)
        else:
            self._become(found.number, time_ms, self._assigned(found), None)
            yield from self._restarts(found)

    def _restarts(self, found: Generation) -> Iterator[Interval]:
        """Pass partitions to the new member id of each static member that restarted.

        The coordinator writes the same generation again under the new id, without a rebalance.
        Of many rewrites only the first ones are kept; the last state stands for the others.
        """
        states = [(time_ms, state) for _, time_ms, state in found.rewrites]
        if states and states[-1][1] != found.last:
            states.append((states[-1][0], found.last))
        for at_ms, state in states:
            time_ms = self._since(at_ms)
            yield from self._settled(time_ms)
            ids = {m.owner: m.id for m in state.members if m.instance is not None}
            renamed = {
                key: replace(one, member=ids[key[3]], from_ms=time_ms, from_generation=found.number)
                for key, one in self._open.items()
                if ids.get(key[3], one.member) != one.member
            }
            self._become(found.number, time_ms, self._open | renamed, None)

    def _since(self, time_ms: int) -> int:
        """Return the time that is believed, and correct intervals of a clock that was ahead.

        The order is that of the log. Where a record is older than the one before it, that one's
        time was wrong: what began then began now, and what ended then did so now. A time beyond
        the record's is taken to be that of the record before, and one before an end that was told
        already to be that end: no partition ever has two owners.
        """
        newest = self._newest
        if self._span is not None and not self._span[0] <= time_ms <= self._span[1]:
            time_ms = self._span[0] if newest is None else newest
        if self._told is not None:
            time_ms = max(time_ms, self._told)
        if newest is not None and time_ms < newest:
            for which in (self._open, self._ended):
                for key, one in which.items():
                    to_ms = None if one.to_ms is None else time_ms
                    which[key] = replace(one, from_ms=min(one.from_ms, time_ms), to_ms=to_ms)
        self._newest = time_ms
        return time_ms

    def finish(self) -> Iterator[Interval]:
        """The intervals that ended at last, and those that last when the log ends."""
        yield from self._ended.values()
        yield from self._open.values()
        self._open, self._ended = {}, {}

    def _settled(self, time_ms: int) -> Iterator[Interval]:
        gone = [key for key, interval in self._ended.items() if interval.to_ms != time_ms]
        for key in gone:
            interval = self._ended.pop(key)
            if interval.to_ms is not None:
                told = self._told
                self._told = interval.to_ms if told is None else max(told, interval.to_ms)
            yield interval

    def _assigned(self, found: Generation) -> dict[_Key, Interval]:
        now: dict[_Key, Interval] = {}
        for member in found.first.members:
            for topic, p in assigned_partitions(member):
                topic_id = self._topic_id(topic, found.timestamp_ms)
                now[topic, topic_id, p, member.owner, OWNER] = Interval(
                    found.incarnation, topic_id, topic, p, member.id, member.instance,
                    found.timestamp_ms, found.number,
                )  # fmt: skip
        return now

    def _held(self, found: CurrentAssignment) -> dict[_Key, Interval]:
        return {
            (topic, topic_id, p, found.owner, role): Interval(
                found.incarnation, topic_id, topic, p, found.member, found.instance,
                found.time_ms, found.epoch, role=role,
            )
            for role, topic_id, topic, p in found.parts
        }  # fmt: skip

    def _become(
        self, number: int, time_ms: int, now: dict[_Key, Interval], owner: str | None
    ) -> None:
        """Replace what ``owner`` has by ``now``; None replaces what the whole group has.

        An interval goes on if the same member id has the partition again at the same time.
        """
        lost = [
            k for k, one in self._open.items()
            if owner in (None, k[3]) and (k not in now or now[k].member != one.member)
        ]  # fmt: skip
        for key in lost:
            gone = self._open.pop(key)
            # A second restart within the same millisecond leaves the first interval that ended.
            self._ended.setdefault(key, replace(gone, to_ms=time_ms, to_generation=number))
        for key, interval in now.items():
            if key in self._open:
                continue
            back = self._ended.get(key)
            if back is not None and back.member == interval.member:
                self._open[key] = replace(back, to_ms=None, to_generation=None)
                del self._ended[key]
            else:
                self._open[key] = replace(interval, from_ms=time_ms)
