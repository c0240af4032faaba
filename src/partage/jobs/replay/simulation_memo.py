"""Stored simulations of whole group histories, which the next appending run continues.

A run that continues another one rebuilds a group's history, and finds most of it unchanged. The
cumulative simulation of a policy then continues from a checkpoint (`simulation.checkpoints`); its
earlier rows are read from storage. A checkpoint is valid if the history up to it has the same
digest as before.

The last rebalances of a history may still change with the next records, for example their causes
and unread time. So a few checkpoints are stored, and the newest valid one is used.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from partage.errors import InvalidCaptureError
from partage.jobs.replay.rebalance_memo import (
    MemoBlock,
    MemoWriter,
    MetadataDigests,
    RebalanceMemo,
    digests_of_rebalance,
)
from partage.simulation.checkpoints import Checkpoint, Continuation, StoredRow
from partage.simulation.policies import Policy
from partage.simulation.recorded_rebalances import RecordedRebalance

__all__ = ["GroupMemo", "HistoryChain", "SimulationMemo", "StoredSimulation"]

#: Checkpoints are stored so many rebalances before the newest one.
_BEHIND = (1, 4, 16, 64)
#: Rows of a block, and the number of blocks before the oldest checkpoint from which on they are
#: merged: each run adds some.
_BLOCK, _MOST_BLOCKS = 64, 32


class StoredCheckpoint(NamedTuple):
    """Description of a stored checkpoint of a simulation:
    the rebalance it belongs to, and its bytes.

    Attributes:
        position: position of its recorded rebalance in the group's history.
        chain: digest of the history up to that rebalance.
        blocks: number of blocks with the rows before it.
        place: where its bytes are.
    """

    position: int
    chain: str
    blocks: int
    place: MemoBlock


class StoredSimulation(NamedTuple):
    """File positions of one policy's stored simulation of a group: its rows and its checkpoints.

    Attributes:
        rows: blocks of rows, in the order in which they were made.
        checkpoints: checkpoints in ascending order.
    """

    rows: tuple[MemoBlock, ...] = ()
    checkpoints: tuple[StoredCheckpoint, ...] = ()

    @classmethod
    def of(cls, value: Sequence[Any]) -> StoredSimulation:
        """Build a `StoredSimulation` from a list of its fields, as read from JSON."""
        rows, checkpoints = value
        return cls(
            tuple(map(MemoBlock.of, rows)),
            tuple(
                StoredCheckpoint(position, chain, blocks, MemoBlock.of(place))
                for position, chain, blocks, place in checkpoints
            ),
        )

    def paths(self) -> Iterator[str]:
        """Yield the files that contain the stored simulation, relative to the output folder."""
        yield from (block.path for block in self.rows)
        yield from (one.place.path for one in self.checkpoints)


class HistoryChain:
    """Digests of a group's history up to each rebalance, and the members that it evicted.

    Equal digests in two runs mean that the history up to the rebalance is unchanged.
    """

    def __init__(self) -> None:
        self._digests: list[str] = []
        #: Position and time of a rebalance, and when a member that it evicted stopped responding.
        self._evictions: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._digests)

    def add(self, rebalance: RecordedRebalance, digest: bytes) -> None:
        """Append the group's next rebalance, with its digest of `digests_of_rebalance`."""
        before = self._digests[-1] if self._digests else ""
        for absence in rebalance.departures:
            if absence.expired:
                at = (len(self._digests), rebalance.generation.timestamp_ms, absence.gone_ms)
                self._evictions.append(at)
        self._digests.append(blake2b(before.encode() + digest, digest_size=16).hexdigest())

    def digest(self, position: int) -> str:
        """Return the digest of the history up to the rebalance at a position;
        "" beyond the history's end.
        """
        return self._digests[position] if position < len(self._digests) else ""

    def first_early_ms(self, after: int, timeout_ms: int | None) -> int | None:
        """Return when the policy first evicts a member earlier than recorded (ms); None if never.

        Only evictions after the rebalance at position ``after`` count. A checkpoint from that time
        on is not valid.

        Args:
            after: position of the rebalance.
            timeout_ms: the policy's session timeout; None for the recorded ones.
        """
        if timeout_ms is None:
            return None
        early = (
            gone_ms + timeout_ms
            for position, time_ms, gone_ms in self._evictions
            if position > after and gone_ms + timeout_ms < time_ms
        )
        return min(early, default=None)


