"""Rules that advise changes to the groups of a run, in one order of precedence.

A rule takes one group and returns the evidence in the log, the settings to change, and the downtime
that the change would have saved. A group gets at most one advice that changes its protocol, its
strategy or its static membership: the best settings (`best_policy`), otherwise the first rule with
evidence, otherwise to keep the strategy. docs/advice.md lists the rules.

The effect of a policy is its expected gain against `own` (the group simulated with its present
settings), from `partage.report.gains`. Its interval contains the simulation's error. The effect
counts only if the interval excludes zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from partage.report.client_settings import (
    STATIC_LINE,
    base_policy,
    client_family,
    lines_for_libraries,
    parse_policy,
    poll_lines,
    settings_lines,
)
from partage.report.gains import gain_of, own_metrics, simulation_error, sum_gains
from partage.report.messages import (
    cause_clause,
    count,
    downtime_size,
    duration,
    format_range,
    percent,
    plural,
)
from partage.report.run import Estimate, FigureRange, GroupFigures, RunFigures, once_per_group
from partage.tables.metrics import OWN

__all__ = [
    "KEEP_TITLE", "LEAST_SHARE", "RULES", "Advice", "MergedAdvice", "Settings", "advice_for",
    "best_policy", "coverage_advice", "merge_advice", "simulation_error", "total_savings",
]  # fmt: skip

#: Default of session.timeout.ms since Kafka 3.0 (KIP-735), also for groups of KIP-848; in ms.
_DEFAULT_SESSION_MS = 45_000
_COOPERATIVE = "cooperative/cooperative-sticky"
#: Kafka's own strategies; a group with another one has a reason that the log does not show.
_KNOWN = frozenset({
    "range", "roundrobin", "sticky", "cooperative-sticky", "server:uniform", "server:range",
})  # fmt: skip
#: A smaller share of the downtime is not worth a change.
LEAST_SHARE = 0.01
#: A smaller error of the simulation (partition-seconds) is shown as none.
_SMALLEST_ERROR = 0.05
#: Policies whose effects differ by less than this share count as equally good.
_ALIKE = 0.05
#: Causes of a storm that a slower deployment can avoid: members that start and stop.
_ROLLOUT_CAUSES = frozenset({"first", "bounce", "leave", "departure", "join"})
#: A smaller share of a group's rebalances in storms is no reason for advice.
_LEAST_STORM_SHARE = 0.25
#: Protocols by the size of the change; settings of members come before them.
_CHANGES = {"eager": 1, "cooperative": 2, "consumer": 3}


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommended change to one consumer group, with its evidence in the log and its expected
    gain.

    Attributes:
        rule: name of the rule that recommends the change.
        title: the change in a few words, equal for all groups.
        why: the evidence in the log, with numbers.
        lines: configuration lines to copy.
        where: kind of configuration that the lines belong to, such as "consumer".
        policy: the policy (protocol, strategy and options) that the group then has, if it was
            simulated.
        saves: downtime in partition-seconds that it would have saved; None if it was not simulated.
        affects: kind of cause whose rebalances it avoids; empty if there is no single one.
        avoids: number of these rebalances that it could avoid.
        costs: downtime that the change would have added, in partition-seconds.
    """

    rule: str
    title: str
    why: str
    lines: tuple[str, ...] = ()
    where: str = "consumer"
    policy: str | None = None
    saves: Estimate | None = None
    affects: str = ""
    avoids: int = 0
    costs: float = 0.0


@dataclass(frozen=True, slots=True)
class MergedAdvice:
    """One recommended change with all consumer groups to which it applies, and their total saving.

    The report's JSON document lists each change once, with its groups.

    Attributes:
        advice: the advice for the group with the largest saving.
        groups: pairs of a group and its advice, largest saving first.
        saves: downtime that all these groups together would save.
    """

    advice: Advice
    groups: tuple[tuple[GroupFigures, Advice], ...]
    saves: Estimate | None


