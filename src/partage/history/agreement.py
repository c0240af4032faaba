"""Is a recorded rebalance what the group's own strategy decides? The proof that the log is
understood; and where it is not, the cause by name, or `UNEXPLAINED`.

Classic plans are those of the leader's library: its dialect is asked where there is one. Target
assignments are Kafka's own, decided by the coordinator on previous targets by topic id.
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
from partage.groups.handing_over import handed_over
from partage.groups.ordering import string_hashes
from partage.groups.server.group_assignment import GroupAssignment, assignment_to_json
from partage.groups.server.range import ServerRange
from partage.groups.server.simple import ServerSimple
from partage.groups.server.spec import GroupSpec
from partage.groups.server.targets import Targets
from partage.groups.server.topic_ids import TopicIds
from partage.groups.server.uniform import ServerUniform
from partage.history.clients import candidate_strategies
from partage.history.clusters import ClusterHistory, alternative_clusters, smaller_clusters
from partage.history.consumer_groups import source_counts
from partage.history.events import ACTIVE, OWNER, STANDBY, WARMUP, Generation, Roles
from partage.history.problems import (
    is_all_java,
    recorded_group,
    released_partitions,
    unsupported_reason,
    with_learnt_loads,
)
from partage.history.records import (
    CONSUMER,
    ClassicState,
    Subscription,
    TopicPartitionNumbers,
    assigned_partitions,
)
from partage.history.streams_agreement import check_streams_agreement
from partage.history.streams_application import STREAMS_PROTOCOL
from partage.java.hash_order import DEFAULT_TABLE
from partage.model import Assignment, Cluster, Group, Index, Problem
from partage.model.repeated_state import EndlessLoop
from partage.streams.kip1071_sticky import ServerMember, ServerSticky, ServerSubtopology

__all__ = [
    "ASSIGNORS",
    "UNEXPLAINED",
    "ByIds",
    "ByRole",
    "PartitionsByMember",
    "Verdict",
    "check_agreement",
    "decide_targets",
    "decide_tasks",
    "explain_difference",
    "plan_by_name",
    "recorded_by_name",
    "recorded_targets",
    "recorded_tasks",
]

#: In place of a cause that was looked for and not found.
UNEXPLAINED = "unexplained"


#: Pairs of members in one bucket that are tried in the other order.
_MOST_PAIRS = 64


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a record is what its strategy decides.

    Attributes:
        agrees: None where it could not be asked.
        why: the cause of a disagreement, `UNEXPLAINED`, or why nobody could be asked.
        judged_by: the strategy or dialect that was asked; None if none was.
        counts: whether it says something of this library: the members are Java clients or the
            coordinator decided, and the strategy is exact.
        assumed: what was taken for granted because the log does not tell it.
        terminates: False where the strategy never returns on the recorded input; ``agrees`` is
            then None and ``why`` says so.
    """

    agrees: bool | None = None
    why: str | None = None
    judged_by: str | None = None
    counts: bool = False
    assumed: str | None = None
    terminates: bool = True


def check_agreement(found: Generation, clusters: ClusterHistory) -> Verdict:
    """The verdict about one rebalance.

    Args:
        found: a generation of any protocol.
        clusters: the metadata over time.
    """
    if not found.first.members:
        return Verdict(why="no members")
    if found.taken_over:
        return _taken_over(found)
    if found.protocol != "classic":
        return _of_target(found, clusters)
    state = found.first
    if state.protocol_type == CONSUMER and state.strategy == STREAMS_PROTOCOL:
        return _of_streams(found, clusters)
    reason = unsupported_reason(state)
    if reason is not None:
        return Verdict(why=reason)
    if state.strategy not in registry.strategies():
        return Verdict(why=f"strategy {state.strategy} is not in Partage")
    strategy = registry.find(state.strategy)
    tried = [_judged(found, one, clusters) for one in candidate_strategies(state, strategy)]
    fitting = [one for one in tried if one.agrees] or tried
    names = " or ".join(one.judged_by or "" for one in fitting)
    counts = strategy.exact_to is not None and is_all_java(state)
    return replace(fitting[0], judged_by=names, counts=counts)


