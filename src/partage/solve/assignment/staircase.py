"""The network in which keeping is rewarded and a common staircase bounds the loads.

Source, topics (and contested claims), bundles of members, members, steps, sink:

    source -> topic                  all its partitions, but the contested ones
    source -> contested class        its partitions
    topic -> only claimant           kept: cost -1 each
    class -> one of its claimants    kept: cost -1 each
    class -> topic                   given up
    topic -> bundle -> member        changes hands: cost 0
    member -> step -> sink           a step of width w, reached by n loads: w each, w * n in all
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partage.solve.assignment.bundles import Bundles
from partage.solve.assignment.claims import SortedClaims
from partage.solve.assignment.flow import UNBOUNDED, IntArray, Network
from partage.solve.assignment.spreading import summed

__all__ = ["Staircase", "Steps", "arcs_needed", "built"]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The staircase of some loads: levels that equally many loads reach are one step.

    Attributes:
        reaching: int64[S], how many loads reach each step.
        width: int64[S], how many levels it has.

    >>> steps = Steps.of(np.array([5, 2, 2, 0]))
    >>> steps.reaching.tolist(), steps.width.tolist()
    ([3, 1], [2, 3])
    """

    reaching: IntArray
    width: IntArray

    @classmethod
    def of(cls, loads: IntArray) -> Steps:
        """From loads in any order."""
        values, counts = np.unique(loads[loads > 0], return_counts=True)
        reaching = np.cumsum(counts[::-1])[::-1].astype(np.int64)
        return cls(reaching, np.diff(np.concatenate([np.zeros(1, np.int64), values])))

    def __len__(self) -> int:
        return len(self.width)


@dataclass(frozen=True, slots=True, eq=False)
class Staircase:
    """The network, and where in its arcs and nodes each kind stands."""

    network: Network
    arcs: dict[str, slice]
    member_nodes: slice

    def flow(self, kind: str) -> IntArray:
        """What flows over the arcs of one kind."""
        return self.network.flow()[self.arcs[kind]]

    def positions(self, kind: str) -> IntArray:
        """Numbers of the arcs of one kind."""
        where = self.arcs[kind]
        return np.arange(where.start, where.stop)


def arcs_needed(bundles: Bundles, claims: SortedClaims, steps: Steps) -> int:
    """How many arcs the network would have, within a few."""
    climbing = len(bundles.member) * (len(steps) + 1)
    claiming = len(claims.arc_topic) + len(claims.class_claimant)
    return len(bundles.arc_topic) + climbing + claiming


def built(bundles: Bundles, claims: SortedClaims, steps: Steps) -> Staircase:
    """The network, with a first flow of kept partitions and prices that allow it."""
    nodes = _Nodes.of(bundles, claims, steps)
    kinds = _arcs(bundles, claims, steps, nodes)
    arcs: dict[str, slice] = {}
    end = 0
    for kind, (_, heads, _, _) in kinds.items():
        arcs[kind] = slice(end, end + len(heads))
        end += len(heads)
    tail, head, capacity, cost = (
        np.concatenate([np.broadcast_to(row[i], len(row[1])) for row in kinds.values()])
        for i in range(4)
    )
    price = np.zeros(nodes.sink + 1, np.int64)
    # Where something can be kept, the way to the sink costs -1.
    price[claims.arc_topic] = price[nodes.contested] = -1
    price[nodes.source] = price.min(initial=0)
    network = Network(
        nodes.sink + 1, tail, head, capacity,
        source=nodes.source, sink=nodes.sink, cost=cost, price=price,
    )  # fmt: skip
    first = nodes.first_member
    stairs = Staircase(network, arcs, slice(first, first + len(bundles.member)))
    _keep_first(stairs, claims, steps, np.flatnonzero(bundles.member >= 0))
    return stairs


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """Numbers of the nodes: topics, contested classes, members, bundles, steps, source, sink."""

    topic: IntArray
    contested: IntArray
    first_member: int
    first_bundle: int
    step: IntArray
    source: int
    sink: int

    @classmethod
    def of(cls, bundles: Bundles, claims: SortedClaims, steps: Steps) -> _Nodes:
        sizes = [len(bundles.supply), len(claims.class_topic), len(bundles.member),
                 len(bundles.size), len(steps), 1]  # fmt: skip
        contested, member, bundled, step, source, sink = np.cumsum(sizes).tolist()
        return cls(
            np.arange(contested), np.arange(contested, member), member, bundled,
            np.arange(step, source), source, sink,
        )  # fmt: skip


#: Tails, heads, capacities, cost; a lone number stands for all arcs of the kind.
_Kind = tuple["IntArray | int", IntArray, "IntArray | int", int]


def _arcs(bundles: Bundles, claims: SortedClaims, steps: Steps, nodes: _Nodes) -> dict[str, _Kind]:
    everyone = np.flatnonzero(bundles.member >= 0)
    member = nodes.first_member + everyone
    claimant = np.repeat(nodes.contested, np.diff(claims.class_start))
    apart = summed(claims.class_topic, claims.class_supply, len(bundles.supply))
    return {
        "topic": (nodes.source, nodes.topic, bundles.supply - apart, 0),
        "class": (nodes.source, nodes.contested, claims.class_supply, 0),
        "claim": (claims.arc_topic, nodes.first_member + claims.arc_member, claims.arc_supply, -1),
        "contested": (claimant, nodes.first_member + claims.class_claimant, UNBOUNDED, -1),
        "given up": (nodes.contested, claims.class_topic, UNBOUNDED, 0),
        "free": (bundles.arc_topic, nodes.first_bundle + bundles.arc_member, UNBOUNDED, 0),
        "within": (nodes.first_bundle + bundles.member[everyone], member, UNBOUNDED, 0),
        "climb": (
            np.repeat(member, len(steps)),
            np.tile(nodes.step, len(everyone)),
            np.tile(steps.width, len(everyone)),
            0,
        ),
        "step": (
            nodes.step, np.full(len(steps), nodes.sink), steps.reaching * steps.width, 0,
        ),
    }  # fmt: skip


def _keep_first(stairs: Staircase, claims: SortedClaims, steps: Steps, everyone: IntArray) -> None:
    """Start with every member keeping what it alone claims, as far up as the steps allow.

    Searching would find the same, one path a claim; these are nearly all there are.
    """
    members = stairs.member_nodes.stop - stairs.member_nodes.start
    left = summed(claims.arc_member, claims.arc_supply, members)[everyone]
    climbs = np.zeros((len(everyone), len(steps)), np.int64)
    for j, (reaching, width) in enumerate(
        zip(steps.reaching.tolist(), steps.width.tolist(), strict=True)
    ):
        wish = np.minimum(left, width)
        climbs[:, j] = np.clip(reaching * width - (np.cumsum(wish) - wish), 0, wish)
        left = left - climbs[:, j]
    keeps = np.zeros(members, np.int64)
    keeps[everyone] = climbs.sum(axis=1)
    order = np.argsort(claims.arc_member, kind="stable")
    of, supply = claims.arc_member[order], claims.arc_supply[order]
    upto = np.cumsum(supply) - supply
    earlier = upto - upto[np.searchsorted(of, of)] if len(of) else upto
    stays = np.empty_like(supply)
    stays[order] = np.clip(keeps[of] - earlier, 0, supply)
    topics = stairs.arcs["topic"].stop
    for kind, amount in (
        ("topic", summed(claims.arc_topic, stays, topics)),
        ("claim", stays),
        ("climb", climbs.reshape(-1)),
        ("step", climbs.sum(axis=0)),
    ):
        stairs.network.push(stairs.positions(kind), amount)
