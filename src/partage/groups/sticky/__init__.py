"""Kafka's sticky consumer assignors (KIP-54, KIP-429, KIP-881), exact to Kafka 4.3.1.

A claim is a partition that a member says it owns. A slot is a partition's number in a problem;
claimed partitions that do not exist have one too.

    api               the two strategies, and the order of their steps; start here
    problem           numbers of topics, members and slots; racks
    claims            decodes claims, and resolves conflicts between them
    constrained       Kafka's algorithm for equal subscriptions
    general_problem   the claims that stay, and unassigned slots: input of `general`
    general           Kafka's algorithm for different subscriptions
    kernels           the inner loops of both
    decision          a result, and its conversion to a plan
    quirks            Kafka's defects, and inputs that no real client sends
"""

from __future__ import annotations

from partage.groups.sticky.api import CooperativeSticky, Sticky, StickyMemory
from partage.groups.sticky.claims import decode_user_data
from partage.groups.sticky.decision import StickyAssignorError

__all__ = ["CooperativeSticky", "Sticky", "StickyAssignorError", "StickyMemory", "decode_user_data"]
