"""`partage groups`: who owns what in a running cluster, and what another strategy would do."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.compare import shown_comparison
from partage.cli.console import interactive, name, out, short_name, show, tell, write_json
from partage.cli.options import (
    AsJson,
    ClusterOptions,
    GroupPatterns,
    strategy_option,
    with_options,
)
from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    from partage.api.decisions import Comparison
    from partage.capture.connection import ClusterConnection
    from partage.capture.groups import LiveGroup, LiveMember
    from partage.judge import Measures
    from partage.model import Cluster
    from partage.watch.lag import EndOffsets, GroupLag

__all__ = ["changes", "groups"]

Partition = tuple[str, int]
#: Types of groups in which partitions are not what is shared: no plan to compare.
_OF_THEIR_OWN = {"share", "streams"}
#: Strategies whose members send more than claims in their user data.
_KEPT_USER_DATA = {"failover", "faust"}
#: With more groups than this each is one line, unless --group names some.
_MOST_SHOWN_WHOLE = 5


@dataclass(frozen=True)
class _Look:
    """Measurement of one consumer group: lag, load, and a comparison of strategies.

    Attributes:
        lag: lag in records by partition, if both offsets are known.
        rate: arriving records per second by partition.
        now: the judge's figures of the current assignment; None for a group without members.
        compared: figures of other strategies' plans; None if not requested.
        behind: sum and age of the lag; None if no end offset is known.
        drain_seconds: time until the group has caught up, infinite if the lag does not shrink;
            None if unknown.
    """

    group: LiveGroup
    lag: Mapping[Partition, int]
    rate: Mapping[Partition, float]
    now: Measures | None = None
    compared: Comparison | None = None
    behind: GroupLag | None = None
    drain_seconds: float | None = None


def _no_samples() -> EndOffsets:
    from partage.watch.lag import EndOffsets

    return EndOffsets()


@dataclass(slots=True)
class _EarlierLooks:
    """Offsets of earlier measurements, from which rates and the age of a lag are computed.

    Attributes:
        at_s: time of the last measurement; 0 before the first one.
        ends: end offsets of the last measurement.
        lags: lag of each group at the last measurement.
        samples: end offsets of all measurements.
    """

    at_s: float = 0.0
    ends: Mapping[Partition, int] = field(default_factory=dict)
    lags: Mapping[str, GroupLag | None] = field(default_factory=dict)
    samples: EndOffsets = field(default_factory=_no_samples)

    def add(self, groups: Iterable[LiveGroup], ends: Mapping[Partition, int]) -> None:
        from partage.watch.lag import group_lag

        self.at_s, self.ends = time.monotonic(), ends
        self.samples.add(self.at_s, ends)
        self.lags = {one.id: group_lag(one.committed, self.samples, self.at_s) for one in groups}

    compared: Comparison | None = None


@with_options
def groups(
    *,
    cluster: ClusterOptions,
    group: GroupPatterns = None,
    strategy: Annotated[
        list[str] | None, strategy_option("Compare with this one; repeatable.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare with every strategy.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look repeatedly.")] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", help="Between two looks.")
    ] = 2.0,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show the owners of each partition, their lag, and what each strategy would do.

        partage groups --bootstrap-server broker:9092

        partage groups -b broker:9092 --group billing --watch

    **lag**: records between the committed offset and the end of the partition, with the age of the
    oldest and the time until they are consumed, at the rates between two looks. **load**: records
    a second that arrive, measured between two looks. **optimum**: the most even plan
    possible, and the fewest moves to it, proven. The plans of other strategies are shown below a
    group that could be more even, and with `--compare` or `-s`; `*` marks the best figure of a
    column.

    Share groups are not compared: several members share a partition, and no offsets are committed.
    Streams groups are not compared: they share tasks, and a member owns what its active tasks read.
    `--json` prints one line for each measurement.

    Nothing is changed, no group is joined; the account needs DESCRIBE on groups and topics.
    """
    from partage.capture.connection import ClusterConnection, client_errors, reason
    from partage.capture.groups import expect_visible_groups

    if not 0.1 <= every <= 3_600:
        raise InvalidConfigError("--every", "must be between 0.1 and 3600 seconds", every)
    from partage.groups import registry

    for one in strategy or ():
        registry.load(one)  # a name that is wrong is said before a cluster is asked
    with ClusterConnection(cluster.brokers(), cluster.connection()) as connection:
        earlier = _EarlierLooks()
        last: list[_Look] | None = None
        while True:
            try:
                looks = _looked(
                    connection, group, strategy, earlier, every, all_of_them=compare or as_json
                )
            except client_errors() as e:
                if not watch:
                    raise
                # A broker restarts, a coordinator moves: the next look may see it.
                tell(f"groups: {reason(e)}", "yellow")
                time.sleep(every)
                continue
            if not looks and not watch:
                expect_visible_groups(connection)
                if group:
                    raise _no_such(connection, group)
            if as_json:
                write_json({"ts_ms": time.time_ns() // 1_000_000,
                            "groups": [_plain(one) for one in looks]})  # fmt: skip
            else:
                if watch:
                    _stamped(looks, last)
                _shown(looks, whole=bool(group) or len(looks) <= _MOST_SHOWN_WHOLE)
            if not watch:
                return
            last = looks
            time.sleep(every)


