"""Who subscribes to what, when subscriptions differ: by distinct subscription, not by member."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.distinct import distinct
from partage.groups.sticky.scene import Scene
from partage.model.index import Int32Array

__all__ = ["Audience"]


class Audience:
    """Subscriptions as the general algorithm counts them; a repeated name counts twice.

    Attributes:
        listed: for each distinct subscription its known topics in the order sent, repeats kept.
        of_member: int32[M], subscription of each member.
        start, topic: the same without repeats, ascending (CSR).
        entries: int64[K], how often members list a topic.
        most: int64[M], the most partitions that Kafka thinks a member can have.
        order: int32[K], topics by (entries, name).
    """

    def __init__(self, scene: Scene) -> None:
        group = scene.problem.group
        number_of = scene.topic_by_name
        topics = len(scene.topics)
        self.of_member: Int32Array = group.subscription_of
        self.listed: list[Int32Array] = [
            np.array([number_of[n] for n in names if n in number_of], np.int32)
            for names in group.subscriptions
        ]
        without_repeats = [distinct(one) for one in self.listed]
        self.start = np.zeros(len(without_repeats) + 1, np.int32)
        np.cumsum([len(one) for one in without_repeats], out=self.start[1:])
        self.topic: Int32Array = np.concatenate([np.zeros(0, np.int32), *without_repeats])
        members = np.bincount(self.of_member, minlength=len(self.listed))
        self.entries = np.zeros(topics, np.int64)
        most = np.zeros(len(self.listed), np.int64)
        for s, one in enumerate(self.listed):
            np.add.at(self.entries, one, members[s])
            every = len(one) == topics
            most[s] = scene.partitions if every else scene.counts[one].sum(dtype=np.int64)
        self.most: NDArray[np.int64] = most[self.of_member]
        self.order: Int32Array = np.argsort(self.entries, kind="stable").astype(np.int32)
        self._topics = topics

    @property
    def shared(self) -> NDArray[np.bool_]:
        """bool[K]: topics that can be moved from one subscriber to another."""
        return self.entries >= 2

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        subscription = np.repeat(np.arange(len(self.listed), dtype=np.int64), np.diff(self.start))
        return subscription * max(self._topics, 1) + self.topic

    def subscribed(self, member: Int32Array, topic: Int32Array) -> NDArray[np.bool_]:
        """bool[n]: whether each member subscribes to the topic beside it."""
        if not len(self._keys):
            return np.zeros(len(member), bool)
        wanted = self.of_member[member].astype(np.int64) * max(self._topics, 1) + topic
        at = np.searchsorted(self._keys, wanted)
        at[at == len(self._keys)] = 0
        found: NDArray[np.bool_] = self._keys[at] == wanted
        return found
