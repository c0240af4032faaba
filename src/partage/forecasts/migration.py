"""Readiness of a group for another rebalance protocol: `consumer` (KIP-848) or cooperative.

The inputs are the members of the newest generation (client library by the bytes that it sent,
timeouts, racks, instance ids), the group's strategy, and the simulated effect of the change. What
no record shows, such as the patterns of classic members, is listed as a check to make in the code.
Members of the consumer protocol send the pattern that the broker matches
(``SubscribedTopicRegex``).

Sources: Kafka's documentation "Consumer Rebalance Protocol" (4.3), KIP-848, KIP-429, KIP-345;
librdkafka's migration guide (2.12).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from partage.history.causes import SESSION_TIMEOUT_MS
from partage.tables.sums import Estimate

__all__ = [
    "BLOCKED",
    "BLOCKER",
    "CHANGE",
    "CHANGES",
    "CHECK",
    "CONNECT_STRATEGIES",
    "DONE",
    "MOST_SESSION_MS",
    "NOTE",
    "PROTOCOLS",
    "READY",
    "STREAMS_STRATEGY",
    "Effect",
    "Finding",
    "Migration",
    "plan_migration",
    "supports",
    "target_policy",
]

_Row = Mapping[str, Any]
#: Protocols that a group can be migrated to.
PROTOCOLS = ("consumer", "cooperative")
#: Values of `Migration.status`.
READY, CHANGES, BLOCKED, DONE = "ready", "ready after changes", "not possible", "done"
#: Values of `Finding.kind`: what prevents the migration, what must be changed first, what to look
#: for in the code, and what will be different.
BLOCKER, CHANGE, CHECK, NOTE = "blocker", "change", "check", "note"

#: Defaults of Kafka 4.3 for session timeouts of consumer groups: lowest and highest (ms). The
#: value is `SESSION_TIMEOUT_MS`.
_LEAST_SESSION_MS, MOST_SESSION_MS = 45_000, 60_000
#: Strategies of Kafka's Java client with their classes; any other one has user data of its own.
_KAFKA_STRATEGIES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
_PACKAGE = "org.apache.kafka.clients.consumer."
#: Classes of these strategies in kafka-python; aiokafka has those without the cooperative one.
_PYTHON_CLASSES = {
    "range": "RangePartitionAssignor",
    "roundrobin": "RoundRobinPartitionAssignor",
    "sticky": "StickyPartitionAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
#: Strategy name of a classic Kafka Streams application, and those of Kafka Connect's workers.
STREAMS_STRATEGY, CONNECT_STRATEGIES = "stream", ("sessioned", "compatible")
#: Client libraries without the consumer protocol, and without the cooperative one. The name of two
#: libraries is that of members whose bytes fit both.
_NO_CONSUMER = ("kafka-python", "aiokafka", "kafka-python or aiokafka")
_NO_COOPERATIVE = ("aiokafka",)
_COOPERATIVE = "cooperative-sticky"
_NO_MEMBERS = "the log has no members of the group: record it while it runs"
_RESTART_ALL = "restart the members one by one"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check of a consumer group before its migration to another rebalance protocol.

    For example, a client library does not support the protocol.

    Attributes:
        kind: blocker, change, check or note.
        title: what it is about, in one to three words for tables.
        text: the finding, with what to do.
    """

    kind: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Effect:
    """Simulated effect of another rebalance protocol on the rebalances of a consumer group.

    The group's recorded history is simulated under the new protocol.

    Attributes:
        policy: the simulated policy (protocol and strategy).
        rebalances: number of simulated rebalances under the policy.
        rebalances_now: number of recorded rebalances.
        saves: expected reduction of the time without a consumer, in partition-seconds; None if
            unknown.
        deployment: partition-seconds without a consumer in one rolling deployment under the policy,
            as `partage forecast` simulates it; None if unknown or not requested.
        deployment_now: the same under the present settings.
    """

    policy: str
    rebalances: int
    rebalances_now: int
    saves: Estimate | None
    deployment: Estimate | None = None
    deployment_now: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Migration:
    """Readiness of a consumer group for another rebalance protocol, and the steps of the migration.

    `plan_migration` returns it.

    Attributes:
        group: name of the group.
        protocol: the new protocol, one of `PROTOCOLS`.
        status: `READY`, `CHANGES`, `BLOCKED` or `DONE`.
        clients: dict from client library to its number of members.
        findings: blockers first, then changes, checks and notes.
        effect: the simulated effect; None if nothing is left to do or the run did not simulate it.
        steps: the order of steps.
        back: steps of the rollback.
        policy: protocol and strategy after the migration; empty if nothing is left to do, or if
            the group has no consumers.
    """

    group: str
    protocol: str
    status: str
    clients: Mapping[str, int]
    findings: tuple[Finding, ...]
    effect: Effect | None
    steps: tuple[str, ...]
    back: tuple[str, ...]
    policy: str = ""


