"""Comparison of recorded assignments with the result of the group's own strategy.

Agreement proves that the log is understood. For a disagreement, `check_agreement` searches an
input under which the strategy gives the record exactly, and names it; else it is `UNEXPLAINED`.

* Classic generations: the leader's library computed the assignment, so its dialect is run, if
  Partage has one. Other inputs are metadata that the leader may have seen, and owned partitions
  that it may have remembered.
* Target assignments: the coordinator's assignor is run on previous targets by topic id
  (KIP-848, KIP-932, KIP-1071). Other inputs are metadata, and members in another order.
* Kafka Streams of the classic protocol: see `partage.history.streams_agreement`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice
from typing import Any

import numpy as np

from partage.errors import PartageError
from partage.groups import registry
from partage.groups.api import Strategy
from partage.groups.layout import string_hashes
from partage.groups.server.group_assignment import assignment_to_json
from partage.groups.server.partage import PartageFailover, PartageFair, PartageOptimal
from partage.groups.server.range import ServerRange
from partage.groups.server.simple import ServerSimple
from partage.groups.server.spec import GroupSpec, Targets, TopicIds
from partage.groups.server.uniform import ServerUniform
from partage.history.clients import GO_CLIENTS, candidate_strategies, leader_client
from partage.history.clusters import ClusterHistory, alternative_clusters, smaller_clusters
from partage.history.consumer_groups import source_topic_partitions
from partage.history.events import ACTIVE, OWNER, STANDBY, WARMUP, Generation, Roles
from partage.history.problems import (
    is_all_java,
    recorded_assignment,
    recorded_group,
    released_partitions,
    unsupported_reason,
    with_measured_loads,
)
from partage.history.records import (
    CONSUMER,
    ClassicState,
    Subscription,
    TopicPartitionNumbers,
    assigned_partitions,
    recorded_plan,
)
from partage.history.streams_agreement import check_streams_agreement
from partage.history.streams_application import STREAMS_PROTOCOL
from partage.java.hash_order import DEFAULT_TABLE
from partage.judge import BreachKind, check, measure
from partage.model import Assignment, Cluster, Group, Index, Problem
from partage.model.repeated_state import EndlessLoop
from partage.streams.kip1071_sticky import (
    SERVER_ASSIGNORS,
    ServerMember,
    ServerSticky,
    ServerSticky43,
    ServerSubtopology,
)

__all__ = ["UNEXPLAINED", "Verdict", "check_agreement"]

#: The reason of a disagreement that no other input explains.
UNEXPLAINED = "unexplained"
#: Members whose owned partitions are varied one by one, and pairs of members whose order is.
_MOST_MEMBERS = 32
_MOST_PAIRS = 64
#: The coordinator's assignors of consumer and share groups by name.
_Assignor = ServerUniform | ServerRange | ServerSimple | PartageOptimal | PartageFair
_ASSIGNORS: Mapping[str, _Assignor] = {
    assignor.name: assignor
    for assignor in (
        ServerUniform(), ServerRange(), ServerSimple(), PartageOptimal(), PartageFair(),
    )
}  # fmt: skip

#: member -> topic -> partition numbers in the order assigned. The order of topics is not compared:
#: clients write it in the order of their own hash maps.
_Partitions = dict[str, dict[str, list[int]]]
#: member -> topic id -> partition numbers; the coordinator handles them as sets.
_Targets = dict[str, dict[str, frozenset[int]]]
#: member -> role -> tasks (subtopology id, partition); the coordinator handles them as sets.
_Tasks = dict[str, dict[str, frozenset[tuple[str, int]]]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of comparing a recorded assignment with the one that the group's strategy computes.

    Attributes:
        agrees: whether both are equal; None if the strategy cannot be run.
        why: why they differ, or `UNEXPLAINED`, or why the strategy cannot be run.
        judged_by: name of the strategy that was run; None if none was.
        counts: whether a disagreement would be an error of Partage: its strategy is an exact
            reproduction, and Java clients or the coordinator computed the assignment.
        assumed: assumptions about what the log lacks.
        terminates: False if the strategy never returns on the recorded input; ``agrees`` is then
            None and ``why`` says so.
    """

    agrees: bool | None = None
    why: str | None = None
    judged_by: str | None = None
    counts: bool = False
    assumed: str | None = None
    terminates: bool = True


