"""User data that the members of a group would send under each strategy.

A problem may have the members' partitions (`owned`, `generation`) and settings (`config`), or the
user data that members of one strategy sent. This module adds the user data that the deciding
strategy's own members would send, in the same way for `assign`, `compare`, `play` and the command
line.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from partage.errors import InvalidConfigError, UnknownStrategyError, WireFormatError
from partage.groups import registry
from partage.groups.api import PlainStrategy, RebalanceProtocol, Setting, Strategy
from partage.groups.failover import read_priorities
from partage.model import NO_GENERATION, Assignment, Cluster, Group, Member
from partage.wire.consumer_protocol import decode_sticky_user_data, encode_sticky_user_data
from partage.wire.faust import read_faust_subscription

__all__ = [
    "GroupWithUserData",
    "add_user_data",
    "check_config",
    "ineffective_config",
    "memory_after_assignment",
    "missing_topics",
    "remembers_nothing",
    "with_leader_settings",
    "with_member_settings",
    "without_foreign_data",
]  # fmt: skip

#: Names that a message lists.
_MOST_NAMED = 3

#: Format of the user data that members of a strategy send; the others send none.
_FORMATS = {
    "sticky": "sticky",
    "aiokafka:sticky": "sticky",
    "librdkafka:cooperative-sticky": "sticky",
    "kafka-python:sticky": "kafka-python",
    "cooperative-sticky": "generation",
    "failover": "failover",
    "faust": "faust",
    "faust:copartitioned": "faust",
}


class GroupWithUserData(NamedTuple):
    """Consumer group in which each member has the user data that an assignor needs.

    User data are the bytes that a consumer sends with its subscription when it joins.

    Attributes:
        group: the members, with user data in the assignor's format.
        warnings: messages about user data that were added or ignored.
    """

    group: Group
    warnings: tuple[str, ...] = ()


def add_user_data(
    strategy: Strategy,
    group: Group,
    cluster: Cluster,
    *,
    sender: str | None = None,
    compared: bool = False,
) -> GroupWithUserData:
    """Return a copy of a consumer group with the user data that its members would send.

    Some assignors, such as Kafka's sticky one, read owned partitions from the user data that
    members send when they join. A member without user data gets what it would send after it got its
    owned partitions. User data of other assignors are dropped.

    Args:
        strategy: the assignor that will run.
        group: the members of the problem.
        cluster: the topics and partitions of the Kafka cluster.
        sender: name of the assignor whose members sent the user data, if known.
        compared: whether several assignors are compared. Members with different user data of four
            bytes then sent priorities (``failover``), because the other meaning, the generation
            (``cooperative-sticky``), is one per group.

    >>> cluster = Cluster.from_topics({"t": 2})
    >>> group = Group([Member("c1", ["t"], owned={"t": [1]}, generation=3)])
    >>> add_user_data(registry.find("sticky"), group, cluster).group[0].user_data.hex()
    '00000001000174000000010000000100000003'
    """
    foreign = _has_other_format(strategy, group, sender, compared=compared)
    own_strategies = [with_member_settings(strategy, member) for member in group]
    described = (
        foreign
        or any(one is not strategy for one in own_strategies)
        or (remembers_nothing(strategy) and _sends_by_default(strategy))
    )
    members, made, warnings = [], [], []
    for member, own in zip(group, own_strategies, strict=True):
        data = None if foreign else member.user_data
        if data is None:
            memory = memory_after_assignment(own, member, cluster)
            if memory is not None:
                made.append(member.id)
            if memory is not None or described:
                data = own.subscription_user_data(member.topics, memory)
        elif own is not strategy and _would_send_other_data(own, strategy, member):
            warnings.append(_ignored_config_warning(strategy, member))
        members.append(member if data == member.user_data else member.replaced(user_data=data))
    if all(new is old for new, old in zip(members, group, strict=True)):
        return GroupWithUserData(group, tuple(warnings))
    expected = sender is not None and _format_of(sender) != _FORMATS.get(strategy.name)
    reads_claims = RebalanceProtocol.COOPERATIVE in strategy.protocols
    if made and not expected and not reads_claims:
        warnings.append(_made_warning(strategy, made))
    return GroupWithUserData(Group(members), tuple(warnings))


def _would_send_other_data(configured: Strategy, strategy: Strategy, member: Member) -> bool:
    """Return whether a consumer's settings contradict the user data that it sent when it joined.

    For example, the settings have a failover priority of 5, but the user data one of 9.
    ``configured`` is the assignor with the consumer's settings, ``strategy`` the one with default
    settings.
    """
    configured_data = configured.subscription_user_data(member.topics, None)
    default = strategy.subscription_user_data(member.topics, None)
    # They do if they produce other bytes than it sent, and are not the default settings.
    return configured_data not in {default, member.user_data}


def _ignored_config_warning(strategy: Strategy, member: Member) -> str:
    keys = ", ".join(key for key in member.config if _settings(strategy, key)) or "config"
    return (
        f"{member.id} has both userData and {keys}: userData counts, {keys} has no effect; "
        "leave one of the two out"
    )


def memory_after_assignment(strategy: Strategy, member: Member, cluster: Cluster) -> object:
    """Return the state that an assignor stores in a consumer after the last rebalance.

    It is computed from the partitions that the consumer owns. Some assignors derive from this state
    what the consumer sends when it joins again. The result is None if the consumer owns no
    partitions, or if the assignor stores nothing.

    Args:
        strategy: the consumer's assignor.
        member: the consumer, with its owned partitions.
        cluster: the topics and partitions of the Kafka cluster.
    """
    # A plain strategy remembers nothing; to build its claims takes longer than some plans.
    if not len(member.owned) or remembers_nothing(strategy):
        return None
    owned = Assignment.of(
        cluster.index,
        {member.id: member.owned},
        {topic: cluster.topic(topic) for topic in member.owned.topics},
    )
    return strategy.on_assignment(owned, None, member.generation)


def remembers_nothing(strategy: Strategy) -> bool:
    """Return whether consumers with this assignor store no state between rebalances.

    An assignor that stores state overrides `PlainStrategy.on_assignment`.
    """
    return getattr(type(strategy), "on_assignment", None) is PlainStrategy.on_assignment


def _sends_by_default(strategy: Strategy) -> bool:
    # Priorities of `failover`: a consumer without the setting sends the default.
    return strategy.subscription_user_data((), None) is not None


def without_foreign_data(strategy: Strategy, group: Group) -> Group:
    r"""Remove the user data from a consumer group if an assignor cannot read them; return a copy.

    Members that used another assignor send such user data. If the data have the assignor's own
    format, the group itself is returned.

    Args:
        strategy: the assignor that will run.
        group: the consumer group.

    >>> group = Group([Member("c1", ["t"], user_data=b"\0\0\0\x0a")])
    >>> without_foreign_data(registry.find("sticky"), group)[0].user_data is None
    True
    """
    if not _has_other_format(strategy, group, None, compared=False):
        return group
    return Group(member.replaced(user_data=None) for member in group)


def with_leader_settings(strategy: Strategy, group: Group) -> Strategy:
    """Return an assignor with the settings of the group's leader, its first member.

    The leader computes the assignment, so its settings apply to the whole group.
    """
    return with_member_settings(strategy, group[0]) if len(group) else strategy


def ineffective_config(strategies: Sequence[Strategy], group: Group) -> tuple[str, ...]:
    """Return a warning for each ``assignment.*`` setting of a member that no assignor uses.

    Usually the name of the setting is misspelt. Other settings are not checked, and nothing is
    checked if an assignor is a plug-in.

    >>> group = Group([Member("c1", ["t"], config={"assignment.consumer.prio": 9})])
    >>> ineffective_config([registry.find("failover")], group)
    ('assignment.consumer.prio of c1 has no effect: failover has no such setting',)
    """
    if not any(member.config for member in group) or any(map(registry.is_plug_in, strategies)):
        return ()
    first: dict[str, str] = {}
    for member in group:
        for key in member.config:
            known = any(_settings(strategy, key) for strategy in strategies)
            if key.startswith("assignment.") and not known:
                first.setdefault(key, member.id)
    names = _listed([one.name for one in strategies])
    have = "has" if len(strategies) == 1 else "have"
    return tuple(
        f"{key} of {member} has no effect: {names} {have} no such setting"
        for key, member in first.items()
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def missing_topics(group: Group, cluster: Cluster) -> tuple[str, ...]:
    """Return a warning for each topic to which a consumer subscribes but the cluster does not have.

    Usually the name of the topic is misspelt.

    >>> group = Group([Member("c1", ["orders", "order"])])
    >>> missing_topics(group, Cluster.from_topics({"orders": 1}))
    ("c1 subscribes to 'order', which is not among the topics",)
    """
    found: dict[str, str] = {}
    of = group.subscription_of.tolist()
    for number, names in enumerate(group.subscriptions):
        if -1 not in (numbers := list(cluster.topic_all(names))):
            continue
        first = group.ids[of.index(number)]
        for topic in (t for t, n in zip(names, numbers, strict=True) if n == -1):
            known = found.get(topic)
            if known is None or group.position[first] < group.position[known]:
                found[topic] = first
    return tuple(
        f"{member} subscribes to {topic!r}, which is not among the topics"
        for topic, member in found.items()
    )


def check_config(strategies: Sequence[Strategy], config: Mapping[str, object]) -> None:
    """Raise an error if a configuration has a setting that none of the assignors uses.

    Settings for single members are errors, too, because only the leader uses this configuration.

    Args:
        strategies: the assignors that will run.
        config: values by setting name.

    Raises:
        InvalidConfigError: a setting can only be set for single members, or no strategy has it.

    >>> check_config([registry.find("failover")], {"assignment.consumer.priority": 99})
    Traceback (most recent call last):
    partage.errors.InvalidConfigError: setting assignment.consumer.priority: is a member's own ...
    """
    if not isinstance(config, Mapping):
        raise InvalidConfigError("config", "must be a mapping: setting -> value", config)
    for key, value in config.items():
        found = [one for strategy in strategies for one in _settings(strategy, key)]
        if any(one.scope != "member" for one in found):
            continue
        if found:
            what = (
                "is a member's own setting and has no effect on the leader's decision: "
                "give it to each member, as members[].config or Member(config=...)"
            )
            raise InvalidConfigError(key, what, value)
        # A plug-in need not list its settings.
        silent = [one for one in strategies if not registry.settings_of(one)]
        if any(one.configure({key: value}) is not one for one in silent):
            continue
        raise InvalidConfigError(key, _unknown_setting_message(strategies, key), value)


def _unknown_setting_message(strategies: Sequence[Strategy], key: str) -> str:
    """Return the error message for an unknown setting, with the most similar known name.

    ``strategies`` are the assignors whose settings are known, and ``key`` is the unknown name.
    """
    names = _listed([one.name for one in strategies])
    have = "has" if len(strategies) == 1 else "have"
    known = {one.key: of.name for of in strategies for one in registry.settings_of(of)}
    if not known:
        return f"has no effect: {names} {have} no settings"
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    of = known[close[0]] if close else (strategies[0].name if len(strategies) == 1 else "NAME")
    return f"has no effect: {names} {have} no such setting; {hint}see `partage strategies {of}`"


def _settings(strategy: Strategy, key: str) -> list[Setting]:
    return [
        one
        for one in registry.settings_of(strategy)
        if key == one.key
        or (one.key.endswith(".<topic>") and key.startswith(one.key.removesuffix("<topic>")))
    ]


def with_member_settings(strategy: Strategy, member: Member) -> Strategy:
    """Return an assignor with the settings in a member's own ``config``.

    If the member has no settings of the assignor, the assignor is returned unchanged.
    """
    own = {key: value for key, value in member.config.items() if _settings(strategy, key)}
    silent = member.config and not registry.settings_of(strategy)
    return strategy.configure(member.config if silent else own) if own or silent else strategy


def _made_warning(strategy: Strategy, members: Sequence[str]) -> str:
    what = f"{strategy.name} reads what members own from their userData"
    return f"{what}; {_listed(members)} sent none: it was made from owned and generation"


def _format_of(name: str) -> str | None:
    try:
        return _FORMATS.get(registry.find(name).name)
    except (UnknownStrategyError, InvalidConfigError):
        return None


def _has_other_format(
    strategy: Strategy, group: Group, sender: str | None, *, compared: bool
) -> bool:
    """Return whether the members of a group sent user data in the format of another assignor.

    ``sender`` names the assignor that the members used; if it is None, the bytes are compared with
    all known formats. With ``compared``, several assignors are compared (see `add_user_data`).
    """
    sent = [member for member in group if member.user_data is not None]
    own = _FORMATS.get(strategy.name)
    if not sent or own is None:
        return False
    if sender is not None and (of_sender := _format_of(sender)) is not None:
        return of_sender != own
    if own == "generation":
        return compared and _contradict_as_generations(sent) and _all_fit("failover", sent)
    if any(_READERS[own](member.user_data or b"") for member in sent):
        return False
    return any(_all_fit(other, sent) for other in _READERS if other != own)


def _all_fit(form: str, members: Iterable[Member]) -> bool:
    return all(_READERS[form](member.user_data or b"") for member in members)


def _contradict_as_generations(members: Iterable[Member]) -> bool:
    # Members of one group have the generation of its last rebalance, or none.
    read = {
        int.from_bytes(member.user_data or b"", "big", signed=True)
        for member in members
        if member.generation == NO_GENERATION
    }
    return len(read - {NO_GENERATION}) > 1


def _is_sticky(data: bytes) -> bool:
    """Return whether bytes are complete user data of Kafka's sticky assignor.

    Version 0 has the owned partitions, version 1 also has their generation.
    """
    if len(data) < 4:
        return False
    claims = decode_sticky_user_data(data)
    if claims.generation is None:
        return len(data) == 4 or bool(claims.partitions)
    if claims.partitions or claims.generation != NO_GENERATION:
        return True
    return data == encode_sticky_user_data([], NO_GENERATION)


def _is_faust(data: bytes) -> bool:
    try:
        read_faust_subscription(data)
    except WireFormatError:
        return False
    return True


def _is_kafka_python(data: bytes) -> bool:
    return data[:2] == b"\0\1" and _is_sticky(data[2:])


def _is_priority(data: bytes) -> bool:
    return read_priorities(data)[1] is None


def _is_generation(data: bytes) -> bool:
    return len(data) == 4


_READERS: dict[str, Callable[[bytes], bool]] = {
    "sticky": _is_sticky,
    "kafka-python": _is_kafka_python,
    "failover": _is_priority,
    "faust": _is_faust,
    "generation": _is_generation,
}
