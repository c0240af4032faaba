"""The public verbs on one problem: assign, measure, compare.

The one place where strategies, the judge and the solver meet: the judge knows no
strategy, and verifies what the solver claims without importing it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from partage.groups import registry
from partage.measuring import measure
from partage.model import Cluster, Group, Plan, Problem

if TYPE_CHECKING:
    from partage.groups.api import Strategy

__all__ = ["assign", "measure"]


def assign(
    strategy: str | Strategy | Sequence[str],
    group: Group,
    cluster: Cluster,
    *,
    memory: object = None,
    config: Mapping[str, object] | None = None,
) -> Plan:
    """The plan of a strategy: a name of `strategies`, a Java class name, or a strategy.

    A list of names is taken in order of preference: the first that exists decides.

    Raises:
        UnknownStrategyError: the registry has no such name.
        UnsupportedProblemError: the strategy refuses this problem.
        InvalidConfigError: a setting of the strategy is wrong.
    """
    chosen = registry.find(strategy)
    if config is not None:
        chosen = chosen.configure(config)
    return chosen.assign(Problem(group, cluster), memory)