def check_agreement(generation: Generation, clusters: ClusterHistory) -> Verdict:
    """Compare a group's recorded assignment with the one that its own strategy computes.

    If they differ, search for an input that explains it, such as older metadata.

    Args:
        generation: a recorded rebalance of any protocol.
        clusters: the cluster metadata over time.
    """
    state = generation.first
    if not state.members:
        return Verdict(why="no members")
    if generation.taken_over:
        return _check_migration(generation)
    if generation.protocol != "classic":
        return _check_target(generation, clusters)
    if state.protocol_type == CONSUMER and state.strategy == STREAMS_PROTOCOL:
        return _check_streams(generation, clusters)
    reason = unsupported_reason(state)
    if reason is not None:
        return Verdict(why=reason)
    if state.strategy not in registry.strategies():
        return Verdict(why=f"strategy {state.strategy} is not in Partage")
    strategy = registry.find(state.strategy)
    leader = leader_client(state)
    if leader in GO_CLIENTS and state.strategy in ("sticky", "cooperative-sticky"):
        return _check_go_sticky(generation, strategy, leader, clusters)
    tried = [
        _check_strategy(generation, one, clusters) for one in candidate_strategies(state, strategy)
    ]
    fitting = [one for one in tried if one.agrees] or tried
    names = " or ".join(one.judged_by or "" for one in fitting)
    counts = strategy.exact_to is not None and is_all_java(state)
    return replace(fitting[0], judged_by=names, counts=counts)


def _check_streams(generation: Generation, clusters: ClusterHistory) -> Verdict:
    """Compare the recorded tasks of a Kafka Streams application with those that its assignor
    computes.

    ``generation`` is the recorded rebalance with the tasks.
    """
    verdict = check_streams_agreement(generation, clusters)
    why = verdict.why or (UNEXPLAINED if verdict.agrees is False else None)
    counts = verdict.exact and is_all_java(generation.first)
    return Verdict(verdict.agrees, why, verdict.judged_by, counts, verdict.assumed)


def _check_migration(generation: Generation) -> Verdict:
    """Check that a consumer group kept its assignment when it migrated to another protocol
    (KIP-848).

    ``generation`` is the first rebalance after the migration.
    """
    before = generation.previous
    if before is None:
        return Verdict(why="taken over from a group of which the log has nothing")
    old, new = (
        {m.id: frozenset(assigned_partitions(m)) for m in state.members if m.assigned}
        for state in (before.last, generation.first)
    )
    name = "epoch" if before.protocol == "consumer" else "generation"
    words = f"taken over from {name} {before.generation_number} when the group was migrated"
    members = {m.id for m in generation.first.members}
    agrees = {m: pairs for m, pairs in old.items() if m in members} == new
    return Verdict(agrees, words, f"{before.protocol} {name} {before.generation_number}")


# --- classic generations ----------------------------------------------------------------------


class _NeverReturnsError(PartageError):
    """Raised if Kafka's implementation of a strategy would run forever on the recorded input."""


def _check_strategy(
    generation: Generation, strategy: Strategy, clusters: ClusterHistory
) -> Verdict:
    """Run an assignment strategy on a recorded rebalance and compare the result with the record.

    Args:
        generation: recorded rebalance of a classic consumer group.
        strategy: the strategy to run, maybe a client library's own variant (such as librdkafka's).
        clusters: the cluster metadata over time.
    """
    released = released_partitions(generation.first)

    def decide(group: Group, cluster: Cluster) -> _Partitions:
        configured = with_measured_loads(strategy, generation.first, cluster)
        plan = configured.assign(Problem(group, cluster))
        if plan.loop is not None:
            raise _NeverReturnsError(_loop_text(strategy, plan.loop))
        return _assignment_by_topic(plan.assign_revoked(released))

    at = generation.timestamp_ms
    try:
        plan = decide(recorded_group(generation.first), clusters.cluster_at(at))
        if plan == recorded_plan(generation.first):
            return Verdict(agrees=True, judged_by=strategy.name)
    except _NeverReturnsError as e:
        return Verdict(why=str(e), judged_by=strategy.name, terminates=False)
    except PartageError as e:
        return Verdict(agrees=False, why=str(e), judged_by=strategy.name)
    why = _explain_assignment(generation, clusters, decide)
    return Verdict(agrees=False, why=why or UNEXPLAINED, judged_by=strategy.name)


