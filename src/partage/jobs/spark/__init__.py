"""Spark itself: the session, what is sent to its nodes, progress, and errors."""

from __future__ import annotations
