"""What came of it: who ran what when, and the rebalances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from partage.streams import TaskId

__all__ = ["Kind", "Played", "Rebalanced", "Recorder", "Span"]

#: running: an active that has all its state; restoring: one that has not; stopped: one in a
#: rebalance in which the whole group stops (before Kafka 2.4).
Kind = Literal["running", "restoring", "stopped", "standby", "warm-up"]


@dataclass(frozen=True)
class Span:
    """A task on a client for some time, from `from_ms` up to `to_ms`."""

    client: str
    task: TaskId
    kind: Kind
    from_ms: int
    to_ms: int


@dataclass(frozen=True)
class Rebalanced:
    """A rebalance.

    Attributes:
        began_ms: when its first cause came up.
        at_ms: when everybody had its assignment.
        causes: in the order in which they came up.
        active: tasks of each client by the plan.
        standby: the same for standbys and warm-ups.
        warmups: (client, task) of the warm-ups among them.
        withheld: tasks that somebody else had to give up first.
        probing: whether lags are looked at again after the probing interval.
        given: of each client's threads in order: active tasks, in a classic group without
            those withheld, and standbys.
    """

    began_ms: int
    at_ms: int
    causes: tuple[str, ...]
    active: Mapping[str, tuple[TaskId, ...]]
    standby: Mapping[str, tuple[TaskId, ...]]
    warmups: tuple[tuple[str, TaskId], ...] = ()
    withheld: tuple[TaskId, ...] = ()
    probing: bool = False
    given: Mapping[str, tuple[tuple[tuple[TaskId, ...], tuple[TaskId, ...]], ...]] = field(
        default_factory=dict
    )


@dataclass
class Played:
    """A simulation that is over.

    Attributes:
        length_ms: of the simulation.
        tasks: all of them.
        threads: of each client.
        spans: in the order in which they ended.
        present: client -> the times from and to which it was up.
        rebalances: in order, the first one included.
        restored_bytes: that copies read because they were behind.
        followed_bytes: that caught-up standbys read to stay so.
        cross_rack_bytes: read from another rack: sources, and changelogs.
        spare_byte_ms: bytes of state beside that of the actives, over time.
    """

    length_ms: int
    tasks: tuple[TaskId, ...]
    threads: Mapping[str, int]
    spans: list[Span] = field(default_factory=list)
    present: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    rebalances: list[Rebalanced] = field(default_factory=list)
    restored_bytes: float = 0.0
    followed_bytes: float = 0.0
    cross_rack_bytes: float = 0.0
    spare_byte_ms: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Rebalances and spans as JSON has them, times in seconds."""
        return {
            "rebalances": [
                {
                    "began": one.began_ms / 1000,
                    "at": one.at_ms / 1000,
                    "causes": list(one.causes),
                    "active": _named(one.active),
                    "standby": _named(one.standby),
                    "warmups": [[client, str(task)] for client, task in one.warmups],
                    "withheld": [str(task) for task in one.withheld],
                    "probing": one.probing,
                }
                for one in self.rebalances
            ],
            "spans": [
                {
                    "client": one.client,
                    "task": str(one.task),
                    "kind": one.kind,
                    "from": one.from_ms / 1000,
                    "to": one.to_ms / 1000,
                }
                for one in sorted(self.spans, key=lambda one: (one.from_ms, one.client, one.task))
            ],
        }


def _named(rows: Mapping[str, tuple[TaskId, ...]]) -> dict[str, list[str]]:
    return {client: [str(task) for task in tasks] for client, tasks in rows.items()}


class Recorder:
    """Turns what is seen at each moment into spans."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self._open: dict[tuple[str, TaskId], tuple[Kind, int]] = {}
        self._up: dict[str, int] = {}

    def see(self, now_ms: int, seen: Mapping[tuple[str, TaskId], Kind]) -> None:
        """What there is from now on."""
        for key, (kind, since) in list(self._open.items()):
            if seen.get(key) != kind:
                del self._open[key]
                if now_ms > since:
                    self._played.spans.append(Span(*key, kind, since, now_ms))
        for key, kind in seen.items():
            self._open.setdefault(key, (kind, now_ms))

    def up(self, now_ms: int, client: str) -> None:
        """A client is there from now on."""
        self._up[client] = now_ms

    def down(self, now_ms: int, client: str) -> None:
        """A client is gone from now on."""
        self._played.present.setdefault(client, []).append((self._up.pop(client), now_ms))

    def end(self, now_ms: int) -> None:
        """It is over."""
        self.see(now_ms, {})
        for client in list(self._up):
            self.down(now_ms, client)
