"""The judge: it decides whether an assignment is valid, how good it is, and how far from optimal.

It knows no strategy and no solver. A *figure* is a measured value of an assignment, such as its
spread or its moves.

* `rules`: every way in which an assignment can be wrong (`check`);
* `measures`: the figures of an assignment, including avoidable moves (`Measures`, `measure`);
* `count_bounds`: verification of the two claims behind avoidable moves: the most even loads, and
  the fewest moves to loads at least as even;
* `plan_certificate`: verification of the certificate of a plan of strategy `optimal`;
* `facts`, `ownership`: problem, entries and previous owners as arrays;
* `replicas`: rules, figures and bounds of a reassignment, with `replica_bounds` (lower bounds from
  dual prices) and `rack_breaches` (fewest breaches of the rack rule).
"""

from __future__ import annotations

from partage.judge.count_bounds import (
    ClaimedBest,
    ClaimedFewest,
    even_loads_of_equal_members,
    fewest_moves_of_equal_members,
    verify_load_certificate,
    verify_moves_certificate,
)
from partage.judge.facts import Facts
from partage.judge.measures import Measures, measure, member_loads
from partage.judge.ownership import (
    AssignmentEntries,
    PreviousOwners,
    assignment_entries,
    previous_owners,
)
from partage.judge.plan_certificate import verify_certificate
from partage.judge.rules import Breach, BreachKind, check, count_breaches

__all__ = [
    "AssignmentEntries",
    "Breach",
    "BreachKind",
    "ClaimedBest",
    "ClaimedFewest",
    "Facts",
    "Measures",
    "PreviousOwners",
    "assignment_entries",
    "check",
    "count_breaches",
    "even_loads_of_equal_members",
    "fewest_moves_of_equal_members",
    "measure",
    "member_loads",
    "previous_owners",
    "verify_certificate",
    "verify_load_certificate",
    "verify_moves_certificate",
]