def _stamped(looks: list[_Look], last: list[_Look] | None) -> None:
    if interactive():
        out().clear()
    show(name(time.strftime("%H:%M:%S"), "dim"))
    for said in changes([one.group for one in last], [one.group for one in looks]) if last else ():
        show(name(f"  {said}", "cyan"))


def _no_such(connection: ClusterConnection, patterns: list[str]) -> InvalidConfigError:
    # The error lists existing groups.
    from partage.capture.groups import live_groups

    there = [one.id for one in live_groups(connection)[0]]
    names = ", ".join(there[:10]) + (" ..." if len(there) > 10 else "")
    what = f"fits none of the {len(there)} groups: {names}" if there else "fits none: there is none"
    return InvalidConfigError("--group", what, ", ".join(patterns))


def _looked(
    connection: ClusterConnection,
    patterns: list[str] | None,
    strategies: list[str] | None,
    earlier: _EarlierLooks,
    every: float,
    *,
    all_of_them: bool,
) -> list[_Look]:
    """Measure all groups now.

    Rates need two measurements: without an earlier one, this function makes both.
    """
    from partage.capture.groups import live_groups
    from partage.capture.metadata_image import state_of
    from partage.model import Cluster

    if not earlier.at_s:
        first, ends, _ = live_groups(connection, patterns)
        earlier.add(first, ends)
        time.sleep(min(every, 2.0))
    found, ends, metadata = live_groups(connection, patterns)
    before_s, known, lags = earlier.at_s, earlier.ends, earlier.lags
    earlier.add(found, ends)
    since = max(earlier.at_s - before_s, 1e-3)
    rate = {p: max(0, end - known[p]) / since for p, end in ends.items() if p in known}
    state = state_of(metadata, ts_ms=0, controller=None)
    cluster = Cluster.from_metadata(state["topics"], state["brokers"])
    asked = bool(all_of_them or strategies)
    looks = [_judged(one, ends, rate, cluster, strategies, asked=asked) for one in found]
    return [_with_age(look, lags, earlier.lags, since) for look in looks]


def _with_age(
    look: _Look,
    before: Mapping[str, GroupLag | None],
    now: Mapping[str, GroupLag | None],
    elapsed_s: float,
) -> _Look:
    from partage.watch.lag import drain_seconds

    behind, earlier = now.get(look.group.id), before.get(look.group.id)
    if behind is None or earlier is None:
        return replace(look, behind=behind)
    return replace(look, behind=behind, drain_seconds=drain_seconds(earlier, behind, elapsed_s))