class _NeverReturnsError(PartageError):
    """The strategy's class never returns on an input, so no plan of it can be compared."""


def _judged(found: Generation, strategy: Strategy, clusters: ClusterHistory) -> Verdict:
    """Return the verdict of one strategy or dialect on a classic generation."""
    free = released_partitions(found.first)

    def decide(group: Group, cluster: Cluster) -> PartitionsByMember:
        asked = with_learnt_loads(strategy, found.first, cluster)
        plan = asked.assign(Problem(group, cluster))
        if plan.loop is not None:
            raise _NeverReturnsError(_never_returns(strategy, plan.loop))
        return plan_by_name(handed_over(plan, free))

    at = found.timestamp_ms
    try:
        if decide(recorded_group(found.first), clusters.at(at)) == recorded_by_name(found.first):
            return Verdict(agrees=True, judged_by=strategy.name)
    except _NeverReturnsError as e:
        return Verdict(why=str(e), judged_by=strategy.name, terminates=False)
    except PartageError as e:
        return Verdict(agrees=False, why=str(e), judged_by=strategy.name)
    before = found.previous.last if found.previous is not None else None
    why = explain_difference(found.first, clusters, at, decide, before)
    return Verdict(agrees=False, why=why or UNEXPLAINED, judged_by=strategy.name)


def _never_returns(strategy: Strategy, loop: EndlessLoop) -> str:
    length = "1 pass" if loop.length == 1 else f"{loop.length} passes"
    return (
        f"{strategy.name} does not terminate on the recorded input (its passes repeat after"
        f" {length}), so the recorded assignment cannot be compared with its plan"
    )


def _of_streams(found: Generation, clusters: ClusterHistory) -> Verdict:
    """A plan of tasks by the leader of a Kafka Streams application."""
    said = check_streams_agreement(found, clusters)
    why = said.why or (UNEXPLAINED if said.agrees is False else None)
    counts = said.exact and is_all_java(found.first)
    return Verdict(said.agrees, why, said.judged_by, counts, said.assumed)


def _taken_over(found: Generation) -> Verdict:
    """An assignment that was written in another form: it has to be the one before."""
    before = found.previous
    if before is None:
        return Verdict(why="taken over from a group of which the log has nothing")
    old, new = (
        {m.id: frozenset(assigned_partitions(m)) for m in state.members if m.assigned}
        for state in (before.last, found.first)
    )
    name = "epoch" if before.protocol == "consumer" else "generation"
    words = f"taken over from {name} {before.number} when the group was migrated"
    gone = old.keys() - {m.id for m in found.first.members}
    same = {m: pairs for m, pairs in old.items() if m not in gone} == new
    return Verdict(agrees=same, why=words, judged_by=f"{before.protocol} {name} {before.number}")


def _of_target(found: Generation, clusters: ClusterHistory) -> Verdict:
    name = found.first.strategy or ""
    if all(m.subscription is None for m in found.first.members):
        return Verdict(why="all members joined before the log begins")
    if found.target is None or not (name in ASSIGNORS or name == ServerSticky.name):
        return Verdict(why=f"strategy {name or 'unknown'} is not in Partage")
    record = _recorded(found)
    at = found.target.decided_ms or found.timestamp_ms
    try:
        plan = _decided(found, clusters.at(at))
    except PartageError as e:
        return Verdict(agrees=False, why=str(e), judged_by=name, counts=True)
    if plan is None:
        return Verdict(why="its topology is not in the log", judged_by=name)
    # Asked before the plan is compared: what would only count if it agrees proves nothing.
    if not found.target.known and not _covering(found, clusters.at(at)):
        why = "the targets before are not in the log: it begins later than the group"
        return Verdict(agrees=None, why=why, judged_by=name)
    if plan == record:
        return Verdict(agrees=True, judged_by=name, counts=True)
    why = _target_explained(found, clusters, at, record) or UNEXPLAINED
    return Verdict(agrees=False, why=why, judged_by=name, counts=True)


def _recorded(found: Generation) -> ByIds | ByRole:
    return recorded_tasks(found) if found.protocol == "streams" else recorded_targets(found)


