"""Measurement of plans with weighted partitions, and verification of the bounds of their loads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.errors import CertificateError
from partage.judge.certificates import moves_of
from partage.judge.facts import Facts
from partage.judge.ownership import PreviousOwners
from partage.model import Certificate

__all__ = ["WeightedFigures", "proven_bound", "weigh_plan"]


@dataclass(frozen=True, slots=True, eq=False)
class WeightedFigures:
    """Measured loads of a plan whose partitions have weights.

    Attributes:
        weight: float64[P], weight of each partition; load: float64[M], sum over each member's
            partitions.
        speed: float64[M], member weights (shares of the load); counts: bool[M], members whose load
            counts: they subscribe to something, and their weight is not zero.
        capacity: float64[M], in units of weight; 0 for members of weight 0.
        overload: total load beyond capacities.
        misplaced: partitions with an owner of weight 0 although another member subscribes.
        largest, spread: of the relative loads (load divided by member weight) that count.
    """

    weight: NDArray[np.float64]
    load: NDArray[np.float64]
    speed: NDArray[np.float64]
    counts: NDArray[np.bool_]
    capacity: NDArray[np.float64]
    overload: float
    misplaced: int
    largest: float
    spread: float


def weigh_plan(facts: Facts, certificate: Certificate) -> WeightedFigures:
    """Measure the weighted loads of the certificate's plan, which must be valid.

    Raises:
        CertificateError: the weights are malformed.
    """
    given = certificate.details.get("weight")
    weight = np.ones(len(facts.is_open)) if given is None else np.asarray(given, float)
    if weight.shape != facts.is_open.shape or not (np.isfinite(weight) & (weight >= 0)).all():
        raise CertificateError("weights must be finite numbers, one a partition, none negative")
    owner = np.asarray(certificate.owner)
    mine = owner >= 0
    load = np.bincount(owner[mine], weight[mine], minlength=facts.members).astype(float)
    group = facts.problem.group
    speed = np.array([m.weight for m in group], float)
    limit = np.array([np.inf if m.capacity is None else m.capacity for m in group], float)
    capacity = np.where(speed > 0, limit, 0.0)
    counts = facts.takes_part & (speed > 0)
    relative = load[counts] / speed[counts]
    overload = float(np.maximum(load - capacity, 0.0).sum())
    given = np.flatnonzero(mine)
    given = given[speed[owner[given]] <= 0]
    misplaced = int(np.count_nonzero(_subscribed(facts, counts)[facts.topic_of[given]]))
    largest, spread = 0.0, 0.0
    if len(relative):
        largest, spread = float(relative.max()), float(relative.max() - relative.min())
    return WeightedFigures(
        weight, load, speed, counts, capacity, overload, misplaced, largest, spread
    )


def _subscribed(facts: Facts, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    start, topic = facts.subscriptions
    used = np.zeros(len(start) - 1, bool)
    used[facts.subscription_of[members]] = True
    wanted = np.zeros(len(facts.partitions), bool)
    wanted[topic[np.repeat(used, np.diff(start))]] = True
    return wanted


def proven_bound(
    facts: Facts,
    old_owners: PreviousOwners,
    certificate: Certificate,
    of: WeightedFigures,
    name: str,
) -> float:
    """Return the lower bound of the overload or of the largest load that a certificate proves for
    weighted partitions.

    ``name`` is "overload" (weight beyond capacities) or "largest" (the largest relative load).

    Raises:
        CertificateError: the argument is missing or malformed.
    """
    argument = certificate.details.get(f"{name} bound")
    if not isinstance(argument, tuple) or len(argument) != 3:
        raise CertificateError(f"there is no argument for the bound of {name}")
    kind, topics, most = argument
    numbers = np.asarray(topics, np.int64).reshape(-1)
    if ((numbers < 0) | (numbers >= len(facts.partitions))).any():
        raise CertificateError(f"the argument for the bound of {name} is about unknown topics")
    inside = np.zeros(len(facts.partitions), bool)
    inside[numbers] = True
    if kind == "none":
        return 0.0
    if kind == "moves":
        return _shed(facts, old_owners, certificate, of)
    who = _subscribers(facts, inside)
    weight = _items(facts, certificate, of, inside)
    if name == "overload":
        return max(0.0, float(weight.sum() - of.capacity[who].sum()))
    who &= of.counts
    # A plan without misplaced partitions spills nothing to members of weight 0.
    spilled = of.overload if of.misplaced else 0.0
    if not of.misplaced and (facts.takes_part & ~of.counts).any():
        weight = _items(facts, certificate, of, inside & _subscribed(facts, of.counts))
    if not who.any() or not len(weight):
        return 0.0
    if kind == "cut":
        # Members that count bear all of it except what spills to the others.
        return max(0.0, float(weight.sum() - spilled)) / float(of.speed[who].sum())
    fastest = float(of.speed[who].max())
    if kind == "heaviest":
        return float(weight.max()) / fastest if weight.max() > spilled else 0.0
    if kind == "crowd":
        most = int(most)
        last = (most - 1) * int(who.sum()) + 1
        if spilled > 0 or most < 1 or last > len(weight):
            return 0.0
        # One member has ``most`` of so many items; at best the lightest of them.
        return float(np.sort(weight)[::-1][last - most : last].sum()) / fastest
    raise CertificateError(f"{kind!r} is no argument for a bound")


def _subscribers(facts: Facts, topics: NDArray[np.bool_]) -> NDArray[np.bool_]:
    start, topic = facts.subscriptions
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    wants = np.zeros(len(start) - 1, bool)
    wants[row[topics[topic]]] = True
    return wants[facts.subscription_of]


def _items(
    facts: Facts, certificate: Certificate, of: WeightedFigures, topics: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the weights of the partitions of some topics, where partitions that must have one
    owner count as one.
    """
    rows = np.flatnonzero(facts.is_open & topics[facts.topic_of])
    family = certificate.details.get("together")
    if family is None:
        return of.weight[rows]
    mine = np.asarray(family, np.int64)[facts.topic_of[rows]]
    number = facts.problem.index.number_of[rows].astype(np.int64)
    wide = int(number.max(initial=0)) + 1
    alone = rows + wide * (int(mine.max(initial=0)) + 1)
    _, item = np.unique(np.where(mine < 0, alone, mine * wide + number), return_inverse=True)
    return np.bincount(item.reshape(-1), of.weight[rows]).astype(float)


