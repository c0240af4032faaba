"""What can happen to a cluster and to clients' processes: begun, undone, over.

Small things happen to one group (``join``, ``leave``, ``grow`` of `World`); these happen to many.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.clients.members import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.brokers import Broker

    from chaos.party import Party
    from chaos.world import World

LOG = "__consumer_offsets"
PREFERRED = 0  # Kafka's number for an election of the first replica


@dataclass(frozen=True)
class Fault:
    """Something that has begun.

    Attributes:
        undo: ends it.
        not_before: the moment (``time.monotonic``) from which it may be undone.
        over: after ``undo``, whether all is as it was and the next one may come.
    """

    kind: str
    undo: Callable[[], None]
    not_before: float = 0.0
    over: Callable[[], bool] = lambda: True


def kill_members(world: World, client: str) -> Fault:
    """SIGKILL to a client's process, with its members of all groups; a new one takes its place."""
    host = world.hosts[client]
    host.kill()
    world.away.add(client)
    world.ended.append(host)
    lost = [(party, len(party.without(host))) for party in world.parties]

    def undo() -> None:
        world.hosts[client] = Host(client)
        world.away.discard(client)
        for party, count in lost:
            for _ in range(count):
                party.join(world.hosts[client])

    return Fault("members killed (SIGKILL)", undo)


def freeze_members(world: World, client: str) -> Fault:
    """SIGSTOP to it for longer than the session timeout; it wakes and believes that it still owns."""
    host = world.hosts[client]
    host.pause()
    world.away.add(client)
    frozen = [(party, party.without(host)) for party in world.parties]
    longest = max(party.session for party in world.parties) / 1000

    def undo() -> None:
        host.resume()
        world.away.discard(client)
        for party, lost in frozen:
            party.live += lost

    return Fault("members frozen (SIGSTOP)", undo, time.monotonic() + 1.3 * longest)


def restart_broker(world: World, broker: Broker, *, kill: bool) -> Fault:
    """A broker goes, in good order or not, and comes back; leaders move."""
    world.deaths.append(time.monotonic())
    (broker.kill if kill else broker.stop)()
    kind = "broker killed" if kill else "broker stopped"

    def undo() -> None:
        world.deaths.append(time.monotonic())
        broker.launch()

    return Fault(kind, undo, over=lambda: in_sync(world))


def move_coordinator(world: World, party: Party) -> Fault:
    """The broker that coordinates a group stops; back again, it is elected, and nobody else dies."""
    at = world.cluster.ask("describe-group", group=party.group)["coordinator"]
    broker = next((b for b in world.cluster.brokers if b.node == at), world.cluster.brokers[0])
    gone = restart_broker(world, broker, kill=False)

    def over() -> bool:
        if not gone.over():
            return False
        elect(world)
        return True

    return Fault("coordinator moved there and back", gone.undo, over=over)


def in_sync(world: World) -> bool:
    """Whether each partition has all its replicas: the next broker may go only then."""
    for topic in (LOG, *(party.topic for party in world.parties), *world.topics):
        said = world.cluster.ask("describe-topic", name=topic)["partitions"]
        if any(len(p["isr"]) < len(p["replicas"]) for p in said):
            return False
    return True


def elect(world: World) -> None:
    """Leaders of the group log go back to the first replica: coordinators move, and nobody dies."""
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=world.cluster.bootstrap.split(","))
    try:
        admin.elect_leaders(PREFERRED, [LOG], raise_errors=False)
    finally:
        admin.close()
