"""A problem as the Python clients' assignors see it: lists, sorted by code points."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from partage.model import Plan, Problem
from partage.model.index import Int32Array

__all__ = ["PeerScene"]


class PeerScene:
    """Topics in order of their names' code points (Java's order differs beyond U+FFFF).

    The clients ask for metadata of the topics that the group subscribes to, so a topic
    without subscriber is not there; one without partitions has no effect and is left out.

    Attributes:
        problem: the problem.
        topics: the cluster's numbers of the topics, in order; "topic" below is a position here.
        start: where each topic's spots begin; a spot is a partition's position in ``dense``.
        dense: int32[S], the cluster's number of each spot, by topic and partition number.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        names = problem.index.topics
        wanted = {t for topics in problem.subscription_topics for t in topics.tolist()}
        lists = {t: problem.cluster.partitions_of(t) for t in wanted}
        self.topics = sorted((t for t in wanted if len(lists[t])), key=lambda t: names[t])
        self.start = [0]
        for t in self.topics:
            self.start.append(self.start[-1] + len(lists[t]))
        empty = np.zeros(0, np.int32)
        self.dense: Int32Array = np.concatenate([empty, *(lists[t] for t in self.topics)])
        self.dense = self.dense.astype(np.int32)

    @cached_property
    def place(self) -> dict[str, int]:
        """Topic by name."""
        return {self.problem.index.topics[t]: k for k, t in enumerate(self.topics)}

    @cached_property
    def subscribed(self) -> list[tuple[int, ...]]:
        """By member the topics it names, in the order sent, a repeated name again."""
        place, group = self.place, self.problem.group
        by_class = [tuple(place[n] for n in names if n in place) for names in group.subscriptions]
        return [by_class[c] for c in group.subscription_of.tolist()]

    @cached_property
    def audience(self) -> list[list[int]]:
        """By topic its subscribers in join order; who names it twice stands there twice."""
        out: list[list[int]] = [[] for _ in self.topics]
        for member, topics in enumerate(self.subscribed):
            for k in topics:
                out[k].append(member)
        return out

    @cached_property
    def id_rank(self) -> list[int]:
        """By member the rank of its id in order of code points."""
        ids = self.problem.group.ids
        rank = [0] * len(ids)
        for r, m in enumerate(sorted(range(len(ids)), key=ids.__getitem__)):
            rank[m] = r
        return rank

    @cached_property
    def topic_of(self) -> list[int]:
        """By spot its topic."""
        return [k for k in range(len(self.topics)) for _ in range(self.start[k], self.start[k + 1])]

    @cached_property
    def spot_by_number(self) -> list[dict[int, int]]:
        """By topic: partition number -> spot."""
        number = self.problem.index.number_of[self.dense].tolist()
        return [
            {number[s]: s for s in range(self.start[k], self.start[k + 1])}
            for k in range(len(self.topics))
        ]

    def name(self, spot: int) -> str:
        """Return a partition's name, as topic-number."""
        topic, number = self.problem.index.name(int(self.dense[spot]))
        return f"{topic}-{number}"

    def plan(self, lists: Sequence[Sequence[int]], **more: object) -> Plan:
        """Return a plan from each member's partitions."""
        group = self.problem.group
        dense = [self.dense[np.array(mine, np.int32)] for mine in lists]
        made: Plan = Plan.from_lists(self.problem.index, group.ids, dense, **more)
        return made
