"""Assignments of partitions to members: any relation (`Assignment`), or one owner each (`Plan`)."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError, PlanInvariantError
from partage.kernels import kernel
from partage.model.certificate import DeferredCertificate
from partage.model.claims import Claims
from partage.model.display import MOST_ROWS, Picture, draw_bar, html_table, pretty_print
from partage.model.index import Index, Int32Array
from partage.model.repeated_state import EndlessLoop
from partage.model.validation import escape_control_characters, expect_kind

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Assignment", "Plan", "Role", "Unresolved", "format_runs"]


class Role(IntEnum):
    """Role of a group member for an assigned partition or Kafka Streams task.

    A consumer is the OWNER of its partitions. RELEASING means that it must revoke a partition
    before another member gets it. A Streams client has ACTIVE, STANDBY and WARM_UP tasks.
    """

    OWNER = 0
    RELEASING = 1
    ACTIVE = 2
    STANDBY = 3
    WARM_UP = 4


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Partition that a recorded assignment contains but the cluster does not have.

    For example, its topic has been deleted since.

    Attributes:
        member: id of the member to which the partition is assigned.
        topic: name of the topic.
        partition: Kafka's partition number.
        place: position in the member's list of assigned partitions, from 0; -1 for the end.
    """

    member: str
    topic: str
    partition: int
    place: int = field(default=-1, compare=False)


