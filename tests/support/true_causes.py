"""True causes of rebalances, from what a recording did to members and what they reported.

A member of a generation is matched to the recording's own name for it (its id) by the member id
that it reported, else by a client id that no other member has, else by its instance id and time.
The difference of two generations then names ids, and ``events.jsonl`` names what was done to them.

The cause of a rebalance is **known** if every member that joined or left has such an explanation.
Its label is the first of its kinds in the order of `CAUSE_KINDS`, as in table ``rebalances``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.recordings import Recording

from partage.history.events import Generation, compare_states, subscribed_topics
from partage.history.records import CONSUMER, MemberState, assigned_partitions
from partage.tables.statuses import CAUSE_KINDS

#: What ends a member; the last of these before a rebalance explains its departure.
_ENDS = ("leave", "kill", "freeze", "stall", "bounce", "died", "admin.remove_static")
#: A departure without an explanation belongs to a broker that stopped or started so recently.
_BROKER_MS = 20_000
#: Clients notice a topic that changed within this time.
_TOPIC_MS = 15_000
#: `enforceRebalance` and a changed subscription take effect with the next poll.
_REQUEST_MS = 8_000


@dataclass(frozen=True)
class TrueCause:
    """The true cause of one rebalance.

    Attributes:
        kinds: kinds of `CAUSE_KINDS`, by precedence; empty if the cause is not known.
        unknown: what has no explanation.
    """

    group: str
    found: Generation
    kinds: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    @property
    def label(self) -> str | None:
        return self.kinds[0] if self.kinds and not self.unknown else None


class TrueCauses:
    """The true causes of one recording's rebalances."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._done: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._added: dict[str, dict[str, Any]] = {}
        clients: dict[tuple[str, str], set[str]] = defaultdict(set)
        for event in recording.events:
            if "id" in event:
                self._done[event["id"]].append(event)
            if event["what"] == "add":
                self._added[event["id"]] = event
                clients[event["group"], event.get("client_id") or ""].add(event["id"])
        self._of_client = {key: next(iter(ids)) for key, ids in clients.items() if len(ids) == 1}
        self._of_member = {
            row["member"]: row["id"] for row in recording.observed if row.get("member")
        }
        self._brokers = [
            e["ts_ms"] for e in recording.events
            if e["what"] in ("broker_stop", "broker_start", "admin.elect")
        ]  # fmt: skip
        self._topics = [
            e for e in recording.events
            if e["what"] in ("admin.grow", "admin.delete_topic", "admin.create") and "topic" in e
        ]  # fmt: skip

    def __iter__(self) -> Iterator[TrueCause]:
        for group, rebalances in self._recording.rebalances.items():
            explained: set[int] = set()
            for found in rebalances:
                if _is_judged(found) and found.previous is not None:
                    yield self._cause(group, found, found.previous, explained)

    def _cause(
        self, group: str, found: Generation, before: Generation, explained: set[int]
    ) -> TrueCause:
        kinds: list[str] = []
        unknown: list[str] = []
        change = compare_states(before.last, found.first)
        at = found.timestamp_ms
        for m in change.joined:
            kind = self._join(group, m, at)
            kinds += [kind] if kind else []
            unknown += [] if kind else [f"joined: {m.id}"]
        bounced = {self._id(group, m, at) for m in change.joined} - {None}
        for m in change.left:
            id_ = self._id(group, m, at, left=True)
            replaced = any(self._predecessor(group, new or "") == id_ for new in bounced)
            if replaced and "bounce" in kinds:
                continue
            kind = self._departure(m, id_, at)
            kinds += [kind] if kind else []
            unknown += [] if kind else [f"left: {m.id}"]
        kinds += ["bounce"] * len(change.restarted)
        for old, new in change.resubscribed:
            id_ = self._id(group, new, at)
            done = self._last(id_, ("resub",), at)
            if done is not None:
                kinds.append("resubscription")
            elif old.id == new.id:
                unknown.append(f"resubscribed: {new.id}")
        if not kinds and not unknown:
            kinds = self._without_changes(found, before, explained)
            unknown = [] if kinds else ["nothing was done"]
        order = sorted(set(kinds), key=CAUSE_KINDS.index)
        return TrueCause(group, found, tuple(order), tuple(unknown))

    def _id(self, group: str, m: MemberState, at: int, *, left: bool = False) -> str | None:
        """Return the recording's name of a member; of a departed one, the one it had before."""
        known = self._of_member.get(m.id) or self._of_client.get((group, m.client_id))
        if known is not None or m.instance is None:
            return known
        ids = [
            id_ for id_, e in self._added.items()
            if e["group"] == group and e.get("instance") == m.instance and e["ts_ms"] <= at
        ]  # fmt: skip
        return (ids[-2] if left and len(ids) > 1 else ids[-1]) if ids else None

    def _last(self, id_: str | None, whats: tuple[str, ...], at: int) -> dict[str, Any] | None:
        found = [e for e in self._done.get(id_ or "", ()) if e["what"] in whats and e["ts_ms"] <= at]  # fmt: skip
        return found[-1] if found else None

    def _predecessor(self, group: str, id_: str) -> str | None:
        """Return the member that a bounced member continues under the same name."""
        added = self._added.get(id_)
        if added is None or not added.get("bounce"):
            return None
        stopped = [
            e for e in self._recording.events
            if e["what"] == "bounce" and e["group"] == group
            and e["ts_ms"] + 1000 * e["gap"] <= added["ts_ms"] + 5
        ]  # fmt: skip
        former = min(
            stopped, key=lambda e: added["ts_ms"] - e["ts_ms"] - 1000 * e["gap"], default=None
        )
        before = self._added.get(former["id"]) if former is not None else None
        if former is None or before is None or not self._was_assigned(former):
            return None
        named = ("instance", "client_id")
        same = any(added.get(name) and added.get(name) == before.get(name) for name in named)
        return before["id"] if same else None

    def _was_assigned(self, ended: dict[str, Any]) -> bool:
        """Return whether a member was in its group before something ended it."""
        return any(
            row["id"] == ended["id"] and row["ev"] == "assigned" and row["ts_ms"] < ended["ts_ms"]
            for row in self._recording.observed
        )

    def _join(self, group: str, m: MemberState, at: int) -> str | None:
        id_ = self._id(group, m, at)
        added = self._added.get(id_ or "")
        if added is None:
            return None
        earlier = {
            row["member"] for row in self._recording.observed
            if row["id"] == id_ and row.get("member") and row["ts_ms"] <= at
        } - {m.id}  # fmt: skip
        if earlier:
            held = self._last(id_, ("freeze", "stall"), at)
            return "join" if held is not None or not self._near_broker(at) else "broker"
        former = self._predecessor(group, id_ or "")
        if former is None:
            return "join"
        timeout = m.session_timeout_ms if m.session_timeout_ms > 0 else 6_000
        ended = self._last(former, ("leave", "bounce", "kill"), at)
        soft = ended is not None and not ended.get("hard") and ended["what"] != "kill"
        is_bounce = soft or m.instance is not None
        if ended is None or not is_bounce or at - ended["ts_ms"] > timeout:
            return "join"
        return "bounce"

    def _departure(self, m: MemberState, id_: str | None, at: int) -> str | None:
        done = self._last(id_, _ENDS, at)
        if done is not None:
            what = done["what"]
            if what == "admin.remove_static":
                return "leave"
            if what in ("leave", "bounce") and not done.get("hard"):
                return "leave" if m.instance is None else "expiry"
            if what in ("kill", "bounce"):
                return "expiry"
            timeout = m.session_timeout_ms if m.session_timeout_ms > 0 else 6_000
            held = done.get("ms") or int(done.get("seconds", 0) * 1000)
            limit = timeout if what == "freeze" else m.rebalance_timeout_ms
            recent = at - done["ts_ms"] <= held + m.rebalance_timeout_ms
            if what in ("freeze", "stall") and recent and held >= limit - 1_000:
                return "expiry" if what == "freeze" else "poll"
        return "broker" if id_ is not None and self._near_broker(at) else None

    def _near_broker(self, at: int) -> bool:
        return any(0 <= at - ts <= _BROKER_MS for ts in self._brokers)

    def _without_changes(
        self, found: Generation, before: Generation, explained: set[int]
    ) -> list[str]:
        at, topics = found.timestamp_ms, {t for m in found.first.members for t in subscribed_topics(m)}  # fmt: skip
        if _assigned(found) > _assigned(before) and any(
            m.subscription and m.subscription.owned for m in found.first.members
        ) and not self._new_partitions(found, before):  # fmt: skip
            return ["follow-up"]
        group_events = [e for m in found.first.members
                        for e in self._done.get(self._id("", m, at) or "", ())]  # fmt: skip
        since = max(before.timestamp_ms, at - _REQUEST_MS)
        for what, kind in (("enforce", "request"), ("resub", "resubscription")):
            if found.protocol != "classic":
                break  # `enforceRebalance` has no effect in the consumer protocol
            if any(e["what"] == what and since <= e["ts_ms"] <= at for e in group_events):
                return [kind]
        for i, e in enumerate(self._topics):
            if e["topic"] in topics and 0 <= at - e["ts_ms"] <= _TOPIC_MS and i not in explained:
                explained.add(i)
                return ["topics"]
        return ["broker"] if self._near_broker(at) else []

    @staticmethod
    def _new_partitions(found: Generation, before: Generation) -> bool:
        """Return whether a topic was assigned a partition with a number above all before."""
        most: Counter[str] = Counter()
        for m in before.first.members:
            owned = m.subscription.owned if m.subscription else ()
            for topic, numbers in (*m.assigned, *owned):
                most[topic] = max(most[topic], *numbers, 0)
        return any(p > most[topic] for topic, p in _assigned(found))


