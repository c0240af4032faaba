"""Range and round-robin rules that several clients share; they only differ in member order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partage.groups.dialects.problem import PeerProblem
from partage.model import Plan, Problem

__all__ = ["assign_ranges", "assign_round_robin", "divide_into_ranges"]


def assign_ranges(problem: Problem, in_order: Callable[[Sequence[int]], list[int]]) -> Plan:
    """Return the plan of the range assignor of kafka-python or aiokafka, which ignores racks.

    A member that names a topic twice has two ranges. The second replaces the first, so that the
    partitions of the first have no owner.

    Args:
        problem: the problem.
        in_order: sorts a topic's subscribers as the client does; it may leave some out.
    """
    peer = PeerProblem(problem)
    lists: list[list[int]] = [[] for _ in problem.group]
    sorted_members: dict[tuple[int, ...], list[int]] = {}
    for k, subscribers in enumerate(peer.subscribers):
        subscriber_set = tuple(subscribers)
        if subscriber_set not in sorted_members:
            sorted_members[subscriber_set] = in_order(subscriber_set)
        members = sorted_members[subscriber_set]
        for member, slots in dict(divide_into_ranges(members, peer.slots_of(k))).items():
            lists[member].extend(slots)
    return peer.plan(lists)


def divide_into_ranges(members: Sequence[int], slots: range) -> list[tuple[int, range]]:
    """Divide a topic's partitions into consecutive ranges, one for each member.

    If the division leaves a remainder, the first members get one more partition. ``slots`` are the
    topic's partitions as numbers in this problem.
    """
    quota, extra = divmod(len(slots), len(members))
    first = slots.start
    ranges = []
    for i, member in enumerate(members):
        size = quota + (i < extra)
        ranges.append((member, range(first, first + size)))
        first += size
    return ranges


def assign_round_robin(peer: PeerProblem, members: Sequence[int]) -> Plan:
    """Return the round-robin plan: each partition goes to the next member in turn that subscribes
    to it.

    Args:
        peer: the problem.
        members: all members in the client's order.
    """
    topic_sets = peer.topic_sets
    lists: list[list[int]] = [[] for _ in peer.problem.group]
    turn = -1
    for slot, topic in enumerate(peer.topic_of_slot):
        turn = (turn + 1) % len(members)
        while topic not in topic_sets[members[turn]]:
            turn = (turn + 1) % len(members)
        lists[members[turn]].append(slot)
    return peer.plan(lists)
