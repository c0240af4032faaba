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
    """

    ends: Mapping[TaskId, int] = field(default_factory=dict)
    lags: Mapping[tuple[str, TaskId], int] = field(default_factory=dict)
