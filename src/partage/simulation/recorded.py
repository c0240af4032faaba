"""How a recorded rebalance was run: its own protocol and strategy, and the policy of that name."""

from __future__ import annotations

from partage.groups import registry
from partage.groups.api import RebalanceProtocol, Strategy
from partage.history.clients import judges
from partage.history.events import Generation
from partage.simulation.policies import CONSUMER, COOPERATIVE, EAGER, Policy

__all__ = ["claimed_by", "own_strategy", "protocol_of"]

_SERVER_DEFAULT = "server:uniform"


def protocol_of(found: Generation) -> str:
    """eager, cooperative or consumer: of a classic group, by the strategy that it chose.

    A classic group's log does not say by which protocol it hands over; a member takes the
    cooperative one where its strategy supports it.
    """
    if found.protocol != "classic":
        return CONSUMER
    strategy = _named(found)
    if strategy is None:
        return EAGER
    return COOPERATIVE if RebalanceProtocol.COOPERATIVE in strategy.protocols else EAGER


def own_strategy(found: Generation) -> Strategy | None:
    """Who really decided: the dialect of the leader's client, where there is one.

    None where the group chose a strategy that Partage does not have.
    """
    strategy = _named(found)
    if strategy is None or found.protocol != "classic":
        return strategy
    return judges(found.first, strategy)[0]


def claimed_by(policy: Policy, found: Generation) -> bool:
    """Whether the group had chosen the strategy of a policy."""
    if policy.strategy is None:
        return True
    return policy.strategy.name == found.first.strategy


def _named(found: Generation) -> Strategy | None:
    """Return the strategy that the record names, if there is one of that name.

    A log may have any name in it. One of the form ``module:Class`` must not be imported.
    """
    name = found.first.strategy or (None if found.protocol == "classic" else _SERVER_DEFAULT)
    return registry.find(name) if name in registry.strategies() else None
