"""Why a rebalance happened: causes by name, each told to be recorded or inferred."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Cause"]


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason for a rebalance.

    Attributes:
        kind: one of `partage.tables.statuses.CAUSE_KINDS`.
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
