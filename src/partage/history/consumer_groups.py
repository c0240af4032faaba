"""A consumer, share or streams group's epochs, from its records in log order.

The coordinator (KIP-848, KIP-932, KIP-1071) writes each change as a batch of small records:

* member metadata when a member joins, changes its subscription, or goes (a tombstone);
* the group's metadata with a new epoch whenever a new target assignment is due;
* the members' new targets, those that changed only, and at last the target's epoch;
* a member's current assignment whenever it takes or gives up something.

One target assignment is one rebalance. Epochs that never got one (two members joined within
``assignment.interval.ms``) are no gap as long as the group's metadata tells of them. A static
member that comes back takes over its predecessor's target, which is no rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from partage.history.clusters import TopicNames
from partage.history.events import (
    ACTIVE,
    OWNER,
    RECORDED,
    RELEASING,
    STANDBY,
    WARMUP,
    Cause,
    CurrentAssignment,
    Event,
    Generation,
    Roles,
    StreamsInput,
    TargetInput,
)
from partage.history.records import (
    ClassicState,
    GroupRecord,
    MemberState,
    Pairs,
    Subscription,
    TopicPartitionNumbers,
    partition_numbers,
)
from partage.model import Cluster

__all__ = [
    "SERVER_VERSION",
    "EpochGroup",
    "EpochGroupState",
    "group_by_topic",
    "resolve_topics",
    "source_counts",
    "source_topics",
    "speaks_classic",
    "target_member",
    "task_partitions",
]

#: Epoch with which a group begins: the first heartbeat makes it 2 (4.3.1), or 1.
_FIRST_EPOCH = 2


#: A static member that has gone for a while says so with this epoch.
_AWAY = -2


_ROLES = {"activeTasks": ACTIVE, "standbyTasks": STANDBY, "warmupTasks": WARMUP}


@dataclass(slots=True)
class EpochGroupState:
    """What the coordinator knows of one group, as far as the log tells; plain values only.

    Attributes:
        came_from: generation of the classic group that was migrated, None if there was none.
        epoch: of the group; ``target_epoch`` of its target assignment.
        targets: by member; ``fresh`` are those written since the last target epoch.
        resolved: topics of regular expressions.
        departed: targets of static members that went, by instance, for who comes back.
        replaced: (member, time) of static members that went, by instance.
        epochs_seen: epochs of the group since the last target; ``missing``: those not seen.
        whole: whether the log has the group from its beginning.
        happened: causes since the last target assignment.
    """

    kind: str
    incarnation: int
    came_from: int | None = None
    epoch: int = -1
    metadata_hash: int | None = None
    target_epoch: int = -1
    members: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    targets: dict[str, Roles] = field(default_factory=dict)
    fresh: dict[str, Roles] = field(default_factory=dict)
    resolved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    departed: dict[str, Roles] = field(default_factory=dict)
    replaced: dict[str, tuple[str, int]] = field(default_factory=dict)
    assignable: TopicPartitionNumbers | None = None
    topology: Mapping[str, Any] | None = None
    settings: dict[str, str] = field(default_factory=dict)
    epochs_seen: int = 0
    missing: int = 0
    whole: bool = False
    happened: tuple[Cause, ...] = ()
    open: Generation | None = None


class EpochGroup:
    """One life of a group of one protocol: feed its records in log order, then `finish`.

    Args:
        state: where to go on; a new `EpochGroupState` at the beginning.
        book: names of topic ids.
    """

    def __init__(self, state: EpochGroupState, book: TopicNames) -> None:
        self.state = state
        self._book = book

    def feed(self, record: GroupRecord) -> Iterator[Generation | CurrentAssignment | Event]:
        """What a record completes: a target assignment once the next one begins."""
        what = record.what
        if what == "GROUP_METADATA":
            self._group(record)
        elif what == "GROUP_MEMBER_METADATA":
            yield from self._member(record)
        elif what == "GROUP_TARGET_ASSIGNMENT_MEMBER":
            self._target(record)
        elif what == "GROUP_TARGET_ASSIGNMENT_METADATA":
            yield from self._decided(record)
        elif what == "GROUP_CURRENT_MEMBER_ASSIGNMENT":
            yield from self._current(record)
        elif what == "GROUP_REGULAR_EXPRESSION":
            self._regex(record)
        elif what == "GROUP_STATE_PARTITION_METADATA":
            self._share_state(record)
        elif what == "GROUP_TOPOLOGY":
            self.state.topology = record.value

    def finish(self) -> Iterator[Generation]:
        """The target assignment that lasts when the log, or the group, ends."""
        if self.state.open is not None:
            yield self._mended(self.state.open)
            self.state.open = None

    def _group(self, record: GroupRecord) -> None:
        if record.value is None:
            return
        state = self.state
        epoch, told = record.value["epoch"], record.value.get("metadataHash")
        # A streams group has its first target an epoch later, when its initial delay is over.
        state.whole = state.whole or (state.epoch < 0 and epoch <= _FIRST_EPOCH)
        if epoch > state.epoch:
            state.epochs_seen += 1
        if state.metadata_hash not in (None, 0, told):
            detail = "the coordinator saw other topics, partitions or racks"
            self._happen(Cause("topics", RECORDED, time_ms=record.timestamp_ms, detail=detail))
        state.epoch, state.metadata_hash = epoch, told
        rows = record.value.get("lastAssignmentConfigs") or ()
        state.settings = {row["key"]: row["value"] for row in rows}

    def _member(self, record: GroupRecord) -> Iterator[Event]:
        state, member = self.state, record.key["memberId"]
        old, new = state.members.get(member), record.value
        at = record.timestamp_ms
        if new is None:
            state.members.pop(member, None)
            instance = old.get("instanceId") if old else None
            if instance is not None:
                state.replaced[instance] = (member, at)
            else:
                self._happen(Cause("leave", RECORDED, member, time_ms=at, detail=_client(old)))
            return
        state.members[member] = new
        instance = new.get("instanceId")
        if old is not None:
            self._compare(record, old, new)
        elif instance is not None and instance in state.replaced:
            gone, _ = state.replaced.pop(instance)
            yield self._event("restart", record, member, instance, f"was {gone}")
            words = f"was {gone}"
            self._happen(Cause("bounce", RECORDED, member, instance, at, words, gone))
        else:
            self._happen(Cause("join", RECORDED, member, instance, at, _client(new)))

    def _compare(self, record: GroupRecord, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        at = (record.key["memberId"], new.get("instanceId"), record.timestamp_ms)
        before, after = (_wanted(value) for value in (old, new))
        if before != after:
            words = f"{_told(before)} to {_told(after)}"
            self._happen(Cause("resubscription", RECORDED, *at, words))
        assignors = old.get("serverAssignor"), new.get("serverAssignor")
        if assignors[0] != assignors[1]:
            words = f"{assignors[0] or 'default'} to {assignors[1] or 'default'}"
            self._happen(Cause("strategy", RECORDED, *at, words))

    def _happen(self, cause: Cause) -> None:
        self.state.happened = (*self.state.happened, cause)

    def _target(self, record: GroupRecord) -> None:
        state, member = self.state, record.key["memberId"]
        instance = state.members.get(member, {}).get("instanceId")
        if record.value is None:
            gone = state.targets.pop(member, None)
            if instance is not None and gone is not None:
                state.departed[instance] = gone
            return
        target = _roles(record.value)
        if instance in state.departed and member not in state.targets:
            state.targets[member] = target  # inherited: the assignor has not been asked
            del state.departed[instance]
        else:
            state.fresh[member] = target

    def _decided(self, record: GroupRecord) -> Iterator[Generation]:
        if record.value is None:
            return
        yield from self.finish()
        state, epoch = self.state, record.value["assignmentEpoch"]
        decided_ms = record.value.get("assignmentTimestamp") or None
        taken = state.target_epoch < 0 and epoch == state.came_from
        state.whole = state.whole or taken or epoch <= _FIRST_EPOCH
        given = state.targets | state.fresh
        target = {m: given.get(m, ()) for m in self._present()}
        if state.kind == "share" and state.assignable is None and state.whole:
            state.assignable = ()  # KIP-932: nothing, until the share state is initialised
        before = {m: state.targets[m] for m in target if m in state.targets}
        decision = TargetInput(
            target, before, state.whole, state.assignable, decided_ms, self._streams()
        )
        gap = self._gap(epoch, taken=taken)
        state.missing += gap
        self._left_for_good()
        shown = self._shown(epoch, decision, record.timestamp_ms)
        state.open = Generation(
            state.incarnation, record.position, record.timestamp_ms, shown, shown, 1, gap, None,
            protocol=state.kind, causes=state.happened, target=decision, taken_over=taken,
        )  # fmt: skip
        state.targets = {m: t for m, t in target.items() if t or m in state.members}
        state.fresh, state.happened, state.epochs_seen = {}, (), 0
        state.target_epoch = epoch

    def _streams(self) -> StreamsInput | None:
        state = self.state
        if state.kind != "streams":
            return None
        processes = {m: value["processId"] for m, value in state.members.items()}
        return StreamsInput(processes, state.topology, state.settings)

    def _left_for_good(self) -> None:
        """Static members whose records went, and whose instance did not come back at once."""
        for instance, (member, time_ms) in self.state.replaced.items():
            self._happen(Cause("leave", RECORDED, member, instance, time_ms))
        self.state.replaced = {}
        self.state.departed = {}

    def _present(self) -> list[str]:
        """Members, those included of which the log has a target only."""
        return list(dict.fromkeys((*self.state.members, *self.state.targets, *self.state.fresh)))

    def _gap(self, epoch: int, *, taken: bool) -> int:
        """Epochs between the last target and this one of which the log has no trace."""
        state = self.state
        if taken:
            return 0
        before = state.target_epoch if state.target_epoch >= 0 else _FIRST_EPOCH - 1
        return max(0, epoch - before - max(1, state.epochs_seen))

    def _shown(self, epoch: int, decision: TargetInput, time_ms: int) -> ClassicState:
        """A target assignment in the form in which all generations come."""
        members = tuple(self._shown_member(m, decision, time_ms) for m in decision.target)
        return ClassicState(
            self.state.kind, epoch, self._strategy(), None, decision.decided_ms, members
        )

    def _shown_member(self, member: str, decision: TargetInput, time_ms: int) -> MemberState:
        state = self.state
        value = state.members.get(member)
        wanted = (
            source_topics(state.topology)
            if state.kind == "streams"
            else resolve_topics(value or {}, state.resolved)
        )
        before, now = (
            group_by_topic((t, p) for role, _, t, p in self._parts(roles, time_ms) if role in _MAIN)
            for roles in (decision.before.get(member, ()), decision.target[member])
        )
        since = state.target_epoch if member in decision.before else -1
        return target_member(member, value, wanted, owned=before, assigned=now, epoch=since)

    def _parts(self, roles: Roles, time_ms: int) -> Iterator[tuple[str, str | None, str, int]]:
        """(role, topic id, topic, partition) of what a member was given or has."""
        for role, by_id in roles:
            if self.state.kind == "streams":
                base = ACTIVE if role == RELEASING else role
                flat = task_partitions(self.state.topology, by_id, base, self._book, time_ms)
                for topic, p in flat:
                    yield role, self._book.id_of(topic, time_ms), topic, p
                continue
            for topic_id, numbers in by_id:
                name = self._book.name_of(topic_id)
                for p in numbers:
                    yield role, topic_id, name, p

    def _strategy(self) -> str | None:
        """The assignor by its name here: what most members ask for, else the broker's default."""
        state = self.state
        if state.kind == "share":
            return "server:simple"
        if state.kind == "streams":
            return "streams:server-sticky"
        votes: dict[str, int] = {}
        for value in state.members.values():
            if value.get("serverAssignor"):
                votes[value["serverAssignor"]] = votes.get(value["serverAssignor"], 0) + 1
        if not state.members:
            return None
        return f"server:{max(votes, key=votes.__getitem__) if votes else 'uniform'}"

    def _current(self, record: GroupRecord) -> Iterator[CurrentAssignment | Event]:
        state, member = self.state, record.key["memberId"]
        value = record.value
        instance = state.members.get(member, {}).get("instanceId")
        epoch = value["memberEpoch"] if value is not None else -1
        if epoch == _AWAY:
            yield self._event("away", record, member, instance, "a static member, for a while")
        roles = _held_roles(value) if value is not None and epoch != _AWAY else ()
        yield CurrentAssignment(
            state.incarnation, record.position, record.timestamp_ms, max(state.target_epoch, 0),
            member, instance, epoch, tuple(self._parts(roles, record.timestamp_ms)),
        )  # fmt: skip

    def _regex(self, record: GroupRecord) -> None:
        pattern = record.key["regularExpression"]
        if record.value is None:
            self.state.resolved.pop(pattern, None)
            return
        topics = tuple(record.value["topics"])
        before = self.state.resolved.get(pattern)
        if before is not None and before != topics:
            words = ", ".join(sorted(set(before) ^ set(topics)))
            detail = f"regular expression {pattern!r}: {words}"
            self._happen(Cause("topics", RECORDED, time_ms=record.timestamp_ms, detail=detail))
        self.state.resolved[pattern] = topics

    def _share_state(self, record: GroupRecord) -> None:
        if record.value is None:
            self.state.assignable = ()
            return
        rows = record.value["initializedTopics"]
        for row in (*rows, *record.value["initializingTopics"]):
            self._book.learn(row["topicId"], row["topicName"])
        before = self.state.assignable
        self.state.assignable = partition_numbers(rows)
        if dict(self.state.assignable) != dict(before or ()):
            detail = "share state of partitions initialised or deleted"
            self._happen(Cause("topics", RECORDED, time_ms=record.timestamp_ms, detail=detail))

    def _mended(self, found: Generation) -> Generation:
        """A generation with its last state: static members may have come back meanwhile.

        In a compacted log a member's metadata may stand behind the target that it is part of.
        """
        state, first = self.state, found.first
        late = {m.id for m in first.members if m.damage is not None} & state.members.keys()
        if late and found.target is not None:
            members = tuple(
                self._shown_member(m.id, found.target, found.timestamp_ms) if m.id in late else m
                for m in first.members
            )
            strategy = first.strategy or self._strategy()
            first = replace(first, members=members, strategy=strategy)
        heirs = {
            value["instanceId"]: member
            for member, value in state.members.items()
            if value.get("instanceId") is not None
        }
        last = tuple(
            replace(m, id=heirs[m.instance]) if m.instance in heirs else m for m in first.members
        )
        return replace(found, first=first, last=replace(first, members=last))

    def _event(
        self, name: str, record: GroupRecord, member: str, instance: str | None, detail: str
    ) -> Event:
        epoch = max(self.state.target_epoch, 0)
        at = (self.state.incarnation, epoch, record.position, record.timestamp_ms)
        return Event(name, *at, RECORDED, member, instance, detail)


