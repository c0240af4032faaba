"""Is a recorded generation of a classic Kafka Streams group what a task assignor decides.

The log has what every member told its leader, and what the leader told every member. It has
neither the application's settings nor the ends of its changelogs. So a plan is asked for under
assumptions, the likeliest first, each of which the record itself suggests; one under which the
record comes out, to the last field, is told with the verdict. What is compared: partitions, tasks,
standbys, hosts, versions, error code, and whether a consumer rebalances at once, later, or never.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice
from typing import NamedTuple

from partage.errors import InvalidProblemError, PartageError, WireFormatError
from partage.history.clusters import ClusterHistory, alternative_clusters
from partage.history.events import Generation
from partage.history.streams_application import (
    Changelogs,
    ObservedTopology,
    StreamsRebalance,
    SubtopologyKey,
    changelog,
    decode_streams_rebalance,
    observe_topology,
    rack_strategies,
    racks_matter,
    racks_of,
    shared_changelogs,
)
from partage.model import Cluster
from partage.streams import (
    AssignmentConfigs,
    StreamsApplication,
    StreamsGroupAssignment,
    TaskId,
    rebalance,
)
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.high_availability import HighAvailability
from partage.streams.member_protocol import assignment_info
from partage.streams.registry import TaskAssignor, find_assignor
from partage.streams.sticky import LegacySticky, PublicSticky, PublicStickyPreserving
from partage.streams.topology import TopicPartition
from partage.wire.streams.assignment_info import AssignmentInfo

__all__ = [
    "Assumption",
    "StreamsVerdict",
    "assumptions",
    "check_streams_agreement",
    "counts_of",
    "stateful_tasks",
]

#: Far beyond any setting of ``acceptable.recovery.lag`` that lets a task move at all.
_FAR = 2**40


#: Assumptions that are tried on each other state of the cluster.
_FEW = 2


#: Plans that are asked for at most while lags are looked for that give the record.
_MOST_LAGS_TRIED = 96


_FIRST_WITH_SUMS, _LAST_BEFORE_PROBING = 7, 2


#: What the leader sends: partitions and user data of each consumer.
Sent = Mapping[str, tuple[tuple[TopicPartition, ...], AssignmentInfo]]


class StreamsVerdict(NamedTuple):
    """What came of it.

    Attributes:
        agrees: None where nobody could be asked.
        why: why not, or the cause of a disagreement; None: none was found, or none is needed.
        assumed: what was taken for granted because it is not in the log.
        judged_by: the task assignor.
        exact: whether that assignor equals the class that such members run.
    """

    agrees: bool | None
    why: str | None = None
    assumed: str | None = None
    judged_by: str | None = None
    exact: bool = False


def check_streams_agreement(found: Generation, clusters: ClusterHistory) -> StreamsVerdict:
    """Whether its record is what a task assignor decides.

    Args:
        found: a classic generation whose strategy is ``stream``, with members.
        clusters: the metadata over time.
    """
    try:
        now = decode_streams_rebalance(found.first)
        seen = observe_topology([now, *_before(found)])
    except (WireFormatError, InvalidProblemError) as e:
        return StreamsVerdict(None, str(e))
    reason = _why_not(now, seen)
    if reason is not None:
        return StreamsVerdict(None, reason)
    at = found.timestamp_ms
    asked = _Question(now, seen, clusters.at(at), at)
    tried = list(assumptions(now, seen, asked.cluster))
    for one in tried:
        if asked.distance(one) == 0:
            return asked.agreed(one)
    if (refusal := _refusal(now)) is not None:
        return StreamsVerdict(None, refusal)
    topics = sorted({topic for own in seen.sources.values() for topic in own})
    for words, other in alternative_clusters(clusters, at, topics, (), "leader"):
        beside = replace(asked, cluster=other)
        for one in islice(assumptions(now, seen, other), _FEW):
            if beside.distance(one) == 0:
                return asked.told(one, agrees=False, why=words)
    nearest = min(tried, key=asked.distance)
    shifted = asked.with_other_lags(nearest)
    if shifted is not None:
        return asked.agreed(shifted)
    return asked.told(tried[0], agrees=False)


def _why_not(now: StreamsRebalance, seen: ObservedTopology) -> str | None:
    if now.leader is None:
        return "its leader is not among its members"
    if not seen.sources:
        none = "no task is in its record, nor in the one before: no topology"
        return _refusal(now) or none
    if seen.unread:
        return f"no record tells which tasks read {', '.join(sorted(seen.unread)[:8])}"
    return None


def _refusal(now: StreamsRebalance) -> str | None:
    """Why a leader that gave an error code is not asked: what it lacked is in no record."""
    for name, info in now.infos.items():
        if info.error_code:
            what = f"its leader sent {name} error {info.error_code} ({info.error})"
            return f"{what}: what it lacked is not in the log"
    return None


def _before(found: Generation) -> list[StreamsRebalance]:
    """The generation before, which may show topics of which this one has nothing."""
    if found.previous is None or found.previous.protocol != "classic":
        return []
    try:
        before = decode_streams_rebalance(found.previous.last)
        list(before.tasks_read())
    except (WireFormatError, InvalidProblemError):
        return []
    return [before]


@dataclass(frozen=True)
class _Question:
    """A recorded round, and the cluster that its leader may have seen."""

    now: StreamsRebalance
    seen: ObservedTopology
    cluster: Cluster
    at_ms: int

    def distance(self, one: Assumption) -> int:
        """How far its plan is from the record, 0 if it is the record."""
        sent = self._sent(one)
        if sent is None:
            return LONG_MAX
        return sum(
            _differences(partitions, info, self.now.partitions[name], self.now.infos[name])
            for name, (partitions, info) in sent.items()
        )

    def agreed(self, one: Assumption) -> StreamsVerdict:
        """The record came out; whether it would have with any lags is found by trying."""
        words = None
        tasks = frozenset(stateful_tasks(self.seen, one.stateful, self._counts))
        if tasks and isinstance(one.assignor, HighAvailability) and not one.behind:
            any_size = self.distance(replace(one, behind=tasks)) == 0
            told = "of any size" if any_size else "within acceptable.recovery.lag"
            words = f"lags (not in the log) {told}"
        return self.told(one, agrees=True, more=words)

    def told(
        self, one: Assumption, *, agrees: bool, why: str | None = None, more: str | None = None
    ) -> StreamsVerdict:
        """The verdict, with what was assumed."""
        words = "; ".join(filter(None, (one.words(self.now), more)))
        exact = one.is_exact(self.now)
        return StreamsVerdict(agrees, why, words or None, one.assignor.name, exact)

    def with_other_lags(self, one: Assumption) -> Assumption | None:
        """An assumption that gives the record, with some changelogs longer than is known.

        Consumers of one client get the least lagging of the tasks that they know, so it matters
        which of two tasks lags more. Step by step, as long as each step comes nearer.
        """
        best, left = self.distance(one), _MOST_LAGS_TRIED
        if not self.seen.ends or not self._consumers_differ(one):
            return None
        step = 1 + max(self.seen.ends.values())
        nearer = True
        while nearer and best:
            nearer = False
            for task in self.seen.ends:
                for times in (1, 2, 0):
                    tried = replace(one, longer={**one.longer, task: times * step})
                    if left == 0 or tried == one:
                        continue
                    left -= 1
                    distance = self.distance(tried)
                    if distance < best:
                        one, best, nearer = tried, distance, True
        return one if best == 0 else None

    def _consumers_differ(self, one: Assumption) -> bool:
        """Whether clients have their tasks, but not every consumer its own: lags decide that.

        Tasks that somebody has yet to give up are in no record: of a client's tasks some show.
        """
        answer, sent = self._answer(one), self._sent(one)
        if answer is None or answer.plan is None or sent is None:
            return False
        infos = self.now.infos
        if all(_tasks_differ(info, infos[name]) == 0 for name, (_, info) in sent.items()):
            return False
        return all(
            {TaskId(*task) for task in infos[member.id].active}
            <= set(answer.plan.active_of(member.process))
            for member in self.now.members
        )

    @property
    def _counts(self) -> dict[str, int]:
        return counts_of(self.seen, self.cluster)

    def _answer(self, one: Assumption) -> StreamsGroupAssignment | None:
        """What the leader decides under an assumption; None where it makes no plan."""
        counts = self._counts
        ends: dict[TopicPartition, int] = {}
        for task in stateful_tasks(self.seen, one.stateful, counts):
            key = (task.subtopology, task.topology)
            first, *others = one.changelogs.get(key, (changelog(key),))
            for log in (first, *others):
                counts[log] = max(counts.get(log, 0), task.partition + 1)
                ends[log, task.partition] = 0
            further = one.longer.get(task, 0) + (_FAR if task in one.behind else 0)
            ends[first, task.partition] = min(LONG_MAX, self.seen.ends.get(task, 0) + further)
        known = ends if one.ends_known else None
        if self.now.leader is None:
            return None
        try:
            return rebalance(
                StreamsApplication(
                    self.seen.topology(one.stateful, one.changelogs),
                    counts,
                    one.settings,
                    known,
                    racks=racks_of(self.cluster, counts) if one.heeds_racks else {},
                ),
                self.now.members,
                leader=self.now.leader,
                now_ms=self.at_ms,
                assignor=one.assignor,
            )
        except PartageError:
            return None

    def _sent(self, one: Assumption) -> Sent | None:
        """What the leader sends; None where it makes no plan, or not for these consumers."""
        answer = self._answer(one)
        if answer is None or answer.consumers.keys() != self.now.infos.keys():
            return None
        return {
            name: (its.partitions, assignment_info(its, answer.hosts, answer.standby_hosts))
            for name, its in answer.consumers.items()
        }


def _differences(
    partitions: tuple[TopicPartition, ...],
    ours: AssignmentInfo,
    recorded: tuple[TopicPartition, ...],
    theirs: AssignmentInfo,
) -> int:
    """Tasks that differ, and one more where anything else does."""
    same = sorted(partitions) == sorted(recorded) and _compared(ours) == _compared(theirs)
    return 0 if same else 1 + _tasks_differ(ours, theirs)


def _tasks_differ(ours: AssignmentInfo, theirs: AssignmentInfo) -> int:
    pairs = ((ours.active, theirs.active), (ours.standby, theirs.standby))
    return sum(len(set(mine) ^ set(its)) for mine, its in pairs)


def _compared(info: AssignmentInfo) -> tuple[object, ...]:
    """What of an assignment counts; maps and the sets in them come in no order."""
    version = info.version
    due = 0 if info.next_rebalance_ms == 0 else 1 if info.next_rebalance_ms < LONG_MAX else 2
    hosts, standby_hosts = (
        {host: frozenset(own) for host, own in one.to_dict().items()}
        for one in (info.hosts, info.standby_hosts)
    )
    return (
        version,
        info.common_version if version > _LAST_BEFORE_PROBING else -1,
        list(info.active),
        {task: frozenset(own) for task, own in info.standby_tasks().items()},
        hosts if version >= 2 else {},
        standby_hosts if version >= 6 else {},
        info.error_code,
        due if version >= _FIRST_WITH_SUMS else 2,
    )


#: Assumptions that are tried at most; the first nearly always fits.
_MOST_TRIED = 96


_MOST_TRIED_WITH_RACKS = 48


_MOST_NAMED = 8


_MOST_UNSURE = 3


@dataclass(frozen=True)
class Assumption:
    """One way to fill in what the log lacks.

    Attributes:
        behind: stateful tasks of which whoever does not run them lags too far.
        ends_known: False: the leader could not read the ends of changelogs.
        everywhere: whether ``behind`` is all there are.
        changelogs: topics of each sub-topology, where racks are heeded.
        longer: by how much changelogs are longer than is known; it matters among the consumers
            of one client, who get the least lagging of the tasks that they know.
    """

    assignor: TaskAssignor
    stateful: frozenset[SubtopologyKey]
    settings: AssignmentConfigs
    behind: frozenset[TaskId] = frozenset()
    ends_known: bool = True
    everywhere: bool = False
    longer: Mapping[TaskId, int] = field(default_factory=dict)
    changelogs: Changelogs = field(default_factory=dict)

    @property
    def heeds_racks(self) -> bool:
        """Whether the application is assumed to."""
        return self.settings.rack_aware_assignment_strategy != "none"

    def is_exact(self, now: StreamsRebalance) -> bool:
        """Whether the assignor equals the class that such members run: not from 2.0 to 2.5."""
        highest = max(member.version for member in now.members)
        between = _LAST_BEFORE_PROBING < highest < _FIRST_WITH_SUMS
        return self.assignor.exact_to is not None and not between

    def words(self, now: StreamsRebalance) -> str:
        """All of it that is no default of Kafka's, for people."""
        settings = self.settings
        clients = len({member.process for member in now.members})
        least = "at least " if settings.num_standby_replicas >= clients - 1 else ""
        words = []
        if settings.num_standby_replicas or not least:
            words.append(f"num.standby.replicas {least}{settings.num_standby_replicas}")
        if settings.max_warmup_replicas != AssignmentConfigs.max_warmup_replicas:
            words.append(f"max.warmup.replicas {settings.max_warmup_replicas}")
        if settings.rack_aware_assignment_tags:
            tags = ",".join(settings.rack_aware_assignment_tags)
            words.append(f"rack.aware.assignment.tags {tags}")
        if self.heeds_racks:
            words.append(
                f"rack.aware.assignment.strategy {settings.rack_aware_assignment_strategy}"
            )
            words += [
                f"{', '.join(names)} of sub-topology {key[0]}"
                for key, names in self.changelogs.items()
            ]
        if not self.ends_known:
            words.append("the ends of changelogs could not be read")
        elif self.behind and self.everywhere:
            words.append("lags beyond acceptable.recovery.lag")
        elif self.behind:
            some = _some(map(str, self.behind))
            words.append(f"lags beyond acceptable.recovery.lag: {some}")
        longer = [str(task) for task, more in self.longer.items() if more]
        if longer:
            words.append(f"{_some(longer)} lag more than others")
        return "; ".join(words)


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _MOST_NAMED} more" if len(ordered) > _MOST_NAMED else ""
    return ", ".join(ordered[:_MOST_NAMED]) + more


