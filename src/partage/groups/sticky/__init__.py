"""The sticky family of Kafka's consumer (KIP-54, KIP-429, KIP-881), exact to 4.3.1.

`api` has the strategies and is the table of contents. `problem` numbers topics, members and
slots (partitions, also claimed ones that do not exist) and has their racks; `claims` reads claims
and resolves conflicts. `constrained` is the algorithm for equal subscriptions, `general` (with
`general_problem`, its input) the one for others, `kernels` their inner loops. `decision` turns a
result into a plan. `quirks` has Kafka's defects and impossible inputs.
"""

from __future__ import annotations

from partage.groups.sticky.api import CooperativeSticky, Sticky, StickyMemory
from partage.groups.sticky.decision import StickyAssignorError

__all__ = ["CooperativeSticky", "Sticky", "StickyAssignorError", "StickyMemory"]