@dataclass(frozen=True, slots=True)
class Settings:
    """Client settings (protocol, strategy, options) that would save a consumer group downtime.

    A simulation of the group with these settings shows the saving.

    Attributes:
        policy: name of the settings, such as ``consumer/uniform``.
        saved: saved downtime in partition-seconds; downtime is the time in which partitions have no
            consumer.
    """

    policy: str
    saved: Estimate


def _count_caused(group: GroupFigures, kind: str) -> int:
    return sum(c.rebalances for c in group.causes if c.kind == kind)


#: Rule -> title of the change, and how it works.
_SETTINGS = {
    "consumer-protocol": (
        "Move to the consumer protocol (KIP-848)",
        "the broker assigns, and only partitions that move stop. It needs Kafka 4.0 brokers and "
        "clients with group.protocol",
    ),
    "cooperative": (
        "Rebalance cooperatively (KIP-429)",
        "members keep consuming their partitions, except those that move",
    ),
    "strategy": ("Choose another assignment strategy", "fewer partitions stop"),
    "static-members": (
        "Give members a group.instance.id",
        "a member that rejoins within its session timeout keeps its partitions",
    ),
}


def _rule_of(group: GroupFigures, policy: str) -> str:
    """Return the name of the advice rule that recommends changing a group to a policy.

    A policy is a protocol with a strategy and options, such as ``consumer/uniform+static``. For
    example, the result is ``static-members`` if only static membership differs from the present
    settings.
    """
    # The rule follows from what differs from the group's present settings: static membership, the
    # protocol or the strategy.
    protocol, strategy, _ = parse_policy(policy)
    if f"{protocol}/{strategy}" == base_policy(group.last_strategy):
        return "static-members"
    if protocol == "consumer":
        return "consumer-protocol" if group.traits.protocol == "classic" else "strategy"
    return "cooperative" if protocol == "cooperative" else "strategy"


def _advise_best_settings(rule: str, group: GroupFigures) -> Advice | None:
    """Recommend the client settings that would save a consumer group most downtime.

    Several advice rules use this function, one for each kind of change, such as a change of the
    protocol; ``rule`` is the calling rule's name. The result is None if the group has no better
    settings, or if another rule covers this change.
    """
    best = best_policy(group)
    if best is None or _rule_of(group, best.policy) != rule:
        return None
    title, how = _SETTINGS[rule]
    lines = _settings_lines(group, best.policy)
    whole = downtime_size(group) or 0.0
    less = percent(min(best.saved.best, whole), whole)
    why = (
        f"In the simulation {best.policy} has {less} less downtime than the present "
        f"settings: {how}. {_simulation_error_sentence(group)}"
    )
    return Advice(rule, title, why, lines, policy=best.policy, saves=best.saved)


def _simulation_error_sentence(group: GroupFigures) -> str:
    """Return a sentence for the report on how exact the simulation of a consumer group is.

    It states the difference between the simulated downtime, with the group's present settings, and
    the recorded downtime.
    """
    error = simulation_error(group) or 0.0
    if error < _SMALLEST_ERROR:
        return "The simulation of the present settings equals the record."
    whole = downtime_size(group)
    size = (
        f"{percent(min(error, whole), whole)} of the downtime"
        if whole
        else format_range(FigureRange(error, error))
    )
    return f"The simulation of the present settings differs from the record by up to {size}."


def _advise_static_members(group: GroupFigures) -> Advice | None:
    """Recommend static membership (KIP-345) to a group whose members leave and soon rejoin.

    Static members keep their partitions during a restart. The result is None if static membership
    does not apply, for example because all members are static already.
    """
    # Three kinds of groups get no such advice: share groups have no static members, the coordinator
    # of streams groups (KIP-1071) rejects them, and Kafka Connect has another setting.
    best = _advise_best_settings("static-members", group)
    if best is not None:
        return best
    bounces = _count_caused(group, "bounce")
    has_static = group.was_replayed and group.traits.protocol in {"classic", "consumer"}
    if not bounces or not has_static or group.traits.dynamic_members == 0 or best_policy(group):
        return None
    static = f"{base_policy(group.last_strategy)}+static" if group.last_strategy else ""
    if static in group.figures:  # simulated without a certain gain, or `best` would have it
        return None
    if _static_always_costs(group):
        return None
    session = group.traits.session_ms
    within = f" within {duration(session)}" if session else ""
    why = (
        f"{plural(bounces, 'rebalance')} because a member left and rejoined{within}. With a "
        "group.instance.id it keeps its partitions, without a rebalance. The effect was not "
        "simulated."
    )
    own = "# a different name for each member, the same after a restart"
    lines = lines_for_libraries((own, STATIC_LINE), group.clients)
    title = _SETTINGS["static-members"][0]
    return Advice("static-members", title, why, lines, affects="bounce", avoids=bounces)


