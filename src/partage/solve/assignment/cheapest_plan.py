"""The cheapest plan among those with the best loads: any costs by class, a staircase of loads.

As `moves`, with a cost for every way in which a class of partitions can reach a member: what
stays may be cheaper than what is handed over, and a near rack cheaper than a far one. Costs of
several goals, each more important than all later ones together, are one integer (`Goals`).

Source, classes, groups of members, members, steps, sink:

    source -> class                  all its partitions (contested ones have a node of their own)
    class -> claimant                kept
    class -> group -> member         handed over, to any member of the group alike
    member -> step -> sink           a step of width w, reached by n loads: w each, w * n in all

Members of a group who claim nothing are one node: who of them gets what is all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partage.errors import InvalidProblemError, ProblemTooLargeError
from partage.solve.assignment.network import LARGEST_NETWORK, UNBOUNDED, IntArray, Network, summed
from partage.solve.assignment.staircase import Steps

__all__ = ["Cheapest", "Layout", "Market", "built", "cheapest", "keep_first"]


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """Classes of partitions, members, and what it costs to bring the ones to the others.

    Attributes:
        supply: int64[C], partitions of each class.
        group: int64[M], group of each member, -1 for one who may own nothing.
        groups: how many groups there are.
        keep_class, keep_member, keep_most, keep_cost: int64[K], who may keep how many of a
            class at which cost; several of one class share nothing, unless ``keep_class``
            is a class of contested partitions, whose whole supply each may keep.
        free_class, free_group, free_cost: int64[A], handing over.
        loads: int64[n], the loads that bound the plan's, members beyond n counting as zero.
    """

    supply: IntArray
    group: IntArray
    groups: int
    keep_class: IntArray
    keep_member: IntArray
    keep_most: IntArray
    keep_cost: IntArray
    free_class: IntArray
    free_group: IntArray
    free_cost: IntArray
    loads: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Cheapest:
    """Flows, and the prices that prove them cheapest.

    Attributes:
        kept: int64[K]; free: int64[A], partitions over each of the market's arcs.
        received: int64[M], how many partitions of its group each member gets.
        price: int64[M], the certificate: the cost of a plan plus its owners' prices is at
            least the sum over partitions of the cheapest cost + price; and these prices are
            at most the sum of the i-th highest price times the i-th largest of the loads.
    """

    kept: IntArray
    free: IntArray
    received: IntArray
    price: IntArray


def cheapest(market: Market) -> Cheapest:
    """The least total cost of all plans whose sorted loads are majorised by ``market.loads``.

    Raises:
        ProblemTooLargeError: the network is too large, or searching it would take too long.
        InvalidProblemError: no plan has such loads.

    >>> one = np.array([0])
    >>> market = Market(np.array([3]), np.array([0, 0]), 1, one, one, np.array([3]),
    ...                 np.array([-1]), one, one, one, np.array([2, 1]))
    >>> found = cheapest(market)
    >>> found.kept.tolist(), found.received.tolist()
    ([2], [0, 1])
    """
    layout = Layout.of(market)
    if layout.arcs > LARGEST_NETWORK:
        raise ProblemTooLargeError(
            f"the cheapest plan needs a network of {layout.arcs} arcs, the limit is "
            f"{LARGEST_NETWORK}"
        )
    network, arcs = built(market, layout)
    keep_first(market, layout, network, arcs)
    from_source = arcs["supply"]
    network.fill()
    while network.left[2 * from_source].any():
        if not network.reprice():
            raise InvalidProblemError("no plan has loads as good as these", path="loads")
        network.fill()
    flow = network.flow()
    price = np.where(layout.unit >= 0, network.price[layout.first_unit + layout.unit], 0)
    return Cheapest(
        flow[arcs["keep"]], flow[arcs["free"]], layout.shared(flow[arcs["within"]]), price
    )


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Units (members, or all of a group who claim nothing) and the numbers of the nodes.

    Attributes:
        unit: int64[M], unit of each member, -1 for one who may own nothing.
        size: int64[U], members of each unit; group: int64[U], its group.
    """

    unit: IntArray
    size: IntArray
    group: IntArray
    steps: Steps
    first_group: int
    first_unit: int
    first_step: int
    source: int
    arcs: int

    @property
    def sink(self) -> int:
        """The node to which all steps lead."""
        return self.source + 1

    @property
    def drain(self) -> int:
        """A node from which steps are emptied, where the network has one."""
        return self.source + 2

    @classmethod
    def of(cls, market: Market, steps: Steps | None = None) -> Layout:
        """Lay out a market; ``steps`` bound the loads where the market's own do not."""
        members = len(market.group)
        claims = np.zeros(members, bool)
        claims[market.keep_member] = True
        plain = (market.group >= 0) & ~claims
        single = np.flatnonzero((market.group >= 0) & claims)
        unit = np.full(members, -1, np.int64)
        unit[single] = np.arange(len(single))
        there = np.bincount(market.group[plain], minlength=market.groups)
        merged = np.flatnonzero(there)
        number = np.zeros(market.groups, np.int64)
        number[merged] = len(single) + np.arange(len(merged))
        unit[plain] = number[market.group[plain]]
        size = np.concatenate([np.ones(len(single), np.int64), there[merged]])
        group = np.concatenate([market.group[single], merged]).astype(np.int64)
        if steps is None:
            steps = Steps.of(np.asarray(market.loads, np.int64))
        first_group = len(market.supply)
        first_unit = first_group + market.groups
        first_step = first_unit + len(size)
        arcs = len(market.keep_class) + len(market.free_class) + len(market.supply)
        arcs += len(size) * (len(steps) + 1) + len(steps)
        return cls(unit, size, group, steps, first_group, first_unit, first_step,
                   first_step + len(steps), arcs)  # fmt: skip

    def shared(self, within: IntArray) -> IntArray:
        """int64[M]: what units get, shared evenly among their members, first ones first."""
        out = np.zeros(len(self.unit), np.int64)
        mine = np.flatnonzero(self.unit >= 0)
        of = self.unit[mine]
        order = np.argsort(of, kind="stable")
        mine, of = mine[order], of[order]
        nth = np.arange(len(mine)) - np.searchsorted(of, of)
        out[mine] = within[of] // self.size[of] + (nth < within[of] % self.size[of])
        return out


