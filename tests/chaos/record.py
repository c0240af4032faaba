"""Record a live cluster and what its clients report: the truth that estimates are measured against.

    python -m tests.chaos.record OUT --seed 1 --minutes 4

Three brokers on this machine, groups of five client libraries, and faults drawn from the seed. OUT
gets the files of a capture (``consumer_offsets.parquet``, ``batches.parquet``, ``cluster.jsonl``)
and the truth: ``events.jsonl`` (what was done), ``observed.jsonl.xz`` (what the members reported)
and ``groups.json`` (how they were configured). The faults are repeatable, their timing is not.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import lzma
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pyarrow.parquet as pq
from kafka import KafkaProducer
from kafka.errors import KafkaError
from tests.chaos import faults
from tests.clients.members import JAVA_CLASSES
from tests.support.brokers import brokers
from tests.support.jvm import java, jvm_classpath
from tests.support.processes import ROOT, Closes, built

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.support.brokers import Brokers

#: Topic -> partitions; ``growing`` gets more while it is recorded.
TOPICS = {
    "orders": 8, "payments": 6, "clicks": 10, "stock": 6, "alerts": 4, "growing": 3, "mail": 5,
}  # fmt: skip
#: Broker settings: nothing is compacted, and members may have short timeouts.
BROKER = {
    "log.cleaner.enable": "false",
    "offsets.topic.num.partitions": "6",
    "group.initial.rebalance.delay.ms": "300",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
#: Faults and their weights; which of them a group gets also depends on its clients.
FAULTS = {
    "add": 24, "leave": 18, "kill": 12, "freeze": 7, "short freeze": 4, "stall": 9,
    "short stall": 3, "bounce": 14, "resub": 6, "enforce": 7,
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """The configuration of one group.

    Attributes:
        langs: client libraries of its members.
        protocol: ``classic`` or ``consumer``.
        strategy: names in the order of ``partition.assignment.strategy``.
        lo, hi: fewest and most members.
        static: whether members have a ``group.instance.id``.
        same_client: whether all members have one client id.
        session, poll, commit: ``session.timeout.ms``, ``max.poll.interval.ms`` and
            ``auto.commit.interval.ms``.
        more: topics of which a change of subscription adds or removes one.
    """

    name: str
    langs: tuple[str, ...]
    topics: tuple[str, ...]
    strategy: tuple[str, ...] = ("range",)
    protocol: str = "classic"
    lo: int = 2
    hi: int = 4
    static: bool = False
    same_client: bool = False
    session: int = 6_000
    poll: int = 12_000
    commit: int = 1_000
    more: tuple[str, ...] = ()


def plans(rng: random.Random) -> list[Plan]:
    """Return the groups, with settings drawn from the seed."""
    sticky = ("cooperative-sticky",)
    made = [
        Plan("billing", ("java",), ("orders", "payments"), more=("mail",)),
        Plan("sessions", ("java",), ("clicks", "growing"), sticky, more=("mail",)),
        Plan("warehouse", ("java",), ("stock",), ("range", "cooperative-sticky"), static=True),
        Plan("fraud", ("java",), ("orders", "growing"), ("uniform",), "consumer", more=("alerts",)),
        Plan("ledger", ("java",), ("payments",), ("uniform",), "consumer", static=True),
        Plan("reports", ("kafka-python",), ("mail", "stock"), more=("alerts",)),
        Plan("exports", ("kafka-python",), ("clicks",), sticky),
        Plan("alerts", ("aiokafka",), ("alerts", "payments"), ("roundrobin",)),
        Plan("search", ("confluent",), ("clicks", "mail"), sticky, more=("stock",)),
        Plan("index", ("confluent",), ("orders",), static=True),
        Plan("notify", ("confluent",), ("mail", "growing"), ("uniform",), "consumer"),
        Plan("polyglot", ("java", "kafka-python", "aiokafka", "confluent"), ("stock", "growing")),
    ]
    out = []
    for plan in made:
        session = 6_000 if plan.protocol == "consumer" else rng.choice((5_000, 6_000, 8_000))
        drawn = {
            "session": session, "poll": session + rng.choice((4_000, 6_000, 9_000)),
            "commit": rng.choice((500, 1_000, 1_000, 2_000)),
            "same_client": rng.random() < 0.4, "hi": rng.choice((3, 4)),
        }  # fmt: skip
        out.append(Plan(**(asdict(plan) | drawn)))
    return out


def client_options(plan: Plan, lang: str, client_id: str, instance: str | None) -> dict[str, Any]:
    """Return a member's settings by Kafka's names with ``_`` for dots."""
    options: dict[str, Any] = {
        "group_id": plan.name, "client_id": client_id, "auto_offset_reset": "earliest",
        "enable_auto_commit": True, "auto_commit_interval_ms": plan.commit,
        "max_poll_interval_ms": plan.poll, "metadata_max_age_ms": 3_000,
    }  # fmt: skip
    if instance is not None:
        options["group_instance_id"] = instance
    if lang == "confluent":
        options["topic_metadata_refresh_interval_ms"] = 3_000
    if lang == "aiokafka":
        options["rebalance_timeout_ms"] = plan.poll
    if plan.protocol == "consumer":
        assignor = "group_remote_assignor"
        return {**options, "group_protocol": "consumer", assignor: plan.strategy[0]}
    options |= {
        "session_timeout_ms": plan.session,
        "heartbeat_interval_ms": min(3_000, plan.session // 4),
    }
    name = "partition_assignment_strategy"
    if lang == "java":
        options[name.replace("_", ".")] = ",".join(JAVA_CLASSES[s] for s in plan.strategy)
    else:
        listed = list(plan.strategy)
        options[name] = ",".join(listed) if lang == "confluent" else listed
    return options


class MemberProcess(Closes):
    """A process with members in it; each line that it prints goes to the recording."""

    def __init__(self, node: str, lang: str, take: Callable[[str, dict[str, Any]], None]) -> None:
        self.node = node
        self.members = 0
        if lang == "java":
            command = [java(), "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
            command += ["-cp", jvm_classpath(), "io.partage.live.Member"]
        else:
            python = ROOT / ".tools" / "peers" / "bin" / "python"
            command = [str(python), str(ROOT / "tests" / "chaos" / "recorded_member.py"), lang]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._listen, args=(take,), daemon=True)
        self._thread.start()

    def _listen(self, take: Callable[[str, dict[str, Any]], None]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n") and line.startswith("{"):  # a killed one may end in a line
                take(self.node, json.loads(line))

    def tell(self, request: dict[str, Any]) -> None:
        """Send a request; a process that has ended gets none."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)

    def close(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()


@dataclass(eq=False)
class RecordedMember:
    """A member and the process that it runs in."""

    id: str
    lang: str
    client_id: str
    instance: str | None
    topics: list[str]
    process: MemberProcess
    own_process: bool
    busy_until: float = 0.0


@dataclass
class RecordedGroup:
    """A group: its plan, its members, and when the next fault is due (``time.monotonic``)."""

    plan: Plan
    members: list[RecordedMember] = field(default_factory=list)
    free_instances: list[str] = field(default_factory=list)
    due: float = 0.0

    def remove(self, member: RecordedMember) -> None:
        """Remove a member; another one may use its instance id later."""
        self.members.remove(member)
        if member.instance is not None:
            self.free_instances.append(member.instance)


class Recording(Closes):
    """Groups under faults. `run` draws the faults; `events` and `observed` are the truth.

    Args:
        cluster: running, with the topics.
        rng: draws faults.
        seconds: how long faults are drawn.
    """

    #: Share of Java members with a process of their own; the others share two processes.
    own_share = 0.4
    #: Settings of the brokers that differ from `BROKER`.
    broker: ClassVar[dict[str, str]] = {}
    #: Seconds between two faults of one group: at least, and on average in addition.
    seconds_between = (4.0, 10.0)

    def __init__(self, cluster: Brokers, rng: random.Random, seconds: float) -> None:
        self.cluster = cluster
        self.events: list[dict[str, Any]] = []
        self.observed: list[dict[str, Any]] = []
        self._rng = rng
        self._seconds = seconds
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._group_of: dict[str, str] = {}
        self._closed: set[str] = set()
        self._partitions = dict(TOPICS)
        self._pending: list[tuple[float, int, Callable[[], None]]] = []
        self._all: list[MemberProcess] = []
        self._shared = [self._process(f"multi-{n}", "java") for n in (1, 2)]
        self._ended = threading.Event()
        self.groups = [RecordedGroup(plan) for plan in plans(rng)]
        threading.Thread(target=self._produce, daemon=True).start()

    # --- what is written down -----------------------------------------------------------------

    def note(self, what: str, **more: Any) -> None:
        """Write down something that is done now."""
        self.events.append({"ts_ms": time.time_ns() // 1_000_000, "what": what, **more})

    def _take(self, node: str, said: dict[str, Any]) -> None:
        """Write down what a member reports, in the form of ``observed.jsonl``."""
        event = {"ts_ms": int(said["at"] * 1000), "node": node, "id": said["id"],
                 "group": self._group_of.get(said["id"]), "ev": said["event"]}  # fmt: skip
        if said["event"] == "error":
            event |= {"ev": "poll_error", "error": said["what"][:200]}
        if said.get("member"):
            event["member"] = said["member"]
        if "generation" in said:
            event["epoch"] = said["generation"]
        if "partitions" in said:
            event["parts"] = _by_topic(said["partitions"])
        event |= {name: said[name] for name in ("ms", "topics") if name in said}
        with self._lock:
            self.observed.append(event)
            if said["event"] == "closed":
                self._closed.add(said["id"])

    def _produce(self) -> None:
        """Write one record a second to every partition."""
        producer = KafkaProducer(
            bootstrap_servers=self.cluster.bootstrap.split(","), acks=1, linger_ms=50,
            metadata_max_age_ms=2_000,
        )  # fmt: skip
        while not self._ended.wait(1.0):
            for topic, count in self._partitions.items():
                for p in range(count):
                    try:
                        producer.send(topic, partition=p, value=b"x")
                    except (KafkaError, AssertionError, ValueError):
                        continue  # the topic has just grown, or no broker answers

    # --- members --------------------------------------------------------------------------------

    def _process(self, node: str, lang: str) -> MemberProcess:
        made = MemberProcess(node, lang, self._take)
        self._all.append(made)
        return made

    def add(self, group: RecordedGroup, after: RecordedMember | None = None) -> RecordedMember:
        """Start a member and return it; after a bounce it has the names of the one before it."""
        plan, number = group.plan, next(self._numbers)
        lang = after.lang if after else self._rng.choice(plan.langs)
        own = lang != "java" or self._rng.random() < self.own_share
        name = f"m{number}"
        node = self._process(f"proc-{name}", lang) if own else self._rng.choice(self._shared)
        if after is not None:
            client_id, instance, topics = after.client_id, after.instance, list(after.topics)
        else:
            client_id = plan.name if plan.same_client else f"{plan.name}-{name}"
            topics = list(plan.topics)
            instance = None
            if plan.static:
                free = group.free_instances
                instance = free.pop() if free else f"{plan.name}-i{number}"
        member = RecordedMember(name, lang, client_id, instance, topics, node, own)
        group.members.append(member)
        self._group_of[name] = plan.name
        self.note("add", group=plan.name, id=name, lang=lang, protocol=plan.protocol,
                  topics=topics, client_id=client_id, rack=None, instance=instance,
                  form="proc" if own else "thread", **({"bounce": True} if after else {}))  # fmt: skip
        options = client_options(plan, lang, client_id, instance)
        options["bootstrap_servers"] = self.cluster.bootstrap
        request: dict[str, Any] = {"do": "start", "id": name, "topics": topics, "silent": True}
        if lang == "java":
            request["properties"] = {k.replace("_", "."): _java(v) for k, v in options.items()}
        else:
            request["options"] = options
        node.tell(request)
        return member

    def for_each(
        self, groups: Iterable[RecordedGroup], do: Callable[[RecordedGroup], None]
    ) -> None:
        """Call a function for several groups at the same time, and wait for all."""
        with ThreadPoolExecutor() as pool:
            for one in [pool.submit(do, group) for group in groups]:
                one.result()

    def await_start(self, member: str, seconds: float) -> None:
        """Wait until a member subscribes, at most for some time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with self._lock:
                if any(e["id"] == member and e["ev"] == "started" for e in self.observed[-400:]):
                    return
            time.sleep(0.02)

    def _close(self, member: RecordedMember) -> None:
        member.process.tell({"do": "close", "id": member.id})
        if member.own_process:
            assert member.process.process.stdin is not None
            member.process.process.stdin.close()

    # --- faults ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Start the groups, then draw faults until the time is over."""
        self.note("churn_begin")
        began = time.monotonic()
        for group in self.groups:
            for _ in range(group.plan.lo):
                self._later(self._rng.uniform(0, 15), self._adding(group))
            group.due = began + 18 + self._rng.uniform(0, 12)
        share = self._seconds / 10
        self._later(3 * share + self._rng.uniform(0, share), self._grow)
        self._later(8 * share + self._rng.uniform(0, share), self._grow)
        self._later(5 * share + self._rng.uniform(0, share), self._stop_broker)
        while time.monotonic() < began + self._seconds:
            now = time.monotonic()
            while self._pending and self._pending[0][0] <= now:
                heapq.heappop(self._pending)[2]()
            for group in self.groups:
                self._remove_dead(group)
                if group.due <= now:
                    least, mean = self.seconds_between
                    group.due = now + least + self._rng.expovariate(1 / mean)
                    self._strike(group)
            time.sleep(0.02)
        self.note("churn_end")

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._pending, (time.monotonic() + seconds, next(self._numbers), do))

    def _adding(self, group: RecordedGroup, after: RecordedMember | None = None) -> Callable[[], None]:  # fmt: skip
        def add() -> None:
            self.add(group, after)

        return add

    def _strike(self, group: RecordedGroup) -> None:
        """Do one thing to a group."""
        plan, now = group.plan, time.monotonic()
        idle = [m for m in group.members if m.busy_until <= now]
        drawn = self._rng.choices(list(FAULTS), list(FAULTS.values()))[0]
        if len(group.members) < plan.lo or not idle:
            drawn = "add"
        if drawn == "add" and len(group.members) >= plan.hi:
            if not idle:
                return
            drawn = "leave"
        if drawn == "add":
            self.add(group)
            return
        member = self._rng.choice(idle)
        about = {"group": plan.name, "id": member.id, "form": "proc" if member.own_process else "thread"}  # fmt: skip
        if drawn in {"kill", "freeze", "short freeze"} and not member.own_process:
            drawn = "leave"
        if drawn == "resub" and not plan.more:
            drawn = "bounce"
        if drawn == "enforce" and (member.lang != "java" or plan.protocol != "classic"):
            drawn = "stall"
        {
            "leave": self._leave, "kill": self._kill, "bounce": self._bounce,
            "resub": self._resubscribe, "enforce": self._enforce,
        }.get(drawn, lambda g, m, a: self._hold(g, m, a, drawn))(group, member, about)  # fmt: skip

    def _remove_dead(self, group: RecordedGroup) -> None:
        """Write down the members that ended by themselves."""
        for member in list(group.members):
            ended = member.own_process and member.process.process.poll() is not None
            if ended or member.id in self._closed:
                self.note("died", group=group.plan.name, id=member.id)
                group.remove(member)

    def _leave(self, group: RecordedGroup, member: RecordedMember, about: dict) -> None:
        self.note("leave", **about)
        group.remove(member)
        self._close(member)

    def _kill(self, group: RecordedGroup, member: RecordedMember, about: dict) -> None:
        self.note("kill", **about)
        group.remove(member)
        member.process.close()

    def _bounce(self, group: RecordedGroup, member: RecordedMember, about: dict) -> None:
        """Stop a member, mostly in good order, and start it again under the same names."""
        hard = member.own_process and self._rng.random() < 0.3
        gap = self._rng.choice((0.6, 1.5, 3.0))
        self.note("bounce", **about, hard=hard, gap=gap, instance=member.instance)
        group.members.remove(member)
        (member.process.close if hard else lambda: self._close(member))()
        self._later(gap, self._adding(group, member))

    def _resubscribe(self, group: RecordedGroup, member: RecordedMember, about: dict) -> None:
        extra = set(group.plan.more)
        topics = [t for t in member.topics if t not in extra]
        if len(topics) == len(member.topics):
            topics += group.plan.more
        member.topics = topics
        self.note("resub", **about, topics=topics)
        member.process.tell({"do": "subscribe", "id": member.id, "topics": topics})

    def _enforce(self, _: RecordedGroup, member: RecordedMember, about: dict) -> None:
        self.note("enforce", **about)
        member.process.tell({"do": "enforce", "id": member.id})

    def _hold(self, group: RecordedGroup, member: RecordedMember, about: dict, how: str) -> None:
        """Freeze a process, or stall a poll loop, beyond or below what the group tolerates."""
        limit = group.plan.session if "freeze" in how else group.plan.poll
        share = self._rng.uniform(0.2, 0.6) if "short" in how else self._rng.uniform(1.3, 1.8)
        seconds = limit * share / 1000
        member.busy_until = time.monotonic() + seconds + 2
        if "stall" in how:
            self.note("stall", **about, ms=int(seconds * 1000))
            member.process.tell({"do": "stall", "id": member.id, "ms": int(seconds * 1000)})
            return
        self.note("freeze", **about, seconds=round(seconds, 1))
        member.process.signal(signal.SIGSTOP)

        def thaw() -> None:
            self.note("thaw", group=group.plan.name, id=member.id)
            member.process.signal(signal.SIGCONT)

        self._later(seconds, thaw)

    def _grow(self) -> None:
        self._partitions["growing"] += self._rng.randint(1, 3)
        to = self._partitions["growing"]
        self.cluster.ask("grow-topic", name="growing", partitions=to)
        self.note("admin.grow", topic="growing", to=to, reply="ok", failed=False)

    def _stop_broker(self) -> None:
        """Stop a broker, in good order or not, and start it again; then elect preferred leaders."""
        broker = self._rng.choice(self.cluster.brokers)
        hard = self._rng.random() < 0.4
        word = "SIGKILL" if hard else "SIGTERM"
        self.note("broker_stop", broker=broker.node, signal=word)
        stopping = threading.Thread(target=broker.kill if hard else broker.stop, daemon=True)
        stopping.start()

        def start() -> None:
            stopping.join()
            self.note("broker_start", broker=broker.node)
            broker.launch()

        def elect() -> None:
            faults.elect(self)
            self.note("admin.elect", reply="ok", failed=False)

        self._later(25, start)
        self._later(50, lambda: threading.Thread(target=elect, daemon=True).start())

    def close(self) -> None:
        """End all members."""
        self._ended.set()
        for one in self._all:
            one.close()


def _by_topic(pairs: list[tuple[str, int]]) -> list[list[Any]]:
    found: dict[str, list[int]] = {}
    for topic, p in sorted(map(tuple, pairs)):
        found.setdefault(topic, []).append(p)
    return [[topic, numbers] for topic, numbers in found.items()]


def _java(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Capture(Closes):
    """``partage capture --follow`` beside the recording."""

    def __init__(self, bootstrap: str, out: Path) -> None:
        command = [sys.executable, "-m", "partage", "capture", "-b", bootstrap, "-o", str(out)]
        command += ["--follow", "--roll-every", "20", "--metadata-every", "0.5", "--quiet"]
        self._process = subprocess.Popen(command)

    def close(self) -> None:
        """End the capture, unless it has ended."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout=60)
        assert code == 0, f"capture --follow ended with {code}"


def write(captured: Path, recording: Recording, out: Path) -> None:
    """Write the recording's files: one Parquet file a table, sorted, and the truth."""
    out.mkdir(parents=True, exist_ok=True)
    for name, order in (("consumer_offsets", "offset"), ("batches", "base_offset")):
        table = pq.read_table(captured / f"{name}.parquet")
        table = table.sort_by([("partition", "ascending"), (order, "ascending")])
        to = out / f"{name}.parquet"
        pq.write_table(table, to, compression="zstd", compression_level=19)
    shutil.copy(captured / "cluster.jsonl", out)
    observed = sorted(recording.observed, key=lambda e: e["ts_ms"])
    (out / "events.jsonl").write_text(_lines(recording.events))
    with lzma.open(out / "observed.jsonl.xz", "wt", encoding="utf-8") as file:
        file.write(_lines(observed))
    shutil.copy(captured / "cluster-config.json", out)
    groups = [asdict(group.plan) for group in recording.groups]
    (out / "groups.json").write_text(json.dumps(groups, indent=1) + "\n")


_Kind = TypeVar("_Kind", bound=Recording)


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)


def record(out: Path, seed: int, minutes: float, kind: type[_Kind]) -> _Kind:
    """Start a cluster, record it, write the files to ``out``, and return the recording.

    Args:
        out: folder of the files.
        seed: draws the settings of groups and the faults.
        minutes: how long faults are drawn.
        kind: class of the recording.
    """
    built("peers.sh")
    jvm_classpath()
    with (
        tempfile.TemporaryDirectory(prefix="partage-recording-") as folder,
        brokers(3, racks=("a", "b", "c"), properties=BROKER | kind.broker) as cluster,
    ):
        for topic, partitions in TOPICS.items():
            cluster.create_topic(topic, partitions, 3)
        captured = Path(folder) / "capture"
        with kind(cluster, random.Random(seed), minutes * 60) as recording:
            with Capture(cluster.bootstrap, captured):
                recording.run()
            write(captured, recording, out)
    return recording


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=4.0)
    given = parser.parse_args()
    record(given.out, given.seed, given.minutes, Recording)


if __name__ == "__main__":
    main()
