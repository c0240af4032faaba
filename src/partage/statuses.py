"""Words of the published tables: what became of a group, and of a rebalance under a strategy.

History and pipeline write them, the report reads them; neither imports the other.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "DONE",
    "FAILED",
    "FROM_OWN",
    "FROM_RECORD",
    "NOT_REPLAYED",
    "NOT_YET",
    "OFFSETS_ONLY",
    "READINGS",
    "RECORDED",
    "REFUSED",
    "REPLAYED",
    "STATUSES",
]

#: The name under which the record itself stands among the strategies.
RECORDED: Final = "recorded"

#: Each rebalance by itself, from what the record says was owned before it.
FROM_RECORD: Final = "from_record"
#: The recorded causes, lived through with a past of one's own.
FROM_OWN: Final = "from_own"
#: How a rebalance is told: column ``reading`` of table ``replays``.
READINGS: Final = (RECORDED, FROM_RECORD, FROM_OWN)

#: The strategy has a plan.
DONE: Final = "done"
#: The strategy does not answer such a problem, as its class does not.
REFUSED: Final = "refused"
#: The strategy raised what no strategy should: it is broken.
FAILED: Final = "failed"
#: The group chose a strategy that nobody here has.
NOT_YET: Final = "not yet in Partage"
#: What may become of a rebalance under a strategy: column ``status`` of table ``replays``.
STATUSES: Final = (DONE, REFUSED, FAILED, NOT_YET)

#: Statuses of a group: column ``status`` of table ``groups``.
REPLAYED: Final = "replayed"
NOT_REPLAYED: Final = "not replayed"
OFFSETS_ONLY: Final = "offsets only"
