"""Preflight of a capture: what the account may read, and how much of the past the log still has.

`check_access` sends the requests that a capture sends and reads a few small parts of
``__consumer_offsets``. The log cleaner only removes records from the older part of a partition. A
binary search over offsets therefore finds the offset from which a partition has every record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from partage.capture.connection import ClusterConnection, PartitionRequest, error_name, error_reason
from partage.capture.groups import listed_group_ids, refused_group_ids
from partage.capture.live import OFFSETS_TOPIC
from partage.capture.unpacking import decompress_batch
from partage.errors import NotAuthorizedError, WireFormatError
from partage.model.display import html_table, pretty_print, text_table
from partage.wire.batches import Batch, batches_of, records_of
from partage.wire.group_log import decode_key

__all__ = [
    "DAY_SECONDS", "REFUSED", "AccessReport", "PartitionExtent", "Permission", "check_access",
    "format_utc",
]  # fmt: skip

#: Time that a capture should cover: rebalances of deployments and of scaling repeat daily.
DAY_SECONDS = 86_400.0
#: The result of an account that lacks a required permission.
REFUSED = "A capture is not possible: required permissions are missing."
#: Bytes of a partition that one step of the search reads, and that names are looked for in.
_WINDOW_BYTES, _SAMPLE_BYTES = 16 << 10, 64 << 10
_MOST_BYTES = 32 << 20
#: Largest distance of the sampled records from a partition's end, in offsets.
_SAMPLE_OFFSETS = 1_000
#: The search halves the range of offsets; more steps mean a log that changes meanwhile.
_MOST_STEPS = 64
#: Largest number of topics and of groups whose permissions are asked for by name.
_MOST_NAMES = 500
_UNKNOWN_TOPIC, _NOT_AUTHORIZED = 3, 29
_LOG = f"topic {OFFSETS_TOPIC}"
#: Settings of the topic that decide how long the log cleaner leaves records in place.
_COMPACTION = (
    "cleanup.policy", "min.compaction.lag.ms", "max.compaction.lag.ms", "segment.ms",
    "segment.bytes", "min.cleanable.dirty.ratio", "delete.retention.ms", "retention.ms",
)  # fmt: skip
_ACL_RESOURCES = {
    _LOG: f"--topic {OFFSETS_TOPIC}", "topics": "--topic '*'", "groups": "--group '*'",
    "cluster": "--cluster",
}  # fmt: skip


@dataclass(frozen=True)
class Permission:
    """Permission on a Kafka resource that Partage needs, and whether the account has it.

    The command ``partage capture --check`` lists it.

    Attributes:
        operation: Kafka's name of the operation, such as READ.
        resource: ``topic __consumer_offsets``, ``topics``, ``groups`` or ``cluster``.
        purpose: what needs the permission.
        required: whether `partage capture` fails without it.
        allowed: whether the account has it; None if the brokers do not show that.
        detail: numbers and names that the decision rests on; "" for none.
    """

    operation: str
    resource: str
    purpose: str
    required: bool
    allowed: bool | None
    detail: str = ""

    @property
    def acl_options(self) -> str:
        """Options of ``kafka-acls.sh --add`` that grant this permission to an account.

        The command ``partage capture --check`` prints them if the permission is missing.

        >>> Permission("DESCRIBE_CONFIGS", "cluster", "", False, False).acl_options
        '--operation DescribeConfigs --cluster'
        """
        operation = self.operation.title().replace("_", "")
        return f"--operation {operation} {_ACL_RESOURCES[self.resource]}"

    def to_dict(self) -> dict[str, Any]:
        """Return the permission on a Kafka resource as a dict for JSON.

        It includes the ACL options that grant the permission.
        """
        return {
            "operation": self.operation, "resource": self.resource, "purpose": self.purpose,
            "required": self.required, "allowed": self.allowed, "detail": self.detail or None,
            "acl": self.acl_options,
        }  # fmt: skip


@dataclass(frozen=True)
class PartitionExtent:
    """Range of offsets that one partition of ``__consumer_offsets`` still has.

    Compaction removes old records, which leaves gaps in the older part of the range.

    Attributes:
        partition: the partition's number.
        first_offset, first_ms: offset and time of the first batch; None if there is no record.
        complete_from: the offset after the last gap that compaction left; found by samples.
        complete_ms: time of the record at ``complete_from``; None if it has none.
        end: the offset after the last record, which is the number of records ever written.
    """

    partition: int
    first_offset: int | None
    first_ms: int | None
    complete_from: int
    complete_ms: int | None
    end: int

    @property
    def complete_share(self) -> float:
        """Share of all records ever written to the partition that a recording can still get.

        They are the records after the last gap that compaction left.
        """
        return (self.end - self.complete_from) / self.end if self.end else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the partition's range of offsets and its times as a dict for JSON.

        It is part of the output of ``partage capture --check --json``.
        """
        return {
            "partition": self.partition, "first_offset": self.first_offset,
            "first_ms": self.first_ms, "complete_from": self.complete_from,
            "complete_ms": self.complete_ms, "end": self.end, "complete_share": self.complete_share,
        }  # fmt: skip


