"""Recommendations: a group's advice in order, with gain, confidence, present settings and rollout.

The first recommendations are settings whose gain was simulated, the largest gain first. Changes
with evidence in the log follow, then what to do about the main cause where no setting helps, then
changes with a small gain. The log has
session and rebalance timeouts, strategies and instance ids of members. Other settings are shown as
"not in the log".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from shlex import quote
from typing import NamedTuple

from partage.report.advice import KEEP_TITLE, LEAST_SHARE, Advice, advice_for
from partage.report.client_settings import (
    client_family,
    library_blocks,
    parse_policy,
    translate_lines,
)
from partage.report.gains import simulation_error
from partage.report.messages import (
    TimeUnit,
    cause_label,
    count,
    downtime_size,
    format_estimate,
    percent,
    plural,
)
from partage.report.run import CauseShare, GroupFigures, RunFigures, once_per_group

__all__ = [
    "NOT_IN_LOG",
    "Recommendation",
    "RecommendedSetting",
    "combined_gain",
    "count_changed_groups",
    "present_settings",
    "recommendations_for",
    "sum_estimated_gains",
    "verification_lines",
    "with_command",
]  # fmt: skip

#: Evidence (rebalances or members) from which advice without a simulation has medium confidence.
_MUCH_EVIDENCE = 3
#: A simulated gain has medium confidence if its lower end is at least this share of the estimate.
#: No gain has high confidence: how often the intervals contain the true gain was never measured.
_SURE_SHARE = 1 / 3
#: Value of a setting that no record has.
NOT_IN_LOG = "not in the log"
_NONE = "no measurable difference"


class RecommendedSetting(NamedTuple):
    """A client setting in a recommendation: its name, present value and Kafka's default.

    The present value is taken from the log, which does not contain all settings.

    Attributes:
        name: name as the client library spells it.
        now: present value as text; "not in the log" if the log does not have it.
        default: default of Apache Kafka's Java client; empty if the library has another one.
        new: recommended value; empty if the recommendation has no value for this setting.
    """

    name: str
    now: str
    default: str
    new: str = ""

    @property
    def setting_text(self) -> str:
        """The setting as text, with its present value and Kafka's default.

        >>> RecommendedSetting("session.timeout.ms", "6000", "45000").setting_text
        'session.timeout.ms: 6000 (default 45000)'
        """
        if not self.default:
            return f"{self.name}: {self.now}"
        same = "default" if self.now == self.default else f"default {self.default}"
        return f"{self.name}: {self.now} ({same})"

    @property
    def change_text(self) -> str:
        """The setting as text, with an arrow to the recommended value if there is one.

        >>> RecommendedSetting("session.timeout.ms", "6000", "45000", "20000").change_text
        'session.timeout.ms: 6000 → 20000'
        """
        if not self.new or self.new == self.now:
            return self.setting_text
        return f"{self.name}: {self.now} → {self.new}"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A recommended change to one consumer group, with its expected gain, its risk and its rollout.

    It has what the reader needs to decide on an `Advice` and to deploy it.

    Attributes:
        advice: the change, its evidence and its configuration lines.
        gain_ps: expected gain in partition-seconds, to sort by; 0 if unknown.
        gain_note: what the gain consists of, or the text for a gain without a number.
        share_text: the gain as a share of the group's downtime, such as "5 % of its downtime";
            empty if the gain is unknown.
        confidence: medium or low; empty if no change is advised.
        now: present values of the settings that the change affects.
        risk, rollout: what can go wrong, and how to deploy it.
        verify: how to measure the effect afterwards.
        lines_label: what the configuration lines are, such as "consumer properties".
    """

    advice: Advice
    gain_ps: float
    gain_note: str
    share_text: str
    confidence: str
    now: tuple[RecommendedSetting, ...]
    risk: str
    rollout: str
    verify: str
    lines_label: str

    @property
    def blocks(self) -> list[tuple[str, tuple[str, ...]]]:
        """Configuration lines to copy with their label, for each client library of the group."""
        return [
            (_LABELS.get(family, family) if family else self.lines_label, lines)
            for family, lines in library_blocks(self.advice.lines)
            if lines
        ]

    @property
    def gain_text(self) -> str:
        """Expected gain as text, in the time unit that suits its size, such as ``2 p·h (1–3)``."""
        return self.gain_in(None)

    def gain_in(self, unit: TimeUnit | None) -> str:
        """Return the expected gain as text in a unit of time, such as partition-hours.

        All cells of a table column have the same unit. If ``unit`` is None, the unit suits the
        gain.
        """
        if self.advice.saves is not None:
            return format_estimate(self.advice.saves, short=True, unit=unit)
        if not self.gain_ps:
            return self.gain_note
        text = format_estimate(None, short=True, single=self.gain_ps, unit=unit)
        return f"about {text}: {self.gain_note}"


