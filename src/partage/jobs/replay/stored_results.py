"""Stored results of simulations, which the next appending run uses again.

A run that continues another one rebuilds a group's history, and finds most of its rebalances
unchanged. `GroupStore` has what the last run has stored for a group, and stores this run's results.

**Single rebalances** (`RebalanceStore`): verdicts and plans are not computed again. Three kinds of
columns of table ``replays`` still change with every new commit: times without a consumer, records
read twice, and the spread of loads. They depend on commit rates, commit intervals and the usual
length of a rebalance. They are computed again from stored inputs (`_RowInputs`).

A result is found by a digest of the rebalance and of the cluster metadata that a verdict may use.
Pauses and costs are not part of the digest. Results are stored in blocks of compressed JSON.

**Whole histories** (`PolicyStore`): the cumulative simulation of a policy continues from a
checkpoint (`simulation.policy_state`); its earlier rows are read from storage. A checkpoint is
valid if the history up to it has the same digest as before. The last rebalances of a history may
still change with the next records, for example their causes and unread time. So a few checkpoints
are stored, and the newest valid one is used.

**Settings of Streams applications**: rows of table ``streams_settings`` are found by a digest of
all rebalances of the group, of the cluster metadata, and of the sizes and settings in the capture.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from partage.errors import InvalidCaptureError
from partage.history.agreement import Verdict
from partage.history.state_store import pack_state
from partage.jobs.replay.input_digests import MetadataDigests
from partage.simulation.context import SimulationContext
from partage.simulation.metrics import (
    Bounds,
    PlanLoads,
    SimulatedRebalance,
    cost_columns,
    load_spread,
)
from partage.simulation.policies import Policy
from partage.simulation.policy_state import (
    Checkpoint,
    Continuation,
    StoredRow,
    decode_array,
    encode_array,
)
from partage.simulation.recorded_rebalances import Absence, RecordedRebalance
from partage.tables.statuses import RECORDED

__all__ = [
    "AHEAD_STATES",
    "BlockWriter",
    "GroupStore",
    "HistoryChain",
    "PolicyStore",
    "RebalanceStore",
    "StoredBlock",
    "StoredSimulation",
    "digests_of_rebalance",
]

#: Verdicts look at so many later metadata states (`history.clusters.alternative_clusters`).
AHEAD_STATES = 3
#: Rebalances of a block of stored results.
_REBALANCES_OF_BLOCK = 64


class StoredBlock(NamedTuple):
    """Byte range in a file that contains stored simulation results, which the next run reuses.

    Attributes:
        path: the file, relative to the output folder.
        first: first byte of the block.
        length: number of bytes.
        keys: key of each result: a digest of the simulation's inputs.
    """

    path: str
    first: int
    length: int
    keys: tuple[str, ...]

    @classmethod
    def from_json_fields(cls, value: Sequence[Any]) -> StoredBlock:
        """Build a `StoredBlock` from the list of its fields, which was read from a JSON file."""
        return cls(value[0], value[1], value[2], tuple(value[3]))

    def read_bytes(self, out: Path) -> bytes:
        """Read the bytes of this block from its file; ``out`` is the output folder."""
        with (out / self.path).open("rb") as file:
            file.seek(self.first)
            return file.read(self.length)


class _RowInputs(NamedTuple):
    """Inputs of the columns in a row of table ``replays`` that must be computed again in each run.

    These columns depend on the group's whole history. All values are JSON values; texts are arrays
    of int32 in base64.

    Attributes:
        stops: indices of the partitions that stop.
        extra: partition-seconds of dead members, in addition to the partitions that stop: lower and
            upper bound; None if unknown.
        loads: owner and index of each assigned partition, the members whose loads count, and the
            number of members; None without a spread of loads.
    """

    stops: str
    extra: Sequence[float] | None
    loads: Sequence[Any] | None = None


#: Row of table ``replays``, and the inputs of the columns that are computed again; None without
#: any.
_StoredCells = tuple[dict[str, Any], _RowInputs | None]
#: Values of a `Verdict`, and the rows of a rebalance.
_Result = tuple[Sequence[Any], Sequence[_StoredCells]]
_CLASSES = (Absence, RecordedRebalance)


def _to_stored_row(row: SimulatedRebalance, loads: PlanLoads) -> _StoredCells:
    """Convert a row of the output table ``replays`` to the form that is stored for the next run.

    ``loads`` computes the load of each member, from which a column is computed again later.
    """
    inputs = row.recompute
    if inputs is None:
        return row.to_row(), None
    of_plan = None
    if inputs.has_loads:
        *arrays, members = loads.load_arrays(inputs)
        of_plan = [*map(encode_array, arrays), members]
    return row.to_row(), _RowInputs(encode_array(inputs.stops), inputs.extra, of_plan)


def _restore_row(
    stored: _StoredCells, rebalance: RecordedRebalance, context: SimulationContext
) -> dict[str, Any]:
    """Restore a row of the output table ``replays`` that an earlier run has stored.

    Columns that depend on the group's whole history are computed again.

    Args:
        stored: the stored form of the row.
        rebalance: the recorded rebalance.
        context: data of the group's whole history, such as commit rates.
    """
    row, found = stored
    if found is None:
        return row
    inputs = _RowInputs(*found)
    costs, stops = context.rebalance_costs(rebalance), decode_array(inputs.stops)
    stopped = costs.stopped_seconds(stops, context.usual_ms)
    if stopped is not None:
        stopped = None if inputs.extra is None else stopped + Bounds(*inputs.extra)
    is_recorded = row["policy"] == RECORDED
    reread = costs.reread_as_recorded() if is_recorded else costs.reread_bounds(stops)
    row |= cost_columns(stopped, reread)
    if inputs.loads is not None:
        *arrays, members = inputs.loads
        member, partition, taking = map(decode_array, arrays)
        row["load_spread"] = load_spread((member, partition, taking, members), context.weights)
    return row


def digests_of_rebalance(
    rebalance: RecordedRebalance, digests: MetadataDigests
) -> tuple[str, bytes]:
    """Return two digests of a recorded rebalance's inputs, which are keys of stored results.

    The first is for a simulation of this rebalance alone, and covers all inputs. The second is for
    the simulation of the whole history. It leaves out later metadata, and whether departed members
    rejoined later. ``digests`` are those of the cluster metadata.
    """
    departures = tuple(
        replace(one, back=None, back_ms=None, as_member=None) for one in rebalance.departures
    )
    plain = replace(rebalance, pauses=(), costs=None, departures=departures)
    text = pack_state(plain, _CLASSES, level=0)
    of_result, of_history = (blake2b(text, digest_size=12) for _ in range(2))
    later = [(i, one.back, one.back_ms, one.as_member)
             for i, one in enumerate(rebalance.departures) if one.back is not None]  # fmt: skip
    if later:
        of_result.update(pack_state(later, _CLASSES, level=0))
    time_ms = rebalance.generation.timestamp_ms
    of_result.update(digests.digest_until(time_ms, AHEAD_STATES))
    of_history.update(digests.digest_until(time_ms))
    return of_result.hexdigest(), of_history.digest()


class RebalanceStore:
    """Stored simulation results of a consumer group's rebalances, each simulated on its own.

    The next run reuses a result if the inputs of the rebalance are the same.

    Args:
        out: the output folder.
        blocks: file positions of the last run's results.
        writer: writes the results for the next run.
    """

    def __init__(self, out: str, blocks: Sequence[StoredBlock], writer: BlockWriter) -> None:
        self._out, self._blocks, self._writer = Path(out), blocks, writer
        self._loads = PlanLoads()
        self._block_of = {key: i for i, block in enumerate(blocks) for key in block.keys}
        self._found: set[str] = set()
        #: The block that was read last: rebalances come in order.
        self._loaded: tuple[int, Mapping[str, _Result]] = (-1, {})

    def find_result(
        self, key: str, rebalance: RecordedRebalance, context: SimulationContext
    ) -> tuple[Verdict, list[dict[str, Any]]] | None:
        """Return the stored simulation results of a rebalance; None if there are none.

        They are the verdict (whether the group's strategy reproduces the recorded assignment), and
        the rows of table ``replays``.

        Args:
            key: digest of the rebalance's inputs.
            rebalance: the recorded rebalance.
            context: data of the group's whole history, from which some columns are computed again.
        """
        at = self._block_of.get(key)
        if at is None:
            return None
        result = self._read(at).get(key)
        if result is None:
            return None
        verdict, rows = result
        self._found.add(key)
        return Verdict(*verdict), [_restore_row(row, rebalance, context) for row in rows]

    def store_result(self, key: str, verdict: Verdict, rows: Sequence[SimulatedRebalance]) -> None:
        """Store the simulation results of a rebalance for the next run.

        Args:
            key: digest of the rebalance's inputs.
            verdict: whether the group's strategy reproduces the recorded assignment.
            rows: the rebalance's rows of table ``replays``.
        """
        groups = (one.recompute.group for one in rows if one.recompute is not None)
        if any(member.weight != 1 for group in groups for member in group):
            return  # `load_spread` is for members of weight 1
        cells = [_to_stored_row(row, self._loads) for row in rows]
        self._writer.write_result(key, (astuple(verdict), cells))

    def list_places(self) -> list[StoredBlock]:
        """Return the file positions of all stored simulation results that the next run may need.

        A block of old results is kept if all of them were used. Otherwise the used results are
        copied to a new block.
        """
        kept = []
        for i, block in enumerate(self._blocks):
            if self._found.issuperset(block.keys):
                kept.append(block)
                continue
            for key in self._found.intersection(block.keys):
                self._writer.write_result(key, self._read(i)[key])
        return kept + self._writer.finish_group()

    def _read(self, number: int) -> Mapping[str, _Result]:
        if self._loaded[0] != number:
            block = self._blocks[number]
            try:
                results = json.loads(zlib.decompress(block.read_bytes(self._out)))
                found = dict(zip(block.keys, results, strict=True))
            except (OSError, ValueError, TypeError, zlib.error):
                found = {}  # damaged: these rebalances are simulated again
            self._loaded = number, found
        return self._loaded[1]


class BlockWriter:
    """Writer of one task's file of simulation results, in blocks of one consumer group each.

    The next run with ``--append`` reads the results.
    """

    def __init__(self, out: str, path: str, task: str) -> None:
        self._path = f"{path}/rebalances-{task}-{uuid4().hex[:8]}.memo"
        self._file = Path(out) / self._path
        self._pending: dict[str, _Result] = {}
        self._blocks: list[StoredBlock] = []
        self._size = 0

    def write_result(self, key: str, result: _Result) -> None:
        """Add the simulation result of a rebalance of the current consumer group to the file.

        ``key`` is a digest of its inputs, by which the next run finds the result.
        """
        self._pending[key] = result
        if len(self._pending) >= _REBALANCES_OF_BLOCK:
            self._flush()

    def finish_group(self) -> list[StoredBlock]:
        """Write the rest of the current consumer group's results, and return the positions of all.

        A position (`StoredBlock`) is a range of bytes in the file, with the results' keys.
        """
        if self._pending:
            self._flush()
        blocks, self._blocks = self._blocks, []
        return blocks

    def _flush(self) -> None:
        pending, self._pending = self._pending, {}
        try:
            text = json.dumps(list(pending.values()), separators=(",", ":"))
        except TypeError:
            return  # a plug-in's row has a value that is no plain one: nothing is stored
        blob = zlib.compress(text.encode("ascii"), 1)
        self._blocks.append(self.append_bytes(blob, tuple(pending)))

    def append_bytes(self, result_bytes: bytes, keys: tuple[str, ...]) -> StoredBlock:
        """Append bytes with stored results to the file, and return their position.

        ``keys`` are the digests of the results' inputs, by which the next run finds them.
        """
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as file:
            file.write(result_bytes)
        self._size += len(result_bytes)
        return StoredBlock(self._path, self._size - len(result_bytes), len(result_bytes), keys)


# -- stored simulations of whole histories ---------------------------------------------------------

#: Checkpoints are stored so many rebalances before the newest one.
_BEHIND = (1, 4, 16, 64)
#: Rows of a block, and the number of blocks before the oldest checkpoint from which on they are
#: merged: each run adds some.
_BLOCK, _MOST_BLOCKS = 64, 32


class StoredCheckpoint(NamedTuple):
    """Position of a stored checkpoint: the state of a policy's simulation after a recorded
    rebalance.

    The next run can continue the simulation from there.

    Attributes:
        position: index of the recorded rebalance in the group's history.
        chain: digest of the history up to that rebalance.
        blocks: number of stored blocks with the rows before the checkpoint.
        place: file position of the checkpoint's bytes.
    """

    position: int
    chain: str
    blocks: int
    place: StoredBlock


class StoredSimulation(NamedTuple):
    """File positions of one policy's stored simulation of a consumer group: its rows and
    checkpoints.

    Attributes:
        rows: blocks of rows, in the order in which they were made.
        checkpoints: checkpoints in ascending order.
    """

    rows: tuple[StoredBlock, ...] = ()
    checkpoints: tuple[StoredCheckpoint, ...] = ()

    @classmethod
    def from_json_fields(cls, value: Sequence[Any]) -> StoredSimulation:
        """Build a `StoredSimulation` from the list of its fields, which was read from a
        JSON file.
        """
        rows, checkpoints = value
        return cls(
            tuple(map(StoredBlock.from_json_fields, rows)),
            tuple(
                StoredCheckpoint(position, chain, blocks, StoredBlock.from_json_fields(place))
                for position, chain, blocks, place in checkpoints
            ),
        )

    def file_paths(self) -> Iterator[str]:
        """Yield the paths of the files with the stored simulation, relative to the output
        folder.
        """
        yield from (block.path for block in self.rows)
        yield from (one.place.path for one in self.checkpoints)


class HistoryChain:
    """Digests of a consumer group's history up to each of its rebalances, to detect changes.

    If a digest is the same in two runs, the history up to that rebalance is unchanged. The object
    also has the group's evictions, to find those that a policy would have made earlier.
    """

    def __init__(self) -> None:
        self._digests: list[str] = []
        #: Position and time of a rebalance, and when a member that it evicted stopped responding.
        self._evictions: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._digests)

    def add_rebalance(self, rebalance: RecordedRebalance, digest: bytes) -> None:
        """Extend the digests of the consumer group's history by its next rebalance.

        ``digest`` is a digest of this rebalance: the second result of `digests_of_rebalance`.
        """
        before = self._digests[-1] if self._digests else ""
        for absence in rebalance.departures:
            if absence.expired:
                at = (len(self._digests), rebalance.generation.timestamp_ms, absence.gone_ms)
                self._evictions.append(at)
        self._digests.append(blake2b(before.encode() + digest, digest_size=16).hexdigest())

    def digest_at(self, rebalance_index: int) -> str:
        """Return the digest of a group's history up to a rebalance; "" beyond the end.

        ``rebalance_index`` is the index of the rebalance in the history.
        """
        return self._digests[rebalance_index] if rebalance_index < len(self._digests) else ""

    def first_early_eviction_ms(self, after_index: int, timeout_ms: int | None) -> int | None:
        """Return the first time (ms) at which a policy would evict a member earlier than recorded.

        This happens if the policy's session timeout is shorter than the recorded one. Checkpoints
        after that time are invalid. The result is None if there is no such eviction.

        Args:
            after_index: index of a rebalance; only later evictions count.
            timeout_ms: the policy's session timeout; None for the recorded ones.
        """
        if timeout_ms is None:
            return None
        early = (
            gone_ms + timeout_ms
            for position, time_ms, gone_ms in self._evictions
            if position > after_index and gone_ms + timeout_ms < time_ms
        )
        return min(early, default=None)


class PolicyStore:
    """Store of the simulation of a consumer group's history under one policy.

    It contains the results of the last run, and stores the results for the next run.

    Args:
        out: the output folder.
        policy: the policy.
        stored: file positions of the simulation that the last run stored.
        chain: digests of the group's present history, to detect changes.
        writer: writes blocks for the next run.
    """

    def __init__(
        self,
        out: str,
        policy: Policy,
        stored: StoredSimulation,
        chain: HistoryChain,
        writer: BlockWriter,
    ) -> None:
        self._out, self._policy, self._chain, self._writer = Path(out), policy, chain, writer
        self._stored = stored
        self._blocks: list[StoredBlock] = []
        self._checkpoints: list[StoredCheckpoint] = []
        self._pending: list[StoredRow] = []
        self._is_open = True

    def find_continuation(self) -> Continuation:
        """Return the newest valid checkpoint of the policy's simulation, with the rows before it.

        The simulation continues there. Without a valid checkpoint, it begins anew.
        """
        positions = {len(self._chain) - 1 - behind for behind in _BEHIND}
        for i in reversed(range(len(self._stored.checkpoints))):
            one = self._stored.checkpoints[i]
            if self._chain.digest_at(one.position) != one.chain:
                continue
            early_ms = self._chain.first_early_eviction_ms(one.position, self._policy.timeout_ms)
            blobs = [self._read_block(block) for block in self._stored.rows[: one.blocks]]
            found = self._checkpoint_at(one)
            if found is None or (early_ms is not None and early_ms <= found.time_ms):
                continue
            whole = [blob for blob in blobs if blob is not None]
            if len(whole) == len(blobs):
                self._blocks = list(self._stored.rows[: one.blocks])
                self._checkpoints = list(self._stored.checkpoints[: i + 1])
                rows = (row for blob in whole for row in _rows_of(blob))
                return Continuation(self, frozenset(positions), found, rows)
        return Continuation(self, frozenset(positions))

    def store_row(self, row: StoredRow) -> None:
        """Store the next output row of the policy's simulation, so that the next run can
        reuse it.
        """
        self._pending.append(row)
        if len(self._pending) >= _BLOCK:
            self._flush()

    def store_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store the state of the policy's simulation, from which the next run can continue.

        Nothing is stored if a strategy plug-in has values of unsupported types.
        """
        self._flush()
        if not self._is_open:
            return
        try:
            place = self._write(checkpoint.to_bytes())
        except TypeError:
            self._is_open = False
            return
        digest = self._chain.digest_at(checkpoint.position)
        one = StoredCheckpoint(checkpoint.position, digest, len(self._blocks), place)
        self._checkpoints.append(one)

    def list_places(self) -> StoredSimulation:
        """Return the file positions of the stored rows and checkpoints that the next run needs.

        Of the checkpoints, one is kept for each of several distances from the end of the history.
        """
        nearest = set()
        for behind in _BEHIND:
            before = [one for one in self._checkpoints
                      if one.position < len(self._chain) - behind]  # fmt: skip
            nearest.update(before[-1:])
        checkpoints = sorted(nearest)
        if not checkpoints:
            return StoredSimulation()
        first, blocks = checkpoints[0].blocks, self._blocks[: checkpoints[-1].blocks]
        merged = self._merge_blocks(blocks[:first]) if first > _MOST_BLOCKS else None
        if merged is not None:
            less = first - len(merged)
            blocks = merged + blocks[first:]
            checkpoints = [one._replace(blocks=one.blocks - less) for one in checkpoints]
        return StoredSimulation(tuple(blocks), tuple(checkpoints))

    def _merge_blocks(self, blocks: Sequence[StoredBlock]) -> list[StoredBlock] | None:
        """Merge several stored blocks of rows into a new one; return None if a block cannot be
        read.
        """
        blobs = [self._read_block(block) for block in blocks]
        if None in blobs:
            return None
        rows = [row for blob in blobs if blob is not None for row in _rows_of(blob)]
        return [self._write(_blob_of(rows))]

    def _flush(self) -> None:
        rows, self._pending = self._pending, []
        if not rows or not self._is_open:
            return
        try:
            self._blocks.append(self._write(_blob_of(rows)))
        except (TypeError, ValueError):  # a plug-in's row has a value that is no plain one
            self._is_open = False

    def _write(self, blob: bytes) -> StoredBlock:
        return self._writer.append_bytes(blob, (_digest(blob),))

    def _read_block(self, block: StoredBlock) -> bytes | None:
        """Return the bytes of a stored block; None if the file is missing or damaged."""
        try:
            blob = block.read_bytes(self._out)
        except OSError:
            return None
        return blob if _digest(blob) in block.keys else None

    def _checkpoint_at(self, one: StoredCheckpoint) -> Checkpoint | None:
        blob = self._read_block(one.place)
        try:
            return None if blob is None else Checkpoint.from_bytes(blob)
        except InvalidCaptureError:
            return None


def _digest(blob: bytes) -> str:
    return blake2b(blob, digest_size=8).hexdigest()


def _blob_of(rows: Sequence[StoredRow]) -> bytes:
    text = json.dumps(rows, separators=(",", ":"))
    return zlib.compress(text.encode("ascii"), 1)


def _rows_of(blob: bytes) -> list[StoredRow]:
    return [StoredRow(*cells) for cells in json.loads(zlib.decompress(blob))]


class GroupStore:
    """Stored results of all simulations of a consumer group, for this run and for the next.

    Args:
        out: the output folder.
        stored: file positions of results of single rebalances, and of whole simulations by policy.
        digests: digests of the cluster metadata.
        writer: writes results for the next run.
        streams: file position of the rows of table ``streams_settings``; None without any.

    Attributes:
        rebalances: results of single rebalances.
        streams: file position of this run's rows of table ``streams_settings``; None without any.
    """

    def __init__(
        self,
        out: str,
        stored: tuple[Sequence[StoredBlock], Mapping[str, StoredSimulation]],
        digests: MetadataDigests,
        writer: BlockWriter,
        streams: StoredBlock | None = None,
    ) -> None:
        self._out, self._digests, self._writer = out, digests, writer
        self._stored = stored[1]
        self._stored_streams = streams
        self.streams: StoredBlock | None = None
        self.rebalances = RebalanceStore(out, stored[0], writer)
        self._chain = HistoryChain()
        self._keys: list[str] = []
        self._simulations: dict[str, PolicyStore] = {}

    def result_key(self, rebalance: RecordedRebalance) -> str:
        """Return the key of a rebalance's stored simulation results: a digest of its inputs.

        Call it for all rebalances in order, because each call extends the digests of the history.
        """
        key, digest = digests_of_rebalance(rebalance, self._digests)
        self._chain.add_rebalance(rebalance, digest)
        self._keys.append(key)
        return key

    def streams_key(self, capture_digest: str, until_ms: int) -> str:
        """Return a digest of the inputs of a Streams application's simulation, a key of stored
        results.

        Results with an equal key are reused. Call `result_key` for each of the group's rebalances
        first, because their keys are part of the inputs.

        Args:
            capture_digest: digest of the sizes and settings in the capture.
            until_ms: the rows depend on cluster metadata until this time (ms).
        """
        metadata = self._digests.digest_until(until_ms, AHEAD_STATES)
        text = repr((self._keys, capture_digest, metadata))
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def find_streams_rows(self, key: str) -> list[dict[str, Any]] | None:
        """Return the rows of table ``streams_settings`` stored under a key; None without any."""
        block = self._stored_streams
        if block is None or block.keys != (key,):
            return None
        try:
            rows: list[dict[str, Any]] = json.loads(
                zlib.decompress(block.read_bytes(Path(self._out)))
            )
        except (OSError, ValueError, zlib.error):
            return None
        self.streams = block
        return rows

    def store_streams_rows(self, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store the rows of table ``streams_settings`` for the next run.

        ``key`` is the result of `streams_key`, by which the next run finds them.
        """
        blob = zlib.compress(json.dumps(rows).encode("ascii"), 1)
        self.streams = self._writer.append_bytes(blob, (key,))

    def find_continuations(self, policies: Iterable[Policy]) -> dict[str, Continuation]:
        """Return the checkpoints from which the simulations continue, as a dict by policy name.

        Call it after `result_key` was called for the whole history, whose digests decide which
        checkpoints are valid.
        """
        for policy in policies:
            stored = self._stored.get(policy.name, StoredSimulation())
            self._simulations[policy.name] = PolicyStore(
                self._out, policy, stored, self._chain, self._writer
            )
        return {name: one.find_continuation() for name, one in self._simulations.items()}

    def stored_simulations(self) -> dict[str, StoredSimulation]:
        """Return the file positions of each policy's stored simulation, as a dict by policy name.

        The next run continues the simulations from there.
        """
        return {name: one.list_places() for name, one in self._simulations.items()}
