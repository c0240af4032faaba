"""Partage's own assignors in the group coordinator: the plans of the jar ``partage-assignors``.

A broker since Kafka 4.0 loads assignors by class name (``group.consumer.assignors``). The jar's
classes make the same plans as the strategies here. Both see what a coordinator knows:
subscriptions, racks, topic ids and previous targets, but no topic names and no join order. Topics
are therefore sorted by topic id. The sources are in `jvm/partage-assignors`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from partage.errors import InvalidConfigError, ProblemTooLargeError
from partage.groups.api import PlainStrategy, Setting
from partage.groups.fair import assign_fairly
from partage.groups.layout import TopicRows, group_by_member
from partage.groups.optimal.count_balance import balance_counts
from partage.groups.optimal.problem import CanonicalProblem, Int64Array
from partage.groups.optimal.settings import OptimalSettings, rack_costs
from partage.groups.server.group_assignment import GroupAssignment
from partage.groups.server.spec import GroupSpec
from partage.groups.server.uniform import ServerUniform
from partage.model import Plan, Problem
from partage.model.index import Int32Array

__all__ = ["PartageFailover", "PartageFair", "PartageOptimal"]

_RACKS = "assignment.optimal.racks"
_PRIORITIES = "assignment.failover.priorities"
_PACKAGE = "io.partage.assignors.broker"


class _JarAssignor(PlainStrategy):
    """Base class of Partage's own assignors for the broker, implemented in Python.

    They make the same plans as the Java classes in the jar ``partage-assignors``, which a broker
    can load.
    """

    in_broker = True

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign the partitions of a consumer group as the broker's assignor does.

        The owned partitions in ``problem`` (the group and the cluster) serve as the previous
        assignment. ``memory`` (state between rebalances) is not used.
        """
        spec = GroupSpec(problem)
        return self.assign_from_spec(spec).to_plan(spec)

    def assign_from_spec(self, spec: GroupSpec) -> GroupAssignment:
        """Assign the partitions of a consumer group, from the input that a group coordinator has.

        ``spec`` has the subscriptions, topic ids and previous assignment; Kafka's class for it is
        ``GroupSpec``.
        """
        return self._decide(spec) if spec.members else GroupAssignment.without_members(spec)

    def _decide(self, spec: GroupSpec) -> GroupAssignment:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class PartageOptimal(_JarAssignor):
    """Partage's optimal assignor in the broker: even counts, fewest rack mismatches, fewest moves.

    It has the same aims as `optimal`, the assignor for consumers, but ignores weights. There is no
    follow-up rebalance: the coordinator lets each member revoke and acquire partitions by itself.

    Setting: ``assignment.optimal.racks`` (true), whether racks matter.

    Where the exact plan needs too much work, `server:uniform` decides.

    It gives the same results as ``io.partage.assignors.broker.OptimalAssignor`` of
    ``partage-assignors`` 0.1.0.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("A", ["T"], owned={"T": [0, 1, 2]}), Member("B", ["T"])])
    >>> PartageOptimal().assign(Problem(group, Cluster.from_topics({"T": 3}))).to_dict()
    {'A': {'T': [0, 1]}, 'B': {'T': [2]}}
    """

    racks: bool = True

    name = "server:partage-optimal"
    exact_to = f"{_PACKAGE}.OptimalAssignor 0.1.0"
    aliases = (f"{_PACKAGE}.OptimalAssignor",)
    options = (Setting(_RACKS, "true", "whether rack mismatches matter"),)

    def configure(self, config: Mapping[str, object]) -> PartageOptimal:
        """Return a copy of the assignor with the settings of a broker's configuration.

        ``config`` has values by setting name; only ``assignment.optimal.racks`` has an effect.

        Raises:
            InvalidConfigError: the setting is neither true nor false.
        """
        settings = OptimalSettings().with_config({k: v for k, v in config.items() if k == _RACKS})
        return replace(self, racks=settings.racks)

    def _decide(self, spec: GroupSpec) -> GroupAssignment:
        canonical = _CoordinatorProblem(spec)
        costs = rack_costs(spec.problem, OptimalSettings(racks=self.racks))
        table = (
            None
            if costs is None
            else costs.table(spec.problem).restricted_to(canonical.rows.partition)
        )
        try:
            found = balance_counts(canonical, table, None)
        except ProblemTooLargeError:
            return ServerUniform().assign_from_spec(spec)
        return _group_assignment(spec, canonical.rows.partition, canonical.order[found.owner])


class PartageFair(_JarAssignor):
    """KIP-49's fair assignor in the broker: each partition goes to the least loaded subscriber.

    Topics are assigned in the same order as in `fair`, the assignor for consumers, with one
    exception. Topics with equal numbers of subscribers and partitions are sorted by topic id, not
    by name. The previous assignment and racks have no effect.

    It gives the same results as ``io.partage.assignors.broker.FairAssignor`` of
    ``partage-assignors`` 0.1.0.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("C1", ["T1", "T2"]), Member("C2", ["T1"])])
    >>> PartageFair().assign(Problem(group, Cluster.from_topics({"T1": 3, "T2": 1}))).to_dict()
    {'C1': {'T2': [0], 'T1': [1]}, 'C2': {'T1': [0, 2]}}
    """

    name = "server:partage-fair"
    exact_to = f"{_PACKAGE}.FairAssignor 0.1.0"
    aliases = (f"{_PACKAGE}.FairAssignor",)

    def _decide(self, spec: GroupSpec) -> GroupAssignment:
        rows, member = assign_fairly(spec.problem, _topics_by_id(spec))
        return _group_assignment(spec, rows.partition, member)


