"""Owners of partitions at one instant, from table ``ownership``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from partage.errors import InvalidCaptureError
from partage.runs.published_run import PublishedRun

__all__ = [
    "HistoryGap",
    "Holding",
    "Owner",
    "format_number_ranges",
    "gaps_at",
    "group_by_member",
    "owners_at",
]

_COLUMNS = [
    "group", "topic", "partition", "member", "instance", "role", "from_ms", "to_ms",
    "from_generation",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of one partition at one point in time, with its ownership interval and client.

    Partitions of share groups have several owners at the same time.
    """

    group: str
    topic: str
    partition: int
    member: str
    instance: str | None
    role: str
    from_ms: int
    to_ms: int | None
    from_generation: int
    client_id: str | None = None
    client_host: str | None = None

    @property
    def stable_identity(self) -> str:
        """The owner's identity across restarts: the instance id of a static member, else the member
        id.
        """
        return self.member if self.instance is None else self.instance


@dataclass(frozen=True, slots=True)
class Holding:
    """Partitions of one topic that a group member owned at one point in time.

    ``since_ms`` and ``generation`` say when the member got the newest of these partitions.
    """

    group: str
    topic: str
    member: str
    instance: str | None
    role: str
    partitions: tuple[int, ...]
    since_ms: int
    generation: int
    client_id: str | None = None
    client_host: str | None = None

    @property
    def member_label(self) -> str:
        """A readable name of the member, such as ``orders-1 /10.0.0.7 (orders-1-c0ffee)``.

        It has the instance id or client id, the host, and the member id. Member ids of Java clients
        begin with the client id, which is then not repeated.
        """
        name = self.instance or self.client_id
        if name is None:
            return self.member
        host = f" {self.client_host}" if self.client_host else ""
        if self.instance is None and self.member.startswith(name):
            return f"{self.member}{host}"
        return f"{name}{host} ({self.member})"


@dataclass(frozen=True, slots=True)
class HistoryGap:
    """Gap in a consumer group's recorded history, in which the owners of its partitions are
    unknown.

    The log lacks the generations of this time, for example because of compaction. ``from_ms`` and
    ``from_generation`` are None if the gap is before the group's first record.
    """

    group: str
    generations: int
    from_ms: int | None
    from_generation: int | None
    to_ms: int
    to_generation: int


def gaps_at(
    run: PublishedRun, time_ms: int, *, groups: Collection[str] | None = None
) -> list[HistoryGap]:
    """Return the gaps in consumer groups' histories that contain a point in time (ms since 1970).

    The owners of a group's partitions are unknown during a gap. ``groups`` limits the result to
    some groups.

    Raises:
        InvalidCaptureError: the table cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    columns = ["group", "incarnation", "generation", "time_ms", "gap_before", "log_partition",
               "log_offset"]  # fmt: skip
    rows = _read_rows(run, "rebalances", columns)
    rows.sort(key=lambda r: (r["group"], r["log_partition"], r["log_offset"]))
    found: list[HistoryGap] = []
    before: dict[str, Any] | None = None
    for row in rows:
        if before is not None and before["group"] != row["group"]:
            before = None
        begins = None if before is None else before["time_ms"]
        within = (begins is None or begins <= time_ms) and time_ms < row["time_ms"]
        if within and row["gap_before"] and (groups is None or row["group"] in groups):
            known = None if before is None else before["generation"]
            ends = row["time_ms"], row["generation"]
            found.append(HistoryGap(row["group"], row["gap_before"], begins, known, *ends))
        before = row
    return found


def owners_at(
    run: PublishedRun,
    time_ms: int,
    *,
    topic: str | None = None,
    groups: Collection[str] | None = None,
) -> list[Owner]:
    """Return the owners of each partition at a point in time, sorted by group, topic and partition.

    ``time_ms`` is in milliseconds since 1970. At the time of a rebalance, the new owner is
    returned: an ownership interval includes its start and excludes its end. ``topic`` and
    ``groups`` limit the result.

    Raises:
        InvalidCaptureError: the table cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    try:
        from pyarrow import compute as pc
    except ImportError:
        from partage.errors import MissingExtraError

        raise MissingExtraError("pyarrow", extra="report") from None
    matching = (pc.field("from_ms") <= time_ms) & (
        pc.field("to_ms").is_null() | (pc.field("to_ms") > time_ms)
    )
    if topic is not None:
        matching &= pc.field("topic") == topic
    if groups is not None:
        matching &= pc.field("group").isin(list(groups))
    rows = _read_rows(run, "ownership", _COLUMNS, row_filter=matching)
    rows.sort(key=lambda r: (r["group"], r["topic"], r["partition"], r["role"], r["member"]))
    clients = _look_up_clients(run, {row["member"] for row in rows})
    return [Owner(**row, **clients.get((row["group"], row["member"]), {})) for row in rows]


