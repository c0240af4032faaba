"""What advice asks about groups, from the tables: causes, timeouts, pauses, storms, topics."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from partage.report.columns import flag, loaded
from partage.report.run import CauseShare, Traits
from partage.report.silences import silences_by_group
from partage.tables.statuses import RECORDED

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.runs.published_run import PublishedRun

__all__ = ["causes_by_group", "traits_by_group"]

_PLACE = ("group", "log_partition", "log_offset")
_REBALANCE = ["group", "incarnation", "generation"]


def causes_by_group(rebalances: pa.Table, replays: pa.Table) -> dict[str, tuple[CauseShare, ...]]:
    """Shares by the cause that counts; those that stopped most come first.

    What the second step of a rebalance cost is the first one's: the cause of that has its time.
    """
    from pyarrow import compute as pc

    rebalances = rebalances.sort_by([(name, "ascending") for name in _PLACE])
    kind = pc.fill_null(rebalances["cause_kind"], "unknown")
    source = flag(pc.equal(rebalances["cause_source"], "recorded"))
    table = rebalances.select(_REBALANCE).append_column("kind", kind)
    table = table.append_column("recorded", source)
    table = table.append_column("origin", _origins(rebalances["group"], kind))
    table = table.join(_costs(replays), _REBALANCE, join_type="left outer")
    # What was taken over when a group was migrated has the number of the one before: its costs
    # are that one's, and counted there.
    taken = pc.equal(table["kind"], "migration")
    for name in ("low", "high"):
        none = pc.if_else(taken, None, table[name])
        table = table.set_column(table.schema.get_field_index(name), name, none)
    table = table.append_column("timed", flag(pc.is_valid(table["high"])))
    counts = table.group_by(["group", "kind"]).aggregate([("kind", "count"), ("recorded", "sum")])
    times = table.group_by(["group", "origin"]).aggregate(
        [("timed", "sum"), ("low", "sum"), ("high", "sum")]
    )
    found: dict[str, dict[str, CauseShare]] = {}
    for row in counts.to_pylist():
        one = CauseShare(row["kind"], row["kind_count"], row["recorded_sum"])
        found.setdefault(row["group"], {})[row["kind"]] = one
    for row in times.to_pylist():
        mine, kind = found[row["group"]], row["origin"]
        mine[kind] = replace(
            mine[kind], timed=row["timed_sum"] or 0, low=row["low_sum"] or 0.0,
            high=row["high_sum"] or 0.0,
        )  # fmt: skip
    return {
        group: tuple(sorted(shares.values(), key=lambda c: (-c.high, -c.rebalances, c.kind)))
        for group, shares in found.items()
    }


def _origins(groups: pa.ChunkedArray, kinds: pa.ChunkedArray) -> pa.Array:
    """The cause of each rebalance in order, of a second step that of its first."""
    import pyarrow as pa

    out: list[str] = []
    before, origin = None, "follow-up"
    for group, kind in zip(groups.to_pylist(), kinds.to_pylist(), strict=True):
        if kind != "follow-up":
            origin = kind
        elif group != before:
            origin = "follow-up"
        before = group
        out.append(origin)
    return pa.array(out, pa.string())


def _costs(replays: pa.Table) -> pa.Table:
    """Partition-seconds stopped in each rebalance as recorded: one row a rebalance."""
    from pyarrow import compute as pc

    name = pc.coalesce(replays["policy"], replays["strategy"])
    recorded = replays.filter(pc.fill_null(pc.equal(name, RECORDED), False))
    sums = recorded.group_by(_REBALANCE).aggregate(
        [("stopped_low_ps", "sum"), ("stopped_high_ps", "sum")]
    )
    columns = [*_REBALANCE, "stopped_low_ps_sum", "stopped_high_ps_sum"]
    return sums.select(columns).rename_columns([*_REBALANCE, "low", "high"])


def traits_by_group(folder: PublishedRun, rebalances: pa.Table) -> dict[str, Traits]:
    """Of every group that has rebalances."""
    newest = _newest(rebalances, "protocol")
    members = loaded(folder, "members")
    sessions = _most(members, "session_timeout_ms")
    broker = folder.summary.get("session_timeout_ms") or 0
    late = _late_polls(folder)
    crowded = _crowded(rebalances)
    dynamic = _dynamic(members)
    silences = silences_by_group(members, rebalances, broker)
    agreement = _agreement(rebalances)
    together = _copartitioned(loaded(folder, "ownership", ["group", "topic", "partition"]))
    stormy = _storms(rebalances)
    known = rebalances["storm"].null_count < rebalances.num_rows
    return {
        group: Traits(
            protocol=newest[group] or "classic",
            session_ms=max(sessions.get(group) or 0, 0)
            or (broker if newest[group] == "consumer" else 0)
            or None,
            returned=len(silences.get(group, ())),
            longest_silence_ms=max(silences.get(group, ()), default=None),
            judged=agreement.get(group, (0, 0))[0],
            agreed=agreement.get(group, (0, 0))[1],
            dynamic_members=dynamic.get(group),
            copartitioned=together.get(group),
            storms=len(stormy.get(group, {})) if known else None,
            stormy=sum(n for n, _ in stormy.get(group, {}).values()),
            triggers=tuple(Counter(t for _, t in stormy.get(group, {}).values()).most_common()),
            late_polls=late.get(group, 0),
            crowded=crowded.get(group, (0, 0))[0],
            settled=crowded.get(group, (0, 0))[1],
        )
        for group in newest
    }


def _most(table: pa.Table, column: str) -> dict[str, int | None]:
    found = table.group_by("group").aggregate([(column, "max")])
    return {row["group"]: row[f"{column}_max"] for row in found.to_pylist()}


def _late_polls(folder: PublishedRun) -> dict[str, int]:
    """Return how many members missed max.poll.interval.ms for certain, by group.

    Long silence alone is no evidence: a member that was killed, or left while its topics were
    idle, is silent too. One that polls late is alive, and joins again under another member id.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    events = folder.table("events", ["group", "event", "member", "detail"])
    if "member" not in events.column_names or "detail" not in events.column_names:
        return {}
    kinds = pa.array(["poll", "join", "bounce"])
    rows = events.filter(pc.is_in(events["event"], kinds)).to_pylist()
    back = {
        (row["group"], row["detail"].removeprefix("was ").partition(",")[0])
        for row in rows
        if row["event"] != "poll" and (row["detail"] or "").startswith("was ")
    }
    late = [r["group"] for r in rows if r["event"] == "poll" and (r["group"], r["member"]) in back]
    return dict(Counter(late))