@dataclass(frozen=True)
class AccessReport:
    """Result of `check_access`: what an account may read of a Kafka cluster, and since when.

    The command ``partage capture --check`` prints it.

    Attributes:
        cluster_id: the cluster's id; None from brokers that send none.
        brokers, topics: how many of them the metadata shows.
        groups: how many groups the brokers list; None if they refuse.
        permissions: each permission that a command of Partage uses.
        partitions: partitions of ``__consumer_offsets``, in order; empty if they cannot be read.
        settings: compaction settings of the topic; empty without DESCRIBE_CONFIGS on it.
        warnings: partitions that could not be read, and why.
        now_ms: time of the check.
    """

    cluster_id: str | None
    brokers: int
    topics: int
    groups: int | None
    permissions: tuple[Permission, ...]
    partitions: tuple[PartitionExtent, ...]
    settings: Mapping[str, str]
    warnings: tuple[str, ...]
    now_ms: int

    @property
    def can_capture(self) -> bool:
        """True if the account has every permission that ``partage capture`` requires.

        A permission that the brokers do not report counts as present.
        """
        return not any(one.required and one.allowed is False for one in self.permissions)

    @property
    def missing_permissions(self) -> tuple[Permission, ...]:
        """Kafka permissions that the account lacks, including optional ones.

        Permissions that the brokers do not report are left out.
        """
        return tuple(one for one in self.permissions if one.allowed is False)

    @property
    def complete_share(self) -> float | None:
        """Share of all records ever written to ``__consumer_offsets`` that can still be recorded.

        They are the records after the compaction gaps. None if the log has no record or cannot be
        read.
        """
        written = sum(one.end for one in self.partitions)
        left = sum(one.end - one.complete_from for one in self.partitions)
        return left / written if written else None

    @property
    def complete_since_ms(self) -> int | None:
        """Time (ms) since which ``__consumer_offsets`` has every record.

        Compaction has removed records from before that time. None if the log has no record.
        """
        # If compaction removed nothing yet, it is the time of the first record.
        written = [one for one in self.partitions if one.end]
        if not written:
            return None
        gaps = [one for one in written if one.complete_from > 0]
        if not gaps:
            return min((one.first_ms for one in written if one.first_ms is not None), default=None)
        return max(self.now_ms if one.complete_ms is None else one.complete_ms for one in gaps)

    @property
    def follow_seconds(self) -> float:
        """Seconds for which ``partage capture --follow`` must run to have a whole day of records.

        It is 0 if the log has a whole day already.
        """
        since = self.complete_since_ms
        return DAY_SECONDS if since is None else max(0.0, DAY_SECONDS - self._age(since))

    @property
    def safe_seconds(self) -> float | None:
        """Seconds for which compaction leaves each record of ``__consumer_offsets`` in place.

        It is the topic's ``min.compaction.lag.ms``; None if the account may not read it.
        """
        lag = self.settings.get("min.compaction.lag.ms")
        return None if lag is None else int(lag) / 1000

    def _age(self, at_ms: int) -> float:
        return max(0.0, (self.now_ms - at_ms) / 1000)

    def report_messages(self) -> Iterator[str]:
        """Yield messages for the user about the history that ``__consumer_offsets`` still has.

        They say how far the history goes back, and how long the user should record.
        """
        since, share = self.complete_since_ms, self.complete_share
        if share is not None and since is not None:
            age = _format_span(self._age(since))
            yield (f"The log has {share:.1%} of all records ever written without a gap, "
                   f"since {format_utc(since)} UTC ({age}).")  # fmt: skip
        else:
            yield "The log has no record: no group has joined or committed yet."
        safe = self.safe_seconds
        if safe is None:
            yield ("The compaction settings are unknown: the log cleaner may remove records at any "
                   "time.")  # fmt: skip
        else:
            policy = self.settings.get("cleanup.policy", "compact")
            leaves = (
                f"leaves records for {_format_span(safe)}"
                if safe
                else "may remove records at any time"
            )
            yield (f"Compaction: cleanup.policy={policy}, min.compaction.lag.ms="
                   f"{safe * 1000:.0f}; the log cleaner {leaves}.")  # fmt: skip
        if self.follow_seconds > 0:
            yield f"Follow the log for {_format_span(self.follow_seconds)} to have a whole day."
        else:
            yield "The log has a whole day: a capture without --follow has it at once."

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        states = {True: "allowed", False: "missing", None: "unknown"}
        for one in self.permissions:
            yield states[one.allowed], f"{one.operation} on {one.resource}", one.detail

    def _notes(self) -> list[str]:
        return list(self.report_messages()) if self.can_capture else [REFUSED]

    def __str__(self) -> str:
        table = text_table([("access", "permission", "details"), *self._rows()], left_columns=3)
        return "\n".join([table, "", *self._notes()])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: FBT001 - IPython's call
        pretty_print(self, printer, cycle)

    def _repr_html_(self) -> str:
        title = f"Cluster {self.cluster_id or 'without an id'}"
        return html_table(title, ["access", "permission", "details"], self._rows(), self._notes())

    def to_dict(self) -> dict[str, Any]:
        """Return the permissions and the available history as a dict for JSON.

        The command ``partage capture --check --json`` prints it. Times are in milliseconds since
        1970.
        """
        return {
            "cluster_id": self.cluster_id, "brokers": self.brokers, "topics": self.topics,
            "groups": self.groups, "can_capture": self.can_capture,
            "permissions": [one.to_dict() for one in self.permissions],
            "complete_share": self.complete_share, "complete_since_ms": self.complete_since_ms,
            "follow_seconds": self.follow_seconds, "safe_seconds": self.safe_seconds,
            "settings": dict(self.settings),
            "partitions": [one.to_dict() for one in self.partitions],
            "warnings": list(self.warnings), "now_ms": self.now_ms,
        }  # fmt: skip