def _static_always_costs(group: GroupFigures) -> bool:
    """Return whether static membership costs downtime under every policy simulated with it.

    The partitions of a static member that dies wait for its session timeout. The result is False if
    no policy was simulated with and without static members.
    """
    pairs = [
        (figures.saved, group.figures[name.removesuffix("+static")].saved)
        for name, figures in group.figures.items()
        if name.endswith("+static") and name.removesuffix("+static") in group.figures
    ]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    return bool(known) and all(a.low + a.high < b.low + b.high for a, b in known)


def _certainly_improves(group: GroupFigures, metric: str, strategy: str) -> bool:
    """Return whether the strategy cooperative-sticky would certainly improve a metric of a group.

    The improvement must be larger than the error of the simulation, and downtime may not grow.

    Args:
        group: the consumer group.
        metric: name of the metric, such as ``idle`` (number of times that a member was idle).
        strategy: strategy that the group must have now; for any other one the result is False.
    """
    # The clients must support cooperative-sticky, and no other settings may be better.
    if group.last_strategy != strategy or best_policy(group) or _advise_static_members(group):
        return False
    if not _settings_lines(group, _COOPERATIVE):
        return False
    own, new = group.figures.get(OWN), group.figures.get(_COOPERATIVE)
    if own is None or new is None or not new.is_comparable:
        return new is None  # not simulated: the record alone is the evidence
    effect = gain_of(group, _COOPERATIVE)
    if effect is not None and effect.best < 0:
        return False
    apart = abs(getattr(group.recorded_figures, metric) - getattr(own, metric))
    return bool(getattr(own, metric) - getattr(new, metric) > apart)


def _advise_against_range(group: GroupFigures) -> Advice | None:
    """Recommend another strategy to a group in which the strategy ``range`` leaves members idle.

    The range strategy assigns each topic independently, so that the first members get more
    partitions than the last ones. The result is None if the group needs no such change.
    """
    idle = group.recorded_figures.idle
    if not idle or group.traits.copartitioned is not False:
        return None
    if group.partitions_max is not None and group.members_max > group.partitions_max:
        return None
    if not _certainly_improves(group, "idle", "range"):
        return None
    why = (
        f"range left members without a partition {plural(idle, 'time')} although they could own "
        "some. The strategy range keeps partitions with the same number of several topics "
        "together on one member. This group does not need that: no two of its topics have equal "
        "partition counts."
    )
    lines = _settings_lines(group, _COOPERATIVE)
    return Advice("idle-under-range", "Replace range: it leaves members idle", why, lines,
                  policy=_COOPERATIVE)  # fmt: skip


def _advise_against_roundrobin(group: GroupFigures) -> Advice | None:
    """Recommend another strategy to a group in which ``roundrobin`` moves partitions without need.

    The result is None if the group has another strategy, or if no partition moved without need.
    """
    recorded = group.recorded_figures
    if not recorded.avoidable or not _certainly_improves(group, "avoidable", "roundrobin"):
        return None
    why = (
        f"{count(recorded.avoidable)} of {plural(recorded.moved, 'move')} were avoidable: "
        "roundrobin assigns all partitions anew in each rebalance and ignores their owners."
    )
    lines = _settings_lines(group, _COOPERATIVE)
    return Advice("roundrobin-moves", "Replace roundrobin: it moves too much", why, lines,
                  policy=_COOPERATIVE)  # fmt: skip