def _judged(
    group: LiveGroup, ends: Mapping[Partition, int], rate: Mapping[Partition, float],
    cluster: Cluster, strategies: list[str] | None, *, asked: bool,
) -> _Look:  # fmt: skip
    from partage.api import decisions
    from partage.api.measures import measure
    from partage.model import Assignment, Group, Member

    lag = {p: max(0, ends[p] - at) for p, at in group.committed.items() if p in ends}
    # A subscription by a pattern, or one that cannot be read, names no topics: those that it has.
    topics = {m.id: m.topics or tuple(sorted({t for t, _ in m.owned})) for m in group.members}
    # While a classic group rebalances nobody tells what it subscribes to: no plan can be judged.
    if group.type in _OF_THEIR_OWN or not group.strategy or not any(topics.values()):
        return _Look(group, lag, rate)
    # The coordinator's ownership counts for every strategy alike: claims in user data are older.
    # User data that hold more than claims (priorities, Faust's URLs) are kept for their sender.
    keep = group.strategy in _KEPT_USER_DATA
    members = Group([
        Member(m.id, topics[m.id], rack=m.rack, instance_id=m.instance_id, owned=list(m.owned),
               generation=1, user_data=m.user_data if keep else None)
        for m in group.members
    ])  # fmt: skip
    owned = {m.id: list(m.owned) for m in group.members}
    plan = Assignment.of(cluster.index, owned)
    now = measure(plan, members, cluster)
    if not asked and now.spread == now.best_spread:
        return _Look(group, lag, rate, now)
    compared = decisions.compare(members, cluster, strategies=strategies, sender=group.strategy)
    return _Look(group, lag, rate, now, compared)


def _sums(look: _Look, member: LiveMember) -> tuple[int | None, float]:
    """Return a member's lag in records and its load in records per second.

    The lag is None if none of its partitions has a committed offset.
    """
    lags = [look.lag[p] for p in member.owned if p in look.lag]
    return (sum(lags) if lags else None), sum(look.rate.get(p, 0.0) for p in member.owned)


def _plain(look: _Look) -> dict[str, Any]:
    group = look.group
    members = []
    for m in group.members:
        lag, load = _sums(look, m)
        members.append({
            "member": m.id, "client_id": m.client_id, "host": m.host,
            "instance_id": m.instance_id, "rack": m.rack, "topics": list(m.topics),
            "lag": lag, "records_per_second": round(load, 1),
            "owned": [
                {"topic": t, "partition": p, "lag": look.lag.get((t, p))} for t, p in m.owned
            ],
        })  # fmt: skip
    return {
        "group": group.id, "type": group.type, "state": group.state, "strategy": group.strategy,
        "coordinator": group.coordinator,
        "lag": None if group.type == "share" else sum(look.lag.values()),
        "lag_seconds": None if look.behind is None or look.behind.seconds is None
        else round(look.behind.seconds, 1),
        "drain_seconds": look.drain_seconds if _is_finite(look.drain_seconds) else None,
        "trouble": group.trouble or None, "members": members,
        "now": look.now.to_dict() if look.now else None,
        "strategies": [
            {"strategy": row.strategy, "refused": row.refused, "valid": row.valid,
             "measures": row.measures.to_dict() if row.measures else None}
            for row in look.compared or ()
        ],
    }  # fmt: skip


def _shown(looks: list[_Look], *, whole: bool) -> None:
    if not looks:
        show(name("no group of consumers", "yellow"))
    for number, look in enumerate(looks):
        if whole and number:
            show(name(""))
        _head(look)
        if whole:
            _whole(look)
    if not whole:
        show(name("one of them in full: --group NAME", "dim"))


def _head(look: _Look) -> None:
    group = look.group
    count = len(group.members)
    strategy = [] if group.type == "streams" else [group.strategy or "no strategy"]
    said = [group.state or "?", group.type, *strategy, f"coordinator {group.coordinator}",
            f"{count} member{'s' if count != 1 else ''}"]  # fmt: skip
    if group.type != "share":
        said.append(f"lag {_waiting(look)}")
    line = name(short_name(group.id), "bold")
    line.append_text(name(f"  {', '.join(said)}"))
    show(line)
    if group.trouble:
        show(name(f"  {group.trouble}", "yellow"))


def _waiting(look: _Look) -> str:
    """Format a group's lag: that of owned partitions, and that of partitions without an owner."""
    owned = {p for m in look.group.members for p in m.owned}
    mine = sum(lag for p, lag in look.lag.items() if p in owned)
    others = sum(look.lag.values()) - mine
    age = _age(look)
    if not owned:
        return f"{others:,}{age}"
    return f"{mine:,}{age}" + (
        f" (and {others:,} in partitions that nobody owns)" if others else ""
    )


def _is_finite(seconds: float | None) -> bool:
    return seconds is not None and isfinite(seconds)


