"""What has moved from whom to whom, as far as librdkafka knows it without reading freed memory."""

from __future__ import annotations

from partage.groups.dialects.refusals import PeerRefusal

__all__ = ["LibrdkafkaMovements"]


class LibrdkafkaMovements:
    """By partition its move; by topic and pair what went that way.

    The library keeps pointers into lists and pairs that the same step frees. What it does then
    is not defined, so it is not imitated; all that is left is that a partition moves once, or
    moves on while nothing else has gone its first way.
    """

    def __init__(self) -> None:
        self._pair: dict[int, tuple[int, int]] = {}
        self._went: dict[tuple[int, int, int], set[int]] = {}
        self._freed: set[tuple[int, int, int]] = set()
        self._back: set[int] = set()

    def moved(self, spot: int, topic: int, source: int, target: int) -> None:
        """A partition goes from its holder to another.

        Raises:
            PeerRefusal: something of the topic went the opposite way, or a partition moves
                again after it came back, or its old pair would be read after it was freed.
        """
        first, before = self._pair.get(spot, (source, source))
        back = (topic, target, first)
        if spot in self._back or back in self._freed or self._went.get(back):
            raise _undefined()
        if spot in self._pair:
            old = (topic, first, before)
            self._went[old].discard(spot)
            if first == target:
                self._back.add(spot)
                return
            if self._went[old]:
                self._freed.add(old)
        key = (topic, first, target)
        if key in self._freed:
            raise _undefined()
        self._pair[spot] = (first, target)
        self._went.setdefault(key, set()).add(spot)


def _undefined() -> PeerRefusal:
    what = "the library reads memory that it has freed: what it then does is not defined"
    return PeerRefusal(what, "undefined")
