"""Advice: a table of rules over the groups of a run, in one order of precedence.

A rule looks at one group and returns what the record shows, why that costs, which lines to change,
and what the change would have saved. A group gets at most one advice that changes its protocol,
its strategy or its static membership: the best settings (`effects.best_policy`), else the first
rule with evidence, else to leave the strategy. docs/report.md states the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from partage.report.effects import (
    OWN,
    best_policy,
    effect_of,
    error_of,
    family,
    followable,
    weight,
)
from partage.report.run import FigureRange, GroupFigures, Run
from partage.report.settings import STATIC_LINE, base_policy, parted, spelt
from partage.report.words import (
    cause_words,
    count,
    duration,
    percent,
    plural,
    stopped_words,
)

__all__ = [
    "RULES", "Advice", "Merged", "advice_for", "best_policy", "coverage_advice", "merged", "todo",
]  # fmt: skip

#: Kafka's default of session.timeout.ms since 3.0 (KIP-735), and of KIP-848's groups.
_DEFAULT_SESSION_MS = 45_000
_COOPERATIVE = "cooperative/cooperative-sticky"


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
    saves: FigureRange | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    """The same change for several groups; those that it helps most come first."""

    advice: Advice
    groups: tuple[tuple[GroupFigures, Advice], ...]
    saves: FigureRange | None


def _caused(group: GroupFigures, kind: str) -> int:
    return sum(c.rebalances for c in group.causes if c.kind == kind)


#: Rule -> the change in a few words, and how it works.
_SETTINGS = {
    "consumer-protocol": (
        "Move to the consumer protocol (KIP-848)",
        "the broker decides, and only what moves stops. Needs Apache Kafka 4.0 brokers, and "
        "clients that have group.protocol",
    ),
    "cooperative": (
        "Rebalance cooperatively (KIP-429)",
        "members keep reading what stays with them, and stop only what moves",
    ),
    "strategy": ("Choose another assignment strategy", "fewer partitions stop"),
    "static-members": (
        "Give members a group.instance.id",
        "partitions wait for a member that is back within its session timeout",
    ),
}


def _rule_of(group: GroupFigures, policy: str) -> str:
    """Return the rule whose change makes a policy true."""
    protocol, strategy, _ = parted(policy)
    if f"{protocol}/{strategy}" == base_policy(group.strategy):
        return "static-members"
    if protocol == "consumer":
        return "consumer-protocol" if group.traits.protocol == "classic" else "strategy"
    return "cooperative" if protocol == "cooperative" else "strategy"


def _settings(rule: str, group: GroupFigures) -> Advice | None:
    """Return the group's best settings, if this rule makes them true."""
    best = best_policy(group)
    if best is None or _rule_of(group, best.policy) != rule:
        return None
    title, how = _SETTINGS[rule]
    own, lines = group.figures[OWN], followable(group, best.policy)
    whole = own.stopped.high if own.stopped else best.saved.high
    most = percent(min(best.saved.high, whole), whole)
    why = (
        f"Under {best.policy} these rebalances cost up to {most} less in the simulation than under "
        f"the present settings: {how}. {_error_words(group)}"
    )
    return Advice(rule, title, why, lines, policy=best.policy, saves=best.saved)


def _error_words(group: GroupFigures) -> str:
    """Return how far the simulation of the present settings is from the record."""
    error = error_of(group) or 0.0
    if not error:
        return "The simulation of the present settings gives what the record has."
    apart = stopped_words(FigureRange(error, error))
    return f"The simulation of the present settings is up to {apart} from the record."


def _static(group: GroupFigures) -> Advice | None:
    """Members that restart within their session timeout: static membership (KIP-345).

    Share groups have none, the coordinator of streams groups (KIP-1071) refuses it, and Connect's
    workers have a setting of their own.
    """
    best = _settings("static-members", group)
    if best is not None:
        return best
    bounces = _caused(group, "bounce")
    has_static = group.replayed and group.traits.protocol in {"classic", "consumer"}
    if not bounces or not has_static or group.traits.dynamic_members == 0 or best_policy(group):
        return None
    static = f"{base_policy(group.strategy)}+static" if group.strategy else ""
    if static in group.figures:  # simulated, and none of the settings that surely help
        return None
    session = group.traits.session_ms
    within = f" within {duration(session)}" if session else ""
    why = (
        f"{plural(bounces, 'rebalance')} because a member left and was back{within}. With a "
        "group.instance.id its partitions wait for it, without a rebalance. The effect was not "
        "simulated."
    )
    own = "# each member its own, the same again after a restart"
    lines = spelt((own, STATIC_LINE), family(group))
    return Advice("static-members", _SETTINGS["static-members"][0], why, lines)


