"""What somebody who wrote a problem by hand may not have meant: said, and obeyed all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from partage.cli.consoles import first_of, name, show, tell
from partage.errors import PartageError

if TYPE_CHECKING:
    from partage.cli.assign import Answer
    from partage.groups.api import Strategy
    from partage.model import Cluster, Group

__all__ = ["ignored", "missing_topics", "settled", "show_withheld", "unread_claims", "warn"]


def missing_topics(group: Group, cluster: Cluster) -> list[str]:
    """A line for each topic that somebody subscribes to and the cluster does not have.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("c1", ["orders", "order"])])
    >>> missing_topics(group, Cluster.from_topics({"orders": 1}))
    ["c1 subscribes to 'order', which is not among the topics"]
    """
    known = set(cluster.index.topics)
    first: dict[str, str] = {}
    for member in group:
        for topic in member.topics:
            if topic not in known:
                first.setdefault(topic, member.id)
    return [f"{who} subscribes to {topic!r}, which is not among the topics"
            for topic, who in first.items()]  # fmt: skip


def ignored(strategy: Strategy, config: Mapping[str, object]) -> list[str]:
    """A line if a strategy was given settings that are not its own: it ignores them, as Kafka does.

    >>> from partage.groups.registry import find
    >>> ignored(find("optimal"), {"max.moves": "1"})
    ['optimal has no setting max.moves: ignored; see `partage strategies optimal`']
    >>> ignored(find("failover"), {"assignment.consumer.priority.orders": "1"})
    []
    """
    from partage.groups.registry import settings_of

    own = settings_of(strategy)
    if not own:
        if not config or strategy.configure(config) is not strategy:
            return []
        return [f"{strategy.name} has no settings: {', '.join(config)} ignored"]
    keys = {one.key for one in own}
    stems = tuple(key.removesuffix("<topic>") for key in keys if key.endswith(".<topic>"))
    return [
        f"{strategy.name} has no setting {key}: ignored; see `partage strategies {strategy.name}`"
        for key in config
        if key not in keys and not (stems and key.startswith(stems))
    ]


def unread_claims(found: Answer) -> list[str]:
    """A line if the strategy did not see who owns what, since it reads user data alone."""
    from partage.groups.rounds import rejoining
    from partage.model import Problem

    sent = rejoining(found.strategy, found.group, found.cluster)
    if sent == found.group:
        return []
    try:
        other = found.strategy.assign(Problem(sent, found.cluster))
    except PartageError:
        return []
    if other.to_pairs() == found.plan.to_pairs():
        return []
    what = "reads what members own from their userData, and there is none"
    return [f"{found.strategy.name} {what}; `partage compare` makes it from owned"]


def settled(found: Answer) -> dict[str, Any]:
    """For JSON: the plan after the second of two steps, where the first withholds something."""
    if not len(getattr(found.plan, "withheld", ())):
        return {}
    return {"settled": found.plan.settled().to_json()}  # type: ignore[attr-defined]  # a Plan


def show_withheld(found: Answer) -> None:
    """Under a plan: what a cooperative strategy gives to nobody yet, and who is to get it."""
    withheld = getattr(found.plan, "withheld", ())
    if not len(withheld):
        return
    settled = found.plan.settled()  # type: ignore[attr-defined]  # it withholds: a Plan
    now = {pair for pairs in found.plan.to_pairs().values() for pair in pairs}
    to_come = {
        member: sum(pair not in now for pair in pairs)
        for member, pairs in settled.to_pairs().items()
    }
    who = ", ".join(f"{count} to {member}" for member, count in to_come.items() if count)
    if who:
        told = "the first of two steps: what changes hands goes to nobody yet, and follows in the"
        show(name(f"{told} next rebalance ({who})", "dim"))


def warn(lines: list[str]) -> None:
    """On stderr, cut short where there are many."""
    for line in first_of(lines):
        tell(f"warning: {line}", "yellow")