def _decided(
    found: Generation, cluster: Cluster, order: tuple[int, ...] | None = None
) -> ByIds | ByRole | None:
    """What the coordinator decides on a cluster, with its members met in some order."""
    if found.protocol == "streams":
        return decide_tasks(found, cluster, order)
    return decide_targets(found, cluster, order=order)


def _covering(found: Generation, cluster: Cluster) -> bool:
    """Whether the known members had all there was to have before: nobody is missing then.

    A log that begins later than the group may lack a member whose target has not changed since.
    """
    if found.target is None or any(m.subscription is None for m in found.first.members):
        return False
    wanted = {t for m in found.first.members if m.subscription for t in m.subscription.topics}
    count = sum(len(cluster.partitions_of(topic)) for topic in wanted)
    held = {
        (topic, p)
        for roles in found.target.before.values()
        for _, by_id in roles
        for topic, numbers in by_id
        for p in numbers
    }
    return len(held) >= count


def _target_explained(
    found: Generation, clusters: ClusterHistory, at: int, record: ByIds | ByRole
) -> str | None:
    topics = [t for m in found.first.members if m.subscription for t in m.subscription.topics]
    given = {topic for m in found.first.members for topic, _ in m.assigned}
    unseen = sorted(set(topics) - given)
    highest: dict[str, int] = {}
    for topic, p in (pair for m in found.first.members for pair in assigned_partitions(m)):
        highest[topic] = max(highest.get(topic, -1), p)
    near = alternative_clusters(clusters, at, topics, unseen, "coordinator")
    less = (
        smaller_clusters(clusters.at(at), highest, "coordinator") if clusters.assumed_at(at) else ()
    )
    for words, cluster in chain(near, less):
        if _gives(found, cluster, record):
            return words
    now = clusters.at(at)
    for words, order in _orders(found):
        if _gives(found, now, record, order):
            return words
    return None


def _gives(
    found: Generation,
    cluster: Cluster,
    record: ByIds | ByRole,
    order: tuple[int, ...] | None = None,
) -> bool:
    try:
        return _decided(found, cluster, order) == record
    except PartageError:
        return False


def _orders(found: Generation) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The members in other orders than that of their joining.

    Members whose ids share a bucket of Java's map are met in the order of the coordinator's
    own map, which depends on members that are long gone: no record tells it.
    """
    ids = [m.id for m in found.first.members]
    names = [m.client_id or m.id for m in found.first.members]
    why = "share a bucket of the coordinator's map, whose order is not in the log"
    mates = list(islice(_mates(ids), _MOST_PAIRS))
    for i, j in mates:
        yield f"members {names[j]} and {names[i]} {why}", _swapped(len(ids), i, j)
    if len(mates) > 1:
        yield f"members {why}", tuple(reversed(range(len(ids))))


def _mates(ids: list[str]) -> Iterator[tuple[int, int]]:
    """Positions of keys that share a bucket of Java's map: only there it matters who came first."""
    slots = DEFAULT_TABLE
    while len(ids) * 4 > slots * 3:
        slots *= 2
    buckets: dict[int, list[int]] = {}
    for i, code in enumerate(string_hashes(ids)):
        mixed = (code & 0xFFFFFFFF) ^ ((code & 0xFFFFFFFF) >> 16)
        buckets.setdefault(mixed & (slots - 1), []).append(i)
    for together in buckets.values():
        yield from combinations(together, 2)


def _swapped(count: int, i: int, j: int) -> tuple[int, ...]:
    order = list(range(count))
    order[i], order[j] = order[j], order[i]
    return tuple(order)


#: member -> topic -> partition numbers in the order given. The order of the topics is not
#: compared: clients write their assignment by topic, in the order of their own hash maps.
PartitionsByMember = dict[str, dict[str, list[int]]]


#: Members of which each alone is tried with other claims.
_MOST_MEMBERS = 32


def recorded_by_name(state: ClassicState) -> PartitionsByMember:
    """The recorded assignment by names; members without partitions have an empty entry."""
    out: PartitionsByMember = {}
    for member in state.members:
        mine = out.setdefault(member.id, {})
        for topic, p in assigned_partitions(member):
            mine.setdefault(topic, []).append(p)
    return out


