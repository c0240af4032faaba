"""Members as they joined, and the group that they form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from partage.errors import InvalidProblemError
from partage.model.claims import Claims, is_int32
from partage.model.index import Int32Array, java_rank
from partage.model.names import expect_text, subscription

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["NO_GENERATION", "Claims", "Group", "Member"]

#: The generation of a member that sent none (Kafka's DEFAULT_GENERATION).
NO_GENERATION = -1


class Member:
    """One member of a group, with what it sent when it joined.

    Args:
        id: the member id that the coordinator gave.
        topics: subscription, in the order sent; a name may repeat.
        rack: ``client.rack``; the empty string counts as none where Kafka says so.
        instance_id: ``group.instance.id`` of a static member.
        owned: claimed partitions: a mapping, (topic, partition) pairs in order, or arrays.
        generation: of the claim; any negative number is "none sent".
        user_data: the subscription's user data, raw; None and empty differ.
        weight: relative share of the load that it should get (1.0 = an ordinary member).
        capacity: the most load it can take, in the unit of the partitions' weights.

    Raises:
        InvalidProblemError: an argument has the wrong type; says which.

    >>> member = Member("c1", topics=["orders"], owned={"orders": [0, 1]}, generation=4)
    >>> list(member.owned), member.generation
    ([('orders', 0), ('orders', 1)], 4)
    """

    __slots__ = (
        "capacity", "generation", "id", "instance_id", "owned", "rack", "topics", "user_data",
        "weight",
    )  # fmt: skip

    def __init__(
        self,
        id: str,  # noqa: A002 - Kafka's own name for it, and a stable public one
        topics: Iterable[str] = (),
        *,
        rack: str | None = None,
        instance_id: str | None = None,
        owned: object = (),
        generation: int = NO_GENERATION,
        user_data: bytes | None = None,
        weight: float = 1.0,
        capacity: float | None = None,
    ) -> None:
        where = f"members.{id}"
        expect_text(id, "members.id")
        self.id = id
        self.topics = subscription(topics, where)
        self.rack = None if rack is None else expect_text(rack, f"{where}.rack")
        self.instance_id = (
            None if instance_id is None else expect_text(instance_id, f"{where}.instance_id")
        )
        self.owned = Claims.of(owned, f"{where}.owned")
        if not is_int32(generation):
            what = "must be an int32"
            raise InvalidProblemError(what, path=f"{where}.generation", value=generation)
        self.generation = max(int(generation), NO_GENERATION)
        sent: object = user_data  # callers are not all typed
        if sent is not None and not isinstance(sent, (bytes, bytearray, memoryview)):
            what = "must be bytes or None"
            raise InvalidProblemError(what, path=f"{where}.user_data", value=sent)
        self.user_data = None if sent is None else bytes(sent)
        self.weight = _expect_number(weight, f"{where}.weight")
        self.capacity = None if capacity is None else _expect_number(capacity, f"{where}.capacity")

    def __repr__(self) -> str:
        return f"Member({self.id!r}, topics={list(self.topics)!r})"

    def _key(self) -> tuple[object, ...]:
        return (
            self.id, self.topics, self.rack, self.instance_id, self.owned, self.generation,
            self.user_data, self.weight, self.capacity,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Member) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def replaced(self, **changes: Any) -> Member:
        """A copy with some fields changed.

        >>> Member("c1", topics=["a"]).replaced(generation=3).generation
        3
        """
        values = {name: getattr(self, name) for name in self.__slots__} | changes
        return Member(values.pop("id"), values.pop("topics"), **values)


def _expect_number(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise InvalidProblemError("must be a number", path=path, value=value)
    try:
        number = float(value)
    except OverflowError:
        raise InvalidProblemError("must be finite", path=path, value=value) from None
    if not 0 <= number < float("inf"):
        raise InvalidProblemError("must be finite and not negative", path=path, value=value)
    return number


class Group:
    """Members in join order, which matters to Kafka; equal subscriptions are one object.

    Attributes:
        members: the members; their ``topics`` tuples are shared where equal.
        subscriptions: the distinct subscriptions (tuples of names as sent).
        subscription_of: int32[M], position in ``subscriptions`` for each member.

    >>> group = Group([Member("c2", topics=["a"]), Member("c1", topics=["a"])])
    >>> [m.id for m in group], len(group.subscriptions)
    (['c2', 'c1'], 1)
    """

    __slots__ = ("__dict__", "members", "subscription_of", "subscriptions")

    def __init__(self, members: Iterable[Member]) -> None:
        self.members: tuple[Member, ...] = tuple(members)
        seen: dict[tuple[str, ...], int] = {}
        ids: set[str] = set()
        at: dict[int, int] = {}  # by identity: hashing 2,000 names 2,000 times takes a while
        of: list[int] = []
        for i, member in enumerate(self.members):
            if not isinstance(member, Member):
                raise InvalidProblemError("must be a Member", path=f"members[{i}]", value=member)
            if member.id in ids:
                what = "member id is used twice"
                raise InvalidProblemError(what, path=f"members[{i}].id", value=member.id)
            ids.add(member.id)
            topics = member.topics
            if id(topics) not in at:
                at[id(topics)] = seen.setdefault(topics, len(seen))
            of.append(at[id(topics)])
        self.subscriptions: tuple[tuple[str, ...], ...] = tuple(seen)
        self.subscription_of: Int32Array = np.array(of, np.int32)

    @classmethod
    def from_json(cls, problem: Mapping[str, Any] | str | bytes | PathLike[str]) -> Group:
        """The ``members`` of a problem: JSON text, its parsed form, or a path to a file.

        Raises:
            InvalidProblemError: with path and value of what is wrong.
        """
        from partage.model.reading import field, group_from_members, parsed

        return group_from_members(field(parsed(problem), "members"))

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, i: int) -> Member:
        return self.members[i]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and self.members == other.members

    def __hash__(self) -> int:
        return hash(self.members)

    def __repr__(self) -> str:
        return f"Group({list(self.members)!r})"

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Member ids in join order."""
        return tuple(m.id for m in self.members)

    @cached_property
    def position(self) -> dict[str, int]:
        """Position of each member by its id."""
        return {member_id: i for i, member_id in enumerate(self.ids)}

    @cached_property
    def member_rank(self) -> Int32Array:
        """int32[M]: rank of each member id in Java's string order."""
        return java_rank(self.ids)
