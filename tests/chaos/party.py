"""A group that is about to be hurt: who is in it, what they should own, whether it is well again."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.clients.members import AIOKAFKA, KAFKA_PYTHON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.clients.members import Host, One

CLIENTS = ("java", *KAFKA_PYTHON, *AIOKAFKA)
PYTHON = (*KAFKA_PYTHON, *AIOKAFKA)
# What kafka-python 3 and Java can; the others revoke everything before they join.
_COOPERATIVE = {"java", KAFKA_PYTHON[-1]}
_priorities = itertools.count(1)
_numbers = itertools.count(1)


def members_of(strategy: str) -> Sequence[str]:
    """The clients that can sit in a group of a strategy: Java has its own five, ours has more."""
    return PYTHON if strategy in {"optimal", "server:uniform"} else CLIENTS


def listed(client: str, strategy: str) -> tuple[str, dict[str, Any]]:
    """A strategy as one member of a client lists it."""
    if strategy == "failover":
        key = "assignment_consumer_priority" if client == "java" else "priority"
        return strategy, {key: next(_priorities)}
    if strategy == "optimal":
        return strategy, {"weights": "throughput"}
    eager = strategy == "cooperative-sticky" and client not in _COOPERATIVE
    return strategy, {"eager": True} if eager else {}


@dataclass
class Party:
    """One group on one topic of its own.

    Attributes:
        partitions: that the topic has now; it grows.
        live: members that are at work; a frozen one is not, one that was killed or leaves is not.
        all: everybody who ever was in it, for what they read and reported.
        since: when it was seen well the last time.
    """

    group: str
    topic: str
    strategy: str
    bootstrap: str
    partitions: int
    session: int
    live: list[One] = field(default_factory=list)
    all: list[One] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)

    @property
    def clients(self) -> Sequence[str]:
        """Whose members can sit in it."""
        return members_of(self.strategy)

    def join(self, host: Host) -> None:
        """A member more, in a client's process; every fourth one is static, where its client can."""
        number = next(_numbers)
        static = number % 4 == 0 and host.client != KAFKA_PYTHON[0]
        one = host.start(
            instance=f"at-{number}" if static else None,
            bootstrap=self.bootstrap, group=self.group, topics=[self.topic], session=self.session,
            strategies=[listed(host.client, self.strategy)],
            # Idle members should cost little: it is the machine that must not be what fails.
            fetch_max_wait_ms=1000, heartbeat_interval_ms=self.session // 6,
        )  # fmt: skip
        self.live.append(one)
        self.all.append(one)

    def leave(self, one: One) -> None:
        """In good order; who waits for it finds that its partitions are missed until it is gone."""
        self.live.remove(one)
        one.host.tell({"do": "close", "id": one.id})

    def without(self, host: Host) -> list[One]:
        """The members of a process that stands still or is dead no longer count; answers them."""
        lost = [one for one in self.live if one.host is host]
        self.live = [one for one in self.live if one.host is not host]
        return lost

    @property
    def wanted(self) -> set[tuple[str, int]]:
        return {(self.topic, p) for p in range(self.partitions)}

    @property
    def wrong(self) -> str:
        """Empty if every partition has one owner, and all live members are in one generation."""
        owners = Counter(p for one in self.live for p in one.owns)
        said = []
        if several := sorted(p for p, n in owners.items() if n > 1):
            said.append(f"several owners of {several}")
        if missed := sorted(self.wanted - owners.keys()):
            said.append(f"nobody owns {missed}")
        if strange := sorted(owners.keys() - self.wanted):
            said.append(f"there is no {strange}")
        if len({one.generation for one in self.live}) != 1:
            said.append("several generations")
        if not said:
            return ""
        each = ", ".join(
            f"{m.id}@{m.generation} has {len(m.owns)} {m.errors[-1:]}" for m in self.live
        )
        return f"{self.group}: {'; '.join(said)} ({each})"

    def reports(self) -> dict[tuple[int, str], set[tuple[str, int]]]:
        """What members said that they were given, by generation and member id; the last word."""
        return {
            (event["generation"], event["member"]): {(t, p) for t, p in event["owns"]}
            for one in self.all for event in one.events
            if event["event"] == "assigned" and event["generation"] >= 0
        }  # fmt: skip

    @property
    def settled(self) -> int:
        """Generations in which a member received an assignment, an empty one included."""
        return len({generation for generation, _ in self.reports()})

    def read(self) -> set[tuple[str, int, int]]:
        """Every record that a member read."""
        return {record for one in self.all for record in one.read}

    def broken(self) -> list[str]:
        """Errors that no broker's fate explains: a strategy that failed, a class that was shared."""
        return [
            f"{one.id}: {what}" for one in self.all for what in one.errors
            if "AssignorError" in what or "ClassInUse" in what or "failed in group" in what
        ]  # fmt: skip
