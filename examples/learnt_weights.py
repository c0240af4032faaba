"""A skewed topic: what a plan by learnt loads does for the hottest consumer, and what noise does.

Three consumers read twelve partitions, one of which has 39 % of all records. This plays what
happens inside `assignor("optimal", weights="throughput")`, without a broker: members measure,
weights are held still, the leader balances them.
"""

from __future__ import annotations

import random

import partage as pg
from partage.groups import registry
from partage.weights import update_weights

MEMBERS = ("c1", "c2", "c3")


def main() -> None:
    """Plans by counts, then by loads, then twenty times by loads that waver by a tenth."""
    chance = random.Random(1)  # noqa: S311 - seeded on purpose
    load = [1000.0 / (p + 1) ** 1.2 for p in range(12)]
    cluster = pg.Cluster.from_topics({"clicks": len(load)})

    def hottest(owned: dict[str, dict[str, list[int]]]) -> float:
        of = [sum(load[p] for p in mine.get("clicks", [])) for mine in owned.values()]
        return max(of) / sum(of)

    group = pg.Group([pg.Member(m, topics=["clicks"]) for m in MEMBERS])
    owned = pg.assign("optimal", group, cluster).to_dict()
    print(f"by counts, the hottest consumer has {hottest(owned):.0%} of all records")
    weights: dict[tuple[str, int], float] = {}
    moved = []
    for _ in range(21):
        wavering = {("clicks", p): x * chance.uniform(0.9, 1.1) for p, x in enumerate(load)}
        weights = update_weights(weights, wavering)
        config = {
            "assignment.optimal.weights": {"clicks": [weights["clicks", p] for p in range(12)]},
            "assignment.optimal.tolerance": 0.05,
        }
        members = [pg.Member(m, topics=["clicks"], owned=owned[m], generation=1) for m in MEMBERS]
        plan = pg.assign(registry.find("optimal").configure(config), pg.Group(members), cluster)
        now = plan.settled().to_dict()
        gained = (set(now[m].get("clicks", [])) - set(owned[m].get("clicks", [])) for m in MEMBERS)
        moved.append(sum(map(len, gained)))
        owned = now
    print(f"by learnt loads, {hottest(owned):.0%}: {moved[0]} partitions moved once")
    print(f"moved by twenty rebalances with loads that waver by a tenth: {sum(moved[1:])}")


if __name__ == "__main__":
    main()
