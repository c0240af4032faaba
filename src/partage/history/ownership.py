"""Intervals of partition ownership, from recorded assignments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from partage.history.events import OWNER, CurrentAssignment, Generation, LifecycleEvent
from partage.history.records import assigned_partitions

__all__ = ["Interval", "OwnershipIntervals"]


@dataclass(frozen=True, slots=True)
class Interval:
    """Time span in which one member owned one partition: a row of table ``ownership``.

    ``to_ms`` and ``to_generation`` are None while the member owns the partition.
    """

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
    """Builder of the time spans in which each member of a consumer group owned each partition.

    Call `process_item` with the items of the group's history in order. Each call yields the spans
    that are now complete.

    Args:
        topic_id: function of (topic name, time in ms) that returns the topic's id at that time, or
            None. A topic that is deleted and recreated is another topic, and the deletion ends its
            intervals.
        span: first and last time of the recording; times outside come from a wrong clock.
    """

    # Members of a classic group own what their generation assigned. Members of other groups own the
    # assignment that they acknowledged; there a partition has the role "releasing" until its member
    # has revoked it, and Kafka Streams tasks have their own roles.
    def __init__(
        self,
        topic_id: Callable[[str, int], str | None],
        span: tuple[int, int] | None = None,
    ) -> None:
        self._topic_id, self._span = topic_id, span
        self._open: dict[_Key, Interval] = {}
        #: Ended at the newest time: a migration ends all intervals and resumes them at once.
        self._ended: dict[_Key, Interval] = {}
        self._newest: int | None = None
        #: The latest end that was yielded. No later interval may begin before it.
        self._latest_end: int | None = None

    def export_state(self) -> tuple[Any, ...]:
        """Return the ownership spans that have not ended yet as values that can be stored.

        A span says that a member has owned a partition since a time. `restore_state` takes the
        values.
        """
        return self._open, self._ended, self._newest, self._latest_end

    def restore_state(self, state: tuple[Any, ...]) -> None:
        """Restore the ownership spans that have not ended yet from the values of `export_state`.

        The builder then continues with the next item of the history.
        """
        self._open, self._ended, self._newest, self._latest_end = state

    def process_item(
        self, history_item: Generation | LifecycleEvent | CurrentAssignment
    ) -> Iterator[Interval]:
        """Process the next item of the group's history; yield the completed ownership spans.

        A span is the time in which one member owned one partition.
        """
        if isinstance(history_item, Generation) and history_item.protocol != "classic":
            return  # a target becomes ownership when members acknowledge it
        time_ms = (
            history_item.time_ms
            if isinstance(history_item, CurrentAssignment)
            else history_item.timestamp_ms
        )
        time_ms = self._correct_time(time_ms)
        yield from self._take_final_intervals(time_ms)
        if isinstance(history_item, CurrentAssignment):
            self._replace_intervals(
                history_item.epoch,
                time_ms,
                self._current(history_item),
                history_item.owner_identity,
            )
        elif isinstance(history_item, LifecycleEvent):
            if history_item.what in ("deleted", "migrated"):
                self._replace_intervals(history_item.generation, time_ms, {}, None)
        else:
            self._replace_intervals(
                history_item.generation_number, time_ms, self._assigned(history_item), None
            )
            yield from self._rename_restarted_members(history_item)

    def _rename_restarted_members(self, generation: Generation) -> Iterator[Interval]:
        """Give the partitions of static members that restarted to their new member ids.

        The restarts are those within one rebalance (``generation``). Yield the ownership spans that
        end with the old ids.
        """
        # A restart needs no rebalance: the coordinator writes the same generation again with the
        # new id. Only the first of many such records are stored, and the last state.
        states = [(time_ms, state) for _, time_ms, state in generation.rewrites]
        if states and states[-1][1] != generation.last:
            states.append((states[-1][0], generation.last))
        for at_ms, state in states:
            time_ms = self._correct_time(at_ms)
            yield from self._take_final_intervals(time_ms)
            ids = {m.owner_identity: m.id for m in state.members if m.instance is not None}
            renamed = {
                key: replace(
                    one,
                    member=ids[key[3]],
                    from_ms=time_ms,
                    from_generation=generation.generation_number,
                )
                for key, one in self._open.items()
                if ids.get(key[3], one.member) != one.member
            }
            self._replace_intervals(
                generation.generation_number, time_ms, self._open | renamed, None
            )

    def _correct_time(self, time_ms: int) -> int:
        """Return the time of a log record (ms), corrected so that times never go back.

        A broker with a wrong clock writes earlier times. Open ownership spans are moved to the
        corrected time.
        """
        # A time outside the recording, from a wrong clock, is replaced by the time of the record
        # before. If a record is older than the one before, the earlier record's time was wrong: the
        # intervals that it began or ended are moved to the new time. No time is before the end of
        # an interval that was already yielded, so that no partition ever has two owners.
        newest = self._newest
        if self._span is not None and not self._span[0] <= time_ms <= self._span[1]:
            time_ms = self._span[0] if newest is None else newest
        if self._latest_end is not None:
            time_ms = max(time_ms, self._latest_end)
        if newest is not None and time_ms < newest:
            for intervals in (self._open, self._ended):
                for key, one in intervals.items():
                    to_ms = None if one.to_ms is None else time_ms
                    intervals[key] = replace(one, from_ms=min(one.from_ms, time_ms), to_ms=to_ms)
        self._newest = time_ms
        return time_ms

    def finish_intervals(self) -> Iterator[Interval]:
        """Yield the ownership spans (member, partition, time) that remain when the log ends.

        The end of a span is None if the member still owns the partition.
        """
        yield from self._ended.values()
        yield from self._open.values()
        self._open, self._ended = {}, {}

    def _take_final_intervals(self, time_ms: int) -> Iterator[Interval]:
        """Remove the ownership spans that ended before ``time_ms``, and yield them as final.

        Later records cannot change them. A span is the time in which a member owned a partition.
        """
        settled = [key for key, interval in self._ended.items() if interval.to_ms != time_ms]
        for key in settled:
            interval = self._ended.pop(key)
            if interval.to_ms is not None:
                latest = self._latest_end
                self._latest_end = interval.to_ms if latest is None else max(latest, interval.to_ms)
            yield interval

    def _assigned(self, generation: Generation) -> dict[_Key, Interval]:
        now: dict[_Key, Interval] = {}
        for member in generation.first.members:
            for topic, p in assigned_partitions(member):
                topic_id = self._topic_id(topic, generation.timestamp_ms)
                now[topic, topic_id, p, member.owner_identity, OWNER] = Interval(
                    generation.incarnation, topic_id, topic, p, member.id, member.instance,
                    generation.timestamp_ms, generation.generation_number,
                )  # fmt: skip
        return now

    def _current(self, assignment: CurrentAssignment) -> dict[_Key, Interval]:
        return {
            (topic, topic_id, p, assignment.owner_identity, role): Interval(
                assignment.incarnation, topic_id, topic, p, assignment.member, assignment.instance,
                assignment.time_ms, assignment.epoch, role=role,
            )
            for role, topic_id, topic, p in assignment.parts
        }  # fmt: skip

    def _replace_intervals(
        self,
        generation_number: int,
        time_ms: int,
        new_intervals: dict[_Key, Interval],
        owner: str | None,
    ) -> None:
        """End the ownership spans of partitions that members lost, and begin those of new ones.

        Args:
            generation_number: generation or epoch of the change.
            time_ms: time of the change.
            new_intervals: the spans that hold after the change.
            owner: the member whose partitions change; None for the whole group.
        """
        # An interval continues if the same member id gets the partition back at the same time.
        lost = [
            k for k, one in self._open.items()
            if owner in (None, k[3])
            and (k not in new_intervals or new_intervals[k].member != one.member)
        ]  # fmt: skip
        for key in lost:
            ended = self._open.pop(key)
            # A second restart within the same millisecond leaves the first interval that ended.
            self._ended.setdefault(
                key, replace(ended, to_ms=time_ms, to_generation=generation_number)
            )
        for key, interval in new_intervals.items():
            if key in self._open:
                continue
            previous = self._ended.get(key)
            if previous is not None and previous.member == interval.member:
                self._open[key] = replace(previous, to_ms=None, to_generation=None)
                del self._ended[key]
            else:
                self._open[key] = replace(interval, from_ms=time_ms)
