"""Faust's two strategies as the class that a Faust app takes in ``PartitionAssignor``.

    import faust
    from partage.clients.faust import assignor

    app = faust.App("orders", broker="kafka://...",
                    PartitionAssignor=assignor("faust:copartitioned"))

Faust makes an instance for its app and asks it everything that concerns partitions: what to
consume, which tables are active or standby here, where a key is served. So this is Faust's own
class with another mind: only who gets what is decided by ours. The group's protocol is called
``faust`` in either case, as with stock workers: they share a group, and a deployment goes over
worker by worker. Whoever leads decides.
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

#: What the group calls its protocol, whichever of ours decides.
PROTOCOL = "faust"

_STRATEGIES = ("faust", "faust:copartitioned")

log = get_logger(__name__)


def assignor(strategy: str = "faust", *, seed: int | None = None) -> type[stock.PartitionAssignor]:
    """The class for ``faust.App(..., PartitionAssignor=...)``.

    Args:
        strategy: ``faust``, exact to faust-streaming 0.15.3, or ``faust:copartitioned``.
        seed: of the standbys' draw (``faust:copartitioned``); the leader's counts.

    Raises:
        InvalidConfigError: no such strategy for Faust, or a seed that it does not take.
    """
    if strategy not in _STRATEGIES:
        what = f"a Faust worker needs one of {', '.join(_STRATEGIES)}"
        raise InvalidConfigError("PartitionAssignor", what, strategy)
    if seed is not None and strategy == "faust":
        raise InvalidConfigError(SEED, "the stock rule draws nothing", seed)
    chosen = find(strategy).configure({} if seed is None else {SEED: seed})

    class PartageAssignor(_Assignor):
        strategy = chosen

    return PartageAssignor


class _Assignor(stock.PartitionAssignor):  # type: ignore[misc]  # Faust publishes no types
    """Faust's class, deciding by ours; one instance an app, and all state is the instance's."""

    strategy: Any = None

    def __init__(self, app: Any, replicas: int = 0) -> None:
        super().__init__(app, replicas=replicas)
        self._warned: set[str] = set()
        self._guard: CommitGuard | None = None

    def on_assignment(self, assignment: Any) -> None:
        """Take what the leader sent, once it is known to be Faust's and of a sane size.

        Raises:
            WireFormatError: it is not.
        """
        try:
            read_faust_assignment(assignment.user_data)
        except WireFormatError:
            log.exception("group %s: the leader's assignment cannot be read", self.app.conf.id)
            raise
        super().on_assignment(assignment)
        self._guard_commits()

    def _guard_commits(self) -> None:
        """Keep the consumer from committing past dropped records; see `faust_commits`."""
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
        """The leader's decision; Faust's sensors and tracer stand around it.

        A worker whose assignor raises stands still for good: Faust waits for an assignment before
        it looks at errors. So a strategy that fails is told, and Faust's own class decides.
        """
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
            # A rebalance may come every few seconds; what is wrong is said once.
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
        """What the app knows: its tables now, since they are declared as the program goes."""
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
    """The group's generation, as the client below Faust has it; -1 where it cannot be seen."""
    found = app
    for name in ("consumer", "_thread", "_consumer", "_coordinator", "generation"):
        found = getattr(found, name, None)
    return found if isinstance(found, int) else -1