def _check_go_sticky(
    generation: Generation, strategy: Strategy, leader: str, clusters: ClusterHistory
) -> Verdict:
    """Check that a Go client's sticky assignment is as balanced as that of Java's strategy.

    It cannot be computed exactly, because it depends on the random order of Go's maps.
    """
    # The Go assignor depends on the random order of Go's maps, so its plan cannot be reproduced
    # exactly. The recorded plan is consistent if it is valid, has the same largest and smallest
    # load as the plan of Java's strategy, and moves no more partitions.
    judged_by = f"{leader}:{strategy.name}"
    group, cluster = recorded_group(generation.first), clusters.cluster_at(generation.timestamp_ms)
    recorded = recorded_assignment(generation.first, cluster)
    breaches = check(recorded, group, cluster)
    is_first_phase = strategy.name == "cooperative-sticky" and breaches
    if is_first_phase and all(one.kind is BreachKind.NO_OWNER for one in breaches):
        why = "consistent: partitions without owner are assigned in the follow-up rebalance"
        return Verdict(why=why, judged_by=judged_by)
    if breaches:
        return Verdict(agrees=False, why=str(breaches[0]), judged_by=judged_by)
    java = strategy.assign(Problem(group, cluster)).settled()
    here, there = (measure(one, group, cluster) for one in (recorded, java))
    differs = (here.largest, here.smallest) != (there.largest, there.smallest)
    if differs or here.moved > there.moved:
        why = (
            f"loads {here.smallest} to {here.largest} and {here.moved} moved partitions, "
            f"{there.smallest} to {there.largest} and {there.moved} by Java's strategy"
        )
        return Verdict(agrees=False, why=why, judged_by=judged_by)
    why = f"consistent: {leader}'s plan depends on the order of Go's maps, and is as even as Java's"
    return Verdict(why=why, judged_by=judged_by)


def _loop_text(strategy: Strategy, loop: EndlessLoop) -> str:
    length = "1 pass" if loop.length == 1 else f"{loop.length} passes"
    return (
        f"{strategy.name} does not terminate on the recorded input (its passes repeat after"
        f" {length}), so the recorded assignment cannot be compared with its plan"
    )


def _assignment_by_topic(plan: Assignment) -> _Partitions:
    """Convert an assignment to nested dicts: member id to topic to list of partition numbers."""
    # Assigned partitions that the cluster lacks are included, as in recorded assignments.
    out = plan.to_dict()
    for lost in plan.unresolved:
        out[lost.member].setdefault(lost.topic, []).append(lost.partition)
    return out


def _explain_assignment(
    generation: Generation,
    clusters: ClusterHistory,
    decide: Callable[[Group, Cluster], _Partitions],
) -> str | None:
    """Search for another input from which a strategy computes exactly the recorded assignment.

    For example, the leader may have had older metadata. Return a description of that input, or None
    if no input fits. ``generation`` is the rebalance. ``decide`` runs the strategy and returns a
    dict from member to topic to partitions.
    """
    # Such inputs are older metadata or other owned partitions.
    state, at = generation.first, generation.timestamp_ms
    record, sent, now = recorded_plan(state), recorded_group(state), clusters.cluster_at(at)
    near = list(_alternative_metadata(generation, clusters, at, "leader"))
    before = generation.previous.last if generation.previous is not None else None
    tried = [
        *((words, sent, cluster) for words, cluster in near),
        *(
            (words, recorded_group(other), now)
            for words, other in _alternative_owned_partitions(state, before)
        ),
    ]
    if any(m.instance for m in state.members):
        # A client from before KIP-345 (kafka-python 2.0) orders static members by their ids.
        words = "the leader does not see group.instance.id"
        members = tuple(replace(m, instance=None) for m in state.members)
        dynamic = recorded_group(replace(state, members=members))
        tried += [
            (words, dynamic, now),
            *((f"{words}, and {other}", dynamic, cluster) for other, cluster in near),
        ]
    for words, group, cluster in tried:
        try:
            if decide(group, cluster) == record:
                return words
        except PartageError:
            continue
    return None