@once_per_group
def recommendations_for(group: GroupFigures) -> tuple[Recommendation, ...]:
    """Return the recommended changes for a group, the best first.

    If a broker's failure is the main cause of the group's rebalances, client settings hardly help:
    only settings whose gain was simulated are recommended.
    """
    found = [_recommendation(group, one) for one in advice_for(group)]
    found = [one for one in found if _is_measurable(group, one)]
    if group.main_cause is not None and group.main_cause.kind == "broker":
        found = [one for one in found if one.advice.saves is not None]
    return tuple(sorted(found, key=lambda one: _sort_key(group, one)))


def count_changed_groups(groups: Iterable[GroupFigures]) -> int:
    """Return the number of groups for which the report recommends a change.

    A recommendation to keep the present strategy does not count.
    """
    return sum(
        any(one.advice.rule != "as-it-is" for one in recommendations_for(group)) for group in groups
    )


def sum_estimated_gains(groups: Iterable[GroupFigures]) -> float:
    """Add up the expected gains of groups for which no recommended change was simulated.

    The result is in partition-seconds. Only the first recommendation of each group counts.
    """
    total = 0.0
    for group in groups:
        found = recommendations_for(group)
        if found and all(one.advice.saves is None for one in found):
            total += found[0].gain_ps
    return total


def _is_measurable(group: GroupFigures, recommendation: Recommendation) -> bool:
    """Return whether the gain of a recommended change is large enough to recommend it.

    A simulated gain always is, because its interval excludes zero. A gain that was estimated from
    the log must exceed the simulation's error and 1 % of the downtime. A change with unknown gain
    is recommended unless it has costs.
    """
    if recommendation.advice.saves is not None:
        return True
    if _mean_gain(group, recommendation.advice) is None:
        return not recommendation.advice.costs
    least = max(simulation_error(group) or 0.0, LEAST_SHARE * _recorded_downtime(group))
    return recommendation.gain_ps > least


def combined_gain(group: GroupFigures) -> float | None:
    """Return the downtime that a group saves if it adopts all of its recommended changes.

    The result is in partition-seconds; None if no gain is known. Relative savings multiply: each
    change saves its share of the downtime that the others leave.
    """
    whole, left = _recorded_downtime(group), 1.0
    for one in recommendations_for(group):
        left *= 1 - max(one.gain_ps, 0.0) / whole if whole else 1
    return whole * (1 - left) if left < 1 else None


def _recorded_downtime(group: GroupFigures) -> float:
    """Return the total time in which a group's partitions had no consumer, in partition-seconds.

    It is the best estimate, else the upper bound, else 0.
    """
    return downtime_size(group) or 0.0


def _sort_key(group: GroupFigures, recommendation: Recommendation) -> tuple[int, float]:
    """Return a sort key that puts the most useful of a group's recommendations first.

    A recommendation with a small gain that was not simulated comes after the one about the main
    cause of the group's rebalances.
    """
    if recommendation.advice.saves:
        return 0, -recommendation.gain_ps
    if recommendation.advice.rule == "as-it-is":
        return 2, 0.0
    is_small = 0 < recommendation.gain_ps < _SMALL_SHARE * _recorded_downtime(group)
    return 3 if is_small else 1, -recommendation.gain_ps


#: A gain below this share of the group's downtime is small.
_SMALL_SHARE = 0.1
#: Where configuration lines belong, by client library (consumers) or by place.
_LABELS = {
    "java": "consumer properties", "librdkafka": "librdkafka configuration",
    "python": "arguments of the Python consumer", "": "consumer properties",
    "broker": "broker properties", "group": "group configuration",
}  # fmt: skip


def _recommendation(group: GroupFigures, advice: Advice) -> Recommendation:
    gain_ps, gain_note = _format_gain(group, advice)
    names, risk, rollout = _deployment_of_advice(group, advice)
    new = dict(line.split("=", 1) for line in advice.lines if _is_setting(line))
    whole = _recorded_downtime(group)
    place = client_family(group.clients) if advice.where == "consumer" else advice.where
    return Recommendation(
        advice, gain_ps, gain_note,
        f"{percent(gain_ps, whole)} of its downtime" if gain_ps > 0 and whole else "",
        _confidence(group, advice),
        tuple(
            one._replace(new=new.get(one.name, ""))
            for one in present_settings(group) if one.name in names
        ),
        risk, rollout, _verify(group, advice), _LABELS.get(place, place),
    )  # fmt: skip


def _is_setting(line: str) -> bool:
    """Return whether a configuration line is a complete setting, not a comment or a
    continued line.
    """
    return "=" in line and not line.startswith("#") and not line.endswith("\\")


