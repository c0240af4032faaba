"""Values of columns of the published tables: statuses, simulation modes and causes of rebalances.

`history` and `jobs` write them, `report` reads them; neither imports the other.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CAUSE_KINDS",
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

#: Values of column ``cause_kind`` of table ``rebalances``, by precedence: of several causes of
#: one rebalance, the first in this order is the one that counts.
CAUSE_KINDS: Final[tuple[str, ...]] = (
    "first",  # no generation before it, or none in the log
    "migration",  # from the classic to the consumer protocol, or back
    "broker",  # a broker or coordinator failed or moved, and members were lost or rejoined for it
    "bounce",  # a member left and rejoined within its session timeout
    "expiry",  # a member was evicted by session timeout
    "poll",  # a member exceeded max.poll.interval.ms and left
    "leave",  # a member left the group
    "departure",  # a member left or died: no commit shows which
    "join",  # a member joined
    "resubscription",  # a member changed its subscription
    "topics",  # a subscribed topic was created, expanded, deleted or recreated
    "strategy",  # the group chose another assignment strategy
    "follow-up",  # no new cause: second step of the previous rebalance
    "request",  # a client requested it, with the same members and topics
    "unknown",  # no cause can be inferred
)
