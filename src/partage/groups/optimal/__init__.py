"""The strategy `optimal`: a plan with a documented objective, and a certificate with every plan.

* `strategy`: the objective, and which of the solvers below a problem needs;
* `settings`: the configuration, and its values by partition, topic and rack;
* `problem`: the problem in a canonical order, the newest claims, and equivalence classes;
* `count_balance`: the best plan by counts (minimum-cost flow);
* `move_limit`: the best plan by counts within a limit of moves (Lagrangian relaxation);
* `weight_balance`: a good plan by weights (local search, tabu search, branch and bound);
* `topic_spread`: the last criterion, each topic spread over its subscribers (2-exchange), and by
  counts the most even spread (convex-cost flow, cycle canceling);
* `certificate`: criteria's values ("figures"), bounds that no plan can beat, and their proofs.
"""

from __future__ import annotations

from partage.groups.optimal.strategy import Optimal

__all__ = ["Optimal"]
