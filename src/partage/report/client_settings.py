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
    """Return the kind of client library that a group uses: java, librdkafka or python; "" if mixed.

    ``clients`` are the names of the members' libraries. Clients without known settings are ignored
    beside others; alone, they count as Java clients.

    >>> [client_family(one) for one in (["java", "unknown"], ["java", "librdkafka"], ["aiokafka"])]
    ['java', '', 'python']
    """
    found = {_FAMILIES[one] for one in clients if one in _FAMILIES}
    return "java" if not found else found.pop() if len(found) == 1 else ""


def parse_policy(policy: str) -> tuple[str, str, tuple[str, ...]]:
    """Split a policy's name, such as ``consumer/uniform+static``, into protocol, strategy, options.

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
    """Return the policy name of a strategy without options, such as ``eager/range``.

    >>> base_policy("range"), base_policy("cooperative-sticky")
    ('eager/range', 'cooperative/cooperative-sticky')
    """
    protocol, name, _ = parse_policy(strategy)
    return f"{protocol}/{name}"


def settings_lines(
    policy: str, current: str = "", *, family: str = "java"
) -> tuple[str, ...] | None:
    """Return the consumer properties that make clients use the protocol and strategy of a policy.

    The result is None if no properties do.

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
    """Return the configuration lines that move a group from the consumer to the classic protocol.

    The result is None if properties of this client library (``family``) cannot set the strategy.
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
    """Return the configuration lines that change the assignment strategy of Java consumers."""
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

    Python clients get keyword arguments, the family ``librdkafka`` the same properties.

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
    """Return consumer properties for clients that exceeded max.poll.interval.ms.

    Either fewer records per poll, or a longer interval: with a quarter to spare for the longest
    time between two polls.

    Args:
        clients: client libraries of the group; different spellings have no common lines.
        poll_ms: present max.poll.interval.ms.
        longest_ms: longest time between two polls (ms).

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

    ``family`` is ``librdkafka`` or ``python``. The result is None if properties cannot set it:
    Python clients take assignor classes in code.
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
