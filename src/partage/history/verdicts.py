"""Is a recorded rebalance what the group's own strategy decides? The proof that the log is
understood; and where it is not, the cause by name, or `UNEXPLAINED`.

Classic plans are those of the leader's library: its dialect is asked where there is one. Target
assignments are Kafka's own, decided by the coordinator on previous targets by topic id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice

from partage.errors import PartageError
from partage.groups import registry
from partage.groups.api import Strategy
from partage.groups.handing_over import handed_over
from partage.groups.ordering import string_hashes
from partage.history.agreement import Named, explain, named, recorded_named
from partage.history.classic import Generation
from partage.history.clusters import ClusterHistory
from partage.history.coordinator import ASSIGNORS, ByIds, decided, recorded_ids
from partage.history.dialects import judges
from partage.history.neighbours import clusters_near, smaller
from partage.history.ownership import assigned_pairs
from partage.history.problems import all_java, given_up, group_as_sent, why_not, with_learnt_loads
from partage.history.records import CONSUMER
from partage.history.stream_rounds import STREAM
from partage.history.stream_targets import ByRole, decided_tasks, recorded_tasks
from partage.history.stream_verdicts import stream_verdict
from partage.java.hash_order import DEFAULT_TABLE
from partage.model import Cluster, Group, Problem
from partage.model.repeated_state import EndlessLoop
from partage.streams.kip1071_sticky import ServerSticky

__all__ = ["UNEXPLAINED", "Verdict", "verdict"]

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


def verdict(found: Generation, clusters: ClusterHistory) -> Verdict:
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
    if state.protocol_type == CONSUMER and state.strategy == STREAM:
        return _of_streams(found, clusters)
    reason = why_not(state)
    if reason is not None:
        return Verdict(why=reason)
    if state.strategy not in registry.strategies():
        return Verdict(why=f"strategy {state.strategy} is not in Partage")
    strategy = registry.find(state.strategy)
    tried = [_judged(found, one, clusters) for one in judges(state, strategy)]
    fitting = [one for one in tried if one.agrees] or tried
    names = " or ".join(one.judged_by or "" for one in fitting)
    counts = strategy.exact_to is not None and all_java(state)
    return replace(fitting[0], judged_by=names, counts=counts)


class _NeverReturnsError(PartageError):
    """The strategy's class never returns on an input, so no plan of it can be compared."""


def _judged(found: Generation, strategy: Strategy, clusters: ClusterHistory) -> Verdict:
    """Return the verdict of one strategy or dialect on a classic generation."""
    free = given_up(found.first)

    def decide(group: Group, cluster: Cluster) -> Named:
        asked = with_learnt_loads(strategy, found.first, cluster)
        plan = asked.assign(Problem(group, cluster))
        if plan.loop is not None:
            raise _NeverReturnsError(_never_returns(strategy, plan.loop))
        return named(handed_over(plan, free))

    at = found.timestamp_ms
    try:
        if decide(group_as_sent(found.first), clusters.at(at)) == recorded_named(found.first):
            return Verdict(agrees=True, judged_by=strategy.name)
    except _NeverReturnsError as e:
        return Verdict(why=str(e), judged_by=strategy.name, terminates=False)
    except PartageError as e:
        return Verdict(agrees=False, why=str(e), judged_by=strategy.name)
    before = found.previous.last if found.previous is not None else None
    why = explain(found.first, clusters, at, decide, before)
    return Verdict(agrees=False, why=why or UNEXPLAINED, judged_by=strategy.name)


def _never_returns(strategy: Strategy, loop: EndlessLoop) -> str:
    length = "1 pass" if loop.length == 1 else f"{loop.length} passes"
    return (
        f"{strategy.name} does not terminate on the recorded input (its passes repeat after"
        f" {length}), so the recorded assignment cannot be compared with its plan"
    )


def _of_streams(found: Generation, clusters: ClusterHistory) -> Verdict:
    """A plan of tasks by the leader of a Kafka Streams application."""
    said = stream_verdict(found, clusters)
    why = said.why or (UNEXPLAINED if said.agrees is False else None)
    counts = said.exact and all_java(found.first)
    return Verdict(said.agrees, why, said.judged_by, counts, said.assumed)


def _taken_over(found: Generation) -> Verdict:
    """An assignment that was written in another form: it has to be the one before."""
    before = found.previous
    if before is None:
        return Verdict(why="taken over from a group of which the log has nothing")
    old, new = (
        {m.id: frozenset(assigned_pairs(m)) for m in state.members if m.assigned}
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
    return recorded_tasks(found) if found.protocol == "streams" else recorded_ids(found)


def _decided(
    found: Generation, cluster: Cluster, order: tuple[int, ...] | None = None
) -> ByIds | ByRole | None:
    """What the coordinator decides on a cluster, with its members met in some order."""
    if found.protocol == "streams":
        return decided_tasks(found, cluster, order)
    return decided(found, cluster, order=order)


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
    for topic, p in (pair for m in found.first.members for pair in assigned_pairs(m)):
        highest[topic] = max(highest.get(topic, -1), p)
    near = clusters_near(clusters, at, topics, unseen, "coordinator")
    less = smaller(clusters.at(at), highest, "coordinator") if clusters.assumed_at(at) else ()
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
