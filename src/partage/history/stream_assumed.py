"""What the log of a Kafka Streams group lacks, and what may have been: settings, lags, assignor.

The record itself suggests each assumption: as many standbys as tasks have, the user data's version,
tasks with more copies than others, which somebody warms up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice

from partage.history.stream_racks import (
    Changelogs,
    rack_strategies,
    racks_matter,
    shared_changelogs,
)
from partage.history.stream_rounds import Shown, StreamRound, SubtopologyKey
from partage.model import Cluster
from partage.streams import AssignmentConfigs, TaskId
from partage.streams.high_availability import HighAvailability
from partage.streams.registry import TaskAssignor, find_assignor
from partage.streams.sticky import LegacySticky, PublicSticky, PublicStickyPreserving

__all__ = ["Assumption", "assumptions", "counts_of", "stateful_tasks"]

#: Assumptions that are tried at most; the first nearly always fits.
_MOST_TRIED = 96
_MOST_TRIED_WITH_RACKS = 48
_MOST_NAMED = 8
_MOST_UNSURE = 3
_FIRST_WITH_SUMS, _LAST_BEFORE_PROBING = 7, 2


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

    def is_exact(self, now: StreamRound) -> bool:
        """Whether the assignor equals the class that such members run: not from 2.0 to 2.5."""
        highest = max(member.version for member in now.members)
        between = _LAST_BEFORE_PROBING < highest < _FIRST_WITH_SUMS
        return self.assignor.exact_to is not None and not between

    def words(self, now: StreamRound) -> str:
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


def assumptions(now: StreamRound, seen: Shown, cluster: Cluster) -> Iterator[Assumption]:
    """What may have been, the likeliest first; with racks heeded last."""
    plain = list(islice(_every_assumption(now, seen, cluster), _MOST_TRIED))
    yield from plain
    if racks_matter(now, seen, cluster):
        yield from islice(_with_racks(now, seen, cluster, plain), _MOST_TRIED_WITH_RACKS)


def _with_racks(
    now: StreamRound, seen: Shown, cluster: Cluster, plain: Sequence[Assumption]
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


def _every_assumption(now: StreamRound, seen: Shown, cluster: Cluster) -> Iterator[Assumption]:
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


def _with_state(seen: Shown) -> list[frozenset[SubtopologyKey]]:
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


def _assignors(now: StreamRound) -> Sequence[TaskAssignor]:
    """Those that such members may run: a release is told by the version of its user data."""
    highest = max(member.version for member in now.members)
    if highest <= _LAST_BEFORE_PROBING:
        return (find_assignor("streams:0.11"), find_assignor("streams:0.10.2"))
    if highest < _FIRST_WITH_SUMS:
        return (LegacySticky(),)
    return (HighAvailability(), LegacySticky(), PublicSticky(), PublicStickyPreserving())


def _settings(now: StreamRound, copies: Mapping[TaskId, int]) -> Iterator[AssignmentConfigs]:
    """As many standbys as most tasks have, or as others have; with and without client tags."""
    keys = tuple(dict.fromkeys(key for member in now.members for key in member.tags))[:5]
    numbers = [n for n, _ in Counter(copies.values()).most_common(3)] or [0]
    for tags in dict.fromkeys((keys, ())):
        for n in numbers:
            yield AssignmentConfigs(num_standby_replicas=n, rack_aware_assignment_tags=tags)


def counts_of(seen: Shown, cluster: Cluster) -> dict[str, int]:
    """Partitions of each source topic: the cluster's, or what the record shows.

    A repartition topic may be made in this very rebalance: no metadata has it yet.
    """
    return {
        topic: len(cluster.partitions_of(topic)) if cluster.topic(topic) >= 0 else least
        for topic, least in seen.counts.items()
    }


def stateful_tasks(
    seen: Shown, subtopologies: frozenset[SubtopologyKey], counts: Mapping[str, int]
) -> list[TaskId]:
    """The tasks of some sub-topologies."""
    return [
        TaskId(key[0], number, key[1])
        for key in subtopologies
        for number in range(max((counts[topic] for topic in seen.sources[key]), default=0))
    ]
