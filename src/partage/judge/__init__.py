"""The judge: is a plan valid, and how good is it? It knows no strategy and no solver.

Which file answers what: `rules` has every way in which an assignment can be wrong,
`measures` the figures, `certificates` verifies what somebody claims to be the best, `optimality`
what a plan claims of itself, `facts` and `ownership` bring problem, plan and claims into arrays.
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
