"""Kafka Streams: assignment of tasks to the clients and stream threads of an application.

Start with `rebalance` (one rebalance as the group leader computes it), or with `assignors` and
a `TaskProblem` (tasks and clients only). By module:

* topology: `topology` (sub-topologies, tasks, repartition and changelog topics);
* one rebalance: `leader`, `members` (grouped by client), `member_assignments` (stream threads,
  withheld tasks, hosts, user data, version probing);
* task assignors: `high_availability` (the default), `sticky`, `kip1071_sticky` (of the group
  coordinator), `registry`; those of old releases are in `partage.legacy`;
* their input and result: `problem`, `assignment_configs`, `task_ids`;
* shared rules: `standbys`, `rack_aware`, `min_cost_flow`, `task_assignment_utils` (KIP-924);
* `recorded_application`: an application of a capture as the input file of `partage streams`.
"""

from __future__ import annotations

from partage.streams.assignment_configs import AssignmentConfigs
from partage.streams.high_availability import HighAvailability
from partage.streams.kip1071_sticky import (
    ServerMember,
    ServerPlan,
    ServerSticky,
    ServerSticky43,
    ServerSubtopology,
)
from partage.streams.leader import (
    StreamsApplication,
    StreamsGroupAssignment,
    compute_group_assignment,
)
from partage.streams.member_assignments import NextRebalance, StreamsMemberAssignment, on_assignment
from partage.streams.members import StreamsMember
from partage.streams.problem import ClientState, PartitionRacks, TaskPlan, TaskProblem
from partage.streams.registry import TaskAssignor, find_assignor, find_task_assignors
from partage.streams.task_ids import ProcessId, TaskId
from partage.streams.topology import Subtopology, Topology, TopologyLayout
from partage.wire.streams.subscription_info import LATEST_OFFSET, UNKNOWN_OFFSET_SUM

__all__ = [
    "LATEST_OFFSET",
    "UNKNOWN_OFFSET_SUM",
    "AssignmentConfigs",
    "ClientState",
    "HighAvailability",
    "NextRebalance",
    "PartitionRacks",
    "ProcessId",
    "ServerMember",
    "ServerPlan",
    "ServerSticky",
    "ServerSticky43",
    "ServerSubtopology",
    "StreamsApplication",
    "StreamsGroupAssignment",
    "StreamsMember",
    "StreamsMemberAssignment",
    "Subtopology",
    "TaskAssignor",
    "TaskId",
    "TaskPlan",
    "TaskProblem",
    "Topology",
    "TopologyLayout",
    "compute_group_assignment",
    "find_assignor",
    "find_task_assignors",
    "on_assignment",
]
