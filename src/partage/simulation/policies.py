"""A policy: how a group could have been run, by a name as one types it on a command line."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace

from partage.errors import InvalidConfigError, UnknownStrategyError
from partage.groups import registry
from partage.groups.api import RebalanceProtocol, Strategy

__all__ = [
    "CONSUMER",
    "COOPERATIVE",
    "DEFAULT_POLICIES",
    "EAGER",
    "OWN",
    "Policy",
    "default_policies",
]

EAGER, COOPERATIVE, CONSUMER = "eager", "cooperative", "consumer"
#: As the group was run: the strategy of each rebalance, by the dialect of its leader.
OWN = "own"

#: What `partage replay` lives through when nobody asks for anything else.
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
#: Only for share groups, whose partitions may have several owners.
_SHARING = "server:simple"
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000}
#: Kafka keeps timeouts as int32 milliseconds.
_LONGEST_MS = (1 << 31) - 1
_WHAT_TO_SAY = "say [protocol/]strategy[+static][+timeout=30s], e.g. cooperative/cooperative-sticky"


@dataclass(frozen=True)
class Policy:
    """A strategy, the protocol by which members hand over, and how members are known.

    Attributes:
        protocol: eager (everything is given up before a rebalance), cooperative (KIP-429: only
            what moves, in two phases), consumer (KIP-848: the coordinator decides, members
            follow one by one), or own (whatever the group did).
        strategy: who decides; None for own.
        static: all members are static (``group.instance.id``, KIP-345). Without it members
            are as recorded: static ones stay static.
        timeout_ms: ``session.timeout.ms`` of all members; None leaves it as recorded.

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
    def parse(cls, text: str) -> Policy:
        """The policy of a name, canonical or not.

        Raises:
            UnknownStrategyError: there is no such strategy; says which names come close.
            InvalidConfigError: protocol, option or duration are no such, or the strategy
                cannot work by that protocol; says what can.
        """
        name, *options = text.strip().split("+")
        policy = _plain(name.strip(), text)
        for option in options:
            policy = _with(policy, option.strip(), text)
        return policy

    @classmethod
    def of(cls, policy: str | Strategy | Policy) -> Policy:
        """A policy as it is, of a name, or of a strategy by its preferred protocol.

        Raises:
            UnknownStrategyError, InvalidConfigError: as `parse` does.
        """
        if isinstance(policy, Policy):
            return policy
        if isinstance(policy, str):
            return cls.parse(policy)
        return cls(_preferred(policy), policy)

    @property
    def name(self) -> str:
        """The canonical name; `parse` reads it."""
        words = [self.protocol if self.strategy is None else f"{self.protocol}/{self.short}"]
        words += ["static"] if self.static else []
        if self.timeout_ms is not None:
            whole, rest = divmod(self.timeout_ms, 1_000)
            words.append(f"timeout={self.timeout_ms}ms" if rest else f"timeout={whole}s")
        return "+".join(words)

    @property
    def short(self) -> str:
        """The strategy's name without what the protocol says already."""
        if self.strategy is None:
            return OWN
        name = self.strategy.name
        return name.removeprefix(_SERVER) if self.protocol == CONSUMER else name

    @property
    def cooperative(self) -> bool:
        """Whether there are second phases."""
        return self.protocol == COOPERATIVE

    @property
    def eager(self) -> bool:
        """Whether everybody gives everything up first."""
        return self.protocol == EAGER

    def as_strategy(self, protocol: str, strategy: Strategy) -> Policy:
        """The same options for another strategy: what `own` is at one moment."""
        return replace(self, protocol=protocol, strategy=strategy)


def default_policies() -> tuple[Policy, ...]:
    """`DEFAULT_POLICIES`, made.

    >>> len(default_policies()) == len(DEFAULT_POLICIES)
    True
    """
    return tuple(Policy.parse(name) for name in DEFAULT_POLICIES)


