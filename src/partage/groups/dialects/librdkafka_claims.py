"""Who owned what, as librdkafka makes it out of all owned partitions."""

from __future__ import annotations

from dataclasses import dataclass

from partage.groups.dialects.librdkafka_scene import LibrdkafkaScene

__all__ = ["Owned"]


@dataclass(frozen=True)
class Owned:
    """The outcome of all claims.

    Attributes:
        lists: by member its spots.
        holder: spot -> the member that the library takes for its owner when it moves it: the
            last to claim it, even if an older generation; nobody where a generation conflicts.
        previous: spot -> who owned it a generation before.
    """

    lists: list[list[int]]
    holder: dict[int, int]
    previous: dict[int, int]

    @classmethod
    def of(cls, scene: LibrdkafkaScene) -> Owned:
        """The newest generation has it; two claims of any one generation make it nobody's.

        Members' lists come in the reverse of the order in which partitions were first claimed:
        its maps are walked from the latest entry.
        """
        claims: dict[int, list[tuple[int, int]]] = {}
        holder = {}
        for member, one in enumerate(scene.problem.group):
            for topic, number in one.owned:
                k = scene.place.get(topic, -1)
                spot = scene.spot_by_number[k].get(number) if k >= 0 else None
                if spot is not None:
                    claims.setdefault(spot, []).append((one.generation, member))
                    holder[spot] = member
        lists: list[list[int]] = [[] for _ in scene.problem.group]
        previous = {}
        for spot in reversed(list(claims)):
            by_age = sorted(claims[spot])
            if len({generation for generation, _ in by_age}) < len(by_age):
                del holder[spot]
                continue
            lists[by_age[-1][1]].append(spot)
            if len(by_age) > 1:
                previous[spot] = by_age[-2][1]
        return cls(lists, holder, previous)
