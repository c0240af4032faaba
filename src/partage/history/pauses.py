"""How long a partition was without commits around a rebalance, and what was read twice.

Commits come reduced to runs (`partage.history.commits`), cut at each group record, so that no
run stands on both sides of a rebalance. Runs and rebalances are fed in log order; what is kept
is one small state a partition, however long the history is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from partage.history.commits import CommitRun, Stretch
from partage.history.events import Generation
from partage.history.records import ClassicState, assigned_partitions

__all__ = ["PartitionCommits", "Pause", "PauseTracker", "stopped_partitions"]

#: Rebalances that may wait for a partition's next commit; of older ones it is not known.
_MOST_WAITING = 64


#: No partition ever held more records: brokers take any number as a committed offset, and the
#: sums over partitions of what was read twice must not overflow.
_MOST_REWOUND = 1 << 48


class Pause(NamedTuple):
    """One partition around one rebalance; a row of table ``pauses``.

    Attributes:
        incarnation, generation: of the rebalance.
        last_ms: time of the last commit before the rebalance's record; None if there was none.
        first_ms: time of the first one after it; None if there was none.
        rewind: records read twice at least: how far the first committed offset lies behind
            the newest one before; None if either is missing, or nonsense.
        resolution_ms: the usual time between two commits here: what the estimate can tell.
        advance: how far the first committed offset lies ahead of the newest one before; where
            it is 0, nothing was read, or there was nothing to read: its times tell nothing.

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
        """From the last commit before to the first one after; None if either is missing."""
        if self.last_ms is None or self.first_ms is None:
            return None
        return max(0, self.first_ms - self.last_ms)


@dataclass(slots=True)
class PartitionCommits:
    """What one partition's commits have told so far.

    Attributes:
        last_ms, last_offset: of its newest commit; None after a tombstone.
        waited_ms, waits: time between neighbouring commits without a rebalance between, added
            up, and how many there were.
        waiting: pauses that lack their first commit afterwards, oldest first.
        fresh: no rebalance has been since the newest commit.
    """

    last_ms: int | None = None
    last_offset: int | None = None
    waited_ms: int = 0
    waits: int = 0
    waiting: list[Pause] = field(default_factory=list)
    fresh: bool = False

    @property
    def usual_ms(self) -> int | None:
        """The mean time between two commits; None before two were seen."""
        return self.waited_ms // self.waits if self.waits else None


class PauseTracker:
    """The pauses of one group: feed rebalances and runs of commits in log order.

    Attributes:
        partitions: the state of each partition, by topic and number.

    >>> tracker, run = PauseTracker(), CommitRun.of("g", "t", 0, 1_000, 7)
    >>> tracker.commits(run), tracker.rebalance(0, 4, [("t", 0)])
    ([], [])
    >>> after = CommitRun.of("g", "t", 0, 4_000, 5)
    >>> [(p.pause_ms, p.rewind) for p in tracker.commits(after)]
    [(3000, 2)]
    """

    def __init__(self, partitions: dict[tuple[str, int], PartitionCommits] | None = None) -> None:
        self.partitions = {} if partitions is None else partitions

    def rebalance(
        self, incarnation: int, generation: int, partitions: Iterable[tuple[str, int]]
    ) -> list[Pause]:
        """A rebalance stands here.

        Args:
            incarnation: of the group.
            generation: of the rebalance.
            partitions: those assigned in it or in the one before; others do not pause.

        Returns:
            Pauses of earlier rebalances that are not waited for any longer.
        """
        given_up = []
        for topic, number in partitions:
            state = self.partitions.setdefault((topic, number), PartitionCommits())
            pause = Pause(
                incarnation, generation, topic, number, state.last_ms, None, None, state.usual_ms
            )
            if len(state.waiting) == _MOST_WAITING:
                given_up.append(state.waiting.pop(0))
            state.waiting.append(pause)
            state.fresh = False
        return given_up

    def commits(self, run: CommitRun) -> list[Pause]:
        """A run of commits of one partition that stands here; the pauses that end with it."""
        return self.stretch(Stretch.of(run))

    def stretch(self, found: Stretch) -> list[Pause]:
        """Commits of one partition that stand here; the pauses that end with them."""
        state = self.partitions.setdefault((found.topic, found.partition), PartitionCommits())
        if found.forgotten or not found.commits:  # tombstones: what was before is forgotten
            state.last_offset = None
        if not found.commits:
            return []
        ended = [self._ended(pause, found, state) for pause in state.waiting]
        state.waiting = []
        state.waited_ms += found.waited_ms
        state.waits += found.waits
        if state.fresh and state.last_ms is not None and found.first_ms >= state.last_ms:
            state.waited_ms += found.first_ms - state.last_ms
            state.waits += 1
        state.last_ms = found.last_ms
        state.last_offset = None if found.forgets else found.last_offset
        state.fresh = True
        return ended

    def _ended(self, pause: Pause, found: Stretch, state: PartitionCommits) -> Pause:
        rewind = advance = None
        if state.last_offset is not None:
            ahead = found.first_offset - state.last_offset
            rewind = max(0, -ahead) if ahead >= -_MOST_REWOUND else None
            advance = max(0, ahead) if ahead <= _MOST_REWOUND else None
        return pause._replace(first_ms=found.first_ms, rewind=rewind, advance=advance)

    def last_ms(self, topic: str, partition: int) -> int | None:
        """Time of a partition's newest commit so far; None if there was none."""
        state = self.partitions.get((topic, partition))
        return None if state is None else state.last_ms

    def usual_ms(self, topic: str, partition: int) -> int | None:
        """The usual time between two commits of a partition; None where it is not known."""
        state = self.partitions.get((topic, partition))
        return None if state is None else state.usual_ms

    def finish(self) -> Iterator[Pause]:
        """Pauses whose partition has no commit any more before the log ends."""
        for state in self.partitions.values():
            yield from state.waiting
            state.waiting = []


def stopped_partitions(found: Generation) -> frozenset[tuple[str, int]]:
    """(topic, partition) pairs that stopped: all that were read before in an eager rebalance,
    otherwise those that changed hands.

    Members that go on reading while they join again say what they have; eager ones have let go
    of it. In the consumer protocol only what moves ever stops.
    """
    before = _owners(found.previous.last) if found.previous is not None else {}
    now = _owners(found.first)
    claims = any(m.subscription and m.subscription.owned for m in found.first.members)
    if found.protocol == "classic" and not claims:
        return frozenset(before)
    return frozenset(pair for pair, owner in before.items() if now.get(pair) != owner)


def _owners(state: ClassicState) -> dict[tuple[str, int], str]:
    return {pair: m.owner for m in state.members for pair in assigned_partitions(m)}
