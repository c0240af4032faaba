"""Causes and properties of groups, computed from the tables for the rules of advice.

Member ids of evicted dynamic members are new after each return. So members are identified by client
id and host, or by their instance id: if an eviction reduced the number of members with one
identity, and soon the number rises again, a member returned. The log does not record whether it
is the same process. A member that returns minutes later was restarted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from partage.report.run import MOST_WORST, CauseShare, Traits, find_worst
from partage.tables.statuses import RECORDED
from partage.tables.sums import count_flags

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MAX_TIMEOUTS", "Snapshot", "causes_by_group", "find_silent_times", "traits_by_group"]

#: A member that is silent for more session timeouts than this was replaced, not slow.
MAX_TIMEOUTS = 3
#: Rebalances after an eviction that are searched for a return.
_AHEAD = 20
_PLACE = ("group", "log_partition", "log_offset")
_REBALANCE = ["group", "incarnation", "generation"]


def causes_by_group(rebalances: pa.Table, replays: pa.Table) -> dict[str, tuple[CauseShare, ...]]:
    """Return the causes of each group's rebalances, with the number of rebalances and their
    downtime.

    The cause with the largest downtime comes first. ``rebalances`` and ``replays`` are the tables
    of a run with these names.
    """
    # The downtime of a follow-up rebalance counts for the cause of the rebalance that it completes.
    # That of the first rebalance after a group lost its last member counts for the cause of that
    # loss, unless the member left by itself.
    from pyarrow import compute as pc

    rebalances = rebalances.sort_by([(name, "ascending") for name in _PLACE])
    kind = pc.fill_null(rebalances["cause_kind"], "unknown")
    source = count_flags(pc.equal(rebalances["cause_source"], "recorded"))
    table = rebalances.select([*_REBALANCE, "time_ms"]).append_column("kind", kind)
    table = table.append_column("recorded", source)
    table = table.append_column("origin", _find_origin_causes(rebalances, kind))
    table = table.join(_recorded_downtime(replays), _REBALANCE, join_type="left outer")
    # A migration keeps the number of the previous rebalance, so the join finds that one's downtime.
    migrated = pc.equal(table["kind"], "migration")
    for name in ("low", "high", "best"):
        none = pc.if_else(migrated, None, table[name])
        table = table.set_column(table.schema.get_field_index(name), name, none)
    table = table.append_column("timed", count_flags(pc.is_valid(table["high"])))
    counts = table.group_by(["group", "kind"]).aggregate([("kind", "count"), ("recorded", "sum")])
    times = table.group_by(["group", "origin"]).aggregate(
        [("timed", "sum"), ("low", "sum"), ("high", "sum"), ("best", "sum")]
    )
    worst = _worst_by_cause(table)
    found: dict[str, dict[str, CauseShare]] = {}
    for row in counts.to_pylist():
        one = CauseShare(row["kind"], row["kind_count"], row["recorded_sum"])
        found.setdefault(row["group"], {})[row["kind"]] = one
    for row in times.to_pylist():
        shares, kind = found[row["group"]], row["origin"]
        shares[kind] = replace(
            shares[kind], timed=row["timed_sum"] or 0, low=row["low_sum"] or 0.0,
            high=row["high_sum"] or 0.0, best=row["best_sum"] or 0.0,
            worst=find_worst(worst.get((row["group"], kind), ())),
        )  # fmt: skip
    return {
        group: tuple(sorted(shares.values(), key=lambda c: c.sort_key))
        for group, shares in found.items()
    }


def _worst_by_cause(table: pa.Table) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return the worst rebalances of each group and kind of cause, as time (ms) and downtime.

    ``table`` has the columns ``group``, ``origin``, ``time_ms`` and ``best``.
    """
    from pyarrow import compute as pc

    lasting = table.filter(pc.fill_null(pc.greater(table["best"], 0), False))
    names = pc.binary_join_element_wise(lasting["group"], lasting["origin"], "\0")
    codes = names.combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort((-lasting["best"].to_numpy(), codes))
    ordered = codes[order]
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for row in lasting.take(order[rank < MOST_WORST]).to_pylist():
        found.setdefault((row["group"], row["origin"]), []).append((row["time_ms"], row["best"]))
    return found


#: Causes of which a group without members has not recovered before the next rebalance.
_LOSSES = frozenset({"expiry", "poll", "broker", "departure"})


