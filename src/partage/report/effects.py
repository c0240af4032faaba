"""Effects of policies on a group, and which settings its clients can follow.

The effect of a policy is the time lost under `own` (the group simulated as it was run) minus the
time lost under the policy. Both come from one simulation, so that its error does not count for
either. The error is the difference between the record and `own`: a smaller effect is no effect.
"""

from __future__ import annotations

from dataclasses import dataclass

from partage.report.run import FigureRange, Figures, GroupFigures
from partage.report.settings import base_policy, family_of, lines_of, parted

__all__ = [
    "OWN", "Settings", "best_policy", "effect_of", "error_of", "family", "followable", "weight",
]  # fmt: skip

#: The policy that stands for the group as it was run.
OWN = "own"
#: Strategies of Kafka itself: members with another one have a reason that no log tells.
_KNOWN = frozenset({
    "range", "roundrobin", "sticky", "cooperative-sticky", "server:uniform", "server:range",
})  # fmt: skip
#: A smaller part of the time lost is not worth a change.
_LEAST_SHARE = 0.01
#: Policies whose effects differ by less than this part are taken for equally good.
_ALIKE = 0.05
#: Protocols by how much has to change for them; settings of members come before them.
_CHANGES = {"eager": 1, "cooperative": 2, "consumer": 3}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that serve a group best, and the partition-seconds that they save."""

    policy: str
    saved: FigureRange


def weight(saved: FigureRange | None) -> float:
    """Return what a saving is compared by: the sum of its ends."""
    return saved.low + saved.high if saved else 0.0


def family(group: GroupFigures) -> str:
    """Return whose settings the members have: java, librdkafka, python; "" where they differ.

    A classic group of unknown clients only (Go, Rust, Node.js) has settings that nobody knows.
    """
    classic = group.traits.protocol == "classic"
    if classic and group.clients and set(group.clients) == {"unknown"}:
        return ""
    return family_of(group.clients)


def _own(group: GroupFigures) -> Figures | None:
    own = group.figures.get(OWN)
    return own if own is not None and own.comparable and own.saved is not None else None


def error_of(group: GroupFigures) -> float | None:
    """Return the simulation's error in partition-seconds; None where `own` was not simulated."""
    own = _own(group)
    return (
        None if own is None or own.saved is None else max(abs(own.saved.low), abs(own.saved.high))
    )


def effect_of(group: GroupFigures, policy: str) -> FigureRange | None:
    """Return the partition-seconds that a policy saves against `own`; None where not known.

    A group cannot save more than it lost.
    """
    found, lost = group.figures.get(policy), group.lost
    if found is None or not found.comparable or _own(group) is None or found.gain is None:
        return None
    if lost is None:
        return found.gain
    return FigureRange(min(found.gain.low, lost.high), min(found.gain.high, lost.high))


def followable(group: GroupFigures, policy: str) -> tuple[str, ...]:
    """Return the lines that make a policy true for the group's clients; () if there are none.

    Python's clients have no setting for a protocol, and members of several libraries have no
    setting in common. A coordinator that decides does not go back to the classic protocol.
    """
    if group.strategy not in _KNOWN or group.traits.protocol not in {"classic", "consumer"}:
        return ()
    protocol, strategy, options = parted(policy)
    same = f"{protocol}/{strategy}" == base_policy(group.strategy)
    if same and (not options or group.traits.dynamic_members == 0):
        return ()
    if group.traits.protocol == "consumer" and protocol != "consumer":
        return ()
    return lines_of(policy, group.strategy, family=family(group)) or ()


def best_policy(group: GroupFigures) -> Settings | None:
    """Return the settings that serve a group best; None where none surely helps.

    The policy answered every rebalance, broke no rule and left no more members idle than `own`.
    Its effect is at least 0 at both ends, and larger than the simulation's error at the upper
    one. Of policies that are about as good, the one with the smallest change is taken.
    """
    error, own, lost = error_of(group), _own(group), group.lost
    if error is None or own is None or lost is None:
        return None
    fit = [
        Settings(name, saved)
        for name, f in group.figures.items()
        if followable(group, name)
        and f.idle <= own.idle
        and (saved := effect_of(group, name)) is not None
        and saved.low >= 0
        and saved.high > max(error, _LEAST_SHARE * lost.high)
    ]
    best = max((weight(one.saved) for one in fit), default=0.0)
    alike = [one for one in fit if weight(one.saved) >= best - max(error, _ALIKE * best)]
    return min(alike, key=lambda one: _change(group, one), default=None)


def _change(group: GroupFigures, one: Settings) -> tuple[int, int, float, str]:
    """Return how much has to change: protocol, then static members; then the saving, the name."""
    protocol, strategy, options = parted(one.policy)
    same = f"{protocol}/{strategy}" == base_policy(group.strategy)
    return (0 if same else _CHANGES.get(protocol, 9), len(options), -weight(one.saved), one.policy)
