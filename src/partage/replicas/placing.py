# ruff: noqa: PLR0917 - arguments are Kafka's, and as many
"""Kafka's placement of a topic's replicas: `place`, `place_added_partitions` and `StripedPlacer`.

The placement of ``AdminUtils`` is from Kafka 3.9.1, the last release with this class. Brokers form
a list: in the order given, or alternating between racks where all have racks. Leaders follow this
list; followers are at a growing distance after their leader.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, InvalidPlacementError, InvalidProblemError
from partage.java.strings import string_order_key
from partage.model import Broker
from partage.replicas.draws import JavaDraws, LookaheadDraws, next_int
from partage.replicas.striped import place_in_stripes

__all__ = [
    "Strategy",
    "StripedPlacer",
    "alternate_racks",
    "default_directory",
    "place",
    "place_added_partitions",
    "strategies",
]

Strategy = Literal["rack-aware", "rack-unaware", "striped"]
Int32Array = NDArray[np.int32]

strategies: tuple[Strategy, ...] = ("rack-aware", "rack-unaware", "striped")

_INT32 = 1 << 31
#: Replicas of one call: 800 MB of int32.
_MOST_REPLICAS = 200_000_000
#: ``DirectoryId.UNASSIGNED`` and ``DirectoryId.MIGRATING`` as Kafka prints them.
_UNASSIGNED, _MIGRATING = "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"


def place(
    brokers: Iterable[Broker],
    *,
    partitions: int,
    replication_factor: int,
    strategy: Strategy = "striped",
    start_index: int | None = None,
    start_shift: int | None = None,
    first_partition: int = 0,
    seed: int = 0,
) -> Int32Array:
    """Return the brokers on which Kafka places the replicas of a new topic.

    The default strategy ``striped`` is the KRaft controller's ``StripedReplicaPlacer`` of 4.3.1.
    ``rack-aware`` and ``rack-unaware`` are ``AdminUtils.assignReplicasToBrokers`` of 3.9.1, with
    the brokers' racks (where any broker has one) or without.

    Args:
        brokers: the cluster's brokers in Kafka's order; the order matters if they have no racks.
        partitions: the number of partitions.
        replication_factor: number of replicas of each partition.
        strategy: "striped", "rack-aware" or "rack-unaware".
        start_index: position of the first leader, Kafka's ``fixedStartIndex``, for the strategies
            of 3.9. None or a negative number, as in Kafka, draws it at random.
        start_shift: distance from the leader to its first follower in the broker list. None for the
            start index, as in Kafka; if that is not given either, it is drawn as well.
        first_partition: number of the first partition, Kafka's ``startPartitionId``; the striped
            placer ignores it, and rejects ``start_index`` and ``start_shift``.
        seed: the seed of ``java.util.Random``.

    Returns:
        int32[partitions, replication_factor].

    Raises:
        InvalidPlacementError: Kafka raises an error too, checked in its order; ``java_exception``
            has the class.
        InvalidConfigError, InvalidProblemError: an argument is out of range, or two brokers have
            the same id.

    >>> racks = ["rack1", "rack3", "rack3", "rack2", "rack2", "rack1"]
    >>> brokers = [Broker(i, rack) for i, rack in enumerate(racks)]
    >>> place(brokers, partitions=2, replication_factor=3, seed=1).tolist()
    [[0, 3, 2], [4, 1, 5]]
    >>> placed = place(brokers, partitions=7, replication_factor=3, strategy="rack-aware",
    ...                start_index=0)
    >>> placed[[0, 6]].tolist()
    [[0, 3, 1], [0, 4, 2]]
    """
    listed = _expect_brokers(brokers)
    _expect_int32("partitions", partitions)
    _expect_int32("replication_factor", replication_factor)
    if not isinstance(seed, (int, np.integer)):
        raise InvalidConfigError("seed", "must be an int", seed)
    _expect_int32("first_partition", first_partition)
    if strategy == "striped":
        _expect_no_start(start_index=start_index, start_shift=start_shift)
        return StripedPlacer(listed, seed=seed).place_topic(partitions, replication_factor)
    if strategy not in strategies:
        raise InvalidConfigError("strategy", f"one of {', '.join(strategies)}", strategy)
    _expect_placeable(listed, partitions, replication_factor)
    begin = _draw_start(len(listed), start_index, start_shift, JavaDraws(seed))
    size = max(0, first_partition), partitions, replication_factor
    return _place_as_admin_utils(listed, *begin, *size, aware=strategy == "rack-aware")


def _place_as_admin_utils(
    brokers: list[Broker], start: int, shift: int, first: int, partitions: int, factor: int,
    *, aware: bool,
) -> Int32Array:  # fmt: skip
    # ``aware``: whether to use the brokers' racks.
    racks = len({b.rack for b in brokers})
    if aware and racks > 1:
        expect_racks(brokers)
    _expect_no_overflow(len(brokers), partitions, start, (shift, racks), first)
    if aware and any(b.rack is not None for b in brokers):
        return place_with_racks(brokers, start, shift, first, partitions, factor)
    ids = np.array([b.id for b in brokers], np.int32)
    return place_without_racks(ids, start, shift, first, partitions, factor)


def _expect_no_start(**given: int | None) -> None:
    """Raise an error if the user sets a start index or a start shift for KRaft's replica placer.

    This placer always draws both at random, so the setting would have no effect.

    Raises:
        InvalidConfigError: one of the keyword arguments is not None.
    """
    for name, value in given.items():
        if value is not None:
            what = (
                "the striped placer draws its own (seed): leave it out, or choose the strategy "
                "rack-aware or rack-unaware"
            )
            raise InvalidConfigError(name, what, value)


class StripedPlacer:
    """Replica placer of KRaft controllers, which places several topics one after another.

    It returns the same brokers as Kafka's ``StripedReplicaPlacer``. The random generator continues
    from topic to topic, so the result depends on the topics before.

    >>> placer = StripedPlacer([Broker(0), Broker(1), Broker(2)], seed=4)
    >>> placer.place_topic(2, 2).shape, placer.place_topic(1, 3).shape
    ((2, 2), (1, 3))
    """

    def __init__(
        self, brokers: Iterable[Broker], *, seed: int = 0, draws: LookaheadDraws | None = None
    ) -> None:
        self.brokers = _expect_brokers(brokers)
        self._draws = JavaDraws(seed) if draws is None else draws

    def place_topic(self, partitions: int, replication_factor: int) -> Int32Array:
        """Place the replicas of the next topic, and return their broker ids.

        The random generator continues from the topic before. To place a single topic, use
        `partage.replicas.place`.

        Returns:
            int32[partitions, replication_factor], the preferred leader first.

        Raises:
            InvalidPlacementError: Kafka rejects the topic too, for example for too few brokers.
        """
        # The class returns an empty placement for 0; only the controller rejects that.
        if partitions < 0:
            raise InvalidPlacementError(
                f"number of partitions {partitions} is not positive",
                java_exception="InvalidPartitionsException",
            )
        _expect_not_too_many(partitions, replication_factor, len(self.brokers))
        return place_in_stripes(self.brokers, self._draws, partitions, replication_factor)


def place_added_partitions(
    brokers: Iterable[Broker],
    existing: Sequence[Sequence[int]],
    partitions: int,
    *,
    strategy: Strategy = "striped",
    seed: int = 0,
) -> Int32Array:
    """Return the brokers on which Kafka places the replicas of partitions added to a topic.

    The striped placer ignores the existing partitions. The strategies of AdminUtils continue from
    the broker of partition 0's first replica.

    Args:
        brokers: the brokers of the cluster.
        existing: broker ids of the replicas of the topic's partitions 0, 1, ...
        partitions: the number of partitions to add.
        strategy: "striped", "rack-aware" or "rack-unaware", see `place`.
        seed: seed of Kafka's random numbers, see `place`.

    Returns:
        int32[partitions, replicas of partition 0]: partitions ``len(existing)`` and on.

    Raises:
        InvalidPlacementError: Kafka raises an error too, or the topic has no partition 0.

    >>> brokers = [Broker(i) for i in range(5)]
    >>> place_added_partitions(brokers, [[1, 2]] * 4, 3, strategy="rack-aware").tolist()
    [[0, 2], [1, 4], [2, 0]]
    """
    if not existing or not len(existing[0]):
        raise InvalidPlacementError(
            "the topic has no partition 0 with replicas, so partitions cannot be added",
            java_exception="AdminOperationException",
        )
    listed = sorted(brokers, key=lambda b: b.id)
    factor = len(existing[0])
    if strategy == "striped":
        return place(
            listed, partitions=partitions, replication_factor=factor, strategy=strategy, seed=seed
        )
    start = next((i for i, b in enumerate(listed) if b.id >= existing[0][0]), 0)
    return place(
        listed, partitions=partitions, replication_factor=factor, strategy=strategy,
        start_index=start, first_partition=len(existing),
    )  # fmt: skip


def default_directory(broker: Broker) -> str:
    """Return the directory id that the controller records for a new replica on a broker.

    It is the id of the broker's only log directory. It is ``DirectoryId.UNASSIGNED`` for a broker
    with several directories, which chooses later, and ``MIGRATING`` for a broker without directory
    ids (before KIP-858).

    >>> default_directory(Broker(1, directories=("x", "y")))
    'AAAAAAAAAAAAAAAAAAAAAA'
    """
    if not broker.directories:
        return _MIGRATING
    return broker.directories[0] if len(broker.directories) == 1 else _UNASSIGNED


def _expect_brokers(brokers: Iterable[Broker]) -> list[Broker]:
    """Check that a placement's list of brokers is valid, and return it.

    All items must be `Broker` objects with distinct ids.

    Raises:
        InvalidProblemError: a broker is not valid, or two have the same id.
    """
    if not isinstance(brokers, Iterable):
        raise InvalidProblemError("must be a list of Broker", path="brokers", value=brokers)
    listed = list(brokers)
    seen: set[int] = set()
    for i, one in enumerate(listed):
        if not isinstance(one, Broker):
            raise InvalidProblemError("must be a Broker", path=f"brokers[{i}]", value=one)
        _expect_int32(f"brokers[{i}].id", one.id)
        if one.rack is not None and not isinstance(one.rack, str):
            raise InvalidProblemError("must be text", path=f"brokers[{i}].rack", value=one.rack)
        if one.id in seen:
            raise InvalidProblemError(
                "two brokers have this id", path=f"brokers[{i}].id", value=one.id
            )
        seen.add(one.id)
    return listed


def _expect_int32(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InvalidConfigError(name, "must be an int", value)
    if not -_INT32 <= value < _INT32:
        raise InvalidConfigError(name, "must be an int32", value)


def _expect_placeable(brokers: Sequence[Broker], partitions: int, factor: int) -> None:
    # Errors and their order are those of AdminUtils.
    if partitions <= 0:
        raise InvalidPlacementError(
            f"number of partitions must be larger than 0, got {partitions}",
            java_exception="InvalidPartitionsException",
        )
    if factor <= 0:
        raise InvalidPlacementError(
            f"replication factor must be larger than 0, got {factor}",
            java_exception="InvalidReplicationFactorException",
        )
    if factor > len(brokers):
        raise InvalidPlacementError(
            f"replication factor {factor} larger than available brokers: {len(brokers)}",
            java_exception="InvalidReplicationFactorException",
        )
    _expect_not_too_many(partitions, factor, len(brokers))


def _expect_not_too_many(partitions: int, factor: int, brokers: int) -> None:
    """Raise an error if a placement has more replicas than fit into memory.

    The limit is the constant ``_MOST_REPLICAS``.

    Args:
        partitions: number of partitions.
        factor: replication factor.
        brokers: number of brokers.

    Raises:
        InvalidConfigError: there are more replicas.
    """
    if partitions * min(factor, brokers) > _MOST_REPLICAS:
        what = f"{partitions} partitions x {factor} replicas; at most {_MOST_REPLICAS:,} at once"
        raise InvalidConfigError("partitions", what, partitions)


def _draw_start(
    brokers: int, index: int | None, shift: int | None, draws: LookaheadDraws
) -> tuple[int, int]:
    # Values that are not given, or negative, are drawn in this order.
    for name, value in (("start_index", index), ("start_shift", shift)):
        if value is not None:
            _expect_int32(name, value)
    index = None if index is not None and index < 0 else index
    shift = None if shift is not None and shift < 0 else shift
    start = next_int(draws, brokers) if index is None else index
    if shift is None:
        shift = next_int(draws, brokers) if index is None else index
    return int(start), int(shift)


def _expect_no_overflow(
    brokers: int, partitions: int, start_index: int, shift: tuple[int, int], first_partition: int
) -> None:
    """Raise an error if Java's int arithmetic in ``AdminUtils`` would overflow for these arguments.

    After an overflow, Kafka's placement is arbitrary.

    Args:
        brokers: number of brokers.
        partitions: number of partitions.
        start_index: position of partition 0's leader.
        shift: number of brokers between this leader and its first follower.
        first_partition: number of the first partition.

    Raises:
        InvalidConfigError: the arithmetic overflows.
    """
    last = first_partition + partitions - 1
    largest = max(
        last + start_index, (shift[0] + last // brokers + 1) * shift[1] + brokers * brokers
    )
    if largest >= _INT32:
        what = "Kafka's int32 arithmetic would overflow: smaller indexes or fewer partitions"
        raise InvalidConfigError("start_index", what, start_index)


def alternate_racks(brokers: Sequence[Broker]) -> list[int]:
    """Return the indices of brokers in an order that alternates between racks.

    For example, two brokers each of racks a and b come in the order a, b, a, b. Racks are sorted by
    name, and brokers within a rack by id. It is a port of
    ``AdminUtils.getRackAlternatedBrokerList``.

    >>> racks = ["rack1", "rack3", "rack3", "rack2", "rack2", "rack1"]
    >>> alternate_racks([Broker(i, rack) for i, rack in enumerate(racks)])
    [0, 3, 1, 5, 4, 2]
    """
    by_rack: dict[str, list[int]] = {}
    for position in sorted(range(len(brokers)), key=lambda i: brokers[i].id):
        by_rack.setdefault(brokers[position].rack or "", []).append(position)
    racks = [by_rack[rack] for rack in sorted(by_rack, key=string_order_key)]
    return [
        rack[turn] for turn in range(max(map(len, racks))) for rack in racks if turn < len(rack)
    ]


def _leaders_and_shifts(
    broker_count: int, start: int, shift: int, first_partition: int, partitions: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the leader of each new partition and the distance from it to its first follower.

    Kafka's ``AdminUtils`` computes both from the partition number: leaders go round the list of
    brokers, and the distance grows by one with each round.

    Args:
        broker_count: number of brokers in the list.
        start: index of partition 0's leader in the list.
        shift: number of brokers between this leader and its first follower.
        first_partition: number of the first partition.
        partitions: number of partitions.

    Returns:
        two int64[partitions] arrays: index of the leader, and number of brokers between.
    """
    number = first_partition + np.arange(partitions, dtype=np.int64)
    # The shift grows at every multiple of the brokers except partition 0.
    later = number // broker_count - (max(first_partition, 1) - 1) // broker_count
    return (number + start) % broker_count, shift + later


