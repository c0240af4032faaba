"""A problem as librdkafka's assignors see it: topics in metadata's order, racks by text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from partage.groups.dialects.refusals import PeerRefusal
from partage.groups.dialects.scene import PeerScene
from partage.model import Problem

__all__ = ["LibrdkafkaScene"]


class LibrdkafkaScene(PeerScene):
    """As `PeerScene`, for whom a topic named twice is named once.

    Args:
        problem: the problem.

    Raises:
        PeerRefusal: a member subscribes to nothing: the library cannot read such a
            subscription, and then looks at it all the same.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        for member in problem.group:
            if not member.topics:
                what = f"member {member.id!r} has an empty subscription, which it cannot read"
                raise PeerRefusal(what, "unreadable subscription")

    @cached_property
    def subscribed(self) -> list[tuple[int, ...]]:
        """By member its topics, each once."""
        return [tuple(dict.fromkeys(topics)) for topics in super().subscribed]

    @cached_property
    def asked(self) -> list[int]:
        """Topics in the order in which the leader asks for their metadata: as first named.

        A broker may answer in another; the library keeps the broker's.
        """
        return list(dict.fromkeys(k for topics in self.subscribed for k in topics))

    @cached_property
    def racks(self) -> list[frozenset[str]]:
        """By spot the racks of its replicas."""
        return [frozenset(self.problem.cluster.racks_of(p)) for p in self.dense.tolist()]

    def racks_matter(self, topics: Sequence[int], members: Sequence[int]) -> bool:
        """Whether a member's rack is one of the replicas', and replicas are not everywhere."""
        theirs = {self.problem.group[m].rack for m in members} - {None, ""}
        if not theirs:
            return False
        spots = [s for k in topics for s in range(self.start[k], self.start[k + 1])]
        everywhere = frozenset().union(*(self.racks[s] for s in spots))
        return bool(theirs & everywhere) and any(self.racks[s] != everywhere for s in spots)
