"""Loads learnt from what members and brokers report, held still against noise. Pure.

`measures` makes loads of offsets; `holding` decides when a new load is worth believing.
"""

from __future__ import annotations

from partage.weights.holding import BAND, LARGEST_LOAD, hold, is_load, known
from partage.weights.measures import lags, rates

__all__ = ["BAND", "LARGEST_LOAD", "hold", "is_load", "known", "lags", "rates"]
