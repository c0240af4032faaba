"""A plan as Faust's workers get it: lists for the client, and metadata for the worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from partage.groups.dialects.refusals import PeerRefusal
from partage.groups.faust.bundles import Bundle
from partage.groups.faust.dealing import Hands
from partage.groups.faust.settings import FaustSettings
from partage.model import Assignment, Plan, Problem
from partage.model.assignment import Role
from partage.wire.faust import FaustMetadata, write_faust_assignment

__all__ = ["Dealt", "FaustPlan", "plan_of"]

Lists = dict[str, list[int]]


class Dealt(NamedTuple):
    """What a bundle's members have of it, by their position in the bundle."""

    bundle: Bundle
    hands: Sequence[Hands]


@dataclass(frozen=True, eq=False, repr=False)
class FaustPlan(Plan):
    """Who works on what, and with it everything else that Faust's workers are told.

    Owners are those who work on a partition by the rule. Of a global table's changelog Faust
    calls everybody active; that stands in ``told`` and in ``wire``.

    Attributes:
        told: by member what its user data says.
        changelogs: topics whose standbys are consumed too.

    >>> from partage.groups.registry import find
    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("a", ["t"]), Member("b", ["t"])])
    >>> plan = find("faust").assign(Problem(group, Cluster.from_topics({"t": 2})))
    >>> plan.to_dict(), plan.told["a"].standbys
    ({'a': {'t': [0]}, 'b': {'t': [1]}}, {'t': [1]})
    """

    told: Mapping[str, FaustMetadata] = field(default_factory=dict)
    changelogs: frozenset[str] = frozenset()

    def wire(self) -> dict[str, list[tuple[str, list[int]]]]:
        """By member the topics and partitions of its assignment as the client gets it, sorted.

        Active partitions, and of changelogs the standbys behind them, even if that names a
        partition twice.
        """
        out = {}
        for member, told in self.told.items():
            lists = {topic: list(numbers) for topic, numbers in told.actives.items()}
            for topic, numbers in told.standbys.items():
                if topic in self.changelogs:
                    lists.setdefault(topic, []).extend(numbers)
            out[member] = sorted(lists.items())
        return out

    @property
    def standbys(self) -> dict[str, Lists]:
        """Standby partitions by member and topic, sorted; topics without any are left out.

        >>> from partage.groups.registry import find
        >>> from partage.model import Cluster, Group, Member
        >>> group = Group([Member("a", ["t"]), Member("b", ["t"])])
        >>> find("faust").assign(Problem(group, Cluster.from_topics({"t": 1}))).standbys
        {'a': {}, 'b': {'t': [0]}}
        """
        return {
            member: {t: sorted(held) for t, held in sorted(told.standbys.items()) if held}
            for member, told in self.told.items()
        }

    def with_standbys(self) -> Assignment:
        """Active partitions and standbys of everybody, by role; a member's actives come first.

        >>> from partage.groups.registry import find
        >>> from partage.model import Cluster, Group, Member
        >>> group = Group([Member("a", ["t"]), Member("b", ["t"])])
        >>> plan = find("faust").assign(Problem(group, Cluster.from_topics({"t": 1})))
        >>> both = plan.with_standbys()
        >>> both.to_dict(), both.role.tolist()
        ({'a': {'t': [0]}, 'b': {'t': [0]}}, [2, 3])
        """
        told = self.told.items()
        actives: Assignment = Assignment.of(self.index, {m: one.actives for m, one in told})
        standbys: Assignment = Assignment.of(self.index, {m: one.standbys for m, one in told})
        order = np.lexsort(
            (
                np.concatenate(
                    (np.zeros(len(actives.partition)), np.ones(len(standbys.partition)))
                ),
                np.concatenate((actives.member_of, standbys.member_of)),
            )
        )
        role = np.repeat(
            np.array([Role.ACTIVE, Role.STANDBY], np.int8),
            [len(actives.partition), len(standbys.partition)],
        )
        return replace(
            actives,
            start=actives.start + standbys.start,
            partition=np.concatenate((actives.partition, standbys.partition))[order],
            role=role[order],
            unresolved=actives.unresolved + standbys.unresolved,
        )


def plan_of(
    problem: Problem,
    dealt: Sequence[Dealt],
    said: Sequence[FaustMetadata],
    settings: FaustSettings,
    warnings: tuple[str, ...],
) -> FaustPlan:
    """The plan of what was dealt.

    Args:
        problem: the group and the cluster.
        dealt: each bundle, in the order of `bundles_of`.
        said: by member what it sent, of which its URL goes to everybody.
        settings: of the leader.
        warnings: for the operator.

    Raises:
        PeerRefusal: a global table's changelog is not among the topics dealt (a KeyError there).
    """
    ids = problem.group.ids
    actives: list[Lists] = [{} for _ in ids]
    standbys: list[Lists] = [{} for _ in ids]
    for (_, _, topics, members), hands in dealt:
        for member, one in zip(members, hands, strict=True):
            for topic in topics:
                actives[member][topic] = list(one.actives)
                standbys[member][topic] = list(one.standbys)
    owned = {m: dict(sorted(lists.items())) for m, lists in zip(ids, actives, strict=True)}
    _copy_global_tables(dealt, settings, actives, standbys)
    changelogs = settings.all_changelogs
    urls = [one.url for one in said]
    shared = FaustMetadata(
        changelogs=_by_url(urls, actives, lambda topic: topic in changelogs),
        others=_by_url(urls, actives, lambda topic: topic not in changelogs),
        groups={topic: bundle.group for bundle, _ in dealt for topic in bundle.topics},
    )
    told = {
        member: replace(shared, actives=actives[i], standbys=standbys[i], url=urls[i])
        for i, member in enumerate(ids)
    }
    topic_number = {topic: problem.cluster.topic(topic) for one in dealt for topic in one[0].topics}
    made: FaustPlan = FaustPlan.of(
        problem.index,
        owned,
        topic_number,
        told=told,
        changelogs=changelogs,
        user_data={member: write_faust_assignment(one) for member, one in told.items()},
        warnings=warnings,
    )
    return made


def _by_url(
    urls: Sequence[str], actives: Sequence[Lists], wanted: Callable[[str], bool]
) -> dict[str, Lists]:
    """Of two members with one URL the later one counts."""
    return {
        url: {t: numbers for t, numbers in lists.items() if wanted(t)}
        for url, lists in zip(urls, actives, strict=True)
    }


def _copy_global_tables(
    dealt: Sequence[Dealt],
    settings: FaustSettings,
    actives: Sequence[Lists],
    standbys: Sequence[Lists],
) -> None:
    """Of a global table's changelog everybody is active for all, and has the rest as standbys."""
    count = {topic: one.bundle.partitions for one in dealt for topic in one.bundle.topics}
    for topic in settings.global_changelogs:
        if topic not in count:
            what = f"the changelog {topic} of a global table is not subscribed to, or not there"
            raise PeerRefusal(f"{what}: create it, or subscribe to it (KeyError)", "KeyError")
        everything = set(range(count[topic]))
        for mine, copies in zip(actives, standbys, strict=True):
            held = set(mine.get(topic, ()))
            rest = everything if topic in settings.copied else everything - held
            copies[topic] = list(rest)
            mine[topic] = list(everything)
