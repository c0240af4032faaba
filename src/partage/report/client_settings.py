"""Client settings that make a group run a policy, for each client library."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["STATIC_LINE", "base_policy", "family_of", "lines_of", "parse_policy", "spell"]

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


def family_of(clients: Iterable[str]) -> str:
    """Return which client settings a group's members use: java, librdkafka or python; "" if mixed.

    Unknown clients count as Java clients, unless there are others.

    >>> family_of(["java", "unknown"]), family_of(["java", "librdkafka"]), family_of(["aiokafka"])
    ('java', '', 'python')
    """
    found = {_FAMILIES[one] for one in clients if one in _FAMILIES}
    return "java" if not found else found.pop() if len(found) == 1 else ""


def parse_policy(policy: str) -> tuple[str, str, tuple[str, ...]]:
    """Split a policy's name into protocol, strategy and options.

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
    """Return the name of the policy that a group with this strategy runs, without options.

    >>> base_policy("range"), base_policy("cooperative-sticky")
    ('eager/range', 'cooperative/cooperative-sticky')
    """
    protocol, name, _ = parse_policy(strategy)
    return f"{protocol}/{name}"


def lines_of(policy: str, chosen: str = "", *, family: str = "java") -> tuple[str, ...] | None:
    """Return the consumer properties that make clients run a policy; None if no settings do.

    Args:
        policy: name of the policy.
        chosen: the strategy that the group has now.
        family: kind of client settings, from `family_of`; "" has no common properties.

    >>> lines_of("consumer/uniform")[:2]
    ('group.protocol=consumer', 'group.remote.assignor=uniform')
    >>> lines_of("eager/optimal") is None
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
    elif strategy != chosen and family == "java":
        lines += _java_lines(strategy, chosen)
    elif strategy != chosen:
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


def _java_lines(strategy: str, chosen: str) -> list[str]:
    """Return the Java consumer properties that set a strategy.

    A change of strategy needs two restarts: all members must have one strategy in common, or the
    coordinator rejects them (INCONSISTENT_GROUP_PROTOCOL). KIP-429 asks for two restarts for
    another reason.
    """
    name = f"{_PACKAGE}{_CLASSES[strategy]}"
    # Continued lines fit into a narrow terminal.
    key = "partition.assignment.strategy=\\"
    if strategy != "cooperative-sticky" and chosen not in _CLASSES:
        return [key, f"  {name}"]
    old = f"{_PACKAGE}{_CLASSES.get(chosen, 'RangeAssignor')}"
    return [
        "# restart all members with both, then again without the second",
        key,
        f"  {name},\\",
        f"  {old}",
    ]


def spell(lines: Iterable[str], family: str) -> tuple[str, ...]:
    """Rewrite Java consumer properties for another client library; Python gets keyword arguments.

    >>> spell(["session.timeout.ms=9000", "# restart"], "python")
    ('session_timeout_ms=9000', '# restart')
    """
    if family != "python":
        return tuple(lines)
    parts = (line.partition("=") for line in lines)
    return tuple(
        name + equals + value if name.startswith("#") else name.replace(".", "_") + equals + value
        for name, equals, value in parts
    )


def _librdkafka_lines(strategy: str, family: str) -> list[str] | None:
    """Return the librdkafka properties that set a strategy; None if it cannot be set by properties.

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