def supports(protocol: str, clients: Iterable[str]) -> bool:
    """Return whether the client libraries of all members support a rebalance protocol.

    Unknown libraries count as supporting it.

    Args:
        protocol: the protocol, such as ``consumer`` or ``cooperative``.
        clients: names of the members' client libraries; empty if unknown.

    >>> supports("consumer", ["java"]), supports("consumer", ["java", "aiokafka"])
    (True, False)
    """
    missing = {"consumer": _NO_CONSUMER, "cooperative": _NO_COOPERATIVE}
    return not set(clients) & set(missing.get(protocol, ()))


def target_policy(protocol: str, strategy: str | None) -> str:
    """Return the protocol and assignment strategy that a group should have after a migration.

    A group with the range assignor keeps it, because its application may need co-partitioning.

    Args:
        protocol: the new protocol, one of `PROTOCOLS`.
        strategy: the strategy that the group has now; None if unknown.

    >>> target_policy("consumer", "sticky"), target_policy("consumer", "range")
    ('consumer/uniform', 'consumer/range')
    """
    if protocol == "cooperative":
        return "cooperative/cooperative-sticky"
    return f"consumer/{'range' if strategy == 'range' else 'uniform'}"


def plan_migration(
    group: str,
    protocol: str,
    *,
    kind: str,
    strategy: str | None,
    members: Sequence[_Row],
    causes: Iterable[str] = (),
    effect: Effect | None = None,
) -> Migration:
    """Check whether a consumer group can migrate to another rebalance protocol, and list the steps.

    The result says what prevents the migration, what to change or check first, and how to roll
    back.

    Args:
        group: name of the group.
        protocol: the new protocol, one of `PROTOCOLS`.
        kind: the group's recorded kind: "classic", "consumer", "streams", "share", or several in
            order of time, such as "classic+consumer".
        strategy: the strategy that it chose last; None if unknown.
        members: the members of its newest generation, as rows of table ``members``.
        causes: kinds of causes of its rebalances.
        effect: the simulated effect; its policy decides which assignor the steps name.

    >>> member = {"client": "java", "certainty": "certain", "subscription_version": 3,
    ...           "rack": None, "instance": None, "session_timeout_ms": 45_000, "topics": ["t"]}
    >>> found = plan_migration("billing", "consumer", kind="classic", strategy="range",
    ...                        members=[member])
    >>> found.status, found.findings[0].kind
    ('ready after changes', 'change')
    """
    clients = dict(Counter(str(row["client"]) for row in members))
    done = _reason_done(protocol, kind, strategy, members)
    if done is not None:
        findings = [Finding(NOTE, "migrated", done), *_pattern_findings(members)]
        back = _return_to_classic(strategy, members) if protocol == "consumer" else ()
        return Migration(group, protocol, DONE, clients, tuple(findings), None, (), back)
    policy = target_policy(protocol, strategy) if effect is None else effect.policy
    if protocol == "consumer":
        findings = [
            *_client_findings(members), *_strategy_findings(strategy),
            *_mixed_group_findings(clients, strategy),
            *_session_findings(members), *_setting_findings(members),
            *_rack_findings(members), *_static_findings(members),
            *_code_findings(set(causes), members), *_pattern_findings(members),
        ]  # fmt: skip
        assignor = policy.partition("/")[2].partition("+")[0]
        at_once = bool(_mixed_group_findings(clients, strategy))
        steps = _consumer_steps(members, assignor, at_once=at_once)
        back = _return_to_classic(strategy, members)
    else:
        findings = [
            *_kind_findings(kind, strategy),
            *_cooperative_clients(members),
            *_cooperative_code(strategy),
        ]
        steps, back = _cooperative_steps(clients, strategy), _cooperative_back(clients, strategy)
    if _kind_findings(kind, strategy):  # findings on consumers do not apply
        findings, policy = _kind_findings(kind, strategy), ""
    order = (BLOCKER, CHANGE, CHECK, NOTE)
    findings.sort(key=lambda one: order.index(one.kind))
    kinds = {one.kind for one in findings}
    status = BLOCKED if BLOCKER in kinds else CHANGES if CHANGE in kinds else READY
    if status == BLOCKED:
        steps = back = ()
    return Migration(
        group, protocol, status, clients, tuple(findings), effect, steps, back, policy
    )  # fmt: skip


