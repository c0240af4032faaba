"""Priority failover: the member with the highest priority owns everything, the others stand by.

`Failover` is the strategy; `write_priorities` and `read_priorities` encode and decode its user
data, which is a member's priority:

    int32  priority       for all topics that are not listed
    int32  marker         0x50464f31, "PFO1": identifies the format and its version
    array  of { string topic, int32 priority }

The documented format is the first field alone: an int32, big-endian, 4 bytes. The extension for
priorities per topic begins with the same 4 bytes, so a reader that decodes only an int32 gets the
general priority.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from partage.errors import InvalidConfigError, WireFormatError
from partage.groups.api import PlainStrategy, RebalanceProtocol, Setting
from partage.groups.layout import TopicRows, plan_in_order, rows_in_map_order
from partage.model import Plan, Problem
from partage.model.index import Int32Array
from partage.wire.codec import decode, encode
from partage.wire.messages import load_message
from partage.wire.primitives import ByteReader

__all__ = [
    "DEFAULT_PRIORITY",
    "LOWEST_PRIORITY",
    "PRIORITY",
    "Failover",
    "Priorities",
    "read_priorities",
    "write_priorities",
]

#: The key of a member's priority (int32), and with ``.<topic>`` of its priority for one topic.
PRIORITY = "assignment.consumer.priority"
PREEMPTION = "assignment.failover.preemption"
AS_DOCUMENTED = "assignment.failover.as_documented"

#: The priority of a member without the setting (the document's ``Integer.MAX_VALUE``).
DEFAULT_PRIORITY = 2**31 - 1
#: The priority of a member whose user data cannot be read, below every int32.
LOWEST_PRIORITY = -(2**31) - 1

_OPTIONS = (
    Setting(PRIORITY, str(DEFAULT_PRIORITY), "priority of this member; the highest wins", "member"),
    Setting(f"{PRIORITY}.<topic>", "as above", "its priority for one topic", "member"),
    Setting(PREEMPTION, "true", "false: present members keep the partitions that they own"),
    Setting(AS_DOCUMENTED, "false", "true: the winner gets all topics, subscribed or not"),
)


# --- user data ---

_MARKER = 0x50464F31
#: Members that a warning names.
_MOST_NAMED = 3

_USER_DATA = load_message("FailoverUserData")


@dataclass(frozen=True)
class Priorities:
    """Failover priorities of one consumer: a general one, and exceptions for single topics.

    The subscriber with the highest priority gets all partitions of a topic.

    Attributes:
        general: priority for all topics without an exception, as an int32.
        by_topic: dict from topic name to the consumer's priority for this topic.
    """

    general: int = DEFAULT_PRIORITY
    by_topic: Mapping[str, int] = field(default_factory=dict, hash=False)


def write_priorities(priorities: Priorities) -> bytes:
    r"""Encode a consumer's failover priorities as user data, which it sends when it joins.

    The general priority is a big-endian int32; priorities for single topics follow as an extension.

    >>> write_priorities(Priorities(10))
    b'\x00\x00\x00\n'
    """
    values: dict[str, object] = {"priority": priorities.general}
    if not priorities.by_topic:
        return encode(_USER_DATA, values, version=0, path="userData")
    by_topic = sorted(priorities.by_topic.items())
    values["topics"] = [{"topic": t, "priority": p} for t, p in by_topic]
    return encode(_USER_DATA, values, version=1, path="userData")


def read_priorities(data: bytes | None) -> tuple[Priorities, str | None]:
    r"""Decode a consumer's failover priorities from the user data that it sent when it joined.

    A consumer whose user data is missing or malformed gets the lowest priority, so it never takes
    over partitions by accident.

    Returns:
        The priorities, and the reason why the data is invalid, or None.

    >>> read_priorities(b"\0\0\0\x0a")
    (Priorities(general=10, by_topic={}), None)
    >>> read_priorities(b"\0")[1]
    'has 1 byte of user data where 4 are due'
    """
    # A member whose setting cannot be read must not own everything.
    if data is None:
        return Priorities(LOWEST_PRIORITY), "has no user data"
    if len(data) == 4:
        return Priorities(int.from_bytes(data, "big", signed=True)), None
    by_topic = _read_extension(data)
    if by_topic is None:
        unit = "byte" if len(data) == 1 else "bytes"
        return Priorities(LOWEST_PRIORITY), f"has {len(data)} {unit} of user data where 4 are due"
    return Priorities(int.from_bytes(data[:4], "big", signed=True), by_topic), None


def _read_extension(data: bytes) -> dict[str, int] | None:
    reader = ByteReader(data)
    try:
        values = decode(_USER_DATA, reader, version=1)
    except WireFormatError:
        return None
    if values["marker"] != _MARKER or reader.position != len(data):
        return None
    return {entry["topic"]: entry["priority"] for entry in values["topics"]}


# --- strategy ---


@dataclass(frozen=True, repr=False)
class Failover(PlainStrategy):
    """Priority failover assignor: the subscriber with the highest priority gets all partitions.

    With equal priorities, the lowest member id (Java's string order) is ranked higher. A member
    whose user data is null, too short or too long ranks below all others, with a warning. A member
    without the setting sends 2147483647 and outranks all others, with a warning, too.

    Settings (`configure`) of each member:

    * ``assignment.consumer.priority``: int32, 2147483647 if not set; sent as 4 bytes.
    * ``assignment.consumer.priority.<topic>``: int32, for one topic. Two members that are first
      for different topics share a cluster. Sent in an extension of the 4 bytes (see this module).

    Settings of the leader, which apply to the whole group:

    * ``assignment.failover.preemption`` (true): if false, members keep the partitions that they
      own, as long as they are in the group and subscribe to them. Of two claimants, the newer
      generation wins, then the higher rank. Unclaimed partitions go to the highest-ranked
      claimant of their topic, else to its highest-ranked subscriber. Owned partitions are in the
      subscription only if the group is COOPERATIVE, because an EAGER consumer revokes all
      partitions before it joins. COOPERATIVE is safe here: no partition moves between two
      present members.
    * ``assignment.failover.as_documented`` (false): if true, the highest-ranked member gets all
      partitions, including those of topics that it does not subscribe to, as the document's code
      does. The judge reports these.

    Order of partitions: topics in Java's hash order, then by number, as in the document.
    Guarantees: every member has an entry; with preemption, each topic has one owner.
    Cost: O(P + T M), P partitions, T topics, M members. Balance is not an aim.

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
        _parse_int32(PRIORITY, self.priority)
        for topic, priority in self.topic_priority.items():
            _parse_int32(f"{PRIORITY}.{topic}", priority)

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:  # type: ignore[override]  # by settings
        """Supported rebalance protocols: EAGER, and also COOPERATIVE if preemption is disabled.

        Preemption takes partitions from a live member for one with a higher priority. Without it no
        live member loses a partition, so COOPERATIVE is safe.
        """
        if self.preemption:
            return (RebalanceProtocol.EAGER,)
        return (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def configure(self, config: Mapping[str, object]) -> Failover:
        """Return a copy of the failover assignor with the settings of a client's configuration.

        For example, ``assignment.consumer.priority`` sets the priority of this consumer.

        Args:
            config: values by setting name; the class documents the settings.

        Raises:
            InvalidConfigError: a priority is no int32, or a switch is neither true nor false.
        """
        by_topic = {
            key.removeprefix(f"{PRIORITY}."): _parse_int32(key, value)
            for key, value in config.items()
            if key.startswith(f"{PRIORITY}.")
        }
        return replace(
            self,
            priority=_parse_int32(PRIORITY, config.get(PRIORITY, self.priority)),
            topic_priority={**self.topic_priority, **by_topic},
            preemption=_parse_switch(PREEMPTION, config.get(PREEMPTION, self.preemption)),
            as_documented=_parse_switch(
                AS_DOCUMENTED, config.get(AS_DOCUMENTED, self.as_documented)
            ),
        )

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes:
        """Encode the consumer's failover priorities as user data, which it sends when it joins.

        The leader decodes them from all members. ``topics`` (the subscribed ones) and ``memory``
        (state between rebalances) have no effect.
        """
        return write_priorities(Priorities(self.priority, self.topic_priority))

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign each topic's partitions to its subscriber with the highest failover priority.

        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.
        The plan's ``warnings`` name members with unreadable or missing priorities.
        """
        decoded = [read_priorities(member.user_data) for member in problem.group]
        ranking = _Ranking(problem, [priorities for priorities, _ in decoded])
        rows = rows_in_map_order(problem)
        if self.as_documented:
            owner = np.full(len(rows.partition), ranking.highest_ranked_member(), np.int32)
        else:
            winners = [int(ranking.subscribers_of(topic)[0]) for topic in rows.topics.tolist()]
            owner = rows.expand_to_partitions(np.array(winners, np.int32))
            if not self.preemption:
                _restore_owned_partitions(problem, rows, ranking, owner)
        warnings = _priority_warnings(problem, decoded)
        return plan_in_order(problem, rows.partition, owner, warnings=warnings)


class _Ranking:
    """Order of a group's members by failover priority for each topic, highest first.

    The first subscriber gets all partitions of a topic. With equal priorities, the lower member id
    comes first.
    """

    def __init__(self, problem: Problem, priorities: list[Priorities]) -> None:
        self._problem = problem
        self._id_rank = problem.group.member_rank
        self._general = np.array([one.general for one in priorities], np.int64)
        self._by_topic: dict[str, list[tuple[int, int]]] = {}
        for member, one in enumerate(priorities):
            for topic, priority in one.by_topic.items():
                self._by_topic.setdefault(topic, []).append((member, priority))

    def highest_ranked_member(self) -> int:
        order = np.lexsort((self._id_rank, -self._general))
        return int(order[0]) if len(order) else -1

    def subscribers_of(self, topic: int) -> Int32Array:
        priority = self._general
        exceptions = self._by_topic.get(self._problem.index.topics[topic])
        if exceptions:
            priority = priority.copy()
            for member, value in exceptions:
                priority[member] = value
        members = self._problem.members_of(topic)
        ranked: Int32Array = members[np.lexsort((self._id_rank[members], -priority[members]))]
        return ranked


def _restore_owned_partitions(
    problem: Problem, topic_rows: TopicRows, ranking: _Ranking, owner: Int32Array
) -> None:
    """Give partitions back to the consumers that own them already, because preemption is disabled.

    Partitions that no consumer owns go to the owner of the topic's other partitions, else to the
    subscriber with the highest priority. ``owner`` (int32[n], the owner of each partition) is
    changed in place.
    """
    start, claimed = problem.claims
    claimants: dict[int, set[int]] = {}
    for member in range(len(problem.group)):
        for partition in claimed[start[member] : start[member + 1]].tolist():
            if partition >= 0:
                claimants.setdefault(partition, set()).add(member)
    if not claimants:
        return
    for nth, topic in enumerate(topic_rows.topics.tolist()):
        row = slice(int(topic_rows.start[nth]), int(topic_rows.start[nth + 1]))
        ranked = ranking.subscribers_of(topic).tolist()
        current = [
            _current_owner(problem, ranked, claimants.get(p))
            for p in topic_rows.partition[row].tolist()
        ]
        incumbents = set(current)
        # A partition without current owner goes to the highest-ranked owner of the topic's other
        # partitions, or else to the highest-ranked subscriber.
        default = next((member for member in ranked if member in incumbents), ranked[0])
        owner[row] = [default if member < 0 else member for member in current]


def _current_owner(problem: Problem, ranked: list[int], claimants: set[int] | None) -> int:
    """Return the consumer that owns a partition now, if several consumers report it as owned.

    The report with the newest generation counts. If generations are equal, the consumer that comes
    first in ``ranked`` (the subscribers by descending priority) is the owner. The result is -1 if
    no subscriber reports the partition.
    """
    if not claimants:
        return -1
    subscribed = [member for member in ranked if member in claimants]
    # max returns the first of equal members, and the highest rank comes first.
    return max(subscribed, key=lambda m: problem.group[m].generation, default=-1)


def _priority_warnings(
    problem: Problem, decoded: list[tuple[Priorities, str | None]]
) -> tuple[str, ...]:
    warnings = []
    unset = []
    for member, (priorities, defect) in zip(problem.group, decoded, strict=True):
        if defect is not None:
            warnings.append(f"{member.id} {defect}: it gets the lowest priority")
        elif priorities.general == DEFAULT_PRIORITY:
            unset.append(member.id)
    if unset:
        by_topic = any(priorities.by_topic for priorities, _ in decoded)
        everyone = len(unset) == len(decoded) and not by_topic
        warnings.append(_unset_warning(unset, everyone=everyone))
    return tuple(warnings)


def _unset_warning(members: Sequence[str], *, everyone: bool) -> str:
    if everyone and len(members) > 1:
        return (
            f"no member has {PRIORITY}: all have its default {DEFAULT_PRIORITY}, "
            "and the lowest member id wins"
        )
    more = len(members) - _MOST_NAMED
    named = ", ".join(members[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    if len(members) == 1:
        what, rank = "has priority {}, the default of a member without {}", "it outranks"
    else:
        what, rank = "have priority {}, the default of members without {}", "they outrank"
    stated = what.format(DEFAULT_PRIORITY, PRIORITY)
    return f"{named} {stated}: {rank} every member that has the setting"


def _parse_int32(setting: str, value: object) -> int:
    """Parse the value of an int32 setting, given as a number or as text, such as 10 or "10".

    Other values raise `InvalidConfigError` with the name of the setting.
    """
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,10}\s*", value):
        value = int(value)
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_number or not -(2**31) <= int(value) < 2**31:  # type: ignore[call-overload]  # is_number
        raise InvalidConfigError(setting, "must be an int32", value)
    return int(value)  # type: ignore[call-overload, no-any-return]  # as above


def _parse_switch(setting: str, value: object) -> bool:
    """Parse the value of a boolean setting, such as True or "FALSE".

    Other values raise `InvalidConfigError` with the name of the setting.
    """
    text = value.strip().lower() if isinstance(value, str) else value
    if text is True or text == "true":
        return True
    if text is False or text == "false":
        return False
    raise InvalidConfigError(setting, "must be true or false", value)
