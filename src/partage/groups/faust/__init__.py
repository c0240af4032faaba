"""Faust's assignor, and the one that its design document describes.

`strategy.py` is the stock assignor and `dealing.py` its rule; `copartitioned.py` is ours, after
the document. What both share: what members say (`members.py`), which topics go together
(`bundles.py`), and how a plan becomes what workers read (`plan.py`).
"""

from __future__ import annotations

from partage.groups.faust.copartitioned import FaustCopartitioned
from partage.groups.faust.plan import FaustPlan
from partage.groups.faust.strategy import Faust

__all__ = ["Faust", "FaustCopartitioned", "FaustPlan"]
