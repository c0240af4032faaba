"""Which topics go together: those of equally many partitions with the same subscribers."""

from __future__ import annotations

from typing import NamedTuple

from partage.model import Problem

__all__ = ["Bundle", "bundles_of"]


class Bundle(NamedTuple):
    """Topics whose partitions of one number are always with one member.

    Attributes:
        group: number of the partition count among all counts, ascending. Bundles that differ
            in subscribers only share it, as in Faust.
        partitions: how many each topic has, numbered from 0.
        topics: names, sorted.
        members: positions of the subscribers, in join order.
    """

    group: int
    partitions: int
    topics: tuple[str, ...]
    members: tuple[int, ...]


def bundles_of(problem: Problem) -> tuple[list[Bundle], tuple[str, ...]]:
    """All bundles, fewest partitions first; and subscribed topics that have no partitions.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("a", ["s", "t", "u"]), Member("b", ["s", "gone"])])
    >>> found, missing = bundles_of(Problem(group, Cluster.from_topics({"s": 2, "t": 2, "u": 2})))
    >>> [(one.topics, one.members) for one in found], missing
    ([(('s',), (0, 1)), (('t', 'u'), (0,))], ('gone',))
    """
    together: dict[int, dict[tuple[int, ...], list[str]]] = {}
    missing = []
    for name in sorted({name for topics in problem.group.subscriptions for name in topics}):
        topic = problem.cluster.topic(name)
        # How many there are, as Faust's client counts them, whatever their numbers.
        count = len(problem.cluster.partitions_of(topic))
        if not count:
            missing.append(name)
            continue
        members = tuple(problem.members_of(topic).tolist())
        together.setdefault(count, {}).setdefault(members, []).append(name)
    found = [
        Bundle(group, count, tuple(topics), members)
        for group, (count, by_members) in enumerate(sorted(together.items()))
        for members, topics in by_members.items()
    ]
    return found, tuple(missing)