@dataclass(frozen=True, eq=False, repr=False)
class Assignment:
    """Partitions assigned to each member of a consumer group, in the order of the assignment.

    Recorded assignments are of this class, too. They may break rules, for example give a partition
    several owners; `judge.check` reports that.

    Attributes:
        index: the numbering of topics and partitions by integers (`Index`).
        members: member ids; a member without partitions has an empty entry.
        start: int32[M + 1], where each member's partitions begin in ``partition`` (CSR).
        partition: int32[n], assigned partitions by their numbers in the index.
        role: int8[n], role of the member for each entry, see `Role`.
        unresolved: assigned partitions that the cluster does not have.
        warnings: messages for the operator.

    >>> index = Index.of({"t": 3})
    >>> got = Assignment.of(index, {"c1": [("t", 2), ("t", 0)], "c2": {}})
    >>> got.partition.tolist(), got.to_dict()
    ([2, 0], {'c1': {'t': [2, 0]}, 'c2': {}})
    """

    index: Index
    members: tuple[str, ...]
    start: Int32Array
    partition: Int32Array
    role: NDArray[np.int8]
    unresolved: tuple[Unresolved, ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self._counts())}>"

    def __str__(self) -> str:
        """Return a text with one line for each group member and its partitions.

        Long lists of members and partitions are shortened.
        """
        numbers = self.to_dict() if len(self.members) <= MOST_ROWS else self._head().to_dict()
        lines = [f"{type(self).__name__}: {', '.join(self._counts())}"]
        for member, topics in numbers.items():
            which = "; ".join(
                f"{topic} {format_runs(of, _MOST_RUNS)}" for topic, of in topics.items()
            )
            lines.append(f"  {member}: {which or '(no partitions)'}")
        if len(self.members) > len(numbers):
            lines.append(f"  ... and {len(self.members) - len(numbers)} more members")
        return "\n".join(escape_control_characters(line) for line in (*lines, *self._remarks()))

    _repr_pretty_ = pretty_print

    def _repr_html_(self) -> str:
        numbers = self._head().to_dict() if len(self.members) > MOST_ROWS else self.to_dict()
        most = int(np.diff(self.start).max(initial=0))
        rows: list[tuple[str | int | Picture, ...]] = []
        for member, topics in numbers.items():
            sizes = [(self.index.topic(topic), len(of)) for topic, of in topics.items()]
            lists = "; ".join(f"{t} {format_runs(of, _MOST_RUNS)}" for t, of in topics.items())
            rows.append((member, sum(n for _, n in sizes), draw_bar(sizes, most), lists))
        notes = [line.strip() for line in self._remarks()]
        if len(self.members) > len(numbers):
            notes.insert(0, f"and {len(self.members) - len(numbers):,} more members")
        title = f"{type(self).__name__}: {', '.join(self._counts())}"
        return html_table(title, ("member", "partitions", "by topic", "assigned"), rows, notes)

    def _counts(self) -> list[str]:
        # For example "2 members".
        counts = [
            _format_count(len(self.members), "member"),
            _format_count(len(self.partition), "partition"),
        ]
        return [*counts, _format_count(len(self.warnings), "warning")] if self.warnings else counts

    def _remarks(self) -> list[str]:
        # Partitions that the index does not have, then warnings.
        missing = [
            f"  not in the cluster: {one.topic}-{one.partition} of {one.member}"
            for one in self.unresolved[:MOST_ROWS]
        ]
        return [*missing, *(f"  warning: {one}" for one in self.warnings)]

    def with_warnings(self, warnings: Sequence[str]) -> Self:
        """Return a copy of the assignment with more warnings for the operator.

        The given warnings come before the present ones, and duplicates are dropped.
        """
        every = tuple(dict.fromkeys((*warnings, *self.warnings)))
        return self if every == self.warnings else self._replaced(warnings=every)

    def _replaced(self, **changes: Any) -> Self:
        return replace(self, **changes)

    def _head(self) -> Assignment:
        # Printed assignments are shortened to their first members.
        first = range(MOST_ROWS)
        lists = [self.partitions_of(member) for member in first]
        part: Assignment = Assignment.from_lists(self.index, self.members[:MOST_ROWS], lists)
        return part

    @classmethod
    def of(
        cls,
        index: Index,
        owned: Mapping[str, object],
        topic_number: Mapping[str, int] | None = None,
        **more: Any,
    ) -> Any:
        """Build an assignment from a dict that lists each consumer's partitions.

        Partitions that the index does not have are stored in ``unresolved``.

        Args:
            index: the numbering of topics and partitions.
            owned: partitions by member id, as (topic, partition) pairs or as a dict from topic to
                partition numbers.
            topic_number: the index number for each topic name; by default, if a topic was deleted
                and recreated, the newer one counts.
            more: values of other fields of the class, such as ``warnings``.

        Raises:
            InvalidProblemError: an argument has another type.
        """
        expect_kind(index, Index, "index")
        if not isinstance(owned, Mapping):
            raise InvalidProblemError("must be a mapping: member -> partitions", path="owned",
                                      value=owned)  # fmt: skip
        lists: list[Int32Array] = []
        unresolved: list[Unresolved] = []
        for member, value in owned.items():
            claims = Claims.from_owned(value, f"assignment.{member}")
            names = claims.topics
            of = index.topic if topic_number is None else lambda n: topic_number.get(n, -1)
            numbers = np.array([of(n) for n in names], np.int32)
            topic = numbers[claims.topic_ix] if len(claims) else claims.topic_ix
            dense = index.locate_all(topic, claims.partition)
            for i in np.flatnonzero(dense < 0).tolist():
                missing = Unresolved(member, names[claims.topic_ix[i]], int(claims.partition[i]), i)
                unresolved.append(missing)
            lists.append(dense[dense >= 0])
        return cls.from_lists(index, tuple(owned), lists, unresolved=tuple(unresolved), **more)

    @classmethod
    def from_lists(
        cls,
        index: Index,
        members: Sequence[str],
        lists: Sequence[Int32Array] | Sequence[list[int]],
        **more: Any,
    ) -> Any:
        """Build an assignment from one list of partitions for each consumer.

        Partitions are given by their numbers in the index; `Assignment.of` takes topic names
        instead.

        Args:
            index: the numbering of topics and partitions.
            members: member ids.
            lists: each member's partitions, by their numbers in ``index``.
            more: values of other fields of the class, such as ``warnings``.

        Raises:
            InvalidProblemError: ``members`` is a string.
        """
        if isinstance(members, (str, bytes)):
            what = "must be a list of member ids"
            raise InvalidProblemError(what, path="assignment.members", value=members)
        sizes = np.array([len(x) for x in lists], np.int32)
        start = np.zeros(len(lists) + 1, np.int32)
        sizes.cumsum(out=start[1:])
        parts = [np.asarray(x, np.int32) for x in lists if len(x)]
        partition = np.concatenate(parts) if parts else np.zeros(0, np.int32)
        role = np.zeros(len(partition), np.int8)
        return cls(index, tuple(members), start, partition.astype(np.int32), role, **more)

    @cached_property
    def member_of(self) -> Int32Array:
        """Owner of each assigned partition, as a position in ``members`` (int32[n]).

        For example, ``[0, 0, 1]`` means that the first member has the first two entries of
        ``partition``.
        """
        counts = self.start[1:] - self.start[:-1]
        return np.arange(len(counts), dtype=np.int32).repeat(counts)

    def partitions_of(self, member: int) -> Int32Array:
        """Return the partitions assigned to one consumer, in the order of the assignment.

        They are the partitions' index numbers (int32[n]); `to_pairs` returns topic names instead.

        Args:
            member: the consumer's position in ``members``.
        """
        return self.partition[self.start[member] : self.start[member + 1]]

    @cached_property
    def lists(self) -> list[Int32Array]:
        """Partitions assigned to each member: one int32 array for each entry of ``members``.

        The partitions are numbers of the index, in the order of the assignment.
        """
        return [self.partition[a:b] for a, b in pairwise(self.start.tolist())]

    def part_of(self, member: int) -> Assignment:
        """Return a copy of the assignment that contains only one consumer and its partitions.

        ``member`` is the consumer's position in ``members``.

        >>> Plan.of(Index.of({"t": 2}), {"a": {"t": [0]}, "b": {"t": [1]}}).part_of(1).to_dict()
        {'b': {'t': [1]}}
        """
        first, end = int(self.start[member]), int(self.start[member + 1])
        start = np.array([0, end - first], np.int32)
        name = (self.members[member],)
        return Assignment(self.index, name, start, self.partition[first:end], self.role[first:end])

    def to_pairs(self) -> dict[str, list[tuple[str, int]]]:
        """Return each member's partitions as (topic, partition) pairs, by member id.

        For example, ``{"c1": [("orders", 0), ("orders", 2)], "c2": []}``. The pairs are in the
        order of the assignment.
        """
        topics = self.index.topics
        topic = self.index.topic_of[self.partition].tolist()
        number = self.index.number_of[self.partition].tolist()
        start = self.start.tolist()
        with _garbage_collection_off():
            named = list(zip(map(topics.__getitem__, topic), number, strict=True))
            return {m: named[a:b] for m, (a, b) in zip(self.members, pairwise(start), strict=True)}

    def to_dict(self) -> dict[str, dict[str, list[int]]]:
        """Return each member's partitions by topic, such as ``{"c1": {"orders": [0, 1]}, "c2":
        {}}``.

        Members without partitions are included.
        """
        topic = self.index.topic_of[self.partition]
        # Work by runs of one member and topic: fewer steps than one per partition.
        first = np.ones(len(topic) + 1, bool)
        first[1:-1] = topic[1:] != topic[:-1]
        first[self.start] = True
        at = np.flatnonzero(first)
        with _garbage_collection_off():
            named = list(map(self.index.topics.__getitem__, topic[at[:-1]].tolist()))
            lists = _cut(self.index.number_of[self.partition], at)
            out: dict[str, dict[str, list[int]]] = {}
            run = np.searchsorted(at, self.start).tolist()
            for member, (a, b) in zip(self.members, pairwise(run), strict=True):
                topics = dict(zip(named[a:b], lists[a:b], strict=True))
                out[member] = topics if len(topics) == b - a else _merged(named[a:b], lists[a:b])
        return out

    def to_json(self) -> dict[str, list[list[object]]]:
        """Return each member's partitions as ``[topic, partition]`` lists, for a JSON document.

        For example, ``{"c1": [["orders", 0], ["orders", 2]], "c2": []}``.
        """
        return {m: [[t, p] for t, p in pairs] for m, pairs in self.to_pairs().items()}


