"""Client settings that make a group run a policy, for each client library."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "STATIC_LINE",
    "base_policy",
    "client_family",
    "parse_policy",
    "poll_lines",
    "settings_lines",
    "translate_lines",
]

_PACKAGE = "org.apache.kafka.clients.consumer."
_CLASSES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
_REMOTE = ("uniform", "range")
STATIC_LINE = "group.instance.id=<same name after each restart>"


_FAMILIES = {
    "java": "java", "librdkafka": "librdkafka", "kafka-python": "python", "aiokafka": "python",
    "kafka-python or aiokafka": "python",
}  # fmt: skip


def client_family(clients: Iterable[str]) -> str:
    """Return the kind of client library that a consumer group uses: java, librdkafka or python.

    The result is "" if the group mixes several kinds. ``clients`` are the names of the members'
    libraries. Unknown libraries are ignored beside known ones; alone, they count as Java clients.

    >>> [client_family(one) for one in (["java", "unknown"], ["java", "librdkafka"], ["aiokafka"])]
    ['java', '', 'python']
    """
    found = {_FAMILIES[one] for one in clients if one in _FAMILIES}
    return "java" if not found else found.pop() if len(found) == 1 else ""


def parse_policy(policy: str) -> tuple[str, str, tuple[str, ...]]:
    """Split a policy's name, such as ``consumer/uniform+static``, into protocol, strategy and
    options.

    >>> parse_policy("eager/range+static"), parse_policy("server:uniform")
    (('eager', 'range', ('static',)), ('consumer', 'uniform', ()))
    """
    name, *options = policy.split("+")
    protocol, slash, strategy = name.partition("/")
    if slash:
        return protocol, strategy, tuple(options)
    if name.startswith("server:"):
        return "consumer", name.removeprefix("server:"), tuple(options)
    return "cooperative" if name == "cooperative-sticky" else "eager", name, tuple(options)


def base_policy(strategy: str) -> str:
    """Return the policy (protocol and strategy) that a group with the given strategy has.

    Options such as ``+static`` are dropped.

    >>> base_policy("range"), base_policy("cooperative-sticky")
    ('eager/range', 'cooperative/cooperative-sticky')
    """
    protocol, name, _ = parse_policy(strategy)
    return f"{protocol}/{name}"


def settings_lines(
    policy: str, current: str = "", *, family: str = "java"
) -> tuple[str, ...] | None:
    """Return the consumer properties that make clients use a policy (protocol and strategy).

    The result is None if no properties can do this, for example because Kafka does not ship the
    strategy.

    Args:
        policy: name of the policy, such as ``consumer/uniform+static``.
        current: the strategy that the group has now; with ``server:`` in the consumer protocol.
        family: kind of client library from `client_family`; "" has no common properties.

    >>> settings_lines("consumer/uniform")[:2]
    ('group.protocol=consumer', 'group.remote.assignor=uniform')
    >>> settings_lines("eager/optimal") is None
    True
    """
    protocol, strategy, options = parse_policy(policy)
    lines: list[str] = []
    if not family:
        return None
    if protocol == "consumer":
        if strategy not in _REMOTE or family == "python":
            return None
        lines += [
            "group.protocol=consumer",
            f"group.remote.assignor={strategy}",
            "# remove partition.assignment.strategy, session.timeout.ms,",
            "# and heartbeat.interval.ms: the broker sets these",
        ]
    elif strategy not in _CLASSES:
        return None
    elif current.startswith("server:"):
        back = _classic_lines(strategy, family)
        if back is None:
            return None
        lines += back
    elif strategy != current and family == "java":
        lines += _java_lines(strategy, current)
    elif strategy != current:
        names = _librdkafka_lines(strategy, family)
        if names is None:
            return None
        lines += names
    for option in options:
        if option == "static":
            lines.append(STATIC_LINE)
        elif option.startswith("timeout="):
            lines.append(f"session.timeout.ms={_ms(option.removeprefix('timeout='))}")
    return tuple(lines)


def _classic_lines(strategy: str, family: str) -> list[str] | None:
    """Return the properties that move a group from the consumer protocol back to the classic one.

    The group then uses the given assignment strategy. ``family`` is the kind of client library
    (java, librdkafka or python). The result is None if properties of that library cannot set the
    strategy.
    """
    names = (
        ["partition.assignment.strategy=\\", f"  {_PACKAGE}{_CLASSES[strategy]}"]
        if family == "java"
        else _librdkafka_lines(strategy, family)
    )
    if names is None:
        return None
    own = [one for one in names if not one.startswith("#")]
    return ["# restart the members one by one, all with", "group.protocol=classic", *own]


def _java_lines(strategy: str, current: str) -> list[str]:
    """Return the configuration lines that change the assignment strategy of Java consumers.

    The lines list the new and the ``current`` strategy where both must be supported during a
    rolling restart.
    """
    # A change of strategy needs two restarts: all members must have one strategy in common, or the
    # coordinator rejects them (INCONSISTENT_GROUP_PROTOCOL).
    name = f"{_PACKAGE}{_CLASSES[strategy]}"
    # Continued lines fit into a narrow terminal.
    key = "partition.assignment.strategy=\\"
    if strategy != "cooperative-sticky" and current not in _CLASSES:
        return [key, f"  {name}"]
    old = f"{_PACKAGE}{_CLASSES.get(current, 'RangeAssignor')}"
    return [
        "# restart all members with both, then again without the second",
        key,
        f"  {name},\\",
        f"  {old}",
    ]


def translate_lines(lines: Iterable[str], family: str) -> tuple[str, ...]:
    """Translate Java consumer properties to the syntax of another client library.

    Clients of family ``python`` get keyword arguments. Clients of family ``librdkafka`` use the
    same properties as Java.

    >>> translate_lines(["session.timeout.ms=9000", "# restart"], "python")
    ('session_timeout_ms=9000', '# restart')
    """
    if family != "python":
        return tuple(lines)
    parts = (line.partition("=") for line in lines)
    return tuple(
        name + equals + value if name.startswith("#") else name.replace(".", "_") + equals + value
        for name, equals, value in parts
    )


#: Defaults of max.poll.records; librdkafka's poll returns one record, and aiokafka has no limit.
_POLL_RECORDS = {"java": 500, "kafka-python": 500}
_DEFAULT_POLL_MS = 300_000


def poll_lines(clients: Iterable[str], poll_ms: int, longest_ms: int) -> tuple[str, ...]:
    """Return consumer properties that keep clients from exceeding ``max.poll.interval.ms``.

    The lines offer two ways: fewer records per poll, or a longer interval. The new interval is a
    quarter longer than the longest time between two polls.

    Args:
        clients: names of the group's client libraries; the result is empty if their syntax differs.
        poll_ms: present value of max.poll.interval.ms.
        longest_ms: longest observed time between two polls (ms).

    >>> for line in poll_lines(["java"], 10_000, 15_000):
    ...     print(line)
    # fewer records per poll; from 500, the default: the log lacks yours
    max.poll.records=263
    # or more time between two polls (now 10000, default 300000)
    max.poll.interval.ms=19000
    """
    known = {one for one in clients if one in _FAMILIES} or {"java"}
    families = {_FAMILIES[one] for one in known}
    if "python" in families and len(families) > 1:
        return ()
    enough = (longest_ms * 5 // 4_000 + 1) * 1_000
    lines: list[str] = []
    defaults = {_POLL_RECORDS.get(one) for one in known}
    records = defaults.pop() if len(defaults) == 1 else None
    if records is not None:
        lines += [
            f"# fewer records per poll; from {records}, the default: the log lacks yours",
            f"max.poll.records={max(1, records * poll_ms // enough)}",
        ]
    either = "or more" if lines else "more"
    lines += [
        f"# {either} time between two polls (now {poll_ms}, default {_DEFAULT_POLL_MS})",
        f"max.poll.interval.ms={enough}",
    ]
    return translate_lines(lines, families.pop())


def _librdkafka_lines(strategy: str, family: str) -> list[str] | None:
    """Return the configuration lines that set the assignment strategy of librdkafka consumers.

    ``family`` is ``librdkafka`` or ``python``. The result is None for Python clients, which set
    their strategy in code, and for ``sticky``, which librdkafka lacks.
    """
    if family != "librdkafka" or strategy == "sticky":
        return None
    line = f"partition.assignment.strategy={strategy}"
    if strategy != "cooperative-sticky":
        return [line]
    return ["# librdkafka cannot list both kinds: stop all members, then start them with",
            line]  # fmt: skip


def _ms(duration: str) -> str:
    for unit, factor in (("ms", 1), ("s", 1_000), ("m", 60_000)):
        number = duration.removesuffix(unit)
        if number != duration and number.isdigit():
            return str(int(number) * factor)
    return duration
