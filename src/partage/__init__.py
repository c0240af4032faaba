"""Public names of Partage, which decides, replays and explains who owns which Kafka partition.

>>> import partage as pg
>>> cluster = pg.Cluster.from_topics({"orders": 3})
>>> group = pg.Group([pg.Member("c1", topics=["orders"]), pg.Member("c2", topics=["orders"])])
>>> pg.assign("range", group, cluster).to_dict()
{'c1': {'orders': [0, 1]}, 'c2': {'orders': [2]}}

Names are imported on first use: nothing heavier than what a program uses is loaded.

The packages, in the order of the data:

* `model` (groups, clusters, plans), `api` (assign, compare, measure), `errors`;
* decisions: `groups` (partition to member), `keys` (key to partition), `streams` (task to client),
  `replicas` (replica to broker), `legacy` (old releases), `weights` (measured loads);
* their parts: `judge` (rules, measures, certificates), `solve` (solvers on arrays), `java` (what
  imitates the JVM), `kernels` (compiled loops);
* from a cluster to tables: `capture`, `wire` (bytes to values), `history`, `simulation` (other
  policies), `tables` (columns and metrics), `jobs` (Spark), `runs` (published runs);
* from tables to people: `report`, `results` (runs in Python), `forecasts`, `watch` (live metrics);
* entry points: `cli`, `commands` (one function for each command), `clients` (live consumers);
* `testing` (helpers for tests), `sample` (the recorded cluster of the demo).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partage import errors as errors
    from partage import judge as judge
    from partage import kernels as kernels
    from partage import keys as keys
    from partage.api.decisions import assign as assign
    from partage.api.decisions import compare as compare
    from partage.api.measures import measure as measure
    from partage.commands.applications import decide_streams as decide_streams
    from partage.commands.applications import describe_streams as describe_streams
    from partage.commands.applications import simulate_streams as simulate_streams
    from partage.commands.clusters import capture_cluster as capture_cluster
    from partage.commands.clusters import check_access as check_access
    from partage.commands.clusters import watch_groups as watch_groups
    from partage.commands.live_groups import live_groups as live_groups
    from partage.commands.live_groups import measure_group as measure_group
    from partage.commands.logs import audit as audit
    from partage.commands.logs import count_keys as count_keys
    from partage.commands.logs import decode as decode
    from partage.commands.reassignments import reassign as reassign
    from partage.commands.runs import check_run as check_run
    from partage.commands.runs import diff as diff
    from partage.commands.runs import owner as owner
    from partage.errors import *  # noqa: F403 - its __all__ is the tree of errors
    from partage.forecasts.growth import drain_time as drain_time
    from partage.forecasts.growth import plan_growth as plan_growth
    from partage.groups.negotiation import negotiate as negotiate
    from partage.groups.registry import strategies as strategies
    from partage.groups.rounds import Join as Join
    from partage.groups.rounds import Leave as Leave
    from partage.groups.rounds import Metadata as Metadata
    from partage.groups.rounds import Subscribe as Subscribe
    from partage.groups.rounds import play as play
    from partage.judge import check as check
    from partage.keys import partition_for as partition_for
    from partage.keys import partitioners as partitioners
    from partage.model import Assignment as Assignment
    from partage.model import Broker as Broker
    from partage.model import Cluster as Cluster
    from partage.model import Group as Group
    from partage.model import Index as Index
    from partage.model import Member as Member
    from partage.model import Plan as Plan
    from partage.replicas import place as place
    from partage.results import Run as Run
    from partage.results import forecast as forecast
    from partage.results import migrate as migrate
    from partage.results import open_run as open_run
    from partage.results import replay as replay
    from partage.results import size as size

__version__ = "0.1.0"

_HOME = {
    "Assignment": "partage.model",
    "Broker": "partage.model",
    "Cluster": "partage.model",
    "Group": "partage.model",
    "Index": "partage.model",
    "Member": "partage.model",
    "Plan": "partage.model",
    "assign": "partage.api.decisions",
    "check": "partage.judge",
    "compare": "partage.api.decisions",
    "measure": "partage.api.measures",
    "negotiate": "partage.groups.negotiation",
    "partition_for": "partage.keys",
    "partitioners": "partage.keys",
    "strategies": "partage.groups.registry",
    "place": "partage.replicas",
    "play": "partage.groups.rounds",
    "replay": "partage.results",
    "open_run": "partage.results",
    "forecast": "partage.results",
    "migrate": "partage.results",
    "size": "partage.results",
    "Run": "partage.results",
    "Join": "partage.groups.rounds",
    "Leave": "partage.groups.rounds",
    "Metadata": "partage.groups.rounds",
    "Subscribe": "partage.groups.rounds",
    "audit": "partage.commands.logs",
    "capture_cluster": "partage.commands.clusters",
    "check_access": "partage.commands.clusters",
    "check_run": "partage.commands.runs",
    "count_keys": "partage.commands.logs",
    "drain_time": "partage.forecasts.growth",
    "plan_growth": "partage.forecasts.growth",
    "decide_streams": "partage.commands.applications",
    "decode": "partage.commands.logs",
    "describe_streams": "partage.commands.applications",
    "diff": "partage.commands.runs",
    "live_groups": "partage.commands.live_groups",
    "measure_group": "partage.commands.live_groups",
    "owner": "partage.commands.runs",
    "reassign": "partage.commands.reassignments",
    "simulate_streams": "partage.commands.applications",
    "watch_groups": "partage.commands.clusters",
    "PartageError": "partage.errors",
    "InvalidProblemError": "partage.errors",
    "UnknownStrategyError": "partage.errors",
    "UnknownPartitionerError": "partage.errors",
    "InvalidKeysError": "partage.errors",
    "UnsupportedProblemError": "partage.errors",
    "PluginFailedError": "partage.errors",
    "InvalidPlacementError": "partage.errors",
    "NoFeasiblePlanError": "partage.errors",
    "InvalidConfigError": "partage.errors",
    "InconsistentGroupProtocolError": "partage.errors",
    "WireFormatError": "partage.errors",
    "InvalidCaptureError": "partage.errors",
    "ClusterUnreachableError": "partage.errors",
    "NotAuthorizedError": "partage.errors",
    "PlanInvariantError": "partage.errors",
    "CertificateError": "partage.errors",
    "ProblemTooLargeError": "partage.errors",
    "MissingExtraError": "partage.errors",
    "MissingJavaError": "partage.errors",
    "AccountingError": "partage.errors",
    "SparkFailedError": "partage.errors",
    "InvalidTopologyError": "partage.errors",
    "AssignorFailedError": "partage.errors",
}

#: Modules whose names the documentation writes in full (`pg.keys.start`).
_PACKAGES = ("errors", "judge", "kernels", "keys")

__all__ = [  # noqa: PLE0604 - the names are the keys above, spelled out once
    *_HOME,
    *_PACKAGES,
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"partage.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'partage' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