def _look_up_clients(run: PublishedRun, members: set[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """Look up the client id and the host of group members in the tables of a run.

    The result is a dict from (group, member id) to a dict with ``client_id`` and ``client_host``.
    """
    from pyarrow import compute as pc

    if not members:
        return {}
    listed = pc.field("member").isin(list(members))
    columns = ["group", "member", "client_id", "client_host"]
    return {
        (row["group"], row["member"]): {n: row[n] for n in ("client_id", "client_host")}
        for row in _read_rows(run, "members", columns, row_filter=listed)
    }


#: Nullable columns, and columns with strings; the others have integers.
_NULLABLE = frozenset({"instance", "to_ms", "client_id", "client_host"})
_TEXTS = frozenset({"group", "topic", "member", "instance", "role", "client_id", "client_host"})


def _read_rows(
    run: PublishedRun, name: str, columns: Sequence[str], row_filter: Any = None
) -> list[dict[str, Any]]:
    """Read rows of a published table as dicts, and check that its columns have the expected types.

    ``row_filter`` is a filter expression of pyarrow; None reads all rows.

    Raises:
        InvalidCaptureError: a column is missing or has wrong values.
        MissingExtraError: pyarrow is not installed.
    """
    import pyarrow as pa

    table = run.table(name, columns, **({} if row_filter is None else {"where": row_filter}))
    for column in columns:
        what = None
        if column not in table.column_names:
            what = f"has no column {column}"
        elif column not in _NULLABLE and table[column].null_count:
            what = f"has nulls in column {column}"
        else:
            fits = pa.types.is_string if column in _TEXTS else pa.types.is_integer
            kind = table[column].type
            if not fits(kind) and not pa.types.is_null(kind):
                what = f"has values of type {kind} in column {column}"
        if what is not None:
            message = f"{run.out}: table {name} {what}; run partage replay again"
            raise InvalidCaptureError(message)
    rows: list[dict[str, Any]] = table.select(list(columns)).to_pylist()
    return rows


def group_by_member(owners: Iterable[Owner]) -> Iterator[Holding]:
    """Group the owners of partitions by member and topic.

    Each result has the sorted partitions of one topic that a member owns, and the time at which it
    got the newest of them.
    """
    found: dict[tuple[str, str, str, str], list[Owner]] = {}
    for one in owners:
        found.setdefault((one.group, one.topic, one.stable_identity, one.role), []).append(one)
    for (group, topic, _, role), of in found.items():
        newest = max(of, key=lambda o: o.from_ms)
        yield Holding(
            group, topic, newest.member, newest.instance, role,
            tuple(sorted(o.partition for o in of)), newest.from_ms,
            max(o.from_generation for o in of), newest.client_id, newest.client_host,
        )  # fmt: skip


def format_number_ranges(numbers: Iterable[int]) -> str:
    """Format sorted numbers as text, with consecutive numbers as a range, such as ``0-3, 7``.

    >>> format_number_ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
