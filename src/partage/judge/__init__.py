"""The judge: it decides whether an assignment is valid, and how good it is.

It knows no strategy and no solver.

* `rules`: every way in which an assignment can be wrong;
* `measures`: the figures of an assignment, avoidable moves included;
* `certificates`: verification of claims about the best loads and the fewest moves;
* `optimality`: verification of a plan's certificate;
* `loadbounds`: the same for plans by weight;
* `facts`, `ownership`: problem, entries and previous owners as arrays;
* `replicas`, `replica_bounds`: plans of replicas on brokers.
"""

from __future__ import annotations

from partage.judge.certificates import (
    ClaimedBest,
    ClaimedFewest,
    verify_load_certificate,
    verify_moves_certificate,
)
from partage.judge.facts import Facts
from partage.judge.measures import Measures, measure
from partage.judge.optimality import verify_certificate
from partage.judge.ownership import AssignmentEntries, PreviousOwners, entries_of, previous_owners
from partage.judge.rules import Breach, BreachKind, check

__all__ = [
    "AssignmentEntries",
    "Breach",
    "BreachKind",
    "ClaimedBest",
    "ClaimedFewest",
    "Facts",
    "Measures",
    "PreviousOwners",
    "check",
    "entries_of",
    "measure",
    "previous_owners",
    "verify_certificate",
    "verify_load_certificate",
    "verify_moves_certificate",
]