#: Runs of partition numbers of a topic that a printed assignment shows.
_MOST_RUNS = 24


def _format_count(number: int, noun: str) -> str:
    """Format a number with its noun in singular or plural, for example "1 member" or "2 members".

    Thousands are separated by commas.

    >>> _format_count(1, "member"), _format_count(0, "member")
    ('1 member', '0 members')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_runs(numbers: Sequence[int], max_ranges: int | None = None) -> str:
    """Format partition numbers as text, with ranges for consecutive numbers.

    For example, 0, 1, 2, 5, 4 become "0-2 5 4".

    Args:
        numbers: the partition numbers, in the order of the text.
        max_ranges: greatest number of ranges and single numbers to print; None prints all.

    >>> format_runs([0, 1, 2, 5, 4])
    '0-2 5 4'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in runs[:max_ranges]]
    return " ".join([*shown, "..."] if len(shown) < len(runs) else shown)


def _cut(values: Int32Array, at: NDArray[np.intp]) -> list[list[int]]:
    sizes = np.diff(at)
    if len(sizes) and int(sizes.min()) == int(sizes.max()):
        equal: list[list[int]] = values.reshape(-1, int(sizes[0])).tolist()
        return equal
    numbers = values.tolist()
    return [numbers[a:b] for a, b in pairwise(at.tolist())]


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    # Its repeated passes over many small lists took three quarters of the time; lists of numbers
    # form no cycles.
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _merged(names: list[str], lists: list[list[int]]) -> dict[str, list[int]]:
    # A topic may have several of the lists.
    out: dict[str, list[int]] = {}
    for name, numbers in zip(names, lists, strict=True):
        out.setdefault(name, []).extend(numbers)
    return out


