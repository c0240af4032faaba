"""`partage groups` beside groups of every kind that are at work, and while they change."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.clients.members import KAFKA_PYTHON, Host, every, settle, wait
from tests.support.brokers import free_ports
from tests.support.jvm import java
from tests.support.streams_group_live import script, stage
from tests.support.streams_live import NAME, TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.soak, pytest.mark.jvm]

COMMAND = [sys.executable, "-m", "partage", "groups"]
SHARES = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


def looked(broker, group: str) -> dict:
    """One look at a group, as JSON; the same in words must not fail."""
    asked = [*COMMAND, "-b", broker.bootstrap, "-g", group, "--every", "0.2"]
    done = subprocess.run([*asked, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    words = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert words.returncode == 0, words.stderr
    assert group in words.stdout
    (found,) = json.loads(done.stdout)["groups"]
    return found


def owned(look: dict) -> dict[str, set[tuple[str, int]]]:
    return {
        m["member"]: {(o["topic"], o["partition"]) for o in m["owned"]} for m in look["members"]
    }


def test_a_classic_group_of_two_languages(broker) -> None:
    """What it tells is what the members tell: owners, lag after reading, distance from the optimum."""
    topic = "looked-classic"
    broker.create_topic(topic, 5)
    with Host("java") as javas, Host(KAFKA_PYTHON[-1]) as pythons:
        mine = [
            host.start(
                bootstrap=broker.bootstrap, group=topic, topics=[topic], strategies=["range"]
            )
            for host in (javas, pythons)
        ]
        settle(mine, every({topic: 5}))
        broker.produce(topic, [(p, None, "x") for p in range(5)])
        wait(lambda: len({*mine[0].read, *mine[1].read}) == 5, "everything is read")
        wait(lambda: looked(broker, topic)["lag"] == 0, "everything is committed")
        look = looked(broker, topic)
        assert owned(look) == {m.member: m.owns for m in mine}
        assert (look["type"], look["strategy"]) == ("classic", "range")
        assert look["now"]["spread"] == look["now"]["best_spread"] == 1
        assert {row["strategy"] for row in look["strategies"]} >= {"range", "sticky", "optimal"}


def test_a_group_whose_broker_assigns(broker) -> None:
    """KIP-848: members, epochs and owners as the broker describes them."""
    topic = "looked-consumer"
    broker.create_topic(topic, 6)
    with Host("java") as host:
        mine = [
            host.start(
                bootstrap=broker.bootstrap, group=topic, topics=[topic], group_protocol="consumer"
            ) for _ in range(2)
        ]  # fmt: skip
        wait(
            lambda: (
                sorted(p for m in mine for p in m.owns) == every({topic: 6})
                and all(len(m.owns) == 3 for m in mine)
            ),
            "each has its half",
        )
        look = looked(broker, topic)
        assert (look["type"], look["strategy"]) == ("consumer", "server:uniform")
        assert owned(look) == {m.member: m.owns for m in mine}
        assert look["now"]["spread"] == 0


@contextmanager
def shares(broker, topic: str, group: str) -> Iterator[None]:
    """A member of a share group: Kafka's own console consumer; ended by its id."""
    command = [java(), "-Xmx128m", "-cp", broker.classpath, SHARES,
               "--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group]  # fmt: skip
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        running.kill()
        running.wait()


def test_a_share_group_is_named_as_one(broker) -> None:
    """KIP-932: several members have one partition; no lag, no plan, no error."""
    topic = "looked-share"
    broker.create_topic(topic, 1)
    with shares(broker, topic, topic), shares(broker, topic, topic):
        end = time.monotonic() + 120
        while True:
            done = subprocess.run(
                [*COMMAND, "-b", broker.bootstrap, "-g", topic, "--json", "--every", "0.2"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            found = json.loads(done.stdout)["groups"] if done.returncode == 0 else []
            if found and [len(m["owned"]) for m in found[0]["members"]] == [1, 1]:
                break
            assert time.monotonic() < end, found
        look = looked(broker, topic)
        assert (look["type"], look["lag"], look["now"], look["strategies"]) == (
            "share",
            None,
            None,
            [],
        )


def test_what_is_asked_wrongly_is_said(broker) -> None:
    """A pattern that fits nothing names what there is; a strategy and an address that are none cost
    no look at the cluster.
    """

    def said(*words: str) -> str:
        done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        return done.stderr

    assert "matches no" in said("-b", broker.bootstrap, "-g", "nobody-has-this", "--every", "0.1")
    assert "nosuch" in said("-b", "127.0.0.1:1", "-s", "nosuch")
    assert "HOST:PORT" in said("-b", "localhost")
    began = time.monotonic()
    assert "host and port" in said("-b", f"127.0.0.1:{free_ports(1)[0]}")
    assert time.monotonic() - began < 12


def test_watching_shows_what_changes_and_ends_with_ctrl_c(broker) -> None:
    """Line after line: the group before, with its member, and empty again; then SIGINT, no traceback."""
    topic = "looked-watch"
    broker.create_topic(topic, 2)
    watched = subprocess.Popen(
        [*COMMAND, "-b", broker.bootstrap, "-g", topic, "--watch", "--every", "0.3", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert json.loads(watched.stdout.readline())["groups"] == []
        with Host("java") as host:
            one = host.start(
                bootstrap=broker.bootstrap, group=topic, topics=[topic], strategies=["range"]
            )
            settle([one], every({topic: 2}))
            _until(watched, lambda g: g and len(g[0]["members"]) == 1)
            one.close()
            _until(watched, lambda g: g and not g[0]["members"])
        watched.send_signal(signal.SIGINT)
        _, said = watched.communicate(timeout=60)
        assert "Traceback" not in said
    finally:
        watched.kill()
        watched.wait()


def _until(watched, seen) -> None:
    """Read its lines until one shows it."""
    end = time.monotonic() + 120
    while not seen(json.loads(watched.stdout.readline())["groups"]):
        assert time.monotonic() < end


def test_a_streams_group_is_shown_by_its_tasks() -> None:
    """KIP-1071: two instances own between them what the tasks of their application read, and the lag
    is that of its topics; there is no plan to compare.
    """
    made, of_group = script(5)
    with stage(made, of_group) as on:
        on.prepare("a", "b")
        on.start("a", "b")
        read = {topic: count for topic, count in TOPICS.items() if topic != "out"}
        end = time.monotonic() + 120
        while True:
            done = subprocess.run(
                [*COMMAND, "-b", on.cluster.bootstrap, "-g", NAME, "--json", "--every", "0.2"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            found = json.loads(done.stdout)["groups"] if done.returncode == 0 else []
            has = [sorted(owned(one).values(), key=len) for one in found]
            sources = sorted(p for one in has for some in one for p in some if p[0] in read)
            if found and len(found[0]["members"]) >= 2 and sources == sorted(every(read)):
                break
            assert time.monotonic() < end, (done.stderr, found)
        look = looked(on.cluster, NAME)
        assert (look["type"], look["state"], look["now"], look["strategies"]) == (
            "streams", "Stable", None, [],
        )  # fmt: skip
        assert look["lag"] is not None
