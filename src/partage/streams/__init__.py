"""Kafka Streams: assignment of tasks to the clients and stream threads of an application.

Start with `leader` (one rebalance as the group leader computes it), or with `registry` and a
`TaskProblem` (tasks and clients only).

    topology                sub-topologies, tasks, repartition and changelog topics
    task_ids                task ids and process ids

One rebalance:
    leader                  the steps of the group leader
    members                 members, grouped by client
    member_assignments      stream threads, withheld tasks, hosts, user data

Task assignors, with those of old releases in `partage.legacy`:
    problem                 their input and result
    assignment_configs      the settings that they read
    registry                assignors by name
    high_availability       the default: warm-ups, acceptable lag
    sticky                  the sticky assignors of kafka-streams
    kip1071_sticky          the group coordinator's

Shared rules:
    standbys                standby tasks, by load or by client tags
    rack_aware              exchanges across racks (KIP-925)
    min_cost_flow           Kafka's ``Graph``
    task_assignment_utils   ``TaskAssignmentUtils`` (KIP-924)

Recordings:
    recorded_application    an application of a capture as the input file of `partage streams`
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
