"""The recorded causes, lived through by a policy that has its own past.

What the group did is not asked: only who came and went, who subscribed to what, and which
topics there were. The policy makes its own plans, and its own follow-ups. A life is sequential,
but lives are independent of each other: of every (group, policy) there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from partage.history.records import MemberState
from partage.model.index import Int32Array
from partage.simulation.absences import Absence, session_timeout_ms
from partage.simulation.consumers import SimulatedConsumer
from partage.simulation.lived import NOTHING, Bounds, Lived
from partage.simulation.loop import Loop
from partage.simulation.per_rebalance import decider_at
from partage.simulation.policies import CONSUMER, OWN, Policy
from partage.simulation.reading import Reading, Watch
from partage.simulation.recorded import protocol_of
from partage.simulation.rounds import MOST_FOLLOW_UPS, Decider
from partage.simulation.rows import Rows
from partage.simulation.scenes import Scene
from partage.simulation.stopped import silence
from partage.simulation.world import World
from partage.tables.statuses import CUMULATIVE

__all__ = ["cumulative"]

#: A consumer's heartbeat.interval.ms, if its session timeout leaves room for three of them.
_HEARTBEAT_MS = 3_000

#: Rebalances are planned so long before they are due: the longest session timeout that brokers
#: allow if nothing else is said (group.max.session.timeout.ms). Who is missed sooner than recorded
#: is missed at most that much sooner.
_AHEAD_MS = 1_800_000
#: Rows, and rebalances that more rows may come of, that are held on to.
_MOST_HELD = 4_096

_FOLLOWS = "only completed the rebalance before it in the record"
_AWAY = "static members are expected back: nothing happens before their session times out"
_BACK = "a static member was back in time: it has what it had"
_SILENT = "nobody knows yet: a dead member is missed after its session timeout"
_MERGED = "part of a rebalance that waits for members that do not answer"
_NOTHING = "nothing that this protocol would rebalance for"
_EMPTY = "nobody is there"


def cumulative(
    scenes: Iterable[Scene], policy: Policy, world: World, watch: Watch | None = None
) -> Iterator[Lived]:
    """The rows of one group's life under one policy, in order of generation and step.

    Scenes are taken as time goes on, and rows are given out some thousand rebalances later: what
    is in memory does not grow with the life.

    Every recorded rebalance that can be replayed has at least one row: what its causes lead
    to, or why they lead to nothing. A cause may take effect at another time than recorded
    (an expiry under another session timeout): its row stays with the recorded rebalance.

    Args:
        scenes: all of the group, in order.
        policy: how the group is run.
        world: metadata, judge and evidence.
        watch: called with (time in ms, member -> what it reads) whenever that changes.
    """
    for _, life in groupby(scenes, lambda scene: scene.generation.incarnation):
        yield from _Life(policy, world, watch).lived(life)


@dataclass(slots=True)
class _Away:
    """A member that does not answer.

    Attributes:
        scene: the recorded rebalance by which it was gone.
        gone_ms: since when.
        expires_ms: when the coordinator gives it up.
        timeout_ms: its session timeout.
    """

    scene: Scene
    gone_ms: int
    expires_ms: int
    timeout_ms: int


@dataclass(slots=True)
class _Waiting:
    """A rebalance that waits for members that do not answer."""

    scene: Scene
    since_ms: int
    extra: Bounds


@dataclass(slots=True)
class _Told:
    """What has been told of a recorded rebalance.

    Attributes:
        scene: held on to, so that its id means it.
        rows: makes its rows.
        steps: how many there are.
    """

    scene: Scene
    rows: Rows
    steps: int = 0


class _Life:
    """One incarnation of a group under one policy; used once."""

    def __init__(self, policy: Policy, world: World, watch: Watch | None) -> None:
        self.policy, self.world = policy, world
        self.loop = Loop()
        self.reading = Reading(self.loop, watch)
        self.rows: list[Lived] = []
        self.told: dict[int, _Told] = {}
        self.consumers: dict[str, SimulatedConsumer] = {}
        self.away: dict[str, _Away] = {}
        self.waiting: _Waiting | None = None
        self.left: list[Int32Array] = []
        self.keys: dict[str, str] = {}
        self.early: dict[str, None] = {}
        self.number = 0
        self.decider: Decider | None = None
        self.cluster = world.clusters.at(0)

    def lived(self, scenes: Iterable[Scene]) -> Iterator[Lived]:
        """Plan what the record brings some time before it is due, and let time pass."""
        time_ms = None
        for scene in scenes:  # a clock that went back does not change the order
            at = scene.generation.timestamp_ms
            time_ms = at if time_ms is None else max(time_ms, at)
            self._plan(scene, time_ms)
            self.loop.run(before_ms=time_ms - _AHEAD_MS)
            if len(self.rows) >= 2 * _MOST_HELD:
                yield from self._complete(_MOST_HELD)
        self.loop.run()
        yield from self._complete(len(self.rows))

    def _plan(self, scene: Scene, time_ms: int) -> None:
        for absence in scene.gone:
            early = absence.gone_ms + self._timeout(absence.member)
            if absence.expired and early < scene.generation.timestamp_ms:
                self.loop.at(early, partial(self._expires_early, scene, absence))
        self.loop.at(time_ms, partial(self._arrives, scene), rank=1)

    def _complete(self, count: int) -> list[Lived]:
        """So many rows, in order; and what is kept for the sake of them is forgotten."""
        self.rows.sort(key=lambda r: (r.incarnation, r.generation, r.step))
        done, self.rows = self.rows[:count], self.rows[count:]
        self.told = dict(list(self.told.items())[-_MOST_HELD:])
        self.early = dict.fromkeys(list(self.early)[-_MOST_HELD:])
        alive = self.consumers.keys() | self.away.keys()
        if len(self.keys) > _MOST_HELD:
            self.keys = {name: key for name, key in self.keys.items() if key in alive}
        return done

    # --- what the record brings --------------------------------------------------------------

    def _arrives(self, scene: Scene) -> None:
        """Whatever a recorded rebalance was about happens now."""
        self.cluster = self.world.clusters.at(scene.generation.timestamp_ms)
        if not scene.replayable and scene.generation.first.members:
            self._forget()
            return
        extra, why = NOTHING, _NOTHING
        causes = False
        for absence in scene.gone:
            told, silent = self._departs(scene, absence)
            causes, extra = causes or told, extra + silent
            why = _AWAY if self.policy.static else _SILENT
        for absence in scene.back:
            self._recognised(absence)
        for member in scene.generation.first.members:
            joined, gap = self._is_there(member)
            causes, extra = causes or joined, extra + gap
            why = _BACK if gap != NOTHING else why
        self._in_order(scene)
        causes = causes or self._otherwise(scene)
        if scene.follow_up and not causes:
            why = _FOLLOWS
        if causes:
            self._rebalances(scene, extra)
        else:
            self._nothing(scene, why, extra)
        self._may_go_on()

    def _otherwise(self, scene: Scene) -> bool:
        """Causes that are not somebody's coming or going."""
        kinds = set(scene.kinds)
        if "topics" in kinds:
            return True
        if scene.written_over:
            return False
        if self.policy.protocol == OWN and "strategy" in kinds:
            return True
        # Somebody joined once more for a reason of its own: only classic members do.
        protocol = (
            protocol_of(scene.generation) if self.policy.protocol == OWN else (self.policy.protocol)
        )
        return scene.kinds[:1] == ("unknown",) and protocol != CONSUMER

    def _departs(self, scene: Scene, absence: Absence) -> tuple[bool, Bounds]:
        """Whether the coordinator knows at once, and for how long nobody read till it knew."""
        member = absence.member
        key = self.keys.get(member.id, member.owner)
        if key not in self.consumers or key in self.away:
            return False, NOTHING
        timeout = self._timeout(member)
        if not absence.expired and (member.instance is not None or not self.policy.static):
            self._removed(key)
            return True, NOTHING
        expires = absence.gone_ms + timeout
        if expires <= self.loop.now_ms:
            return True, self._missed(key, timeout)
        away = _Away(scene, absence.gone_ms, expires, timeout)
        self.away[key] = away
        self.loop.at(expires, partial(self._expires, key, away), rank=-1)
        return False, NOTHING

    def _recognised(self, absence: Absence) -> None:
        """A member that comes back: with an instance id the coordinator knows it again."""
        if self.policy.static and absence.as_member is not None:
            member = absence.member
            self.keys[absence.as_member.id] = self.keys.get(member.id, member.owner)

    def _is_there(self, member: MemberState) -> tuple[bool, Bounds]:
        """A member is in the group: whether that is new, and how long it was away if it was."""
        if member.id in self.early:  # the record still has it, but this policy has missed it
            return False, NOTHING
        key = self.keys.setdefault(member.id, member.owner)
        known = self.consumers.get(key)
        if known is None:
            self.consumers[key] = SimulatedConsumer(key, member)
            return True, NOTHING
        gap = NOTHING
        away = self.away.pop(key, None)
        if away is not None:
            seconds = max(0, self.loop.now_ms - away.gone_ms) / 1_000
            gap = Bounds(seconds, seconds).times(len(known.held))
        wants_else = _topics(known.state) != _topics(member)
        if known.state.id != member.id:  # started again: it gets what it had, and remembers that
            known.state = member
            self._remembers(known)
        known.state = member
        return wants_else, gap

    def _in_order(self, scene: Scene) -> None:
        """Members in the recorded order, then those that only this policy still has."""
        keys = [self.keys.get(m.id, m.owner) for m in scene.generation.first.members]
        order = [key for key in keys if key in self.consumers]
        order += [key for key in self.consumers if key not in set(order)]
        self.consumers = {key: self.consumers[key] for key in order}

    # --- what time brings --------------------------------------------------------------------

    def _expires(self, key: str, away: _Away) -> None:
        if self.away.get(key) is away:
            extra = self._missed(key, away.timeout_ms)
            self._rebalances(away.scene, extra)
            self._may_go_on()

    def _expires_early(self, scene: Scene, absence: Absence) -> None:
        """Missed sooner than recorded, since the policy's session timeout is shorter."""
        key = self.keys.get(absence.member.id, absence.member.owner)
        if key in self.consumers and key not in self.away:
            self.early[absence.member.id] = None
            self._rebalances(scene, self._missed(key, self._timeout(absence.member)))

    def _missed(self, key: str, timeout_ms: int) -> Bounds:
        """A dead member is put out; for how long nobody read its partitions."""
        held = self.consumers[key].held
        self._removed(key)
        return silence(timeout_ms).times(len(held) / 1_000)

    def _removed(self, key: str) -> None:
        self.left.append(self.consumers.pop(key).last)
        self.away.pop(key, None)
        self.reading.ends(key)

    def _forget(self) -> None:
        """Nothing can be said of the group here: it begins anew with the next rebalance."""
        for key in list(self.consumers):
            self._removed(key)
        self.left, self.waiting = [], None

    def _timeout(self, member: MemberState) -> int:
        return self.policy.timeout_ms or session_timeout_ms(member)

    # --- rebalances --------------------------------------------------------------------------

    def _rebalances(self, scene: Scene, extra: Bounds) -> None:
        """Begin a rebalance; a classic one waits until every member has joined or is given up."""
        if len(self.away) == len(self.consumers):
            if not self.consumers:  # what nobody reads any more does not stop with the next join
                self.left = []
            self._nothing(scene, _EMPTY if not self.consumers else _AWAY, extra)
        elif self.waiting is not None:
            self._nothing(scene, _MERGED, extra)
        elif self.away and self._protocol(scene) != CONSUMER:
            self.waiting = _Waiting(scene, self.loop.now_ms, extra)
        else:
            self._goes_through(scene, extra, None)

    def _may_go_on(self) -> None:
        """The members that a rebalance waited for have answered, or were given up."""
        waiting = self.waiting
        if waiting is not None and not self.away and self.consumers:
            self.waiting = None
            waited = self.loop.now_ms - waiting.since_ms
            longer = Bounds(waited, waited) if waited else None
            self._goes_through(waiting.scene, waiting.extra, longer)

    def _goes_through(self, scene: Scene, extra: Bounds, longer_ms: Bounds | None) -> None:
        decider = decider_at(self.policy, scene)
        rows = self._rows(scene)
        if decider is None:
            self._add(scene, None if rows is None else rows.missing(self.policy))
            return
        self._decides(decider)
        self.number += 1
        consumers = list(self.consumers.values())
        leader = scene.generation.first.leader
        before = self.reading.before(consumers)
        done = decider.round(consumers, self.cluster, self.number, leader=leader, gone=self.left)
        self.left = []
        self.reading.after(consumers, before, decider.policy)
        if rows is not None:
            row = rows.lived(
                self.policy, decider, done, cluster=self.cluster, extra=extra, longer_ms=longer_ms
            )
            self._add(scene, row)
        if done.lets_go and self._steps(scene) <= MOST_FOLLOW_UPS:
            wait = min((self._timeout(c.state) // 3 for c in consumers), default=0)
            again = partial(self._follows, scene, self.number)
            self.loop.after(min(wait, _HEARTBEAT_MS), again, rank=-1)

    def _follows(self, scene: Scene, number: int) -> None:
        """The second phase; where another rebalance came in between, that was it."""
        if number == self.number and self.waiting is None:
            self._rebalances(scene, NOTHING)

    def _decides(self, decider: Decider) -> None:
        """A strategy that was not there before does not know what another one remembered."""
        if self.decider is not None and self.decider.strategy is not decider.strategy:
            self.decider = decider
            for one in self.consumers.values():
                self._remembers(one)
        self.decider = decider

    def _remembers(self, one: SimulatedConsumer) -> None:
        """What a member knows that has just got what it holds."""
        if self.decider is None or not len(one.held):
            one.memory = None
        else:
            one.memory = self.decider.recalls(one, self.cluster.index)

    def _protocol(self, scene: Scene) -> str:
        own = self.policy.protocol == OWN
        return protocol_of(scene.generation) if own else self.policy.protocol

    # --- rows --------------------------------------------------------------------------------

    def _rows(self, scene: Scene) -> Rows | None:
        if not scene.replayable:
            return None
        if id(scene) not in self.told:
            self.told[id(scene)] = _Told(scene, Rows.of(scene, self.world, CUMULATIVE))
        return self.told[id(scene)].rows

    def _steps(self, scene: Scene) -> int:
        told = self.told.get(id(scene))
        return 0 if told is None else told.steps

    def _nothing(self, scene: Scene, why: str, extra: Bounds) -> None:
        rows = self._rows(scene)
        decider = decider_at(self.policy, scene)
        if rows is not None and decider is not None:
            self._add(scene, rows.none(self.policy, decider, why, extra))
        elif rows is not None:
            self._add(scene, rows.missing(self.policy))

    def _add(self, scene: Scene, row: Lived | None) -> None:
        if row is not None:
            told = self.told[id(scene)]
            self.rows.append(replace(row, step=told.steps, time_ms=self.loop.now_ms))
            told.steps += 1


def _topics(state: MemberState) -> frozenset[str]:
    return frozenset(state.subscription.topics if state.subscription else ())