#: An array without items can be shared.
_NONE = np.zeros(0, np.int32)


def _none() -> Int32Array:
    return _NONE


@kernel("int64(int32[::1], int32[::1], int32[::1])")
def fill_owners(start: Int32Array, partition: Int32Array, owner: Int32Array) -> int:
    """Write the owner of each partition to an array, and count the owned partitions.

    The input has each member's partitions one after the other; the output can be looked up by
    partition. If a partition has two owners, the later one counts.

    Args:
        start: int32[M + 1], where each member's partitions begin in ``partition`` (CSR).
        partition: int32[n], the partitions.
        owner: int32[P], output: positions of the members, -1 for none.

    Returns:
        The number of distinct partitions; -1 if an offset or a partition is out of range.
    """
    owned = 0
    if len(start) == 0 or start[0] != 0 or start[len(start) - 1] != len(partition):
        return -1
    for p in range(len(owner)):
        owner[p] = -1
    for m in range(len(start) - 1):
        if start[m + 1] < start[m]:
            return -1
        for i in range(start[m], start[m + 1]):
            p = partition[i]
            if p < 0 or p >= len(owner):
                return -1
            if owner[p] < 0:
                owned += 1
            owner[p] = m
    return owned


class _CertificateField:
    """Descriptor of `Plan.certificate`, which computes the certificate of optimality when it is
    read.

    The computed `Certificate` then replaces the `DeferredCertificate`.
    """

    def __get__(self, plan: Plan | None, kind: type | None = None) -> object:
        if plan is None:
            return None  # the default value of the field, see "descriptor-typed fields"
        found: object = plan.__dict__["certificate"]
        if isinstance(found, DeferredCertificate):
            found = plan.__dict__["certificate"] = found.compute()
        return found

    def __set__(self, plan: Plan, value: object) -> None:
        plan.__dict__["certificate"] = value


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Assignment):
    """Result of an assignment strategy: an assignment with at most one owner for each partition.

    In a cooperative rebalance, partitions that move have no owner in the first plan.

    Attributes:
        memory: the strategy's state for the next rebalance (opaque, may be None).
        user_data: bytes by member that the leader sends with the assignment.
        withheld: int32[k], partitions that their owner must revoke first (KIP-429): they have no
            owner in this plan, a follow-up rebalance assigns them.
        destined: int32[k], the member that gets each withheld partition in the follow-up.
        certificate: the strategy's claim about the settled plan (`model.Certificate`) or None.
        loop: the endless loop in which the imitated class never returns on this problem, or None;
            the plan is then the best one that the loop reached.

    Raises:
        PlanInvariantError: a partition has two owners.

    >>> plan = Plan.of(Index.of({"t": 3}), {"c1": {"t": [0]}, "c2": {"t": [2]}})
    >>> plan.owner.tolist(), plan
    ([0, -1, 1], <Plan: 2 members, 2 partitions>)
    >>> print(plan)
    Plan: 2 members, 2 partitions
      c1: t 0
      c2: t 2
    """

    memory: object = None
    user_data: Mapping[str, bytes] = field(default_factory=dict)
    withheld: Int32Array = field(default_factory=_none)
    destined: Int32Array = field(default_factory=_none)
    certificate: object = _CertificateField()
    loop: EndlessLoop | None = None

    def __post_init__(self) -> None:
        # A partition with two owners counts once. The array is needed later anyway.
        owner, owned = self._find_owners()
        self.__dict__["owner"] = owner
        if owned < len(self.partition):
            twice = np.flatnonzero(np.bincount(self.partition) > 1).tolist()
            raise PlanInvariantError([_twice(self.index.name(p)) for p in twice])

    def _counts(self) -> list[str]:
        counts = super()._counts()
        if len(self.withheld):
            counts.insert(2, f"{_format_count(len(self.withheld), 'partition')} withheld")
        return counts

    def _remarks(self) -> list[str]:
        names = [self.index.name(p) for p in self.withheld[:MOST_ROWS].tolist()]
        withheld = [
            f"  withheld until the next rebalance: {topic}-{number}, then to {self.members[to]}"
            for (topic, number), to in zip(names, self.destined.tolist(), strict=False)
        ]
        return [*withheld, *super()._remarks()]

    @cached_property
    def owner(self) -> Int32Array:
        """Owner of each partition of the index, as a position in ``members`` (int32[P]).

        The value is -1 for a partition without owner.
        """
        return self._find_owners()[0]

    def _find_owners(self) -> tuple[Int32Array, int]:
        # The owner of each partition, and the number of owned partitions.
        start, partition = self.start, self.partition
        owner = np.empty(self.index.partitions, np.int32)
        if fill_owners.is_compiled and _is_int32_row(start) and _is_int32_row(partition):
            owned = fill_owners(start, partition, owner, work=len(partition))
            if owned >= 0:
                return owner, owned
        owner.fill(-1)
        owner[partition] = self.member_of
        return owner, int(np.count_nonzero(owner >= 0))

    def _replaced(self, **changes: Any) -> Self:
        # Copies share a certificate that is not computed yet.
        return replace(self, **{"certificate": self.__dict__["certificate"], **changes})

    def settled(self) -> Plan:
        """Return the final assignment, after consumers have revoked all partitions that move.

        In a cooperative rebalance (KIP-429), a moving partition has no owner until its old owner
        has revoked it. A follow-up rebalance then assigns it to its new owner.

        >>> index = Index.of({"t": 2})
        >>> now = Plan.of(index, {"a": {"t": [0]}, "b": {}}, withheld=np.array([1], np.int32),
        ...               destined=np.array([1], np.int32))
        >>> now.to_dict(), now.settled().to_dict()
        ({'a': {'t': [0]}, 'b': {}}, {'a': {'t': [0]}, 'b': {'t': [1]}})
        """
        if not len(self.withheld):
            return self
        # Kafka's map of transfers may contain a partition that its owner keeps (Q4).
        order = self.withheld.argsort(kind="stable")
        free = self.withheld[order]
        is_first = np.ones(len(free), bool)
        is_first[1:] = free[1:] != free[:-1]
        transferred = order[is_first & (self.owner[free] < 0)]
        member = np.concatenate((self.member_of, self.destined[transferred]))
        order = np.argsort(member, kind="stable")
        partition = np.concatenate((self.partition, self.withheld[transferred]))[order]
        role = np.concatenate((self.role, np.full(len(transferred), Role.OWNER, np.int8)))[order]
        start = np.searchsorted(member[order], np.arange(len(self.members) + 1)).astype(np.int32)
        return self._replaced(
            start=start, partition=partition, role=role, withheld=_none(), destined=_none()
        )

    def assign_revoked(self, revoked: AbstractSet[tuple[str, int]]) -> Plan:
        """Return a copy of the plan in which revoked partitions belong to their new owners.

        A cooperative plan (KIP-429) leaves a moving partition without owner until its old owner has
        revoked it.

        Args:
            revoked: (topic, partition) pairs that no consumer owns any more.

        >>> now = Plan.of(Index.of({"t": 2}), {"a": {"t": [0]}, "b": {}},
        ...               withheld=np.array([1], np.int32), destined=np.array([1], np.int32))
        >>> now.assign_revoked({("t", 1)}).to_dict(), now.assign_revoked(set()).to_dict()
        ({'a': {'t': [0]}, 'b': {'t': [1]}}, {'a': {'t': [0]}, 'b': {}})
        """
        # An owner that joined under the EAGER protocol has already revoked its partitions.
        free = np.array([self.index.name(p) in revoked for p in self.withheld.tolist()], bool)
        if not free.any():
            return self
        waiting = {"withheld": self.withheld[~free], "destined": self.destined[~free]}
        now = self._replaced(withheld=self.withheld[free], destined=self.destined[free]).settled()
        return now._replaced(**waiting)  # noqa: SLF001 - another plan of this class

    @classmethod
    def from_owner(
        cls, index: Index, members: Sequence[str], owner: Int32Array, **more: Any
    ) -> Plan:
        """Build a plan from an array with the owner of each partition.

        Each member's partitions are in the order of the index.

        Args:
            index: the numbering of topics and partitions.
            members: member ids.
            owner: int32[P], the position in ``members`` of each partition's owner, -1 for none.
            more: values of other fields, such as ``warnings``.
        """
        # Each member's partitions are in the order of the index.
        given = np.flatnonzero(owner >= 0).astype(np.int32)
        order = given[np.argsort(owner[given], kind="stable")]
        start = np.searchsorted(owner[order], np.arange(len(members) + 1)).astype(np.int32)
        role = np.zeros(len(order), np.int8)
        return cls(index, tuple(members), start, order, role, **more)


def _is_int32_row(values: Int32Array) -> bool:
    """Return whether an array can be passed to functions that Numba has compiled for int32 arrays.

    They need a one-dimensional, contiguous and writeable int32 array.
    """
    flags = values.flags
    return values.dtype == np.int32 and flags.c_contiguous and values.ndim == 1 and flags.writeable


def _twice(name: tuple[str, int]) -> str:
    return f"{name[0]}-{name[1]} is owned twice"
