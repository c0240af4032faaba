"""Kafka's sticky consumer assignors (KIP-54, KIP-429, KIP-881), exact to Kafka 4.3.1.

`api` has the two strategies and the order of their steps. `problem` numbers topics, members and
slots (partitions, also claimed ones that do not exist) and has their racks. `claims` decodes claims
(partitions that a member says it owns) and resolves conflicts between them. `constrained` is
Kafka's algorithm for equal subscriptions, `general` (with its input `general_problem`) the one for
different subscriptions; `kernels` has their inner loops. `decision` converts a result into a plan.
`quirks` has Kafka's defects and inputs that no real client sends.
"""

from __future__ import annotations

from partage.groups.sticky.api import CooperativeSticky, Sticky, StickyMemory
from partage.groups.sticky.claims import decode_user_data
from partage.groups.sticky.decision import StickyAssignorError

__all__ = ["CooperativeSticky", "Sticky", "StickyAssignorError", "StickyMemory", "decode_user_data"]