def _crowded(rebalances: pa.Table) -> dict[str, tuple[int, int]]:
    """Rebalances with more members than partitions given, and all that have members."""
    from pyarrow import compute as pc

    there = pc.and_(
        pc.greater(rebalances["members"], 0),
        pc.invert(pc.fill_null(pc.equal(rebalances["cause_kind"], "follow-up"), False)),
    )
    table = rebalances.filter(there)
    more = pc.and_(
        pc.greater(table["partitions"], 0), pc.greater(table["members"], table["partitions"])
    )
    sums = table.select(["group"]).append_column("more", flag(more))
    found = sums.group_by("group").aggregate([("more", "sum"), ("more", "count")])
    return {row["group"]: (row["more_sum"], row["more_count"]) for row in found.to_pylist()}


def _newest(rebalances: pa.Table, column: str) -> dict[str, Any]:
    """The value that the last rebalance of each group has, in the log's order."""
    order = [("group", "ascending"), ("log_partition", "ascending"), ("log_offset", "ascending")]
    table = rebalances.select(["group", "log_partition", "log_offset", column]).sort_by(order)
    return dict(zip(table["group"].to_pylist(), table[column].to_pylist(), strict=True))


def _agreement(rebalances: pa.Table) -> dict[str, tuple[int, int]]:
    """Plans that were judged, and those that are as recorded."""
    from pyarrow import compute as pc

    table = rebalances.select(["group"])
    table = table.append_column("judged", flag(pc.is_valid(rebalances["agrees"])))
    table = table.append_column("agreed", flag(rebalances["agrees"]))
    found = table.group_by("group").aggregate([("judged", "sum"), ("agreed", "sum")])
    return {row["group"]: (row["judged_sum"], row["agreed_sum"]) for row in found.to_pylist()}


def _dynamic(members: pa.Table) -> dict[str, int]:
    """Most members without an instance id in one rebalance."""
    from pyarrow import compute as pc

    found = members.select(_REBALANCE).append_column("n", flag(pc.is_null(members["instance"])))
    each = found.group_by(_REBALANCE).aggregate([("n", "sum")])
    most = each.group_by("group").aggregate([("n_sum", "max")])
    return {row["group"]: row["n_sum_max"] for row in most.to_pylist()}


def _copartitioned(ownership: pa.Table) -> dict[str, bool]:
    """Whether two topics of a group have as many partitions, by the highest number owned."""
    sizes = ownership.group_by(["group", "topic"]).aggregate([("partition", "max")])
    found: dict[str, Counter[int]] = {}
    for row in sizes.to_pylist():
        found.setdefault(row["group"], Counter())[row["partition_max"]] += 1
    return {group: max(counts.values()) > 1 for group, counts in found.items()}


def _storms(rebalances: pa.Table) -> dict[str, dict[int, tuple[int, str]]]:
    """Group -> storm -> how many rebalances, and the cause of the first."""
    from pyarrow import compute as pc

    table = rebalances.filter(pc.is_valid(rebalances["storm"]))
    order = [("log_partition", "ascending"), ("log_offset", "ascending")]
    found: dict[str, dict[int, tuple[int, str]]] = {}
    for row in table.sort_by(order).select(["group", "storm", "cause_kind"]).to_pylist():
        mine = found.setdefault(row["group"], {})
        count, trigger = mine.get(row["storm"], (0, row["cause_kind"] or "unknown"))
        mine[row["storm"]] = (count + 1, trigger)
    return found
