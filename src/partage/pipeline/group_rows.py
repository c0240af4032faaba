"""One group's rows: from its records in log order to the rows of eight tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from partage.history.classic import ClassicGroup, ClassicRecord, Generation, Life
from partage.history.clients import client_of
from partage.history.clusters import ClusterHistory
from partage.history.commits import CommitRun, merged
from partage.history.dialects import leader_client
from partage.history.events import Change, change_of, events_of
from partage.history.ownership import Interval, Ownership
from partage.history.problems import why_not
from partage.history.records import (
    ClassicState,
    MemberState,
    Pairs,
    Place,
    classic_state,
    subscription_hash,
)
from partage.history.replaying import Replayed, Replayer
from partage.pipeline.decode import Kind
from partage.pipeline.judging import Judge
from partage.pipeline.totals import GroupTotals
from partage.statuses import FROM_OWN, RECORDED
from partage.wire.group_log import decode_record

if TYPE_CHECKING:
    from partage.groups.api import Strategy
    from partage.pipeline.write import TableWriters

__all__ = ["GroupRows"]

#: Kind of the groups of GROUP_METADATA; other kinds are the first word of their record types.
_CLASSIC = "classic"


class GroupRows:
    """Feed rows of the decode job in order, then `finish`; tables go to ``writers``."""

    def __init__(
        self,
        name: str,
        clusters: ClusterHistory,
        strategies: Sequence[Strategy],
        writers: TableWriters,
    ) -> None:
        self.name = name
        self._clusters = clusters
        self._writers = writers
        self._classic = ClassicGroup()
        self._ownership = Ownership(self._topic_id)
        self._replayer = Replayer(clusters, strategies, Judge())
        self._totals = GroupTotals(name)
        self._commits: list[CommitRun] = []
        self._ended = False

    def feed(self, row: dict[str, Any]) -> None:
        """One row: a group record, or (after all of these) a run of commits."""
        if row["kind"] == Kind.GROUP_RECORD:
            self._record(row)
            return
        self._end_of_records()
        run = _run(row)
        if self._commits and run.key[:3] != self._commits[0].key[:3]:
            self._write_commits()
        self._commits.append(run)

    def finish(self) -> dict[str, Any]:
        """Write what is still open; the group's totals."""
        self._end_of_records()
        self._write_commits()
        self._totals.missing(self._classic.missing_before, self._classic.missing_within)
        self._totals.incarnations = self._classic.incarnation
        self._write("groups", self._totals.row())
        return self._totals.summary()

    def _write(self, table: str, row: dict[str, Any]) -> None:
        self._writers.add(table, {"group": self.name, **row})

    def _record(self, row: dict[str, Any]) -> None:
        record = decode_record(row["key"], row["value"])
        place = Place(row["log_partition"], row["log_offset"])
        kind = _CLASSIC if record.key_version == 2 else record.type.split("_")[0].lower()
        self._totals.record(kind, place, row["timestamp_ms"])
        if kind == _CLASSIC:
            state = None if record.value is None else classic_state(record.value)
            fed = ClassicRecord(place, row["timestamp_ms"], state)
        else:
            epoch = record.value["epoch"] if record.key_version == 3 and record.value else None
            fed = ClassicRecord(place, row["timestamp_ms"], None, epoch, other=True)
        for found in self._classic.feed(fed):
            self._found(found)

    def _end_of_records(self) -> None:
        if self._ended:
            return
        self._ended = True
        for found in self._classic.finish():
            self._found(found)
        for interval in self._ownership.finish():
            self._write("ownership", _interval_row(interval))

    def _found(self, found: Generation | Life) -> None:
        for interval in self._ownership.feed(found):
            self._write("ownership", _interval_row(interval))
        changed = self._topics_changed(found) if isinstance(found, Generation) else ()
        for position, event in enumerate(events_of(found, changed)):
            self._write("events", {
                "incarnation": event.incarnation, "generation": event.generation,
                "log_partition": event.place.partition, "log_offset": event.place.offset,
                "position": position, "time_ms": event.time_ms, "event": event.event,
                "member": event.member, "instance": event.instance, "source": event.source,
                "detail": event.detail,
            })  # fmt: skip
        if isinstance(found, Generation):
            self._generation(found, changed)

    def _topics_changed(self, found: Generation) -> tuple[str, ...]:
        """Subscribed topics that the cluster had otherwise at the generation before."""
        if found.previous is None:
            return ()
        names = [t for m in found.first.members if m.subscription for t in m.subscription.topics]
        before = self._clusters.position_at(found.previous.timestamp_ms)
        return self._clusters.topics_changed(
            names, before, self._clusters.position_at(found.timestamp_ms)
        )

    def _generation(self, found: Generation, changed: tuple[str, ...]) -> None:
        reason = why_not(found.first)
        change = change_of(found.previous.last if found.previous else None, found.first)
        position = self._clusters.position_at(found.timestamp_ms)
        row = _rebalance_row(found, change, changed, reason)
        row["cluster_ms"] = self._clusters.times[position] if position >= 0 else None
        self._write("rebalances", row)
        self._totals.rebalance(row)
        at = {"incarnation": found.incarnation, "generation": found.number}
        for i, member in enumerate(found.first.members):
            self._write("members", {**at, "position": i, **_member_row(member, found.first)})
        for replayed in self._replayer.feed(found):
            self._write("replays", {**at, **_replay_row(replayed, found)})
            self._totals.replayed(found.number, replayed)

    def _topic_id(self, topic: str, time_ms: int) -> str | None:
        cluster = self._clusters.at(time_ms)
        number = cluster.topic(topic)
        return cluster.index.ids[number] if number >= 0 else None

    def _write_commits(self) -> None:
        ordered, self._commits = self._commits, []
        for run in merged(ordered):
            self._totals.commits += run.commits
            self._write("commit_rates", {
                "topic": run.topic, "partition": run.partition, "minute_ms": run.minute_ms,
                "first_offset": run.first_offset, "last_offset": run.last_offset,
                "commits": run.commits, "transactional": run.transactional,
                "tombstones": run.tombstones, "largest_gap_ms": run.largest_gap_ms,
            })  # fmt: skip
            self._totals.commit_place(run.first_place)


