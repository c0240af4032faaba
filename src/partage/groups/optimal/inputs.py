"""What settings and members say, brought to arrays: loads, prices, families of topics."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.groups.optimal.question import Int64Array, Question
from partage.groups.optimal.settings import PREFIX, ByTopic, Settings
from partage.model import Problem, RackCosts

__all__ = ["by_partition", "families", "input_warnings", "needs_loads", "rack_costs"]

# Units of money: sums of costs times moves must stay far below what searching can add up.
_MOST_UNITS = 1 << 36


def by_partition(problem: Problem, values: ByTopic) -> NDArray[np.float64]:
    """float[P]: a number for each partition, the mean of all that are known for the others."""
    index = problem.index
    out = np.full(index.partitions, np.nan)
    for topic, of in values.items():
        mine = problem.cluster.partitions_of(topic)
        if isinstance(of, tuple):
            number = index.number_of[mine]
            known = number < len(of)
            out[mine[known]] = np.array(of, float)[number[known]]
        else:
            out[mine] = of
    unknown = np.isnan(out)
    out[unknown] = out[~unknown].mean() if not unknown.all() else 1.0
    return out


def input_warnings(problem: Problem, settings: Settings) -> tuple[str, ...]:
    """Return a warning for each topic that a setting names and that does not fit the cluster."""
    out: list[str] = []
    for key, values in (("weights", settings.weights), ("traffic", settings.traffic)):
        for topic, of in (values or {}).items():
            t = problem.cluster.topic(topic)
            if t < 0:
                out.append(_unknown(key, topic))
                continue
            numbers = problem.index.number_of[problem.cluster.partitions_of(t)]
            count = int(numbers.max(initial=-1)) + 1
            if isinstance(of, tuple) and len(of) != count:
                effect = "those without one count as the mean" if len(of) < count else "it is cut"
                out.append(
                    f"{PREFIX}{key}: the list of {topic!r} has {len(of)} numbers for {count} "
                    f"partitions; {effect}"
                )
    named = [topic for row in settings.copartitioned or () for topic in row]
    out += [_unknown("copartitioned", t) for t in named if problem.cluster.topic(t) < 0]
    return tuple(out)


def _unknown(key: str, topic: str) -> str:
    return f"{PREFIX}{key} names {topic!r}, which is not among the topics: ignored"


def needs_loads(problem: Problem, settings: Settings) -> bool:
    """Whether members are to have unequal shares, or partitions have unequal weights."""
    return settings.weights is not None or any(
        m.weight != 1.0 or m.capacity is not None for m in problem.group
    )


def rack_costs(problem: Problem, settings: Settings) -> RackCosts | None:
    """Costs across racks; None where they do not matter, or no member has a rack."""
    if not settings.racks or not any(m.rack for m in problem.group):
        return None
    if settings.prices is None:
        return RackCosts()
    traffic = None if settings.traffic is None else by_partition(problem, settings.traffic)
    dearest = max(settings.prices.values(), default=1.0)
    if traffic is not None:
        dearest *= float(traffic.max(initial=0.0))
    # A unit as small as the search can bear, a power of ten of money.
    room = _MOST_UNITS / (problem.index.partitions + 1)
    unit = 10.0 ** np.ceil(np.log10(dearest / room)) if dearest > 0 else 1.0
    return RackCosts(settings.prices, traffic, max(float(unit), 1e-6))


def families(question: Question, settings: Settings) -> tuple[Int64Array, tuple[str, ...]]:
    """int64[T]: a family for each topic position, -1 for one without; and warnings.

    Topics can only stay together if they have the same partition numbers and the same
    subscribers.
    """
    names = [question.problem.index.topics[t] for t in question.rows.topics.tolist()]
    named = {n: i for i, row in enumerate(settings.copartitioned or ()) for n in row}
    subscribers: list[list[int]] = [[] for _ in names]
    for s, topics in enumerate(question.topics_of):
        for t in topics.tolist():
            subscribers[t].append(s)
    number = question.problem.index.number_of[question.rows.partition]
    start = question.rows.start.tolist()
    found: dict[tuple[int, bytes, tuple[int, ...]], list[int]] = {}
    for t, name in enumerate(names):
        if settings.copartitioned is not None and name not in named:
            continue
        key = (
            named.get(name, 0), number[start[t] : start[t + 1]].tobytes(), tuple(subscribers[t])
        )  # fmt: skip
        found.setdefault(key, []).append(t)
    family = np.full(len(names), -1, np.int64)
    warnings = []
    lists = settings.copartitioned or ()
    for i, mine in enumerate(found.values()):
        name = names[mine[0]]
        if len(mine) > 1:
            family[np.array(mine)] = i
        elif name in named and len(lists[named[name]]) > 1:
            warnings.append(
                f"{name} has the partition numbers and the subscribers of none of the topics "
                "that it is to stay together with"
            )
    return family, tuple(warnings)