def assumptions(
    now: StreamsRebalance, seen: ObservedTopology, cluster: Cluster
) -> Iterator[Assumption]:
    """What may have been, the likeliest first; with racks heeded last."""
    plain = list(islice(_every_assumption(now, seen, cluster), _MOST_TRIED))
    yield from plain
    if racks_matter(now, seen, cluster):
        yield from islice(_with_racks(now, seen, cluster, plain), _MOST_TRIED_WITH_RACKS)


def _with_racks(
    now: StreamsRebalance, seen: ObservedTopology, cluster: Cluster, plain: Sequence[Assumption]
) -> Iterator[Assumption]:
    """The same with each strategy, costs left to the assignor, and changelogs where they count."""
    shared = {
        stateful: list(shared_changelogs(now, seen, stateful, cluster))
        for stateful in {one.stateful for one in plain}
    }
    for one in plain:
        if not isinstance(one.assignor, HighAvailability | LegacySticky):
            continue
        for strategy in rack_strategies():
            settings = replace(one.settings, rack_aware_assignment_strategy=strategy)
            heeding = replace(one, settings=settings)
            if one.settings.num_standby_replicas and one.stateful:
                for changelogs in shared[one.stateful]:
                    yield replace(heeding, changelogs=changelogs)
            else:
                yield heeding


