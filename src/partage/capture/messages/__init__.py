"""Layouts that kafka-python 3.0 does not have, in the form that it reads: fields only."""

from __future__ import annotations
