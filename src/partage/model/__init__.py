"""The data model: groups, clusters, problems and assignments as dense int32 arrays.

Names occur only at the interfaces. `index` numbers topics and partitions, `cluster` has the
existing ones and their replicas, `group` the members as they joined, `claims` the partitions that
they say they own, `problem` a group on a cluster in numbers, `assignment` the result. `racks` has
the costs of consuming across racks, `replicas` the input and result of a reassignment and the
spread of replicas over racks, `certificate` the claims about a plan. `validation` checks names and
JSON; `repeated_state` detects endless loops.
"""

from __future__ import annotations

from partage.model.assignment import Assignment, Plan, Role, Unresolved
from partage.model.certificate import Certificate
from partage.model.claims import Claims
from partage.model.cluster import Broker, Cluster
from partage.model.group import NO_GENERATION, Group, Member
from partage.model.index import Index, java_rank
from partage.model.problem import Problem, RejoinedGroup, ReportedPartitions
from partage.model.racks import RackCosts, RackTable
from partage.model.replicas import (
    NewReplicas,
    ReplicaCluster,
    ReplicaTask,
    even_shares,
    rack_limits,
)

__all__ = [
    "NO_GENERATION",
    "Assignment",
    "Broker",
    "Certificate",
    "Claims",
    "Cluster",
    "Group",
    "Index",
    "Member",
    "NewReplicas",
    "Plan",
    "Problem",
    "RackCosts",
    "RackTable",
    "RejoinedGroup",
    "ReplicaCluster",
    "ReplicaTask",
    "ReportedPartitions",
    "Role",
    "Unresolved",
    "even_shares",
    "java_rank",
    "rack_limits",
]