def place_without_racks(
    ids: Int32Array, start: int, shift: int, first: int, partitions: int, factor: int
) -> Int32Array:
    """Place the replicas of each partition as Kafka's ``AdminUtils`` does without racks.

    The result has broker ids, the preferred leader first (int32[partitions, factor]).

    Args:
        ids: broker ids.
        start: position of partition 0's leader in ``ids``.
        shift: number of brokers between this leader and its first follower.
        first: number of the first partition to place.
        partitions: number of partitions to place.
        factor: replication factor.
    """
    count = len(ids)
    lead, behind = _leaders_and_shifts(count, start, shift, first, partitions)
    out = np.empty((partitions, factor), np.int32)
    out[:, 0] = ids[lead]
    for j in range(factor - 1):
        out[:, j + 1] = ids[(lead + 1 + (behind + j) % (count - 1)) % count]
    return out


def _place_followers(
    ids: Int32Array, rack: NDArray[np.int64], lead: NDArray[np.int64], gap: NDArray[np.int64],
    factor: int,
) -> Int32Array:  # fmt: skip
    """Choose brokers on distinct racks for each partition's followers, like Kafka's ``AdminUtils``.

    A rack gets a second replica only if all racks have a replica of the partition already.

    Args:
        ids: broker ids, in rack-alternating order.
        rack: rack of each of these brokers.
        lead: index of each partition's leader in ``ids``.
        gap: for each partition, the number of brokers between the leader and the first candidate.
        factor: replication factor.

    Returns:
        broker ids, the leader first (int32[n, factor]).
    """
    count, racks, rows = len(ids), int(rack.max()) + 1, len(lead)
    at = np.empty((rows, factor), np.int64)
    at[:, 0] = lead
    seen = np.ones(rows, np.int64)
    gap = gap.copy()
    for j in range(1, factor):
        left = np.arange(rows)
        # In each pass, all partitions without a broker for their next replica test one candidate.
        while len(left):
            here = lead[left] + 1 + gap[left]
            here -= count * (here >= count)
            gap[left] += 1
            gap[left[gap[left] == count - 1]] = 0
            held = at[left, :j]
            new = (rack[held] != rack[here][:, None]).all(axis=1)
            free = (held != here[:, None]).all(axis=1)
            taken = (new | (seen[left] == racks)) & free
            found = left[taken]
            at[found, j] = here[taken]
            seen[found] += new[taken]
            left = left[~taken]
    return ids[at]


