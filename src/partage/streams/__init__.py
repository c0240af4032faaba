"""Kafka Streams: who runs which task, and what is kept warm for later.

Start with `rebalance` (one rebalance of a whole application, as its leader computes it), or
with `assignors` and a `TaskProblem` (tasks and clients alone).
"""

from __future__ import annotations

from partage.streams.client import Client, PartitionRacks
from partage.streams.final import ConsumerAssignment
from partage.streams.following import Followed, follow
from partage.streams.high_availability import HighAvailability
from partage.streams.ids import ProcessId, TaskId
from partage.streams.kip1071_sticky import (
    ServerMember,
    ServerPlan,
    ServerSticky,
    ServerSubtopology,
)
from partage.streams.layout import Layout
from partage.streams.leader import Application, GroupAssignment, rebalance
from partage.streams.members import StreamsMember
from partage.streams.plan import TaskPlan
from partage.streams.problem import TaskProblem
from partage.streams.registry import TaskAssignor, assignors, find_assignor
from partage.streams.settings import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, Settings
from partage.streams.topology import Subtopology, Topology

__all__ = [
    "LATEST_OFFSET",
    "UNKNOWN_OFFSET_SUM",
    "Application",
    "Client",
    "ConsumerAssignment",
    "Followed",
    "GroupAssignment",
    "HighAvailability",
    "Layout",
    "PartitionRacks",
    "ProcessId",
    "ServerMember",
    "ServerPlan",
    "ServerSticky",
    "ServerSubtopology",
    "Settings",
    "StreamsMember",
    "Subtopology",
    "TaskAssignor",
    "TaskId",
    "TaskPlan",
    "TaskProblem",
    "Topology",
    "assignors",
    "find_assignor",
    "follow",
    "rebalance",
]