def _find_origin_causes(rebalances: pa.Table, kinds: pa.ChunkedArray) -> pa.Array:
    """Return the kind of cause to which the downtime of each rebalance is attributed.

    A follow-up rebalance gets the cause of the rebalance that it completes. ``rebalances`` must be
    in log order; ``kinds`` has the kind of cause of each.
    """
    # Follow-ups have that of the rebalance they complete. The first rebalance after a group lost
    # its last member has the cause of that loss.
    import pyarrow as pa

    out: list[str] = []
    before, origin, members = None, "follow-up", None
    groups, counts = (rebalances[name].to_pylist() for name in ("group", "members"))
    for group, kind, count in zip(groups, kinds.to_pylist(), counts, strict=True):
        is_loss_over = group == before and members == 0 and origin in _LOSSES
        if kind == "follow-up":
            origin = origin if group == before else "follow-up"
        elif not is_loss_over or not count:
            origin = kind
        before, members = group, count
        out.append(origin)
    return pa.array(out, pa.string())


def _recorded_downtime(replays: pa.Table) -> pa.Table:
    """Return the recorded downtime of each rebalance: lower bound, upper bound and best estimate.

    The result is a table with the columns ``low``, ``high`` and ``best`` (partition-seconds),
    summed from table ``replays``.
    """
    from pyarrow import compute as pc

    name = pc.coalesce(replays["policy"], replays["strategy"])
    recorded = replays.filter(pc.fill_null(pc.equal(name, RECORDED), False))
    costs = ("stopped_at_least_ps", "stopped_at_most_ps", "stopped_ps")
    sums = recorded.group_by(_REBALANCE).aggregate([(name, "sum") for name in costs])
    columns = [*_REBALANCE, *(f"{name}_sum" for name in costs)]
    return sums.select(columns).rename_columns([*_REBALANCE, "low", "high", "best"])


def traits_by_group(
    rebalances: pa.Table,
    members: pa.Table,
    ownership: pa.Table,
    events: pa.Table,
    *,
    broker_session_ms: int,
    storms_known: bool,
) -> dict[str, Traits]:
    """Compute the properties of each consumer group that the rules for recommendations need.

    Groups without rebalances are left out.

    Args:
        rebalances: table ``rebalances``.
        members: table ``members``.
        ownership: table ``ownership``: group, topic and partition.
        events: table ``events``: group, event, member, detail and time_ms.
        broker_session_ms: session timeout of members that send none; 0 if unknown.
        storms_known: whether the run has a rebalance storm; an older run has no such column.
    """
    newest = _newest(rebalances, "protocol")
    sessions = _most(members, "session_timeout_ms")
    late = _count_late_polls(events)
    crowded = _count_crowded(rebalances)
    dynamic = _count_dynamic_members(members)
    silent = _silences_by_group(members, rebalances, broker_session_ms)
    agreement = _agreement(rebalances)
    together = _has_copartitioned_topics(ownership)
    stormy = _count_storms(rebalances)
    polls = _most(members, "rebalance_timeout_ms")
    static = _count_static_members(members, rebalances)
    return {
        group: Traits(
            protocol=newest[group] or "classic",
            session_ms=max(sessions.get(group) or 0, 0)
            or (broker_session_ms if newest[group] == "consumer" else 0)
            or None,
            returned=len(silent.get(group, ())),
            longest_silence_ms=max(silent.get(group, ()), default=None),
            judged=agreement.get(group, (0, 0))[0],
            agreed=agreement.get(group, (0, 0))[1],
            dynamic_members=dynamic.get(group),
            copartitioned=together.get(group),
            storms=len(stormy.get(group, {})) if storms_known else None,
            stormy=sum(n for n, _ in stormy.get(group, {}).values()),
            triggers=_triggers(stormy.get(group, {}).values()),
            late_polls=len(late.get(group, ())),
            longest_poll_ms=_longest_poll_ms(polls.get(group), late.get(group, ())),
            crowded=crowded.get(group, (0, 0))[0],
            settled=crowded.get(group, (0, 0))[1],
            poll_ms=max(polls.get(group) or 0, 0) or None,
            static_members=static.get(group, (0, 0))[0],
            newest_members=static.get(group, (0, 0))[1],
        )
        for group in newest
    }


