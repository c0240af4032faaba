"""Does a strategy's plan equal what the leader recorded; and if not, why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from partage.errors import PartageError
from partage.history.clusters import ClusterHistory
from partage.history.neighbours import clusters_near, smaller
from partage.history.ownership import assigned_pairs
from partage.history.problems import group_as_sent
from partage.history.records import ClassicState, Subscription
from partage.model import Assignment, Cluster, Group

__all__ = ["Named", "explain", "named", "recorded_named"]

#: member -> topic -> partition numbers in the order given. The order of the topics is not
#: compared: clients write their assignment by topic, in the order of their own hash maps.
Named = dict[str, dict[str, list[int]]]


#: Members of which each alone is tried with other claims.
_MOST_MEMBERS = 32


def recorded_named(state: ClassicState) -> Named:
    """The recorded assignment by names; members without partitions have an empty entry."""
    out: Named = {}
    for member in state.members:
        mine = out.setdefault(member.id, {})
        for topic, p in assigned_pairs(member):
            mine.setdefault(topic, []).append(p)
    return out


def named(plan: Assignment) -> Named:
    """A plan by names, comparable with `recorded_named`."""
    out = plan.to_dict()
    for lost in plan.unresolved:  # given all the same: the record has it too
        out[lost.member].setdefault(lost.topic, []).append(lost.partition)
    return out


def explain(
    state: ClassicState,
    clusters: ClusterHistory,
    time_ms: int,
    decide: Callable[[Group, Cluster], Named],
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
    record = recorded_named(state)
    topics = [t for m in state.members if m.subscription for t in m.subscription.topics]
    unseen = sorted(set(topics) - {topic for given in record.values() for topic in given})
    sent, now = group_as_sent(state), clusters.at(time_ms)
    near = list(clusters_near(clusters, time_ms, topics, unseen, "leader"))
    highest = {t: max(p for mine in record.values() for p in mine.get(t, ())) for t in
               {t for mine in record.values() for t in mine}}  # fmt: skip
    if clusters.assumed_at(time_ms):
        near += smaller(now, highest, "leader")
    tried = [
        *((words, sent, c) for words, c in near),
        *((words, group_as_sent(other), now) for words, other in _remembered(state, before)),
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
    return group_as_sent(replace(state, members=members))


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
