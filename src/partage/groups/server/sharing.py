"""What both halves of simple do: how many each wants, taking away, handing out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from partage.groups.server.refusals import CoordinatorRefusal
from partage.groups.server.spec import GroupSpec
from partage.groups.server.walks import walk_copied_sets, walk_maps
from partage.javaorder import hash_order, table_for_capacity

__all__ = ["Shares", "old_targets", "roomy_table", "wanted"]

#: For each member number its sets in the order of its map: (topic, dense numbers in order).
OldTargets = list[list[tuple[int, list[int]]]]


def wanted(members: int, partitions: int) -> tuple[int, list[int]]:
    """How many members share a partition, and how many partitions each member wants.

    >>> wanted(5, 2)
    (3, [2, 1, 1, 1, 1])
    """
    sharing = -(-members // partitions) if partitions else 0
    ratio = sharing * partitions / members
    return sharing, [math.ceil(ratio * (k + 1)) - math.ceil(ratio * k) for k in range(members)]


def roomy_table(size: int) -> int:
    """Slots of a table that Kafka makes for ``size`` keys and one more."""
    return table_for_capacity((size + 1) * 4 // 3 + 1)


def old_targets(spec: GroupSpec) -> OldTargets:
    """Previous targets of members in the order of their map, each map and set in its own."""
    before = spec.previous
    place = np.empty(spec.members, np.int64)
    place[spec.visit] = np.arange(spec.members)
    by_place = np.argsort(place[before.member], kind="stable")
    group = place[before.member][by_place]
    sets = by_place[walk_maps(group, before.uuid_hash[by_place])]
    number = spec.problem.index.number_of[before.partition].view(np.uint32)
    inside = before.partition[walk_copied_sets(before.set_of, number)].tolist()
    start, topic, member = before.start.tolist(), before.topic.tolist(), before.member.tolist()
    out: OldTargets = [[] for _ in range(spec.members)]
    places = place.tolist()
    for one in sets.tolist():
        mine = inside[start[one] : start[one + 1]]
        out[places[member[one]]].append((topic[one], mine))
    return out


class Shares:
    """Who has what of some partitions, in maps that are walked as Java's are.

    ``hash_of`` gives the hash of a partition as a key of ``by_partition``; ``table`` is what
    that map was made with. Members are numbers, their position in the coordinator's map.
    """

    def __init__(
        self, give: Callable[[int, int], None], take: Callable[[int, int], None],
        hash_of: Callable[[int], int], table: int,
    ) -> None:  # fmt: skip
        self.by_partition: dict[int, set[int]] = {}
        # Dictionaries stand for sets that remember in which order they were filled.
        self.by_member: dict[int, dict[int, None]] = {}
        self.unfilled: set[int] = set()
        self._give, self._take = give, take
        self._hash_of = hash_of
        self._table = table
        self._looked_up_after = False
        # All that ever were in a set of members: what has left has made its table grow.
        self._entered: dict[int, list[int]] = {}

    def enter(self, member: int, partition: int) -> None:
        """An old partition of a member; one more call of ``computeIfAbsent``."""
        self.key(partition).add(member)
        self._entered.setdefault(partition, []).append(member)
        self.by_member.setdefault(member, {})[partition] = None

    def key(self, partition: int) -> set[int]:
        """Who has a partition; asking for it makes it a key."""
        self._looked_up_after = partition in self.by_partition
        return self.by_partition.setdefault(partition, set())

    def walk(self) -> list[int]:
        """Partitions in the order of the map."""
        keys = list(self.by_partition)
        hashes = [self._hash_of(key) for key in keys]
        order = hash_order(
            hashes, table=self._table, compute_if_absent=True,
            looked_up_after=self._looked_up_after,
        )  # fmt: skip
        return [keys[i] for i in order]

    def cut_members(self, members: Iterable[int], wants: Callable[[int], int]) -> None:
        """Members give up, in the order of their sets, what they have beyond their number."""
        for member in members:
            mine = list(self.by_member[member])
            beyond = len(mine) - wants(member)
            if beyond <= 0:
                continue
            order = hash_order([self._hash_of(p) for p in mine])
            gone = {mine[i] for i in order[:beyond]}
            for partition in gone:
                self.by_partition[partition].discard(member)
                self._take(member, partition)
            self.by_member[member] = dict.fromkeys(p for p in mine if p not in gone)

    def cut_partitions(self, sharing: int) -> None:
        """Partitions with too many members lose the first of them, who are unfilled then."""
        for partition in self.walk():
            holders = self.by_partition[partition]
            beyond = len(holders) - sharing
            if beyond <= 0:
                continue
            entered = self._entered[partition]
            walked = [entered[i] for i in hash_order(entered) if entered[i] in holders]
            for member in walked[:beyond]:
                holders.discard(member)
                del self.by_member[member][partition]
                self._take(member, partition)
                self.unfilled.add(member)

    def hand_out(self, sharing: int, wants: Callable[[int], int]) -> None:
        """Partitions with too few members get more, from a cursor that goes round the unfilled.

        Raises:
            CoordinatorRefusal: the unfilled run out in the middle of a partition (Q23).
        """
        cursor = _Cursor(sorted(self.unfilled))
        for partition in self.walk():
            had = frozenset(self.by_partition[partition])
            for _ in range(sharing - len(had)):
                member = cursor.next_without(had)
                if member < 0:
                    break
                # On its second round the cursor may give a member what it has just got.
                mine = self.by_member.setdefault(member, {})
                mine[partition] = None
                self._give(member, partition)
                if len(mine) >= wants(member):
                    cursor.drop()
            if cursor.empty:
                return


class _Cursor:
    """Goes round a list from which what it stands on can be dropped."""

    def __init__(self, items: Sequence[int]) -> None:
        self._items = list(items)
        self._at = 0
        self._given = False

    @property
    def empty(self) -> bool:
        return not self._items

    def next_without(self, had: frozenset[int]) -> int:
        """The next that is not in ``had``; -1 when a whole round had none."""
        while True:
            if self._at >= len(self._items):
                if not self._given:
                    return -1
                self._at, self._given = 0, False
                if not self._items:
                    what = "no member is left for a partition that is to be shared"
                    raise CoordinatorRefusal(what, "NoSuchElementException")
            item = self._items[self._at]
            self._at += 1
            if item not in had:
                self._given = True
                return item

    def drop(self) -> None:
        """Drop what `next_without` has just given."""
        self._at -= 1
        del self._items[self._at]