def _age(look: _Look) -> str:
    """Format the age of a lag and the time until it is consumed, in brackets.

    >>> from partage.capture.groups import LiveGroup
    >>> from partage.watch.lag import GroupLag
    >>> group = LiveGroup("g", "classic", "Stable", "range", 1)
    >>> _age(_Look(group, {}, {}, behind=GroupLag(5, 30.0, 0, 5), drain_seconds=float("inf")))
    ' (30 s old, does not shrink)'
    """
    lag = look.behind
    if lag is None or not lag.records or lag.seconds is None:
        return ""
    drain = look.drain_seconds
    ends = "" if drain is None else ", does not shrink"
    if drain is not None and isfinite(drain):
        ends = f", gone in {drain:,.0f} s"
    return f" ({lag.seconds:,.0f} s old{ends})"


def _whole(look: _Look) -> None:
    from rich.table import Table

    if not look.group.members:
        return
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    for title, side in (("member", "left"), ("host", "left"), ("rack", "left"),
                        ("partitions", "right"), ("lag", "right"), ("load/s", "right"),
                        ("owns", "left")):  # fmt: skip
        table.add_column(title, justify=side, overflow="fold")  # type: ignore[arg-type]  # a literal
    for m in sorted(look.group.members, key=lambda m: (m.client_id, m.id)):
        lag, load = _sums(look, m)
        table.add_row(
            name(short_name(m.instance_id or m.client_id or m.id)), name(m.host.lstrip("/")),
            name(short_name(m.rack or "-")), str(len(m.owned)), "-" if lag is None else f"{lag:,}",
            f"{load:,.1f}",
            name(_listed(m.owned)),
        )  # fmt: skip
    show(table)
    if look.now is not None:
        show(name(_distance(look.now)))
    if look.compared is not None:
        shown_comparison(look.compared)


def _listed(owned: tuple[Partition, ...]) -> str:
    """Format partitions by topic, with ranges of numbers.

    >>> _listed((("t", 0), ("t", 1), ("t", 2), ("u", 4)))
    't 0-2; u 4'
    """
    numbers: dict[str, list[int]] = {}
    for topic, p in owned:
        numbers.setdefault(topic, []).append(p)
    return "; ".join(f"{topic} {_runs(sorted(ps))}" for topic, ps in sorted(numbers.items())) or "-"


def _runs(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for p in numbers:
        if runs and p == runs[-1][1] + 1:
            runs[-1][1] = p
        else:
            runs.append([p, p])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _distance(now: Measures) -> str:
    text = f"now: spread {now.spread}, {now.idle} idle, {now.rack_mismatches} rack mismatches"
    if now.best_spread is None:
        return f"{text}; optimum not computed: {now.refused or 'nothing to share'}"
    if now.spread == now.best_spread:
        return f"{text}; as even as can be"
    moves = now.fewest_moves_to_best
    return f"{text}; optimum: spread {now.best_spread}, {moves} moves away (proven)"


def changes(before: Iterable[LiveGroup], now: Iterable[LiveGroup]) -> list[str]:
    """Return a sentence for each changed group: members that joined or left, and the number of
    partitions that moved.

    >>> changes([], [])
    []
    """
    was = {one.id: one for one in before}
    said = [_change(was.get(one.id), one) for one in now]
    gone = was.keys() - {one.id for one in now}
    return [one for one in said if one] + [f"{one}: no longer there" for one in sorted(gone)]


def _change(before: LiveGroup | None, now: LiveGroup) -> str:
    if before is None:
        return f"{now.id}: new"
    old, new = ({m.id: m for m in one.members} for one in (before, now))
    parts = [f"{_name(new[one])} came" for one in sorted(new.keys() - old.keys())]
    parts += [f"{_name(old[one])} left" for one in sorted(old.keys() - new.keys())]
    had, has = _owners(before), _owners(now)
    moved = sum(1 for one, owner in has.items() if one in had and had[one] != owner)
    lost = sum(1 for one in had if one not in has)
    parts += [f"{moved} partitions moved"] * bool(moved) + [f"{lost} without owner"] * bool(lost)
    if before.state != now.state:
        parts.append(f"{before.state} -> {now.state}")
    return f"{now.id}: {', '.join(parts)}" if parts else ""


def _name(member: LiveMember) -> str:
    return member.instance_id or member.client_id or member.id


def _owners(group: LiveGroup) -> Mapping[Partition, str]:
    return {one: m.id for m in group.members for one in m.owned}