def expect_racks(brokers: Sequence[Broker]) -> None:
    """Raise an error if a broker has no rack.

    Rack-aware placement needs the racks of all brokers, and Kafka fails in the same case.

    Raises:
        InvalidPlacementError: some brokers have no rack.
    """
    if any(b.rack is None for b in brokers):
        lacking = [str(b.id) for b in brokers if b.rack is None]
        raise InvalidPlacementError(
            "not all brokers have rack information for replica rack aware assignment: "
            f"{', '.join(lacking[:5])}{', ...' if len(lacking) > 5 else ''} "
            f"{'has' if len(lacking) == 1 else 'have'} none",
            java_exception="AdminOperationException",
        )


def place_with_racks(
    brokers: Sequence[Broker], start: int, shift: int, first: int, partitions: int, factor: int
) -> Int32Array:
    """Place the replicas of each partition as Kafka's ``AdminUtils`` does with racks.

    The result has broker ids, the preferred leader first (int32[partitions, factor]).

    Args:
        brokers: the brokers, all with racks.
        start: position of partition 0's leader in rack-alternating order.
        shift: number of brokers between this leader and its first follower.
        first: number of the first partition to place.
        partitions: number of partitions to place.
        factor: replication factor.
    """
    line = alternate_racks(brokers)
    number: dict[str | None, int] = {}
    rack = np.array([number.setdefault(brokers[i].rack, len(number)) for i in line], np.int64)
    ids = np.array([brokers[i].id for i in line], np.int32)
    count = len(line)
    lead, behind = _leaders_and_shifts(count, start, shift, first, partitions)
    if count == 1:
        return np.full((partitions, factor), ids[0], np.int32)
    gap = behind * len(number) % (count - 1)
    # Leaders and gaps are periodic, and so are the rows that they determine.
    period = min(partitions, count * (count - 1) // math.gcd(len(number), count - 1))
    once = _place_followers(ids, rack, lead[:period], gap[:period], factor)
    return once[np.arange(partitions) % period]