class SimulationMemo:
    """Continues one policy's stored simulation of a group, and stores it for the next run.

    Args:
        out: the output folder.
        policy: the policy.
        stored: what the last run has stored.
        chain: digests of the group's history as it is now.
        writer: writes blocks for the next run.
    """

    def __init__(
        self,
        out: str,
        policy: Policy,
        stored: StoredSimulation,
        chain: HistoryChain,
        writer: MemoWriter,
    ) -> None:
        self._out, self._policy, self._chain, self._writer = Path(out), policy, chain, writer
        self._stored = stored
        self._blocks: list[MemoBlock] = []
        self._checkpoints: list[StoredCheckpoint] = []
        self._pending: list[StoredRow] = []
        self._is_open = True

    def continuation(self) -> Continuation:
        """Return the newest valid checkpoint with the rows before it,
        from which the simulation continues.
        """
        positions = {len(self._chain) - 1 - behind for behind in _BEHIND}
        for i in reversed(range(len(self._stored.checkpoints))):
            one = self._stored.checkpoints[i]
            if self._chain.digest(one.position) != one.chain:
                continue
            early_ms = self._chain.first_early_ms(one.position, self._policy.timeout_ms)
            blobs = [self._read(block) for block in self._stored.rows[: one.blocks]]
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

    def row(self, row: StoredRow) -> None:
        """Store the next row of the simulation."""
        self._pending.append(row)
        if len(self._pending) >= _BLOCK:
            self._flush()

    def checkpoint(self, found: Checkpoint) -> None:
        """Store the state of the simulation after all rows so far.

        Nothing is stored if a strategy plug-in has values that cannot be packed.
        """
        self._flush()
        if not self._is_open:
            return
        try:
            place = self._write(found.to_bytes())
        except TypeError:
            self._is_open = False
            return
        digest = self._chain.digest(found.position)
        one = StoredCheckpoint(found.position, digest, len(self._blocks), place)
        self._checkpoints.append(one)

    def finish(self) -> StoredSimulation:
        """Return the file positions of the rows and checkpoints that the next run needs.

        Of old checkpoints those remain that are nearest to the wanted distances from the history's
        end.
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
        merged = self._merged(blocks[:first]) if first > _MOST_BLOCKS else None
        if merged is not None:
            less = first - len(merged)
            blocks = merged + blocks[first:]
            checkpoints = [one._replace(blocks=one.blocks - less) for one in checkpoints]
        return StoredSimulation(tuple(blocks), tuple(checkpoints))

    def _merged(self, blocks: Sequence[MemoBlock]) -> list[MemoBlock] | None:
        """Write the rows of several stored blocks as one block;
        return None if a block cannot be read.
        """
        blobs = [self._read(block) for block in blocks]
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

    def _write(self, blob: bytes) -> MemoBlock:
        return self._writer.write(blob, (_digest(blob),))

    def _read(self, block: MemoBlock) -> bytes | None:
        """Return the bytes of a stored block; None if the file is missing or the bytes are
        damaged.
        """
        try:
            with (self._out / block.path).open("rb") as file:
                file.seek(block.first)
                blob = file.read(block.length)
        except OSError:
            return None
        return blob if _digest(blob) in block.keys else None

    def _checkpoint_at(self, one: StoredCheckpoint) -> Checkpoint | None:
        blob = self._read(one.place)
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


class GroupMemo:
    """Stored results of one group's simulations, and the results that this run stores for the next.

    Args:
        out: the output folder.
        stored: places of results of single rebalances, and of whole simulations by policy.
        digests: digests of the cluster metadata.
        writer: writes results for the next run.

    Attributes:
        rebalances: results of single rebalances.
    """

    def __init__(
        self,
        out: str,
        stored: tuple[Sequence[MemoBlock], Mapping[str, StoredSimulation]],
        digests: MetadataDigests,
        writer: MemoWriter,
    ) -> None:
        self._out, self._digests, self._writer = out, digests, writer
        self._stored = stored[1]
        self.rebalances = RebalanceMemo(out, stored[0], writer)
        self._chain = HistoryChain()
        self._simulations: dict[str, SimulationMemo] = {}

    def key(self, rebalance: RecordedRebalance) -> str:
        """Return the key by which a rebalance's result is stored.

        Call it for all rebalances of the group, in order.
        """
        key, digest = digests_of_rebalance(rebalance, self._digests)
        self._chain.add(rebalance, digest)
        return key

    def continuations(self, policies: Iterable[Policy]) -> dict[str, Continuation]:
        """Return a dict from policy name to the stored state from which its simulation continues.

        Call `key` for the whole history first.
        """
        for policy in policies:
            stored = self._stored.get(policy.name, StoredSimulation())
            self._simulations[policy.name] = SimulationMemo(
                self._out, policy, stored, self._chain, self._writer
            )
        return {name: one.continuation() for name, one in self._simulations.items()}

    def simulations(self) -> dict[str, StoredSimulation]:
        """Return a dict from policy name to the file positions of the policy's stored simulation.

        The next appending run continues from it.
        """
        return {name: one.finish() for name, one in self._simulations.items()}
