"""Real Kafka brokers on this machine, without Docker: the released jars, loopback, free ports.

    with brokers(count=3, racks=("a", "b", "c")) as cluster:
        cluster.create_topic("orders", partitions=6, replication_factor=3)
        cluster.brokers[0].kill()

One broker is its own controller. Several have a controller of their own beside them, which no test
hurts: what is studied is what a group lives through, not an election among controllers.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.jvm import JvmOracle, java
from tests.support.processes import ROOT, built

from partage.capture.connection import ClusterConnection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BROKER = ROOT / "jvm" / "broker"
CONTROLLER = 1000
# Any 16 bytes in URL-safe base64.
CLUSTER_ID = "cGFydGFnZS10ZXN0cy0wMQ"
_SECONDS_TO_START = 300.0
_SECONDS_TO_STOP = 30.0
_SECONDS_TO_APPLY = 60.0


def broker_jars(version: str) -> str:
    """The class path of one release's broker and tools; fetched on the first call."""
    built("broker.sh", version)
    return str(BROKER / "target" / version / "lib" / "*")


#: Spark's Kafka connector, for `--conf spark.jars=...`.
_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)


def connector_jars(folder: Path) -> str:
    """Fetch the jars of Spark's Kafka connector; return their paths, separated by commas."""
    if shutil.which("mvn") is None:
        pytest.skip("no Maven: the connector's jars cannot be had")
    for jar in _CONNECTOR:
        subprocess.run(
            ["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy",
             f"-Dartifact={jar}", f"-DoutputDirectory={folder}"], check=True,
        )  # fmt: skip
    return ",".join(str(one) for one in folder.iterdir())