def _every_assumption(
    now: StreamsRebalance, seen: ObservedTopology, cluster: Cluster
) -> Iterator[Assumption]:
    counts = counts_of(seen, cluster)
    for assignor in _assignors(now):
        for stateful in _with_state(seen):
            tasks = stateful_tasks(seen, stateful, counts)
            copies = {task: now.copies()[task] for task in tasks}
            for settings in _settings(now, copies):
                one = Assumption(assignor, stateful, settings)
                yield one
                if tasks and isinstance(assignor, HighAvailability):
                    yield from _lagging(one, copies)
                    yield replace(one, ends_known=False)


def _with_state(seen: ObservedTopology) -> list[frozenset[SubtopologyKey]]:
    """Sub-topologies with changelogs: those that show it, then with those that may have some.

    State shows only where somebody has reported offsets of it, or holds a standby.
    """
    unsure = sorted(seen.sources.keys() - seen.stateful, key=lambda key: (key[0], key[1] or ""))
    if len(unsure) > _MOST_UNSURE:
        return [seen.stateful, seen.stateful | frozenset(unsure)]
    sizes = range(len(unsure) + 1)
    return [seen.stateful | frozenset(some) for n in sizes for some in combinations(unsure, n)]


def _lagging(one: Assumption, copies: Mapping[TaskId, int]) -> Iterator[Assumption]:
    """Those who do not run them lag too far on the tasks that are copied more, or on all."""
    standbys = one.settings.num_standby_replicas
    warming = frozenset(task for task, n in copies.items() if n > standbys)
    for behind in dict.fromkeys((warming or frozenset(copies), frozenset(copies))):
        for most in sorted({2, len(warming) or 2}):
            settings = replace(one.settings, max_warmup_replicas=most)
            everywhere = len(behind) == len(copies)
            yield replace(one, behind=behind, settings=settings, everywhere=everywhere)


