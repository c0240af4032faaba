"""Live capture of a cluster: ``__consumer_offsets`` and metadata, once or until it is stopped.

The offsets from which it reads are those of `CaptureWriter`, which takes them from the manifest of
an interrupted capture.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from partage.capture.connection import (
    ClusterConnection,
    FetchedPartition,
    PartitionRequest,
    error_name,
    error_reason,
)
from partage.capture.metadata_image import cluster_state, format_topic_id
from partage.capture.unpacking import crc32c_function
from partage.capture.writing import CaptureWriter
from partage.errors import (
    ClusterUnreachableError,
    InvalidCaptureError,
    NotAuthorizedError,
    WireFormatError,
)
from partage.wire.batches import batches_of, offset_after_batch

__all__ = ["OFFSETS_TOPIC", "CaptureIntervals", "LiveCapture", "ProblemReporter"]

_AGAIN_SECONDS = 60.0
#: Shorter conditions are normal (a leader moves, a broker restarts) and not recorded.
_WORTH_KEEPING_SECONDS = 5.0


@dataclass
class ProblemReporter:
    """Reporter of lasting problems of a recording, such as an unreachable broker.

    Each problem is reported at most once a minute.

    Attributes:
        report: function that shows a message to the user.
        store: function that adds a message to the capture's manifest.
        last: the newest message; "" before the first one.
    """

    # Messages with equal text before the first colon are about the same problem.
    report: Callable[[str], None]
    store: Callable[[str], None]
    last: str = ""
    _since: dict[str, float] = field(default_factory=dict)
    _reported_at: dict[str, float] = field(default_factory=dict)

    def report_problem(self, message: str) -> None:
        """Report a problem to the user, such as an unreachable broker.

        Nothing is reported if the same problem was reported within the last minute.
        """
        now, problem = time.time(), message.partition(":")[0]
        self.last = message
        since = self._since.setdefault(problem, now)
        if problem not in self._reported_at:
            self.report(message)
        elif now - self._reported_at[problem] >= _AGAIN_SECONDS:
            self.report(f"{message}; still so, since {_clock(since)}")
        else:
            return
        self._reported_at[problem] = now

    def report_recovery(self) -> None:
        """Report to the user that all problems of the recording have ended.

        If they lasted for some seconds, the recording's manifest gets a message too.
        """
        # If they lasted for some seconds, the manifest gets a message, too.
        if not self._since:
            return
        since, now = min(self._since.values()), time.time()
        self._since.clear()
        self._reported_at.clear()
        self.report(f"reading again, after {now - since:.0f} s")
        if now - since >= _WORTH_KEEPING_SECONDS:
            self.store(f"not everything could be read from {_clock(since)} to {_clock(now)} "
                      f"({self.last}); the metadata of that time were not read")  # fmt: skip


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))


OFFSETS_TOPIC = "__consumer_offsets"
_NEEDED = "READ and DESCRIBE (kafka-acls.sh --add --operation Read --topic __consumer_offsets)"
_PARTITION_BYTES, _MOST_BYTES = 1 << 20, 32 << 20
#: Kafka's error codes that `LiveCapture` handles one by one.
_OUT_OF_RANGE, _NOT_AUTHORIZED = 1, 29
#: Error codes after which only the metadata is read again: leaders move, brokers restart.
_MOVED = {3, 5, 6, 9, 13, 74, 75, 76, 78, 100}


@dataclass(frozen=True)
class CaptureIntervals:
    """Time intervals of a live recording of a Kafka cluster, in seconds.

    They decide how soon the recording contains changes of the cluster and new records.

    Attributes:
        metadata: time between two reads of the cluster's metadata.
        roll: time between two writes of the records read so far to files.
        patience: longest time without a response; after it, a capture without ``--follow`` fails.
    """

    metadata: float = 1.0
    roll: float = 60.0
    patience: float = 60.0


class LiveCapture:
    """Recorder of a running Kafka cluster's ``__consumer_offsets`` and metadata.

    It copies them to a folder, which ``partage replay`` can read.

    Args:
        connection: open connection to the cluster.
        writer: an open writer of the capture, which knows the next offset of each partition.
        pace: time intervals, such as that between two reads of the metadata.
        stop: event that ends `run`; all records read so far are written first.
        trouble: function that receives warnings for the user.
        progress: function that gets the number of records read and of offsets still to read.
    """

    def __init__(
        self,
        connection: ClusterConnection,
        writer: CaptureWriter,
        *,
        pace: CaptureIntervals | None = None,
        stop: Event | None = None,
        trouble: Callable[[str], None] = lambda _: None,
        progress: Callable[[int, int], None] = lambda _records, _behind: None,
    ) -> None:
        self._connection = connection
        self._writer = writer
        self._pace = pace or CaptureIntervals()
        self._stop = stop or Event()
        self._trouble = trouble
        self._progress = progress
        self._leaders: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._last_response: dict[int, float] = {}
        self._damaged_at: set[tuple[int, int]] = set()
        self._quorum_may_be_asked = True
        self._round = 0
        self._problems = ProblemReporter(trouble, writer.add_warning)

    def run_capture(self, *, follow: bool) -> None:
        """Record ``__consumer_offsets`` up to its current end.

        With ``follow``, the recording continues with new records until the event `stop` is set.

        Raises:
            NotAuthorizedError: the account may not read the topic.
            InvalidCaptureError: the topic does not exist, is damaged, or is not the recorded one.
            ClusterUnreachableError: a partition cannot be read for longer than ``pace.patience``.
                The capture then has the records of the other partitions.
            InvalidConfigError: the folder cannot be written.
        """
        self._read_first_metadata()
        if not self._leaders:
            self._wait_for_topic(follow=follow)
        self._writer.write_config(
            self._connection.broker_config(next(iter(self._leaders.values()), 0))
        )
        wanted: dict[int, int] = {}  # each partition's first known end: the log grows meanwhile
        began = looked = rolled = time.monotonic()
        while not self._stop.is_set():
            now = time.monotonic()
            if now - looked >= self._pace.metadata:
                self._reread_metadata()
                looked = now
            if now - rolled >= self._pace.roll and self._writer.pending_batches:
                self._writer.write_part()
                rolled = now
            self._read_or_wait()
            self._report_cleaned()
            wanted = {**self._ends, **wanted}
            if not follow:
                unfinished = [
                    p for p in self._leaders
                    if p not in wanted or self._writer.next_offset(p) < wanted[p]
                ]  # fmt: skip
                if not unfinished:
                    break
                self._expect_answer(unfinished, began)
            left = sum(max(0, end - self._writer.next_offset(p)) for p, end in self._ends.items())
            self._progress(self._writer.record_count, left)
        self._reread_metadata()
        self._writer.write_part()
        self._report_cleaned()

    def _report_cleaned(self) -> None:
        for one in self._writer.take_reports():
            self._trouble(one)

    # --- metadata --------------------------------------------------------------------------

    def _read_metadata(self) -> None:
        """Read the metadata of the Kafka cluster, and add it to the recording if it has changed.

        The known leaders of the partitions of ``__consumer_offsets`` are updated too.

        Raises:
            NotAuthorizedError: the account may not describe the topic.
            InvalidCaptureError: the capture is of another cluster or topic.
        """
        response = self._connection.fetch_metadata()
        leader = self._connection.quorum_leader() if self._quorum_may_be_asked else None
        self._quorum_may_be_asked = leader is not None
        self._writer.set_ids(cluster_id=response.cluster_id)
        topic = next((one for one in response.topics if one.name == OFFSETS_TOPIC), None)
        if topic is None:
            one = self._connection.fetch_metadata([OFFSETS_TOPIC]).topics[0]
            if one.error_code == _NOT_AUTHORIZED:
                raise NotAuthorizedError(f"topic {OFFSETS_TOPIC}", _NEEDED)
        else:
            self._update_leaders(topic)
        self._writer.add_state(
            cluster_state(response, ts_ms=time.time_ns() // 1_000_000, controller=leader)
        )

    def _read_first_metadata(self) -> None:
        """Read the metadata of the Kafka cluster for the first time, when a recording begins.

        A failure is retried, because a broker may be restarting.

        Raises:
            KafkaError: reading still fails after ``pace.patience``, or the error is permanent.
        """
        # A broker may be restarting.
        from kafka.errors import KafkaError

        end = time.monotonic() + self._pace.patience
        while True:
            try:
                self._read_metadata()
            except KafkaError as e:
                if _is_permanent(e) or time.monotonic() >= end or self._stop.wait(0.3):
                    raise
                self._problems.report_problem(f"metadata cannot be had: {error_reason(e)}")
            else:
                return

    def _update_leaders(self, topic: Any) -> None:
        if topic.error_code == _NOT_AUTHORIZED:
            raise NotAuthorizedError(f"topic {OFFSETS_TOPIC}", _NEEDED)
        self._writer.set_ids(topic_id=format_topic_id(getattr(topic, "topic_id", None)))
        # A partition without a leader is read when it has one.
        self._leaders = {p.partition_index: p.leader_id for p in topic.partitions}

    def _reread_metadata(self) -> None:
        # A failure may pass, so it is reported and not raised.
        from kafka.errors import KafkaError

        try:
            self._read_metadata()
        except KafkaError as e:
            self._problems.report_problem(f"metadata cannot be had: {error_reason(e)}")

    def _wait_for_topic(self, *, follow: bool) -> None:
        what = f"the cluster has no topic {OFFSETS_TOPIC}: no group has joined or committed yet"
        if not follow:
            raise InvalidCaptureError(what)
        self._problems.report_problem(f"{what}; waiting for it")
        while not self._leaders and not self._stop.wait(self._pace.metadata):
            self._reread_metadata()

    # --- records ---------------------------------------------------------------------------

    def _read_or_wait(self) -> None:
        # Brokers may come back, so a failure is reported and not raised.
        from kafka.errors import KafkaError

        try:
            self._read()
        except KafkaError as e:
            if _is_permanent(e):
                raise
            self._problems.report_problem(f"cannot be read: {error_reason(e)}")
            self._stop.wait(0.3)
            self._reread_metadata()

    def _read(self) -> None:
        self._round += 1
        found, failures = self._connection.fetch_records(
            self._next_requests(), OFFSETS_TOPIC,
            wait_ms=250, partition_bytes=_PARTITION_BYTES, most_bytes=_MOST_BYTES,
        )  # fmt: skip
        for one in found:
            self._process_response(one)
        for node, e in failures.items():
            if "Incompatible" in type(e).__name__:
                raise e  # a broker before 0.11: waiting does not help
            self._problems.report_problem(f"broker {node} does not answer: {error_reason(e)}")
        if failures or not found:
            self._stop.wait(0.2)
            self._reread_metadata()
        leaderless = sorted(p for p, leader in self._leaders.items() if leader < 0)
        if leaderless:
            self._problems.report_problem(f"partitions {leaderless} have no leader")
        elif found and not failures and not any(one.error for one in found):
            self._problems.report_recovery()

    def _next_requests(self) -> dict[int, list[PartitionRequest]]:
        """Return the next fetch requests for ``__consumer_offsets``, as a dict by broker id.

        Each call puts another partition first, because the last partitions in a full response may
        be left out.
        """
        # Each call begins with another partition. A broker fills its response in the order of the
        # requests, so with a fixed order the last partitions might never be read.
        numbers = sorted(self._leaders)
        turn = self._round % max(1, len(numbers))
        asked: dict[int, list[PartitionRequest]] = {}
        for p in numbers[turn:] + numbers[:turn]:
            if self._leaders[p] >= 0:
                at = self._writer.next_offset(p)
                one = PartitionRequest(p, at, self._writer.epochs.last_epoch(p, at))
                asked.setdefault(self._leaders[p], []).append(one)
        return asked

    def _process_response(self, response: FetchedPartition) -> None:
        p = response.partition
        if response.error == _NOT_AUTHORIZED:
            raise NotAuthorizedError(f"topic {OFFSETS_TOPIC}", _NEEDED)
        if response.error == _OUT_OF_RANGE:
            self._reset_offset(p)
            return
        if response.error:
            self._problems.report_problem(f"partition {p}: {error_name(response.error)}")
            if response.error not in _MOVED:
                self._stop.wait(0.2)
            self._reread_metadata()
            return
        if response.diverging is not None:
            self._rewind_partition(p, *response.diverging)
            return
        self._ends[p] = response.high_watermark
        self._writer.set_first_end(p, response.high_watermark)
        self._last_response[p] = time.monotonic()
        first = self._writer.next_offset(p)
        if first < response.log_start:
            gone = f"offsets {first} to {response.log_start - 1} are gone"
            self._writer.skip_to(p, response.log_start, f"{gone}: the log begins behind them")
        try:
            for batch in batches_of(response.records, crc32c=crc32c_function()):
                self._add_batch(p, batch)
        except WireFormatError as e:
            self._retry_damaged(p, e, response.records)

    def _add_batch(self, partition: int, batch: Any) -> None:
        try:
            self._writer.add_batch(partition, batch)
        except WireFormatError as e:
            what = f"batch of offset {batch.base_offset} cannot be read ({e}); passed over"
            self._trouble(f"partition {partition}: {what}")
            self._writer.skip_to(partition, batch.last_offset + 1, what)

    def _retry_damaged(self, partition: int, error: WireFormatError, fetched_bytes: bytes) -> None:
        """Fetch a damaged record batch from Kafka once more, and skip it if it is still damaged.

        The second fetch rules out damage on the network. The skipped range is stored as a warning.

        Args:
            partition: partition of ``__consumer_offsets``.
            error: description of the damage.
            fetched_bytes: the fetched bytes.
        """
        # The format from before Kafka 0.11 counts as damaged.
        at = self._writer.next_offset(partition)
        if (partition, at) not in self._damaged_at:
            self._damaged_at.add((partition, at))
            return
        next_offset = offset_after_batch(fetched_bytes, at)
        if next_offset is None:
            raise InvalidCaptureError(
                f"partition {partition} of {OFFSETS_TOPIC} at offset {at}: {error}; its length "
                "cannot be right either: is the broker's disk damaged?"
            ) from None
        what = f"offsets {at} to {next_offset - 1} cannot be read ({error}); passed over"
        self._trouble(f"partition {partition}: {what}")
        self._writer.skip_to(partition, next_offset, what)

    def _reset_offset(self, partition: int) -> None:
        """Choose a new offset for a Kafka partition that does not have the requested offset.

        Reading continues at the start of the log if old records were deleted, and at its end if an
        unclean leader truncated it.
        """
        # Continue at the start if old records were deleted, at the end if an unclean leader
        # truncated the log.
        position = self._writer.next_offset(partition)
        try:
            starts, ends = self._connection.partition_bounds(OFFSETS_TOPIC, [partition])
        except ClusterUnreachableError as e:
            self._problems.report_problem(
                f"partition {partition}: its offsets cannot be had: {e.reason}"
            )
            return
        first, end = starts[partition], ends[partition]
        self._last_response[partition] = time.monotonic()
        if position < first:
            why, to = f"offsets {position} to {first - 1} are gone", first
        elif position > end:
            why, to = f"the log was cut back from {position} to {end}: an unclean leader?", end
            self._trouble(f"partition {partition}: {why}")
            self._writer.remove_lost_rows(partition, to, why)
            return
        else:
            # The log has grown meanwhile, or the broker does not know the requested epoch.
            self._writer.epochs.remove_partition(partition)
            return
        self._trouble(f"partition {partition}: {why}")
        self._writer.skip_to(partition, to, why)

    def _rewind_partition(self, partition: int, epoch: int, end_offset: int) -> None:
        """Move the read position back to where the leader's log differs from the recording.

        The two differ after an unclean leader election. The rows recorded from this position on are
        removed.

        Args:
            partition: partition of ``__consumer_offsets``.
            epoch: diverging epoch in the broker's response (KIP-595).
            end_offset: end offset of that epoch in the leader's log.
        """
        # This happens after an unclean leader election, when new records replaced records already
        # read.
        position, epochs = self._writer.next_offset(partition), self._writer.epochs
        ours = epochs.last_epoch(partition, position)
        to = epochs.diverging_offset(partition, epoch, end_offset)
        if to >= position:
            epochs.remove_partition(partition)  # the response has no information: do not ask again
            return
        why = (
            f"the log was written anew from {to} on (an unclean leader: it has epoch {epoch} where "
            f"{ours} was read); what was read of it up to {position} is dropped"
        )
        self._trouble(f"partition {partition}: {why}")
        self._writer.remove_lost_rows(partition, to, why)

    def _expect_answer(self, partitions: Sequence[int], begun_s: float) -> None:
        """Raise an error if none of the partitions could be read for ``pace.patience`` seconds.

        Without this check, a recording would wait forever for unreachable brokers.

        Args:
            partitions: partitions of ``__consumer_offsets``.
            begun_s: when the recording began, on the monotonic clock (s).

        Raises:
            ClusterUnreachableError: none answered. Records of other partitions are in the capture.
        """
        now = time.monotonic()
        if any(
            now - self._last_response.get(p, begun_s) <= self._pace.patience for p in partitions
        ):
            return
        which = ", ".join(map(str, partitions[:20])) + (" ..." if len(partitions) > 20 else "")
        self._writer.add_warning(
            f"partitions {which} could not be read to their end: {self._problems.last}"
        )
        cause = self._problems.last or "no answer"
        why = f"partitions {which} of {OFFSETS_TOPIC} cannot be read ({cause})"
        hint = "what was read of the others is in the capture; run again to go on"
        raise ClusterUnreachableError("its brokers", why, hint)


def _is_permanent(error: Exception) -> bool:
    # A broker before 0.11, or missing rights.
    return any(one in type(error).__name__ for one in ("Incompatible", "Auth"))
