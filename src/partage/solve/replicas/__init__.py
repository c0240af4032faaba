"""Placement of replicas on brokers, for `partage reassign`: few bytes moved, balance first.

The order in which `partage.api.reassignments` uses the modules:

1. `local_search` (`place_replicas`): a placement by penalty-based local search. `sweeps` constructs
   it (`place_initially`) and moves single replicas (`sweep_partitions`), `swaps` exchanges pairs,
   `penalties` has the schedule by which penalties rise, `problem` the search state.
2. `leaders`: preferred-leader balancing. `disks`: disk placement.
3. `bounds`: prices that prove a lower bound of each figure, by a subgradient method.
4. `exact`: the integer programme of small tasks, with HiGHS. For larger ones, with HiGHS too:
   `disjunctive`, which gives large partitions their brokers and proves a bound; `dual`, the
   Lagrangian dual by the boxstep method; `diving`, which fixes large partitions one by one where
   rounding the dual's optimum ends far from the bound; `repair`, fix-and-optimise. The local
   search makes the first plan of all and mends the bands that rounding misses.

`partage.judge.replicas` verifies every plan and every bound.
"""
