"""Kafka Streams: who runs which task, and what is kept warm for later."""

from __future__ import annotations

from partage.streams.client import Client, PartitionRacks
from partage.streams.high_availability import HighAvailability
from partage.streams.ids import ProcessId, TaskId
from partage.streams.plan import TaskPlan
from partage.streams.problem import TaskProblem
from partage.streams.settings import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, Settings

__all__ = [
    "LATEST_OFFSET",
    "UNKNOWN_OFFSET_SUM",
    "Client",
    "HighAvailability",
    "PartitionRacks",
    "ProcessId",
    "Settings",
    "TaskId",
    "TaskPlan",
    "TaskProblem",
]