@dataclass(frozen=True, repr=False)
class PartageFailover(_JarAssignor):
    """Priority failover assignor in the broker: the subscriber with top priority gets a topic.

    A coordinator gets no user data, so the priorities are in the broker's configuration, by
    instance id. Members without one rank below all others. Equal priorities: the lowest member id
    (Java's string order) is ranked higher.

    Setting: ``assignment.failover.priorities``, such as ``payments-1:10,payments-2:5``.

    It gives the same results as ``io.partage.assignors.broker.FailoverAssignor`` of
    ``partage-assignors`` 0.1.0.

    >>> from partage.model import Cluster, Group, Member
    >>> members = [Member(c, ["T"], instance_id=i) for c, i in (("a", "i-1"), ("b", "i-2"))]
    >>> strategy = PartageFailover().configure({"assignment.failover.priorities": "i-1:5,i-2:10"})
    >>> strategy.assign(Problem(Group(members), Cluster.from_topics({"T": 2}))).to_dict()
    {'a': {}, 'b': {'T': [0, 1]}}
    """

    priorities: Mapping[str, int] = field(default_factory=dict, hash=False)

    name = "server:partage-failover"
    exact_to = f"{_PACKAGE}.FailoverAssignor 0.1.0"
    aliases = (f"{_PACKAGE}.FailoverAssignor",)
    options = (Setting(_PRIORITIES, "none", "priorities by instance id: ID:INT32,ID:INT32"),)

    def configure(self, config: Mapping[str, object]) -> PartageFailover:
        """Return a copy of the assignor with the failover priorities in a broker's configuration.

        ``config`` has values by setting name. The setting is a list such as
        ``payments-1:10,payments-2:5``.

        Raises:
            InvalidConfigError: the setting is no list of ``INSTANCE_ID:INT32``.
        """
        if _PRIORITIES not in config:
            return self
        value = config[_PRIORITIES]
        entries = value.split(",") if isinstance(value, str) and value.strip() else []
        found = [re.fullmatch(r"\s*(\S+?)\s*:\s*([+-]?[0-9]{1,10})\s*", one) for one in entries]
        priorities = {match[1]: int(match[2]) for match in found if match is not None}
        is_text = isinstance(value, str) and all(match is not None for match in found)
        if not is_text or not all(-(2**31) <= one < 2**31 for one in priorities.values()):
            raise InvalidConfigError(_PRIORITIES, "must be a list of INSTANCE_ID:INT32", value)
        return replace(self, priorities=priorities)

    def _decide(self, spec: GroupSpec) -> GroupAssignment:
        problem = spec.problem
        unnamed = -(2**31) - 1
        priority = np.array(
            [self.priorities.get(m.instance_id or "", unnamed) for m in problem.group], np.int64
        )
        rank = np.empty(spec.members, np.int64)
        rank[np.lexsort((problem.group.member_rank, -priority))] = np.arange(spec.members)
        rows = TopicRows.from_topics(problem, _topics_by_id(spec))
        members = [problem.members_of(topic) for topic in rows.topics.tolist()]
        best = np.array([one[np.argmin(rank[one])] for one in members], np.int32)
        return _group_assignment(spec, rows.partition, rows.expand_to_partitions(best))


class _CoordinatorProblem(CanonicalProblem):
    """Input of the optimal assignor when it runs in the broker, with topics sorted by topic id.

    A broker's assignor knows no topic names. Instead of owned partitions that members report, it
    gets the group's previous target assignment: the partitions that the last rebalance gave to each
    member.
    """

    def __init__(self, spec: GroupSpec) -> None:
        super().__init__(spec.problem, _topics_by_id(spec))
        self._previous = spec.previous_targets

    @cached_property
    def claimed_pairs(self) -> tuple[Int64Array, Int64Array]:
        """Previous owners of partitions, as (member, partition) pairs in two parallel arrays.

        They come from the group's last target assignment. Members and partitions are indices in an
        order that does not depend on the join order. Partitions that do not exist are left out.
        """
        previous = self._previous
        place = np.empty(self.member_count, np.int64)
        place[self.order] = np.arange(self.member_count)
        row_of = np.full(self.problem.index.partitions, -1, np.int64)
        row_of[self.rows.partition] = np.arange(self.partition_count)
        of = place[np.repeat(previous.member_of_set, previous.set_sizes)]
        row = row_of[previous.partition]
        exists = row >= 0
        return of[exists], row[exists]


def _topics_by_id(spec: GroupSpec) -> Int32Array:
    """Return the topics that have a subscriber, sorted by topic id as in Java (int32).

    ``spec`` is the assignor's input. The result has index numbers.
    """
    topics = spec.problem.subscribed_topics
    high, low = spec.topic_ids.signed_halves
    ordered: Int32Array = topics[np.lexsort((low[topics], high[topics]))]
    return ordered


def _group_assignment(
    spec: GroupSpec, partition: Int32Array, member: Int32Array
) -> GroupAssignment:
    start, order = group_by_member(spec.members, member)
    return GroupAssignment(start, partition[order])