def check_access(connection: ClusterConnection, *, now_ms: int) -> AccessReport:
    """Check what an account may read of a Kafka cluster, and how much history can be recorded.

    Nothing is written, and no group is joined.

    Args:
        connection: open connection to the cluster.
        now_ms: the present time, in ms since 1970.

    Raises:
        ClusterUnreachableError: a leader does not return its offsets.
        kafka.errors.KafkaError: a broker does not answer.
    """
    metadata = connection.fetch_metadata()
    nodes = sorted(one.node_id for one in metadata.brokers)
    log = _LogProbe(connection)
    log.read_samples()
    topics, groups = log.read_names()
    node = nodes[0] if nodes else 0
    listed, by_groups = _groups_permission(connection, nodes, groups)
    permissions = (
        Permission("DESCRIBE", _LOG, "capture", required=True, allowed=log.described),
        Permission("READ", _LOG, "capture", required=True, allowed=log.readable,
                   detail=log.detail),
        _topics_permission(connection, metadata, topics),
        by_groups,
        Permission("DESCRIBE", "cluster", "groups, reassign; leader of the quorum", required=False,
                   allowed=connection.may_describe_cluster()),
        Permission("DESCRIBE_CONFIGS", "cluster", "session timeout of consumer groups",
                   required=False, allowed=bool(connection.broker_config(node))),
        Permission("DESCRIBE_CONFIGS", _LOG, "compaction settings of this check", required=False,
                   allowed=None if log.absent else bool(log.settings)),
    )  # fmt: skip
    return AccessReport(
        metadata.cluster_id, len(nodes), len(metadata.topics), listed, permissions,
        tuple(log.partition_extents()), log.settings, tuple(log.warnings), now_ms,
    )  # fmt: skip


