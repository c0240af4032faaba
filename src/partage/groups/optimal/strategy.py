"""The strategy itself: its objective, its settings, and what it remembers between phases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import ProblemTooLargeError
from partage.groups.api import RebalanceProtocol
from partage.groups.base import PlainStrategy
from partage.groups.optimal.certificate import (
    forced_moves,
    of_counts,
    of_limited,
    of_loads,
    plan_of,
)
from partage.groups.optimal.count_balance import counted
from partage.groups.optimal.move_limit import limited
from partage.groups.optimal.problem import Int64Array, Question
from partage.groups.optimal.settings import (
    OPTIONS,
    Settings,
    by_partition,
    families,
    input_warnings,
    needs_loads,
    rack_costs,
)
from partage.groups.optimal.weight_balance import Shares, loaded, shares_of, whole
from partage.model import Certificate, Plan, Problem, RackCosts, RackTable
from partage.model.index import Int32Array
from partage.solve.assignment.branch_and_bound import MOST_ITEMS

__all__ = ["Optimal"]


@dataclass(frozen=True, repr=False)
class Optimal(PlainStrategy):
    """The most even loads, then the fewest rack mismatches, then the fewest moves: all proven.

    The objective, each line before the next:

    1. valid: every partition that somebody subscribes to has one owner, who does;
    2. the most even loads. Counts, as a rule: least-majorised, so that no plan has a smaller
       largest, a larger smallest or a smaller sum of squares. With weights of partitions or
       members, or capacities: first the least load beyond capacities, then the relative
       loads (per unit of member weight), the largest smallest, then the second, and so on;
    3. the fewest rack mismatches, or what reading across racks costs in money;
    4. the fewest moves from the owned partitions: when nothing changed nothing moves, and
       when a member leaves only its partitions do, unless balance needs more;
    5. co-partitioned topics together, by option;
    6. former claimants, then each topic spread evenly over its subscribers (not exact);
    7. then a choice that neither join order nor hash seed changes.

    Settings (`configure`); those that map are JSON where they are text:

    * ``assignment.optimal.weights``: {topic: load, or list of loads by partition number}: bytes,
      lag, records per second. Partitions without one weigh the mean of the others. Members'
      weight (share of the load) and capacity (in the same unit) are their own. A member of
      weight 0 owns only what no other member may own, before capacities count.
    * ``assignment.optimal.racks`` (true): whether racks matter at all.
    * ``assignment.optimal.rack.prices``: {member's rack: {replica's rack: money per GB}}; a pair
      that is missing costs nothing within a rack, else the dearest price.
    * ``assignment.optimal.traffic``: GB by topic or partition, as weights; 1 each if not set.
    * ``assignment.optimal.max.moves``: most owned partitions that may move in one rebalance;
      2 to 4 are then the best within that. What nobody may keep moves all the same.
    * ``assignment.optimal.together`` ("no"): "prefer" keeps co-partitioned topics (the same
      partition numbers and subscribers) together where nothing above is worse for it;
      "require" does so before 2.
    * ``assignment.optimal.copartitioned``: lists of topics that belong together; all that can.
    * ``assignment.optimal.tolerance``: with weights, by how much of an average member's load a
      change must lower a load to be worth it: 0.001 if not set, and 0 in problems of at
      most 16 partitions. Weights that are measured anew each time want more.

    It is cooperative: what changes hands is with nobody in this plan (``plan.withheld``), and
    the follow-up rebalance hands it over; ``plan.settled()`` is the plan that is reached.

    ``plan.certificate`` has the figures, and bounds that no plan can beat which is as good in
    the figures before; `partage.judge.verify_certificate` proves both from the problem alone.
    By counts all gaps are 0. By weights (an NP-hard problem), with a limit of moves, or with
    "require", the plan is the best of all if it has at most 16 partitions (and not too many
    plans), otherwise the best found; the certificate says how far it may be from the optimum.
    Where the exact answer by counts would take more than some seconds, the plan is the best
    found too, and a warning says so.

    Claims are the subscription's owned partitions, of the newest generation where they contradict
    each other. In a group that runs the eager protocol members have none left when they join:
    there every plan is a fresh one.

    Cost: by counts O(P) on arrays for P partitions, and a flow whose size depends on how many
    members, kinds of subscriptions and sets of racks differ. By weights O(P log P), in Python.

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"t": 4})
    >>> group = Group([Member("a", ["t"], owned={"t": [0, 1, 2]}), Member("b", ["t"])])
    >>> plan = Optimal().assign(Problem(group, cluster))
    >>> plan.to_dict(), plan.settled().owner.tolist()
    ({'a': {'t': [0, 1]}, 'b': {'t': [3]}}, [0, 0, 1, 1])
    >>> dict(plan.certificate.figures), plan.certificate.gaps["moves"]
    ({'spread': 0, 'rack cost': 0, 'moves': 1, 'topic excess': 0}, 0)
    """

    settings: Settings = field(default_factory=Settings)

    name = "optimal"
    options = OPTIONS
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def configure(self, config: Mapping[str, object]) -> Optimal:
        """The same with settings; see the class.

        Raises:
            InvalidConfigError: a setting has the wrong type or range.
        """
        return replace(self, settings=self.settings.configured(config))

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The plan for this phase; takes any problem.

        ``plan.memory`` says for whom the withheld partitions are destined: the follow-up
        hands them over, and where moves are limited it moves nothing else.
        """
        question = Question(problem)
        racks = rack_costs(problem, self.settings)
        table = None if racks is None else racks.table(problem)
        family: Int64Array | None = None
        warnings = input_warnings(problem, self.settings)
        if self.settings.together != "no":
            family, apart = families(question, self.settings)
            warnings += apart
        promised = _promised(question, memory)
        limit = self.settings.max_moves
        if limit is not None:
            # The follow-up of a rebalance hands over; the limit was used up before.
            limit, forced = 0 if promised else limit, forced_moves(question)
            if forced > limit:
                warnings = (*warnings, _forced(forced, limit))
            limit = max(limit, forced)
        asked = _Asked(question, racks, table, family, promised, limit)
        if self.settings.together != "require" and not needs_loads(problem, self.settings):
            try:
                found = counted(question, table, family)
            except ProblemTooLargeError as e:
                warnings = (*warnings, f"{e}: this is the best plan found")
            else:
                proof = of_counts(question, found, racks, table)
                if limit is None or proof.figures["moves"] <= limit:
                    return _plan(question, found.owner, certificate=proof, warnings=warnings)
                if not promised:
                    return self._within(asked, limit, warnings)
        return self._by_loads(asked, warnings)

    def _within(self, asked: _Asked, limit: int, warnings: tuple[str, ...]) -> Plan:
        """Return the best plan by counts within the limit of moves."""
        question = asked.question
        try:
            found = limited(question, asked.table, asked.family, limit)
        except ProblemTooLargeError as e:
            return self._by_loads(asked, (*warnings, f"{e}: this is the best plan found"))
        proof = of_limited(question, found, asked.racks, asked.table, limit)
        if proof.optimal or question.size > MOST_ITEMS:
            return _plan(question, found.owner, certificate=proof, warnings=warnings)
        return self._by_loads(asked, warnings)

    def _by_loads(self, asked: _Asked, warnings: tuple[str, ...]) -> Plan:
        question = asked.question
        required = asked.family if self.settings.together == "require" else None
        weight = by_partition(question.problem, self.settings.weights or {})
        mine, scale = whole(weight[question.rows.partition])
        shares = shares_of(question, scale)
        plan = loaded(
            question, asked.table, mine, shares=shares, together=required,
            hints=asked.promised, tolerance=self._tolerance(mine, shares),
            most_moves=np.inf if asked.limit is None else asked.limit,
        )  # fmt: skip
        proof = of_loads(
            question, plan, weight=weight, scale=scale, shares=shares_of(question, 1.0),
            costs=asked.racks, table=asked.table, together=required, max_moves=asked.limit,
        )  # fmt: skip
        if not plan.complete:
            warnings = (*warnings, _unfinished(proof))
        return _plan(question, plan.owner, certificate=proof, warnings=warnings)

    def _tolerance(self, weight: NDArray[np.float64], shares: Shares) -> float:
        fraction = self.settings.tolerance
        if fraction is None:
            fraction = 0.0 if len(weight) <= MOST_ITEMS else 0.001
        return fraction * float(weight.sum()) / max(float(shares.speed.sum()), 1e-9)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """All that a plan depends on besides the settings."""

    question: Question
    racks: RackCosts | None
    table: RackTable | None
    family: Int64Array | None
    promised: Mapping[int, int]
    limit: int | None


