"""Living it again: what a group's recorded causes would have led to under another policy.

Pure: no files, no clock, no chance. Which file answers what: `policies` is how a group could be
run, by name; `living` the two questions that a job asks, and what it needs to ask them
anywhere. `scenes` says where each recorded rebalance begins, `absences` who was away and came
back. `per_rebalance` lives each rebalance by itself, `cumulative` all of them in a row, by the
clock of `loop`; `rounds` is one rebalance of either, `consumers` what members hold, remember and
send, `reading` who reads what in between. `stopped`, `rereads` and `loads` are the costs, from
the `evidence` of commits; `costs` and `rows` put them together, `lived` is what comes out, and
`judging` measures plans, each question solved once for all policies.
"""

from __future__ import annotations