#: Roles of which there is one owner at a time, whose partitions `MemberState.assigned` has.
_MAIN = (OWNER, ACTIVE)


def _roles(value: Mapping[str, Any]) -> Roles:
    if "topicPartitions" in value:
        return ((OWNER, partition_numbers(value["topicPartitions"])),)
    return tuple((r, partition_numbers(value[f], "subtopologyId")) for f, r in _ROLES.items())


def _held_roles(value: Mapping[str, Any]) -> Roles:
    if "assignedPartitions" in value:
        pending = partition_numbers(value.get("partitionsPendingRevocation"))
        return ((OWNER, partition_numbers(value["assignedPartitions"])), (RELEASING, pending))
    pending = partition_numbers(value["activeTasksPendingRevocation"], "subtopologyId")
    return (*_roles(value), (RELEASING, pending))


def _wanted(value: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    names = value.get("subscribedTopicNames") or ()
    return tuple(sorted(names)), value.get("subscribedTopicRegex") or ""


def _told(wanted: tuple[tuple[str, ...], str]) -> str:
    names, pattern = wanted
    return ", ".join([*names, *([repr(pattern)] if pattern else [])]) or "nothing"


def _client(value: Mapping[str, Any] | None) -> str | None:
    return value["clientId"] if value else None


#: Version of a `Subscription` that was sent in a heartbeat, not as bytes of the consumer protocol.
SERVER_VERSION = -1


_UNKNOWN = "its member record is not in the log: it joined before the log begins"


def resolve_topics(
    value: Mapping[str, Any], resolved: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Subscribed topics: names as sent, then what the regular expression matches (KIP-848).

    >>> resolve_topics({"subscribedTopicNames": ["a"], "subscribedTopicRegex": "b.*"},
    ...           {"b.*": ("b1", "b2")})
    ('a', 'b1', 'b2')
    """
    names = value.get("subscribedTopicNames") or ()
    pattern = value.get("subscribedTopicRegex") or ""
    return tuple(dict.fromkeys((*names, *resolved.get(pattern, ()))))


def speaks_classic(value: Mapping[str, Any]) -> bool:
    """Whether a member of a consumer group joined by the classic protocol (in a migration).

    A record without the field reads as an empty struct, which no such member has.
    """
    classic = value.get("classicMemberMetadata")
    return classic is not None and bool(classic["supportedProtocols"])


def target_member(
    member: str,
    value: Mapping[str, Any] | None,
    topics: tuple[str, ...],
    *,
    owned: Pairs,
    assigned: Pairs,
    epoch: int,
) -> MemberState:
    """A member of a target assignment.

    Args:
        member: its id.
        value: of its member metadata record; None where the log has none.
        topics: subscribed ones, regular expressions resolved.
        owned: its target before, which is what the coordinator goes by.
        assigned: its target now.
        epoch: of the target before, -1 if there was none.
    """
    if value is None:
        return MemberState(member, None, "", "", -1, -1, None, assigned, -1, None, _UNKNOWN)
    sent = Subscription(SERVER_VERSION, topics, None, owned, epoch, value.get("rackId"))
    classic = value["classicMemberMetadata"] if speaks_classic(value) else None
    return MemberState(
        member,
        value.get("instanceId"),
        value["clientId"],
        value["clientHost"],
        value.get("rebalanceTimeoutMs", -1),
        classic["sessionTimeoutMs"] if classic else -1,
        sent,
        assigned,
        -1,
        None,
        None,
    )


def group_by_topic(flat: Iterable[tuple[str, int]]) -> Pairs:
    """(topic, partition) in order, as runs of one topic.

    >>> group_by_topic([("a", 1), ("a", 0), ("b", 2)])
    (('a', (1, 0)), ('b', (2,)))
    """
    runs = groupby(flat, key=lambda pair: pair[0])
    return tuple((topic, tuple(p for _, p in run)) for topic, run in runs)


def source_topics(topology: Mapping[str, Any] | None) -> tuple[str, ...]:
    """All topics that the subtopologies of a topology read, sorted.

    >>> source_topics({"subtopologies": [{"subtopologyId": "0", "sourceTopics": ["b", "a"],
    ...                                   "repartitionSourceTopics": []}]})
    ('a', 'b')
    """
    rows = topology["subtopologies"] if topology else ()
    return tuple(sorted({topic for row in rows for topic in _sources(row)}))


def task_partitions(
    topology: Mapping[str, Any] | None,
    tasks: TopicPartitionNumbers,
    role: str,
    book: TopicNames,
    time_ms: int,
) -> tuple[tuple[str, int], ...]:
    """What the tasks of one role read: source topics where active, changelogs otherwise.

    A task ``0_3`` reads partition 3 of each topic of subtopology 0 that has one. A standby
    or a warm-up task reads the changelogs only; a subtopology without state has none.

    Args:
        topology: the group's STREAMS_GROUP_TOPOLOGY value; None if the log lacks it.
        tasks: (subtopology, numbers).
        role: active, standby or warmup.
        book: knows how many partitions topics had.
        time_ms: when.
    """
    rows = {row["subtopologyId"]: row for row in (topology["subtopologies"] if topology else ())}
    out: list[tuple[str, int]] = []
    for subtopology, numbers in tasks:
        row = rows.get(subtopology)
        if row is None:  # nothing tells what it reads: the task itself is shown
            out.extend((f"task {subtopology}", p) for p in numbers)
            continue
        topics = _sources(row) if role == ACTIVE else _changelogs(row)
        out.extend((t, p) for t in topics for p in numbers if book.has(t, p, time_ms))
    return tuple(out)


def source_counts(row: Mapping[str, Any], cluster: Cluster) -> list[int]:
    """How many partitions each topic that a subtopology reads has."""
    return [len(cluster.partitions_of(topic)) for topic in _sources(row)]


def _sources(row: Mapping[str, Any]) -> list[str]:
    repartitioned = [topic["name"] for topic in row.get("repartitionSourceTopics") or ()]
    return [*row["sourceTopics"], *repartitioned]


def _changelogs(row: Mapping[str, Any]) -> list[str]:
    return [topic["name"] for topic in row.get("stateChangelogTopics") or ()]