@dataclass(frozen=True, slots=True)
class Promises:
    """What a plan withheld, and for whom: (topic, partition) -> member id."""

    destined: Mapping[tuple[str, int], str]


def _forced(forced: int, limit: int) -> str:
    return (
        f"{forced} partitions have to move, for nobody who owned them subscribes to them now: "
        f"more than the {limit} that may"
    )


def _unfinished(proof: Certificate) -> str:
    largest, least = proof.figures["largest"], proof.bounds["largest"]
    above = f", at most {largest / least - 1:.1%} above the best" if least > 0 else ""
    return (
        "the search by weight reached its limit of work before it ended: the largest load is "
        f"{largest:.6g}{above}"
    )


def _plan(question: Question, owner: Int32Array, **more: Any) -> Plan:
    plan = plan_of(question, owner, **more)
    if not len(plan.withheld):
        return plan
    names = [plan.index.name(p) for p in plan.withheld.tolist()]
    ids = [plan.members[m] for m in plan.destined.tolist()]
    return replace(plan, memory=Promises(dict(zip(names, ids, strict=True))))


def _promised(question: Question, memory: object) -> dict[int, int]:
    """Places by row of what was promised to members who are there, and nobody claims now."""
    if not isinstance(memory, Promises):
        return {}
    place = np.empty(question.members, np.int64)
    place[question.order] = np.arange(question.members)
    position = question.problem.group.position
    row_of = np.full(question.problem.index.partitions, -1, np.int64)
    row_of[question.rows.partition] = np.arange(question.size)
    out = {}
    for (topic, number), member in memory.destined.items():
        t = question.problem.cluster.topic(topic)
        p = question.problem.index.locate(t, number) if t >= 0 else -1
        row = int(row_of[p]) if p >= 0 else -1
        if row >= 0 and member in position and not question.claims.owned[row]:
            out[row] = int(place[position[member]])
    return out