def _reason_done(
    protocol: str, kind: str, strategy: str | None, members: Sequence[_Row]
) -> str | None:
    """Return the reason why a group needs no protocol migration; None if it needs one.

    It needs none if it already uses the protocol or a newer one.

    Args:
        protocol: the new protocol.
        kind: the group's recorded kind, such as "classic".
        strategy: the strategy that it chose last; None if unknown.
        members: its newest members, as rows of table ``members``.
    """
    classic = sum(row["subscription_version"] is not None for row in members)
    if kind.rsplit("+", maxsplit=1)[-1] == "consumer":
        if protocol == "consumer" and classic:
            return None  # members of the classic protocol are still in the group
        return "the group uses the consumer protocol: its rebalances are incremental"
    if protocol == "cooperative" and strategy == "cooperative-sticky":
        return "the group uses cooperative-sticky"
    return None


def _kind_findings(kind: str, strategy: str | None) -> list[Finding]:
    """Return a finding if a group cannot migrate because its members are no ordinary consumers.

    An example is a Kafka Connect cluster. The list is empty for a group of consumers.

    Args:
        kind: the group's recorded kind, such as "classic".
        strategy: the strategy that it chose last; None if unknown.
    """
    last = kind.rsplit("+", maxsplit=1)[-1]
    if last == "classic" and strategy == STREAMS_STRATEGY:
        text = (
            "Kafka Streams assigns tasks itself. The application migrates with "
            "group.protocol=streams (KIP-1071); partage streams --from-capture simulates it"
        )
        return [Finding(BLOCKER, "Kafka Streams", text)]
    if last == "classic" and strategy in CONNECT_STRATEGIES:
        text = "a Kafka Connect cluster: its workers are no consumers"
        return [Finding(BLOCKER, "Kafka Connect", text)]
    if last in ("classic", "consumer"):
        return []
    title = f"{last} group"
    if last == "streams":
        text = "a streams group has a protocol of its own (KIP-1071)"
        return [Finding(BLOCKER, title, text)]
    text = f"kind {last}: the group has no consumers that rebalance"
    return [Finding(BLOCKER, title, text)]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# -- to the consumer protocol ------------------------------------------------------------------


def _client_findings(members: Sequence[_Row]) -> list[Finding]:
    """Return findings about the client libraries of a group that is to use the consumer protocol.

    Some libraries do not support it. Libraries are recognised by the subscriptions of ``members``.
    """
    found = []
    if not members:
        found.append(Finding(BLOCKER, "no members", _NO_MEMBERS))
    count = Counter(str(row["client"]) for row in members)
    old = sum(
        row["client"] == "java" and row["subscription_version"] in (0, 1, 2) for row in members
    )
    if old:
        found.append(Finding(
            CHANGE, "old clients", f"{_count(old, 'Java member')} sent a subscription older than "
            "3.5: upgrade to 4.0 or later first",
        ))  # fmt: skip
    if count["java"] > old:
        text = "Java members need kafka-clients 4.0 or later; their bytes show 3.5 or later only"
        found.append(Finding(CHECK, "client version", text))
    if count["librdkafka"]:
        text = "librdkafka members need 2.12 or later; their bytes do not show the version"
        found.append(Finding(CHECK, "client version", text))
    found += [
        Finding(
            BLOCKER, name, f"{_count(count[name], 'member')} with {name}: Partage knows no release "
            "that speaks the protocol. They may stay in the group with the classic protocol",
        )
        for name in _NO_CONSUMER if count[name]
    ]  # fmt: skip
    if count["unknown"]:
        text = (
            f"{_count(count['unknown'], 'member')} with an unknown client: look for "
            "group.protocol=consumer"
        )
        found.append(Finding(CHECK, "unknown client", text))
    return found


