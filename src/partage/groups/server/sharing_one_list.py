"""Simple where all members subscribe alike: all partitions are one list."""

from __future__ import annotations

import numpy as np

from partage.groups.server.answer import Answer
from partage.groups.server.sharing import Shares, roomy_table, wanted
from partage.groups.server.sharing_result import SharingResult
from partage.groups.server.spec import GroupSpec

__all__ = ["share_one_list"]


def share_one_list(spec: GroupSpec) -> Answer:
    """Kafka's ``SimpleHomogeneousAssignmentBuilder``; the group has members.

    Raises:
        CoordinatorRefusal: a topic's partition count is unknown, or the members run out,
            which takes an old partition that may no longer be assigned (Q23).
    """
    topics, names = spec.named(int(spec.problem.group.subscription_of[spec.visit[0]]))
    if not names:
        return Answer.nothing(spec)
    _, partition = spec.partitions_of(topics)
    if spec.assignable is not None:
        partition = partition[spec.assignable[partition]]
    index = spec.problem.index
    hashes = spec.ids.hashes.astype(np.int64)
    key = (31 * hashes[index.topic_of] + index.number_of) & 0xFFFFFFFF
    target = partition.tolist()
    result = SharingResult(spec, only=frozenset(topics.tolist()))
    shares = Shares(result.give, result.take, key.tolist().__getitem__, roomy_table(len(target)))
    sharing, wants = wanted(spec.members, len(target))
    overfilled = []
    for member, sets in enumerate(result.old):
        for _, partitions in sets:
            for p in partitions:
                shares.enter(member, p)
        has = len(shares.by_member.get(member, ()))
        if has < wants[member]:
            shares.unfilled.add(member)
        elif has > wants[member]:
            overfilled.append(member)
    shares.cut_members(overfilled, wants.__getitem__)
    shares.cut_partitions(sharing)
    for p in target:
        shares.key(p)
    shares.hand_out(sharing, wants.__getitem__)
    return result.answer()
