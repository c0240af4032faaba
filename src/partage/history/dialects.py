"""Whose rule made a recorded plan: the leader computes it, with its own library's code."""

from __future__ import annotations

from collections.abc import Sequence

from partage.groups import registry
from partage.groups.api import Strategy
from partage.history.clients import PYTHON, UNKNOWN, client_of
from partage.history.records import ClassicState

__all__ = ["judges", "leader_client"]

#: What may be meant where bytes tell no more.
_EITHER = {PYTHON: ("kafka-python", "aiokafka")}


def leader_client(state: ClassicState) -> str | None:
    """The library of the member that led a generation; None if nobody did.

    >>> leader_client(ClassicState("consumer", 1, "range", None, None, ())) is None
    True
    """
    leader = next((m for m in state.members if m.id == state.leader), None)
    return None if leader is None else client_of(leader).name


def judges(state: ClassicState, strategy: Strategy) -> Sequence[Strategy]:
    """Return the strategies that the recorded plan may be of: the leader's dialects, or Java's.

    kafka-python and aiokafka write the same bytes; where both have a dialect, both may be meant.
    """
    client = leader_client(state) or UNKNOWN
    # Only dialects are looked up: a name of the form module:Class would be imported.
    names = [f"{peer}:{strategy.name}" for peer in _EITHER.get(client, (client,))]
    return [registry.find(name) for name in names if registry.is_dialect(name)] or [strategy]