def _format_gain(group: GroupFigures, advice: Advice) -> tuple[float, str]:
    """Return the expected gain of a recommended change in partition-seconds, and a text on its
    origin.

    The gain is 0 if it is unknown; the text then says so.
    """
    if advice.rule == "as-it-is":
        return 0.0, _NONE if advice.title == KEEP_TITLE else "no measurable gain from settings"
    if advice.saves is not None:
        return advice.saves.best, ""
    mean = _mean_gain(group, advice)
    one = _affected_cause(group, advice)
    if mean is None or one is None:
        return 0.0, "unknown: not simulated"
    avoids = min(advice.avoids, one.rebalances)
    if advice.rule == "session-timeout":
        text = f"{plural(avoids, 'rejoin')} of evicted members"
    else:
        text = f"{count(avoids)} of {plural(one.rebalances, f'{cause_label(one.kind)} rebalance')}"
    return mean, f"{text}, less the later detection of dead members" if advice.costs else text


def _affected_cause(group: GroupFigures, advice: Advice) -> CauseShare | None:
    return next((c for c in group.causes if c.kind == advice.affects), None)


def _mean_gain(group: GroupFigures, advice: Advice) -> float | None:
    """Estimate the saved downtime of a recommended change from the rebalances that it avoids.

    It is their number times their mean downtime, minus the downtime that the change would add. The
    result is in partition-seconds; None if the downtime of these rebalances is unknown.
    """
    one = _affected_cause(group, advice)
    if one is None or not one.rebalances or not one.timed or group.downtime_estimate is None:
        return None
    avoids = min(advice.avoids, one.rebalances)
    return min(one.best * avoids / one.rebalances, _recorded_downtime(group)) - advice.costs


def _confidence(group: GroupFigures, advice: Advice) -> str:
    if advice.rule == "as-it-is":
        return ""
    if advice.saves is not None:
        return "medium" if advice.saves.low >= _SURE_SHARE * advice.saves.best else "low"
    evidence = {
        "session-timeout": group.traits.returned, "late-polls": group.traits.late_polls,
        "static-members": sum(c.rebalances for c in group.causes if c.kind == "bounce"),
    }.get(advice.rule, 0)  # fmt: skip
    return "medium" if evidence >= _MUCH_EVIDENCE else "low"


def _verify(group: GroupFigures, advice: Advice) -> str:
    if advice.rule == "as-it-is":
        return ""
    figures = []
    if group.unread_share is not None:
        figures.append(f"{percent(group.unread_share, 1)} of its partition-time unread")
    if group.rebalances_per_hour is not None:
        figures.append(f"{group.rebalances_per_hour:,.0f} rebalances per hour")
    now = f" Now: {', '.join(figures)}." if figures else ""
    return f"Capture and replay again after the rollout, then run {_DIFF}.{now}"


_DIFF = "partage diff BEFORE AFTER"
#: Folders of the capture and of the replay after a change, in the commands of the report.
_CAPTURE_AFTER, _RUN_AFTER = "capture-after", "run-after"


def with_command(verify: str, run: RunFigures, group: GroupFigures) -> str:
    """Fill in the command that compares two runs, in a text on how to verify a recommended change.

    ``verify`` is the text with a placeholder. The command names the output folder of ``run``.
    """
    command = f"{_diff_command(run)} --group {quote(group.name)}"
    return verify.replace(f"run {_DIFF}", f"run in the output folder: {command}")


def verification_lines(run: RunFigures) -> tuple[str, ...]:
    """Return the commands that measure the effect of recommended changes on the groups of a run.

    They are run in the output folder, after the rollout.
    """
    return (
        f"partage capture --bootstrap-server <broker>:9092 --out {_CAPTURE_AFTER}",
        f"partage replay {_CAPTURE_AFTER} --out {_RUN_AFTER}",
        _diff_command(run),
    )


def _diff_command(run: RunFigures) -> str:
    return f"partage diff runs/{quote(str(run.summary.get('run_id', 'ID')))} {_RUN_AFTER}"


