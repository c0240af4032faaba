"""Inputs of both Faust strategies: copartitioned topics, previous assignments, warnings.

`find_copartitioned_topics` and `read_metadata` extract them from a problem. `find_previous_owners`
combines what the members report about one group of topics. `collect_warnings` checks topics and
settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from partage.errors import WireFormatError
from partage.groups.faust.settings import CHANGELOGS, FaustSettings
from partage.groups.subscriptions import missing_topics
from partage.model import Member, Problem
from partage.wire.faust import ByTopic, FaustMetadata, read_faust_subscription

__all__ = [
    "CopartitionedTopics",
    "PreviousCopies",
    "collect_warnings",
    "find_copartitioned_topics",
    "find_previous_owners",
    "partitions_by_topic",
    "read_metadata",
]

#: Suffixes of the names that Faust gives to changelog topics and to its leader topic.
_CHANGELOG_SUFFIX = "-changelog"
_LEADER_SUFFIX = "__assignor-__leader"
#: Topics that a warning names; it counts the others.
_MAX_NAMES_IN_WARNING = 3


# --- copartitioned topics ---


class CopartitionedTopics(NamedTuple):
    """Topics with equal partition counts and subscribers, which Faust assigns together.

    Partitions with the same number go to the same member.

    Attributes:
        group: number in Faust's ``topic_groups``: the position of the partition count among all
            counts, ascending. Topics with equal counts and different subscribers share it.
        partitions: number of partitions of each topic. They are numbered from 0.
        topics: topic names, sorted.
        members: positions of the subscribers in the consumer group, in join order.
    """

    group: int
    partitions: int
    topics: tuple[str, ...]
    members: tuple[int, ...]


def find_copartitioned_topics(
    problem: Problem,
) -> tuple[list[CopartitionedTopics], tuple[str, ...]]:
    """Group subscribed topics with equal partition counts and equal subscribers.

    Faust assigns the topics of such a group together, so that joins find matching partitions on one
    member. ``problem`` is the consumer group and the cluster.

    Returns:
        The groups of topics, smaller partition counts first, and the subscribed topics that do not
        exist.

    >>> from partage.model import Cluster, Group, Member
    >>> members = Group([Member("a", ["s", "t", "u"]), Member("b", ["s", "gone"])])
    >>> cluster = Cluster.from_topics({"s": 2, "t": 2, "u": 2})
    >>> groups, empty = find_copartitioned_topics(Problem(members, cluster))
    >>> [(group.topics, group.members) for group in groups], empty
    ([(('s',), (0, 1)), (('t', 'u'), (0,))], ('gone',))
    """
    names_by_count: dict[int, dict[tuple[int, ...], list[str]]] = {}
    without_partitions = []
    for name in sorted({name for topics in problem.group.subscriptions for name in topics}):
        topic = problem.cluster.topic(name)
        # Faust's client counts partitions and ignores their numbers.
        count = len(problem.cluster.partitions_of(topic))
        if not count:
            without_partitions.append(name)
            continue
        members = tuple(problem.members_of(topic).tolist())
        names_by_count.setdefault(count, {}).setdefault(members, []).append(name)
    groups = [
        CopartitionedTopics(group, count, tuple(names), members)
        for group, (count, by_members) in enumerate(sorted(names_by_count.items()))
        for members, names in by_members.items()
    ]
    return groups, tuple(without_partitions)


# --- what members report ---


def read_metadata(problem: Problem) -> tuple[list[FaustMetadata], tuple[str, ...]]:
    """Decode the Faust metadata that each member sent when it joined.

    The metadata list the active and standby partitions that a member had before the rebalance. A
    member without user data is treated as if it had sent its owned partitions. ``problem`` is the
    consumer group and the cluster.

    Returns:
        The metadata of each member, and warnings.
    """
    metadata, warnings = [], []
    for member in problem.group:
        try:
            metadata.append(_read_member(member))
        except WireFormatError as e:
            # Such a member is treated as a new one. Faust's own leader fails there.
            metadata.append(FaustMetadata())
            what = f"sent user data that is not Faust's: {e}; it counts as a new member"
            warnings.append(f"{member.id} {what}")
    return metadata, tuple(warnings)


def _read_member(member: Member) -> FaustMetadata:
    if member.user_data is None:
        return FaustMetadata(partitions_by_topic(member.owned))
    return read_faust_subscription(member.user_data)


def partitions_by_topic(pairs: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Group (topic, partition number) pairs by topic.

    For example, ("a", 0), ("a", 2), ("b", 1) become ``{"a": [0, 2], "b": [1]}``. Faust's metadata
    have this form.

    >>> partitions_by_topic([("t", 1), ("s", 0), ("t", 0)])
    {'t': [1, 0], 's': [0]}
    """
    by_topic: dict[str, list[int]] = {}
    for topic, number in pairs:
        by_topic.setdefault(topic, []).append(number)
    return by_topic


class PreviousCopies(NamedTuple):
    """Members that had a copy of each partition before the rebalance, as active member or standby.

    A partition here stands for all copartitioned topics. Members are indices of
    `CopartitionedTopics.members`. Members that left are not among them.

    Attributes:
        owner: the active member, -1 for none.
        standbys: the members with a standby, ascending, without the active one.
    """

    owner: list[int]
    standbys: list[list[int]]


