"""Priority fail-over: one member has everything, the others wait for it to fail."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from partage.errors import InvalidConfigError
from partage.groups.api import RebalanceProtocol, Setting
from partage.groups.base import PlainStrategy
from partage.groups.failover_bytes import (
    DEFAULT_PRIORITY,
    Priorities,
    read_priorities,
    write_priorities,
)
from partage.groups.layout import Rows, plan_in_order
from partage.groups.ordering import topics_in_map_order
from partage.model import Plan, Problem
from partage.model.index import Int32Array

__all__ = ["PRIORITY", "Failover"]

#: A member's priority (int32); with ``.<topic>`` behind it, its priority for one topic.
PRIORITY = "assignment.consumer.priority"
PREEMPTION = "assignment.failover.preemption"
AS_DOCUMENTED = "assignment.failover.as_documented"

_OPTIONS = (
    Setting(PRIORITY, str(DEFAULT_PRIORITY), "priority of this member; the highest wins", "member"),
    Setting(f"{PRIORITY}.<topic>", "as above", "its priority for one topic", "member"),
    Setting(PREEMPTION, "true", "false: who has a partition keeps it while it lives"),
    Setting(AS_DOCUMENTED, "false", "true: the winner gets all topics, subscribed or not"),
)


@dataclass(frozen=True, repr=False)
class Failover(PlainStrategy):
    """All partitions to the member of the highest priority that subscribes to their topic.

    Equal priorities: the lowest member id (Java's string order) is ranked higher. A member
    whose user data is null, short or long ranks below all others, and a warning says so.
    A member without the setting sends 2147483647 and so outranks all: a warning again.

    Settings (`configure`), a member's own:

    * ``assignment.consumer.priority``: int32, 2147483647 if not set; sent as 4 bytes.
    * ``assignment.consumer.priority.<topic>``: int32, for one topic; two members that are
      first for different topics split a cluster between them. Sent in an extension of the
      4 bytes (`partage.groups.failover_bytes`).

    and the leader's, which decide for the group:

    * ``assignment.failover.preemption`` (true): false lets a member keep what it claims to
      own while it lives and subscribes to it; of two claimants, the newer generation, then
      the higher rank. What nobody claims goes to the highest-ranked claimant of its topic,
      else to the highest-ranked subscriber. Claims come with the subscription when the group
      is COOPERATIVE (an EAGER consumer gives everything up before it joins), which is safe
      here: nothing ever moves between two living members.
    * ``assignment.failover.as_documented`` (false): true gives the highest-ranked member all
      partitions, those of topics that it does not subscribe to as well, as the document's
      code does. The judge reports these.

    Order of partitions: topics in Java's hash order, then by number, as in the document.
    Guarantees: every member has an entry; with preemption, one member a topic.
    Cost: O(P + T M), P partitions, T topics, M members. Balance is not its aim.

    Source: "Understanding Kafka partition assignment strategies" (``FailoverAssignor``).

    >>> from partage.model import Cluster, Group, Member
    >>> members = [Member(c, ["t"], user_data=Failover(priority=p).subscription_user_data(["t"]))
    ...            for c, p in (("c1", 5), ("c2", 10))]
    >>> Failover().assign(Problem(Group(members), Cluster.from_topics({"t": 2}))).to_dict()
    {'c1': {}, 'c2': {'t': [0, 1]}}
    """

    priority: int = DEFAULT_PRIORITY
    topic_priority: Mapping[str, int] = field(default_factory=dict, hash=False)
    preemption: bool = True
    as_documented: bool = False

    name = "failover"
    aliases = ("FailoverAssignor",)
    options = _OPTIONS

    def __post_init__(self) -> None:
        _int32(PRIORITY, self.priority)
        for topic, priority in self.topic_priority.items():
            _int32(f"{PRIORITY}.{topic}", priority)

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:  # type: ignore[override]  # by settings
        """EAGER; without preemption COOPERATIVE too, since nothing moves between the living."""
        if self.preemption:
            return (RebalanceProtocol.EAGER,)
        return (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def configure(self, config: Mapping[str, object]) -> Failover:
        """The same with settings; see the class.

        Raises:
            InvalidConfigError: a priority is no int32, or a switch is neither true nor false.
        """
        topics = {
            key.removeprefix(f"{PRIORITY}."): _int32(key, value)
            for key, value in config.items()
            if key.startswith(f"{PRIORITY}.")
        }
        return replace(
            self,
            priority=_int32(PRIORITY, config.get(PRIORITY, self.priority)),
            topic_priority={**self.topic_priority, **topics},
            preemption=_switch(PREEMPTION, config.get(PREEMPTION, self.preemption)),
            as_documented=_switch(AS_DOCUMENTED, config.get(AS_DOCUMENTED, self.as_documented)),
        )

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes:
        """The member's priorities."""
        return write_priorities(Priorities(self.priority, self.topic_priority))

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The plan; takes any problem, and says in ``warnings`` what it had to guess."""
        read = [read_priorities(member.user_data) for member in problem.group]
        priorities = [one for one, _ in read]
        rows = Rows.of(problem, topics_in_map_order(problem))
        ranking = _Ranking(problem, priorities)
        if self.as_documented:
            winner = ranking.first_of_all()
            owner = np.full(len(rows.partition), winner, np.int32)
        else:
            winners = [ranking.first(topic) for topic in rows.topics.tolist()]
            owner = rows.spread(np.array(winners, np.int32))
            if not self.preemption:
                _let_keep(problem, rows, ranking, owner)
        warnings = _warnings(problem, read)
        return plan_in_order(problem, rows.partition, owner, warnings=warnings)


class _Ranking:
    """Who comes before whom, for each topic."""

    def __init__(self, problem: Problem, priorities: list[Priorities]) -> None:
        self.problem = problem
        self.rank = problem.group.member_rank
        self.general = np.array([one.general for one in priorities], np.int64)
        self.special: dict[str, list[tuple[int, int]]] = {}
        for member, one in enumerate(priorities):
            for topic, priority in one.by_topic.items():
                self.special.setdefault(topic, []).append((member, priority))

    def first_of_all(self) -> int:
        """The highest-ranked member by general priority; -1 in an empty group."""
        order = np.lexsort((self.rank, -self.general))
        return int(order[0]) if len(order) else -1

    def order(self, topic: int) -> Int32Array:
        """int32: subscribers of a topic, the highest-ranked first."""
        priority = self.general
        special = self.special.get(self.problem.index.topics[topic])
        if special:
            priority = priority.copy()
            for member, value in special:
                priority[member] = value
        members = self.problem.members_of(topic)
        ranked: Int32Array = members[np.lexsort((self.rank[members], -priority[members]))]
        return ranked

    def first(self, topic: int) -> int:
        """The highest-ranked subscriber of a topic."""
        return int(self.order(topic)[0])


def _let_keep(problem: Problem, rows: Rows, ranking: _Ranking, owner: Int32Array) -> None:
    """Without preemption: rewrite ``owner`` where a living subscriber claims a partition."""
    start, claimed = problem.claims
    claimants: dict[int, set[int]] = {}
    for member in range(len(problem.group)):
        for partition in claimed[start[member] : start[member + 1]].tolist():
            if partition >= 0:
                claimants.setdefault(partition, set()).add(member)
    if not claimants:
        return
    for nth, topic in enumerate(rows.topics.tolist()):
        mine = slice(int(rows.start[nth]), int(rows.start[nth + 1]))
        order = ranking.order(topic).tolist()
        keeper = [_keeper(problem, order, claimants.get(p)) for p in rows.partition[mine].tolist()]
        incumbents = set(keeper)
        heir = next((member for member in order if member in incumbents), order[0])
        owner[mine] = [heir if member < 0 else member for member in keeper]


def _keeper(problem: Problem, order: list[int], claimants: set[int] | None) -> int:
    """Who keeps a claimed partition: the newest generation, then the highest rank; -1 nobody."""
    if not claimants:
        return -1
    subscribed = [member for member in order if member in claimants]
    # max takes the first of equals, and the highest rank comes first.
    return max(subscribed, key=lambda m: problem.group[m].generation, default=-1)


def _warnings(problem: Problem, read: list[tuple[Priorities, str | None]]) -> tuple[str, ...]:
    out = []
    for member, (priorities, wrong) in zip(problem.group, read, strict=True):
        if wrong is not None:
            out.append(f"{member.id} {wrong}: it gets the lowest priority")
        elif priorities.general == DEFAULT_PRIORITY:
            out.append(
                f"{member.id} has priority {DEFAULT_PRIORITY}, the default of a member without "
                f"{PRIORITY}: it outranks every member that has the setting"
            )
    return tuple(out)


def _int32(setting: str, value: object) -> int:
    """A number, or its text as in a properties file."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,10}\s*", value):
        value = int(value)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not -(2**31) <= int(value) < 2**31:  # type: ignore[call-overload]  # whole says so
        raise InvalidConfigError(setting, "must be an int32", value)
    return int(value)  # type: ignore[call-overload, no-any-return]  # as above


def _switch(setting: str, value: object) -> bool:
    text = value.strip().lower() if isinstance(value, str) else value
    if text is True or text == "true":
        return True
    if text is False or text == "false":
        return False
    raise InvalidConfigError(setting, "must be true or false", value)
