"""The assignor that Faust's design document describes, as a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from partage.groups.faust.bundles import Bundle, bundles_of
from partage.groups.faust.dealing import Hands
from partage.groups.faust.drawing import Draw
from partage.groups.faust.heirs import heirs
from partage.groups.faust.input_warnings import input_warnings
from partage.groups.faust.members import what_members_say
from partage.groups.faust.plan import Dealt, FaustPlan, plan_of
from partage.groups.faust.remembered import Remembered, remembered
from partage.groups.faust.settings import OPTIONS, SEED_OPTION, SeededSettings
from partage.groups.faust.standbys import standbys
from partage.groups.faust.strategy import FaustMember
from partage.model import Problem

__all__ = ["FaustCopartitioned"]


@dataclass(frozen=True, repr=False)
class FaustCopartitioned(FaustMember):
    """The same numbers together, failover to standbys, standbys spread by a seeded draw.

    What the document on Faust's assignor asks for. Topics of equally many partitions with the
    same subscribers are dealt as one; their partitions of one number are with one member.
    For each such bundle, each aim only as far as those before it allow:

    1. no member is idle while there are as many partitions as members;
    2. a partition whose member is gone goes to one of its standbys, or to a member that had
       nothing and needs it for its share;
    3. in such a rebalance the other members take over nothing else;
    4. members' loads are as even as can be;
    5. the fewest partitions start cold (with a member that has no copy), then the fewest move;
    6. each partition has its standbys, none of them with its active member;
    7. of each member's partitions every other member has as many copies as any other, give or
       take one: whoever fails, the others inherit alike. Which ones is drawn by the seed;
    8. members have equally much in all, active partitions and copies, as far as exchanges
       within 7 allow: who has less inherits more;
    9. copies stay where they are as far as 7 and 8 let them.

    The first five are reached exactly (a flow of least cost). The ninth is not: copies are
    kept first and evened out then, which may move more of them than there must.

    It reads and writes what stock workers do, so both can be in one group; whoever leads decides.
    Bundles do not see each other: a member may be the first to get one more in each of them.

    Settings: as ``faust``, and ``assignment.faust.seed``; the leader's count.
    Cost: O(P M) memory for P partitions and M members, O(P M + moves M^2) steps on arrays.

    Source: "Partition Assignor" in Faust's documentation (its design), after KIP-54.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("a", ["s", "t"]), Member("b", ["s", "t"])])
    >>> FaustCopartitioned().assign(Problem(group, Cluster.from_topics({"s": 2, "t": 2}))).to_dict()
    {'a': {'s': [0], 't': [0]}, 'b': {'s': [1], 't': [1]}}
    """

    settings: SeededSettings = field(default_factory=SeededSettings)

    name = "faust:copartitioned"
    algorithm = "2"
    options = (*OPTIONS, SEED_OPTION)

    def configure(self, config: Mapping[str, object]) -> FaustCopartitioned:
        """The same with settings.

        Raises:
            InvalidConfigError: a setting has the wrong type.
        """
        return replace(self, settings=self.settings.configured(config))

    def assign(self, problem: Problem, memory: object = None) -> FaustPlan:
        """The plan, with the user data of every member.

        Raises:
            ProblemTooLargeError: a bundle of more than 16 million pairs of partition and member.
            PeerRefusal: a global table's changelog is not among the topics.
        """
        said, warnings = what_members_say(problem)
        bundles, missing = bundles_of(problem)
        # Bundles draw apart: what happens to one must not shuffle the others.
        dealt = [
            Dealt(one, self._hands(one, remembered(one, said), Draw(self._seed_of(one))))
            for one in bundles
        ]
        warnings += input_warnings(problem, bundles, missing, self.settings)
        return plan_of(problem, dealt, said, self.settings, warnings)

    def _seed_of(self, bundle: Bundle) -> int:
        return self.settings.seed ^ Draw(bundle.partitions).number()

    def _hands(self, bundle: Bundle, before: Remembered, draw: Draw) -> list[Hands]:
        members = len(bundle.members)
        owner = heirs(before, members)
        copies = standbys(before, owner, members, self.settings.replicas, draw)
        hands = [Hands() for _ in bundle.members]
        for p, (active, mine) in enumerate(zip(owner, copies, strict=True)):
            hands[active].actives.add(p)
            for member in mine:
                hands[member].standbys.add(p)
        return hands
