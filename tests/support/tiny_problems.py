"""Problems small enough to try every plan, and slow, obvious answers to hold ours against.

Nothing here uses the judge or the solver: names and dictionaries only.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, product

from hypothesis import strategies as st

import partage as pg

TOPICS = "abcd"
RACKS = [None, "", "r1", "r2"]


@dataclass(frozen=True)
class Tiny:
    topics: dict[str, list[list[str | None]]]
    group: pg.Group

    @property
    def cluster(self) -> pg.Cluster:
        return pg.Cluster.from_topics(self.topics)

    @property
    def partitions(self) -> list[tuple[str, int]]:
        return [(t, p) for t, racks in self.topics.items() for p in range(len(racks))]

    def eligible(self, topic: str) -> list[str]:
        return [m.id for m in self.group if topic in m.topics]

    @property
    def open(self) -> list[tuple[str, int]]:
        return [(t, p) for t, p in self.partitions if self.eligible(t)]

    @property
    def taking_part(self) -> list[str]:
        return [m.id for m in self.group if any(self.topics.get(t) for t in m.topics)]

    def plans(self):
        """Every valid plan: {(topic, partition): member}."""
        for owners in product(*[self.eligible(t) for t, _ in self.open]):
            yield dict(zip(self.open, owners, strict=True))

    def keepers(self) -> dict[tuple[str, int], set[str]]:
        """The claimants of the highest generation, for each claimed partition.

        Claims of members that do not subscribe to the topic only count if there are no others.
        """
        out = {}
        for tp in self.partitions:
            claims = [
                ((tp[0] in m.topics, m.generation), m.id) for m in self.group if tp in list(m.owned)
            ]
            newest = max((rank for rank, _ in claims), default=None)
            if claims:
                out[tp] = {m for rank, m in claims if rank == newest}
        return out


def loads_of(plan, members) -> list[int]:
    """Sorted loads, largest first."""
    owners = list(plan.values())
    return sorted((owners.count(m) for m in members), reverse=True)


def moved(plan, keepers) -> int:
    return sum(1 for tp, m in plan.items() if tp in keepers and m not in keepers[tp])


def majorised(loads, by) -> bool:
    """Both sorted, largest first, of equal length and sum."""
    return all(a <= b for a, b in zip(accumulate(loads), accumulate(by), strict=True))


def as_plan(tiny: Tiny, plan) -> pg.Plan:
    pairs = {m.id: [tp for tp, owner in plan.items() if owner == m.id] for m in tiny.group}
    return pg.Plan.of(tiny.cluster.index, pairs)


@st.composite
def tiny_problems(draw) -> Tiny:
    """At most 4 members, 4 topics and 7 partitions; claims contradict each other at times."""
    left = 7
    topics = {}
    for name in TOPICS[: draw(st.integers(1, 4))]:
        count = draw(st.integers(0, min(3, left)))
        left -= count
        racks = st.lists(st.sampled_from(["r1", "r2", "r3", None]), max_size=2)
        topics[name] = [draw(racks) for _ in range(count)]
    known = [(t, p) for t, racks in topics.items() for p in range(len(racks))]
    claims = st.lists(st.sampled_from([*known, ("a", 9), ("gone", 0)]), max_size=5)
    names = st.lists(st.sampled_from([*topics, "gone"]), max_size=4)
    members = [
        pg.Member(
            f"m{i}",
            draw(names),
            rack=draw(st.sampled_from(RACKS)),
            owned=draw(claims),
            generation=draw(st.sampled_from([3, 3, 3, 4, -1])),
        )
        for i in range(draw(st.integers(1, 4)))
    ]
    return Tiny(topics, pg.Group(members))


@st.composite
def tiny_plans(draw) -> tuple[Tiny, dict[tuple[str, int], str]]:
    """A tiny problem and one of its valid plans."""
    tiny = draw(tiny_problems())
    plan = {tp: draw(st.sampled_from(tiny.eligible(tp[0]))) for tp in tiny.open}
    return tiny, plan
