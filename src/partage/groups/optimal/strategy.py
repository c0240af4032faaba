"""The strategy itself: its objective, its settings, and the certificate of its plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from partage.groups.api import RebalanceProtocol
from partage.groups.base import PlainStrategy
from partage.groups.optimal.answer import moves_of, plan_of, rack_cost_of, target_of
from partage.groups.optimal.counts import counted
from partage.groups.optimal.inputs import families, rack_costs
from partage.groups.optimal.question import Int64Array, Question
from partage.groups.optimal.settings import Settings
from partage.model import Certificate, Plan, Problem

__all__ = ["Optimal"]


@dataclass(frozen=True, repr=False)
class Optimal(PlainStrategy):
    """The most even loads, then the fewest rack mismatches, then the fewest moves: all proven.

    1. valid: every partition that somebody subscribes to has one owner, who does;
    2. the most even loads: counts are least-majorised (no plan has a smaller largest, a
       larger smallest or a smaller sum of squares);
    3. the fewest rack mismatches;
    4. the fewest moves from the owned partitions: when nothing changed nothing moves, and
       when a member leaves only its partitions do, unless balance needs more;
    5. then a choice that neither join order nor hash seed changes.

    It is cooperative: what changes hands is with nobody in this plan (``plan.withheld``), and
    the follow-up rebalance hands it over; ``plan.settled()`` is the plan that is reached.
    ``plan.certificate`` has the figures and the bounds that no plan can beat;
    `partage.judge.verify_certificate` proves it from the problem alone.

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"t": 4})
    >>> group = Group([Member("a", ["t"], owned={"t": [0, 1, 2]}), Member("b", ["t"])])
    >>> plan = Optimal().assign(Problem(group, cluster))
    >>> plan.to_dict(), plan.settled().owner.tolist()
    ({'a': {'t': [0, 1]}, 'b': {'t': [3]}}, [0, 0, 1, 1])
    >>> dict(plan.certificate.figures), plan.certificate.gaps["moves"]
    ({'spread': 0, 'rack cost': 0, 'moves': 1}, 0)
    """

    settings: Settings = field(default_factory=Settings)

    name = "optimal"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def configure(self, config: Mapping[str, object]) -> Optimal:
        """The same with settings; see the class.

        Raises:
            InvalidConfigError: a setting has the wrong type or range.
        """
        return replace(self, settings=self.settings.configured(config))

    def assign(self, problem: Problem, memory: object = None) -> Plan:  # noqa: ARG002
        """The plan for this phase.

        Raises:
            ProblemTooLargeError: the exact answer would take too long.
        """
        question = Question(problem)
        costs = rack_costs(problem, self.settings)
        table = None if costs is None else costs.table(problem)
        family: Int64Array | None = None
        warnings: tuple[str, ...] = ()
        if self.settings.together != "no":
            family, warnings = families(question, self.settings)
        found = counted(question, table, family)
        loads = np.bincount(found.owner, minlength=question.members)[question.takes_part]
        figures = {
            "spread": int(loads.max() - loads.min()) if len(loads) else 0,
            "rack cost": 0 if table is None else rack_cost_of(question, table, found.owner),
            "moves": moves_of(question, found.owner),
        }
        price = np.zeros(question.members, np.int64)
        price[question.order] = found.price
        level = np.zeros(len(problem.index.topics), np.int64)
        level[question.rows.topics] = found.topic_level
        proof = Certificate(
            target_of(question, found.owner), "counts", figures, figures,
            topic_level=level, price=price, racks=costs, rack_weight=found.rack_weight,
        )  # fmt: skip
        return plan_of(question, found.owner, certificate=proof, warnings=warnings)
