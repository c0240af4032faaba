"""Values of columns of the published tables: statuses of groups and of simulated rebalances.

`history` and `jobs` write them, `report` reads them; neither imports the other.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CUMULATIVE",
    "DONE",
    "FAILED",
    "NOT_REPLAYED",
    "NOT_YET",
    "OFFSETS_ONLY",
    "PER_REBALANCE",
    "READINGS",
    "RECORDED",
    "REFUSED",
    "REPLAYED",
    "STATUSES",
]

#: Name of the recorded assignment among the strategies.
RECORDED: Final = "recorded"

#: Each rebalance simulated by itself, from the recorded previous owners.
PER_REBALANCE: Final = "per_rebalance"
#: All rebalances simulated in sequence, with the policy's own state carried forward.
CUMULATIVE: Final = "cumulative"
#: Values of column ``reading`` of table ``replays``.
READINGS: Final = (RECORDED, PER_REBALANCE, CUMULATIVE)

#: The strategy returned a plan.
DONE: Final = "done"
#: The strategy is not applicable to the problem; its class throws, too.
REFUSED: Final = "refused"
#: The strategy raised an unexpected exception.
FAILED: Final = "failed"
#: The group uses a strategy that Partage does not have.
NOT_YET: Final = "not yet in Partage"
#: Values of column ``status`` of table ``replays``.
STATUSES: Final = (DONE, REFUSED, FAILED, NOT_YET)

#: Values of column ``status`` of table ``groups``.
REPLAYED: Final = "replayed"
NOT_REPLAYED: Final = "not replayed"
OFFSETS_ONLY: Final = "offsets only"
