"""Pauses of partitions around rebalances: time without offset commits, and records read twice.

Commits arrive as `partage.history.commits.CommitStretch`es, cut at each group record, so that none
spans a rebalance. Stretches and rebalances are fed in log order. The state is a few numbers a
partition, however long the history is. `stopped_partitions` returns which partitions a rebalance
stopped by the rules of its protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from partage.history.commits import CommitStretch
from partage.history.events import Generation
from partage.history.records import ClassicState, assigned_partitions

__all__ = ["PartitionCommits", "Pause", "PauseTracker", "stopped_partitions"]

#: Rebalances of one partition that may wait for its next commit; older ones stay incomplete.
_MOST_WAITING = 64
#: Largest plausible rewind in records. A committed offset may be any number, and sums over
#: partitions must not overflow int64.
_MOST_REWOUND = 1 << 48


class Pause(NamedTuple):
    """Time around a rebalance in which one partition had no offset commits: a row of table
    ``pauses``.

    Attributes:
        incarnation, generation: identity of the rebalance.
        topic: the partition's topic.
        partition: the partition number.
        last_ms: time of the last commit before the rebalance's record; None if there was none.
        first_ms: time of the first commit after it; None if there was none.
        rewind: lower bound of the number of records that were consumed twice: the first committed
            offset is so far behind the newest one before; None if unknown.
        resolution_ms: the partition's usual commit interval, which limits the precision.
        advance: difference between the first committed offset and the newest one before. If it is
            0, no record was consumed, and the times of the commits prove nothing.

    >>> Pause(0, 4, "orders", 1, 1_000, 4_000, 0, 500).pause_ms
    3000
    """

    incarnation: int
    generation: int
    topic: str
    partition: int
    last_ms: int | None
    first_ms: int | None
    rewind: int | None
    resolution_ms: int | None
    advance: int | None = None

    @property
    def pause_ms(self) -> int | None:
        """Time (ms) between the partition's last commit before the rebalance and its first one
        after it.

        It is None if one of the two commits is missing.
        """
        if self.last_ms is None or self.first_ms is None:
            return None
        return max(0, self.first_ms - self.last_ms)


@dataclass(slots=True)
class PartitionCommits:
    """Offset commit statistics of one partition, and its pauses that have not ended.

    A pause is a time around a rebalance in which the partition has no commits.

    Attributes:
        last_ms, last_offset: time and offset of its newest commit; ``last_offset`` is None after a
            tombstone.
        advanced_ms: time of the newest commit with a higher offset than the commit before it. A
            client that commits in the background repeats its offset while it does not poll.
        waited_ms, waits: sum and number of the intervals between commits without a rebalance in
            between.
        waiting: pauses without a commit after them, oldest first.
        fresh: whether no rebalance has followed the newest commit.
    """

    last_ms: int | None = None
    last_offset: int | None = None
    waited_ms: int = 0
    waits: int = 0
    waiting: list[Pause] = field(default_factory=list)
    fresh: bool = False
    advanced_ms: int | None = None

    @property
    def usual_ms(self) -> int | None:
        """Mean time (ms) between two offset commits of the partition.

        It is None before the second commit.
        """
        return self.waited_ms // self.waits if self.waits else None


class PauseTracker:
    """Tracker of pauses: times around rebalances in which a partition has no offset commits.

    Call `begin_pauses` for each rebalance of a consumer group, and `process_commit_stretch` for the
    commits in between, in log order.

    Attributes:
        partitions: the state of each partition, by topic and number.

    >>> tracker, before = PauseTracker(), CommitStretch("t", 0, 1, 1_000, 1_000, 7, 7)
    >>> tracker.process_commit_stretch(before), tracker.begin_pauses(0, 4, [("t", 0)])
    ([], [])
    >>> later = CommitStretch("t", 0, 1, 4_000, 4_000, 5, 5)
    >>> [(p.pause_ms, p.rewind) for p in tracker.process_commit_stretch(later)]
    [(3000, 2)]
    """

    def __init__(self, partitions: dict[tuple[str, int], PartitionCommits] | None = None) -> None:
        self.partitions = {} if partitions is None else partitions

    def commit_values(self) -> list[list[Any]]:
        """Return the offset commit statistics of all partitions as lists of values for JSON.

        A list has topic, partition, whether a pause waits for the next commit, and the other fields
        of `PartitionCommits` except for the waiting pauses.
        """
        return [
            [*pair, bool(one.waiting), one.last_ms, one.last_offset, one.waited_ms, one.waits,
             one.fresh, one.advanced_ms]
            for pair, one in self.partitions.items()
        ]  # fmt: skip

    def resume_commits(self, values: Iterable[Sequence[Any]]) -> None:
        """Restore partitions' offset commit statistics from the lists that `commit_values`
        returned.

        Pauses that wait for the next commit are not changed.
        """
        for topic, number, _, *cells in values:
            state = self.partitions.setdefault((topic, number), PartitionCommits())
            state.last_ms, state.last_offset, state.waited_ms, state.waits = cells[:4]
            state.fresh, state.advanced_ms = cells[4:]

    def begin_pauses(
        self, incarnation: int, generation: int, partitions: Iterable[tuple[str, int]]
    ) -> list[Pause]:
        """Begin a pause (a time without offset commits) for each partition of a rebalance.

        It ends with the partition's next commit. If too many pauses of a partition wait for it, the
        oldest is dropped; return the dropped pauses.

        Args:
            incarnation: number of earlier deletions of the group.
            generation: number of the rebalance's generation.
            partitions: partitions assigned in this or the previous generation; others do not pause.
        """
        dropped = []
        for topic, number in partitions:
            state = self.partitions.setdefault((topic, number), PartitionCommits())
            pause = Pause(
                incarnation, generation, topic, number, state.last_ms, None, None, state.usual_ms
            )
            if len(state.waiting) == _MOST_WAITING:
                dropped.append(state.waiting.pop(0))
            state.waiting.append(pause)
            state.fresh = False
        return dropped

    def process_commit_stretch(self, commits: CommitStretch) -> list[Pause]:
        """Process a partition's offset commits between two records of its group.

        Return the pauses that end with these commits. A pause is a time around a rebalance in which
        the partition had no commits.
        """
        state = self.partitions.setdefault((commits.topic, commits.partition), PartitionCommits())
        if commits.forgotten or not commits.commits:  # a tombstone: the old offset is void
            state.last_offset = None
        if not commits.commits:
            return []
        ended = [self._end(pause, commits, state) for pause in state.waiting]
        state.waiting = []
        state.waited_ms += commits.waited_ms
        state.waits += commits.waits
        if state.fresh and state.last_ms is not None and commits.first_ms >= state.last_ms:
            state.waited_ms += commits.first_ms - state.last_ms
            state.waits += 1
        if commits.advanced_ms is not None:
            state.advanced_ms = commits.advanced_ms
        elif state.last_offset is None or commits.first_offset > state.last_offset:
            state.advanced_ms = commits.first_ms
        state.last_ms = commits.last_ms
        state.last_offset = None if commits.forgets else commits.last_offset
        state.fresh = True
        return ended

    def _end(self, pause: Pause, stretch: CommitStretch, state: PartitionCommits) -> Pause:
        rewind = advance = None
        if state.last_offset is not None:
            ahead = stretch.first_offset - state.last_offset
            rewind = max(0, -ahead) if ahead >= -_MOST_REWOUND else None
            advance = max(0, ahead) if ahead <= _MOST_REWOUND else None
        return pause._replace(first_ms=stretch.first_ms, rewind=rewind, advance=advance)

    def last_ms(self, topic: str, partition: int) -> int | None:
        """Return the time (ms) of a partition's newest offset commit, or None if it has none.

        Commits of all owners of the partition count.
        """
        state = self.partitions.get((topic, partition))
        return None if state is None else state.last_ms

    def advanced_ms(self, topic: str, partition: int) -> int | None:
        """Return the time (ms) at which a partition's committed offset last increased, or None.

        Later commits may have repeated the same offset.
        """
        state = self.partitions.get((topic, partition))
        return None if state is None else state.advanced_ms

    def usual_ms(self, topic: str, partition: int) -> int | None:
        """Return the usual time (ms) between two offset commits of a partition.

        It is the mean of the intervals without a rebalance in between; None if unknown.
        """
        state = self.partitions.get((topic, partition))
        return None if state is None else state.usual_ms

    def finish_pauses(self) -> Iterator[Pause]:
        """Yield the pauses that have not ended when the log ends.

        A pause is a time around a rebalance without offset commits of a partition. These partitions
        had no commit after the rebalance.
        """
        for state in self.partitions.values():
            yield from state.waiting
            state.waiting = []


def stopped_partitions(generation: Generation) -> frozenset[tuple[str, int]]:
    """Return the (topic, partition) pairs that have no consumer during a rebalance.

    An eager rebalance stops all partitions, a cooperative one only those that change owners.
    ``generation`` is the rebalance.
    """
    # Members of the consumer protocol (KIP-848) are like cooperative ones. Cooperative members send
    # what they own while they rejoin; eager ones have revoked everything.
    before = _owners(generation.previous.last) if generation.previous is not None else {}
    now = _owners(generation.first)
    is_cooperative = any(m.subscription and m.subscription.owned for m in generation.first.members)
    if generation.protocol == "classic" and not is_cooperative:
        return frozenset(before)
    return frozenset(pair for pair, owner in before.items() if now.get(pair) != owner)


def _owners(state: ClassicState) -> dict[tuple[str, int], str]:
    return {pair: m.owner_identity for m in state.members for pair in assigned_partitions(m)}
