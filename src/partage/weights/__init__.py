"""Weights of partitions learnt from offsets of members and brokers, stable against noise.

`loads` computes them: small changes leave the weights unchanged (hysteresis).
"""

from __future__ import annotations

from partage.weights.loads import (
    BAND,
    LARGEST_LOAD,
    compute_lags,
    is_load,
    record_rates,
    update_weights,
    valid_loads,
)

__all__ = [
    "BAND",
    "LARGEST_LOAD",
    "compute_lags",
    "is_load",
    "record_rates",
    "update_weights",
    "valid_loads",
]
