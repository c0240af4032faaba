"""The strategy `optimal`: a stated objective, and a proof with every plan.

Which file answers what: `strategy` is the strategy and its settings, `question` the problem
in an order that joining does not change, `counts` the best plan by counts.
"""

from __future__ import annotations

from partage.groups.optimal.strategy import Optimal

__all__ = ["Optimal"]
