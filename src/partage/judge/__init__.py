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
from partage.judge.ownership import Before, Held, before, held
from partage.judge.rules import Breach, BreachKind, check

__all__ = [
    "Before",
    "Breach",
    "BreachKind",
    "ClaimedBest",
    "ClaimedFewest",
    "Facts",
    "Held",
    "Measures",
    "before",
    "check",
    "held",
    "measure",
    "verify_certificate",
    "verify_load_certificate",
    "verify_moves_certificate",
]