def built(
    market: Market, layout: Layout, *, draining: bool = False
) -> tuple[Network, dict[str, IntArray]]:
    """Return the network, priced by each node's cheapest way, and its arcs by kind.

    With ``draining`` there are arcs without capacity from `Layout.drain` to every step.
    """
    steps, units = layout.steps, layout.first_unit + np.arange(len(layout.size))
    step_nodes = layout.first_step + np.arange(len(steps))
    classes = np.arange(len(market.supply))
    far = np.int64(UNBOUNDED)
    best = np.full(len(classes), far)
    np.minimum.at(best, market.free_class, market.free_cost)
    np.minimum.at(best, market.keep_class, market.keep_cost)
    # All supply must go, so that the cheapest way of each class may as well be free of cost.
    kinds = {
        "supply": (np.full(len(classes), layout.source), classes, market.supply, -best),
        "keep": (
            market.keep_class, units[layout.unit[market.keep_member]], market.keep_most,
            market.keep_cost,
        ),
        "free": (
            market.free_class, layout.first_group + market.free_group,
            np.full(len(market.free_class), UNBOUNDED), market.free_cost,
        ),
        "within": (layout.first_group + layout.group, units, np.full(len(units), UNBOUNDED), None),
        "climb": (
            np.repeat(units, len(steps)), np.tile(step_nodes, len(units)),
            (layout.size[:, None] * steps.width).reshape(-1), None,
        ),
        "step": (
            step_nodes, np.full(len(steps), layout.sink), steps.reaching * steps.width, None,
        ),
    }  # fmt: skip
    if draining:
        kinds["drain"] = (
            np.full(len(steps), layout.drain), step_nodes, np.zeros(len(steps), np.int64), None,
        )  # fmt: skip
    ends = np.cumsum([len(row[1]) for row in kinds.values()]).tolist()
    starts = [0, *ends[:-1]]
    arcs = {k: np.arange(a, b) for k, a, b in zip(kinds, starts, ends, strict=True)}
    costs = [np.zeros(len(r[1]), np.int64) if r[3] is None else r[3] for r in kinds.values()]
    price = np.zeros(layout.sink + 1 + draining, np.int64)
    price[classes] = best
    tail, head, capacity = (np.concatenate([row[i] for row in kinds.values()]) for i in range(3))
    network = Network(
        len(price), tail, head, capacity, source=layout.source, sink=layout.sink,
        cost=np.concatenate(costs), price=price,
    )  # fmt: skip
    return network, arcs


def keep_first(market: Market, layout: Layout, network: Network, arcs: dict[str, IntArray]) -> None:
    """Put a first flow on the network: partitions that are kept at the least cost.

    They climb as far up as the steps allow.
    Searching would find the same, one path a claim; these are nearly all there are.
    """
    price = network.price[market.keep_class]
    sole = np.bincount(market.keep_class, market.keep_most, len(market.supply)) <= market.supply
    good = np.flatnonzero((market.keep_cost == price) & sole[market.keep_class])
    unit, most = layout.unit[market.keep_member[good]], market.keep_most[good]
    left = summed(unit, most, len(layout.size))
    steps = layout.steps
    climbs = np.zeros((len(left), len(steps)), np.int64)
    for j, (reaching, width) in enumerate(
        zip(steps.reaching.tolist(), steps.width.tolist(), strict=True)
    ):
        wish = np.minimum(left, width)
        climbs[:, j] = np.clip(reaching * width - (np.cumsum(wish) - wish), 0, wish)
        left = left - climbs[:, j]
    order = np.argsort(unit, kind="stable")
    of, amount = unit[order], most[order]
    upto = np.cumsum(amount) - amount
    earlier = upto - upto[np.searchsorted(of, of)] if len(of) else upto
    stays = np.zeros(len(good), np.int64)
    stays[order] = np.clip(climbs.sum(axis=1)[of] - earlier, 0, amount)
    for kind, flow in (
        ("supply", summed(market.keep_class[good], stays, len(market.supply))),
        ("climb", climbs.reshape(-1)),
        ("step", climbs.sum(axis=0)),
    ):
        network.push(arcs[kind], flow)
    network.push(arcs["keep"][good], stays)
