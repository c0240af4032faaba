"""The assignor that Faust's design document describes, as a strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from partage.groups.faust.inputs import CopartitionedTopics, find_previous_owners
from partage.groups.faust.plan import CopartitionedAssignment
from partage.groups.faust.settings import OPTIONS, SEED_OPTION, SeededSettings
from partage.groups.faust.standbys import SplitMix64, place_standbys
from partage.groups.faust.strategy import FaustStrategy
from partage.groups.faust.takeover import assign_actives
from partage.wire.faust import FaustMetadata

__all__ = ["FaustCopartitioned"]


@dataclass(frozen=True, repr=False)
class FaustCopartitioned(FaustStrategy):
    """Copartitioned topics together, takeover by standbys, standbys spread evenly by a seed.

    This is what Faust's design document asks for. Topics with equally many partitions and the
    same subscribers are assigned together. For each such group of topics, the aims are, each
    only as far as the previous ones allow:

    1. no member is idle while there are as many partitions as members;
    2. a partition whose active member left goes to one of its standbys, or to a member that had
       no active partition and needs it for its share;
    3. in such a rebalance the other members take over no other partition;
    4. the members' loads are as even as possible;
    5. as few partitions as possible start cold (on a member without a copy), then as few as
       possible move;
    6. each partition has its standbys, none of them on its active member;
    7. the standbys of each member's partitions are spread over the other members, with counts
       that differ by at most one, so a failed member's load is shared evenly. The seed decides
       among equal placements;
    8. the totals of active and standby partitions are even, as far as exchanges within aim 7
       allow: a member with a smaller total takes over more;
    9. standbys stay where they are, as far as aims 7 and 8 allow.

    Aims 1 to 5 are reached exactly, by a minimum-cost flow. Aim 9 is not: standbys are kept first
    and evened out afterwards, which may move more of them than necessary. Groups of topics are
    independent of each other: the same member may get the additional partition of each.

    The user data is the one of stock workers, so both can be in one group; the leader decides.

    Settings: those of ``faust``, and ``assignment.faust.seed``; the leader's values count.
    Cost: O(P M) memory for P partitions and M members, O(P M + moves M^2) steps on arrays.

    Source: "Partition Assignor" in Faust's documentation (its design), after KIP-54.

    >>> from partage.model import Cluster, Group, Member, Problem
    >>> group = Group([Member("a", ["s", "t"]), Member("b", ["s", "t"])])
    >>> FaustCopartitioned().assign(Problem(group, Cluster.from_topics({"s": 2, "t": 2}))).to_dict()
    {'a': {'s': [0], 't': [0]}, 'b': {'s': [1], 't': [1]}}
    """

    settings: SeededSettings = field(default_factory=SeededSettings)

    name = "faust:copartitioned"
    algorithm = "2"
    options = (*OPTIONS, SEED_OPTION)

    def assign_copartitioned(
        self, topics: CopartitionedTopics, metadata: Sequence[FaustMetadata]
    ) -> list[CopartitionedAssignment]:
        """Return the assignment of each subscriber: actives first, then standbys.

        Raises:
            ProblemTooLargeError: more than 16 million pairs of partition and member.
        """
        members = len(topics.members)
        previous = find_previous_owners(topics, metadata)
        owner = assign_actives(previous, members)
        generator = self._random_generator(topics)
        standbys = place_standbys(previous, owner, members, self.settings.replicas, generator)
        assignments = [CopartitionedAssignment() for _ in range(members)]
        for p, (active, copies) in enumerate(zip(owner, standbys, strict=True)):
            assignments[active].actives.add(p)
            for member in copies:
                assignments[member].standbys.add(p)
        return assignments

    def _random_generator(self, topics: CopartitionedTopics) -> SplitMix64:
        """Return a generator of its own, so that other topics do not change the placement."""
        return SplitMix64(self.settings.seed ^ SplitMix64(topics.partitions).next_number())
