"""The configuration lines that make a policy true, by the client library that members use."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["STATIC_LINE", "base_policy", "family_of", "lines_of", "parted", "spelt"]

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
    """Whose settings a group's members have: java, librdkafka or python; "" where they differ.

    Unknown ones are taken for Java's, unless there are others.

    >>> family_of(["java", "unknown"]), family_of(["java", "librdkafka"]), family_of(["aiokafka"])
    ('java', '', 'python')
    """
    found = {_FAMILIES[one] for one in clients if one in _FAMILIES}
    return "java" if not found else found.pop() if len(found) == 1 else ""


def parted(policy: str) -> tuple[str, str, tuple[str, ...]]:
    """Protocol, strategy and options of a policy's name.

    >>> parted("eager/range+static"), parted("server:uniform"), parted("sticky")
    (('eager', 'range', ('static',)), ('consumer', 'uniform', ()), ('eager', 'sticky', ()))
    """
    name, *options = policy.split("+")
    protocol, slash, strategy = name.partition("/")
    if slash:
        return protocol, strategy, tuple(options)
    if name.startswith("server:"):
        return "consumer", name.removeprefix("server:"), tuple(options)
    return "cooperative" if name == "cooperative-sticky" else "eager", name, tuple(options)


def base_policy(strategy: str) -> str:
    """The policy of a group that chose a strategy.

    >>> base_policy("range"), base_policy("cooperative-sticky")
    ('eager/range', 'cooperative/cooperative-sticky')
    """
    protocol, name, _ = parted(strategy)
    return f"{protocol}/{name}"


def lines_of(policy: str, chosen: str = "", *, family: str = "java") -> tuple[str, ...] | None:
    """Lines of a consumer's properties; None where no setting makes the policy true.

    Args:
        policy: its name.
        chosen: the strategy that the group has now.
        family: whose properties, as `family_of` says; members of several have no lines in common.

    >>> lines_of("consumer/uniform")[:2]
    ('group.protocol=consumer', 'group.remote.assignor=uniform')
    >>> lines_of("eager/optimal") is None
    True
    """
    protocol, strategy, options = parted(policy)
    lines: list[str] = []
    if not family:
        return None
    if protocol == "consumer":
        if strategy not in _REMOTE or family == "python":
            return None
        lines += [
            "group.protocol=consumer",
            f"group.remote.assignor={strategy}",
            "# take out partition.assignment.strategy, session.timeout.ms,",
            "# and heartbeat.interval.ms: the broker decides these",
        ]
    elif strategy not in _CLASSES:
        return None
    elif strategy != chosen and family == "java":
        lines += _switched(strategy, chosen)
    elif strategy != chosen:
        others = _of_others(strategy, family)
        if others is None:
            return None
        lines += others
    for option in options:
        if option == "static":
            lines.append(STATIC_LINE)
        elif option.startswith("timeout="):
            lines.append(f"session.timeout.ms={_ms(option.removeprefix('timeout='))}")
    return tuple(lines)


def _switched(strategy: str, chosen: str) -> list[str]:
    """KIP-429: eager members must all know the cooperative strategy before it can be chosen."""
    name = f"{_PACKAGE}{_CLASSES[strategy]}"
    # A properties file may go on in the next line: no terminal has to break these for us.
    key = "partition.assignment.strategy=\\"
    if strategy != "cooperative-sticky":
        return [key, f"  {name}"]
    old = f"{_PACKAGE}{_CLASSES.get(chosen, 'RangeAssignor')}"
    return [
        "# roll all members with both, then once more without the second",
        key,
        f"  {name},\\",
        f"  {old}",
    ]


def spelt(lines: Iterable[str], family: str) -> tuple[str, ...]:
    """Lines of properties as a library spells their names: Python's clients take arguments.

    >>> spelt(["session.timeout.ms=9000", "# roll"], "python")
    ('session_timeout_ms=9000', '# roll')
    """
    if family != "python":
        return tuple(lines)
    parts = (line.partition("=") for line in lines)
    return tuple(
        name + equals + value if name.startswith("#") else name.replace(".", "_") + equals + value
        for name, equals, value in parts
    )


def _of_others(strategy: str, family: str) -> list[str] | None:
    """Names as librdkafka has them; Python's clients take classes in code: no line does it."""
    if family != "librdkafka" or strategy == "sticky":
        return None
    line = f"partition.assignment.strategy={strategy}"
    if strategy != "cooperative-sticky":
        return [line]
    return ["# librdkafka takes no list of both kinds: stop all members, then start them with it",
            line]  # fmt: skip


def _ms(duration: str) -> str:
    for unit, factor in (("ms", 1), ("s", 1_000), ("m", 60_000)):
        number = duration.removesuffix(unit)
        if number != duration and number.isdigit():
            return str(int(number) * factor)
    return duration