def plan_by_name(plan: Assignment) -> PartitionsByMember:
    """A plan by names, comparable with `recorded_by_name`."""
    out = plan.to_dict()
    for lost in plan.unresolved:  # given all the same: the record has it too
        out[lost.member].setdefault(lost.topic, []).append(lost.partition)
    return out


def explain_difference(
    state: ClassicState,
    clusters: ClusterHistory,
    time_ms: int,
    decide: Callable[[Group, Cluster], PartitionsByMember],
    before: ClassicState | None = None,
) -> str | None:
    """Why the record is not the plan, where that can be found.

    Each explanation is tried, not guessed: the strategy is run on the cluster that the leader
    would have seen, or on what it would have remembered, and has to give the record exactly.
    None if nothing fits.

    Args:
        state: the recorded generation.
        clusters: the metadata over time.
        time_ms: when was decided.
        decide: the strategy: its plan by names for a group and a cluster.
        before: the generation before as it was last written; None if there was none.
    """
    record = recorded_by_name(state)
    topics = [t for m in state.members if m.subscription for t in m.subscription.topics]
    unseen = sorted(set(topics) - {topic for given in record.values() for topic in given})
    sent, now = recorded_group(state), clusters.at(time_ms)
    near = list(alternative_clusters(clusters, time_ms, topics, unseen, "leader"))
    highest = {t: max(p for mine in record.values() for p in mine.get(t, ())) for t in
               {t for mine in record.values() for t in mine}}  # fmt: skip
    if clusters.assumed_at(time_ms):
        near += smaller_clusters(now, highest, "leader")
    tried = [
        *((words, sent, c) for words, c in near),
        *((words, recorded_group(other), now) for words, other in _remembered(state, before)),
    ]
    if any(m.instance for m in state.members):
        # A client from before KIP-345 (kafka-python 2.0) orders static members by their ids.
        words, blind = "the leader does not see group.instance.id", _dynamic(state)
        tried += [
            (words, blind, now),
            *((f"{words}, and {other}", blind, c) for other, c in near),
        ]
    for words, group, cluster in tried:
        try:
            if decide(group, cluster) == record:
                return words
        except PartageError:
            continue
    return None


def _dynamic(state: ClassicState) -> Group:
    """The group as if none of its members were static."""
    members = tuple(replace(m, instance=None) for m in state.members)
    return recorded_group(replace(state, members=members))


def _remembered(
    state: ClassicState, before: ClassicState | None
) -> Iterator[tuple[str, ClassicState]]:
    """The group with other claims than those that the log has: as the leader may recall them."""
    plain = _claiming(state, {m.id: Subscription(-1) for m in state.members})
    yield "the leader went by no claims at all", plain
    if before is None:
        return
    held = {
        m.id: Subscription(-1, owned=m.assigned, generation=before.generation)
        for m in before.members
    }
    words = f"the leader went by its own assignment of generation {before.generation}"
    yield words, _claiming(state, held)
    for member in state.members[:_MOST_MEMBERS]:
        other = held.get(member.id, Subscription(-1))
        words = f"the leader did not go by what {member.client_id} claims"
        yield words, _claiming(state, {member.id: other})


def _claiming(state: ClassicState, claims: dict[str, Subscription]) -> ClassicState:
    """Some members with the claims of others; user data, which may repeat them, goes too."""
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


#: member -> topic id -> partition numbers; to the coordinator they are sets.
ByIds = dict[str, dict[str, frozenset[int]]]


ASSIGNORS: Mapping[str, ServerUniform | ServerRange | ServerSimple] = {
    one.name: one for one in (ServerUniform(), ServerRange(), ServerSimple())
}


def recorded_targets(found: Generation) -> ByIds:
    """A recorded target assignment by topic ids, without topics of which nothing is left."""
    target = found.target.target if found.target is not None else {}
    return {member: _sets(_owned(roles)) for member, roles in target.items()}