def _run(row: dict[str, Any]) -> CommitRun:
    return CommitRun(
        row["group"], row["topic"], row["topic_partition"], row["minute_ms"],
        Place(row["log_partition"], row["log_offset"]),
        Place(row["last_partition"], row["last_log_offset"]),
        row["first_ms"], row["last_ms"], row["first_offset"], row["last_offset"],
        row["commits"], row["transactional"], row["tombstones"], row["largest_gap_ms"],
    )  # fmt: skip


def _interval_row(i: Interval) -> dict[str, Any]:
    return {
        "incarnation": i.incarnation, "topic_id": i.topic_id, "topic": i.topic,
        "partition": i.partition, "member": i.member, "instance": i.instance, "role": "owner",
        "from_ms": i.from_ms, "to_ms": i.to_ms, "from_generation": i.from_generation,
        "to_generation": i.to_generation,
    }  # fmt: skip


def _rebalance_row(
    found: Generation, change: Change, changed: tuple[str, ...], reason: str | None
) -> dict[str, Any]:
    state = found.first
    topics = f"topics changed: {', '.join(changed)}" if changed else None
    words = [change.cause] if not (changed and change.follow_up) else []
    return {
        "incarnation": found.incarnation, "generation": found.number,
        "log_partition": found.place.partition, "log_offset": found.place.offset,
        "time_ms": found.timestamp_ms, "state_time_ms": state.state_time_ms,
        "protocol_type": state.protocol_type, "strategy": state.strategy, "leader": state.leader,
        "leader_client": leader_client(state),
        "members": len(state.members),
        "partitions": sum(len(n) for m in state.members for _, n in m.assigned),
        "records": found.records, "gap_before": found.gap_before,
        "cause": ", ".join([*words, *([topics] if topics else [])]),
        "follow_up": change.follow_up and not changed,
        "joined": len(change.joined), "left": len(change.left),
        "restarted": len(change.restarted), "resubscribed": len(change.resubscribed),
        "clients": sorted({client_of(m).name for m in state.members}),
        "replayed": reason is None, "why_not": reason, "protocol": found.protocol,
        "cause_kind": found.causes[0].kind if found.causes else "unknown",
        "cause_source": found.causes[0].source if found.causes else "inferred",
    }  # fmt: skip


def _member_row(m: MemberState, state: ClassicState) -> dict[str, Any]:
    client = client_of(m)
    sent = m.subscription
    return {
        "member": m.id, "instance": m.instance, "client_id": m.client_id,
        "client_host": m.client_host, "client": client.name, "certainty": client.certainty,
        "leader": m.id == state.leader, "rack": sent.rack if sent else None,
        "session_timeout_ms": m.session_timeout_ms,
        "rebalance_timeout_ms": m.rebalance_timeout_ms,
        "subscription": subscription_hash(sent.topics) if sent else None,
        "topics": list(sent.topics) if sent else [],
        "subscription_version": sent.version if sent else None,
        "user_data": sent.user_data if sent else None,
        "claims": _pairs(sent.owned if sent else ()),
        "claims_generation": sent.generation if sent else -1,
        "assignment_version": m.assignment_version if m.assignment_version >= 0 else None,
        "assignment": _pairs(m.assigned),
    }  # fmt: skip


def _pairs(pairs: Pairs) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in pairs]


def _replay_row(r: Replayed, found: Generation) -> dict[str, Any]:
    m = r.measured
    return {
        "policy": r.strategy, "protocol": found.protocol, "step": 0, "caused": True,
        "reading": RECORDED if r.strategy == RECORDED else FROM_OWN,
        "time_ms": found.timestamp_ms, "members": len(found.first.members),
        "strategy": r.strategy, "status": r.status, "claimed": r.claimed, "agrees": r.agrees,
        "counts": r.counts, "judged_by": r.judged_by, "detail": r.detail,
        "partitions": r.partitions, "spread": m.spread,
        "idle": m.idle, "moved": m.moved, "avoidable": m.avoidable, "best_spread": m.best_spread,
        "rack_mismatches": m.rack_mismatches, "colocation": m.colocation, "breaches": m.breaches,
        "changed": r.changed, "plan": r.plan,
    }  # fmt: skip