def _most(table: pa.Table, column: str) -> dict[str, int | None]:
    found = table.group_by("group").aggregate([(column, "max")])
    return {row["group"]: row[f"{column}_max"] for row in found.to_pylist()}


def _longest_poll_ms(poll_ms: int | None, away: Iterable[int]) -> int | None:
    """Return the longest time that a member spent between two polls (ms); None if it is unknown.

    The member exceeded ``max.poll.interval.ms`` (``poll_ms``), left and rejoined. So the time is
    that interval plus the time from leaving to rejoining (``away``, ms).
    """
    longest = max(away, default=None)
    return None if longest is None or not poll_ms or poll_ms < 0 else poll_ms + max(0, longest)


def _count_late_polls(events: pa.Table) -> dict[str, list[int]]:
    """Find the members that exceeded ``max.poll.interval.ms``, left their group and rejoined it.

    The result is a dict from group to a list with the time from leaving to rejoining (ms) of each
    such member. ``events`` is the table of this name.
    """
    # A long time without commits alone is no evidence: the member may have been killed, or its
    # topics may have been idle. A member that polls late is alive and rejoins with a new member id.
    import pyarrow as pa
    from pyarrow import compute as pc

    if not {"member", "detail", "time_ms"} <= set(events.column_names):
        return {}
    kinds = pa.array(["poll", "join", "bounce"])
    rows = events.filter(pc.is_in(events["event"], kinds)).to_pylist()
    back: dict[tuple[str, str], int] = {
        (row["group"], row["detail"].removeprefix("was ").partition(",")[0]): row["time_ms"]
        for row in rows
        if row["event"] != "poll" and (row["detail"] or "").startswith("was ")
    }
    late: dict[str, list[int]] = {}
    for row in rows:
        rejoined_ms = back.get((row["group"], row["member"]))
        if row["event"] == "poll" and rejoined_ms is not None:
            late.setdefault(row["group"], []).append(rejoined_ms - row["time_ms"])
    return late


def _count_crowded(rebalances: pa.Table) -> dict[str, tuple[int, int]]:
    """Count the rebalances of each group after which it had more members than partitions.

    The result is a dict from group to two numbers: these rebalances, and all rebalances with
    members. Follow-up rebalances are left out.
    """
    # Follow-up rebalances are left out.
    from pyarrow import compute as pc

    settled = pc.and_(
        pc.greater(rebalances["members"], 0),
        pc.invert(pc.fill_null(pc.equal(rebalances["cause_kind"], "follow-up"), False)),
    )
    table = rebalances.filter(settled)
    more = pc.and_(
        pc.greater(table["partitions"], 0), pc.greater(table["members"], table["partitions"])
    )
    sums = table.select(["group"]).append_column("more", count_flags(more))
    found = sums.group_by("group").aggregate([("more", "sum"), ("more", "count")])
    return {row["group"]: (row["more_sum"], row["more_count"]) for row in found.to_pylist()}


def _newest(rebalances: pa.Table, column: str) -> dict[str, Any]:
    order = [("group", "ascending"), ("log_partition", "ascending"), ("log_offset", "ascending")]
    table = rebalances.select(["group", "log_partition", "log_offset", column]).sort_by(order)
    return dict(zip(table["group"].to_pylist(), table[column].to_pylist(), strict=True))


def _agreement(rebalances: pa.Table) -> dict[str, tuple[int, int]]:
    from pyarrow import compute as pc

    table = rebalances.select(["group"])
    table = table.append_column("judged", count_flags(pc.is_valid(rebalances["agrees"])))
    table = table.append_column("agreed", count_flags(rebalances["agrees"]))
    found = table.group_by("group").aggregate([("judged", "sum"), ("agreed", "sum")])
    return {row["group"]: (row["judged_sum"], row["agreed_sum"]) for row in found.to_pylist()}


def _count_dynamic_members(members: pa.Table) -> dict[str, int]:
    """Return the largest number of dynamic members that each group had in a rebalance.

    Dynamic members have no ``group.instance.id``. ``members`` is a table with one row for each
    rebalance and member.
    """
    from pyarrow import compute as pc

    dynamic = count_flags(pc.is_null(members["instance"]))
    found = members.select(_REBALANCE).append_column("n", dynamic)
    each = found.group_by(_REBALANCE).aggregate([("n", "sum")])
    most = each.group_by("group").aggregate([("n_sum", "max")])
    return {row["group"]: row["n_sum_max"] for row in most.to_pylist()}


