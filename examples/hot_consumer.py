"""One consumer gets most partitions. Which strategy is even, and what would the change cost?

Run: python examples/hot_consumer.py
"""

from __future__ import annotations

import partage as pg


def main() -> None:
    """A group of four on three topics, one member of which reads two topics more."""
    cluster = pg.Cluster.from_topics({"orders": 6, "clicks": 6, "mails": 6, "audit": 2, "eu": 2})
    shared = ["orders", "clicks", "mails"]
    group = pg.Group(
        [
            pg.Member("c1", topics=[*shared, "audit", "eu"]),
            pg.Member("c2", topics=shared),
            pg.Member("c3", topics=shared),
            pg.Member("c4", topics=shared),
        ]
    )
    had = pg.assign("range", group, cluster)
    print("before, by range:", {m: sum(map(len, t.values())) for m, t in had.to_dict().items()})
    owning = pg.Group([m.replaced(owned=had.to_dict()[m.id], generation=1) for m in group])
    print()
    print(pg.compare(owning, cluster))
    best = pg.measure(had, owning, cluster)
    print()
    print(f"proven: no plan has a smaller spread than {best.best_spread},")
    print(f"and {best.fewest_moves_to_best} moves are the fewest that reach it")


if __name__ == "__main__":
    main()