def _alternative_metadata(
    generation: Generation, clusters: ClusterHistory, at_ms: int, observer: str
) -> Iterator[tuple[str, Cluster]]:
    """Yield other cluster metadata than the recorded one that the assignor may have had.

    An example is older metadata. Each item is (description, cluster).

    Args:
        generation: the recorded rebalance.
        clusters: the cluster metadata over time.
        at_ms: time of the rebalance.
        observer: ``leader`` or ``coordinator``, for the description.
    """
    # The candidates are metadata of other times and other broker racks. If no metadata was recorded
    # yet at that time, they include topics with fewer partitions.
    members = generation.first.members
    topics = [t for m in members if m.subscription for t in m.subscription.topics]
    highest: dict[str, int] = {}
    for topic, p in (pair for m in members for pair in assigned_partitions(m)):
        highest[topic] = max(highest.get(topic, -1), p)
    unseen = sorted(set(topics) - highest.keys())
    yield from alternative_clusters(clusters, at_ms, topics, unseen, observer)
    if clusters.assumed_at(at_ms):
        yield from smaller_clusters(clusters.cluster_at(at_ms), highest, observer)


def _alternative_owned_partitions(
    state: ClassicState, previous_state: ClassicState | None
) -> Iterator[tuple[str, ClassicState]]:
    """Yield copies of a group's state in which members report other partitions as owned.

    The leader may have ignored the partitions that members sent, or have used its own earlier
    assignment. Each item is (description, state).

    Args:
        state: recorded state of the group.
        previous_state: state of the previous generation, None if unknown.
    """
    # The leader may have ignored the owned partitions that members sent, or used its own previous
    # assignment instead.
    without = _with_owned_partitions(state, {m.id: Subscription(-1) for m in state.members})
    yield "the leader went by no claims at all", without
    if previous_state is None:
        return
    assigned = {
        m.id: Subscription(-1, owned=m.assigned, generation=previous_state.generation)
        for m in previous_state.members
    }
    words = f"the leader went by its own assignment of generation {previous_state.generation}"
    yield words, _with_owned_partitions(state, assigned)
    for member in state.members[:_MOST_MEMBERS]:
        other = assigned.get(member.id, Subscription(-1))
        words = f"the leader did not go by what {member.client_id} claims"
        yield words, _with_owned_partitions(state, {member.id: other})


def _with_owned_partitions(state: ClassicState, claims: dict[str, Subscription]) -> ClassicState:
    """Return a copy of a group's state in which the given members report other owned partitions.

    Args:
        state: recorded state of the group.
        claims: dict from member id to a subscription with the owned partitions to use.
    """
    # User data is removed, because it may repeat the original partitions.
    members = tuple(
        m
        if m.subscription is None or m.id not in claims
        else replace(
            m,
            subscription=replace(
                m.subscription,
                owned=claims[m.id].owned,
                generation=claims[m.id].generation,
                user_data=None,
            ),
        )
        for m in state.members
    )
    return replace(state, members=members)


# --- target assignments -----------------------------------------------------------------------