class Broker:
    """One Kafka process: started, stopped, killed, paused by its pid."""

    def __init__(self, node: int, classpath: str, properties: dict[str, str], home: Path) -> None:
        self.node = node
        self.port = int(properties["listeners"].split(",")[0].rsplit(":", 1)[1])
        self.log_dir = home / "data"
        self.properties = home / "server.properties"
        self.log = home / "server.log"
        self._java = [
            java(),
            "-Xmx384m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.log.kafka.server=info",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
            "-cp",
            classpath,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        # A test that wants several disks says {home}/data,{home}/more.
        lines = {"log.dirs": "{home}/data", **properties}
        lines = {key: value.replace("{home}", str(home)) for key, value in lines.items()}
        self.more = [Path(one) for one in lines["log.dirs"].split(",")[1:]]
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    @property
    def pid(self) -> int:
        """The process id; the broker must be running."""
        assert self._process is not None, f"broker {self.node} is not running"
        return self._process.pid

    def format(self) -> None:
        """Write the empty log directory that a KRaft broker starts from, by Kafka's own tool."""
        tool = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
        done = subprocess.run(
            [*tool, "-c", str(self.properties)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"format of broker {self.node} failed:\n{done.stderr}"

    def take_over(self, formatted: Path) -> None:
        """The same from another node's: only the ids in it are a node's own."""
        shutil.copytree(formatted, self.log_dir)
        self._name(self.log_dir / "meta.properties")
        for folder in self.more:
            folder.mkdir()
            shutil.copy(formatted / "meta.properties", folder)
            self._name(folder / "meta.properties")

    def _name(self, meta: Path) -> None:
        own = {
            "node.id": str(self.node),
            "directory.id": base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="),
        }
        lines = [line.partition("=") for line in meta.read_text().splitlines()]
        meta.write_text("".join(f"{key}={own.get(key, value)}\n" for key, _, value in lines))

    def launch(self) -> None:
        """Start the process; ``wait_until_started`` tells when it serves."""
        self._seen = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self.properties)],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def wait_until_started(self) -> None:
        """Return when Kafka says that it has started; fail with the end of its log otherwise."""
        assert self._process is not None
        until = time.monotonic() + _SECONDS_TO_START
        while time.monotonic() < until:
            with self.log.open("rb") as log:
                log.seek(self._seen)
                if b"Kafka Server started" in log.read():
                    return
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        end = self.log.read_text(errors="replace")[-4000:]
        pytest.fail(f"broker {self.node} did not start:\n{end}", pytrace=False)

    def start(self) -> None:
        """Start again after ``stop`` or ``kill``, on the same port and log directory."""
        self.launch()
        self.wait_until_started()

    def stop(self) -> None:
        """A controlled shutdown (SIGTERM); leaders move first."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what a machine that loses power does."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: the process stands still, its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self.resume()
            self._process.send_signal(how)
        try:
            self._process.wait(timeout=_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


class Brokers:
    """A running cluster, and what a test asks of it."""

    def __init__(self, brokers: list[Broker], classpath: str) -> None:
        self.brokers = brokers
        self.classpath = classpath
        self.bootstrap = ",".join(f"127.0.0.1:{one.port}" for one in brokers)
        self._admin: JvmOracle | None = None

    def ask(self, do: str, **request: object) -> Any:
        """One request to jvm/…/live/Admin.java; fails the test with Kafka's own message."""
        if self._admin is None:
            self._admin = JvmOracle("io.partage.live.Admin", self.bootstrap, heap="128m")
        said = self._admin.ask({"do": do, **request})
        if isinstance(said, dict) and "error" in said:
            pytest.fail(f"{do} {request}: {said['error']}", pytrace=False)
        return said

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        assignment: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Make a topic and return its id; ``assignment`` gives each partition's brokers."""
        placed = None if assignment is None else {str(p): list(on) for p, on in assignment.items()}
        said = self.ask(
            "create-topic",
            name=name,
            partitions=partitions,
            replicas=replication_factor,
            assignment=placed,
            configs=dict(configs or {}),
        )
        self.wait_until_same_metadata(name)
        return str(said["id"])

    def wait_until_same_metadata(self, topic: str) -> None:
        """Return when all brokers that answer know the topic, with equal replicas.

        The controller confirms a change before every broker has applied it, and a client may ask
        any of them next.
        """
        from kafka.protocol.metadata import MetadataRequest

        until = time.monotonic() + _SECONDS_TO_APPLY
        with ClusterConnection(self.bootstrap, {}) as connection:
            while time.monotonic() < until:
                responses = connection.ask_each({
                    broker.node_id: MetadataRequest(
                        topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
                        allow_auto_topic_creation=False, min_version=4,
                    )
                    for broker in connection.fetch_metadata().brokers
                })  # fmt: skip
                known = [
                    {
                        partition.partition_index: list(partition.replica_nodes)
                        for entry in response.topics
                        for partition in entry.partitions
                    }
                    for response in responses.values()
                    if not isinstance(response, Exception)
                ]
                if known and known[0] and all(replicas == known[0] for replicas in known):
                    return
                time.sleep(0.05)
        pytest.fail(f"the brokers disagree about {topic}: {known}", pytrace=False)

    def produce(self, topic: str, records: Sequence[tuple[int | None, str | None, str]]) -> None:
        """Send (partition, key, value) records; returns when all are acknowledged."""
        self.ask("produce", name=topic, records=[list(one) for one in records])

    def run_tool(self, main: str, *args: str) -> subprocess.CompletedProcess[str]:
        """One of Kafka's own command-line tools, by its class."""
        command = [java(), "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return subprocess.run(
            [*command, "-cp", self.classpath, main, *args],
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )

    def close(self) -> None:
        """Close what asks, before the brokers go."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None


@contextlib.contextmanager
def brokers(
    count: int = 1,
    version: str = "4.3.1",
    racks: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    more_jars: Sequence[str] = (),
) -> Iterator[Brokers]:
    """A cluster of ``count`` brokers, ids from 1, racks in turn; ended by pid when the block ends.

    ``more_jars`` are behind Kafka's own on the class path of every broker.
    """
    jars = os.pathsep.join([broker_jars(version), *more_jars])
    ports = free_ports(count + 1)
    with tempfile.TemporaryDirectory(prefix="partage-brokers-") as folder:
        nodes = list(_nodes(count, racks, ports, dict(properties or {}), jars, Path(folder)))
        cluster = Brokers([one for one in nodes if one.node != CONTROLLER], jars)
        try:
            _start(nodes)
            yield cluster
        finally:
            cluster.close()
            for one in reversed(nodes):
                one.kill()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now; taken all at once, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _start(nodes: list[Broker]) -> None:
    # One JVM formats; a JVM for each would take longer than all that a short test does.
    first, *others = nodes
    first.format()
    for one in others:
        one.take_over(first.log_dir)
    for one in nodes:
        one.launch()
    for one in nodes:
        one.wait_until_started()


def _nodes(  # noqa: PLR0917 - a builder
    count: int,
    racks: Sequence[str],
    ports: list[int],
    more: dict[str, str],
    jars: str,
    folder: Path,
) -> Iterator[Broker]:
    quorum = 1 if count == 1 else CONTROLLER
    shared = {**_settings(count), "controller.quorum.voters": f"{quorum}@127.0.0.1:{ports[0]}"}
    alone = f"CONTROLLER://127.0.0.1:{ports[0]}"
    if count > 1:
        yield _node(CONTROLLER, "controller", alone, shared | more, jars, folder)
    for number in range(1, count + 1):
        client = f"PLAINTEXT://127.0.0.1:{ports[number]}"
        both = f"{client},{alone}" if count == 1 else client
        rack = {"broker.rack": racks[(number - 1) % len(racks)]} if racks else {}
        roles = "broker,controller" if count == 1 else "broker"
        yield _node(number, roles, both, shared | rack | more, jars, folder)


def _node(  # noqa: PLR0917 - a builder
    number: int, roles: str, listeners: str, settings: dict[str, str], jars: str, folder: Path
) -> Broker:
    home = folder / str(number)
    home.mkdir()
    own = {"node.id": str(number), "process.roles": roles, "listeners": listeners}
    return Broker(number, jars, own | settings, home)


def _settings(count: int) -> dict[str, str]:
    """Small and quick: few threads, few internal partitions, no wait for the first member."""
    copies = str(min(3, count))
    # A broker that is killed is missed soon; one that is alone has nobody who would miss it.
    missed = {"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "4000"}
    return {
        **(missed if count > 1 else {}),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "3",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        "num.network.threads": "2",
        "num.io.threads": "2",
        "log.cleaner.dedupe.buffer.size": "2097152",
    }
