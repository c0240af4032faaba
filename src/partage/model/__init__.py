"""The data model: groups, clusters, problems and assignments as dense int32 arrays.

Names occur only at the interfaces.

    index            numbers of topics and partitions
    cluster          existing partitions, their replicas, brokers
    group            members as they joined, and the group of them
    claims           partitions that members say they own
    problem          a group on a cluster in numbers: the input of strategies and the judge
    assignment       the result: `Assignment` (any relation), `Plan` (one owner each)
    certificate      claims about a plan, and the numbers that prove them
    racks            costs of consuming across racks
    replicas         input and result of a reassignment, spread of replicas over racks
    validation       checks of names and JSON
    arguments        checks of the arguments of public functions
    repeated_state   detection of endless loops
    display          tables of values for terminals and notebooks
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
