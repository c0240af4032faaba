"""Assignment of partitions to members: network flows, bounds and a local search, on arrays.

Problems and engine:

* `problem`: eligible topics, previous owners, and their equivalence classes;
* `network`: maximum flow (Dinic) and minimum-cost flow (primal-dual successive shortest paths);
* `staircase`: a part of a network that bounds the sorted loads (Gale and Ryser).

Equal partitions, solved exactly:

* `even_loads`: the least-majorised loads, by recursive minimum cuts;
* `fewest_moves`: the fewest moves to loads at least as even as given ones;
* `cheapest_plan`: the least cost with such loads, for integer costs such as rack costs;
* `limited_moves`: the most even loads within a limit of moves.

Weighted partitions, an NP-hard problem:

* `bounds`: lower bounds of the largest load, and the fractional relaxation;
* `weighted_plan`: the state of a plan, and the gain of each candidate step;
* `local_search`: first plans (Graham's LPT rule) and steps of one transfer or one swap;
* `tabu_search`: the least largest load within a limit of moves (tabu search);
* `branch_and_bound`: the optimum of problems of at most 16 items.
"""
