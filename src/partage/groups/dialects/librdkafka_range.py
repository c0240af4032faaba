"""librdkafka's range assignor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from partage.groups.base import PlainStrategy
from partage.groups.dialects.librdkafka_order import sorted_members
from partage.groups.dialects.librdkafka_scene import LibrdkafkaScene
from partage.model import Plan, Problem

__all__ = ["LibrdkafkaRange"]


class LibrdkafkaRange(PlainStrategy):
    """Topic by topic in runs, with racks (KIP-881), as Java does but for a few corners.

    Differs from Java's ``range``: where static and dynamic members mix, Java puts static ones
    first (`partage.groups.dialects.librdkafka_order`); topics with equal subscribers and counts
    go by rack together even where replicas are everywhere, so that a member without a rack
    comes last there; and names sort as UTF-8. It refuses a group in which a member subscribes
    to nothing.

    Exact to ``rd_kafka_range_assignor_assign_cb`` of librdkafka 2.16.0, the order in which a
    member's topics stand aside. Cost: O(P M) at most, with racks or without.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("b", ["t"], instance_id="i"), Member("a", ["t"])])
    >>> LibrdkafkaRange().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'b': {'t': [2]}, 'a': {'t': [0, 1]}}
    """

    name = "librdkafka:range"
    exact_to = "rd_kafka_range_assignor_assign_cb librdkafka 2.16.0"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The plan.

        Raises:
            PeerRefusal: a member subscribes to nothing.
        """
        scene = LibrdkafkaScene(problem)
        lists: list[list[int]] = [[] for _ in problem.group]
        lines: dict[tuple[int, ...], list[int]] = {}
        shares = []
        for k in scene.asked:
            audience = tuple(scene.audience[k])
            if audience not in lines:
                lines[audience] = sorted_members(problem.group, audience)
            shares.append(_Share(scene, k, lines[audience], lists))
        shares.sort(key=_Share.key)
        for _, found in groupby(shares, key=_Share.key):
            alike = list(found)
            if len(alike) > 1:
                _together(alike)
            elif scene.racks_matter([alike[0].topic], alike[0].line):
                alike[0].give(alike[0].by_rack)
        for share in shares:
            share.give(lambda _member, _spot: True)
        return scene.plan(lists)


class _Share:
    """One topic being given out: every member gets the quota, some one more while there are extras.

    Attributes:
        topic: the topic; line: its members in order; count: its partitions.
    """

    def __init__(
        self, scene: LibrdkafkaScene, topic: int, line: Sequence[int], lists: list[list[int]]
    ) -> None:
        self.topic, self.line = topic, line
        self.spots = range(scene.start[topic], scene.start[topic + 1])
        self.quota, self._extra = divmod(len(self.spots), len(line))
        self._scene, self._lists = scene, lists
        self._open = dict.fromkeys(self.spots)
        self._load = dict.fromkeys(line, 0)

    def key(self) -> tuple[tuple[int, ...], int]:
        """Equal for topics with the same members and equally many partitions."""
        return tuple(self._scene.id_rank[m] for m in self.line), len(self.spots)

    def room(self, member: int) -> int:
        """How many more the member may have."""
        return self.quota + (self._extra > 0) - self._load[member]

    def take(self, member: int, spot: int) -> None:
        """The member has it; beyond the quota that uses up an extra."""
        self._lists[member].append(spot)
        del self._open[spot]
        self._load[member] += 1
        self._extra -= self._load[member] > self.quota

    def by_rack(self, member: int, spot: int) -> bool:
        """No rack, or one of the replicas'."""
        rack = self._scene.problem.group[member].rack
        return not rack or rack in self._scene.racks[spot]

    def give(self, may_have: Callable[[int, int], bool]) -> None:
        """Member after member takes what is open from the start, as far as it has room."""
        for member in self.line:
            room = self.room(member)
            if room <= 0:
                continue
            mine: list[int] = []
            for spot in self._open:
                if len(mine) == room:
                    break
                if may_have(member, spot):
                    mine.append(spot)
            for spot in mine:
                self.take(member, spot)


def _together(shares: Sequence[_Share]) -> None:
    """Equal numbers of all topics to the first member on a rack of each that has room in each."""
    for nth in range(len(shares[0].spots)):
        for member in shares[0].line:
            if all(_fits(share, member, share.spots[nth]) for share in shares):
                for share in shares:
                    share.take(member, share.spots[nth])
                break


def _fits(share: _Share, member: int, spot: int) -> bool:
    rack = share._scene.problem.group[member].rack  # noqa: SLF001 - one file, one thought
    return bool(rack) and share.by_rack(member, spot) and share.room(member) > 0