def _topics_permission(
    connection: ClusterConnection, metadata: Any, consumed_topics: Iterable[str]
) -> Permission:
    """Check whether the account may DESCRIBE the topics that consumer groups use.

    The result is one row of the permission report.

    Args:
        connection: open connection to the cluster.
        metadata: the cluster's metadata, which lists the topics that the account may see.
        consumed_topics: topics in which groups have committed offsets.
    """
    shown = {one.name for one in metadata.topics if not one.error_code}
    asked = sorted(set(consumed_topics) - shown)[:_MOST_NAMES]
    answers = connection.fetch_metadata(asked).topics if asked else []
    refused = [one.name for one in answers if one.error_code == _NOT_AUTHORIZED]
    detail = f"{len(shown):,} visible"
    if refused:
        detail += f"; groups consume {_listing(refused)}, which the account may not describe"
    allowed = False if refused else True if shown - {OFFSETS_TOPIC} else None
    return Permission("DESCRIBE", "topics", "capture (plans), groups", required=False,
                      allowed=allowed, detail=detail)  # fmt: skip


def _groups_permission(
    connection: ClusterConnection, nodes: Sequence[int], logged_groups: Iterable[str]
) -> tuple[int | None, Permission]:
    """Check whether the account may DESCRIBE the groups that ``__consumer_offsets`` names.

    The result is unknown if there is no group to check.

    Args:
        connection: open connection to the cluster.
        nodes: ids of the brokers.
        logged_groups: ids of the groups.

    Returns:
        The number of listed groups (None if the brokers refuse), and the permission.
    """
    try:
        listed = listed_group_ids(connection, nodes)
    except NotAuthorizedError:
        listed = None
    asked = sorted({*(listed or ()), *logged_groups})[:_MOST_NAMES]
    refused = refused_group_ids(connection, nodes[0], asked) if asked and nodes else []
    allowed = False if refused or listed is None else True if asked else None
    detail = f"{len(listed):,} listed" if listed is not None else "the brokers list none"
    if refused:
        detail += f"; the account may not describe {_listing(refused)}"
    found = Permission("DESCRIBE", "groups", "groups, capture --metrics", required=False,
                       allowed=allowed, detail=detail)  # fmt: skip
    return None if listed is None else len(listed), found


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3:,} more" if len(names) > 3 else shown


# --- the log -----------------------------------------------------------------------------------


@dataclass
class _GapSearch:
    """Binary search for the offset from which a log partition has every record.

    Compaction leaves gaps before that offset. Each step of the search reads a few batches.

    Attributes:
        start, end: first offset of the log, and the offset after its last record.
        low: an offset before which records are missing, or ``start``.
        high: the lowest offset found so far from which no record is missing.
        high_ms: time of the record at ``high``; None at the end of the log.
        first: the first batch of the log, if it was read.
    """

    start: int
    end: int
    low: int = field(init=False)
    high: int = field(init=False)
    high_ms: int | None = None
    first: Batch | None = None

    def __post_init__(self) -> None:
        self.low, self.high = self.start, self.end

    @property
    def is_done(self) -> bool:
        return self.low >= self.high

    def next_offset(self) -> int:
        """Return the offset at which the binary search for the last compaction gap reads next.

        The first read is at the start of the log.
        """
        return self.start if self.first is None else (self.low + self.high) // 2

    def narrow_search(self, offset: int, batches: Sequence[Batch]) -> None:
        """Narrow the binary search for the last compaction gap with batches read from the log.

        If offsets are missing among the batches, the last gap is there or later, otherwise before
        them.

        Args:
            offset: the offset from which the batches were read.
            batches: the batches, in order.
        """
        begins = self.first is None
        if begins and batches:
            self.first = batches[0]
        if not batches:  # every record from here on was removed
            self.low, self.high, self.high_ms = self.end, self.end, None
            return
        gap = offset_after_gap(offset, batches)
        reaches_end = batches[-1].last_offset + 1 >= self.end
        if gap is None:
            # A complete part at the start of the log says nothing about the rest.
            if reaches_end or not begins:
                self.high = max(self.low, min(offset, batches[0].base_offset))
                self.high_ms = _time(batches[0])
            return
        self.low = gap
        if reaches_end or gap > self.high:
            self.high = gap if reaches_end else self.end
            times = [_time(one) for one in batches if one.base_offset >= gap]
            self.high_ms = times[0] if reaches_end and times else None


