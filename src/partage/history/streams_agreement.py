"""Comparison of a classic Kafka Streams group's assignment with the result of a task assignor.

The log has everything that members sent to their leader and received from it. It has neither the
application's settings nor the end offsets of its changelogs. Plans are therefore computed under
assumptions (`Assumption`), the likeliest first. The record itself suggests them: the number of
standbys of its tasks, the version of the user data, tasks with more copies than others
(warm-ups). An assumption under which the plan equals the record, to the last field, is reported
with the verdict. Compared are partitions, tasks, standbys, hosts, versions, the error code, and
whether a consumer schedules its next rebalance at once, later, or never.
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
    RecordedStreamsRebalance,
    SubtopologyKey,
    decode_streams_rebalance,
    observe_topology,
    placeholder_changelog,
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
    compute_group_assignment,
)
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.high_availability import HighAvailability
from partage.streams.member_assignments import assignment_info
from partage.streams.registry import TaskAssignor, find_assignor
from partage.streams.sticky import LegacySticky, PublicSticky, PublicStickyPreserving
from partage.streams.topology import TopicPartition
from partage.wire.streams.assignment_info import AssignmentInfo

__all__ = [
    "Assumption",
    "StreamsVerdict",
    "check_streams_agreement",
    "counts_of",
    "generate_assumptions",
    "stateful_tasks",
]

#: A lag above any useful setting of ``acceptable.recovery.lag``.
_FAR = 2**40
#: Versions of the user data: the first with offset sums, the last before version probing.
_FIRST_WITH_SUMS, _LAST_BEFORE_PROBING = 7, 2
#: Limits of the search: assumptions, those with rack-aware strategies, those on each alternative
#: state of the cluster, and plans with other lags. The first assumption nearly always fits.
_MOST_TRIED = 96
_MOST_TRIED_WITH_RACKS = 48
_MOST_TRIED_ELSEWHERE = 2
_MOST_LAGS_TRIED = 96
#: Sub-topologies of unknown state of which all combinations are tried.
_MOST_UNSURE = 3
#: Tasks that a text names.
_MOST_NAMED = 8

#: What the leader sends: partitions and user data of each consumer.
_Sent = Mapping[str, tuple[tuple[TopicPartition, ...], AssignmentInfo]]


class StreamsVerdict(NamedTuple):
    """Result of comparing the recorded tasks of a Kafka Streams application with computed ones.

    Attributes:
        agrees: whether both are equal; None if no assignment can be computed.
        why: reason why none can be computed, or of a disagreement; None without one.
        assumed: assumptions about what the log lacks.
        judged_by: name of the task assignor that was run.
        exact: whether that assignor equals the Kafka class that such members run.
    """

    agrees: bool | None
    why: str | None = None
    assumed: str | None = None
    judged_by: str | None = None
    exact: bool = False


def check_streams_agreement(generation: Generation, clusters: ClusterHistory) -> StreamsVerdict:
    """Compare the tasks of a Kafka Streams application with those that its assignor computes.

    The log lacks some inputs of the assignor, such as settings, so several guesses are tried.

    Args:
        generation: a classic generation whose strategy is ``stream``, with members.
        clusters: the cluster metadata over time.
    """
    try:
        now = decode_streams_rebalance(generation.first)
        seen = observe_topology([now, *_decode_previous_rebalance(generation)])
    except (WireFormatError, InvalidProblemError) as e:
        return StreamsVerdict(None, str(e))
    reason = _unsupported_reason(now, seen)
    if reason is not None:
        return StreamsVerdict(None, reason)
    at = generation.timestamp_ms
    comparison = _AssumptionComparison(now, seen, clusters.cluster_at(at), at)
    tried = list(generate_assumptions(now, seen, comparison.cluster))
    for one in tried:
        if comparison.count_task_differences(one) == 0:
            return comparison.agreement_result(one)
    if (error := _leader_error(now)) is not None:
        return StreamsVerdict(None, error)
    topics = sorted({topic for names in seen.sources.values() for topic in names})
    for words, cluster in alternative_clusters(clusters, at, topics, (), "leader"):
        elsewhere = replace(comparison, cluster=cluster)
        for one in islice(generate_assumptions(now, seen, cluster), _MOST_TRIED_ELSEWHERE):
            if elsewhere.count_task_differences(one) == 0:
                return comparison.build_verdict(one, agrees=False, reason=words)
    nearest = min(tried, key=comparison.count_task_differences)
    shifted = comparison.with_other_lags(nearest)
    if shifted is not None:
        return comparison.agreement_result(shifted)
    return comparison.build_verdict(tried[0], agrees=False)


def _unsupported_reason(
    rebalance: RecordedStreamsRebalance, topology: ObservedTopology
) -> str | None:
    """Return why the tasks of a recorded Kafka Streams rebalance cannot be computed, or None.

    For example, a topic is assigned, but the records do not show which task reads it. ``topology``
    is the part of the topology that the records show.
    """
    if rebalance.leader is None:
        return "its leader is not among its members"
    if not topology.sources:
        none = "no task is in its record, nor in the one before: no topology"
        return _leader_error(rebalance) or none
    if topology.unread:
        return f"no record tells which tasks read {', '.join(sorted(topology.unread)[:8])}"
    return None


def _leader_error(rebalance: RecordedStreamsRebalance) -> str | None:
    for name, info in rebalance.infos.items():
        if info.error_code:
            what = f"its leader sent {name} error {info.error_code} ({info.error_name})"
            return f"{what}: what it lacked is not in the log"
    return None


def _decode_previous_rebalance(generation: Generation) -> list[RecordedStreamsRebalance]:
    """Decode the recorded rebalance before the given one (``generation``) of a Streams application.

    The result is a list with one item. It is empty if there is no earlier rebalance or it cannot be
    decoded.
    """
    # It may show further topics of the application's topology.
    if generation.previous is None or generation.previous.protocol != "classic":
        return []
    try:
        before = decode_streams_rebalance(generation.previous.last)
        list(before.tasks_read())
    except (WireFormatError, InvalidProblemError):
        return []
    return [before]


# --- assumptions about what the log lacks -----------------------------------------------------


@dataclass(frozen=True)
class Assumption:
    """A guess at the inputs of a Streams task assignor that the log lacks, such as its settings.

    The assignor is run with several guesses, until one gives the recorded tasks.

    Attributes:
        assignor: the task assignor.
        stateful: sub-topologies that have changelogs.
        settings: settings of the application.
        behind: stateful tasks on which all clients except the active one lag too far.
        ends_known: False if the leader could not read the end offsets of changelogs.
        everywhere: whether ``behind`` contains all stateful tasks.
        longer: number of offsets by which changelogs are longer than the records show. It decides
            which of a client's consumers gets a task.
        changelogs: topics of each sub-topology, for rack-aware strategies.
    """

    # The assignor is run under each guess, until one reproduces the recorded assignment.
    assignor: TaskAssignor
    stateful: frozenset[SubtopologyKey]
    settings: AssignmentConfigs
    behind: frozenset[TaskId] = frozenset()
    ends_known: bool = True
    everywhere: bool = False
    longer: Mapping[TaskId, int] = field(default_factory=dict)
    changelogs: Changelogs = field(default_factory=dict)

    @property
    def uses_rack_strategy(self) -> bool:
        """Return whether the guessed settings have a rack-aware assignment strategy (KIP-925).

        The racks of brokers and clients then affect the tasks.
        """
        return self.settings.rack_aware_assignment_strategy != "none"

    def is_exact(self, rebalance: RecordedStreamsRebalance) -> bool:
        """Return whether Partage's assignor computes exactly what a rebalance's Kafka release does.

        It does not for Kafka Streams 2.0 to 2.5. The version of the members' user data shows the
        release.
        """
        highest = max(member.version for member in rebalance.members)
        is_between = _LAST_BEFORE_PROBING < highest < _FIRST_WITH_SUMS
        return self.assignor.exact_to is not None and not is_between

    def describe_assumption(self, rebalance: RecordedStreamsRebalance) -> str:
        """Describe the guessed inputs for the report, such as ``num.standby.replicas 1``.

        Inputs with Kafka's default values are left out.
        """
        settings = self.settings
        clients = len({member.process for member in rebalance.members})
        least = "at least " if settings.num_standby_replicas >= clients - 1 else ""
        words = []
        if settings.num_standby_replicas or not least:
            words.append(f"num.standby.replicas {least}{settings.num_standby_replicas}")
        if settings.max_warmup_replicas != AssignmentConfigs.max_warmup_replicas:
            words.append(f"max.warmup.replicas {settings.max_warmup_replicas}")
        if settings.rack_aware_assignment_tags:
            tags = ",".join(settings.rack_aware_assignment_tags)
            words.append(f"rack.aware.assignment.tags {tags}")
        if self.uses_rack_strategy:
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
            some = _list_tasks(map(str, self.behind))
            words.append(f"lags beyond acceptable.recovery.lag: {some}")
        longer = [str(task) for task, more in self.longer.items() if more]
        if longer:
            words.append(f"{_list_tasks(longer)} lag more than others")
        return "; ".join(words)


def _list_tasks(names: Iterable[str]) -> str:
    """Return the first few task names, separated by commas, and how many more there are.

    For example, ``0_0, 0_1 and 5 more``.
    """
    ordered = sorted(names)
    more = f" and {len(ordered) - _MOST_NAMED} more" if len(ordered) > _MOST_NAMED else ""
    return ", ".join(ordered[:_MOST_NAMED]) + more


def generate_assumptions(
    rebalance: RecordedStreamsRebalance, topology: ObservedTopology, cluster: Cluster
) -> Iterator[Assumption]:
    """Yield guesses at the inputs of a Streams task assignor that the log lacks, the likeliest
    first.

    Inputs that vary are lags, numbers of standbys, which sub-topologies have state, and rack-aware
    strategies.

    Args:
        rebalance: the recorded rebalance.
        topology: the sub-topologies that the records show.
        cluster: the cluster metadata.
    """
    # The guesses vary lags, standbys and stateful sub-topologies. Rack-aware strategies come last.
    plain = list(islice(_plain_assumptions(rebalance, topology, cluster), _MOST_TRIED))
    yield from plain
    if racks_matter(rebalance, topology, cluster):
        yield from islice(
            _with_rack_strategies(rebalance, topology, cluster, plain), _MOST_TRIED_WITH_RACKS
        )


def _with_rack_strategies(
    rebalance: RecordedStreamsRebalance,
    topology: ObservedTopology,
    cluster: Cluster,
    plain: Sequence[Assumption],
) -> Iterator[Assumption]:
    """Yield copies of guesses at a Streams application's settings, each with a rack-aware strategy.

    Args:
        rebalance: the recorded rebalance.
        topology: the sub-topologies that the records show.
        cluster: the cluster metadata.
        plain: the guesses without racks.
    """
    # Costs are the defaults. Where standbys are placed, each possible mapping of changelog topics
    # to sub-topologies is tried, too.
    shared = {
        stateful: list(shared_changelogs(rebalance, topology, stateful, cluster))
        for stateful in {one.stateful for one in plain}
    }
    for one in plain:
        if not isinstance(one.assignor, HighAvailability | LegacySticky):
            continue
        for strategy in rack_strategies():
            settings = replace(one.settings, rack_aware_assignment_strategy=strategy)
            with_strategy = replace(one, settings=settings)
            if one.settings.num_standby_replicas and one.stateful:
                for changelogs in shared[one.stateful]:
                    yield replace(with_strategy, changelogs=changelogs)
            else:
                yield with_strategy


def _plain_assumptions(
    rebalance: RecordedStreamsRebalance, topology: ObservedTopology, cluster: Cluster
) -> Iterator[Assumption]:
    counts = counts_of(topology, cluster)
    for assignor in _assignors_of_release(rebalance):
        for stateful in _stateful_choices(topology):
            tasks = stateful_tasks(topology, stateful, counts)
            copies = {task: rebalance.standby_counts()[task] for task in tasks}
            for settings in _likely_settings(rebalance, copies):
                one = Assumption(assignor, stateful, settings)
                yield one
                if tasks and isinstance(assignor, HighAvailability):
                    yield from _with_lags(one, copies)
                    yield replace(one, ends_known=False)


def _stateful_choices(topology: ObservedTopology) -> list[frozenset[SubtopologyKey]]:
    """Return the possible sets of sub-topologies with state in a Streams application, the smallest
    first.

    The records prove state only for some sub-topologies, so several sets are possible.
    """
    # A sub-topology is known to be stateful only if a member reported its offsets, or has a
    # standby.
    unsure = sorted(
        topology.sources.keys() - topology.stateful, key=lambda key: (key[0], key[1] or "")
    )
    if len(unsure) > _MOST_UNSURE:
        return [topology.stateful, topology.stateful | frozenset(unsure)]
    sizes = range(len(unsure) + 1)
    return [topology.stateful | frozenset(some) for n in sizes for some in combinations(unsure, n)]


def _with_lags(assumption: Assumption, copies: Mapping[TaskId, int]) -> Iterator[Assumption]:
    """Yield variants of guessed inputs in which most clients lag far behind in some stateful tasks.

    The assignor then creates warm-up tasks. ``assumption`` is the guess, ``copies`` the number of
    standby copies of each stateful task.
    """
    # These are the tasks with more copies than configured standbys (warm-ups), or all tasks.
    standbys = assumption.settings.num_standby_replicas
    warming = frozenset(task for task, n in copies.items() if n > standbys)
    for behind in dict.fromkeys((warming or frozenset(copies), frozenset(copies))):
        for most in sorted({2, len(warming) or 2}):
            settings = replace(assumption.settings, max_warmup_replicas=most)
            everywhere = len(behind) == len(copies)
            yield replace(assumption, behind=behind, settings=settings, everywhere=everywhere)


def _assignors_of_release(rebalance: RecordedStreamsRebalance) -> Sequence[TaskAssignor]:
    """Return the task assignors of the Kafka Streams release with which a rebalance was recorded.

    The version of the members' user data shows the release.
    """
    highest = max(member.version for member in rebalance.members)
    if highest <= _LAST_BEFORE_PROBING:
        return (find_assignor("streams:0.11"), find_assignor("streams:0.10.2"))
    if highest < _FIRST_WITH_SUMS:
        return (LegacySticky(),)
    return (HighAvailability(), LegacySticky(), PublicSticky(), PublicStickyPreserving())


def _likely_settings(
    rebalance: RecordedStreamsRebalance, copies: Mapping[TaskId, int]
) -> Iterator[AssignmentConfigs]:
    """Yield the likeliest settings of a Streams application: numbers of standbys, and client tags.

    Args:
        rebalance: the recorded rebalance.
        copies: number of standby copies of each task; the three most frequent numbers are tried.
    """
    keys = tuple(dict.fromkeys(key for member in rebalance.members for key in member.tags))[:5]
    numbers = [n for n, _ in Counter(copies.values()).most_common(3)] or [0]
    for tags in dict.fromkeys((keys, ())):
        for n in numbers:
            yield AssignmentConfigs(num_standby_replicas=n, rack_aware_assignment_tags=tags)


def counts_of(topology: ObservedTopology, cluster: Cluster) -> dict[str, int]:
    """Return the partition count of each source topic of a Streams application, as a dict.

    If the cluster metadata lacks a topic, its count comes from the recorded assignment.
    """
    # A repartition topic may be created in this very rebalance, before any metadata has it; its
    # count then comes from the recorded assignment.
    return {
        topic: len(cluster.partitions_of(topic)) if cluster.topic(topic) >= 0 else least
        for topic, least in topology.counts.items()
    }


def stateful_tasks(
    topology: ObservedTopology, subtopologies: frozenset[SubtopologyKey], counts: Mapping[str, int]
) -> list[TaskId]:
    """Return all tasks of the sub-topologies of a Streams application that have state.

    A sub-topology has as many tasks as its largest source topic has partitions.

    Args:
        topology: the sub-topologies that the records show.
        subtopologies: the sub-topologies with state.
        counts: partition count of each source topic, which gives the number of tasks.
    """
    return [
        TaskId(key[0], number, key[1])
        for key in subtopologies
        for number in range(max((counts[topic] for topic in topology.sources[key]), default=0))
    ]


# --- the comparison ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _AssumptionComparison:
    """Comparison of recorded Streams tasks with the tasks that an assignor computes from guesses.

    A guess (`Assumption`) has the inputs that the log lacks.
    """

    now: RecordedStreamsRebalance
    seen: ObservedTopology
    cluster: Cluster
    at_ms: int

    def count_task_differences(self, assumption: Assumption) -> int:
        """Count the tasks that differ between the record and the assignor's result for guessed
        inputs.

        The result is 0 if the assignments are equal. ``assumption`` is the guess.
        """
        sent = self._compute_messages(assumption)
        if sent is None:
            return LONG_MAX
        return sum(
            _differences(partitions, info, self.now.partitions[name], self.now.infos[name])
            for name, (partitions, info) in sent.items()
        )

    def agreement_result(self, assumption: Assumption) -> StreamsVerdict:
        """Return the comparison's result for guessed inputs that give exactly the recorded tasks.

        The result says that the tasks agree, what was guessed, and whether larger lags would give
        the same tasks. ``assumption`` is the guess.
        """
        # It also states if the assignment would be the same with all other changelog lags.
        words = None
        tasks = frozenset(stateful_tasks(self.seen, assumption.stateful, self._counts))
        if tasks and isinstance(assumption.assignor, HighAvailability) and not assumption.behind:
            any_size = self.count_task_differences(replace(assumption, behind=tasks)) == 0
            size = "of any size" if any_size else "within acceptable.recovery.lag"
            words = f"lags (not in the log) {size}"
        return self.build_verdict(assumption, agrees=True, further_assumptions=words)

    def build_verdict(
        self,
        assumption: Assumption,
        *,
        agrees: bool,
        reason: str | None = None,
        further_assumptions: str | None = None,
    ) -> StreamsVerdict:
        """Build the result of comparing recorded tasks with those computed from guessed inputs.

        ``assumption`` is the guess, ``agrees`` says whether the tasks are equal, ``reason``
        explains a difference. ``further_assumptions`` is added to the description of the guess.
        """
        words = "; ".join(
            filter(None, (assumption.describe_assumption(self.now), further_assumptions))
        )
        exact = assumption.is_exact(self.now)
        return StreamsVerdict(agrees, reason, words or None, assumption.assignor.name, exact)

    def with_other_lags(self, assumption: Assumption) -> Assumption | None:
        """Search for changelog lengths with which the assignor computes exactly the recorded tasks.

        The log lacks these lengths. Return a copy of the guessed inputs (``assumption``) with them,
        or None if there are none. The search changes the length of one task's changelog at a time.
        """
        # A consumer receives the tasks of its client in the order of lags. The search is a
        # coordinate descent: it changes one task after the other as long as a step reduces the
        # distance.
        best, left = self.count_task_differences(assumption), _MOST_LAGS_TRIED
        if not self.seen.ends or not self._only_consumers_differ(assumption):
            return None
        step = 1 + max(self.seen.ends.values())
        improved = True
        while improved and best:
            improved = False
            for task in self.seen.ends:
                for times in (1, 2, 0):
                    tried = replace(assumption, longer={**assumption.longer, task: times * step})
                    if left == 0 or tried == assumption:
                        continue
                    left -= 1
                    distance = self.count_task_differences(tried)
                    if distance < best:
                        assumption, best, improved = tried, distance, True
        return assumption if best == 0 else None

    def _only_consumers_differ(self, assumption: Assumption) -> bool:
        """Return whether each client gets its recorded tasks, but in other threads than recorded.

        A client is a process with one consumer for each thread. ``assumption`` has the guessed
        inputs of the assignor.
        """
        # Tasks that another consumer must revoke first are not in the record, so the recorded tasks
        # may be a subset.
        planned, sent = self._run_task_assignor(assumption), self._compute_messages(assumption)
        if planned is None or planned.plan is None or sent is None:
            return False
        infos = self.now.infos
        if all(_tasks_differ(info, infos[name]) == 0 for name, (_, info) in sent.items()):
            return False
        return all(
            {TaskId(*task) for task in infos[member.id].active}
            <= set(planned.plan.active_of(member.process))
            for member in self.now.members
        )

    @property
    def _counts(self) -> dict[str, int]:
        return counts_of(self.seen, self.cluster)

    def _run_task_assignor(self, assumption: Assumption) -> StreamsGroupAssignment | None:
        """Run the task assignor with guessed inputs; return None if it fails.

        The other inputs are those of the record. ``assumption`` is the guess.
        """
        counts = self._counts
        ends: dict[TopicPartition, int] = {}
        for task in stateful_tasks(self.seen, assumption.stateful, counts):
            key = (task.subtopology, task.topology)
            first, *others = assumption.changelogs.get(key, (placeholder_changelog(key),))
            for log in (first, *others):
                counts[log] = max(counts.get(log, 0), task.partition + 1)
                ends[log, task.partition] = 0
            further = assumption.longer.get(task, 0) + (_FAR if task in assumption.behind else 0)
            ends[first, task.partition] = min(LONG_MAX, self.seen.ends.get(task, 0) + further)
        if self.now.leader is None:
            return None
        try:
            return compute_group_assignment(
                StreamsApplication(
                    self.seen.build_topology(assumption.stateful, assumption.changelogs),
                    counts,
                    assumption.settings,
                    ends if assumption.ends_known else None,
                    racks=racks_of(self.cluster, counts) if assumption.uses_rack_strategy else {},
                ),
                self.now.members,
                leader=self.now.leader,
                now_ms=self.at_ms,
                assignor=assumption.assignor,
            )
        except PartageError:
            return None

    def _compute_messages(self, assumption: Assumption) -> _Sent | None:
        """Return the assignment that the leader would send to each consumer under guessed inputs.

        The result is None if the assignor fails or the record has other consumers. ``assumption``
        is the guess.
        """
        planned = self._run_task_assignor(assumption)
        if planned is None or planned.consumers.keys() != self.now.infos.keys():
            return None
        return {
            name: (its.partitions, assignment_info(its, planned.hosts, planned.standby_hosts))
            for name, its in planned.consumers.items()
        }


def _differences(
    partitions: tuple[TopicPartition, ...],
    planned: AssignmentInfo,
    recorded_partitions: tuple[TopicPartition, ...],
    recorded: AssignmentInfo,
) -> int:
    is_same = sorted(partitions) == sorted(recorded_partitions)
    if is_same and _comparable_fields(planned) == _comparable_fields(recorded):
        return 0
    return 1 + _tasks_differ(planned, recorded)


def _tasks_differ(planned: AssignmentInfo, recorded: AssignmentInfo) -> int:
    pairs = ((planned.active, recorded.active), (planned.standby, recorded.standby))
    return sum(len(set(a) ^ set(b)) for a, b in pairs)


def _comparable_fields(info: AssignmentInfo) -> tuple[object, ...]:
    """Return the fields of a consumer's Streams assignment that are compared with the record.

    Which fields they are depends on the version of the assignment (``info``). The order in maps and
    sets is not compared.
    """
    version = info.version
    due = 0 if info.next_rebalance_ms == 0 else 1 if info.next_rebalance_ms < LONG_MAX else 2
    hosts, standby_hosts = (
        {host: frozenset(partitions) for host, partitions in one.to_dict().items()}
        for one in (info.hosts, info.standby_hosts)
    )
    return (
        version,
        info.common_version if version > _LAST_BEFORE_PROBING else -1,
        list(info.active),
        {task: frozenset(partitions) for task, partitions in info.standby_tasks().items()},
        hosts if version >= 2 else {},
        standby_hosts if version >= 6 else {},
        info.error_code,
        due if version >= _FIRST_WITH_SUMS else 2,
    )
