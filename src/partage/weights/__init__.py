"""Weights of partitions learnt from offsets of members and brokers, stable against noise."""

from __future__ import annotations

from partage.weights.loads import BAND, LARGEST_LOAD, hold, is_load, known, lags, rates

__all__ = ["BAND", "LARGEST_LOAD", "hold", "is_load", "known", "lags", "rates"]