def _check_target(generation: Generation, clusters: ClusterHistory) -> Verdict:
    """Run the coordinator's assignor (KIP-848) on recorded input, and compare the assignment.

    ``generation`` is the recorded rebalance: the assignor's input and the assignment that the
    coordinator computed.
    """
    name = generation.first.strategy or ""
    if all(m.subscription is None for m in generation.first.members):
        return Verdict(why="all members joined before the log begins")
    if name == PartageFailover.name:
        return Verdict(why="its priorities are in the broker's configuration, not in the log")
    if generation.target is None or not (name in _ASSIGNORS or name == ServerSticky.name):
        return Verdict(why=f"strategy {name or 'unknown'} is not in Partage")
    at = generation.target.decided_ms or generation.timestamp_ms
    if generation.protocol == "streams":
        name = ServerSticky43.name  # the release whose input the log has
    try:
        plan = _compute_target(generation, clusters.cluster_at(at))
    except PartageError as e:
        return Verdict(agrees=False, why=str(e), judged_by=name, counts=True)
    if plan is None:
        return Verdict(why="its topology is not in the log", judged_by=name)
    # Checked before the plan is compared: a verdict that only counts if it agrees proves nothing.
    if not generation.target.known and not _has_whole_input(generation, clusters.cluster_at(at)):
        why = "the targets before are not in the log: it begins later than the group"
        return Verdict(agrees=None, why=why, judged_by=name)
    target = generation.target.target
    is_streams = generation.protocol == "streams"
    record = _tasks_by_role(target) if is_streams else _targets_by_topic_id(target)
    if is_streams:
        fitting = _find_fitting_releases(generation, clusters.cluster_at(at), record)
        if fitting:
            return Verdict(agrees=True, judged_by=" or ".join(fitting), counts=True)
    elif plan == record:
        return Verdict(agrees=True, judged_by=name, counts=True)
    why = _explain_target(generation, clusters, at, record) or UNEXPLAINED
    return Verdict(agrees=False, why=why, judged_by=name, counts=True)


def _compute_target(
    generation: Generation, cluster: Cluster, order: tuple[int, ...] | None = None
) -> _Targets | _Tasks | None:
    """Compute the assignment of a group whose coordinator assigns partitions or tasks (KIP-848).

    ``order`` has the members' indices in the order in which the assignor processes them; None is
    the order of joining. The result is None if the log lacks input, such as a topology.

    Raises:
        PartageError: the assignor is not applicable.
    """
    decide = _run_task_assignor if generation.protocol == "streams" else _run_consumer_assignor
    return decide(generation, cluster, order)


def _has_whole_input(generation: Generation, cluster: Cluster) -> bool:
    """Return whether the log has each member's subscription and previous target assignment."""
    # If the log begins later than the group, the target of a member may be missing. All targets are
    # known if together they contain every partition of the subscribed topics.
    if generation.target is None or any(m.subscription is None for m in generation.first.members):
        return False
    wanted = {t for m in generation.first.members if m.subscription for t in m.subscription.topics}
    count = sum(len(cluster.partitions_of(topic)) for topic in wanted)
    known = {
        (topic, p)
        for roles in generation.target.before.values()
        for _, by_id in roles
        for topic, numbers in by_id
        for p in numbers
    }
    return len(known) >= count


def _explain_target(
    generation: Generation, clusters: ClusterHistory, at_ms: int, record: _Targets | _Tasks
) -> str | None:
    """Search for another input from which the coordinator's assignor computes what was recorded.

    For example, the coordinator may have had older metadata. Return a description of that input, or
    None if no input fits. ``at_ms`` is the time, ``record`` the recorded assignment of each member.
    """
    # Such inputs are older metadata or another order of members.
    now = clusters.cluster_at(at_ms)
    tried: Iterable[tuple[str, Cluster, tuple[int, ...] | None]] = chain(
        (
            (words, other, None)
            for words, other in _alternative_metadata(generation, clusters, at_ms, "coordinator")
        ),
        ((words, now, order) for words, order in _member_orders(generation)),
    )
    for words, cluster, order in tried:
        try:
            if _compute_target(generation, cluster, order) == record:
                return words
        except PartageError:
            continue
    return None