def _strategy_findings(strategy: str | None) -> list[Finding]:
    """Return findings about a group's assignment strategy before it uses the consumer protocol.

    With that protocol the broker assigns partitions, so the group loses its own strategy.

    Args:
        strategy: the strategy that the group has now.
    """
    if strategy in (None, "uniform", "server:uniform", "server:range"):
        return []
    if strategy not in _KAFKA_STRATEGIES:
        return [Finding(
            BLOCKER, "custom assignor", f"brokers have no assignor {strategy}, and reject a "
            "classic group whose assignments carry user data. Change to one of Kafka's assignors "
            "first",
        )]  # fmt: skip
    if strategy == "range":
        text = (
            "the broker's default is uniform. Topics that are joined by partition number need "
            "group.remote.assignor=range"
        )
        return [Finding(CHANGE, "assignor", text)]
    text = f"the broker assigns with uniform instead of {strategy}"
    return [Finding(NOTE, "assignor", text)]


def _mixed_group_findings(clients: Mapping[str, int], strategy: str | None) -> list[Finding]:
    """Return a warning if the broker rejects a group in which some members still use the old
    protocol.

    All members must then be restarted at the same time. ``clients`` counts the members by client
    library; ``strategy`` is the group's present strategy.
    """
    # This happens if a librdkafka member leads a cooperative-sticky group: it writes user data into
    # assignments, which Kafka 4.3.1 takes for data of a custom assignor.
    if strategy != "cooperative-sticky" or not clients.get("librdkafka"):
        return []
    text = (
        "librdkafka's cooperative-sticky writes user data into assignments, and the broker refuses "
        "members of the consumer protocol beside it (GROUP_ID_NOT_FOUND): change all members at "
        "once"
    )
    return [Finding(CHANGE, "no mixed group", text)]


def _session_findings(members: Sequence[_Row]) -> list[Finding]:
    sent = _session_timeouts(members)
    if not sent:
        return []
    shown = ", ".join(map(str, sent))
    if all(_LEAST_SESSION_MS <= one <= MOST_SESSION_MS for one in sent):
        text = (
            f"session.timeout.ms={shown} of the members no longer counts: set the group's "
            f"consumer.session.timeout.ms={max(sent)} (kafka-configs.sh --entity-type groups)"
        )
        return [Finding(CHANGE, "session timeout", text)]
    limit = (
        f"lower group.consumer.min.session.timeout.ms to {max(sent)}"
        if max(sent) < _LEAST_SESSION_MS
        else f"raise group.consumer.max.session.timeout.ms to {max(sent)}"
    )
    text = (
        f"session.timeout.ms={shown} of the members no longer counts. Brokers accept "
        f"{_LEAST_SESSION_MS} to {MOST_SESSION_MS} by default. To keep the value, {limit}, then "
        f"set the group's consumer.session.timeout.ms={max(sent)}"
    )
    return [Finding(CHANGE, "session timeout", text)]


def _session_timeouts(members: Sequence[_Row]) -> list[int]:
    """Return the session timeouts (ms) that members sent, ascending and without duplicates.

    Kafka's default is left out.
    """
    return sorted({int(row["session_timeout_ms"]) for row in members} - {-1, SESSION_TIMEOUT_MS})


def _setting_findings(members: Sequence[_Row]) -> list[Finding]:
    if not members:
        return []
    text = (
        "remove partition.assignment.strategy, session.timeout.ms and heartbeat.interval.ms from "
        "the clients: with group.protocol=consumer the Java client and librdkafka refuse to start "
        "with them"
    )
    return [Finding(CHANGE, "settings", text)]


def _rack_findings(members: Sequence[_Row]) -> list[Finding]:
    racks = {row["rack"] for row in members} - {None, ""}
    if not racks:
        return []
    text = (
        f"members name {_count(len(racks), 'rack')}. The broker's assignors ignore racks "
        "(KAFKA-17747): reads across racks will rise. Fetching from the closest replica still works"
    )
    return [Finding(NOTE, "racks", text)]


def _static_findings(members: Sequence[_Row]) -> list[Finding]:
    static = sum(row["instance"] is not None for row in members)
    if not static:
        return []
    text = (
        f"{_count(static, 'static member')}: instance ids stay. A new process with the id of a "
        "running member is rejected (UNRELEASED_INSTANCE_ID); with the classic protocol it "
        "replaces the running one. Stop the old process first"
    )
    return [Finding(NOTE, "static members", text)]


