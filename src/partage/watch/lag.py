"""Lag of a partition in seconds, and the time until a group has caught up.

End offsets are sampled over time. A committed offset is as old as the moment at which the end of
the partition had that offset, by linear interpolation between two samples. An offset older than
all samples is extrapolated with the mean rate of the samples, or else at least as old as the first
of them. Pure: the caller brings the time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

__all__ = ["EndOffsets", "GroupLag", "drain_seconds", "group_lag"]

_TopicPartition = tuple[str, int]
#: Samples of a partition: when there are more, every second one of the older half is dropped.
_MOST_SAMPLES = 24


@dataclass(slots=True)
class EndOffsets:
    """Samples of partitions' end offsets over time, from which the lag in seconds is estimated.

    If a committed offset was the end offset 5 seconds ago, then the lag is 5 seconds. Between two
    samples, the time is interpolated.

    >>> ends = EndOffsets()
    >>> ends.store_end_offsets(0.0, {("t", 0): 100})
    >>> ends.store_end_offsets(10.0, {("t", 0): 200})
    >>> ends.lag_seconds(("t", 0), 150, 10.0), ends.lag_seconds(("t", 0), 200, 10.0)
    (5.0, 0.0)
    >>> ends.lag_seconds(("t", 0), 50, 10.0)
    15.0
    """

    _samples: dict[_TopicPartition, tuple[list[float], list[int]]] = field(default_factory=dict)

    def store_end_offsets(self, now_s: float, end_offsets: Mapping[_TopicPartition, int]) -> None:
        """Store one sample of the end offsets of all partitions, for later estimates of lag.

        The samples of a partition that is missing in ``end_offsets`` are removed. They are also
        removed if its end offset decreases, because the topic was recreated or truncated.

        Args:
            now_s: time of the sample in seconds.
            end_offsets: dict from (topic, partition) to end offset.
        """
        for gone in self._samples.keys() - end_offsets.keys():
            del self._samples[gone]
        for partition, end in end_offsets.items():
            times, offsets = self._samples.setdefault(partition, ([], []))
            if offsets and end < offsets[-1]:  # the topic was recreated or truncated
                times.clear()
                offsets.clear()
            times.append(now_s)
            offsets.append(end)
            if len(times) > _MOST_SAMPLES:
                half = len(times) // 2
                del times[1:half:2], offsets[1:half:2]

    def newest_end_offset(self, partition: _TopicPartition) -> int | None:
        """Return the newest stored end offset of a partition; None if there is none.

        ``partition`` is a pair (topic, partition number).
        """
        found = self._samples.get(partition)
        return None if found is None else found[1][-1]

    def lag_seconds(self, partition: _TopicPartition, committed: int, now_s: float) -> float | None:
        """Estimate a partition's lag in seconds: the age of its oldest record that is not consumed
        yet.

        Args:
            partition: pair (topic, partition number).
            committed: the group's committed offset.
            now_s: current time in seconds.

        Returns:
            the lag; 0 if all records are consumed, None if no end offset is known.
        """
        times, offsets = self._samples.get(partition, ([], []))
        if not times:
            return None
        if committed >= offsets[-1]:
            return 0.0
        after = bisect_right(offsets, committed)
        if after:
            before = after - 1
            share = (committed - offsets[before]) / (offsets[after] - offsets[before])
            at = times[before] + share * (times[after] - times[before])
            return max(0.0, now_s - at)
        grown, span = offsets[-1] - offsets[0], times[-1] - times[0]
        earlier = (offsets[0] - committed) * span / grown if grown else 0.0
        return max(0.0, now_s - times[0] + earlier)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """Lag of a consumer group, or of some of its partitions, in records and in seconds.

    Attributes:
        records: lag in records, summed over the partitions.
        seconds: lag in seconds of the partition that is furthest behind; None if unknown.
        committed, ends: sums of committed offsets and of end offsets, for rates.
    """

    records: int
    seconds: float | None
    committed: int
    ends: int


def group_lag(
    committed: Mapping[_TopicPartition, int], end_offsets: EndOffsets, now_s: float
) -> GroupLag | None:
    """Compute a consumer group's lag in records and in seconds, over all its partitions.

    The result is None if no end offset of these partitions is known.

    Args:
        committed: dict from (topic, partition) to the group's committed offset.
        end_offsets: the sampled end offsets.
        now_s: current time in seconds.
    """
    known = {
        partition: end
        for partition in committed
        if (end := end_offsets.newest_end_offset(partition)) is not None
    }
    if not known:
        return None
    ages = [end_offsets.lag_seconds(partition, committed[partition], now_s) for partition in known]
    return GroupLag(
        sum(max(0, end - committed[partition]) for partition, end in known.items()),
        max((age for age in ages if age is not None), default=None),
        sum(committed[partition] for partition in known),
        sum(known.values()),
    )


def drain_seconds(lag_before: GroupLag, lag_now: GroupLag, elapsed_s: float) -> float | None:
    """Estimate in how many seconds a consumer group will have consumed its lag.

    The estimate assumes that the lag goes on shrinking as between two measurements. The result is
    infinite if the lag does not shrink, and None if both measurements have the same time.

    Args:
        lag_before: the earlier measurement.
        lag_now: the later measurement.
        elapsed_s: seconds between the measurements.

    >>> before, now = GroupLag(80, 8.0, 20, 100), GroupLag(60, 5.0, 60, 120)
    >>> drain_seconds(before, now, 10.0)
    30.0
    """
    if lag_now.records == 0:
        return 0.0
    if elapsed_s <= 0:
        return None
    gained = (lag_now.committed - lag_before.committed) - (lag_now.ends - lag_before.ends)
    return lag_now.records * elapsed_s / gained if gained > 0 else inf
