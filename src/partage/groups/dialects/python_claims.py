"""Who owned what, as the Python clients' sticky assignors make it out of all claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partage.groups.dialects.python_userdata import Claims
from partage.groups.dialects.scene import PeerScene

__all__ = ["Believed"]


@dataclass(frozen=True)
class Believed:
    """The outcome of all claims.

    Attributes:
        owned: by member its spots, in the order in which anybody first claimed each.
        previous: spot -> who owned it before its present owner, where claims conflict.
        fresh: nobody claims anything, not even what does not exist.
    """

    owned: list[list[int]]
    previous: dict[int, int]
    fresh: bool

    @classmethod
    def of(cls, scene: PeerScene, claims: Sequence[Claims]) -> Believed:
        """The newest generation has a partition, the one before it had it previously.

        Of two claims of one generation the first counts; but of generation 0 the last, which
        the clients take for "no generation".
        """
        by_spot: dict[int, dict[int, int]] = {}
        fresh = True
        for member, (partitions, generation) in enumerate(claims):
            fresh = fresh and not partitions
            for topic, number in partitions:
                k = -1 if topic is None else scene.place.get(topic, -1)
                spot = scene.spot_by_number[k].get(number) if k >= 0 else None
                if spot is None:
                    continue
                owners = by_spot.setdefault(spot, {})
                if generation == 0 or generation not in owners:
                    owners[generation] = member
        owned: list[list[int]] = [[] for _ in claims]
        previous = {}
        for spot, owners in by_spot.items():
            newest = sorted(owners, reverse=True)
            owned[owners[newest[0]]].append(spot)
            if len(newest) > 1:
                previous[spot] = owners[newest[1]]
        return cls(owned, previous, fresh)