def _code_findings(causes: set[str], members: Sequence[_Row]) -> list[Finding]:
    """Return what to check in the application's code before the group uses the consumer protocol.

    For example, rebalance listeners are called with other partitions.

    Args:
        causes: recorded kinds of causes of the group's rebalances.
        members: its newest members, as rows of table ``members``.
    """
    found = [
        Finding(CHECK, "listeners", "rebalance listeners get added and revoked partitions only, "
                "never the whole assignment, also where the strategy was eager"),
        Finding(CHECK, "patterns", "subscriptions by pattern: no record of a classic member shows "
                "them. A java.util.regex pattern works as before; SubscriptionPattern lets the "
                "broker match (RE2 syntax)"),
        Finding(NOTE, "heartbeats", "brokers set the interval of heartbeats "
                "(group.consumer.heartbeat.interval.ms, 5 s by default), no longer "
                "heartbeat.interval.ms of the clients (3 s): with a longer one, members learn of a "
                "new assignment later"),
    ]  # fmt: skip
    if "request" in causes:
        text = "the group requested rebalances: enforceRebalance does nothing in the protocol"
        found.append(Finding(CHECK, "enforceRebalance", text))
    if len({tuple(sorted(row["topics"] or ())) for row in members}) > 1:
        text = "members subscribe to different topics: uniform is less even and slower for those"
        found.append(Finding(NOTE, "different topics", text))
    return found


def _matched_patterns(members: Sequence[_Row]) -> list[str]:
    """Return the topic patterns (RE2) to which members subscribe; the broker matches them."""
    return sorted({row["pattern"] for row in members if row.get("pattern")})


def _pattern_findings(members: Sequence[_Row]) -> list[Finding]:
    """Return a warning if members subscribe to topics by a pattern that the broker matches.

    A classic consumer cannot use such patterns, which matters for a rollback. The list is empty
    without patterns.
    """
    patterns = _matched_patterns(members)
    if not patterns:
        return []
    count = sum(bool(row.get("pattern")) for row in members)
    text = (
        f"{_count(count, 'member')} let the broker match {', '.join(patterns)} (RE2 syntax). A "
        "classic consumer cannot: see the rollback"
    )
    return [Finding(NOTE, "patterns", text)]


def _consumer_steps(members: Sequence[_Row], assignor: str, *, at_once: bool) -> tuple[str, ...]:
    limits = (
        ["set the group's session timeout on the broker (see above)"]
        if _session_timeouts(members) else []
    )  # fmt: skip
    return (
        "brokers: 4.0 or later; kafka-features.sh describe shows group.version 1 or later, and "
        "group.consumer.migration.policy is bidirectional (the default)",
        "clients: upgrade all members, still with the classic protocol",
        *limits,
        *_consumer_restarts(assignor, at_once=at_once),
        "record the group again and compare: partage diff",
    )


def _consumer_restarts(assignor: str, *, at_once: bool) -> tuple[str, ...]:
    new = f"group.protocol=consumer, group.remote.assignor={assignor}, without the removed settings"
    if at_once:
        return ("stop all members", f"start them with {new}")
    return (
        f"one member: {new}; the group becomes a consumer group with classic members",
        "check it for a day: partage groups shows kind consumer, all partitions have an owner",
        f"{_RESTART_ALL} with the new settings",
    )


def _return_to_classic(strategy: str | None, members: Sequence[_Row]) -> tuple[str, ...]:
    """Return instructions for switching a group back to the classic rebalance protocol.

    Each instruction is one text, for example which client settings to change before a restart.

    Args:
        strategy: name of the group's present assignor.
        members: members of the group's latest generation, as rows of table ``members``.
    """
    # The classic Java consumer rejects a SubscriptionPattern (``ClassicKafkaConsumer`` 4.3.1 throws
    # UnsupportedOperationException). librdkafka matches a topic that begins with ``^`` itself
    # there.
    shared = strategy if strategy in _KAFKA_STRATEGIES else "cooperative-sticky"
    clients = [str(row["client"]) for row in members]
    sent = _session_timeouts(members)
    is_classic = any(row["subscription_version"] is not None for row in members)
    former = (
        f", session.timeout.ms={max(sent)} as before" if sent
        else "" if is_classic
        else ", the former session.timeout.ms"
    )  # fmt: skip
    patterns = _matched_patterns(members)
    code = [
        f"code: subscribe to {', '.join(patterns)} with java.util.regex.Pattern, because the "
        "classic Java consumer rejects SubscriptionPattern; check that both match the same topics. "
        "librdkafka keeps its pattern"
    ] if patterns else []  # fmt: skip
    return (
        *code,
        f"{_RESTART_ALL} with group.protocol=classic{former} and "
        f"{_assignor_setting((shared,), clients)}, the same in all members",
        "the group becomes a classic group when its last member with the consumer protocol leaves; "
        "offsets stay",
    )


# -- to cooperative rebalances -----------------------------------------------------------------