def _by_evidence(group: GroupFigures, figure: str, wanted: str) -> bool:
    """Return whether a group with the strategy ``wanted`` may go to cooperative-sticky.

    Its clients can, no other settings are better, and no more time is lost. The figure (idle
    members, avoidable moves) improves by more than the simulation's error in it.
    """
    if group.strategy != wanted or best_policy(group) or _static(group):
        return False
    if not followable(group, _COOPERATIVE):
        return False
    own, new = group.figures.get(OWN), group.figures.get(_COOPERATIVE)
    if own is None or new is None or not new.comparable:
        return new is None  # not simulated: the record alone is the evidence
    effect = effect_of(group, _COOPERATIVE)
    if effect is not None and weight(effect) < 0:
        return False
    apart = abs(getattr(group.recorded, figure) - getattr(own, figure))
    return bool(getattr(own, figure) - getattr(new, figure) > apart)


def _idle_range(group: GroupFigures) -> Advice | None:
    """Range assigns each topic by itself: with small topics the last members get nothing."""
    idle = group.recorded.idle
    if not idle or group.traits.copartitioned is not False:
        return None
    if group.partitions_max is not None and group.members_max > group.partitions_max:
        return None
    if not _by_evidence(group, "idle", "range"):
        return None
    why = (
        f"range left members without a partition {plural(idle, 'time')}, although there was work "
        "for them. Its merit, equal numbers of equal topics with one member, is of no use here: "
        "no two topics have as many partitions."
    )
    lines = followable(group, _COOPERATIVE)
    return Advice("idle-under-range", "Replace range: it leaves members idle", why, lines,
                  policy=_COOPERATIVE)  # fmt: skip


def _roundrobin(group: GroupFigures) -> Advice | None:
    """Roundrobin assigns all partitions anew each time: partitions move that need not."""
    recorded = group.recorded
    if not recorded.avoidable or not _by_evidence(group, "avoidable", "roundrobin"):
        return None
    why = (
        f"{count(recorded.avoidable)} of {plural(recorded.moved, 'move')} were avoidable: "
        "roundrobin assigns all partitions anew each time and ignores their owners."
    )
    lines = followable(group, _COOPERATIVE)
    return Advice("roundrobin-moves", "Replace roundrobin: it moves what could stay", why, lines,
                  policy=_COOPERATIVE)  # fmt: skip


