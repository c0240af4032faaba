"""Epochs of a consumer, share or streams group, from its records in log order.

The coordinator (KIP-848, KIP-932, KIP-1071) writes each change as a batch of small records:

* member metadata when a member joins, changes its subscription, or leaves (a tombstone);
* the group's metadata with a new epoch whenever a new target assignment is due;
* the changed targets of members, then the target assignment epoch;
* a member's current assignment whenever it acquires or revokes partitions.

One target assignment is one rebalance, a `Generation`. An epoch without a target (two members
joined within ``assignment.interval.ms``) is not missing if the group's metadata mentions it. A
static member that rejoins takes over its predecessor's target, which is no rebalance.

The last part of the module maps tasks of streams groups to the partitions that they read.
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
    "HEARTBEAT_VERSION",
    "EpochGroup",
    "EpochGroupState",
    "build_target_member",
    "group_by_topic",
    "resolve_topics",
    "source_topic_partitions",
    "source_topics",
    "task_partitions",
    "topics_of_subtopology",
    "uses_classic_protocol",
]

#: Version of a `Subscription` sent in a heartbeat, not as bytes of the consumer protocol.
HEARTBEAT_VERSION = -1
#: First epoch of a group: the first heartbeat makes it 2 (Kafka 4.3.1), or 1.
_FIRST_EPOCH = 2
#: Member epoch of a static member that left temporarily.
_STATIC_LEAVE_EPOCH = -2
_TASK_FIELDS = {"activeTasks": ACTIVE, "standbyTasks": STANDBY, "warmupTasks": WARMUP}
#: Roles with one owner at a time, whose partitions are in `MemberState.assigned`.
_EXCLUSIVE_ROLES = (OWNER, ACTIVE)
_NO_MEMBER_RECORD = "its member record is not in the log: it joined before the log begins"


@dataclass(slots=True)
class EpochGroupState:
    """State of a consumer, share or streams group in its coordinator, rebuilt from the log.

    It is stored between runs, so that a later run can continue with new records.

    Attributes:
        came_from: generation of the migrated classic group, None without a migration.
        epoch: the group epoch.
        target_epoch: the target assignment epoch.
        members: dict from member id to value of its member metadata record.
        targets: dict from member id to target assignment.
        fresh: dict from member id to target written since the last target assignment epoch.
        resolved: dict from regular expression to topics that it matches.
        departed: dict from instance id to target of a static member that left, for its successor.
        replaced: dict from instance id to (member, time) of a static member that left.
        epochs_seen: group epochs in the log since the last target assignment.
        missing: epochs without a trace in the log.
        whole: whether the log has the group from its beginning.
        happened: causes found since the last target assignment.
        open: the newest target assignment.
    """

    # It has plain values only, so that it can be stored.
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
    """Reader of the log records of a consumer, share or streams group (KIP-848).

    It finds the group's target assignments, each of which corresponds to a rebalance of a classic
    group. Call `process_record` with each record in log order, then `finish_generation` at the end
    of the group.

    Args:
        state: the state to resume from; a new `EpochGroupState` at the beginning.
        topics: lookup of topic names by topic id.
    """

    def __init__(self, state: EpochGroupState, topics: TopicNames) -> None:
        self.state = state
        self._topics = topics

    def process_record(
        self, record: GroupRecord
    ) -> Iterator[Generation | CurrentAssignment | Event]:
        """Process a consumer group's next log record; yield assignments and events that are now
        complete.

        A target assignment is complete when the next one begins.
        """
        what = record.record_type
        if what == "GROUP_METADATA":
            self._process_group(record)
        elif what == "GROUP_MEMBER_METADATA":
            yield from self._process_member(record)
        elif what == "GROUP_TARGET_ASSIGNMENT_MEMBER":
            self._process_member_target(record)
        elif what == "GROUP_TARGET_ASSIGNMENT_METADATA":
            yield from self._process_target_epoch(record)
        elif what == "GROUP_CURRENT_MEMBER_ASSIGNMENT":
            yield from self._process_current_assignment(record)
        elif what == "GROUP_REGULAR_EXPRESSION":
            self._process_regular_expression(record)
        elif what == "GROUP_STATE_PARTITION_METADATA":
            self._process_share_state(record)
        elif what == "GROUP_TOPOLOGY":
            self.state.topology = record.value

    def finish_generation(self) -> Iterator[Generation]:
        """Yield the group's last target assignment (KIP-848) when the log or the group ends.

        It was not complete before, because no later one has begun.
        """
        if self.state.open is not None:
            yield self._complete_members(self.state.open)
            self.state.open = None

    def _process_group(self, record: GroupRecord) -> None:
        if record.value is None:
            return
        state = self.state
        epoch, metadata_hash = record.value["epoch"], record.value.get("metadataHash")
        # A streams group's first target comes one epoch later, after its initial delay.
        state.whole = state.whole or (state.epoch < 0 and epoch <= _FIRST_EPOCH)
        if epoch > state.epoch:
            state.epochs_seen += 1
        if state.metadata_hash not in (None, 0, metadata_hash):
            detail = "the coordinator saw other topics, partitions or racks"
            self._add_cause(Cause("topics", RECORDED, time_ms=record.timestamp_ms, detail=detail))
        state.epoch, state.metadata_hash = epoch, metadata_hash
        rows = record.value.get("lastAssignmentConfigs") or ()
        state.settings = {row["key"]: row["value"] for row in rows}

    def _process_member(self, record: GroupRecord) -> Iterator[Event]:
        state, member = self.state, record.key["memberId"]
        old, new = state.members.get(member), record.value
        at = record.timestamp_ms
        if new is None:
            state.members.pop(member, None)
            instance = old.get("instanceId") if old else None
            if instance is not None:
                state.replaced[instance] = (member, at)
            else:
                client = old["clientId"] if old else None
                self._add_cause(Cause("leave", RECORDED, member, time_ms=at, detail=client))
            return
        state.members[member] = new
        instance = new.get("instanceId")
        if old is not None:
            self._add_subscription_cause(record, old, new)
        elif instance is not None and instance in state.replaced:
            predecessor, _ = state.replaced.pop(instance)
            words = f"was {predecessor}"
            yield self._event("restart", record, member, instance, words)
            self._add_cause(Cause("bounce", RECORDED, member, instance, at, words, predecessor))
        else:
            self._add_cause(Cause("join", RECORDED, member, instance, at, new["clientId"]))

    def _add_subscription_cause(
        self, record: GroupRecord, old_metadata: Mapping[str, Any], new_metadata: Mapping[str, Any]
    ) -> None:
        """Store a change of a member's subscription or assignor as a cause of the next rebalance.

        Args:
            record: the member metadata record.
            old_metadata: the member's metadata before the record.
            new_metadata: the member's metadata in the record.
        """
        at = (record.key["memberId"], new_metadata.get("instanceId"), record.timestamp_ms)
        before, after = (_subscribed(value) for value in (old_metadata, new_metadata))
        if before != after:
            words = f"{_subscription_text(before)} to {_subscription_text(after)}"
            self._add_cause(Cause("resubscription", RECORDED, *at, words))
        assignors = old_metadata.get("serverAssignor"), new_metadata.get("serverAssignor")
        if assignors[0] != assignors[1]:
            words = f"{assignors[0] or 'default'} to {assignors[1] or 'default'}"
            self._add_cause(Cause("strategy", RECORDED, *at, words))

    def _add_cause(self, cause: Cause) -> None:
        self.state.happened = (*self.state.happened, cause)

    def _process_member_target(self, record: GroupRecord) -> None:
        state, member = self.state, record.key["memberId"]
        instance = state.members.get(member, {}).get("instanceId")
        if record.value is None:
            target = state.targets.pop(member, None)
            if instance is not None and target is not None:
                state.departed[instance] = target
            return
        target = _roles(record.value)
        if instance in state.departed and member not in state.targets:
            state.targets[member] = target  # takeover by a static member: no assignor decided it
            del state.departed[instance]
        else:
            state.fresh[member] = target

    def _process_target_epoch(self, record: GroupRecord) -> Iterator[Generation]:
        """Process the record that completes a target assignment (KIP-848); yield the one before it.

        The new one is yielded later, because later records may still change it.
        """
        # Kafka writes this record last, after the members' targets.
        if record.value is None:
            return
        yield from self.finish_generation()
        state, epoch = self.state, record.value["assignmentEpoch"]
        decided_ms = record.value.get("assignmentTimestamp") or None
        is_migrated = state.target_epoch < 0 and epoch == state.came_from
        state.whole = state.whole or is_migrated or epoch <= _FIRST_EPOCH
        targets = state.targets | state.fresh
        # Members in order of joining, those included of which the log has a target only.
        members = dict.fromkeys((*state.members, *state.targets, *state.fresh))
        target = {m: targets.get(m, ()) for m in members}
        if state.kind == "share" and state.assignable is None and state.whole:
            state.assignable = ()  # KIP-932: nothing, until the share state is initialised
        before = {m: state.targets[m] for m in target if m in state.targets}
        decision = TargetInput(
            target, before, state.whole, state.assignable, decided_ms, self._streams_input()
        )
        gap = 0 if is_migrated else self._count_missing_epochs(epoch)
        state.missing += gap
        self._add_leaves_of_static_members()
        shown = self._to_classic_state(epoch, decision, record.timestamp_ms)
        state.open = Generation(
            state.incarnation, record.position, record.timestamp_ms, shown, shown, 1, gap, None,
            protocol=state.kind, causes=state.happened, target=decision, taken_over=is_migrated,
        )  # fmt: skip
        state.targets = {m: t for m, t in target.items() if t or m in state.members}
        state.fresh, state.happened, state.epochs_seen = {}, (), 0
        state.target_epoch = epoch

    def _streams_input(self) -> StreamsInput | None:
        state = self.state
        if state.kind != "streams":
            return None
        processes = {m: value["processId"] for m, value in state.members.items()}
        return StreamsInput(processes, state.topology, state.settings)

    def _add_leaves_of_static_members(self) -> None:
        """Store a cause of the next rebalance for each static member that left and did not rejoin.

        This is done at the rebalance, because until then the member may be restarting.
        """
        for instance, (member, time_ms) in self.state.replaced.items():
            self._add_cause(Cause("leave", RECORDED, member, instance, time_ms))
        self.state.replaced = {}
        self.state.departed = {}

    def _count_missing_epochs(self, epoch: int) -> int:
        """Return how many group epochs since the last target assignment have no record in the log.

        ``epoch`` is the group's present epoch.
        """
        state = self.state
        before = state.target_epoch if state.target_epoch >= 0 else _FIRST_EPOCH - 1
        return max(0, epoch - before - max(1, state.epochs_seen))

    def _to_classic_state(self, epoch: int, decision: TargetInput, time_ms: int) -> ClassicState:
        """Convert a target assignment (KIP-848) to a `ClassicState`, as which groups of all
        protocols are processed.

        Args:
            epoch: epoch of the target assignment.
            decision: the target assignment and the assignor's input.
            time_ms: time of the record.
        """
        members = tuple(self._member_of(m, decision, time_ms) for m in decision.target)
        return ClassicState(
            self.state.kind, epoch, self._strategy_name(), None, decision.decided_ms, members
        )

    def _member_of(self, member: str, decision: TargetInput, time_ms: int) -> MemberState:
        state = self.state
        value = state.members.get(member)
        topics = (
            source_topics(state.topology)
            if state.kind == "streams"
            else resolve_topics(value or {}, state.resolved)
        )
        before, now = (
            group_by_topic(
                (topic, p)
                for role, _, topic, p in self._list_partitions(roles, time_ms)
                if role in _EXCLUSIVE_ROLES
            )
            for roles in (decision.before.get(member, ()), decision.target[member])
        )
        epoch = state.target_epoch if member in decision.before else -1
        return build_target_member(member, value, topics, owned=before, assigned=now, epoch=epoch)

    def _list_partitions(
        self, roles: Roles, time_ms: int
    ) -> Iterator[tuple[str, str | None, str, int]]:
        """Yield each partition that is assigned to a member.

        Each item is (role, topic id, topic name, partition).

        Args:
            roles: the member's assignment by role, such as active or standby.
            time_ms: time of the assignment.
        """
        # For a streams group the partitions are those that its tasks read.
        for role, by_id in roles:
            if self.state.kind == "streams":
                read_as = ACTIVE if role == RELEASING else role
                topology = self.state.topology
                for topic, p in task_partitions(topology, by_id, read_as, self._topics, time_ms):
                    yield role, self._topics.id_of(topic, time_ms), topic, p
                continue
            for topic_id, numbers in by_id:
                name = self._topics.name_of(topic_id)
                for p in numbers:
                    yield role, topic_id, name, p

    def _strategy_name(self) -> str | None:
        """Return the name of the assignor that the group's coordinator runs, such as
        ``server:uniform``.

        The result is None for a consumer group without members.
        """
        # In a consumer group the assignor that most members request wins, as in Kafka.
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

    def _process_current_assignment(
        self, record: GroupRecord
    ) -> Iterator[CurrentAssignment | Event]:
        state, member = self.state, record.key["memberId"]
        value = record.value
        instance = state.members.get(member, {}).get("instanceId")
        epoch = value["memberEpoch"] if value is not None else -1
        is_absent = epoch == _STATIC_LEAVE_EPOCH
        if is_absent:
            yield self._event("away", record, member, instance, "a static member, for a while")
        roles = _current_roles(value) if value is not None and not is_absent else ()
        yield CurrentAssignment(
            state.incarnation, record.position, record.timestamp_ms, max(state.target_epoch, 0),
            member, instance, epoch, tuple(self._list_partitions(roles, record.timestamp_ms)),
        )  # fmt: skip

    def _process_regular_expression(self, record: GroupRecord) -> None:
        pattern = record.key["regularExpression"]
        if record.value is None:
            self.state.resolved.pop(pattern, None)
            return
        topics = tuple(record.value["topics"])
        before = self.state.resolved.get(pattern)
        if before is not None and before != topics:
            words = ", ".join(sorted(set(before) ^ set(topics)))
            detail = f"regular expression {pattern!r}: {words}"
            self._add_cause(Cause("topics", RECORDED, time_ms=record.timestamp_ms, detail=detail))
        self.state.resolved[pattern] = topics

    def _process_share_state(self, record: GroupRecord) -> None:
        if record.value is None:
            self.state.assignable = ()
            return
        rows = record.value["initializedTopics"]
        for row in (*rows, *record.value["initializingTopics"]):
            self._topics.add_name(row["topicId"], row["topicName"])
        before = self.state.assignable
        self.state.assignable = partition_numbers(rows)
        if dict(self.state.assignable) != dict(before or ()):
            detail = "share state of partitions initialised or deleted"
            self._add_cause(Cause("topics", RECORDED, time_ms=record.timestamp_ms, detail=detail))

    def _complete_members(self, generation: Generation) -> Generation:
        """Add metadata of members to a target assignment, from records that come later in the log.

        In a compacted log, the records of members may come after the assignment. ``generation`` has
        the assignment.
        """
        # This happens in a compacted log. Static members may also have new ids at the end of the
        # generation.
        state, first = self.state, generation.first
        late = {m.id for m in first.members if m.damage is not None} & state.members.keys()
        if late and generation.target is not None:
            members = tuple(
                self._member_of(m.id, generation.target, generation.timestamp_ms)
                if m.id in late
                else m
                for m in first.members
            )
            strategy = first.strategy or self._strategy_name()
            first = replace(first, members=members, strategy=strategy)
        successors = {
            value["instanceId"]: member
            for member, value in state.members.items()
            if value.get("instanceId") is not None
        }
        last = tuple(
            replace(m, id=successors[m.instance]) if m.instance in successors else m
            for m in first.members
        )
        return replace(generation, first=first, last=replace(first, members=last))

    def _event(
        self, name: str, record: GroupRecord, member: str, instance: str | None, detail: str
    ) -> Event:
        epoch = max(self.state.target_epoch, 0)
        at = (self.state.incarnation, epoch, record.position, record.timestamp_ms)
        return Event(name, *at, RECORDED, member, instance, detail)


# --- members and their assignments ------------------------------------------------------------


def resolve_topics(
    member_metadata: Mapping[str, Any], resolved: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the topics to which a member subscribes, by name or regular expression (KIP-848).

    A regular expression is replaced by the topics that it matches.

    Args:
        member_metadata: the member's metadata record.
        resolved: topics that each regular expression matches.

    >>> resolve_topics({"subscribedTopicNames": ["a"], "subscribedTopicRegex": "b.*"},
    ...                {"b.*": ("b1", "b2")})
    ('a', 'b1', 'b2')
    """
    names, pattern = (
        member_metadata.get("subscribedTopicNames") or (),
        member_metadata.get("subscribedTopicRegex"),
    )
    return tuple(dict.fromkeys((*names, *resolved.get(pattern or "", ()))))


