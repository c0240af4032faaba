"""What members of a Faust group say they had, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable

from partage.errors import WireFormatError
from partage.model import Member, Problem
from partage.wire.faust import ByTopic, FaustMetadata, read_faust_subscription

__all__ = ["by_topic", "first_of", "what_members_say"]


def what_members_say(problem: Problem) -> tuple[list[FaustMetadata], tuple[str, ...]]:
    """By member what it sent, and a warning for each who sent what nobody can read.

    Such a member is one that had nothing: it gets its share, and the others keep theirs (Faust
    itself fails, and with it the group). Without any user data the claims count.
    """
    found, warnings = [], []
    for member in problem.group:
        try:
            found.append(_said(member))
        except WireFormatError as e:
            found.append(FaustMetadata())
            warnings.append(f"{member.id} sent user data that is not Faust's: {e}; it had nothing")
    return found, tuple(warnings)


def _said(member: Member) -> FaustMetadata:
    if member.user_data is None:
        return FaustMetadata(by_topic(member.owned))
    return read_faust_subscription(member.user_data)


def by_topic(pairs: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Numbers by topic, in order.

    >>> by_topic([("t", 1), ("s", 0), ("t", 0)])
    {'t': [1, 0], 's': [0]}
    """
    out: dict[str, list[int]] = {}
    for topic, number in pairs:
        out.setdefault(topic, []).append(number)
    return out


def first_of(had: ByTopic, topics: Iterable[str]) -> list[int]:
    """What a member had of topics that go together: what it had of the first where it had any.

    Faust takes the topics as a hash set has them; here it is the first by name, one of the
    orders that such a set may have.

    >>> first_of({"s": [], "t": [3], "u": [4]}, ["s", "t", "u"])
    [3]
    """
    return next((list(had[topic]) for topic in topics if had.get(topic)), [])