def present_settings(group: GroupFigures) -> tuple[RecommendedSetting, ...]:
    """Return the present client settings of a group's members, with Kafka's defaults.

    A setting that no record shows has the value ``not in the log``. The result is empty for share
    groups and Streams groups.
    """
    traits = group.traits
    if traits.protocol not in {"classic", "consumer"} or not group.last_strategy:
        return ()
    family = client_family(group.clients)
    _, strategy, _ = parse_policy(group.last_strategy)
    python = family == "python"

    def one(name: str, now: str, default: str) -> RecommendedSetting:
        return RecommendedSetting(
            translate_lines((f"{name}=",), family)[0][:-1], now, "" if python else default
        )

    def ms(value: int | None) -> str:
        return str(value) if value else NOT_IN_LOG

    static = f"set in {traits.static_members} of {traits.newest_members} members"
    found = [one("group.protocol", traits.protocol, "classic")] if not python else []
    if traits.protocol == "consumer":
        found += [
            one("group.remote.assignor", strategy, "uniform"),
            one("consumer.session.timeout.ms", ms(traits.session_ms), "45000"),
            one("consumer.heartbeat.interval.ms", NOT_IN_LOG, "5000"),
        ]
    else:
        default = {"java": "range, cooperative-sticky", "librdkafka": "range, roundrobin"}
        found += [
            one("partition.assignment.strategy", strategy, default.get(family, "")),
            one("session.timeout.ms", ms(traits.session_ms), "45000" if family else ""),
            one("heartbeat.interval.ms", NOT_IN_LOG, "3000"),
        ]
    found += [
        one("max.poll.interval.ms", ms(traits.poll_ms), "300000"),
        one("group.instance.id", static, ""),
    ]
    if family != "librdkafka":  # its poll returns one record
        found.append(one("max.poll.records", NOT_IN_LOG, "500"))
    return tuple(found)


#: Changes of the strategy within the classic protocol.
_STRATEGIES = frozenset({"cooperative", "strategy", "idle-under-range", "roundrobin-moves"})
_ROLLING = "One rolling restart."


def _deployment_of_advice(group: GroupFigures, advice: Advice) -> tuple[frozenset[str], str, str]:
    """Return how to deploy a recommended change: the affected settings, the risk and the rollout.

    The settings are names as the group's client library spells them. Risk and rollout are texts for
    the report.
    """
    family = client_family(group.clients)
    names, risk, rollout = _DEPLOYMENTS.get(advice.rule, ((), "", ""))
    if advice.rule in _STRATEGIES and group.traits.protocol == "classic":
        names, risk, rollout = _strategy_deployment(family, cooperative=_is_cooperative(advice))
    if advice.policy is not None and "static" in parse_policy(advice.policy)[2]:
        names = (*names, "group.instance.id")
    if advice.rule == "storms" and advice.where == "broker":
        risk = "Every empty classic group of the cluster starts later."
        rollout = "One rolling restart of the brokers."
    if advice.rule == "session-timeout" and advice.where == "group":
        rollout = "No restart: the brokers apply the group's configuration at once."
        if group.traits.protocol == "classic":
            rollout = (
                "After the move to the consumer protocol, without a restart. Until then the "
                "clients' session.timeout.ms applies."
            )
    return (
        frozenset(translate_lines((f"{name}=",), family)[0][:-1] for name in names),
        risk,
        rollout,
    )


def _is_cooperative(advice: Advice) -> bool:
    return advice.policy is not None and parse_policy(advice.policy)[0] == "cooperative"


def _strategy_deployment(family: str, *, cooperative: bool) -> tuple[tuple[str, ...], str, str]:
    risk = "Partitions move once, when the group changes its strategy."
    if cooperative:
        risk = (
            "Rebalance listeners then see only the partitions that move; code that expects all "
            "of them must change."
        )
    rollout = "Two rolling restarts: first with both strategies, then without the old one."
    if family == "librdkafka" and cooperative:
        rollout = "Stop all members, then start them: the group does not consume in between."
    return ("partition.assignment.strategy",), risk, rollout


#: Rule -> settings that it changes, risk, rollout.
_DEPLOYMENTS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "consumer-protocol": (
        ("group.protocol", "partition.assignment.strategy", "group.remote.assignor",
         "session.timeout.ms", "heartbeat.interval.ms"),
        "Strategies and timeouts of the clients no longer apply. The brokers' do: "
        "group.consumer.session.timeout.ms (default 45000), or consumer.session.timeout.ms of the "
        "group's configuration.",
        f"{_ROLLING} Brokers must run Kafka 4.0 or later. The group changes its protocol without a "
        "stop.",
    ),
    "strategy": (
        ("group.remote.assignor",), "Partitions move once, when the assignor changes.", _ROLLING,
    ),
    "static-members": (
        ("group.instance.id", "session.timeout.ms", "consumer.session.timeout.ms"),
        "A member that dies keeps its partitions until its session timeout. Two members with one "
        "id fence each other.",
        _ROLLING,
    ),
    "session-timeout": (
        ("session.timeout.ms", "heartbeat.interval.ms", "consumer.session.timeout.ms"),
        "The partitions of a dead member stay unread until the longer timeout.",
        _ROLLING,
    ),
    "late-polls": (
        ("max.poll.records", "max.poll.interval.ms"),
        "A longer interval also delays the detection of a member that no longer polls.",
        _ROLLING,
    ),
    "storms": ((), "Rollouts take longer.", "No restart."),
    "too-many-members": ((), "No idle member stands by when another one dies.", "No restart."),
}  # fmt: skip
