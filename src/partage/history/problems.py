"""Conversion of recorded generations to the input of strategies, and to assignments."""

from __future__ import annotations

from itertools import chain

import numpy as np

from partage.groups.api import Strategy
from partage.groups.optimal.settings import LEARNT_TOLERANCE, configured_by_loads
from partage.history.clients import JAVA, identify_client
from partage.history.records import CONSUMER, ClassicState, MemberState, assigned_partitions
from partage.model import Assignment, Claims, Cluster, Group, Index, Member
from partage.model.index import Int32Array
from partage.wire.member_extras import split_trailer

__all__ = [
    "existing_owned_partitions",
    "is_all_java",
    "recorded_assignment",
    "recorded_group",
    "released_partitions",
    "unsupported_reason",
    "with_measured_loads",
]

#: The protocol name of Kafka Streams' assignor, which assigns tasks.
_STREAMS = "stream"
_TASKS = "Kafka Streams assigns tasks, not partitions: no strategy of consumers can be run"


def unsupported_reason(state: ClassicState) -> str | None:
    """Return the reason why no assignment strategy can be run on a recorded group state, or None.

    For example, Kafka Connect groups have no partitions to assign.

    >>> unsupported_reason(ClassicState("connect", 1, "sessioned", None, None, ()))
    'protocol type connect: members are no consumers'
    """
    if state.protocol_type == "share":
        return "share group: a partition may have several owners, as under no consumers' strategy"
    if state.protocol_type == "streams":
        return _TASKS
    if state.protocol_type != CONSUMER:
        return f"protocol type {state.protocol_type or 'not set'}: members are no consumers"
    if not state.members:
        return "no members"
    if state.strategy == _STREAMS:
        return _TASKS
    for member in state.members:
        if member.damage is not None:
            return f"member {member.id}: {member.damage}"
        if member.subscription is None:
            return f"member {member.id} has no subscription"
    if len({m.id for m in state.members}) < len(state.members):
        return "a member id is there twice"
    return None


def is_all_java(state: ClassicState) -> bool:
    """Return whether all members in a recorded group state are Java clients.

    The client library is identified by the bytes that the members sent. The result is False without
    members.
    """
    return bool(state.members) and all(identify_client(m).name == JAVA for m in state.members)


def recorded_group(state: ClassicState) -> Group:
    """Convert a recorded group state to the members that an assignment strategy takes as input.

    Each has its subscription, rack and the partitions that it reported as owned.

    Raises:
        InvalidProblemError: the record contains a value that no client can send.
    """
    # Members, subscriptions and owned partitions are converted; members are in stored order.
    return Group([_member(m) for m in state.members])


def _member(m: MemberState) -> Member:
    sent = m.subscription
    if sent is None:  # `unsupported_reason` reports this case
        return Member(m.id, instance_id=m.instance)
    pairs = [(topic, p) for topic, numbers in sent.owned for p in numbers]
    generation, (data, extras) = sent.generation, split_trailer(sent.user_data)
    if extras is not None and extras.claims and not pairs:
        pairs, generation = list(extras.claims), extras.generation
    return Member(
        m.id,
        sent.topics,
        rack=sent.rack,
        instance_id=m.instance,
        owned=pairs,
        generation=generation,
        user_data=data,
    )


def released_partitions(state: ClassicState) -> frozenset[tuple[str, int]]:
    """Return the partitions that members with Partage's assignor revoked before they joined.

    These members send them as user data (`partage.wire.member_extras`). The result is empty under
    other assignors.
    """
    sent = [
        split_trailer(m.subscription.user_data)[1]
        for m in state.members
        if m.subscription is not None
    ]
    return frozenset(one for extras in sent if extras is not None for one in extras.claims)


def with_measured_loads(strategy: Strategy, state: ClassicState, cluster: Cluster) -> Strategy:
    """Return a copy of Partage's strategy with the partition loads that the group's leader
    measured.

    A load is, for example, records per second. The leader writes the loads to the user data of the
    assignments, which ``state`` has. ``cluster`` has the partition counts.
    """
    given = [split_trailer(m.assignment_user_data)[1] for m in state.members]
    loads = {
        one: load for extras in given if extras is not None for one, load in extras.held.items()
    }
    if not loads:
        return strategy
    topics = {t for m in state.members if m.subscription for t in m.subscription.topics}
    counts = {topic: len(cluster.partitions_of(topic)) for topic in sorted(topics)}
    return configured_by_loads(
        strategy, loads, {t: n for t, n in counts.items() if n}, LEARNT_TOLERANCE
    )


def recorded_assignment(state: ClassicState, cluster: Cluster) -> Assignment:
    """Convert the assignment in a recorded group state to arrays of partition indices.

    The assignment is not validated. Partitions that the cluster lacks are listed in ``unresolved``.
    """
    # A member id that occurs twice counts at its first place with its last partitions.
    assigned = {m.id: m.assigned for m in state.members}
    # Only the assigned topics: a cluster may have thousands, and this runs for each rebalance.
    names = dict.fromkeys(topic for lists in assigned.values() for topic, _ in lists)
    topic_number = {name: cluster.topic(name) for name in names}
    lists = [one for mine in assigned.values() for one in mine]
    sizes = np.array([len(numbers) for _, numbers in lists], np.int64)
    topic = np.array([topic_number[name] for name, _ in lists], np.int32).repeat(sizes)
    number = np.array(list(chain.from_iterable([numbers for _, numbers in lists])), np.int32)
    dense = cluster.index.locate_all(topic, number)
    is_regular = not np.count_nonzero(dense < 0)
    if not is_regular or np.count_nonzero(np.bincount(dense)) < len(dense):
        owned = {m.id: assigned_partitions(m) for m in state.members}
        made: Assignment = Assignment.of(cluster.index, owned, topic_number)
        return made
    start = np.zeros(len(assigned) + 1, np.int32)
    np.cumsum([sum([len(numbers) for _, numbers in mine]) for mine in assigned.values()],
              out=start[1:])  # fmt: skip
    return Assignment(cluster.index, tuple(assigned), start, dense, np.zeros(len(dense), np.int8))


def partitions_by_member(assignment: Assignment) -> dict[str, Int32Array]:
    """Convert an assignment to a dict from member id to partition indices (int32).

    A member id that occurs twice has one entry.
    """
    return {member: assignment.partitions_of(i) for i, member in enumerate(assignment.members)}


def existing_owned_partitions(index: Index, dense: Int32Array, cluster: Cluster) -> Claims:
    """Return the partitions of a member's last assignment that still exist.

    The member reports them as owned when it joins a rebalance. A partition does not exist any more
    if its topic was deleted, even if a topic of the same name was created again.

    Args:
        index: the numbering of all topics and partitions.
        dense: the member's last assignment, as partition indices of ``index`` (int32[n]).
        cluster: the present topics and partitions.
    """
    alive = dense[cluster.partition_exists[dense]] if len(dense) else dense
    if not len(alive):
        return Claims.from_owned(())
    topic_of = index.topic_of[alive]
    if (topic_of == topic_of[0]).all():  # the common case of one topic needs no sorting
        only = (index.topics[topic_of[0]],)
        return Claims(only, np.zeros(len(alive), np.int32), index.number_of[alive])
    wanted = np.zeros(len(index.topics), bool)
    wanted[topic_of] = True
    names = tuple(index.topics[t] for t in np.flatnonzero(wanted))
    place = np.cumsum(wanted, dtype=np.int32) - np.int32(1)
    return Claims(names, place[topic_of], index.number_of[alive])