def _cooperative_clients(members: Sequence[_Row]) -> list[Finding]:
    found = []
    if not members:
        found.append(Finding(BLOCKER, "no members", _NO_MEMBERS))
    count = Counter(str(row["client"]) for row in members)
    old = sum(row["client"] == "java" and row["subscription_version"] == 0 for row in members)
    if old:
        text = f"{_count(old, 'Java member')} sent a subscription older than 2.4: upgrade first"
        found.append(Finding(CHANGE, "old clients", text))
    if count["aiokafka"]:
        found.append(Finding(BLOCKER, "aiokafka", "aiokafka has no cooperative protocol"))
    elif count["kafka-python or aiokafka"]:
        text = (
            "kafka-python has cooperative-sticky from 2.1, aiokafka has no cooperative protocol: "
            "their bytes are equal"
        )
        found.append(Finding(CHECK, "client library", text))
    if len(count) > 1:
        text = "clients of several libraries: all need cooperative-sticky in their lists at once"
        found.append(Finding(CHECK, "several clients", text))
    return found


def _cooperative_code(strategy: str | None) -> list[Finding]:
    found = [
        Finding(CHECK, "listeners", "rebalance listeners get added and revoked partitions only. "
                "Code that takes the partitions of onPartitionsAssigned for the whole assignment "
                "breaks"),
        Finding(NOTE, "two steps", "a rebalance that moves partitions has two steps, so rebalances "
                "are counted twice; partitions that stay are read without a break"),
    ]  # fmt: skip
    if strategy == "range":
        text = "topics that are joined by partition number lose their common owner: range keeps it"
        found.append(Finding(CHECK, "joined topics", text))
    return found


def _cooperative_steps(clients: Mapping[str, int], strategy: str | None) -> tuple[str, ...]:
    if clients.get("librdkafka"):
        return (
            "librdkafka cannot list eager and cooperative assignors together: stop all members",
            f"start them with {_assignor_setting((_COOPERATIVE,), clients)}",
        )
    return (
        f"{_RESTART_ALL} with {_assignor_setting((_COOPERATIVE, strategy), clients)}",
        f"{_RESTART_ALL} with {_assignor_setting((_COOPERATIVE,), clients)}",
        "record the group again and compare: partage diff",
    )


def _cooperative_back(clients: Mapping[str, int], strategy: str | None) -> tuple[str, ...]:
    old = _assignor_setting((strategy,), clients)
    if clients.get("librdkafka"):
        return (f"stop all members, start them with {old}",)
    return (
        f"{_RESTART_ALL} with {_assignor_setting((_COOPERATIVE, strategy), clients)}",
        f"{_RESTART_ALL} with {old}",
    )


# -- settings of the client libraries ------------------------------------------------------------


def _assignor_setting(strategies: Sequence[str | None], clients: Iterable[str]) -> str:
    """Return the client setting that lists assignment strategies, in the syntax of each library.

    The Java client expects class names, librdkafka the names of strategies, and Python clients a
    list of classes. If the libraries of the members are not known, the result has the syntax of
    Java and of librdkafka.

    Args:
        strategies: names of the strategies in order; None for one that is unknown.
        clients: names of the members' client libraries.

    >>> _assignor_setting(("range",), ["librdkafka"])
    'partition.assignment.strategy=range'
    >>> _assignor_setting(("cooperative-sticky", "range"), ["kafka-python"])
    'partition_assignment_strategy=[CooperativeStickyAssignor, RangePartitionAssignor] in code'
    """
    names = ["<present strategy>" if one is None else one.rpartition(":")[2] for one in strategies]
    java = ",".join(
        f"{_PACKAGE}{_KAFKA_STRATEGIES[one]}" if one in _KAFKA_STRATEGIES else one for one in names
    )
    python = ", ".join(_PYTHON_CLASSES.get(one, one) for one in names)
    forms = {
        "Java": f"partition.assignment.strategy={java}",
        "librdkafka": f"partition.assignment.strategy={','.join(names)}",
        "Python": f"partition_assignment_strategy=[{python}] in code",
    }
    of_client = {
        "java": "Java",
        "librdkafka": "librdkafka",
        **dict.fromkeys(_NO_CONSUMER, "Python"),
    }
    used = {of_client[one] for one in clients if one in of_client} or {"Java", "librdkafka"}
    if len(used) == 1:
        return forms[used.pop()]
    return " or ".join(f"{form} ({name})" for name, form in forms.items() if name in used)
