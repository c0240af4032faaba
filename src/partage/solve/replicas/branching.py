"""Branch and bound on the brokers of the largest partitions, over the dual's linear programme.

The linear programme divides a large partition among brokers, and a plan must not: the programme's
optimum is then far below the best plan. Each node of the tree decides for some pairs of a large
partition and a broker whether the broker holds a replica. Its bound is the Lagrangian dual with
these decisions. The node with the lowest bound is split next, at the brokers among which the
programme divides the largest partition. The smallest bound of the tree's leaves is a bound for all
plans, which the judge verifies (`partage.judge.branch_trees`).

Source: A. H. Land, A. G. Doig, "An Automatic Method of Solving Discrete Programming Problems",
Econometrica 28 (1960).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush, heapreplace

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import Branch, BranchDecision
from partage.solve.replicas.dual import Boxstep, DualPlan
from partage.solve.replicas.problem import Bools, Floats

__all__ = ["BranchTree"]

#: Least size or load of a partition whose brokers are decided, as a part of a broker's mean.
_DECIDED_SIZE = 0.2
#: Rounds of the boxstep method in a node, and more of them in a leaf that is not split.
_ROUNDS, _LEAF_ROUNDS = 3, 20
#: The gap between programme and dual at which a node is solved.
_STOPPING_GAP = 3e-3
#: Half the width of the first box of scaled prices in a node.
_BOX = 0.3
#: The least value of a broker that is whole, as a distance from 0 and 1.
_WHOLE = 1e-3
#: The least divided part of a partition that is worth a decision, in mean bytes of a broker.
_LEAST_DIVIDED = 0.02


@dataclass(frozen=True, eq=False)
class _Node:
    """Node of the tree that is not split yet.

    Attributes:
        value: the bound of the bytes moved of plans with its decisions.
        number: the number of the node, in order of creation.
        decisions: its decisions.
        required, excluded: bool[singles, B], the same as arrays.
        prices: float64[4, B + Z], the prices that prove the bound.
        pairs: the singles and brokers at which it and then the nodes below are split.
        rounds: rounds of the boxstep method that solved it: 0 if it only has the prices of the node
            above, or those of `Boxstep.start_host`.
    """

    value: float
    number: int
    decisions: tuple[BranchDecision, ...]
    required: Bools
    excluded: Bools
    prices: Floats
    pairs: tuple[tuple[int, int], ...] = ()
    rounds: int = 0

    def __lt__(self, other: _Node) -> bool:
        return (self.value, self.number) < (other.value, other.number)


class BranchTree:
    """Branch and bound tree over the brokers of the largest partitions.

    Attributes:
        nodes: the leaves, as a heap in order of their bounds.
    """

    def __init__(
        self, task: ReplicaTask, figures: Mapping[str, int], found: DualPlan,
        plan: NDArray[np.int32],
    ) -> None:  # fmt: skip
        self.task, self.figures, self.found, self.plan = task, figures, found, plan
        self.master, self._count = found.master, 0
        nothing = np.zeros(self.master.arc.shape, bool)
        self.nodes = [_Node(found.reachable, 0, (), nothing, nothing, found.prices,
                            self._divided_pairs(), _ROUNDS)]  # fmt: skip

    @property
    def bound(self) -> float:
        """The lower bound of the bytes moved that the tree proves."""
        return self.nodes[0].value

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The leaves, for the judge; none if the root is not split."""
        if len(self.nodes) == 1:
            return ()
        return tuple(Branch(node.decisions, node.prices) for node in self.nodes)

    def grow(self, enough: float, iterations: int) -> None:
        """Split nodes until the bound is ``enough``, or no split can raise it.

        Args:
            enough: the bound of the bytes moved at which the search stops.
            iterations: simplex iterations at which it stops.
        """
        last = self.master.iterations + iterations
        while self.bound < enough and self.master.iterations < last:
            node = self.nodes[0]
            if node.pairs:
                heappop(self.nodes)
                for child in self._children(node):
                    heappush(self.nodes, child)
            elif node.rounds < _LEAF_ROUNDS:
                heapreplace(self.nodes, self._solved(node, enough))
            else:
                break

    def best_plan(self) -> DualPlan:
        """Apply the decisions of the leaf with the lowest bound, and return the programme's
        solution there.
        """
        node = heappop(self.nodes)
        if node.rounds < _LEAF_ROUNDS:
            node = replace(node, rounds=max(node.rounds, _ROUNDS))
            node = self._solved(node, np.inf)
        search = self._search(node)
        search.run(1, _STOPPING_GAP)
        heappush(self.nodes, node)
        return replace(self.found, prices=node.prices, replica=self.master.rounded(self.plan),
                       choice=search.choice, reachable=node.value)  # fmt: skip

    def _children(self, node: _Node) -> list[_Node]:
        (single, broker), *others = node.pairs
        out = []
        for is_placed in (True, False):
            required, excluded = node.required.copy(), node.excluded.copy()
            (required if is_placed else excluded)[single, broker] = True
            decision = BranchDecision(int(self.master.single[single]), broker, is_placed)
            self._count += 1
            child = replace(
                node, number=self._count, decisions=(*node.decisions, decision),
                required=required, excluded=excluded, rounds=0,
                pairs=() if is_placed else tuple(others),
            )  # fmt: skip
            search = self._search(child)
            if is_placed:
                search.start_host(broker, int(self.master.large_kind[single]))
            out.append(replace(child, value=search.value, prices=search.prices))
        return out

    def _solved(self, node: _Node, enough: float) -> _Node:
        """Return a node with better prices and the pairs that the programme divides."""
        rounds = _LEAF_ROUNDS if node.rounds else _ROUNDS
        search = self._search(node)
        search.box = _BOX
        optimum = search.run(rounds, _STOPPING_GAP, enough=enough)
        if optimum - search.value <= _STOPPING_GAP * optimum:
            rounds = _LEAF_ROUNDS
        value = max(search.value, node.value)
        return replace(node, value=value, prices=search.prices, pairs=self._divided_pairs(),
                       rounds=rounds)  # fmt: skip

    def _search(self, node: _Node) -> Boxstep:
        """Apply the decisions of a node to the programme; return the search from its prices."""
        master = self.master
        changed = (master.required != node.required) | (master.excluded != node.excluded)
        for single in np.flatnonzero(changed.any(axis=1)).tolist():
            master.decide(single, node.required[single], node.excluded[single])
        return Boxstep(master, self.figures, node.prices, self.plan)

    def _divided_pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the largest single that the last optimum divides, with its brokers in one rack in
        order of their parts.
        """
        master, rack = self.master, self.task.cluster.rack
        for single in range(int((master.part > _DECIDED_SIZE).sum())):
            value = master.values_of(single)
            rest = np.where((value > _WHOLE) & (value < 1 - _WHOLE), value, 0.0)
            if master.part[single] * rest.sum() < _LEAST_DIVIDED:
                continue
            here = np.flatnonzero((rest > 0) & (rack == rack[rest.argmax()]))
            here = here[np.argsort(-rest[here], kind="stable")]
            return tuple((single, b) for b in here.tolist())
        return ()
