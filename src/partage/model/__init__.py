"""The model: names at the edges, dense int32 arrays inside.

Which file answers what: `index` numbers topics and partitions, `cluster` says which exist
and where, `group` what the members sent, `assignment` who has what, `problem` puts a
group on a cluster in numbers, `racks` what reading across
racks costs, `replicas` a cluster with its replicas, `rack_rule` what spread and share mean,
`certificate` what a plan claims of itself, `reading` makes all this from JSON.
"""

from __future__ import annotations

from partage.model.assignment import Assignment, Plan, Role, Unresolved
from partage.model.certificate import Certificate
from partage.model.cluster import Broker, Cluster
from partage.model.group import NO_GENERATION, Claims, Group, Member
from partage.model.index import Index, java_rank
from partage.model.problem import Problem
from partage.model.rack_rule import even_shares, rack_limits
from partage.model.racks import RackCosts, RackTable
from partage.model.replicas import NewReplicas, ReplicaCluster, ReplicaTask

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
    "ReplicaCluster",
    "ReplicaTask",
    "Role",
    "Unresolved",
    "even_shares",
    "java_rank",
    "rack_limits",
]
