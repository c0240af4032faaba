"""Members as they joined, and the group of them."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from partage.errors import InvalidProblemError, hide_secrets
from partage.java.hash_order import DEFAULT_TABLE, hash_order, names_in_map_order
from partage.java.strings import string_hashes, string_ranks
from partage.java.tree_bins import may_have_trees
from partage.model.claims import ClaimRows, Claims, is_int32
from partage.model.display import MOST_ROWS, Picture, draw_bar, html_table, pretty_print, text_table
from partage.model.index import Int32Array, java_rank
from partage.model.validation import (
    check_subscription,
    expect_list,
    expect_text,
    name_list,
    parse_problem,
    required_field,
)

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["LEAST_LOAD", "MOST_LOAD", "NO_GENERATION", "Group", "Member"]

_rack_of = attrgetter("rack")

_MEMBER_FIELDS = (
    "id", "topics", "instance", "rack", "owned", "generation", "userData", "weight", "capacity",
    "strategies", "config",
)  # fmt: skip

#: The generation of a member that sent none (Kafka's DEFAULT_GENERATION).
NO_GENERATION = -1

LEAST_LOAD, MOST_LOAD = 1e-100, 1e100
"""Limits of weights and capacities that are not 0. Beyond them, sums and quotients of two of them
exceed float64.
"""

_LAST_GENERATION = 2**31 - 1

#: From so many keys, a HashMap's table length follows from their number alone.
_MIN_REGULAR_KEYS = 49

#: The weight of a member that says none; and nothing owned, as a value of its own.
_ORDINARY = 1.0
_NOTHING = Claims.from_owned(())
_NO_CONFIG: Mapping[str, object] = {}


class Member:
    """Member of a Kafka consumer group, with the data that it sent when it joined.

    Assignment strategies use it as input. Only the id is required.

    Args:
        id: the member id that the coordinator gave.
        topics: the subscribed topic names, in the order sent; a name may repeat.
        rack: ``client.rack``; some of Kafka's assignors ignore the empty string.
        instance_id: ``group.instance.id`` of a static member.
        owned: partitions that the member reports as owned (its claims): a mapping, (topic,
            partition) pairs in order, or arrays.
        generation: group generation of these claims; any negative number means none was sent.
        user_data: the subscription's user data as raw bytes; None and empty differ.
        weight: share of the load that it should get, relative to other members (1.0 by default).
        capacity: the most load it can take, in the unit of the partitions' weights.
        strategies: protocol names or class names that it supports, preferred one first
            (``partition.assignment.strategy``); a text is split at commas, as in Kafka.
        config: its own settings of strategies, such as ``assignment.consumer.priority``.

    Raises:
        InvalidProblemError: an argument has the wrong type; says which.

    >>> member = Member("c1", topics=["orders"], owned={"orders": [0, 1]}, generation=4)
    >>> list(member.owned), member.generation
    ([('orders', 0), ('orders', 1)], 4)
    """

    __slots__ = (
        "capacity", "config", "generation", "id", "instance_id", "owned", "rack", "strategies",
        "topics", "user_data", "weight",
    )  # fmt: skip

    def __init__(
        self,
        id: str,  # noqa: A002 - Kafka's own name for it, and a stable public one
        topics: Iterable[str] = (),
        *,
        rack: str | None = None,
        instance_id: str | None = None,
        owned: object = _NOTHING,
        generation: int = NO_GENERATION,
        user_data: bytes | None = None,
        weight: float = _ORDINARY,
        capacity: float | None = None,
        strategies: str | Iterable[str] = (),
        config: Mapping[str, object] = _NO_CONFIG,
    ) -> None:
        # Thousands of members are made for one plan: what is plainly right is looked at once.
        self.id = id if type(id) is str else expect_text(id, "members.id")
        self.topics = check_subscription(topics, self.id)
        self.rack = (
            rack if rack is None or type(rack) is str else expect_text(rack, f"members.{id}.rack")
        )
        self.instance_id = (
            None if instance_id is None else expect_text(instance_id, f"members.{id}.instance_id")
        )
        self.owned = (
            owned if type(owned) is Claims else Claims.from_owned(owned, f"members.{id}.owned")
        )
        self.generation = (
            generation
            if type(generation) is int and NO_GENERATION <= generation <= _LAST_GENERATION
            else _expect_generation(generation, f"members.{id}.generation")
        )
        self.user_data = (
            user_data
            if user_data is None or type(user_data) is bytes
            else _expect_bytes(user_data, f"members.{id}.user_data")
        )
        self.weight = (
            weight if weight is _ORDINARY else _expect_number(weight, f"members.{id}.weight")
        )
        self.capacity = (
            None if capacity is None else _expect_number(capacity, f"members.{id}.capacity")
        )
        self.strategies: tuple[str, ...] = (
            () if strategies == () else name_list(strategies, f"members.{id}.strategies")
        )
        self.config: Mapping[str, object] = (
            config if config is _NO_CONFIG else _expect_config(config, f"members.{id}.config")
        )

    def __repr__(self) -> str:
        shown = [repr(self.id), f"topics={_format_short_list(self.topics)}"]
        if self.rack is not None:
            shown.append(f"rack={self.rack!r}")
        if self.instance_id is not None:
            shown.append(f"instance_id={self.instance_id!r}")
        if len(self.owned):
            shown.append(f"owned={_owned_by_topic(self.owned)}")
        if self.generation != NO_GENERATION:
            shown.append(f"generation={self.generation}")
        if self.user_data is not None:
            shown.append(f"user_data=<{len(self.user_data)} bytes>")
        if self.weight != _ORDINARY:
            shown.append(f"weight={self.weight:g}")
        if self.capacity is not None:
            shown.append(f"capacity={self.capacity:g}")
        if self.strategies:
            shown.append(f"strategies={list(self.strategies)!r}")
        if self.config:
            shown.append(f"config={hide_secrets(self.config)!r}")
        return f"Member({', '.join(shown)})"

    def _key(self) -> tuple[object, ...]:
        return (
            self.id, self.topics, self.rack, self.instance_id, self.owned, self.generation,
            self.user_data, self.weight, self.capacity, self.strategies,
            tuple(sorted((k, repr(v)) for k, v in self.config.items())),
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Member) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def rejoined(self, owned: Claims, generation: int, user_data: bytes | None) -> Member:
        """Return a copy of the member that rejoins its group with other owned partitions.

        The arguments are not validated, because simulations of many rebalances call this method
        often.

        Args:
            owned: partitions that the consumer reports as owned.
            generation: group generation in which it got them.
            user_data: the subscription's user data, None if there is none.
        """
        made = object.__new__(Member)
        made.id, made.topics, made.rack = self.id, self.topics, self.rack
        made.instance_id, made.weight, made.capacity = self.instance_id, self.weight, self.capacity
        made.strategies, made.config = self.strategies, self.config
        made.owned, made.generation, made.user_data = owned, generation, user_data
        return made

    def replaced(self, **changes: Any) -> Member:
        """Return a copy of the group member with some fields changed.

        The changed fields are given as keyword arguments, and are validated.

        >>> Member("c1", topics=["a"]).replaced(generation=3).generation
        3
        """
        values = {name: getattr(self, name) for name in self.__slots__} | changes
        return Member(values.pop("id"), values.pop("topics"), **values)


#: More topics, or more partitions of a topic, than these are shortened in a member's repr.
_MOST_SHOWN = 12


def _format_short_list(values: Sequence[object]) -> str:
    """Format at most twelve values of a list as text, followed by the number of values left out.

    >>> _format_short_list(range(20))
    '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... 8 more]'
    """
    shown = ", ".join(map(repr, values[:_MOST_SHOWN]))
    more = len(values) - _MOST_SHOWN
    return f"[{shown}, ... {more} more]" if more > 0 else f"[{shown}]"


def _owned_by_topic(owned: Claims) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, number in owned:
        by_topic.setdefault(topic, []).append(number)
    return "{" + ", ".join(f"{t!r}: {_format_short_list(p)}" for t, p in by_topic.items()) + "}"


def _expect_config(value: object, path: str) -> Mapping[str, object]:
    """Return a copy of a consumer's own strategy settings, after checking that it is a dict.

    Settings that are not a mapping with string keys raise `InvalidProblemError`, with ``path`` as
    the name of the field.
    """
    if not isinstance(value, Mapping):
        raise InvalidProblemError("must be an object: setting -> value", path=path, value=value)
    for key in value:
        expect_text(key, path)
    return dict(value)


def _expect_generation(value: object, path: str) -> int:
    if not is_int32(value):
        raise InvalidProblemError("must be an int32", path=path, value=value)
    return max(int(value), NO_GENERATION)  # type: ignore[call-overload, no-any-return]  # checked above


def _expect_bytes(value: object, path: str) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise InvalidProblemError("must be bytes or None", path=path, value=value)
    return bytes(value)


def _expect_number(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise InvalidProblemError("must be a number", path=path, value=value)
    try:
        number = float(value)
    except OverflowError:
        raise InvalidProblemError("must be finite", path=path, value=value) from None
    if not 0 <= number < float("inf"):
        raise InvalidProblemError("must be finite and not negative", path=path, value=value)
    if number and not LEAST_LOAD <= number <= MOST_LOAD:
        what = f"must be 0, or from {LEAST_LOAD:g} to {MOST_LOAD:g}"
        raise InvalidProblemError(what, path=path, value=value)
    return number


_MEMBER_COLUMNS = ("member", "topics", "instance", "rack", "owned")


def _member_row(member: Member) -> tuple[str, str, str, str, int]:
    topics = ", ".join(member.topics[:_MOST_SHOWN])
    more = len(member.topics) - _MOST_SHOWN
    listed = f"{topics} and {more} more" if more > 0 else topics
    return member.id, listed, member.instance_id or "", member.rack or "", len(member.owned)


class Group:
    """Members of a Kafka consumer group, in the order in which they joined.

    Kafka's assignors depend on this order. A group cannot be changed; member ids are unique.

    Attributes:
        members: the members; members with equal subscriptions share one ``topics`` tuple.
        ids: member ids in join order.
        subscriptions: the distinct subscriptions (tuples of names as sent).
        subscription_of: int32[M], each member's subscription, as an index of ``subscriptions``.

    >>> group = Group([Member("c2", topics=["a"]), Member("c1", topics=["a"])])
    >>> [m.id for m in group], len(group.subscriptions)
    (['c2', 'c1'], 1)
    >>> print(group)
    Group: 2 members
    member  topics  instance  rack  owned
    c2      a                           0
    c1      a                           0
    """

    __slots__ = ("__dict__", "ids", "members", "orders", "subscription_of", "subscriptions")

    def __init__(self, members: Iterable[Member]) -> None:
        if isinstance(members, (str, bytes, Member)) or not isinstance(members, Iterable):
            raise InvalidProblemError("must be a list of Member", path="members", value=members)
        self.members: tuple[Member, ...] = tuple(members)
        if not set(map(type, self.members)) <= {Member}:
            _refuse_others(self.members)
        self.ids: tuple[str, ...] = tuple([m.id for m in self.members])
        if len(set(self.ids)) < len(self.ids):
            _refuse_twice(self.ids)
        self.orders = _MemberOrders(self.ids)
        seen: dict[tuple[str, ...], int] = {}
        # By identity: hashing 2,000 names 2,000 times takes a while.
        lists = [m.topics for m in self.members]
        if len(set(map(id, lists))) == 1:
            self.subscriptions: tuple[tuple[str, ...], ...] = (lists[0],)
            self.subscription_of: Int32Array = np.zeros(len(lists), np.int32)
            return
        by_identity = {id(topics): topics for topics in lists}
        at = {key: seen.setdefault(topics, len(seen)) for key, topics in by_identity.items()}
        of = list(map(at.__getitem__, map(id, lists)))
        self.subscriptions = tuple(seen)
        self.subscription_of = np.array(of, np.int32)

    @classmethod
    def from_json(cls, problem: Mapping[str, Any] | str | bytes | PathLike[str]) -> Group:
        """Build a consumer group from the field ``members`` of a JSON object.

        Each member is an object with ``id``, ``topics`` and optional fields such as ``owned``.

        Args:
            problem: JSON text, parsed JSON, or the path of a file.

        Raises:
            InvalidProblemError: a field is wrong; the error has its path and value.
        """
        return _group_from_members(required_field(parse_problem(problem), "members"))

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> Member:
        return self.members[i]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and self.members == other.members

    def __hash__(self) -> int:
        return hash(self.members)

    def __repr__(self) -> str:
        return f"Group({list(self.members)!r})"

    def __str__(self) -> str:
        """Return a text table with each consumer's topics and number of owned partitions.

        Only the first members of a large group are listed.
        """
        rows = [
            (*texts, str(owned)) for *texts, owned in map(_member_row, self.members[:MOST_ROWS])
        ]
        lines = [self._title()]
        if rows:
            lines.append(text_table([_MEMBER_COLUMNS, *rows], left_columns=4))
        return "\n".join([*lines, *self._more()])

    _repr_pretty_ = pretty_print

    def _repr_html_(self) -> str:
        some = self.members[:MOST_ROWS]
        most = max((len(one.owned) for one in some), default=0)
        topics = {topic: i for i, topic in enumerate(dict.fromkeys(chain(*self.subscriptions)))}
        rows: list[tuple[str | int | Picture, ...]] = []
        for one in some:
            counts = Counter(topic for topic, _ in one.owned)
            parts = [(topics.get(topic, -1), size) for topic, size in counts.items()]
            rows.append((*_member_row(one), draw_bar(parts, most)))
        return html_table(self._title(), (*_MEMBER_COLUMNS, "by topic"), rows, self._more())

    def _title(self) -> str:
        return f"Group: {len(self):,} member{'' if len(self) == 1 else 's'}"

    def _more(self) -> list[str]:
        more = len(self) - MOST_ROWS
        return [f"... and {more:,} more members"] if more > 0 else []

    @property
    def position(self) -> dict[str, int]:
        """Position of each group member in join order, by member id, such as ``{"c1": 0}``.

        Arrays refer to a member by this position.
        """
        return self.orders.position

    @property
    def members_in_map_order(self) -> list[int]:
        """Positions of the group's members in the order in which Kafka's assignors iterate over
        them.

        It is the iteration order of a Java ``HashMap`` that is filled in join order.
        """
        return self.orders.members_in_map_order

    @property
    def members_in_refilled_map_order(self) -> list[int]:
        """Positions of the group's members in the iteration order of a copied Java ``HashMap``.

        Some of Kafka's assignors copy the map of members. Iteration may differ from
        `members_in_map_order`, because keys in one hash bucket can change places.
        """
        return self.orders.members_in_refilled_map_order

    @property
    def id_hashes(self) -> list[int]:
        """Java's ``String.hashCode`` of each member id, in join order.

        It determines the order in which Kafka's assignors iterate over members.
        """
        return self.orders.hashes

    @property
    def by_map_order(self) -> Int32Array:
        """Positions of the members in the order in which Kafka's assignors iterate (int32[M]).

        It is the list `members_in_map_order` as an array.
        """
        return self.orders.by_map_order

    @property
    def by_refilled_map_order(self) -> Int32Array:
        """Positions of the members in the iteration order of a copied Java map (int32[M]).

        It is the list `members_in_refilled_map_order` as an array.
        """
        return self.orders.by_refilled_map_order

    @cached_property
    def has_racks(self) -> bool:
        """True if any consumer of the group has a rack (``client.rack``) that is not empty.

        Otherwise assignors can skip their rack rules.
        """
        return any(map(_rack_of, self.members))

    @cached_property
    def has_claims(self) -> bool:
        """True if any consumer reports a partition as owned when it joins the group.

        It is False if all consumers are new, or if they revoke everything before they join.
        """
        return any(len(m.owned.partition) for m in self.members)

    @cached_property
    def reports_claims(self) -> bool:
        """True if any member reports an owned partition or a generation, or sends user data.

        Otherwise the group is new, and sticky assignors need not look for previous owners.
        """
        return self.has_claims or any(
            m.generation >= 0 or m.user_data is not None for m in self.members
        )

    @cached_property
    def has_static_members(self) -> bool:
        """True if any member of the consumer group has an instance id (``group.instance.id``).

        Kafka's assignors sort static members before all others.
        """
        return any(m.instance_id is not None for m in self.members)

    @cached_property
    def has_weights_or_capacities(self) -> bool:
        """True if any group member has a capacity, or a weight other than 1.

        A weight is the member's share of the load, relative to other members. Otherwise assignors
        can balance partition counts.
        """
        return any(m.weight != _ORDINARY or m.capacity is not None for m in self.members)

    @cached_property
    def user_data_size(self) -> int:
        """Total size in bytes of the user data that all group members sent when they joined.

        Assignors estimate the work of decoding from it.
        """
        return sum([len(m.user_data) for m in self.members if m.user_data])

    @cached_property
    def members_by_instance(self) -> Int32Array:
        """Positions of the group's members in the sort order of Kafka's ``MemberInfo`` (int32[M]).

        Static members come first, by instance id, then the others by member id. The range and
        round-robin assignors use this order.
        """
        # Ids are compared as Java strings. Members with equal instance ids (one of them is fenced)
        # keep the order of `members_in_map_order`.
        if not self.has_static_members:
            return self.members_by_rank
        instances = [m.instance_id for m in self.members]
        named = sorted({i for i in instances if i is not None})
        rank = dict(zip(named, java_rank(named).tolist(), strict=True))
        static = np.array([i is not None for i in instances])
        by_instance = [rank[i] if i is not None else 0 for i in instances]
        key = np.where(static, by_instance, self.member_rank)
        place = np.zeros(len(self), np.int32)
        if len(named) < int(static.sum()):
            place[self.members_in_map_order] = np.arange(len(self), dtype=np.int32)
        return np.lexsort((place, key, ~static)).astype(np.int32)

    @cached_property
    def claimed(self) -> ClaimRows:
        """Owned partitions that all consumers of the group report, as flat arrays (`ClaimRows`).

        The value is computed once and then cached.
        """
        return ClaimRows.from_members([m.owned for m in self.members])

    @property
    def member_rank(self) -> Int32Array:
        """Rank of each group member by member id, in Java's order of strings (int32[M]).

        For example, members "b" and "a" have the ranks 1 and 0.
        """
        return self.orders.rank

    @property
    def members_by_rank(self) -> Int32Array:
        """Positions of the group's members, sorted by member id in Java's order of strings
        (int32[M]).

        Java compares strings by UTF-16 units, which differs from Python's order for rare
        characters.
        """
        return self.orders.by_rank


class _MemberOrders:
    """Cached sort orders of a consumer group's members, such as Java's hash order.

    They only depend on member ids and join order. Copies of a group whose members rejoin with other
    owned partitions share them.
    """

    def __init__(self, ids: tuple[str, ...]) -> None:
        self._ids = ids

    @cached_property
    def position(self) -> dict[str, int]:
        return {member_id: i for i, member_id in enumerate(self._ids)}

    @cached_property
    def hashes(self) -> list[int]:
        return string_hashes(self._ids)

    @cached_property
    def members_in_map_order(self) -> list[int]:
        return hash_order(self.hashes, rank=lambda: string_ranks(self._ids))

    @cached_property
    def by_map_order(self) -> Int32Array:
        return np.array(self.members_in_map_order, np.int32)

    @cached_property
    def members_in_refilled_map_order(self) -> list[int]:
        if len(self._ids) >= _MIN_REGULAR_KEYS and not self._may_have_trees():
            return self.members_in_map_order
        order = names_in_map_order([self._ids[m] for m in self.members_in_map_order])
        return [self.members_in_map_order[i] for i in order]

    @cached_property
    def by_refilled_map_order(self) -> Int32Array:
        return np.array(self.members_in_refilled_map_order, np.int32)

    def _may_have_trees(self) -> bool:
        # The iteration order of a bucket that has become a tree depends on the order of insertions,
        # so a copy of the map may differ.
        hashes = np.array(self.hashes, np.int64) & 0xFFFFFFFF
        return may_have_trees(hashes ^ (hashes >> 16), DEFAULT_TABLE)

    @cached_property
    def rank(self) -> Int32Array:
        return java_rank(self._ids)

    @cached_property
    def by_rank(self) -> Int32Array:
        return np.argsort(self.rank).astype(np.int32)


def _refuse_others(members: tuple[object, ...]) -> None:
    for i, member in enumerate(members):
        if not isinstance(member, Member):
            raise InvalidProblemError("must be a Member", path=f"members[{i}]", value=member)


def _refuse_twice(ids: tuple[str, ...]) -> None:
    known: set[str] = set()
    for i, member_id in enumerate(ids):
        if member_id in known:
            what = "member id is used twice"
            raise InvalidProblemError(what, path=f"members[{i}].id", value=member_id)
        known.add(member_id)


def _group_from_members(members: object) -> Group:
    return Group(
        _member(value, f"members[{i}]")
        for i, value in enumerate(expect_list(members, "members", "a list of members"))
    )


def _member(value: object, path: str) -> Member:
    if not isinstance(value, Mapping):
        raise InvalidProblemError("must be an object", path=path, value=value)
    for name in value:
        if name not in _MEMBER_FIELDS:
            what = f"unknown field; known: {', '.join(_MEMBER_FIELDS)}"
            raise InvalidProblemError(what, path=f"{path}.{name}", value=value[name])
    if "id" not in value:
        raise InvalidProblemError("is missing", path=f"{path}.id", value=None)
    expect_text(value["id"], f"{path}.id")
    topics = expect_list(value.get("topics", []), f"{path}.topics", "a list of names")
    for i, topic in enumerate(topics):
        expect_text(topic, f"{path}.topics[{i}]")
    generation = value.get("generation", -1)
    if generation is not None and (isinstance(generation, bool) or not isinstance(generation, int)):
        raise InvalidProblemError("must be an int32", path=f"{path}.generation", value=generation)
    try:
        return Member(
            value["id"],
            topics,
            rack=value.get("rack"),
            instance_id=value.get("instance"),
            owned=value.get("owned") or _owned_default(value, path),
            generation=-1 if generation is None else generation,
            user_data=_bytes(value.get("userData"), f"{path}.userData"),
            weight=value.get("weight", 1.0),
            capacity=value.get("capacity"),
            strategies=() if value.get("strategies") is None else value["strategies"],
            config={} if value.get("config") is None else value["config"],
        )
    except InvalidProblemError as e:
        # Errors of Member have the member id; in a file the position is easier to find.
        inside = e.path.removeprefix(f"members.{value['id']}").removeprefix(path)
        raise InvalidProblemError(e.what, path=f"{path}{inside}", value=e.value) from None


def _owned_default(value: Mapping[str, Any], path: str) -> object:
    owned = value.get("owned", [])
    if owned is not None and not isinstance(owned, (list, Mapping)):
        raise InvalidProblemError("must be a list of pairs", path=f"{path}.owned", value=owned)
    return ()


def _bytes(value: object, path: str) -> bytes | None:
    if value is None:
        return None
    try:
        return base64.b64decode(expect_text(value, path), validate=True)
    except (binascii.Error, ValueError) as e:
        raise InvalidProblemError(f"must be base64 ({e})", path=path, value=value) from None
