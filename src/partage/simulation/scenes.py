"""Where each recorded rebalance begins: who owned what before it, by the record alone.

One cheap pass over a group's generations. What comes out can be lived through rebalance by
rebalance, in any order and on any machine: a `Scene` can be pickled, and needs no other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.history.pauses import Pause
from partage.history.problems import given_by_member, recorded_assignment, why_not
from partage.model.index import Int32Array
from partage.simulation.absences import Absence, AbsenceTracker, Left
from partage.simulation.consumers import last_owners

__all__ = ["Scene", "SceneMaker", "scenes"]


@dataclass(frozen=True, slots=True)
class Scene:
    """A recorded rebalance, and what was before it.

    Attributes:
        generation: the rebalance.
        replayable: whether strategies can be run on it; without members, for one, they cannot.
        held: member (instance id, or member id) -> dense numbers by the assignment before.
        last: the same, and what nobody had in between, with whom it was last.
        ids: member ids of the generation before: who is not among them has just started.
        gone: members that were there before this rebalance and are not after it.
        back: members that are back with it, under another member id or none.
        pauses: what its commits told, where that travels with it; else it is in `Evidence`.
    """

    generation: Generation
    replayable: bool = True
    held: Mapping[str, Int32Array] = field(default_factory=dict)
    last: Mapping[str, Int32Array] = field(default_factory=dict)
    ids: frozenset[str] = frozenset()
    gone: tuple[Absence, ...] = ()
    back: tuple[Absence, ...] = ()
    pauses: tuple[Pause, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of its causes, the one that counts first."""
        return tuple(cause.kind for cause in self.generation.causes)

    @property
    def written_over(self) -> bool:
        """Whether it is no rebalance: the assignment in another form, when a group was migrated."""
        return self.generation.taken_over

    @property
    def follow_up(self) -> bool:
        """Whether it only completes the rebalance before."""
        return self.kinds[:1] == ("follow-up",)


class SceneMaker:
    """Feed one group's rebalances in order, also those without members; scenes come out in order.

    Args:
        clusters: the metadata over time; dense numbers are those of its index.
        session_timeout_ms: the broker's, for members that send none; None if it is not known.
        behind: a scene comes out so many rebalances later, when it is known which of its members
            came back by then; None for all of them, at the end.
    """

    def __init__(
        self,
        clusters: ClusterHistory,
        session_timeout_ms: int | None = None,
        *,
        behind: int | None = None,
    ) -> None:
        self._clusters, self._behind = clusters, behind
        self._away = AbsenceTracker(session_timeout_ms)
        self._waiting: deque[tuple[Generation, list[Left], list[Absence]]] = deque()
        self._before: Generation | None = None
        self._held: dict[str, Int32Array] = {}
        self._last: dict[str, Int32Array] = {}

    def feed(self, found: Generation) -> Iterator[Scene]:
        """A rebalance; scenes that are whole by now."""
        self._waiting.append((found, *self._away.feed(found)))
        while self._behind is not None and len(self._waiting) > self._behind:
            yield self._scene()

    def finish(self) -> Iterator[Scene]:
        """The others."""
        while self._waiting:
            yield self._scene()

    def _scene(self) -> Scene:
        found, gone, back = self._waiting.popleft()
        before = self._before
        if before is not None and found.incarnation != before.incarnation:
            before, self._held, self._last = None, {}, {}
        ids = frozenset(m.id for m in before.last.members) if before else frozenset()
        replayable = why_not(found.first) is None
        made = Scene(
            found, replayable, self._held, self._last, ids,
            tuple(left.absence for left in gone), tuple(back),
        )  # fmt: skip
        if replayable:
            given = recorded_assignment(found.last, self._clusters.at(found.timestamp_ms))
            mine = given_by_member(given)
            # Where two have one instance id, the later one has its name, as with a broker.
            self._held = {m.owner: mine[m.id] for m in found.last.members}
            self._last = last_owners(self._last, self._held)
        else:
            self._held, self._last = {}, {}
        self._before = found
        return made


def scenes(
    generations: Iterable[Generation],
    clusters: ClusterHistory,
    session_timeout_ms: int | None = None,
) -> Iterator[Scene]:
    """The scenes of one group's rebalances, in order; those that cannot be replayed too.

    Args:
        generations: all of the group, in order, also those without members.
        clusters: the metadata over time; dense numbers are those of its index.
        session_timeout_ms: the broker's, for members that send none; None if it is not known.
    """
    maker = SceneMaker(clusters, session_timeout_ms)
    for found in generations:
        yield from maker.feed(found)
    yield from maker.finish()
