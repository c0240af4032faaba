"""Client settings that make a group run a policy, for each client library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "STATIC_LINE",
    "base_policy",
    "client_families",
    "client_family",
    "library_blocks",
    "lines_for_libraries",
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
    found = client_families(clients)
    return found[0] if len(found) == 1 else ""


def client_families(clients: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds of client libraries that a consumer group uses: java, librdkafka, python.

    Unknown libraries are ignored beside known ones; alone, they count as Java clients.

    >>> client_families(["aiokafka", "java", "kafka-python"]), client_families(["unknown"])
    (('java', 'python'), ('java',))
    """
    return tuple(sorted({_FAMILIES[one] for one in clients if one in _FAMILIES})) or ("java",)


#: First line of the part of configuration lines that belongs to one kind of client library.
_HEADINGS = {
    "java": "# Java", "librdkafka": "# librdkafka", "python": "# kafka-python, aiokafka",
}  # fmt: skip


def lines_for_libraries(lines: Iterable[str], clients: Iterable[str]) -> tuple[str, ...]:
    """Translate Java consumer properties to the syntax of each client library of a group.

    With several libraries, a heading precedes the lines of each library.

    >>> lines_for_libraries(["session.timeout.ms=9000"], ["java", "aiokafka"])
    ('# Java', 'session.timeout.ms=9000', '# kafka-python, aiokafka', 'session_timeout_ms=9000')
    """
    families, given = client_families(clients), tuple(lines)
    if len(families) == 1:
        return translate_lines(given, families[0])
    return tuple(
        line for family in families for line in (_HEADINGS[family], *translate_lines(given, family))
    )


def library_blocks(lines: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Split configuration lines at their headings, one for each client library.

    Each result is a kind of library (java, librdkafka or python) and its lines. Lines without
    headings are one part, whose library is "".

    >>> library_blocks(["# Java", "a=1", "# librdkafka", "a=2"])
    [('java', ('a=1',)), ('librdkafka', ('a=2',))]
    >>> library_blocks(["a=1"])
    [('', ('a=1',))]
    """
    by_heading = {heading: family for family, heading in _HEADINGS.items()}
    blocks: list[tuple[str, list[str]]] = [] if lines and lines[0] in by_heading else [("", [])]
    for line in lines:
        if line in by_heading:
            blocks.append((by_heading[line], []))
        else:
            blocks[-1][1].append(line)
    return [(family, tuple(of)) for family, of in blocks]


def parse_policy(policy: str) -> tuple[str, str, tuple[str, ...]]:
    """Split the name of a policy into its protocol, assignment strategy and options.

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
    """Return the policy (protocol and strategy, without options) that belongs to a strategy's name.

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

    The lines list both the new and the ``current`` strategy if members need both during a rolling
    restart.
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
        "# restart all members with both classes, then without the second",
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
        clients: names of the group's client libraries; with several, a heading begins each part.
        poll_ms: present value of max.poll.interval.ms.
        longest_ms: longest observed time between two polls (ms).

    >>> for line in poll_lines(["java"], 10_000, 15_000):
    ...     print(line)
    # fewer records per poll (if you use the default of 500)
    max.poll.records=263
    # or allow more time between two polls (now 10000, default 300000)
    max.poll.interval.ms=19000
    """
    known = sorted({one for one in clients if one in _FAMILIES}) or ["java"]
    enough = (longest_ms * 5 // 4_000 + 1) * 1_000
    families = client_families(known)
    lines: list[str] = []
    for family in families:
        own = [one for one in known if _FAMILIES[one] == family]
        lines += [_HEADINGS[family]] if len(families) > 1 else []
        lines += translate_lines(_poll_lines(own, poll_ms, enough), family)
    return tuple(lines)


def _poll_lines(clients: Sequence[str], poll_ms: int, enough_ms: int) -> Iterator[str]:
    """Yield the Java properties of `poll_lines` for the clients of one kind of library.

    ``enough_ms`` is the recommended value of max.poll.interval.ms.
    """
    defaults = {_POLL_RECORDS.get(one) for one in clients}
    records = defaults.pop() if len(defaults) == 1 else None
    if records is not None:
        yield f"# fewer records per poll (if you use the default of {records})"
        yield f"max.poll.records={max(1, records * poll_ms // enough_ms)}"
    allow = "allow" if records is None else "or allow"
    yield f"# {allow} more time between two polls (now {poll_ms}, default {_DEFAULT_POLL_MS})"
    yield f"max.poll.interval.ms={enough_ms}"


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
    # librdkafka rejects a list with eager and cooperative strategies.
    return ["# librdkafka needs a full stop: stop all members, then start them with",
            line]  # fmt: skip


def _ms(duration: str) -> str:
    for unit, factor in (("ms", 1), ("s", 1_000), ("m", 60_000)):
        number = duration.removesuffix(unit)
        if number != duration and number.isdigit():
            return str(int(number) * factor)
    return duration
