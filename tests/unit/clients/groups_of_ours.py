"""Groups of consumers without a broker: what they would send each other, played by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from partage.clients.shared import ClusterView, Consumer, Joined, configure_strategy
from partage.wire.consumer_protocol import decode_assignment, decode_subscription

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from partage.clients.shared import SyncGroupAssignments


def view(topics: Mapping[str, int]) -> ClusterView:
    return ClusterView({t: {p: [1] for p in range(n)} for t, n in topics.items()}, {1: None})


@dataclass
class Live:
    """An eager group: all members revoke, join, and the first one decides."""

    view: ClusterView
    consumers: dict[str, Consumer] = field(default_factory=dict)
    generation: int = 0
    measure: Callable[[str, int], float] | None = None
    answer: SyncGroupAssignments | None = None

    def join(self, member: str, strategy: str, **options: Any) -> None:
        self.consumers[member] = Consumer(configure_strategy(strategy, options))

    def rebalance(self, leader: str | None = None) -> dict[str, set[tuple[str, int]]]:
        self.generation += 1
        topics = sorted(self.view.topics)
        sent = [
            Joined(i, one.subscription(topics, measured=self._measured(one)))
            for i, one in self.consumers.items()
        ]
        chief = self.consumers[leader or next(iter(self.consumers))]
        self.answer = chief.assign(sent, self.view, group="g", generation=self.generation)
        out = {}
        for member, data in self.answer.sent.items():
            got = decode_assignment(data)
            self.consumers[member].store_assignment(got.partitions, got.user_data, self.generation)
            out[member] = set(got.partitions)
        return out

    def _measured(self, one: Consumer) -> dict[tuple[str, int], float]:
        return {} if self.measure is None else {p: self.measure(*p) for p in one.owned}


def sent(one: Consumer, topics: list[str], **more: Any) -> Any:
    return decode_subscription(one.subscription(topics, **more))