def _shed(
    facts: Facts, old_owners: PreviousOwners, certificate: Certificate, of: WeightedFigures
) -> float:
    """Return a lower bound of the largest relative load (load divided by member weight) after the
    allowed number of moves.

    Take each member's load after it released its r heaviest partitions, for all r. Each move
    removes one of these figures. After ``moves`` of them the next largest figure remains.
    """
    limit = certificate.details.get("max_moves")
    if not isinstance(limit, int):
        raise CertificateError("a bound by moves needs a limit of moves")
    partition = np.repeat(np.arange(len(old_owners.owned)), np.diff(old_owners.start))
    good = facts.is_open[partition]
    good[good] = facts.subscribes(old_owners.claimant[good], partition[good])
    able = np.bincount(partition[good], minlength=len(old_owners.owned))
    moves = moves_of(old_owners, np.asarray(certificate.owner, np.int64))
    forced = int(np.count_nonzero(facts.is_open & old_owners.owned & (able == 0)))
    sole = good & (able[partition] == 1) & of.counts[old_owners.claimant]
    remaining: list[float] = []
    for m in np.unique(old_owners.claimant[sole]).tolist():
        mine = np.sort(of.weight[partition[sole & (old_owners.claimant == m)]])
        remaining += (np.cumsum(mine) / of.speed[m]).tolist()
    remaining.sort(reverse=True)
    left = max(0, max(limit, moves) - forced)
    return remaining[left] if left < len(remaining) else 0.0