def _advise_session_timeout(group: GroupFigures) -> Advice | None:
    """Recommend a longer session timeout if members of a group were evicted although they were
    alive.

    A member counts as alive if it rejoined after its eviction. The recommended timeout is at least
    a quarter longer than the longest time without a heartbeat after which a member rejoined.
    """
    # These members had only paused. The partitions of a member that pauses stay unread with any
    # timeout; the gain is the rebalance in which it rejoins. Poll timeouts do not count, because
    # heartbeats continue meanwhile (KIP-62).
    expired = _count_caused(group, "expiry")
    session = group.traits.session_ms
    returned, silence = group.traits.returned, group.traits.longest_silence_ms
    if expired <= 0 or not session or not returned or silence is None or silence <= session:
        return None
    if group.traits.protocol not in {"classic", "consumer"}:
        return None
    enough = (silence * 5 // 4_000 + 1) * 1_000  # a quarter more than the longest, in whole seconds
    # The partitions of a dead member stay unread until the longer timeout.
    dead = max(expired - returned, 0)
    longer = enough if dead else max(enough, _DEFAULT_SESSION_MS)
    owned = (group.partitions_max or 0) / max(group.members_max or 0, 1)
    costs = dead * owned * (longer - session) / 1_000
    default = duration(_DEFAULT_SESSION_MS)
    less = f"; {duration(enough)} would have sufficed here" if enough < longer else ""
    why = (
        f"{plural(expired, 'rebalance')} because a member was evicted by its session timeout "
        f"of {duration(session)} (Kafka's default is {default}{less}). "
        f"{plural(returned, 'evicted member')} rejoined, after up to "
        f"{duration(silence)} without heartbeat. "
        "The log does not record whether they had paused or were restarted. A longer timeout keeps "
        "members that pause: their partitions stay unread meanwhile, but no other member stops "
        "when they rejoin. It also delays the detection of dead members."
    )
    if dead:
        why += f" {plural(dead, 'evicted member')} did not rejoin, so no more is advised."
    best = best_policy(group)
    moves = best is not None and _rule_of(group, best.policy) == "consumer-protocol"
    if group.traits.protocol == "classic" and not moves:
        both = (f"session.timeout.ms={longer}", f"heartbeat.interval.ms={min(longer // 3, 3_000)}")
        classic = lines_for_libraries(both, group.clients)
        return Advice(
            "session-timeout", "Make session timeouts longer than pauses", why, classic,
            affects="join", avoids=min(returned, expired), costs=costs,
        )  # fmt: skip
    # Members of the consumer protocol have no session.timeout.ms: the client rejects it.
    lines: tuple[str, ...] = (f"consumer.session.timeout.ms={longer}",)
    if group.traits.protocol == "classic":
        why += (
            " The consumer protocol is recommended too: there this is a setting of the group on "
            "the brokers (kafka-configs.sh --entity-type groups)."
        )
        lines = ("# after the move to group.protocol=consumer", *lines)
    return Advice(
        "session-timeout", "Make session timeouts longer than pauses", why, lines, "group",
        affects="join", avoids=min(returned, expired), costs=costs,
    )  # fmt: skip


def _advise_frequent_polls(group: GroupFigures) -> Advice | None:
    """Recommend more frequent polls to a group whose members exceeded ``max.poll.interval.ms``.

    Only members that rejoined afterwards count, because they were alive. The result is None if
    there were none.
    """
    traits = group.traits
    late, longest, poll = traits.late_polls, traits.longest_poll_ms, traits.poll_ms
    if not late or traits.protocol not in {"classic", "consumer"}:
        return None
    why = (
        f"{plural(late, 'member')} had no commits for longer than max.poll.interval.ms"
        f"{f' ({duration(poll)})' if poll else ''}, left, and rejoined"
        f"{f' after up to {duration(longest)} without a poll' if longest else ''}: alive, but not "
        "polling. A longer session timeout does not help, because heartbeats continue meanwhile. "
    )
    lines = poll_lines(group.clients, poll, longest) if poll and longest else ()
    has_records = any("records=" in line.replace("_", ".") for line in lines)
    title = "Poll more often" if has_records or not lines else "Allow more time between polls"
    if has_records:
        why += "Fetch fewer records per poll, or allow more time between two polls: one is enough."
    else:
        why += "Do less work between two polls, or allow more time between them."
    return Advice("late-polls", title, why, lines, affects="poll", avoids=late)


def _advise_fewer_members(group: GroupFigures) -> Advice | None:
    """Recommend fewer members to a consumer group that usually has more members than partitions.

    The result is None unless this is so after more than half of its rebalances.
    """
    crowded, settled = group.traits.crowded, group.traits.settled
    # A replacement may briefly coexist with its dead predecessor.
    if 2 * crowded <= settled or "share" in group.kind:
        return None
    why = (
        f"After {crowded} of {plural(settled, 'rebalance')} there were more members than "
        f"partitions (members {group.members_max} at most, partitions {group.partitions_max}): "
        "some were idle, and each of them still causes rebalances. Run fewer members, or add "
        "partitions to the topic (keys then map to other partitions)."
    )
    return Advice("too-many-members", "Run no more members than partitions", why)


def _advise_slow_rollouts(group: GroupFigures) -> Advice | None:
    """Recommend slower rollouts to a group whose deployments cause rebalance storms.

    A rebalance storm is a series of rebalances in quick succession. The result is None if less than
    a quarter of the group's rebalances are in storms, or if members that start or stop are not the
    most frequent trigger.
    """
    traits = group.traits
    if not traits.storms or traits.stormy < _LEAST_STORM_SHARE * group.rebalances:
        return None
    trigger = traits.triggers[0][0] if traits.triggers else "unknown"
    if trigger not in _ROLLOUT_CAUSES:
        return None
    begin = f"mostly triggered because {cause_clause(trigger)}"
    if trigger == "first":
        begin = "mostly when the group started, because its members joined one after the other"
    why = (
        f"{plural(traits.storms, 'rebalance storm')} with {plural(traits.stormy, 'rebalance')} in "
        f"all, {begin}. "
    )
    if trigger == "first" and traits.protocol == "classic":
        why += "Let the coordinator wait for the first members: one rebalance for all of them."
        lines: tuple[str, ...] = ("group.initial.rebalance.delay.ms=10000",)
        return Advice("storms", "Let the first members join together", why, lines, "broker")
    why += "Restart one member at a time, and wait for each rebalance"
    has_static = traits.protocol in {"classic", "consumer"} and traits.dynamic_members != 0
    why += "; static members restart without a rebalance." if has_static else "."
    return Advice("storms", "Restart one member at a time", why)


class _Cure(NamedTuple):
    """Recommended action against a cause of rebalances that client settings cannot remove.

    ``title`` names the action, and ``sentences`` explain it. For example, if members stop often,
    the user should find out why.
    """

    title: str
    sentences: str


#: Title of the advice to keep the strategy if the main cause suggests nothing else.
KEEP_TITLE = "Keep the assignment strategy"
_KEEP = _Cure(KEEP_TITLE, "Avoid rebalances instead.")
# `_advise_session_timeout` has a rule for members that rejoin, `_advise_frequent_polls` one for
# members that exceeded their poll timeout.
_STOPS = _Cure(
    "Find out why members stop",
    "A longer session timeout helps only members that pause and rejoin; the partitions of "
    "dead members would stay unread longer. Look for crashes, kills and long pauses of the "
    "clients at the times of these rebalances.",
)
_STARTS = _Cure(
    "Start and stop members less often",
    "Each start and each stop of a member is a rebalance. Deploy less often, and let an autoscaler "
    "wait longer before it changes their number.",
)
_TOPICS = _Cure(
    "Change topics less often",
    "Each new topic, each added partition and each new subscription is a rebalance. Make several "
    "such changes together.",
)
#: Kind of a group's main cause -> what to do about it.
_CURES: dict[str, _Cure] = {
    "expiry": _STOPS, "departure": _STOPS,
    "join": _STARTS, "leave": _STARTS, "bounce": _STARTS,
    "topics": _TOPICS, "resubscription": _TOPICS,
    "poll": _Cure(
        "Find out why members poll late",
        "Process fewer records per poll, or move long work out of the poll loop.",
    ),
    "request": _Cure(
        "Find out which client requests rebalances",
        "Look for calls of enforceRebalance (Java), and for clients that rejoin on new metadata.",
    ),
}  # fmt: skip


def _advise_to_keep_strategy(group: GroupFigures) -> Advice | None:
    """Recommend to keep a group's strategy if no simulated alternative is clearly better.

    The advice also names an action against the main cause of the group's rebalances. The result is
    None if too few alternatives were simulated, or if another rule recommends a change.
    """
    lost, tried = group.downtime_bounds, [f for f in group.figures.values() if f.saved is not None]
    if (
        lost is None
        or lost.high <= 0
        or not group.has_reliable_downtime
        or len(tried) < _ENOUGH_TRIED
    ):
        return None
    if group.traits.protocol not in {"classic", "consumer"} or simulation_error(group) is None:
        return None
    others = (_advise_static_members, _advise_against_range, _advise_against_roundrobin)
    if best_policy(group) or any(advise(group) for advise in others):
        return None
    most = next((c for c in group.causes if c.kind not in {"first", "unknown"}), None)
    why = (
        "No measurable difference: "
        f"{plural(len(tried), 'policy was', 'policies were')} simulated, and none that the group's "
        "clients support saves more than the error of the simulation."
    )
    why += "" if most is None else f" Main cause: {cause_clause(most.kind)}."
    cure = _CURES.get("" if most is None else most.kind, _KEEP)
    return Advice(
        "as-it-is", cure.title,
        f"{why} {_simulation_error_sentence(group)} {cure.sentences}",
    )  # fmt: skip


#: Policies that must have been simulated for the statement that none is better.
_ENOUGH_TRIED = 3

Rule = Callable[[GroupFigures], Advice | None]

#: In order of precedence. The first six exclude each other, and `as-it-is` excludes them.
RULES: dict[str, Rule] = {
    "consumer-protocol": partial(_advise_best_settings, "consumer-protocol"),
    "cooperative": partial(_advise_best_settings, "cooperative"),
    "strategy": partial(_advise_best_settings, "strategy"),
    "static-members": _advise_static_members,
    "idle-under-range": _advise_against_range,
    "roundrobin-moves": _advise_against_roundrobin,
    "session-timeout": _advise_session_timeout,
    "late-polls": _advise_frequent_polls,
    "storms": _advise_slow_rollouts,
    "too-many-members": _advise_fewer_members,
    "as-it-is": _advise_to_keep_strategy,
}


@once_per_group
def advice_for(group: GroupFigures) -> tuple[Advice, ...]:
    """Return all recommended changes to a consumer group, in the order of the advice rules.

    The result is empty if no rule applies. It is computed once per group and then cached.
    """
    return tuple(a for rule in RULES.values() if (a := rule(group)) is not None)


def merge_advice(groups: Iterable[GroupFigures]) -> tuple[MergedAdvice, ...]:
    """Merge equal recommendations of several consumer groups into one entry for each advice rule.

    The rule with the largest total saving is first.
    """
    by_rule: dict[str, list[tuple[GroupFigures, Advice]]] = {}
    for group in groups:
        for one in advice_for(group):
            by_rule.setdefault(one.rule, []).append((group, one))
    out = []
    for rule in RULES:
        pairs = by_rule.get(rule)
        if not pairs:
            continue
        pairs.sort(key=lambda pair: -_best_estimate(pair[1].saves))
        known = [a.saves for _, a in pairs if a.saves is not None]
        out.append(MergedAdvice(pairs[0][1], tuple(pairs), sum_gains(known)))
    return tuple(sorted(out, key=lambda m: -_best_estimate(m.saves)))


def coverage_advice(run: RunFigures) -> Advice | None:
    """Recommend how to record more of the log if a run lacks many of its groups' rebalances.

    Compaction has removed these rebalances from the log. The result is None if enough are left to
    estimate downtime.
    """
    if run.has_reliable_downtime:
        return None
    why = (
        f"{count(run.rebalance_count - run.in_log)} of "
        f"{plural(run.rebalance_count, 'known rebalance')} are not in the "
        "log. A compacted log keeps only a group's newest generation. Record while the groups "
        "run, or delay compaction by a week and capture then (docs/capture.md)."
    )
    lines = (
        "partage capture --bootstrap-server <broker> --out capture --follow",
        "# or",
        "kafka-configs.sh --bootstrap-server <broker> --alter \\",
        "  --entity-type topics --entity-name __consumer_offsets \\",
        "  --add-config min.compaction.lag.ms=604800000",
    )
    return Advice("record", "Record more of the history from now on", why, lines, "command")


def total_savings(run: RunFigures) -> tuple[Estimate | None, int]:
    """Return the downtime that all groups of a run would save with their best client settings.

    Downtime is the time in which partitions have no consumer, in partition-seconds. The second
    result is the number of groups with a saving. The first is None if there is no such group.
    """
    best = [found.saved for g in run.groups if (found := best_policy(g)) is not None]
    return sum_gains(best), len(best)


def _best_estimate(saved: Estimate | None) -> float:
    return saved.best if saved else 0.0


def _client_family(group: GroupFigures) -> str:
    """Return the kind of client library that a group's members use: java, librdkafka or python.

    The result is "" for mixed clients, which have no common settings, and for clients whose
    settings are unknown (Go, Rust, Node.js).
    """
    classic = group.traits.protocol == "classic"
    if classic and group.clients and set(group.clients) == {"unknown"}:
        return ""
    return client_family(group.clients)


def _settings_lines(group: GroupFigures, policy: str) -> tuple[str, ...]:
    """Return the configuration lines that change a group's clients to a policy.

    A policy is a protocol with a strategy, such as ``consumer/uniform``. The result is empty if no
    client properties can make this change, or if the group has the policy already.
    """
    # The result is () if there are no such lines: Python clients have no setting for the protocol,
    # different client libraries have no common settings, and the report recommends no return from
    # the consumer protocol to the classic one.
    if group.last_strategy not in _KNOWN or group.traits.protocol not in {"classic", "consumer"}:
        return ()
    protocol, strategy, options = parse_policy(policy)
    same = f"{protocol}/{strategy}" == base_policy(group.last_strategy)
    # Another session timeout alone is the subject of the rule session-timeout.
    if same and ("static" not in options or group.traits.dynamic_members == 0):
        return ()
    if group.traits.protocol == "consumer" and protocol != "consumer":
        return ()
    return settings_lines(policy, group.last_strategy, family=_client_family(group)) or ()


@once_per_group
def best_policy(group: GroupFigures) -> Settings | None:
    """Return the client settings that would save a group most downtime; None if none would.

    The settings must give a valid assignment in each rebalance and leave no more members idle. The
    interval of the saving must exclude zero. If several settings are about equally good, the
    smallest change is chosen.
    """
    error, own, lost = simulation_error(group), own_metrics(group), group.downtime_bounds
    if error is None or own is None or lost is None:
        return None
    whole = group.downtime_estimate.best if group.downtime_estimate else lost.high
    fit = [
        Settings(name, saved)
        for name, f in group.figures.items()
        if _settings_lines(group, name)
        and f.idle <= own.idle
        and (saved := gain_of(group, name)) is not None
        and saved.low > 0
        and saved.best > LEAST_SHARE * whole
    ]
    best = max((_best_estimate(one.saved) for one in fit), default=0.0)
    alike = [one for one in fit if _best_estimate(one.saved) >= best - max(error, _ALIKE * best)]
    return min(alike, key=lambda one: _size_of_change(group, one), default=None)


def _size_of_change(group: GroupFigures, settings: Settings) -> tuple[int, int, float, str]:
    """Return a sort key that orders client settings by the size of the change, smallest first.

    For example, adding static membership is a smaller change than another protocol.
    """
    # It compares, in this order: whether the protocol changes, the number of options (such as
    # static members), the saving, and the name.
    protocol, strategy, options = parse_policy(settings.policy)
    same = f"{protocol}/{strategy}" == base_policy(group.last_strategy)
    return (
        0 if same else _CHANGES.get(protocol, 9),
        len(options),
        -_best_estimate(settings.saved),
        settings.policy,
    )
