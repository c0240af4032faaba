"""The plan of a Faust group: what each worker's client consumes, and the metadata that it gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from partage.groups.dialects import PeerAssignorError
from partage.groups.faust.inputs import CopartitionedTopics
from partage.groups.faust.settings import FaustSettings
from partage.model import Assignment, Plan, Problem
from partage.model.assignment import Role, format_runs
from partage.model.display import MOST_ROWS
from partage.wire.faust import FaustMetadata, write_faust_assignment

__all__ = ["CopartitionedAssignment", "FaustPlan", "build_plan"]

ByTopic = dict[str, list[int]]


@dataclass(slots=True)
class CopartitionedAssignment:
    """Active and standby partition numbers of one Faust member, for several topics at once.

    The topics are copartitioned: they have equal partition counts and are assigned together.

    Source: Faust's class of the same name.

    >>> CopartitionedAssignment.from_partition_numbers([0, 1], [1, 2])
    CopartitionedAssignment(actives={0, 1}, standbys={2})
    """

    actives: set[int] = field(default_factory=set)
    standbys: set[int] = field(default_factory=set)

    @classmethod
    def from_partition_numbers(
        cls, actives: Iterable[int], standbys: Iterable[int]
    ) -> CopartitionedAssignment:
        """Build a Faust member's assignment from its active and standby partition numbers.

        A partition that is in both arguments is active only.
        """
        assignment = cls(set(actives), set(standbys))
        if not assignment.actives.isdisjoint(assignment.standbys):
            assignment.standbys.difference_update(assignment.actives)
        return assignment

    def has_partition(self, partition: int) -> bool:
        """Return whether the member has a partition, either active or as a standby.

        Faust checks this before it gives the member a standby.
        """
        return partition in self.standbys or partition in self.actives


@dataclass(frozen=True, eq=False, repr=False)
class FaustPlan(Plan):
    """Assignment of a Faust group, with the metadata that its leader sends to each worker.

    Each partition has one owner. The exception is the changelog of a global table, which all
    members consume; it is only in ``metadata`` and in the result of `wire`.

    Attributes:
        metadata: the decoded user data that each member gets with its assignment.
        changelogs: topics of which members consume standbys, too.

    >>> from partage.groups.registry import find
    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("a", ["t"]), Member("b", ["t"])])
    >>> plan = find("faust").assign(Problem(group, Cluster.from_topics({"t": 2})))
    >>> plan.to_dict(), plan.metadata["a"].standbys
    ({'a': {'t': [0]}, 'b': {'t': [1]}}, {'t': [1]})
    """

    metadata: Mapping[str, FaustMetadata] = field(default_factory=dict)
    changelogs: frozenset[str] = frozenset()

    def wire(self) -> dict[str, list[tuple[str, list[int]]]]:
        """Return what each Faust member consumes: active partitions, then standbys of changelogs.

        This is the assignment that the leader sends. The result has (topic, partition numbers)
        pairs by member id, sorted by topic. A partition that is active and standby is listed twice.
        """
        consumed = {}
        for member, metadata in self.metadata.items():
            by_topic = {topic: list(numbers) for topic, numbers in metadata.actives.items()}
            for topic, numbers in metadata.standbys.items():
                if topic in self.changelogs:
                    by_topic.setdefault(topic, []).extend(numbers)
            consumed[member] = sorted(by_topic.items())
        return consumed

    @property
    def standbys(self) -> dict[str, ByTopic]:
        """Standby partitions of each Faust member, by topic, such as ``{"a": {"t": [0]}}``.

        A standby keeps a copy of a table and takes over if the active member fails. Topics without
        standbys are left out.

        >>> from partage.groups.registry import find
        >>> from partage.model import Cluster, Group, Member
        >>> group = Group([Member("a", ["t"]), Member("b", ["t"])])
        >>> find("faust").assign(Problem(group, Cluster.from_topics({"t": 1}))).standbys
        {'a': {}, 'b': {'t': [0]}}
        """
        return {
            member: {
                topic: sorted(numbers)
                for topic, numbers in sorted(metadata.standbys.items())
                if numbers
            }
            for member, metadata in self.metadata.items()
        }

    def _remarks(self) -> list[str]:
        shown = list(self.standbys.items())[:MOST_ROWS]
        standbys = [
            f"  standbys of {member}: "
            + "; ".join(f"{topic} {format_runs(of)}" for topic, of in topics.items())
            for member, topics in shown
            if topics
        ]
        return [*standbys, *super()._remarks()]

    def with_standbys(self) -> Assignment:
        """Return one assignment with the active and standby partitions of all members.

        The attribute ``role`` distinguishes them. A member's active partitions come first.

        >>> from partage.groups.registry import find
        >>> from partage.model import Cluster, Group, Member
        >>> group = Group([Member("a", ["t"]), Member("b", ["t"])])
        >>> plan = find("faust").assign(Problem(group, Cluster.from_topics({"t": 1})))
        >>> both = plan.with_standbys()
        >>> both.to_dict(), both.role.tolist()
        ({'a': {'t': [0]}, 'b': {'t': [0]}}, [2, 3])
        """
        metadata = self.metadata.items()
        actives: Assignment = Assignment.of(self.index, {m: one.actives for m, one in metadata})
        standbys: Assignment = Assignment.of(self.index, {m: one.standbys for m, one in metadata})
        role = np.repeat(
            np.array([Role.ACTIVE, Role.STANDBY], np.int8),
            [len(actives.partition), len(standbys.partition)],
        )
        member = np.concatenate((actives.member_of, standbys.member_of))
        order = np.lexsort((role, member))
        return replace(
            actives,
            start=actives.start + standbys.start,
            partition=np.concatenate((actives.partition, standbys.partition))[order],
            role=role[order],
            unresolved=actives.unresolved + standbys.unresolved,
        )


def build_plan(
    problem: Problem,
    placed: Sequence[tuple[CopartitionedTopics, Sequence[CopartitionedAssignment]]],
    metadata: Sequence[FaustMetadata],
    settings: FaustSettings,
    warnings: tuple[str, ...],
) -> FaustPlan:
    """Build the plan of a Faust group from the active and standby partitions of its members.

    The plan also has the metadata that the leader sends to each member, such as the URL of every
    partition's active member.

    Args:
        problem: the consumer group and the cluster.
        placed: (copartitioned topics, assignments of their subscribers) pairs.
        metadata: the metadata that each member sent; its URL is sent to all members.
        settings: the leader's settings.
        warnings: warnings for the operator, which become part of the plan.

    Raises:
        PeerAssignorError: a global table's changelog is not among the topics; Faust raises
            KeyError.

    Source: ``PartitionAssignor._perform_assignment``.
    """
    ids = problem.group.ids
    actives: list[ByTopic] = [{} for _ in ids]
    standbys: list[ByTopic] = [{} for _ in ids]
    for (_, _, topics, members), assignments in placed:
        for member, assignment in zip(members, assignments, strict=True):
            for topic in topics:
                actives[member][topic] = list(assignment.actives)
                standbys[member][topic] = list(assignment.standbys)
    owned = {m: dict(sorted(by_topic.items())) for m, by_topic in zip(ids, actives, strict=True)}
    groups = [group for group, _ in placed]
    _assign_global_changelogs(groups, settings, actives, standbys)
    changelogs = settings.all_changelogs
    urls = [sent.url for sent in metadata]
    shared = FaustMetadata(
        changelogs=_distribution(urls, actives, lambda topic: topic in changelogs),
        others=_distribution(urls, actives, lambda topic: topic not in changelogs),
        groups={topic: group.group for group in groups for topic in group.topics},
    )
    received = {
        member: replace(shared, actives=actives[i], standbys=standbys[i], url=urls[i])
        for i, member in enumerate(ids)
    }
    plan: FaustPlan = FaustPlan.of(
        problem.index,
        owned,
        {topic: problem.cluster.topic(topic) for group in groups for topic in group.topics},
        metadata=received,
        changelogs=changelogs,
        user_data={member: write_faust_assignment(one) for member, one in received.items()},
        warnings=warnings,
    )
    return plan


def _distribution(
    urls: Sequence[str], actives: Sequence[ByTopic], is_included: Callable[[str], bool]
) -> dict[str, ByTopic]:
    # If two members share a URL, the later one counts.
    return {
        url: {topic: numbers for topic, numbers in by_topic.items() if is_included(topic)}
        for url, by_topic in zip(urls, actives, strict=True)
    }


def _assign_global_changelogs(
    groups: Sequence[CopartitionedTopics],
    settings: FaustSettings,
    actives: Sequence[ByTopic],
    standbys: Sequence[ByTopic],
) -> None:
    """Assign all partitions of global tables' changelogs to each member of a Faust group.

    Every member has a full copy of a global table. ``actives`` and ``standbys``, the partitions of
    each member by topic, are changed in place.
    """
    count = {topic: group.partitions for group in groups for topic in group.topics}
    for topic in settings.global_changelogs:
        if topic not in count:
            what = f"the changelog {topic} of a global table does not exist or has no subscriber"
            raise PeerAssignorError(f"{what}: create it, or subscribe to it (KeyError)", "KeyError")
        every = set(range(count[topic]))
        for active_by_topic, standby_by_topic in zip(actives, standbys, strict=True):
            owned = set(active_by_topic.get(topic, ()))
            # A member's standbys are the partitions that another member owns; for topics in
            # ``settings.copied`` they are all partitions.
            copied = every if topic in settings.copied else every - owned
            standby_by_topic[topic] = list(copied)
            active_by_topic[topic] = list(every)
