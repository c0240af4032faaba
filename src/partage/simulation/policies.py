"""Policies: ways to run a group, with names such as ``cooperative/sticky+static+timeout=30s``.

A policy is a protocol, a strategy, and options for static membership and the session timeout.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from functools import cached_property

from partage.errors import InvalidConfigError, UnknownStrategyError
from partage.groups import registry
from partage.groups.api import RebalanceProtocol, Strategy
from partage.history.clients import candidate_strategies
from partage.history.events import Generation

__all__ = [
    "CONSUMER",
    "COOPERATIVE",
    "DEFAULT_POLICIES",
    "EAGER",
    "OWN",
    "Policy",
    "default_policies",
    "is_recorded_strategy",
    "recorded_protocol",
    "recorded_strategy",
]

EAGER, COOPERATIVE, CONSUMER = "eager", "cooperative", "consumer"
#: The policy of the record: the strategy of each rebalance, in the dialect of its leader's client.
OWN = "own"

#: What `partage replay` simulates by default.
DEFAULT_POLICIES: tuple[str, ...] = (
    "own",
    "eager/range",
    "eager/range+static",
    "eager/roundrobin",
    "eager/sticky",
    "cooperative/cooperative-sticky",
    "cooperative/cooperative-sticky+static",
    "consumer/uniform",
    "consumer/range",
    "eager/optimal",
    "cooperative/optimal",
)

_PROTOCOLS = (EAGER, COOPERATIVE, CONSUMER)
_SERVER = "server:"
#: group.consumer.assignors, the first of Kafka's default.
_SERVER_DEFAULT = "server:uniform"
#: For share groups only, whose partitions may have several owners.
_SHARE = "server:simple"
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000}
#: Kafka keeps timeouts as int32 milliseconds.
_LONGEST_MS = (1 << 31) - 1
_SYNTAX = "say [protocol/]strategy[+static][+timeout=30s], e.g. cooperative/cooperative-sticky"


@dataclass(frozen=True)
class Policy:
    """A group configuration to simulate: rebalance protocol, assignment strategy and member
    options.

    Its name is written as ``protocol/strategy+options``, for example ``eager/range+static``.

    Attributes:
        protocol: eager (members revoke everything before a rebalance), cooperative (KIP-429: only
            what moves, in two phases), consumer (KIP-848: the coordinator assigns, members
            reconcile one by one), or own (the group's recorded protocol).
        strategy: the strategy; None for own.
        static: whether all members have a ``group.instance.id`` (KIP-345); otherwise only those
            that have one in the record.
        timeout_ms: ``session.timeout.ms`` of all members; None keeps the recorded ones.

    >>> Policy.parse("cooperative-sticky+timeout=30s+static").name
    'cooperative/cooperative-sticky+static+timeout=30s'
    >>> Policy.parse("consumer/uniform").strategy.name
    'server:uniform'
    """

    protocol: str
    strategy: Strategy | None
    static: bool = False
    timeout_ms: int | None = None

    @classmethod
    def parse(cls, policy_name: str) -> Policy:
        """Parse the name of a policy, such as ``cooperative/sticky+static``.

        The protocol may be left out; then the strategy's preferred protocol is used.

        Raises:
            UnknownStrategyError: no strategy has this name; the message lists similar names.
            InvalidConfigError: the protocol, an option or a duration is invalid, or the strategy
                does not support the protocol.
        """
        name, *options = policy_name.strip().split("+")
        policy = _parse_without_options(name.strip(), policy_name)
        for option in options:
            policy = _with_option(policy, option.strip(), policy_name)
        return policy

    @classmethod
    def of(cls, policy: str | Strategy | Policy) -> Policy:
        """Convert the name of a policy, or an assignment strategy, to a `Policy` (group
        configuration).

        A strategy is combined with its preferred protocol. A policy is returned unchanged.

        Raises:
            UnknownStrategyError, InvalidConfigError: as in `parse`.
        """
        if isinstance(policy, Policy):
            return policy
        if isinstance(policy, str):
            return cls.parse(policy)
        return cls(_preferred_protocol(policy), policy)

    @cached_property
    def name(self) -> str:
        """The policy's canonical name, such as ``cooperative/sticky``.

        `parse` accepts it, and output tables identify the policy by it.
        """
        words = [self.protocol if self.strategy is None else f"{self.protocol}/{self.short}"]
        words += ["static"] if self.static else []
        if self.timeout_ms is not None:
            whole, rest = divmod(self.timeout_ms, 1_000)
            words.append(f"timeout={self.timeout_ms}ms" if rest else f"timeout={whole}s")
        return "+".join(words)

    @property
    def short(self) -> str:
        """The name of the policy's assignment strategy, such as ``range``.

        Under the consumer protocol, the prefix ``server:`` is left out: ``uniform`` for
        ``server:uniform``. It is ``own`` for a policy without a strategy.
        """
        if self.strategy is None:
            return OWN
        name = self.strategy.name
        return name.removeprefix(_SERVER) if self.protocol == CONSUMER else name

    @property
    def is_own(self) -> bool:
        """Return whether the policy keeps the recorded configuration of the group (policy ``own``).

        It is false if the policy changes the session timeout or makes members static.
        """
        return self.protocol == OWN and not self.static and self.timeout_ms is None

    @property
    def cooperative(self) -> bool:
        """Return whether the policy uses the cooperative rebalance protocol (KIP-429).

        Members then revoke only the partitions that move, and a second rebalance assigns them.
        """
        return self.protocol == COOPERATIVE

    @property
    def eager(self) -> bool:
        """Return whether the policy uses the eager rebalance protocol.

        Members then revoke all of their partitions before each rebalance.
        """
        return self.protocol == EAGER

    def with_protocol_and_strategy(self, protocol: str, strategy: Strategy) -> Policy:
        """Return a copy of the policy with another rebalance protocol and assignment strategy.

        Static membership and the session timeout stay the same.
        """
        return replace(self, protocol=protocol, strategy=strategy)


def default_policies() -> tuple[Policy, ...]:
    """Return the policies that a replay simulates if the user names none.

    A policy is a group configuration, such as ``eager/range`` or ``consumer/uniform``.

    >>> len(default_policies()) == len(DEFAULT_POLICIES)
    True
    """
    return tuple(Policy.parse(name) for name in DEFAULT_POLICIES)


def _parse_without_options(name: str, text: str) -> Policy:
    """Parse a policy name without options: ``protocol/strategy``, ``strategy`` or ``own``.

    ``text`` is the whole name as the user wrote it, for error messages. ``own`` means the recorded
    protocol and strategy of the group.
    """
    if name == OWN:
        return Policy(OWN, None)
    # The name of a plug-in may contain a slash.
    if "/" not in name or name in registry.strategies():
        strategy = _strategy(name, name)
        return _build_checked_policy(_preferred_protocol(strategy), strategy, text)
    protocol, _, short = name.partition("/")
    if protocol not in _PROTOCOLS:
        close = difflib.get_close_matches(protocol, _PROTOCOLS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        what = f"no protocol {protocol!r}; {hint}known: {', '.join(_PROTOCOLS)}"
        raise InvalidConfigError("policy", what, text)
    known = registry.strategies()
    server_name = f"{_SERVER}{short}"
    wanted = server_name if protocol == CONSUMER and server_name in known else short
    return _build_checked_policy(protocol, _strategy(wanted, name), text)


def _strategy(wanted: str, given: str) -> Strategy:
    try:
        return registry.find(wanted)
    except UnknownStrategyError as e:
        names = {p.partition("+")[0] for p in DEFAULT_POLICIES}
        of = given if "/" in given else wanted
        close = difflib.get_close_matches(of, sorted(names), n=3, cutoff=0.7) or e.close
        raise UnknownStrategyError(given, known=e.known, close=close) from None


def _preferred_protocol(strategy: Strategy) -> str:
    """Return the rebalance protocol for a strategy that the user named without a protocol.

    It is the consumer protocol for assignors of the coordinator. For others it is the first
    protocol that the strategy supports.
    """
    if strategy.name.startswith(_SERVER):
        return CONSUMER
    first = strategy.protocols[0] if strategy.protocols else RebalanceProtocol.EAGER
    return COOPERATIVE if first == RebalanceProtocol.COOPERATIVE else EAGER


def _build_checked_policy(protocol: str, strategy: Strategy, text: str) -> Policy:
    """Build a policy from a protocol and a strategy, after checking that Kafka allows both
    together.

    ``text`` is the policy's name as the user wrote it, for error messages.

    Raises:
        InvalidConfigError: the strategy does not support the protocol.
    """
    name, is_server_side = strategy.name, strategy.name.startswith(_SERVER)
    if name == _SHARE:
        what = f"{name} is for share groups, in which partitions have several owners"
        raise InvalidConfigError("policy", what, text)
    if is_server_side and protocol != CONSUMER:
        what = f"{name} decides in the coordinator: say consumer/{name.removeprefix(_SERVER)}"
        raise InvalidConfigError("policy", what, text)
    if protocol == COOPERATIVE and RebalanceProtocol.COOPERATIVE not in strategy.protocols:
        what = f"{name} is not cooperative: say eager/{name}, or cooperative/cooperative-sticky"
        raise InvalidConfigError("policy", what, text)
    if protocol == EAGER and RebalanceProtocol.EAGER not in strategy.protocols:
        raise InvalidConfigError("policy", f"{name} does not work eagerly", text)
    if (
        protocol == CONSUMER
        and not is_server_side
        and RebalanceProtocol.COOPERATIVE not in (strategy.protocols)
    ):
        # A coordinator knows previous targets only: no user data, no memory of a consumer.
        what = f"{name} cannot decide in the coordinator: say consumer/uniform or consumer/range"
        raise InvalidConfigError("policy", what, text)
    return Policy(protocol, strategy)


def _with_option(policy: Policy, option: str, text: str) -> Policy:
    if option == "static":
        return replace(policy, static=True)
    key, _, value = option.partition("=")
    if key != "timeout":
        close = difflib.get_close_matches(key, ["static", "timeout"], n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        what = f"no option {option!r}; {hint}{_SYNTAX}"
        raise InvalidConfigError("policy", what, text)
    return replace(policy, timeout_ms=_duration(value, text))


def _duration(value: str, text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,10})(ms|s|m)", value)
    length = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < length <= _LONGEST_MS:
        what = f"timeout={value} is no duration: say timeout=500ms, timeout=30s or timeout=2m"
        raise InvalidConfigError("policy", what, text)
    return length


# -- policies of the record --------------------------------------------------------------------


def recorded_protocol(generation: Generation) -> str:
    """Return the protocol of a recorded rebalance: eager, cooperative or consumer.

    The log of a classic group does not contain it. It is cooperative if the group's strategy
    supports that. ``generation`` is the group generation that the rebalance created.
    """
    if generation.protocol != "classic":
        return CONSUMER
    strategy = _named_strategy(generation)
    if strategy is None:
        return EAGER
    return COOPERATIVE if RebalanceProtocol.COOPERATIVE in strategy.protocols else EAGER


def recorded_strategy(generation: Generation) -> Strategy | None:
    """Return the strategy of a recorded rebalance, as the leader's client library implements it.

    ``generation`` is the group generation that the rebalance created. The result is None if Partage
    does not have the strategy.
    """
    strategy = _named_strategy(generation)
    if strategy is None or generation.protocol != "classic":
        return strategy
    return candidate_strategies(generation.first, strategy)[0]


def is_recorded_strategy(policy: Policy, generation: Generation) -> bool:
    """Return whether a policy (group configuration) uses the strategy of a recorded rebalance.

    It is always true for policy ``own``, which keeps the group's recorded settings. ``generation``
    is the group generation that the rebalance created.
    """
    if policy.strategy is None:
        return True
    return policy.strategy.name == generation.first.strategy


def _named_strategy(generation: Generation) -> Strategy | None:
    """Return the assignment strategy that a recorded rebalance names.

    The result is None if Partage does not have the strategy. A name such as ``module:Class`` gives
    None too, so that a log cannot cause an import. ``generation`` is the group generation with the
    name.
    """
    is_classic = generation.protocol == "classic"
    name = generation.first.strategy or (None if is_classic else _SERVER_DEFAULT)
    return registry.find(name) if name in registry.strategies() else None
