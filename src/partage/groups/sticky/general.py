"""The algorithm for subscriptions that differ: fill, then move while that evens out loads."""

from __future__ import annotations

import numpy as np

from partage.groups.sticky.balancing import Balancing
from partage.groups.sticky.claims import Claimed
from partage.groups.sticky.decision import Decision, by_member
from partage.groups.sticky.listed import Listed
from partage.groups.sticky.racks import Racks
from partage.groups.sticky.scan import Owned
from partage.groups.sticky.scene import Scene
from partage.groups.sticky.table import Table, laid

__all__ = ["general"]


def general(
    scene: Scene, claimed: Claimed, owned: Owned, racks: Racks, max_generation: int
) -> Decision:
    """Kafka's ``GeneralAssignmentBuilder``.

    Raises:
        JavaRefusal: claims of partitions that a member may not own led the class to an error.
    """
    table = laid(scene, claimed, owned, racks, max_generation)
    regular = scene.counted and not (table.spot >= claimed.spots.real).any()
    if not regular:
        decision = Listed(table).decide()
        return decision if decision.loop is None else Listed(table, watch=True).decide()
    return _decided(table)


def _decided(table: Table) -> Decision:
    """Run the algorithm; where its class never returns, run it again to find its best plan.

    Watching each move costs time, and problems without a loop need none of it.
    """
    balancing = Balancing(table)
    balancing.fill()
    balancing.even_out()
    if balancing.loop is not None:
        balancing = Balancing(table)
        balancing.fill()
        balancing.even_out(watch=True)
    owner, seq = balancing.owner, balancing.seq
    given = np.flatnonzero(owner >= 0)
    given = given[np.argsort(seq[given], kind="stable")]
    start, order = by_member(table.scene.members, owner[given])
    return Decision(start, given[order].astype(np.int32), table.claimed.spots, loop=balancing.loop)