def _member_orders(generation: Generation) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield orders in which the coordinator's assignor may have processed a group's members.

    Its result depends on the order. Each item is (description, order); an order lists the members'
    indices.
    """
    # Members whose ids share a bucket of Java's map are visited in the order of the coordinator's
    # own map. That order depends on former members, and no record has it.
    ids = [m.id for m in generation.first.members]
    names = [m.client_id or m.id for m in generation.first.members]
    why = "share a bucket of the coordinator's map, whose order is not in the log"
    pairs = list(islice(_bucket_pairs(ids), _MOST_PAIRS))
    for i, j in pairs:
        order = list(range(len(ids)))
        order[i], order[j] = j, i
        yield f"members {names[j]} and {names[i]} {why}", tuple(order)
    if len(pairs) > 1:
        yield f"members {why}", tuple(reversed(range(len(ids))))


def _bucket_pairs(ids: list[str]) -> Iterator[tuple[int, int]]:
    """Yield pairs of members (as indices) whose ids fall into the same bucket of a Java HashMap.

    The map iterates over such members in the order in which they were inserted.
    """
    slots = DEFAULT_TABLE
    while len(ids) * 4 > slots * 3:
        slots *= 2
    buckets: dict[int, list[int]] = {}
    for i, code in enumerate(string_hashes(ids)):
        mixed = (code & 0xFFFFFFFF) ^ ((code & 0xFFFFFFFF) >> 16)
        buckets.setdefault(mixed & (slots - 1), []).append(i)
    for together in buckets.values():
        yield from combinations(together, 2)


# --- consumer and share groups ----------------------------------------------------------------


def _targets_by_topic_id(target: Mapping[str, Roles]) -> _Targets:
    """Convert a recorded target assignment to sets of partitions, by member id and topic id.

    For example, ``{"member-1": {"topic-id": {0, 1}}}``. Topics without partitions are left out.
    """
    return {member: _partition_sets(_owned(roles)) for member, roles in target.items()}


def _run_consumer_assignor(
    generation: Generation, cluster: Cluster, order: tuple[int, ...] | None
) -> _Targets | None:
    """Run the coordinator's assignor of a consumer or share group on its recorded input.

    The result has the partitions of each member; it is None for a custom assignor. ``order`` has
    the members' indices in the order in which the assignor processes them; None is the order of
    joining.
    """
    assignor = _ASSIGNORS.get(generation.first.strategy or "")
    if assignor is None or generation.target is None:
        return None
    members = recorded_group(generation.first).members
    group = Group([members[i] for i in order]) if order is not None else Group(members)
    index, allowed = cluster.index, generation.target.assignable
    spec = GroupSpec(
        Problem(group, cluster),
        previous=_to_target_arrays(
            index, [_owned(generation.target.before.get(m, ())) for m in group.ids]
        ),
        assignable=None if allowed is None else _mask(index, allowed),
        several_owners=generation.protocol == "share",
    )
    rows = assignment_to_json(assignor.assign_from_spec(spec), spec)["assignment"]
    return {m: _partition_sets(rows.get(m, ())) for m in group.ids}


def _partition_sets(rows: TopicPartitionNumbers) -> dict[str, frozenset[int]]:
    return {topic: frozenset(numbers) for topic, numbers in rows if len(numbers)}


def _owned(roles: Roles) -> TopicPartitionNumbers:
    return next((by_id for role, by_id in roles if role == OWNER), ())


def _to_target_arrays(index: Index, targets: list[TopicPartitionNumbers]) -> Targets:
    """Convert the previous target assignments of a group's members to arrays of partition indices.

    Args:
        index: numbering of the cluster's partitions; partitions that it lacks are left out.
        targets: (topic id, partitions) pairs of each member.
    """
    number = {i: n for n, i in enumerate(index.ids) if i is not None}
    flat = [pair for target in targets for pair in target]
    set_start = np.zeros(len(targets) + 1, np.int32)
    np.cumsum([len(target) for target in targets], out=set_start[1:])
    topic = np.array([number.get(i, -1) for i, _ in flat], np.int32)
    dense = [
        index.locate_all(np.full(len(numbers), t, np.int32), np.array(numbers, np.int32))
        for t, (_, numbers) in zip(topic.tolist(), flat, strict=True)
    ]
    dense = [one[one >= 0] for one in dense]
    start = np.zeros(len(flat) + 1, np.int32)
    np.cumsum([len(one) for one in dense], out=start[1:])
    partition = np.concatenate([*dense, np.zeros(0, np.int32)]).astype(np.int32)
    ids = [i for i, _ in flat]
    return Targets(
        set_start, topic, TopicIds.from_names(ids, ids).java_hash_codes, start, partition
    )


def _mask(
    index: Index, allowed: TopicPartitionNumbers
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    out = np.zeros(index.partitions, bool)
    number = {i: n for n, i in enumerate(index.ids) if i is not None}
    for topic_id, numbers in allowed:
        topic = np.full(len(numbers), number.get(topic_id, -1), np.int32)
        dense = index.locate_all(topic, np.array(numbers, np.int32))
        out[dense[dense >= 0]] = True
    return out


# --- streams groups (KIP-1071) ----------------------------------------------------------------


def _tasks_by_role(target: Mapping[str, Roles]) -> _Tasks:
    """Convert the recorded tasks of a streams group (KIP-1071) to sets, by member and role.

    A role is active, standby or warm-up.
    """
    return {
        member: {role: _task_set(roles, role) for role in (ACTIVE, STANDBY, WARMUP)}
        for member, roles in target.items()
    }


def _find_fitting_releases(
    generation: Generation, cluster: Cluster, record: _Targets | _Tasks
) -> list[str]:
    """Return the task assignors whose result equals a streams group's recorded tasks.

    There is one assignor per Kafka release; they are returned by name, the oldest release first.
    """
    # The log does not say which Kafka release the brokers run, so each release is tried.
    return [
        one.name
        for one in reversed(SERVER_ASSIGNORS)
        if _run_task_assignor(generation, cluster, None, one) == record
    ]


def _run_task_assignor(
    generation: Generation,
    cluster: Cluster,
    order: tuple[int, ...] | None,
    assignor: ServerSticky = SERVER_ASSIGNORS[-1],
) -> _Tasks | None:
    """Run the coordinator's task assignor (KIP-1071) on a streams group's recorded input.

    The result has the tasks of each member. It is None if the log lacks the topology or a process
    id. ``order`` has the members' indices in the order for the assignor; None is the order of
    joining.
    """
    target = generation.target
    known = target.streams if target is not None else None
    if target is None or known is None or known.topology is None:
        return None
    if not known.processes.keys() >= target.target.keys():
        return None
    ids = list(target.target)
    members = [
        ServerMember(
            ids[i],
            known.processes[ids[i]],
            _by_subtopology(target.before.get(ids[i], ()), ACTIVE),
            _by_subtopology(target.before.get(ids[i], ()), STANDBY),
        )
        for i in (range(len(ids)) if order is None else order)
    ]
    plan = assignor.assign(_subtopologies(known.topology, cluster), members, known.settings)
    return {
        m: {
            ACTIVE: frozenset(plan.active.get(m, ())),
            STANDBY: frozenset(plan.standby.get(m, ())),
            WARMUP: frozenset(),
        }
        for m in ids
    }


def _subtopologies(topology: Mapping[str, Any], cluster: Cluster) -> list[ServerSubtopology]:
    return [
        ServerSubtopology(
            row["subtopologyId"],
            max(source_topic_partitions(row, cluster), default=0),
            bool(row.get("stateChangelogTopics")),
        )
        for row in topology["subtopologies"]
    ]


def _by_subtopology(roles: Roles, wanted: str) -> dict[str, tuple[int, ...]]:
    return {s: numbers for role, tasks in roles if role == wanted for s, numbers in tasks}


def _task_set(roles: Roles, wanted: str) -> frozenset[tuple[str, int]]:
    by_subtopology = _by_subtopology(roles, wanted)
    return frozenset((s, p) for s, numbers in by_subtopology.items() for p in numbers)