def offset_after_gap(offset: int, batches: Sequence[Batch]) -> int | None:
    """Return the offset after the last gap in a sequence of record batches; None without a gap.

    A gap is a range of offsets whose records compaction has removed.

    Args:
        offset: the offset from which the batches were read.
        batches: the batches, in order.
    """
    expected, found = offset, None
    for batch in batches:
        if batch.base_offset > expected:
            found = batch.base_offset
        if batch.records < batch.last_offset - batch.base_offset + 1:
            found = batch.last_offset + 1
        expected = batch.last_offset + 1
    return found


def _time(batch: Batch) -> int | None:
    # A batch whose records were all removed may have no time.
    return batch.max_timestamp_ms if batch.max_timestamp_ms >= 0 else None


class _LogProbe:
    """Reader of small samples of ``__consumer_offsets``, for the check before a recording.

    The samples show what the account may read, and where compaction has left gaps.

    Attributes:
        described: whether the account may DESCRIBE the topic; None if unknown.
        readable: whether the account may READ the topic; None if unknown.
        absent: whether the cluster has no such topic yet.
        detail: why ``readable`` is unknown.
        settings: compaction settings of the topic.
        warnings: messages about partitions that cannot be read.
    """

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection
        self.described: bool | None = None
        self.readable: bool | None = None
        self.absent = False
        self.detail = ""
        self.settings: dict[str, str] = {}
        self.warnings: list[str] = []
        self._leaders: dict[int, int] = {}
        self._searches: dict[int, _GapSearch] = {}

    def read_samples(self) -> None:
        """Check the permissions on ``__consumer_offsets``, and search for compaction gaps.

        A few record batches of each partition are read for this.
        """
        self.settings = self._connection.topic_config(OFFSETS_TOPIC, _COMPACTION)
        topic = self._connection.fetch_metadata([OFFSETS_TOPIC]).topics[0]
        self.described = topic.error_code != _NOT_AUTHORIZED
        if topic.error_code:
            self.absent = topic.error_code == _UNKNOWN_TOPIC
            self.readable = None if self.described else False
            if self.described:
                self.detail = ("the topic does not exist: no group has joined or committed yet"
                               if self.absent else error_name(topic.error_code))  # fmt: skip
            return
        found = {p.partition_index: p.leader_id for p in topic.partitions}
        self._leaders = {p: leader for p, leader in sorted(found.items()) if leader >= 0}
        self.warnings += [f"partition {p}: it has no leader" for p in sorted(found)
                          if p not in self._leaders]  # fmt: skip
        starts, ends = self._connection.partition_bounds(OFFSETS_TOPIC, list(self._leaders))
        self._searches = {p: _GapSearch(starts[p], ends[p]) for p in self._leaders}
        # An empty partition is read, too: the answer shows whether the account may READ.
        open_ones = {p: one.next_offset() for p, one in self._searches.items()}
        for _ in range(_MOST_STEPS):
            for p, window in self._read_samples(open_ones, _WINDOW_BYTES).items():
                if p in self._searches and not self._searches[p].is_done:
                    self._searches[p].narrow_search(open_ones[p], window)
            open_ones = {p: one.next_offset() for p, one in self._searches.items()
                         if not one.is_done}  # fmt: skip
            if not open_ones or self.readable is False:
                break

    def _read_samples(self, offsets: Mapping[int, int], max_bytes: int) -> dict[int, list[Batch]]:
        """Read a few record batches from each partition of ``__consumer_offsets``.

        The result is a dict from partition to its batches.

        Args:
            offsets: offset at which to read, by partition.
            max_bytes: maximum bytes per partition.
        """
        # Partitions with a first batch larger than `size` are requested one by one, because a
        # broker then sends it whole.
        found = self._fetch_samples(offsets, max_bytes)
        for p in [p for p, window in found.items() if not window]:
            if offsets[p] < self._searches[p].end:
                found |= self._fetch_samples({p: offsets[p]}, max_bytes)
        return found

    def _fetch_samples(self, offsets: Mapping[int, int], size: int) -> dict[int, list[Batch]]:
        asked: dict[int, list[PartitionRequest]] = {}
        for p, offset in offsets.items():
            asked.setdefault(self._leaders[p], []).append(PartitionRequest(p, offset))
        answers, failures = self._connection.fetch_records(
            asked, OFFSETS_TOPIC, wait_ms=0, partition_bytes=size, most_bytes=_MOST_BYTES
        )
        for node, error in failures.items():
            for request in asked[node]:
                why = f"broker {node} does not answer: {error_reason(error)}"
                self._exclude_partition(request.partition, 0, why)
        found = {}
        for one in answers:
            if one.error:
                self._exclude_partition(one.partition, one.error)
                continue
            self.readable = True
            try:
                found[one.partition] = list(batches_of(one.records))
            except WireFormatError as e:
                self._exclude_partition(one.partition, 0, str(e))
        return found

    def _exclude_partition(self, partition: int, error: int, reason: str = "") -> None:
        """Skip a partition of ``__consumer_offsets`` that cannot be read, and add a warning.

        The check continues with the other partitions.

        Args:
            partition: number of the partition.
            error: Kafka's error code, 0 if ``reason`` has the reason.
            reason: the reason, as text.
        """
        if error == _NOT_AUTHORIZED:
            self.readable = False
        else:
            self.warnings.append(f"partition {partition}: {reason or error_name(error)}")
        self._leaders.pop(partition, None)
        self._searches.pop(partition, None)

    def partition_extents(self) -> list[PartitionExtent]:
        """Return the range of offsets that each readable partition of ``__consumer_offsets`` has.

        Compaction may have removed records before and within the range.
        """
        if not self.readable:
            return []
        return [
            PartitionExtent(
                p, None if one.first is None else one.first.base_offset,
                None if one.first is None else _time(one.first), min(one.high, one.end),
                one.high_ms if one.high < one.end else None, one.end,
            ) for p, one in sorted(self._searches.items())
        ]  # fmt: skip

    def read_names(self) -> tuple[set[str], set[str]]:
        """Return the topics and groups in the newest records of ``__consumer_offsets``.

        The check then asks whether the account has permissions on them.
        """
        topics: set[str] = set()
        groups: set[str] = set()
        if not self.readable:
            return topics, groups
        at = {p: max(one.start, one.high, one.end - _SAMPLE_OFFSETS)
              for p, one in self._searches.items() if one.high < one.end}  # fmt: skip
        for window in self._read_samples(at, _SAMPLE_BYTES).values() if at else ():
            for key in _decode_keys(window):
                topics |= {key["topic"]} if "topic" in key else set()
                groups |= {str(key[name]) for name in ("group", "groupId") if name in key}
        return topics, groups


