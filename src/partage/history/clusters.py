"""The cluster's metadata over time: one numbering for the whole history, a mask at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from partage.errors import InvalidCaptureError, InvalidProblemError
from partage.model import Cluster, Index

__all__ = ["ClusterHistory"]


#: Clusters kept made: a group's history is read in time order, and groups live side by side.
_STATES_KEPT = 256


class ClusterHistory:
    """States of the metadata in time order, each a `Cluster` over one growing `Index`.

    Args:
        states: the lines of a capture's ``cluster.jsonl``: ``ts_ms``, ``brokers``, ``topics``.

    Attributes:
        times: ``ts_ms`` of each state, ascending.
        index: the numbering of all topics and partitions that ever were.
        state: position of a state -> its `Cluster`; -1 is a cluster without topics.

    Raises:
        InvalidCaptureError: a state is malformed; says which line and which field.

    >>> one = {"ts_ms": 5, "brokers": [], "topics": {"t": {"id": "x", "partitions": [{"p": 0}]}}}
    >>> history = ClusterHistory([one, {"ts_ms": 9, "brokers": [], "topics": {}}])
    >>> history.at(7).partitions_of("t").tolist(), history.at(9).partitions_of("t").tolist()
    ([0], [])
    """

    def __init__(self, states: Sequence[Mapping[str, Any]]) -> None:
        for i, state in enumerate(states):
            _expect_state(state, f"cluster.jsonl line {i + 1}")
        self._states = sorted(states, key=lambda s: s["ts_ms"])
        self.times: list[int] = [s["ts_ms"] for s in self._states]
        self.index = self._numbered()
        self.state = lru_cache(maxsize=_STATES_KEPT)(self._state)

    def _numbered(self) -> Index:
        """Topics and partitions in order of appearance, each once."""
        counts: dict[tuple[str, str | None], int] = {}
        rows: list[tuple[str, str | None, int]] = []
        for state in self._states:
            for name, topic in state["topics"].items():
                count = max((p["p"] for p in topic["partitions"]), default=-1) + 1
                key = (name, topic.get("id"))
                if counts.get(key, -1) < count:
                    counts[key] = count
                    rows.append((*key, count))
        return Index.of({}).extended(rows)

    def position_at(self, time_ms: int) -> int:
        """Position of the state with the largest ``ts_ms`` <= time; -1 if all are later."""
        return bisect_right(self.times, time_ms) - 1

    def assumed_at(self, time_ms: int) -> bool:
        """Return whether the metadata was not recorded by then, but is assumed."""
        position = self.position_at(time_ms)
        return position < 0 or bool(self._states[position].get("assumed"))

    def at(self, time_ms: int) -> Cluster:
        """The cluster at a time; before the first state, a cluster without topics.

        Raises:
            InvalidCaptureError: that state is malformed.
        """
        return self.state(self.position_at(time_ms))

    def _state(self, position: int) -> Cluster:
        state = self._states[position] if position >= 0 else {"topics": {}, "brokers": []}
        try:
            return Cluster.from_metadata(state["topics"], state["brokers"], self.index)
        except InvalidProblemError as e:
            at = f"cluster.jsonl, state of ts_ms {self.times[position]}"
            raise InvalidCaptureError(f"{at}: {e}") from None

    def check(self) -> None:
        """Look at every state once.

        Raises:
            InvalidCaptureError: a state is malformed; says which one and what.
        """
        for position in range(len(self._states)):
            self._state(position)

    def topics_changed(self, names: Sequence[str], before: int, after: int) -> tuple[str, ...]:
        """Topics of ``names`` that appeared, vanished, grew or were made anew between two
        states (positions).
        """
        if before == after:
            return ()
        a, b = self.state(before), self.state(after)
        return tuple(
            name
            for name in dict.fromkeys(names)
            if a.topic(name) != b.topic(name)
            or len(a.partitions_of(name)) != len(b.partitions_of(name))
        )

    def racks(self) -> dict[int, str]:
        """The rack of each broker, by id, as last known."""
        return {b["id"]: b["rack"] for s in self._states for b in s["brokers"] if b.get("rack")}


def _expect_state(state: object, where: str) -> None:
    """Enough of the shape to number it; `Cluster.from_metadata` checks the rest."""
    if not isinstance(state, Mapping):
        raise InvalidCaptureError(f"{where}: must be an object; record the metadata again")
    ts_ms = state.get("ts_ms")
    if not isinstance(ts_ms, int) or isinstance(ts_ms, bool):
        raise InvalidCaptureError(f"{where}: ts_ms must be milliseconds as an int, got {ts_ms!r}")
    topics, brokers = state.get("topics"), state.get("brokers")
    if not isinstance(brokers, list) or not all(isinstance(b, Mapping) for b in brokers):
        raise InvalidCaptureError(f"{where}: brokers must be a list of objects")
    if not isinstance(topics, Mapping):
        raise InvalidCaptureError(f"{where}: topics must be an object, name -> topic")
    for name, topic in topics.items():
        _expect_topic(topic, f"{where}: topics.{name}")


def _expect_topic(topic: object, where: str) -> None:
    if not isinstance(topic, Mapping):
        raise InvalidCaptureError(f"{where} must be an object")
    if not isinstance(topic.get("id"), (str, type(None))):
        raise InvalidCaptureError(f"{where}.id must be text or null")
    parts = topic.get("partitions")
    if not isinstance(parts, list):
        raise InvalidCaptureError(f"{where}.partitions must be a list of objects with an int p")
    for i, part in enumerate(parts):
        number = part.get("p") if isinstance(part, Mapping) else None
        if not isinstance(number, int) or isinstance(number, bool):  # JSON's true is no number
            raise InvalidCaptureError(f"{where}.partitions[{i}] must be an object with an int p")
