"""Which partitions nobody read for a while in a recorded rebalance."""

from __future__ import annotations

from partage.history.classic import Generation
from partage.history.ownership import assigned_pairs
from partage.history.records import ClassicState

__all__ = ["stopped_pairs"]


def stopped_pairs(found: Generation) -> frozenset[tuple[str, int]]:
    """(topic, partition) pairs that stopped: all that were read before in an eager rebalance,
    otherwise those that changed hands.

    Members that go on reading while they join again say what they have; eager ones have let go
    of it. In the consumer protocol only what moves ever stops.
    """
    before = _owners(found.previous.last) if found.previous is not None else {}
    now = _owners(found.first)
    claims = any(m.subscription and m.subscription.owned for m in found.first.members)
    if found.protocol == "classic" and not claims:
        return frozenset(before)
    return frozenset(pair for pair, owner in before.items() if now.get(pair) != owner)


def _owners(state: ClassicState) -> dict[tuple[str, int], str]:
    return {pair: m.owner for m in state.members for pair in assigned_pairs(m)}
