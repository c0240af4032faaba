"""The strategy `optimal`: a stated objective, and a proof with every plan.

Which file answers what: `strategy` is the strategy, `settings` and `inputs` what it is
told, `question` the problem in an order that joining does not change, `counts` the best plan by
counts, `loads` a good one by weights, `proof` their certificates, `answer` the plan.
"""

from __future__ import annotations

from partage.groups.optimal.strategy import Optimal

__all__ = ["Optimal"]
