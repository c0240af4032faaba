"""What has moved from whom to whom, with the library's own slips as far as they are defined."""

from __future__ import annotations

from dataclasses import dataclass, field

from partage.groups.dialects.refusals import PeerRefusal

__all__ = ["LibrdkafkaMovements", "crash"]


@dataclass(eq=False, slots=True)
class _Pair:
    """A pair in memory of its own: two that are equal are still two."""

    source: int
    target: int


@dataclass(eq=False, slots=True)
class _Went:
    """The partitions of a topic that went one way, and the pair in whose memory the key lies."""

    key: _Pair
    spots: list[int] = field(default_factory=list)


class LibrdkafkaMovements:
    """By partition its move; by topic and pair what went that way, in order.

    Three slips of the library decide what comes out:

    * What goes back is looked for under (new owner, present owner), not under where it came
      from; so a partition that returns finds the list that it stands in itself.
    * That list hands out a pointer to its first element, which the move then removes: from
      there on the pointer means the next one, and *that* is given to the new owner. With no
      next one it points into freed memory: undefined, refused here.
    * A move is never forgotten when a partition is back: a later one fails an assertion.
    """

    def __init__(self) -> None:
        self._pair: dict[int, _Pair] = {}
        self._went: dict[int, dict[tuple[int, int], _Went]] = {}
        self._freed: set[int] = set()
        self._kept: list[_Pair] = []  # what was freed stays alive here, so that ids are unique

    def move(self, spot: int, topic: int, holder: dict[int, int], target: int) -> tuple[int, int]:
        """(what really moves, from whom) where ``spot`` is to go to ``target``.

        Raises:
            PeerRefusal: an assertion of the library fails, or it reads freed memory.
        """
        pointer = self._instead(spot, topic, holder[spot], target)
        moving = spot if pointer is None else pointer.spots[0]
        source = holder[moving]
        pair = self._pair.get(moving)
        if pair is None:
            self._note(moving, topic, _Pair(source, target))
            return moving, source
        left = self._forget(moving, topic, pair)
        if left is pointer:
            if not left.spots:
                raise _undefined()
            moving = left.spots[0]
        if pair.target != source:
            raise crash("fails an assertion: a partition is not where its last move put it")
        if pair.source != target:
            self._note(moving, topic, _Pair(pair.source, target))
        return moving, source

    def _instead(self, spot: int, topic: int, holder: int, target: int) -> _Went | None:
        """The list whose first element is to move; None for the partition itself."""
        if topic not in self._went:
            return None
        if spot in self._pair and self._pair[spot].target != holder:
            raise crash("fails an assertion: a partition is not where its last move put it")
        return self._found(topic, target, holder)

    def _found(self, topic: int, source: int, target: int) -> _Went | None:
        went = self._went.get(topic, {}).get((source, target))
        if went is not None and id(went.key) in self._freed:
            raise _undefined()
        return went

    def _forget(self, spot: int, topic: int, pair: _Pair) -> _Went:
        """Take a partition out of its list; an empty list ceases to be."""
        went = self._found(topic, pair.source, pair.target)
        if went is None:
            raise crash("looks for a move that it has forgotten")
        if spot in went.spots:
            went.spots.remove(spot)
        if not went.spots:
            del self._went[topic][pair.source, pair.target]
            if not self._went[topic]:
                del self._went[topic]
        return went

    def _note(self, spot: int, topic: int, pair: _Pair) -> None:
        if spot in self._pair:
            self._freed.add(id(self._pair[spot]))
            self._kept.append(self._pair[spot])
        self._pair[spot] = pair
        went = self._found(topic, pair.source, pair.target)
        if went is None:
            went = self._went.setdefault(topic, {})[pair.source, pair.target] = _Went(pair)
        went.spots.append(spot)

    def state(self) -> object:
        """Return everything that decides later moves: two equal states go on alike.

        A list depends on the memory of its key, so the state says which partition's pair that
        is, and whether it is freed.
        """
        pairs = {s: (p.source, p.target) for s, p in self._pair.items()}
        spot_of = {id(p): s for s, p in self._pair.items()}
        lists = {
            (topic, *way): (spot_of.get(id(went.key)), id(went.key) in self._freed, *went.spots)
            for topic, ways in self._went.items()
            for way, went in ways.items()
        }
        return pairs, lists


def crash(what: str) -> PeerRefusal:
    """The refusal where the library would end the process."""
    return PeerRefusal(f"the library {what}, and crashes", "crash")


def _undefined() -> PeerRefusal:
    what = "the library reads memory that it has freed: what it then does is not defined"
    return PeerRefusal(what, "undefined")