def _sessions(group: GroupFigures) -> Advice | None:
    """Members that were evicted and soon back: they may have paused.

    A poll timeout is none of these: heartbeats go on meanwhile (KIP-62).
    """
    expired = _caused(group, "expiry")
    session = group.traits.session_ms
    back, silence = group.traits.returned, group.traits.longest_silence_ms
    if expired <= 0 or not session or not back or silence is None or silence <= session:
        return None
    if group.traits.protocol not in {"classic", "consumer"}:
        return None
    enough = (silence * 5 // 4_000 + 1) * 1_000  # a quarter more than the longest, in whole seconds
    longer = max(enough, _DEFAULT_SESSION_MS)
    default = duration(_DEFAULT_SESSION_MS)
    less = f"; {duration(enough)} would have been enough here" if enough < longer else ""
    why = (
        f"{plural(expired, 'rebalance')} because a member was silent for its session timeout "
        f"of {duration(session)} (Kafka's default is {default}{less}). "
        f"{plural(back, 'evicted member')} rejoined, after up to {duration(silence)} of silence. "
        "The log does not record whether they had paused or were restarted. A longer timeout keeps "
        "members that pause; it also delays the detection of dead members."
    )
    if group.traits.protocol == "classic":
        both = (f"session.timeout.ms={longer}", f"heartbeat.interval.ms={min(longer // 3, 3_000)}")
        classic = spelt(both, family(group))
        return Advice("session-timeout", "Make session timeouts longer than pauses", why, classic)
    lines = (f"{group.traits.protocol}.session.timeout.ms={longer}",)
    return Advice(
        "session-timeout", "Make session timeouts longer than pauses", why, lines, "group"
    )


def _late_polls(group: GroupFigures) -> Advice | None:
    """Members that did not poll for max.poll.interval.ms: the client itself leaves then."""
    late = group.traits.late_polls
    if not late or group.traits.protocol not in {"classic", "consumer"}:
        return None
    why = (
        f"{plural(late, 'member')} had no commits for longer than max.poll.interval.ms, left, and "
        "joined again: alive, but not polling. A session timeout changes nothing here, since "
        "heartbeats go on meanwhile. Take fewer records at a time, or allow more time between two "
        "polls."
    )
    longer = "max.poll.interval.ms=<longer than the slowest work between two polls>"
    fewer = "max.poll.records=<fewer than now; 500 if it was never set>"
    lines = {"java": (fewer, longer), "librdkafka": (longer,)}.get(family(group), ())
    return Advice("late-polls", "Poll in time", why, lines)


def _crowded(group: GroupFigures) -> Advice | None:
    """More members than partitions: some idle whatever the strategy."""
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


def _storms(group: GroupFigures) -> Advice | None:
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
    has_static = traits.protocol in {"classic", "consumer"} and traits.dynamic_members != 0
    why += "; static members restart unnoticed." if has_static else "."
    return Advice("storms", "Calm storms of rebalances", why)


def _as_it_is(group: GroupFigures) -> Advice | None:
    """Return that the strategy may stay, where no change of settings is advised."""
    lost, tried = group.lost, [f for f in group.figures.values() if f.saved is not None]
    if lost is None or lost.high <= 0 or not group.covered or len(tried) < _ENOUGH_TRIED:
        return None
    if group.traits.protocol not in {"classic", "consumer"} or error_of(group) is None:
        return None
    if best_policy(group) or _static(group) or _idle_range(group) or _roundrobin(group):
        return None
    most = next((c for c in group.causes if c.kind not in {"first", "unknown"}), None)
    why = (
        f"Of {plural(len(tried), 'simulated policy', 'simulated policies')} none that its clients "
        "have a setting for would surely have lost less than the present settings"
    )
    why += "." if most is None else f": time is lost because {cause_words(most.kind)}."
    return Advice(
        "as-it-is", "Leave the strategy as it is",
        f"{why} {_error_words(group)} Fewer restarts save time here.",
    )  # fmt: skip


#: Policies that must have been replayed to say that none is better.
_ENOUGH_TRIED = 3

Rule = Callable[[GroupFigures], Advice | None]

#: In order of precedence. The first six exclude each other, and `as-it-is` excludes them.
RULES: dict[str, Rule] = {
    "consumer-protocol": partial(_settings, "consumer-protocol"),
    "cooperative": partial(_settings, "cooperative"),
    "strategy": partial(_settings, "strategy"),
    "static-members": _static,
    "idle-under-range": _idle_range,
    "roundrobin-moves": _roundrobin,
    "session-timeout": _sessions,
    "late-polls": _late_polls,
    "storms": _storms,
    "too-many-members": _crowded,
    "as-it-is": _as_it_is,
}


def advice_for(group: GroupFigures) -> tuple[Advice, ...]:
    """Return the advice for a group, in order of precedence."""
    return tuple(a for rule in RULES.values() if (a := rule(group)) is not None)


def merged(groups: Iterable[GroupFigures]) -> tuple[Merged, ...]:
    """Return the advice of all groups by rule; what would have saved most comes first.

    The savings of one rule are part of the best settings' of all groups, never more.
    """
    by_rule: dict[str, list[tuple[GroupFigures, Advice]]] = {}
    for group in groups:
        for one in advice_for(group):
            by_rule.setdefault(one.rule, []).append((group, one))
    out = []
    for rule in RULES:
        mine = by_rule.get(rule)
        if not mine:
            continue
        mine.sort(key=lambda pair: -weight(pair[1].saves))
        known = [a.saves for _, a in mine if a.saves is not None]
        saves = sum(known[1:], known[0]) if known else None
        out.append(Merged(mine[0][1], tuple(mine), saves))
    return tuple(sorted(out, key=lambda m: -weight(m.saves)))


def todo(group: GroupFigures) -> str:
    """Return the first thing to do about a group, in a line."""
    best = best_policy(group)
    if best is not None:
        return f"{best.policy} would have saved {stopped_words(best.saved, short=True)}"
    some = advice_for(group)
    return some[0].title if some else ""


def coverage_advice(run: Run) -> Advice | None:
    """Return how to record from now on, where much of the history is not in the log."""
    if run.covered:
        return None
    why = (
        f"{count(run.known - run.in_log)} of {plural(run.known, 'known rebalance')} are not in the "
        "log. A compacted log keeps only a group's newest generation. Record while the groups "
        "run, or let the cleaner wait for a week and capture then (docs/capture.md)."
    )
    lines = (
        "partage capture --bootstrap-server <broker> --out capture --follow",
        "# or",
        "kafka-configs.sh --bootstrap-server <broker> --alter \\",
        "  --entity-type topics --entity-name __consumer_offsets \\",
        "  --add-config min.compaction.lag.ms=604800000",
    )
    return Advice("record", "Record more of the history from now on", why, lines, "command")