def _count_static_members(members: pa.Table, rebalances: pa.Table) -> dict[str, tuple[int, int]]:
    """Return the numbers of static members and of all members of each consumer group.

    Static members have a ``group.instance.id``. The newest rebalance with the most members counts,
    because members may be leaving at the end of a log.
    """
    from pyarrow import compute as pc

    found = members.select(_REBALANCE).append_column(
        "static", count_flags(pc.is_valid(members["instance"]))
    )
    each = found.group_by(_REBALANCE).aggregate([("static", "sum"), ("static", "count")])
    table = rebalances.select(list(dict.fromkeys([*_REBALANCE, *_PLACE])))
    table = table.join(each, _REBALANCE, join_type="inner")
    table = table.sort_by([(name, "ascending") for name in ("static_count", *_PLACE[1:])])
    newest = table.select(["group", "static_sum", "static_count"]).to_pydict()
    return dict(
        zip(newest["group"], zip(newest["static_sum"], newest["static_count"], strict=True),
            strict=True)
    )  # fmt: skip


def _has_copartitioned_topics(ownership: pa.Table) -> dict[str, bool]:
    """Return for each consumer group whether two of its topics have equal partition counts.

    An application can join two topics only if their counts are equal. ``ownership`` is a table with
    the group, topic and partition of each ownership.
    """
    # An application can only join such topics.
    sizes = ownership.group_by(["group", "topic"]).aggregate([("partition", "max")])
    found: dict[str, Counter[int]] = {}
    for row in sizes.to_pylist():
        found.setdefault(row["group"], Counter())[row["partition_max"]] += 1
    return {group: max(counts.values()) > 1 for group, counts in found.items()}


def _triggers(storms: Iterable[tuple[int, str]]) -> tuple[tuple[str, int], ...]:
    # The rebalances of storms by the cause of the first one.
    found: Counter[str] = Counter()
    for rebalances, trigger in storms:
        found[trigger] += rebalances
    return tuple(found.most_common())


def _count_storms(rebalances: pa.Table) -> dict[str, dict[int, tuple[int, str]]]:
    """Return the rebalance storms (rebalances in quick succession) of each consumer group.

    The result is a dict from group to its storms, which are a dict from storm number to two values:
    the number of rebalances, and the cause of the first one.
    """
    from pyarrow import compute as pc

    table = rebalances.filter(pc.is_valid(rebalances["storm"]))
    order = [("log_partition", "ascending"), ("log_offset", "ascending")]
    found: dict[str, dict[int, tuple[int, str]]] = {}
    for row in table.sort_by(order).select(["group", "storm", "cause_kind"]).to_pylist():
        storms = found.setdefault(row["group"], {})
        count, trigger = storms.get(row["storm"], (0, row["cause_kind"] or "unknown"))
        storms[row["storm"]] = (count + 1, trigger)
    return found


class Snapshot(NamedTuple):
    """The members of a group after one of its rebalances, counted by instance id or client.

    A comparison of consecutive snapshots shows which evicted members rejoined.

    Attributes:
        time_ms: time of the rebalance.
        evicted: whether a session timeout caused it.
        members: number of members by instance id or client.
        session_ms: longest session timeout of the members.
    """

    time_ms: int
    evicted: bool
    members: Counter[str]
    session_ms: int


def find_silent_times(snapshots: Sequence[Snapshot]) -> list[int]:
    """Return how long each evicted member sent no heartbeats before it rejoined its group (ms).

    The time is the session timeout plus the time between eviction and rejoining.

    Args:
        snapshots: the group's members after each of its rebalances, in log order.

    >>> alone, both = Counter(a=1), Counter(a=1, b=1)
    >>> evicted = Snapshot(9_000, True, alone, 6_000)
    >>> before, after = (Snapshot(ms, False, both, 6_000) for ms in (0, 11_000))
    >>> find_silent_times([before, evicted, after])
    [8000]
    """
    found = []
    for i, snapshot in enumerate(snapshots):
        if not snapshot.evicted or not i:
            continue
        before = snapshots[i - 1]
        for identity in before.members - snapshot.members:
            for later in snapshots[i + 1 : i + 1 + _AHEAD]:
                silence = before.session_ms + later.time_ms - snapshot.time_ms
                if silence > MAX_TIMEOUTS * before.session_ms:  # also without any timeout
                    break
                if later.members[identity] > snapshot.members[identity]:
                    found.append(silence)
                    break
    return found


