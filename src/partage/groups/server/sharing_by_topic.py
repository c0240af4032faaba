"""Simple where subscriptions differ: each topic is shared out among its subscribers."""

from __future__ import annotations

from partage.groups.server.answer import Answer
from partage.groups.server.sharing import Shares, roomy_table, wanted
from partage.groups.server.sharing_result import SharingResult
from partage.groups.server.spec import GroupSpec
from partage.javaorder import hash_order

__all__ = ["share_by_topic"]


def share_by_topic(spec: GroupSpec) -> Answer:
    """Kafka's ``SimpleHeterogeneousAssignmentBuilder``; the group has members.

    Old topics that nobody subscribes to any more stay with who had them (Q24).

    Raises:
        CoordinatorRefusal: a topic's partition count is unknown, or the members run out,
            which takes an old partition that may no longer be assigned (Q23).
    """
    subscribers = _subscribers(spec)
    if not subscribers:
        return Answer.nothing(spec)
    result = SharingResult(spec)
    hashes = spec.ids.hashes
    topics = list(subscribers)
    walked = [topics[i] for i in hash_order([int(hashes[t]) for t in topics])]
    for topic in walked:
        _share(spec, result, topic, subscribers[topic])
    return result.answer()


def _subscribers(spec: GroupSpec) -> dict[int, list[int]]:
    """Member numbers by topic; topics as they are met, member after member."""
    group = spec.problem.group
    named = [spec.named(i)[0] for i in range(len(group.subscriptions))]
    for topics in named:
        spec.refuse_uncounted(topics)
    out: dict[int, list[int]] = {}
    for number, member in enumerate(spec.visit):
        for topic in named[int(group.subscription_of[member])].tolist():
            out.setdefault(topic, []).append(number)
    return out


def _share(spec: GroupSpec, result: SharingResult, topic: int, subscribers: list[int]) -> None:
    first, count, dense = spec.numbered
    target = dense[first[topic] : first[topic] + count[topic]]
    if spec.assignable is not None:
        target = target[spec.assignable[target]]
    sharing, numbers = wanted(len(subscribers), len(target))
    wants = dict(zip(subscribers, numbers, strict=True))
    number_of = spec.problem.index.number_of
    shares = Shares(result.give, result.take, lambda p: int(number_of[p]), roomy_table(len(target)))
    for member, sets in enumerate(result.old):
        for its, partitions in sets:
            if its == topic:
                for p in partitions:
                    shares.enter(member, p)
    held = list(shares.by_member)
    order = hash_order(held, table=roomy_table(len(subscribers)), compute_if_absent=True)
    shares.cut_members([held[i] for i in order], lambda m: wants.get(m, 0))
    shares.cut_partitions(sharing)
    shares.unfilled = {m for m in subscribers if len(shares.by_member.get(m, ())) < wants[m]}
    for p in target.tolist():
        shares.key(p)
    shares.hand_out(sharing, wants.__getitem__)