def _subscribed(value: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    names = value.get("subscribedTopicNames") or ()
    return tuple(sorted(names)), value.get("subscribedTopicRegex") or ""


def _subscription_text(subscribed: tuple[tuple[str, ...], str]) -> str:
    names, pattern = subscribed
    return ", ".join([*names, *([repr(pattern)] if pattern else [])]) or "nothing"


def uses_classic_protocol(member_metadata: Mapping[str, Any]) -> bool:
    """Return whether a member of a consumer group still uses the classic protocol.

    During a migration (KIP-848), a group has members of both protocols. ``member_metadata`` is the
    value of the member's record.
    """
    classic = member_metadata.get("classicMemberMetadata")
    return classic is not None and bool(classic["supportedProtocols"])


def build_target_member(
    member: str,
    member_metadata: Mapping[str, Any] | None,
    topics: tuple[str, ...],
    *,
    owned: Pairs,
    assigned: Pairs,
    epoch: int,
) -> MemberState:
    """Convert a member with a target assignment (KIP-848) to a `MemberState`.

    This is the form of members of all group protocols.

    Args:
        member: the member id.
        member_metadata: its member metadata record; None if the log has none.
        topics: subscribed topics, including matches of regular expressions.
        owned: its previous target, which the assignor takes as input.
        assigned: its target.
        epoch: epoch of the previous target, -1 if there was none.
    """
    if member_metadata is None:
        return MemberState(
            member, None, "", "", -1, -1, None, assigned, -1, None, _NO_MEMBER_RECORD
        )
    classic = (
        member_metadata["classicMemberMetadata"] if uses_classic_protocol(member_metadata) else None
    )
    return MemberState(
        member,
        member_metadata.get("instanceId"),
        member_metadata["clientId"],
        member_metadata["clientHost"],
        member_metadata.get("rebalanceTimeoutMs", -1),
        classic["sessionTimeoutMs"] if classic else -1,
        Subscription(
            HEARTBEAT_VERSION, topics, None, owned, epoch, member_metadata.get("rackId"),
            member_metadata.get("subscribedTopicRegex") or None,
        ),
        assigned,
        -1,
        None,
        None,
    )  # fmt: skip


def group_by_topic(flat: Iterable[tuple[str, int]]) -> Pairs:
    """Group (topic, partition) pairs by topic.

    For example, ``[("a", 0), ("a", 1)]`` becomes ``(("a", (0, 1)),)``. Only consecutive pairs of
    the same topic are grouped.

    >>> group_by_topic([("a", 1), ("a", 0), ("b", 2)])
    (('a', (1, 0)), ('b', (2,)))
    """
    return tuple(
        (topic, tuple(p for _, p in pairs))
        for topic, pairs in groupby(flat, key=lambda one: one[0])
    )


def _roles(value: Mapping[str, Any]) -> Roles:
    if "topicPartitions" in value:
        return ((OWNER, partition_numbers(value["topicPartitions"])),)
    fields = _TASK_FIELDS.items()
    return tuple((role, partition_numbers(value[f], "subtopologyId")) for f, role in fields)


def _current_roles(value: Mapping[str, Any]) -> Roles:
    if "assignedPartitions" in value:
        pending = partition_numbers(value.get("partitionsPendingRevocation"))
        return ((OWNER, partition_numbers(value["assignedPartitions"])), (RELEASING, pending))
    pending = partition_numbers(value["activeTasksPendingRevocation"], "subtopologyId")
    return (*_roles(value), (RELEASING, pending))


# --- tasks of streams groups ------------------------------------------------------------------


def source_topics(topology: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return all topics that a Kafka Streams topology reads, sorted.

    >>> source_topics({"subtopologies": [{"subtopologyId": "0", "sourceTopics": ["b", "a"],
    ...                                   "repartitionSourceTopics": []}]})
    ('a', 'b')
    """
    rows = topology["subtopologies"] if topology else ()
    return tuple(sorted({topic for row in rows for topic in topics_of_subtopology(row)}))


def task_partitions(
    topology: Mapping[str, Any] | None,
    tasks: TopicPartitionNumbers,
    role: str,
    topics: TopicNames,
    time_ms: int,
) -> tuple[tuple[str, int], ...]:
    """Return the (topic, partition) pairs that Kafka Streams tasks read.

    For example, task ``0_3`` reads partition 3 of the topics of sub-topology 0. Active tasks read
    source topics; standby and warm-up tasks read changelogs.

    Args:
        topology: the group's STREAMS_GROUP_TOPOLOGY value; None if the log lacks it.
        tasks: (subtopology id, task numbers) pairs.
        role: active, standby or warmup.
        topics: lookup of the topics' partition counts.
        time_ms: the time of the assignment.
    """
    rows = {row["subtopologyId"]: row for row in (topology["subtopologies"] if topology else ())}
    out: list[tuple[str, int]] = []
    for subtopology, numbers in tasks:
        row = rows.get(subtopology)
        if row is None:  # its topics are unknown: show the task itself
            out.extend((f"task {subtopology}", p) for p in numbers)
            continue
        changelogs = [topic["name"] for topic in row.get("stateChangelogTopics") or ()]
        names = topics_of_subtopology(row) if role == ACTIVE else changelogs
        out.extend((t, p) for t in names for p in numbers if topics.had_partition(t, p, time_ms))
    return tuple(out)


def source_topic_partitions(subtopology: Mapping[str, Any], cluster: Cluster) -> list[int]:
    """Return the partition count of each source topic of a Kafka Streams sub-topology.

    A topic that does not exist has 0. ``subtopology`` is an item of the group's topology record.
    """
    return [len(cluster.partitions_of(topic)) for topic in topics_of_subtopology(subtopology)]


def topics_of_subtopology(subtopology: Mapping[str, Any]) -> list[str]:
    """Return the source topics of a Kafka Streams sub-topology, including repartition topics.

    ``subtopology`` is an item of the group's topology record.
    """
    repartitioned = [topic["name"] for topic in subtopology.get("repartitionSourceTopics") or ()]
    return [*subtopology["sourceTopics"], *repartitioned]
