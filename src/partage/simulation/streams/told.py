"""Lags that a real leader saw, in the place of those that the model would have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from partage.streams import TaskId

__all__ = ["Told"]


@dataclass(frozen=True)
class Told:
    """What was known of state when a rebalance was computed.

    Attributes:
        ends: records of each stateful task's changelogs.
        lags: (client, task) -> records that a copy lacks; -2 of an active that runs. A copy
            that is not named keeps the position that the model gives it.
        leader: the client that led; without it the one that has been there longest. Kafka goes
            by the hash of members' ids, which are drawn at random, when a leader is gone.
        tellers: (client, task) -> number of the thread that told of a copy; heeded for copies
            that no thread has open. The one that locks the directory first tells of those, a
            race of milliseconds between threads of a process; without it the first to join.
    """

    ends: Mapping[TaskId, int] = field(default_factory=dict)
    lags: Mapping[tuple[str, TaskId], int] = field(default_factory=dict)
    leader: str | None = None
    tellers: Mapping[tuple[str, TaskId], int] = field(default_factory=dict)