def _decode_keys(batches: Sequence[Batch]) -> Iterable[Mapping[str, Any]]:
    """Yield the decoded keys of the records in batches of ``__consumer_offsets``.

    Keys that cannot be decoded are skipped.
    """
    for batch in batches:
        if batch.control:
            continue
        try:
            records = list(records_of(batch, decompress_batch(batch)))
        except WireFormatError:
            continue
        for record in records:
            try:
                yield decode_key(record.key)[1]
            except WireFormatError:
                continue


def format_utc(ms: int | None) -> str:
    """Format a time in milliseconds since 1970 as text with date and time in UTC.

    None becomes a dash.

    >>> format_utc(0), format_utc(None)
    ('1970-01-01 00:00:00', '-')
    """
    if ms is None:
        return "-"
    return f"{datetime.fromtimestamp(ms / 1000, timezone.utc):%Y-%m-%d %H:%M:%S}"


def _format_span(seconds: float) -> str:
    """Format a number of seconds as text with one suitable unit, for example "90 min".

    The unit is seconds, minutes, hours or days, depending on the length.

    >>> _format_span(45), _format_span(5_400), _format_span(86_400), _format_span(604_800)
    ('45 s', '90 min', '24.0 h', '7.0 days')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3_600:.1f} h"
    return f"{seconds / 86_400:.1f} days"
