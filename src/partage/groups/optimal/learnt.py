"""`optimal` with loads that a group learnt while it ran: in its leader, and again from the log."""

from __future__ import annotations

from collections.abc import Mapping

from partage.groups.api import Strategy
from partage.groups.optimal.settings import PREFIX

__all__ = ["configured_by_loads"]


def configured_by_loads(
    strategy: Strategy,
    loads: Mapping[tuple[str, int], float],
    partitions: Mapping[str, int],
    tolerance: float | None,
) -> Strategy:
    """The strategy with these loads as weights; who is not known weighs the mean of all.

    Args:
        strategy: with its other settings.
        loads: by topic and partition; none leave the strategy as it is.
        partitions: of each topic, how many.
        tolerance: None where the strategy's own counts.
    """
    if not loads:
        return strategy
    # Rounded: whoever sums them in another order comes to the same plan.
    mean = round(sum(loads.values()) / len(loads), 6)
    weights = {t: [loads.get((t, p), mean) for p in range(n)] for t, n in partitions.items()}
    config: dict[str, object] = {f"{PREFIX}weights": weights}
    if tolerance is not None:
        config[f"{PREFIX}tolerance"] = tolerance
    return strategy.configure(config)
