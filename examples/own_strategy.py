"""A strategy of one's own: whole topics, each to one member, as some caches want it.

A package of yours makes it known to Partage (and to every command) in its pyproject.toml:

    [project.entry-points."partage.strategies"]
    whole-topics = "your_package:WholeTopics"

Run: python examples/own_strategy.py
"""

from __future__ import annotations

import partage as pg
from partage.groups.api import PlainStrategy
from partage.model import Plan, Problem


class WholeTopics(PlainStrategy):
    """Each topic, largest first, to the subscriber with the fewest partitions so far."""

    name = "whole-topics"

    def assign(self, problem: Problem, memory: object = None) -> Plan:  # noqa: ARG002 - the contract has it
        """Members and topics are numbers here; names come back at the end."""
        cluster = problem.cluster
        lists: list[list[int]] = [[] for _ in problem.group]
        topics = problem.subscribed_topics.tolist()
        for topic in sorted(topics, key=lambda t: (-len(cluster.partitions_of(t)), t)):
            members = problem.members_of(topic).tolist()
            lightest = min(members, key=lambda m: (len(lists[m]), problem.group[m].id))
            lists[lightest] += cluster.partitions_of(topic).tolist()
        plan: Plan = Plan.from_lists(problem.index, problem.group.ids, lists)
        return plan


def main() -> None:
    """Use it as any other: the judge knows no strategy."""
    cluster = pg.Cluster.from_topics({"orders": 6, "clicks": 3, "mails": 2})
    group = pg.Group([pg.Member(m, topics=["orders", "clicks", "mails"]) for m in ("c1", "c2")])
    plan = pg.assign(WholeTopics(), group, cluster)
    print(plan.to_dict())
    print("breaches:", pg.check(plan, group, cluster))
    print("spread:", pg.measure(plan, group, cluster).spread)


if __name__ == "__main__":
    main()
