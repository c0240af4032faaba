"""Weights of partitions learnt from offsets of members and brokers, stable against noise."""

from __future__ import annotations

from partage.weights.loads import (
    BAND,
    LARGEST_LOAD,
    is_load,
    lags,
    record_rates,
    update_weights,
    valid_loads,
)

__all__ = [
    "BAND",
    "LARGEST_LOAD",
    "is_load",
    "lags",
    "record_rates",
    "update_weights",
    "valid_loads",
]
