"""Three brokers, the clients' processes, the groups: all that faults happen to, and what they did.

    with World(cluster, parties, clients, rng) as world:
        world.settle()
        world.live(until=lambda: ...)      # faults of both sizes, and looks at who owns what

Everything random comes from one seed. How the machine runs is not repeatable, what is drawn is.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.clients.members import Host
from tests.support.processes import Closes

from chaos import faults

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.brokers import Brokers

    from chaos.faults import Fault
    from chaos.party import Party

MOST_MEMBERS, FEWEST_MEMBERS = 6, 2
MOST_PARTITIONS = 24
PATIENCE = 180.0
_BETWEEN_LOOKS = 0.1


class World(Closes):
    """What is hurt.

    Attributes:
        hosts: a client's process, by the client; ``away`` are those that stand still or are dead.
        topics: of others, whose copies too have to be there before the next broker may go.
        deaths: when a broker went or came back (``time.monotonic``).
        faults: how many of each kind.
        looks: at a group that was well again after something had happened to it.
        violations: sentences; what must stay empty.
        slowest: seconds that a group needed at most until it was well again.
    """

    def __init__(
        self, cluster: Brokers, parties: list[Party], clients: Sequence[str], rng: random.Random
    ) -> None:
        self.cluster = cluster
        self.parties = parties
        self.rng = rng
        self.topics: list[str] = []
        self.deaths: list[float] = []
        self.hosts = {client: Host(client) for client in clients}
        self.away: set[str] = set()
        self.ended: list[Host] = []
        self.faults: Counter[str] = Counter()
        self.looks = 0
        self.violations: list[str] = []
        self.slowest = 0.0
        self._storm = _Storm(self)

    # --- small things, to one group -----------------------------------------------------------

    def join(self, party: Party) -> None:
        """A member more, of a client that can sit in it."""
        clients = [c for c in self.hosts if c in party.clients and c not in self.away]
        party.join(self.hosts[self.rng.choice(clients)])
        self.faults["join"] += 1

    def leave(self, party: Party) -> None:
        """A member less, in good order."""
        party.leave(self.rng.choice(party.live))
        self.faults["leave"] += 1

    def grow(self, party: Party) -> None:
        """The topic gets partitions more."""
        party.partitions += self.rng.randint(1, 3)
        self.cluster.ask("grow-topic", name=party.topic, partitions=party.partitions)
        self.faults["topic grown"] += 1

    def stir(self, party: Party) -> None:
        """One of these, by chance; a group stays between the fewest and the most members."""
        what = self.rng.random()
        if what < 0.05 and party.partitions < MOST_PARTITIONS:
            self.grow(party)
        elif len(party.live) <= FEWEST_MEMBERS or (what < 0.5 and len(party.live) < MOST_MEMBERS):
            self.join(party)
        else:
            self.leave(party)

    # --- great ones ----------------------------------------------------------------------------

    def strike(self) -> Fault:
        """One great fault, by chance."""
        used = {m.host for party in self.parties for m in party.live}
        busy = [client for client, host in self.hosts.items() if host in used]
        what = self.rng.random()
        if what < 0.35:
            return faults.kill_members(self, self.rng.choice(busy))
        if what < 0.80:
            return faults.freeze_members(self, self.rng.choice(busy))
        if what < 0.90:
            return faults.move_coordinator(self, self.rng.choice(self.parties))
        broker = self.rng.choice(self.cluster.brokers)
        return faults.restart_broker(self, broker, kill=what < 0.96)

    @contextlib.contextmanager
    def during(self, fault: Fault) -> Iterator[None]:
        """A block while it lasts; behind the block it is undone and over."""
        self.faults[fault.kind] += 1
        yield
        time.sleep(max(0.0, fault.not_before - time.monotonic()))
        fault.undo()
        end = time.monotonic() + PATIENCE
        while not fault.over():
            assert time.monotonic() < end, f"not over: {fault.kind}"
            time.sleep(_BETWEEN_LOOKS)

    def live(self, until: Callable[[], bool]) -> None:
        """Groups are stirred as soon as they are well; meanwhile one great fault after the other:
        each is undone when every group was well in spite of it. ``calm`` ends the last one.
        """
        while not until():
            for party in self.parties:
                if not party.live:
                    self.join(party)  # all its members were in one process, which is away
                elif self._well(party):
                    self._storm.seen(party)
                    self.stir(party)
            self._storm.go_on()
            time.sleep(_BETWEEN_LOOKS)

    def calm(self) -> None:
        """No more faults; all groups get well."""
        self._storm.end()
        self.settle()

    # --- looks ----------------------------------------------------------------------------------

    def _well(self, party: Party) -> bool:
        """Return whether a group is stable; one that stays unstable for too long is a violation, reported once."""
        now = time.monotonic()
        wrong = party.wrong
        if wrong and now - party.since > PATIENCE:
            self.violations.append(f"not well after {PATIENCE:.0f} s: {wrong}")
        elif wrong:
            return False
        else:
            self.looks += 1
            self.slowest = max(self.slowest, now - party.since)
        party.since = now
        return True

    def settle(self) -> None:
        """Wait until each group is well."""
        for party in self.parties:
            party.since = time.monotonic()
        for party in self.parties:
            while not self._well(party):
                time.sleep(_BETWEEN_LOOKS / 5)

    # --- beginning and end ----------------------------------------------------------------------

    def end(self) -> None:
        """All members die; once is enough."""
        for host in self.hosts.values():
            host.kill()

    close = end

    def warnings(self) -> Counter[str]:
        """What ours logged as warnings and errors, in all processes."""
        hosts = (*self.ended, *self.hosts.values())
        return Counter(line["what"] for host in hosts for line in host.logs)


class _Storm:
    """The great faults of a life, one at a time: struck, undone, over, each seen by every group."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fault: Fault | None = None
        self.undone = False
        self.unseen = set(map(id, world.parties))

    def seen(self, party: Party) -> None:
        """This group was well since the last step."""
        self.unseen.discard(id(party))

    def go_on(self) -> None:
        """The next step, if its time has come."""
        if self.unseen:
            return
        if self.fault is None:
            self.fault = self.world.strike()
            self.world.faults[self.fault.kind] += 1
            self.undone = False
        elif not self.undone and time.monotonic() >= self.fault.not_before:
            self.fault.undo()
            self.undone = True
        elif self.undone and self.fault.over():
            self.fault = None
        else:
            return
        self.unseen = set(map(id, self.world.parties))

    def end(self) -> None:
        """Undo what is still going on."""
        if self.fault is not None and not self.undone:
            time.sleep(max(0.0, self.fault.not_before - time.monotonic()))
            self.fault.undo()
