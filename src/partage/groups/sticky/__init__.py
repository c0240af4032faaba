"""The sticky family of Kafka's consumer: KIP-54 and KIP-429, exact to 4.3.1.

Which file answers what: `strategies` is the contract, `claims` reads what members say they
own, `scene` numbers what the algorithms work on, `scan` settles claims and chooses the
algorithm, `constrained` and `constrained_racks` are the one for equal subscriptions,
`general` the one for the others (`balancing` its kernels, `listed` its form for claims that
break its assumptions), `cooperative` takes back what has to change hands.
"""

from __future__ import annotations

from partage.groups.sticky.api import CooperativeSticky, Sticky, StickyMemory
from partage.groups.sticky.decision import JavaRefusal

__all__ = ["CooperativeSticky", "JavaRefusal", "Sticky", "StickyMemory"]