def _assignors(now: StreamsRebalance) -> Sequence[TaskAssignor]:
    """Those that such members may run: a release is told by the version of its user data."""
    highest = max(member.version for member in now.members)
    if highest <= _LAST_BEFORE_PROBING:
        return (find_assignor("streams:0.11"), find_assignor("streams:0.10.2"))
    if highest < _FIRST_WITH_SUMS:
        return (LegacySticky(),)
    return (HighAvailability(), LegacySticky(), PublicSticky(), PublicStickyPreserving())


def _settings(now: StreamsRebalance, copies: Mapping[TaskId, int]) -> Iterator[AssignmentConfigs]:
    """As many standbys as most tasks have, or as others have; with and without client tags."""
    keys = tuple(dict.fromkeys(key for member in now.members for key in member.tags))[:5]
    numbers = [n for n, _ in Counter(copies.values()).most_common(3)] or [0]
    for tags in dict.fromkeys((keys, ())):
        for n in numbers:
            yield AssignmentConfigs(num_standby_replicas=n, rack_aware_assignment_tags=tags)


def counts_of(seen: ObservedTopology, cluster: Cluster) -> dict[str, int]:
    """Partitions of each source topic: the cluster's, or what the record shows.

    A repartition topic may be made in this very rebalance: no metadata has it yet.
    """
    return {
        topic: len(cluster.partitions_of(topic)) if cluster.topic(topic) >= 0 else least
        for topic, least in seen.counts.items()
    }


def stateful_tasks(
    seen: ObservedTopology, subtopologies: frozenset[SubtopologyKey], counts: Mapping[str, int]
) -> list[TaskId]:
    """The tasks of some sub-topologies."""
    return [
        TaskId(key[0], number, key[1])
        for key in subtopologies
        for number in range(max((counts[topic] for topic in seen.sources[key]), default=0))
    ]
