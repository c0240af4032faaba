"""Partitions that change hands in a decision of the sticky algorithms, by name."""

from __future__ import annotations


def transfer_rows(decision, sticky):
    """Return sorted (topic, partition, new owner); None after the general algorithm."""
    if decision.transfers is None:
        return None
    slots = decision.slots
    names = [sticky.problem.index.topics[t] for t in sticky.topics.tolist()]
    ids = sticky.problem.group.ids
    # Java's map has the last owner of a slot that was assigned twice.
    last = dict(
        zip(decision.transfers.slot.tolist(), decision.transfers.member.tolist(), strict=True)
    )
    rows = sorted((int(slots.sort_keys[s]), s, m) for s, m in last.items())
    return [(names[slots.topic[s]], int(slots.number[s]), ids[m]) for _, s, m in rows]
