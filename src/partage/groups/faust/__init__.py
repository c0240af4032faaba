"""Faust's assignor, and the one that Faust's design document describes.

Both strategies share `strategy` (the steps of an assignment and the members' user data), `inputs`
(copartitioned topics, previous assignments, warnings), `plan` (what workers receive) and
`settings`. ``faust`` is `stock`, the algorithm of faust-streaming. ``faust:copartitioned`` is
`copartitioned`: a minimum-cost flow assigns active members, a greedy placement their standbys.
"""

from __future__ import annotations

from partage.groups.faust.copartitioned import FaustCopartitioned
from partage.groups.faust.plan import CopartitionedAssignment, FaustPlan
from partage.groups.faust.stock import Faust

__all__ = ["CopartitionedAssignment", "Faust", "FaustCopartitioned", "FaustPlan"]
