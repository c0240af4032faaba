"""The strategies `faust` and `faust:copartitioned` as ``PartitionAssignor`` of a Faust app.

    import faust
    from partage.clients.faust import assignor

    app = faust.App("orders", broker="kafka://...",
                    PartitionAssignor=assignor("faust:copartitioned"))

Faust creates an instance for its app and uses it for everything that concerns partitions: what to
consume, which tables are active or standby here, where a key is served. So this is a subclass of
Faust's own class that replaces the assignment only. The protocol name is ``faust`` in both cases,
as with stock workers: both can share a group, a deployment can replace worker by worker, and the
group's leader decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partage.clients.faust_commits import CommitGuard
from partage.errors import (
    AssignorFailedError,
    InvalidConfigError,
    MissingExtraError,
    WireFormatError,
)
from partage.groups.faust.plan import FaustPlan
from partage.groups.faust.settings import CHANGELOGS, COPIED, GLOBALS, REPLICAS, SEED, URL
from partage.groups.registry import find
from partage.model import Cluster, Group, Member, Problem
from partage.wire.faust import read_faust_assignment

try:
    from faust.assignor import partition_assignor as stock
    from mode import get_logger
except ImportError as e:
    raise MissingExtraError("faust-streaming", extra="faust") from e

__all__ = ["PROTOCOL", "assignor"]

#: The protocol name of the group, for both strategies.
PROTOCOL = "faust"

_STRATEGIES = ("faust", "faust:copartitioned")

log = get_logger(__name__)


def assignor(strategy: str = "faust", *, seed: int | None = None) -> type[stock.PartitionAssignor]:
    """Create a partition assignor class for a Faust app.

    Pass it as ``faust.App(..., PartitionAssignor=assignor("faust:copartitioned"))``.

    Args:
        strategy: ``faust``, exact to faust-streaming 0.15.3, or ``faust:copartitioned``.
        seed: seed to draw standbys at random (``faust:copartitioned``). The seed of the group's
            leader is used.

    Raises:
        InvalidConfigError: the strategy is not one for Faust, or takes no seed.
    """
    if strategy not in _STRATEGIES:
        what = f"a Faust worker needs one of {', '.join(_STRATEGIES)}"
        raise InvalidConfigError("PartitionAssignor", what, strategy)
    if seed is not None and strategy == "faust":
        raise InvalidConfigError(SEED, "the stock rule draws nothing", seed)
    chosen = find(strategy).configure({} if seed is None else {SEED: seed})

    class PartageAssignor(_FaustAssignor):
        strategy = chosen

    return PartageAssignor


class _FaustAssignor(stock.PartitionAssignor):  # type: ignore[misc]  # Faust publishes no types
    """Partition assignor that replaces Faust's own in a Faust app.

    Faust creates it and calls it in each rebalance; a strategy of Partage then chooses the
    assignment. Faust also asks it which table partitions of this worker are active and which are
    standbys.
    """

    strategy: Any = None

    def __init__(self, app: Any, replicas: int = 0) -> None:
        super().__init__(app, replicas=replicas)
        self._warned: set[str] = set()
        self._guard: CommitGuard | None = None

    def on_assignment(self, assignment: Any) -> None:
        """Check the assignment that this Faust worker received, then pass it to Faust.

        The group leader has computed it. Faust calls this method after each rebalance.

        Raises:
            WireFormatError: the bytes are not an assignment of Faust, or too large.
        """
        try:
            read_faust_assignment(assignment.user_data)
        except WireFormatError:
            log.exception("group %s: the leader's assignment cannot be read", self.app.conf.id)
            raise
        super().on_assignment(assignment)
        self._guard_commits()

    def _guard_commits(self) -> None:
        consumer = self.app.consumer
        if self._guard is None or self._guard.consumer is not consumer:
            try:
                self._guard = CommitGuard(consumer)
            except AttributeError as e:
                if str(e) not in self._warned:
                    self._warned.add(str(e))
                    log.warning("this Faust's commits cannot be guarded: %s", e)
                return
        self._guard.on_assignment()

    def _perform_assignment(
        self, cluster: Any, member_metadata: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Assign partitions to all workers of a Faust app, as the group leader.

        If the strategy raises an error, the error is logged and Faust's own assignor is used. The
        result is a dict from member id to assignment.

        Args:
            cluster: Faust's metadata of the cluster.
            member_metadata: dict from member id to the worker's subscription.
        """
        # If the strategy fails, the error is logged and Faust's own assignor is used: a worker
        # whose assignor raises an error would never continue. Faust calls this method inside its
        # sensors and tracer.
        try:
            plan = self._plan(cluster, member_metadata)
        except Exception as e:  # noqa: BLE001 - whatever a strategy raises
            failed = AssignorFailedError(
                self.strategy.name, self.app.conf.id, _generation(self.app), e
            )
            log.error("%s; Faust's own assignor decides", failed)  # noqa: TRY400 - one line
            decided: dict[str, Any] = super()._perform_assignment(cluster, member_metadata)
            return decided
        for warning in plan.warnings:
            # Rebalances may follow every few seconds; each warning is logged once.
            if warning not in self._warned:
                self._warned.add(warning)
                log.warning("group %s: %s", self.app.conf.id, warning)
        answer = stock.ConsumerProtocolMemberAssignment
        return {
            member: answer(self.version, lists, plan.user_data[member])
            for member, lists in plan.wire().items()
        }

    def _plan(self, cluster: Any, member_metadata: Mapping[str, Any]) -> FaustPlan:
        group = Group(
            Member(member, sent.subscription, user_data=bytes(sent.user_data or b""))
            for member, sent in member_metadata.items()
        )
        names = sorted({name for topics in group.subscriptions for name in topics})
        counts = {name: len(cluster.partitions_for_topic(name) or ()) for name in names}
        problem = Problem(group, Cluster.from_topics({t: n for t, n in counts.items() if n}))
        plan: FaustPlan = self.strategy.configure(self._settings()).assign(problem)
        return plan

    def _settings(self) -> dict[str, object]:
        # Read from the app at each rebalance, because programs may declare tables late.
        tables = [one for one in self._table_manager.data.values() if one.is_global]
        copied = [
            one for one in tables if one.synchronize_all_active_partitions or one.use_partitioner
        ]
        return {
            REPLICAS: self.replicas,
            CHANGELOGS: sorted(self._table_manager.changelog_topics),
            GLOBALS: [one.changelog_topic_name for one in tables],
            COPIED: [one.changelog_topic_name for one in copied],
            URL: str(self.app.conf.canonical_url),
        }


def _generation(app: Any) -> int:
    # -1 if the Kafka client below Faust is not accessible.
    found = app
    for name in ("consumer", "_thread", "_consumer", "_coordinator", "generation"):
        found = getattr(found, name, None)
    return found if isinstance(found, int) else -1
