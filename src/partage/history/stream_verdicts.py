"""Is a recorded generation of a classic Kafka Streams group what a task assignor decides.

The log has what every member told its leader, and what the leader told every member. It has
neither the application's settings nor the ends of its changelogs. So a plan is asked for under
assumptions, the likeliest first, each of which the record itself suggests; one under which the
record comes out, to the last field, is told with the verdict. What is compared: partitions, tasks,
standbys, hosts, versions, error code, and whether a consumer rebalances at once, later, or never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from partage.errors import InvalidProblemError, PartageError, WireFormatError
from partage.history.classic import Generation
from partage.history.clusters import ClusterHistory
from partage.history.neighbours import clusters_near
from partage.history.stream_assumed import Assumption, assumptions, counts_of, stateful_tasks
from partage.history.stream_racks import racks_of
from partage.history.stream_rounds import Shown, StreamRound, changelog, shown, stream_round
from partage.model import Cluster
from partage.streams import StreamsApplication, StreamsGroupAssignment, TaskId, rebalance
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.high_availability import HighAvailability
from partage.streams.member_protocol import assignment_info
from partage.streams.topology import TopicPartition
from partage.wire.streams.assignment_info import AssignmentInfo

__all__ = ["StreamVerdict", "stream_verdict"]

#: Far beyond any setting of ``acceptable.recovery.lag`` that lets a task move at all.
_FAR = 2**40
#: Assumptions that are tried on each other state of the cluster.
_FEW = 2
#: Plans that are asked for at most while lags are looked for that give the record.
_MOST_LAGS_TRIED = 96
_FIRST_WITH_SUMS, _LAST_BEFORE_PROBING = 7, 2

#: What the leader sends: partitions and user data of each consumer.
Sent = Mapping[str, tuple[tuple[TopicPartition, ...], AssignmentInfo]]


class StreamVerdict(NamedTuple):
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


def stream_verdict(found: Generation, clusters: ClusterHistory) -> StreamVerdict:
    """Whether its record is what a task assignor decides.

    Args:
        found: a classic generation whose strategy is ``stream``, with members.
        clusters: the metadata over time.
    """
    try:
        now = stream_round(found.first)
        seen = shown([now, *_before(found)])
    except (WireFormatError, InvalidProblemError) as e:
        return StreamVerdict(None, str(e))
    reason = _why_not(now, seen)
    if reason is not None:
        return StreamVerdict(None, reason)
    at = found.timestamp_ms
    asked = _Question(now, seen, clusters.at(at), at)
    tried = list(assumptions(now, seen, asked.cluster))
    for one in tried:
        if asked.distance(one) == 0:
            return asked.agreed(one)
    if (refusal := _refusal(now)) is not None:
        return StreamVerdict(None, refusal)
    topics = sorted({topic for own in seen.sources.values() for topic in own})
    for words, other in clusters_near(clusters, at, topics, (), "leader"):
        beside = replace(asked, cluster=other)
        for one in islice(assumptions(now, seen, other), _FEW):
            if beside.distance(one) == 0:
                return asked.told(one, agrees=False, why=words)
    nearest = min(tried, key=asked.distance)
    shifted = asked.with_other_lags(nearest)
    if shifted is not None:
        return asked.agreed(shifted)
    return asked.told(tried[0], agrees=False)


def _why_not(now: StreamRound, seen: Shown) -> str | None:
    if now.leader is None:
        return "its leader is not among its members"
    if not seen.sources:
        none = "no task is in its record, nor in the one before: no topology"
        return _refusal(now) or none
    if seen.unread:
        return f"no record tells which tasks read {', '.join(sorted(seen.unread)[:8])}"
    return None


def _refusal(now: StreamRound) -> str | None:
    """Why a leader that gave an error code is not asked: what it lacked is in no record."""
    for name, info in now.infos.items():
        if info.error_code:
            what = f"its leader sent {name} error {info.error_code} ({info.error})"
            return f"{what}: what it lacked is not in the log"
    return None


def _before(found: Generation) -> list[StreamRound]:
    """The generation before, which may show topics of which this one has nothing."""
    if found.previous is None or found.previous.protocol != "classic":
        return []
    try:
        before = stream_round(found.previous.last)
        list(before.tasks_read())
    except (WireFormatError, InvalidProblemError):
        return []
    return [before]


@dataclass(frozen=True)
class _Question:
    """A recorded round, and the cluster that its leader may have seen."""

    now: StreamRound
    seen: Shown
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

    def agreed(self, one: Assumption) -> StreamVerdict:
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
    ) -> StreamVerdict:
        """The verdict, with what was assumed."""
        words = "; ".join(filter(None, (one.words(self.now), more)))
        exact = one.is_exact(self.now)
        return StreamVerdict(agrees, why, words or None, one.assignor.name, exact)

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
