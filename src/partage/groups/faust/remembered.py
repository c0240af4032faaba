"""Who had the partitions of topics that go together, and who has copies of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from partage.groups.faust.bundles import Bundle
from partage.wire.faust import ByTopic, FaustMetadata

__all__ = ["Remembered", "remembered"]


class Remembered(NamedTuple):
    """What a bundle's members say together, by partition number.

    Attributes:
        owner: position of the member that was active, -1 for nobody who is still here.
        copies: positions of members that were standby, ascending, the owner not among them.
    """

    owner: list[int]
    copies: list[list[int]]


def remembered(bundle: Bundle, said: Sequence[FaustMetadata]) -> Remembered:
    """What the bundle's members say; positions are those in ``bundle.members``.

    Who names a partition for more of the topics had it (a topic may be new among them); of two
    who name it for as many, who joined first. Numbers that no topic has are passed over.

    >>> bundle = Bundle(0, 2, ("s", "t"), (0, 1))
    >>> remembered(bundle, [FaustMetadata({"s": [0, 9]}), FaustMetadata({"t": [1]}, {"t": [0]})])
    Remembered(owner=[0, 1], copies=[[1], []])
    """
    named: list[list[tuple[int, int]]] = [[] for _ in range(bundle.partitions)]
    copied: list[list[int]] = [[] for _ in range(bundle.partitions)]
    for place, member in enumerate(bundle.members):
        for p, times in _times(said[member].actives, bundle).items():
            named[p].append((-times, place))
        for p in _times(said[member].standbys, bundle):
            copied[p].append(place)
    owner = [min(claims)[1] if claims else -1 for claims in named]
    copies = [[m for m in copied[p] if m != owner[p]] for p in range(bundle.partitions)]
    return Remembered(owner, copies)


def _times(had: ByTopic, bundle: Bundle) -> Counter[int]:
    """How many of the topics a member names each number for."""
    return Counter(_numbers(had, bundle))


def _numbers(had: ByTopic, bundle: Bundle) -> Iterable[int]:
    for topic in bundle.topics:
        for p in set(had.get(topic, ())):
            if 0 <= p < bundle.partitions:
                yield p