def decide_targets(
    found: Generation,
    cluster: Cluster,
    *,
    before: Mapping[str, Roles] | None = None,
    order: tuple[int, ...] | None = None,
) -> ByIds | None:
    """What the group's assignor decides on a cluster; None where it is not one of Kafka's.

    Args:
        found: an epoch of a consumer or share group.
        cluster: as the coordinator saw it.
        before: previous targets, by member; None for those of the record.
        order: positions of the members in another order, which matters inside a bucket of
            Java's maps; None for the order in which they joined.

    Raises:
        PartageError: the assignor refuses.
    """
    assignor = ASSIGNORS.get(found.first.strategy or "")
    if assignor is None or found.target is None:
        return None
    members = recorded_group(found.first).members
    group = Group([members[i] for i in order]) if order is not None else Group(members)
    known = found.target.before if before is None else before
    index = cluster.index
    allowed = found.target.assignable
    spec = GroupSpec(
        Problem(group, cluster),
        previous=_targets(index, [_owned(known.get(m, ())) for m in group.ids]),
        assignable=None if allowed is None else _mask(index, allowed),
        several_owners=found.protocol == "share",
    )
    return _by_ids(assignor.decide(spec), spec)


def _by_ids(assignment: GroupAssignment, spec: GroupSpec) -> ByIds:
    rows = assignment_to_json(assignment, spec)["assignment"]
    return {m: _sets(rows.get(m, ())) for m in spec.problem.group.ids}


def _sets(rows: TopicPartitionNumbers) -> dict[str, frozenset[int]]:
    return {topic: frozenset(numbers) for topic, numbers in rows if len(numbers)}


def _owned(roles: Roles) -> TopicPartitionNumbers:
    return next((by_id for role, by_id in roles if role == OWNER), ())


def _targets(index: Index, targets: list[TopicPartitionNumbers]) -> Targets:
    """Previous targets over an index; of topics that it does not have nothing is kept."""
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
    return Targets(set_start, topic, TopicIds.of(ids, ids).hashes, start, partition)


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


#: member -> role -> tasks (subtopology, partition); to the coordinator they are sets.
ByRole = dict[str, dict[str, frozenset[tuple[str, int]]]]


def recorded_tasks(found: Generation) -> ByRole:
    """A recorded target assignment of a streams group."""
    target = found.target.target if found.target is not None else {}
    return {
        member: {role: _tasks(roles, role) for role in (ACTIVE, STANDBY, WARMUP)}
        for member, roles in target.items()
    }


def decide_tasks(
    found: Generation, cluster: Cluster, order: tuple[int, ...] | None = None
) -> ByRole | None:
    """What Kafka's assignor decides on a cluster; None where the log lacks topology or processes.

    Args:
        found: an epoch of a streams group.
        cluster: as the coordinator saw it.
        order: positions of the members in another order than that of their joining.

    Raises:
        PartageError: the assignor refuses.
    """
    told = found.target.streams if found.target is not None else None
    if found.target is None or told is None or told.topology is None:
        return None
    if not told.processes.keys() >= found.target.target.keys():
        return None
    ids = list(found.target.target)
    known = found.target.before
    members = [
        ServerMember(
            ids[i],
            told.processes[ids[i]],
            _by_subtopology(known.get(ids[i], ()), ACTIVE),
            _by_subtopology(known.get(ids[i], ()), STANDBY),
        )
        for i in (range(len(ids)) if order is None else order)
    ]
    plan = ServerSticky().assign(_subtopologies(told.topology, cluster), members, told.settings)
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
            max(source_counts(row, cluster), default=0),
            bool(row.get("stateChangelogTopics")),
        )
        for row in topology["subtopologies"]
    ]


def _by_subtopology(roles: Roles, wanted: str) -> dict[str, tuple[int, ...]]:
    return {s: numbers for role, tasks in roles if role == wanted for s, numbers in tasks}


def _tasks(roles: Roles, wanted: str) -> frozenset[tuple[str, int]]:
    rows: Iterable[tuple[str, tuple[int, ...]]] = _by_subtopology(roles, wanted).items()
    return frozenset((s, p) for s, numbers in rows for p in numbers)