def find_previous_owners(
    topics: CopartitionedTopics, metadata: Sequence[FaustMetadata]
) -> PreviousCopies:
    """Find the previous active member and standbys of each partition in the members' reports.

    If several members report a partition as active, the owner is the one that reports it for most
    topics, then the one that joined first. Unknown partition numbers are ignored.

    Args:
        topics: topics that Faust assigns together.
        metadata: what each member reports about its previous partitions.

    >>> topics = CopartitionedTopics(0, 2, ("s", "t"), (0, 1))
    >>> reported = [FaustMetadata({"s": [0, 9]}), FaustMetadata({"t": [1]}, {"t": [0]})]
    >>> find_previous_owners(topics, reported)
    PreviousCopies(owner=[0, 1], standbys=[[1], []])
    """
    claims: list[list[tuple[int, int]]] = [[] for _ in range(topics.partitions)]
    standbys: list[list[int]] = [[] for _ in range(topics.partitions)]
    for position, member in enumerate(topics.members):
        for p, times in _count_topics(metadata[member].actives, topics).items():
            claims[p].append((-times, position))
        for p in _count_topics(metadata[member].standbys, topics):
            standbys[p].append(position)
    owner = [min(claimants)[1] if claimants else -1 for claimants in claims]
    return PreviousCopies(
        owner, [[m for m in standbys[p] if m != owner[p]] for p in range(topics.partitions)]
    )


def _count_topics(by_topic: ByTopic, topics: CopartitionedTopics) -> Counter[int]:
    return Counter(
        p
        for topic in topics.topics
        for p in set(by_topic.get(topic, ()))
        if 0 <= p < topics.partitions
    )


# --- warnings ---


def collect_warnings(
    problem: Problem,
    groups: Sequence[CopartitionedTopics],
    without_partitions: Sequence[str],
    settings: FaustSettings,
) -> tuple[str, ...]:
    """Return warnings about topics and settings that Faust would silently accept.

    Examples are missing topics, too few members for the standbys, changelog topics without
    subscribers, and changelogs whose partition counts differ from those of their source topics.

    Args:
        problem: the consumer group and the cluster.
        groups: the sets of copartitioned topics.
        without_partitions: subscribed topics that do not exist.
        settings: the leader's settings.
    """
    return (
        *missing_topics(problem.group, problem.cluster),
        *(
            f"topic {name} is subscribed to and has no partitions"
            for name in without_partitions
            if problem.cluster.topic(name) >= 0
        ),
        *_unsubscribed_changelogs(problem, settings),
        *_misplaced_changelogs(groups, settings),
        *_missing_standbys(groups, settings),
    )


def _unsubscribed_changelogs(problem: Problem, settings: FaustSettings) -> list[str]:
    if not settings.changelogs:
        return []
    subscribed = {topic for names in problem.group.subscriptions for topic in names}
    return [
        f"{CHANGELOGS} names {topic!r}, to which no member subscribes: ignored"
        for topic in settings.changelogs
        if topic not in subscribed
    ]


def _misplaced_changelogs(
    groups: Sequence[CopartitionedTopics], settings: FaustSettings
) -> list[str]:
    # User data do not name the source topic of a table. A changelog is certainly assigned apart
    # from its source if no source topic with a common subscriber has as many partitions.
    changelogs, global_changelogs = settings.all_changelogs, set(settings.global_changelogs)
    warnings = []
    for group in groups:
        here = [t for t in group.topics if t in changelogs or t.endswith(_CHANGELOG_SUFFIX)]
        if any(t not in here and not t.endswith(_LEADER_SUFFIX) for t in group.topics):
            continue
        sources = {
            topic: other.partitions
            for other in groups if set(group.members) & set(other.members)
            for topic in other.topics
            if topic not in changelogs and not topic.endswith((_CHANGELOG_SUFFIX, _LEADER_SUFFIX))
        }  # fmt: skip
        if not sources:
            continue
        counts = _join_names([f"{topic} has {count}" for topic, count in sorted(sources.items())])
        warnings += [
            f"changelog {topic} has {group.partitions} partitions and no source topic has as many "
            f"({counts}): its partitions are placed apart from those of its source; give both "
            "topics the same number of partitions"
            for topic in here if topic not in global_changelogs
        ]  # fmt: skip
    return warnings


def _missing_standbys(groups: Sequence[CopartitionedTopics], settings: FaustSettings) -> list[str]:
    if not settings.replicas_are_configured:
        return []
    topics: dict[int, list[str]] = {}
    for group in groups:
        topics.setdefault(len(group.members), []).extend(group.topics)
    return [
        f"standbys of each partition: {settings.replicas} configured, {members - 1} possible with "
        f"{members} member{'s' if members > 1 else ''} ({_join_names(sorted(names))})"
        for members, names in sorted(topics.items()) if settings.replicas > members - 1
    ]  # fmt: skip


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES_IN_WARNING
    return ", ".join(names[:_MAX_NAMES_IN_WARNING]) + (f" and {more} more" if more > 0 else "")