def _silences_by_group(
    members: pa.Table, rebalances: pa.Table, broker_session_ms: int
) -> dict[str, list[int]]:
    """Return how long evicted members of each group sent no heartbeats before they rejoined (ms).

    The result is a dict from group to one time per rejoined member, without groups that have none.
    ``broker_session_ms`` is the session timeout of members that send none; 0 if unknown.
    """
    from pyarrow import compute as pc

    evicted = pc.fill_null(pc.equal(rebalances["cause_kind"], "expiry"), False)
    names = pc.unique(rebalances.filter(evicted)["group"])
    if not len(names):
        return {}
    order = [(name, "ascending") for name in _PLACE]
    wanted = rebalances.filter(pc.is_in(rebalances["group"], names)).sort_by(order)
    longest = max(pc.max(members["session_timeout_ms"]).as_py() or 0, broker_session_ms)
    near = wanted.filter(_near_evictions(wanted, longest)).select(_REBALANCE)
    compared = members.join(near, _REBALANCE, join_type="left semi")
    known = _members_by_identity(compared, broker_session_ms)
    snapshots: dict[str, list[Snapshot]] = {}
    for row in wanted.select([*_REBALANCE, "time_ms", "cause_kind"]).to_pylist():
        place = (row["group"], row["incarnation"], row["generation"])
        counts, session = known.get(place) or (Counter(), 0)
        one = Snapshot(row["time_ms"], row["cause_kind"] == "expiry", counts, session)
        snapshots.setdefault(row["group"], []).append(one)
    return {group: found for group, of in snapshots.items() if (found := find_silent_times(of))}


def _near_evictions(rebalances: pa.Table, session_ms: int) -> pa.Array:
    """Return a mask that selects the rebalances before, at and after the eviction of a member.

    The members of these rebalances show who rejoined. Those of all rebalances of a long history
    would not fit in memory.

    Args:
        rebalances: rows of table ``rebalances``, in log order.
        session_ms: longest session timeout of the members.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    groups = rebalances["group"].combine_chunks().dictionary_encode()
    group = np.asarray(groups.indices, np.int64)
    time = rebalances["time_ms"].to_numpy().astype(np.float64)
    evicted = pc.fill_null(pc.equal(rebalances["cause_kind"], "expiry"), False).to_numpy()
    near = evicted.copy()
    for distance in (-1, *range(1, _AHEAD + 1)):
        of = np.flatnonzero(evicted)
        of = of[(of + distance >= 0) & (of + distance < len(near))]
        of = of[group[of] == group[of + distance]]
        if distance > 0:
            of = of[time[of + distance] - time[of] <= MAX_TIMEOUTS * session_ms]
        near[of + distance] = True
    return pa.array(near)


def _members_by_identity(
    members: pa.Table, broker_session_ms: int
) -> dict[tuple[str, int, int], tuple[Counter[str], int]]:
    """Count the members of each rebalance by identity, and find their longest session timeout.

    The result is a dict by (group, incarnation, generation). An identity is an instance id, or a
    client id with a host. ``broker_session_ms`` is the timeout of members that send none.
    """
    from pyarrow import compute as pc

    client = pc.binary_join_element_wise(
        pc.fill_null(members["client_id"], ""), pc.fill_null(members["client_host"], ""), "@"
    )
    some = members.append_column("identity", pc.coalesce(members["instance"], client))
    some = some.sort_by([(name, "ascending") for name in _REBALANCE])
    # Members of the consumer protocol send no timeout: the table has -1.
    sent = pc.fill_null(some["session_timeout_ms"], 0)
    session = pc.if_else(pc.greater(sent, 0), sent, broker_session_ms).to_numpy()
    places = list(zip(*(some[name].to_pylist() for name in _REBALANCE), strict=True))
    begins = [i for i, place in enumerate(places) if not i or places[i - 1] != place]
    longest = np.maximum.reduceat(session, begins).tolist() if begins else []
    names = some["identity"].to_pylist()
    return {
        places[begin]: (Counter(names[begin:end]), max(0, most))
        for begin, end, most in zip(begins, [*begins[1:], len(names)], longest, strict=True)
    }