def _is_judged(found: Generation) -> bool:
    """Return whether a rebalance is one of consumers; migrations have no cause of their own."""
    if found.protocol == "classic":
        return found.first.protocol_type == CONSUMER and not found.taken_over
    return found.protocol == "consumer" and not found.taken_over


def _assigned(found: Generation) -> set[tuple[str, int]]:
    return {pair for m in found.first.members for pair in assigned_partitions(m)}


@dataclass
class Confusion:
    """Found kinds against true labels.

    Attributes:
        counts: (true label, found kind) -> rebalances.
        wrong: rebalances with another kind than the true one.
        unknown: number of rebalances whose true cause is not known.
    """

    counts: Counter[tuple[str, str]]
    wrong: list[TrueCause]
    unknown: int

    @classmethod
    def of(cls, recording: Recording) -> Confusion:
        counts: Counter[tuple[str, str]] = Counter()
        wrong, unknown = [], 0
        for true in TrueCauses(recording):
            if true.label is None:
                unknown += 1
                continue
            kind = true.found.causes[0].kind
            counts[true.label, kind] += 1
            if kind != true.label:
                wrong.append(true)
        return cls(counts, wrong, unknown)

    def __add__(self, other: Confusion) -> Confusion:
        return Confusion(
            self.counts + other.counts, self.wrong + other.wrong, self.unknown + other.unknown
        )

    @property
    def known(self) -> int:
        return sum(self.counts.values())

    @property
    def right(self) -> float:
        """Share of the known causes that are found."""
        return sum(n for (true, kind), n in self.counts.items() if true == kind) / self.known

    def recall(self, kind: str) -> float | None:
        n = sum(c for (true, _), c in self.counts.items() if true == kind)
        return self.counts[kind, kind] / n if n else None

    def precision(self, kind: str) -> float | None:
        n = sum(c for (_, found), c in self.counts.items() if found == kind)
        return self.counts[kind, kind] / n if n else None

    def lines(self) -> list[str]:
        """The matrix as text: a row for each true label."""
        kinds = [k for k in CAUSE_KINDS if any(k in pair for pair in self.counts)]
        rows = [f"{'true / found':16}" + "".join(f"{k[:9]:>10}" for k in kinds) + "    recall"]
        for true in kinds:
            cells = "".join(f"{self.counts[true, k] or '':>10}" for k in kinds)
            rows.append(f"{true:16}{cells}{_percent(self.recall(true)):>10}")
        cells = "".join(f"{_percent(self.precision(k)):>10}" for k in kinds)
        rows.append(f"{'precision':16}{cells}{_percent(self.right):>10}")
        return [*rows, f"{self.known} causes known, {self.unknown} not"]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
