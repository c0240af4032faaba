"""Where each recorded rebalance begins: who owned what before it, by the record alone.

One cheap pass over a group's generations. What comes out can be lived through rebalance by
rebalance, in any order and on any machine: a `Scene` can be pickled, and needs no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from partage.history.classic import Generation
from partage.history.clusters import ClusterHistory
from partage.history.problems import recorded_assignment, why_not
from partage.model.index import Int32Array
from partage.simulation.absences import Absence, absences
from partage.simulation.consumers import last_owners

__all__ = ["Scene", "scenes"]


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
    """

    generation: Generation
    replayable: bool = True
    held: Mapping[str, Int32Array] = field(default_factory=dict)
    last: Mapping[str, Int32Array] = field(default_factory=dict)
    ids: frozenset[str] = frozenset()
    gone: tuple[Absence, ...] = ()
    back: tuple[Absence, ...] = ()

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
    history = list(generations)
    away = absences(history, session_timeout_ms)
    gone, back = (_by_rebalance(away, at) for at in ("left", "back"))
    before: Generation | None = None
    held: dict[str, Int32Array] = {}
    last: dict[str, Int32Array] = {}
    for found in history:
        if before is not None and found.incarnation != before.incarnation:
            before, held, last = None, {}, {}
        key = (found.incarnation, found.number)
        ids = frozenset(m.id for m in before.last.members) if before else frozenset()
        replayable = why_not(found.first) is None
        yield Scene(
            found, replayable, held, last, ids, tuple(gone.get(key, ())), tuple(back.get(key, ()))
        )
        if replayable:
            given = recorded_assignment(found.last, clusters.at(found.timestamp_ms))
            held = {m.owner: given.partitions_of(i) for i, m in enumerate(found.last.members)}
            last = last_owners(last, held)
        else:
            held, last = {}, {}
        before = found


def _by_rebalance(away: Iterable[Absence], which: str) -> dict[tuple[int, int], list[Absence]]:
    """Absences by the rebalance that they begin or end with."""
    out: dict[tuple[int, int], list[Absence]] = {}
    for one in away:
        key = getattr(one, which)
        if key is not None:
            out.setdefault(key, []).append(one)
    return out
