"""Why a rebalance happened: causes by name, each told to be recorded or inferred."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CAUSE_KINDS", "Cause"]

#: In the order in which they count: the first of a rebalance's causes is the one in shares.
CAUSE_KINDS: tuple[str, ...] = (
    "first",  # nobody was there before, or the log does not go back further
    "migration",  # from classic to the consumer protocol, or back
    "bounce",  # a member went away and was back within its session timeout
    "expiry",  # a member was silent for its session timeout, and put out
    "poll",  # a member did not poll for its max.poll.interval.ms, and left
    "leave",  # a member said that it goes
    "join",  # a member came
    "resubscription",  # a member wants other topics
    "topics",  # a subscribed topic appeared, grew, was deleted, or was made anew
    "strategy",  # the group chose another strategy
    "follow-up",  # nothing new: the second step of the rebalance before
    "unknown",  # none of these can be seen
)


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason for a rebalance.

    Attributes:
        kind: one of `CAUSE_KINDS`.
        source: ``recorded`` where a record says so, ``inferred`` where records differ.
        member: member id, where it is about one (a bounce: its id afterwards).
        instance: its group.instance.id.
        time_ms: when it happened, as far as can be told; None if it cannot.
        detail: a few words.
        was: of one that came: the member id that it had when it was there before (`departures`);
            None if it was not.

    >>> Cause("join", "inferred", "m-1").kind
    'join'
    """

    kind: str
    source: str
    member: str | None = None
    instance: str | None = None
    time_ms: int | None = None
    detail: str | None = None
    was: str | None = None