def _plain(name: str, text: str) -> Policy:
    """Without options: ``protocol/strategy``, ``strategy`` or ``own``."""
    if name == OWN:
        return Policy(OWN, None)
    # A plug-in's name may have a slash in it, a protocol never.
    if "/" not in name or name in registry.strategies():
        strategy = _strategy(name, name)
        return _checked(_preferred(strategy), strategy, text)
    protocol, _, short = name.partition("/")
    if protocol not in _PROTOCOLS:
        close = difflib.get_close_matches(protocol, _PROTOCOLS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        what = f"no protocol {protocol!r}; {hint}known: {', '.join(_PROTOCOLS)}"
        raise InvalidConfigError("policy", what, text)
    known = registry.strategies()
    served = f"{_SERVER}{short}"
    wanted = served if protocol == CONSUMER and served in known else short
    return _checked(protocol, _strategy(wanted, name), text)


def _strategy(wanted: str, asked: str) -> Strategy:
    """By its name; an unknown one is told with the policies that come close."""
    try:
        return registry.find(wanted)
    except UnknownStrategyError as e:
        names = {p.partition("+")[0] for p in DEFAULT_POLICIES}
        of = asked if "/" in asked else wanted
        close = difflib.get_close_matches(of, sorted(names), n=3, cutoff=0.7) or e.close
        raise UnknownStrategyError(asked, known=e.known, close=close) from None


def _preferred(strategy: Strategy) -> str:
    """The protocol by which a strategy works when nobody says which."""
    if strategy.name.startswith(_SERVER):
        return CONSUMER
    first = strategy.protocols[0] if strategy.protocols else RebalanceProtocol.EAGER
    return COOPERATIVE if first == RebalanceProtocol.COOPERATIVE else EAGER


def _checked(protocol: str, strategy: Strategy, text: str) -> Policy:
    """What cannot work in Kafka is no policy."""
    name, served = strategy.name, strategy.name.startswith(_SERVER)
    if name == _SHARING:
        what = f"{name} is for share groups, in which partitions have several owners"
        raise InvalidConfigError("policy", what, text)
    if served and protocol != CONSUMER:
        what = f"{name} decides in the coordinator: say consumer/{name.removeprefix(_SERVER)}"
        raise InvalidConfigError("policy", what, text)
    if protocol == COOPERATIVE and RebalanceProtocol.COOPERATIVE not in strategy.protocols:
        what = f"{name} is not cooperative: say eager/{name}, or cooperative/cooperative-sticky"
        raise InvalidConfigError("policy", what, text)
    if protocol == EAGER and RebalanceProtocol.EAGER not in strategy.protocols:
        raise InvalidConfigError("policy", f"{name} does not work eagerly", text)
    if (
        protocol == CONSUMER
        and not served
        and RebalanceProtocol.COOPERATIVE not in (strategy.protocols)
    ):
        # A coordinator knows nothing but previous targets: no user data, no consumer's memory.
        what = f"{name} cannot decide in the coordinator: say consumer/uniform or consumer/range"
        raise InvalidConfigError("policy", what, text)
    return Policy(protocol, strategy)


def _with(policy: Policy, option: str, text: str) -> Policy:
    if option == "static":
        return replace(policy, static=True)
    key, _, value = option.partition("=")
    if key != "timeout":
        close = difflib.get_close_matches(key, ["static", "timeout"], n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        what = f"no option {option!r}; {hint}{_WHAT_TO_SAY}"
        raise InvalidConfigError("policy", what, text)
    return replace(policy, timeout_ms=_duration(value, text))


def _duration(value: str, text: str) -> int:
    """Milliseconds of ``30s``, ``500ms`` or ``2m``."""
    found = re.fullmatch(r"([0-9]{1,10})(ms|s|m)", value)
    length = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < length <= _LONGEST_MS:
        what = f"timeout={value} is no duration: say timeout=500ms, timeout=30s or timeout=2m"
        raise InvalidConfigError("policy", what, text)
    return length
