"""Who reads what at every moment: how each protocol gets from one assignment to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from partage.model.index import Int32Array
from partage.simulation.consumers import EMPTY, SimulatedConsumer
from partage.simulation.loop import Loop
from partage.simulation.policies import CONSUMER, Policy

__all__ = ["Reading", "Watch"]

#: (time in ms, member -> dense numbers of what it reads): called whenever that changes.
Watch: TypeAlias = Callable[[int, Mapping[str, Int32Array]], None]

#: group.consumer.heartbeat.interval.ms, the coordinator's default: members hear of a new
#: target by their heartbeats.
_HEARTBEAT_MS = 5_000


class Reading:
    """What members read, told to whoever watches; without a watcher nothing is followed.

    Eager members stop, and begin again together. Cooperative ones stop what they lose, then
    get what nobody has. In the consumer protocol each member reconciles by itself, at its own
    heartbeat: it gives up what is not in its target, and takes of it what nobody reads.
    """

    def __init__(self, loop: Loop, watch: Watch | None) -> None:
        self._loop, self._watch = loop, watch
        self._reads: dict[str, Int32Array] = {}
        self._target: dict[str, Int32Array] = {}

    def before(self, consumers: Sequence[SimulatedConsumer]) -> Mapping[str, Int32Array]:
        """What everybody holds before a rebalance."""
        return {} if self._watch is None else {one.key: one.held for one in consumers}

    def after(
        self,
        consumers: Sequence[SimulatedConsumer],
        before: Mapping[str, Int32Array],
        policy: Policy,
    ) -> None:
        """The rebalance is decided: members go from what they held to what they hold now."""
        if self._watch is None:
            return
        self._target = {one.key: one.held for one in consumers}
        if policy.protocol == CONSUMER:
            for turn in (1, 2):  # once to give up, once more to take what others gave up
                for i, key in enumerate(self._target, 1):
                    wait = _HEARTBEAT_MS * (turn - 1) + _HEARTBEAT_MS * i // len(self._target)
                    self._loop.after(wait, partial(self._beats, key), rank=-2)
            return
        kept = EMPTY if policy.eager else None
        between = {
            key: kept if kept is not None else before[key][np.isin(before[key], now)]
            for key, now in self._target.items()
        }
        for step in (between, dict(self._target)):
            self._reads = step
            self._tell()

    def ends(self, key: str) -> None:
        """A member is no longer in the group."""
        if self._watch is not None:
            self._target.pop(key, None)
            if self._reads.pop(key, None) is not None:
                self._tell()

    def _beats(self, key: str) -> None:
        target = self._target.get(key)
        if target is None:
            return
        others = [mine for other, mine in self._reads.items() if other != key]
        taken = np.concatenate([*others, EMPTY])
        self._reads[key] = target[~np.isin(target, taken)]
        self._tell()

    def _tell(self) -> None:
        if self._watch is not None:
            self._watch(self._loop.now_ms, dict(self._reads))
