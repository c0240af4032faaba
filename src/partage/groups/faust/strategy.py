"""The stock assignor of faust-streaming, as a strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from partage.groups.base import PlainStrategy
from partage.groups.faust.bundles import bundles_of
from partage.groups.faust.dealing import Hands, deal
from partage.groups.faust.input_warnings import input_warnings
from partage.groups.faust.members import by_topic, first_of, what_members_say
from partage.groups.faust.plan import Dealt, FaustPlan, plan_of
from partage.groups.faust.settings import OPTIONS, FaustSettings
from partage.model import Assignment, Problem
from partage.wire.faust import FaustMetadata, read_faust_assignment, write_faust_subscription

__all__ = ["Faust", "FaustMember"]


class FaustMember(PlainStrategy):
    """What a member of either kind of Faust group sends and remembers.

    The protocol's version is 4, as Faust writes it into the header of both messages, although
    nothing that came with version 1 or later follows.
    """

    version = 4
    settings: FaustSettings

    def subscription_user_data(self, topics: Sequence[str], memory: object = None) -> bytes:
        """What the member was told last, with its URL; fresh members had nothing."""
        told = memory if isinstance(memory, FaustMetadata) else FaustMetadata()
        return write_faust_subscription(replace(told, url=self.settings.url or told.url))

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> FaustMetadata:
        """What it was told, to be sent when it joins again.

        Raises:
            WireFormatError: the leader's bytes are not Faust's.
        """
        if user_data is not None:
            return read_faust_assignment(user_data)
        pairs = [pair for mine in assignment.to_pairs().values() for pair in mine]
        return FaustMetadata(by_topic(pairs), url=self.settings.url)


@dataclass(frozen=True, repr=False)
class Faust(FaustMember):
    """Faust's: the same numbers of all topics of one size together, sticky, with standbys.

    Topics of equally many partitions with the same subscribers are dealt as one. Members keep
    what they had, up to the even share; what nobody has goes to a member with a standby of it
    that still has room, else around the circle. With standbys a newcomer gets nothing while
    the others have their share or less, which is Faust's own and its users' complaint; see
    ``faust:copartitioned``.

    What members had is in their user data (JSON); without any, in their claims. One whose user
    data cannot be read had nothing, and a warning says so: Faust's own leader fails there.
    Where its class raises, this refuses (`PeerRefusal`). Where topics that are dealt as one
    were with different members before, Faust takes any of them, by its hash seed; this takes
    the first by name.

    Settings: `partage.groups.faust.settings`. Cost: O(P R M) for P partitions, R standbys of
    each and M members, times the sizes of topics, in plain Python.

    Source: `faust.assignor.PartitionAssignor` of faust-streaming 0.15.3.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("a", ["s", "t"]), Member("b", ["s", "t"])])
    >>> Faust().assign(Problem(group, Cluster.from_topics({"s": 2, "t": 2}))).to_dict()
    {'a': {'s': [0], 't': [0]}, 'b': {'s': [1], 't': [1]}}
    """

    settings: FaustSettings = field(default_factory=FaustSettings)

    name = "faust"
    exact_to = "faust.assignor.PartitionAssignor faust-streaming 0.15.3"
    options = OPTIONS

    def configure(self, config: Mapping[str, object]) -> Faust:
        """The same with settings.

        Raises:
            InvalidConfigError: a setting has the wrong type.
        """
        return replace(self, settings=self.settings.configured(config))

    def assign(self, problem: Problem, memory: object = None) -> FaustPlan:
        """The plan, with the user data of every member.

        Raises:
            PeerRefusal: the class fails on this problem.
        """
        said, warnings = what_members_say(problem)
        bundles, missing = bundles_of(problem)
        dealt = []
        for bundle in bundles:
            hands = [
                Hands.of(
                    first_of(said[m].actives, bundle.topics),
                    first_of(said[m].standbys, bundle.topics),
                )
                for m in bundle.members
            ]
            deal(hands, bundle.partitions, self.settings.replicas)
            dealt.append(Dealt(bundle, hands))
        warnings += input_warnings(problem, bundles, missing, self.settings)
        return plan_of(problem, dealt, said, self.settings, warnings)
