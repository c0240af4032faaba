"""The replay of a capture: decode, rebuild histories, simulate, write tables."""

from __future__ import annotations
