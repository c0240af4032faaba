"""Members of living groups, driven by tests: processes of Java, kafka-python and aiokafka.

with Host("java") as java, Host("kafka-python-3.0.12") as python:
a = java.start(group="g", topics=["t"], strategies=["sticky"], bootstrap=...)
b = python.start(group="g", ...)
settle([a, b])           # each partition has one owner
a.owns, a.generation
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.jvm import ROOT, java, jvm_classpath
from tests.support.processes import Closes, client_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_count = itertools.count()
KAFKA_PYTHON = ("kafka-python-2.0.2", "kafka-python-2.3.3", "kafka-python-3.0.12")
AIOKAFKA = ("aiokafka-0.10.0", "aiokafka-0.14.0")
JAVA_CLASSES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "failover": "io.partage.live.FailoverAssignor",
    "optimal": "io.partage.assignors.client.OptimalAssignor",
}


@dataclass(eq=False)
class One:
    """A member and its events so far."""

    host: Host
    id: str
    group: str
    events: list[dict[str, Any]] = field(default_factory=list)
    _newest: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)

    def take(self, event: dict[str, Any]) -> None:
        self._newest[event["event"]] = (len(self.events), event)
        self.events.append(event)

    def _last(self, *kinds: str) -> dict[str, Any]:
        found = [self._newest[kind] for kind in kinds if kind in self._newest]
        return max(found, key=lambda one: one[0])[1] if found else {}

    @property
    def owns(self) -> set[tuple[str, int]]:
        """Its partitions now; between revocation and assignment the eager one has none."""
        last = self._last("assigned", "revoked", "lost", "closed")
        if last.get("event") != "assigned" and "owns" not in last:
            return set()
        gone = {tuple(p) for p in last["partitions"]} if last["event"] != "assigned" else set()
        return {(t, p) for t, p in last["owns"]} - gone

    @property
    def generation(self) -> int:
        return int(self._last("assigned").get("generation", -1))

    @property
    def member(self) -> str:
        """Its member id."""
        return str(self._last("assigned").get("member", ""))

    @property
    def read(self) -> list[tuple[str, int, int]]:
        """Records that it read, in order."""
        return [tuple(r) for e in self.events if e["event"] == "read" for r in e["records"]]

    @property
    def errors(self) -> list[str]:
        return [e["what"] for e in self.events if e["event"] == "error"]

    def close(self) -> None:
        """Leave the group in good order."""
        self.host.tell({"do": "close", "id": self.id})
        wait(lambda: any(e["event"] == "closed" for e in self.events), f"{self.id} closes")


class Host(Closes):
    """A process with members in it; ended by its id."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.members: dict[str, One] = {}
        self.logs: list[dict[str, Any]] = []
        if client == "java":
            command = [java(), "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
            command += ["-cp", jvm_classpath(), "io.partage.live.Member"]
        else:
            kind = "kafka" if client.startswith("kafka-python") else "aiokafka"
            command = [client_python(client), str(ROOT / "tests" / "clients" / "member.py"), kind]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if not os.environ.get("PARTAGE_MEMBERS_TALK") else None,
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def start(
        self,
        *,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        strategies: Sequence[str | tuple[str, dict[str, Any]]] = (),
        session: int = 30000,
        instance: str | None = None,
        poll_ms: int = 1000,
        **properties: Any,
    ) -> One:
        """A member more; properties by Kafka's names with ``_`` for dots; ``poll_ms`` is how long a
        poll of kafka-python waits.
        """
        one = One(self, f"{self.client}/{next(_count)}", group)
        self.members[one.id] = one
        shared: dict[str, Any] = {
            "bootstrap_servers": bootstrap, "group_id": group, "auto_offset_reset": "earliest",
            "session_timeout_ms": session, "heartbeat_interval_ms": max(session // 12, 100),
            "metadata_max_age_ms": 2000, "enable_auto_commit": False,
            **({"group_instance_id": instance} if instance else {}), **properties,
        }  # fmt: skip
        if properties.get("group_protocol") == "consumer":
            # KIP-848: the broker says how often, and who gets what.
            for name in ("session_timeout_ms", "heartbeat_interval_ms"):
                del shared[name]
        listed = [(s, {}) if isinstance(s, str) else s for s in strategies]
        request: dict[str, Any] = {"do": "start", "id": one.id, "topics": list(topics)}
        request["poll_ms"] = poll_ms
        if self.client == "java":
            more = {k: v for _, options in listed for k, v in options.items()}
            values = {k.replace("_", "."): v for k, v in (shared | more).items()}
            classes = ",".join(JAVA_CLASSES[name] for name, _ in listed)
            if classes:
                values["partition.assignment.strategy"] = classes
            request["properties"] = {k: _java(v) for k, v in values.items()}
        else:
            request |= {"assignors": listed, "options": shared}
        self.tell(request)
        return one

    def tell(self, line: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break  # it was killed in the middle of a word
            event = json.loads(line)
            if event["id"]:
                self.members[event["id"]].take(event)
            else:
                self.logs.append(event)

    def pause(self) -> None:
        """SIGSTOP: it stands still, and believes that nothing has happened when it goes on."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, by its id."""
        self.process.kill()
        self.process.wait()

    close = kill


def _java(value: Any) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)  # fmt: skip


def wait(until: Callable[[], bool], what: str, seconds: float = 150.0) -> None:
    """Repeat a check until it holds; fail with ``what`` when it takes too long."""
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.02)


def settle(
    members: Iterable[One], partitions: Iterable[tuple[str, int]], *, seconds: float = 150.0
) -> None:
    """Wait until these members, in one generation, have each partition once between them."""
    some, wanted = list(members), sorted(partitions)

    def settled() -> bool:
        have = sorted(p for one in some for p in one.owns)
        return have == wanted and len({one.generation for one in some}) == 1

    def seen() -> str:
        return "; ".join(f"{m.id}@{m.generation} {sorted(m.owns)} {m.errors[-1:]}" for m in some)

    end = time.monotonic() + seconds
    while not settled():
        assert time.monotonic() < end, f"not settled within {seconds:.0f} s: {seen()}"
        time.sleep(0.02)


def every(topics: dict[str, int]) -> list[tuple[str, int]]:
    """All partitions of some topics."""
    return [(topic, p) for topic, count in topics.items() for p in range(count)]
