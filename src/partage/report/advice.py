"""Advice in words: a table of rules, each of which speaks only where the record does.

A rule looks at one group and answers with what it saw, why that costs, which lines to change,
and what the change would have saved as far as the replay knows. Savings of different advice
for one group do not add up: they are about the same rebalances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from partage.report.run import Figures, Group, Range, Run
from partage.report.settings import STATIC_LINE, base_policy, family_of, lines_of, parted, spelt
from partage.report.words import (
    cause_words,
    count,
    duration,
    percent,
    plural,
    stopped_words,
)  # fmt: skip

__all__ = [
    "RULES", "Advice", "Merged", "advice_for", "best_policy", "coverage_advice", "merged", "todo",
]  # fmt: skip

#: Below this share of known generations in the log, figures are a glimpse: say how to record.
POOR_COVERAGE = 0.9
_EAGER = ("range", "roundrobin", "sticky")


@dataclass(frozen=True, slots=True)
class Advice:
    """One change to one group.

    Attributes:
        rule: name of the rule.
        title: the change, in a few words, the same for all groups.
        why: what the record shows, with figures.
        lines: of a configuration, to be copied.
        where: which configuration they belong to.
        policy: the policy that this makes true, if one was replayed.
        saves: partition-seconds that it would have saved; None where that is not known.
    """

    rule: str
    title: str
    why: str
    lines: tuple[str, ...] = ()
    where: str = "consumer"
    policy: str | None = None
    saves: Range | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    """The same change for several groups; those that it helps most come first."""

    advice: Advice
    groups: tuple[tuple[Group, Advice], ...]
    saves: Range | None


def _caused(group: Group, kind: str) -> int:
    return sum(c.rebalances for c in group.causes if c.kind == kind)


def _saved(group: Group, *policies: str) -> tuple[str | None, Range | None]:
    """The first of some policies that was replayed in full, and what it would have saved."""
    for name in policies:
        found = group.figures.get(name)
        if found is not None and found.comparable:
            return name, found.saved
    return None, None


def _bounces(group: Group) -> Advice | None:
    """Members that restart within their session timeout: static membership (KIP-345).

    Share groups have none, the coordinator of streams groups (KIP-1071) refuses it, and Connect's
    workers have a setting of their own.
    """
    bounces = _caused(group, "bounce")
    static_members = group.replayed and group.traits.protocol in {"classic", "consumer"}
    if not bounces or not static_members or group.traits.dynamic_members == 0:
        return None
    session = group.traits.session_ms
    within = f" within {duration(session)}" if session else ""
    static = f"{base_policy(group.strategy)}+static" if group.strategy else ""
    policy, saves = _saved(group, static)
    why = (
        f"{plural(bounces, 'rebalance')} because a member went away and was back{within}. "
        "With an instance id of its own its partitions wait for it, and nobody rebalances."
    )
    own = "# each member its own, the same again after a restart"
    lines = spelt((own, STATIC_LINE), _family(group))
    return Advice("static-members", "Give members a group.instance.id", why, lines,
                  policy=policy, saves=saves)  # fmt: skip


def _idle_range(group: Group) -> Advice | None:
    """Range cuts each topic by itself: with small topics the last members get nothing."""
    idle = group.recorded.idle
    if group.strategy != "range" or not idle or group.traits.copartitioned is not False:
        return None
    if group.partitions_max is not None and group.members_max > group.partitions_max:
        return None
    policy, saves = _saved(group, "cooperative/cooperative-sticky", "cooperative-sticky")
    why = (
        f"range left members without a partition {plural(idle, 'time')}, although there was work "
        "for them. Its one merit, equal numbers of equal topics with one member, is of no use "
        "here: no two topics have as many partitions."
    )
    return Advice("idle-under-range", "Replace range: it leaves members idle", why,
                  _lines(group, "cooperative/cooperative-sticky"),
                  policy=policy, saves=saves)  # fmt: skip


def _roundrobin(group: Group) -> Advice | None:
    """Roundrobin deals anew each time: partitions move that need not."""
    recorded = group.recorded
    if group.strategy != "roundrobin" or not recorded.avoidable:
        return None
    policy, saves = _saved(group, "cooperative/cooperative-sticky", "cooperative-sticky")
    why = (
        f"{count(recorded.avoidable)} of {plural(recorded.moved, 'move')} were avoidable: "
        "roundrobin deals all partitions anew each time, and forgets who had them."
    )
    return Advice("roundrobin-moves", "Replace roundrobin: it moves what could stay", why,
                  _lines(group, "cooperative/cooperative-sticky"),
                  policy=policy, saves=saves)  # fmt: skip


def _sessions(group: Group) -> Advice | None:
    """Members put out and soon back: they may have been slow.

    A late poll is none of these: heartbeats go on meanwhile (KIP-62).
    """
    expired = _caused(group, "expiry")
    session = group.traits.session_ms
    back, silence = group.traits.returned, group.traits.longest_silence_ms
    if expired <= 0 or not session or not back or silence is None or silence <= session:
        return None
    if group.traits.protocol not in {"classic", "consumer"}:
        return None
    longer = (silence * 5 // 4_000 + 1) * 1_000  # a quarter more than the longest, in whole seconds
    why = (
        f"{plural(expired, 'rebalance')} because a member was silent for its session timeout "
        f"of {duration(session)}; {plural(back, 'member')} put out so came back, after up to "
        f"{duration(silence)} of silence. Whether they had paused, or were started again, no "
        "record says. A longer timeout keeps members that only pause; one that is dead is missed "
        "as much later."
    )
    if group.traits.protocol == "classic":
        both = (f"session.timeout.ms={longer}", f"heartbeat.interval.ms={longer // 3}")
        classic = spelt(both, _family(group))
        return Advice("session-timeout", "Make session timeouts longer than pauses", why, classic)
    lines = (f"{group.traits.protocol}.session.timeout.ms={longer}",)
    return Advice(
        "session-timeout", "Make session timeouts longer than pauses", why, lines, "group"
    )


def _late_polls(group: Group) -> Advice | None:
    """Members that did not poll for max.poll.interval.ms: the client itself leaves then."""
    late = group.traits.late_polls
    if not late or group.traits.protocol not in {"classic", "consumer"}:
        return None
    why = (
        f"{plural(late, 'member')} had no commits for longer than max.poll.interval.ms, and left: "
        "alive perhaps, but not polling. A session timeout changes nothing here, since heartbeats "
        "go on meanwhile. Take fewer records at a time, or allow more time between two polls."
    )
    longer = "max.poll.interval.ms=<longer than the slowest work between two polls>"
    fewer = "max.poll.records=<fewer than now; 500 if it was never set>"
    lines = {"java": (fewer, longer), "librdkafka": (longer,)}.get(_family(group), ())
    return Advice("late-polls", "Poll in time", why, lines)


def _crowded(group: Group) -> Advice | None:
    """More members than partitions: somebody idles whatever the strategy."""
    crowded, settled = group.traits.crowded, group.traits.settled
    # Once in a while there is a successor beside its predecessor that is dead already.
    if 2 * crowded <= settled or "share" in group.kind:
        return None
    why = (
        f"After {crowded} of {plural(settled, 'rebalance')} there were more members than "
        f"partitions (members {group.members_max} at most, partitions {group.partitions_max}): "
        "some had nothing to do, and each of them still makes the group rebalance. Run fewer "
        "members, or give the topic more partitions (keys then go to other partitions)."
    )
    return Advice("too-many-members", "Run no more members than partitions", why)


def _storms(group: Group) -> Advice | None:
    """Rebalances that follow each other faster than the group can settle."""
    traits = group.traits
    if not traits.storms:
        return None
    trigger = traits.triggers[0][0] if traits.triggers else "unknown"
    why = (
        f"{plural(traits.storms, 'storm')} with {plural(traits.stormy, 'rebalance')} in all, begun "
        f"mostly because {cause_words(trigger)}. "
    )
    if trigger == "first" and traits.protocol == "classic":
        why += "Let the first members be waited for: one rebalance instead of one a member."
        lines: tuple[str, ...] = ("group.initial.rebalance.delay.ms=10000",)
        return Advice("storms", "Calm storms of rebalances", why, lines, "broker")
    why += "Roll one member at a time, and let each settle"
    has_static = traits.protocol in {"classic", "consumer"}
    why += "; static members restart unnoticed." if has_static else "."
    return Advice("storms", "Calm storms of rebalances", why)


def _consumer(group: Group) -> Advice | None:
    """The coordinator moves members one by one (KIP-848): nobody waits for the slowest."""
    if group.traits.protocol != "classic":
        return None
    return _switch(
        group, "consumer-protocol", "Move to the consumer protocol (KIP-848)",
        ("consumer/uniform", "consumer/range", "server:uniform"),
        "the broker decides, and only what moves stops. Needs Apache Kafka 4.0 brokers",
    )  # fmt: skip


def _cooperative(group: Group) -> Advice | None:
    """Eager members stop everything at each rebalance (KIP-429)."""
    if group.strategy not in _EAGER or group.traits.protocol != "classic":
        return None
    return _switch(
        group, "cooperative", "Rebalance cooperatively (KIP-429)",
        ("cooperative/cooperative-sticky", "cooperative-sticky"),
        "members keep reading what stays with them, and stop only what moves",
    )  # fmt: skip


def _switch(
    group: Group, rule: str, title: str, policies: tuple[str, ...], how: str
) -> Advice | None:
    """Another policy, where the replay knows that it would have saved time."""
    if _family(group) == "python" and parted(policies[0])[0] == "consumer":
        return None  # these clients do not have the protocol
    name, saves = _saved(group, *policies)
    if name is None or saves is None or saves.low < 0 or saves.high <= 0:
        return None
    stopped = group.recorded.stopped
    most = percent(min(saves.high, stopped.high), stopped.high) if stopped else "-"
    why = f"Replayed under {name}, these rebalances would have cost up to {most} less: {how}."
    found = group.figures[name]
    if found.idle > group.recorded.idle:
        more = found.idle - group.recorded.idle
        why += f" Members would have been idle {plural(more, 'time')} more."
    return Advice(rule, title, why, _lines(group, name), policy=name, saves=saves)


def _family(group: Group) -> str:
    """Whose settings its members have: java, librdkafka, python; "" where they differ."""
    return family_of(group.clients)


def _lines(group: Group, policy: str) -> tuple[str, ...]:
    """The lines that make a policy true for the clients that the group has."""
    return lines_of(policy, group.strategy, family=_family(group)) or ()


def _as_it_is(group: Group) -> Advice | None:
    """Where no setting that was replayed would have lost less, that is worth to know."""
    lost, tried = group.lost, [f for f in group.figures.values() if f.saved is not None]
    if lost is None or lost.high <= 0 or len(tried) < _ENOUGH_TRIED or best_policy(group):
        return None
    if group.traits.protocol not in {"classic", "consumer"}:
        return None
    most = next((c for c in group.causes if c.kind not in {"first", "unknown"}), None)
    why = f"Of {plural(len(tried), 'policy', 'policies')} replayed none would surely have lost less"
    why += "." if most is None else f": time is lost because {cause_words(most.kind)}."
    return Advice(
        "as-it-is", "Leave the strategy as it is", why + " Fewer restarts save time here."
    )


#: Policies that must have been replayed to say that none is better.
_ENOUGH_TRIED = 3

Rule = Callable[[Group], Advice | None]

#: In the order in which advice of equal weight is told.
RULES: dict[str, Rule] = {
    "static-members": _bounces,
    "consumer-protocol": _consumer,
    "cooperative": _cooperative,
    "idle-under-range": _idle_range,
    "roundrobin-moves": _roundrobin,
    "session-timeout": _sessions,
    "late-polls": _late_polls,
    "storms": _storms,
    "too-many-members": _crowded,
    "as-it-is": _as_it_is,
}


def advice_for(group: Group) -> tuple[Advice, ...]:
    """What the record of a group advises; what would have saved most comes first."""
    found = [a for rule in RULES.values() if (a := rule(group)) is not None]
    # What the replay shows to have cost more, surely or by most of its range, is no advice.
    some = [a for a in found if a.saves is None or _weight(a.saves) > 0]
    return tuple(sorted(some, key=lambda a: -_weight(a.saves)))


def _weight(saves: Range | None) -> float:
    return saves.low + saves.high if saves else 0.0


def merged(groups: Iterable[Group]) -> tuple[Merged, ...]:
    """The advice of all groups, by rule; what would have saved most comes first."""
    by_rule: dict[str, list[tuple[Group, Advice]]] = {}
    for group in groups:
        for one in advice_for(group):
            by_rule.setdefault(one.rule, []).append((group, one))
    out = []
    for rule in RULES:
        mine = by_rule.get(rule)
        if not mine:
            continue
        mine.sort(key=lambda pair: -_weight(pair[1].saves))
        known = [a.saves for _, a in mine if a.saves is not None]
        saves = sum(known[1:], known[0]) if known else None
        out.append(Merged(mine[0][1], tuple(mine), saves))
    return tuple(sorted(out, key=lambda m: -_weight(m.saves)))


def best_policy(group: Group) -> Figures | None:
    """The policy by settings that would have saved most; None where none surely helps.

    It must have answered every rebalance, broken no rule, left no more members idle, and
    have saved something at both bounds: one that refuses the hard cases is cheap too. Groups
    whose coordinator decides do not go back to the classic protocol.
    """
    if group.traits.protocol not in {"classic", "consumer"}:
        return None
    fit = [
        f
        for name, f in group.figures.items()
        if f.comparable
        and f.saved is not None
        and f.saved.low >= 0
        and f.saved.high > 0
        and f.idle <= group.recorded.idle
        and lines_of(name, group.strategy, family=_family(group))
        and (group.traits.protocol == "classic" or parted(name)[0] == "consumer")
    ]
    return min(fit, key=lambda f: (-_weight(f.saved), len(f.policy), f.policy), default=None)


def todo(group: Group) -> str:
    """What to do about a group first, in a line."""
    best = best_policy(group)
    if best is not None and best.saved is not None:
        return f"{best.policy} would have saved {stopped_words(best.saved, short=True)}"
    some = advice_for(group)
    return some[0].title if some else ""


def coverage_advice(run: Run) -> Advice | None:
    """Where much of the history is gone: how to record from now on."""
    cover = run.summary.get("coverage", {})
    missing = cover.get("missing_before", 0) + cover.get("missing_within", 0)
    known = cover.get("rebalances", 0) + missing
    if not known or cover.get("rebalances", 0) >= POOR_COVERAGE * known:
        return None
    why = (
        f"{count(missing)} of {plural(known, 'known rebalance')} are no longer in the log: it is "
        "compacted, and keeps a group's newest generation only. Let the cleaner wait for a week, "
        "then take the capture (docs/capture.md): the report will know the whole week."
    )
    lines = (
        "kafka-configs.sh --bootstrap-server <broker> --alter \\",
        "  --entity-type topics --entity-name __consumer_offsets \\",
        "  --add-config min.compaction.lag.ms=604800000",
    )
    return Advice("record", "Record more of the history from now on", why, lines, "command")
