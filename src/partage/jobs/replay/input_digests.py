"""Digests of records and metadata: they show an appending run whether old input has changed.

The digest of a capture's records is the sum of a 64-bit hash of each record, modulo 2**64. The
hash covers position, time, key and value of the record. The digest does not depend on the order of
the records or on their files, so it stays equal when a capture merges its files. The hash detects
accidental changes; it is no protection against forgeries.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from partage.jobs.replay.records import binary_column, is_known, key_column
from partage.wire.columns import BinaryColumn, CodedColumn

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Digests",
    "InputDigests",
    "MetadataDigests",
    "combine_digests",
    "convert_keys",
    "digests_of",
    "metadata_digests",
]

#: Log partition -> [number of records, sum of their hashes]. Partition -1 has the records
#: without a partition number.
Digests = dict[int, list[int]]

_Hashes = NDArray[np.uint64]
_MODULUS = 1 << 64
#: A cell is hashed in words of 8 bytes by NumPy up to this length, the rest by BLAKE2.
_LONGEST = 512
#: Multipliers of SplitMix64 (Steele, Lea and Flood, 2014).
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def _scramble_bits(value: _Hashes) -> _Hashes:
    """Scramble the bits of 64-bit numbers, as the last step of a hash function (SplitMix64).

    ``value`` is an array of uint64, and the result has the same length.
    """
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    mixed: _Hashes = value ^ (value >> np.uint64(31))
    return mixed


def _hash_cells(column: BinaryColumn | CodedColumn) -> _Hashes:
    """Return a 64-bit hash of each byte string in a column (uint64[n]).

    The hash of null differs from the hash of an empty string.
    """
    if isinstance(column, CodedColumn):
        names = np.append(_hash_cells(column.names), np.uint64(0))  # the last one is of null
        return names[column.code]
    begin = column.start[:-1].astype(np.int64)
    length = np.diff(column.start).astype(np.int64)
    if column.valid is not None:
        length[~column.valid] = 0
    out = _scramble_bits(length.astype(np.uint64) + _STEP)
    data = np.append(column.data, np.zeros(8, np.uint8))
    # A view in which element i is the word that begins at byte i.
    words = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, strides=(1,))
    rows, at = np.flatnonzero(length), 0
    while len(rows) and at < _LONGEST:
        left = length[rows] - at
        word = words[begin[rows] + at]
        mask = (np.uint64(1) << (8 * np.minimum(left, 7)).astype(np.uint64)) - np.uint64(1)
        word = np.where(left < 8, word & mask, word)
        out[rows] = _scramble_bits(out[rows] * _STEP ^ word)
        rows, at = rows[left > 8], at + 8
    for row in rows.tolist():
        rest = data[begin[row] + at : begin[row] + length[row]].tobytes()
        word = np.frombuffer(blake2b(rest, digest_size=8).digest(), np.dtype("<u8"))
        out[row] = _scramble_bits(out[row : row + 1] * _STEP ^ word)[0]
    if column.valid is not None:
        out[~column.valid] = 0
    return out


def digests_of(table: pa.Table) -> Digests:
    """Return the number of records and a digest of their content, for each log partition in a
    table.

    A digest shows whether records have changed since an earlier run. It does not depend on their
    order.

    >>> import pyarrow as pa
    >>> rows = {"partition": [0, 0], "offset": [1, 2], "timestamp_ms": [5, 6],
    ...         "key": [b"k", b"k"], "value": [b"v", None]}
    >>> both = pa.table(rows)
    >>> first, second = (digests_of(both.slice(i, 1)) for i in (0, 1))
    >>> combine_digests(second, first) == digests_of(both), first == second
    (True, False)
    """
    if not table.num_rows:
        return {}
    names = ("partition", "offset", "timestamp_ms")
    partition, *numbers = (table[name].fill_null(-1).to_numpy() for name in names)
    hashes = np.zeros(table.num_rows, np.uint64)
    parts = [np.asarray(one).astype(np.int64).view(np.uint64) for one in numbers]
    parts += [_hash_cells(key_column(table["key"])), _hash_cells(binary_column(table["value"]))]
    for part in parts:
        hashes = _scramble_bits(hashes * _STEP + part)
    found: Digests = {}
    for one in np.unique(partition).tolist():
        mine = hashes[partition == one]
        found[one] = [len(mine), int(mine.sum(dtype=np.uint64))]
    return found


def combine_digests(digests: Digests, other_digests: Mapping[int, Iterable[int]]) -> Digests:
    """Combine the digests of two sets of log records, by log partition.

    The result equals the digests of the union. No record may be in both sets.
    """
    found = {partition: list(digest) for partition, digest in digests.items()}
    for partition, (records, total) in other_digests.items():
        known = found.setdefault(partition, [0, 0])
        known[0] += records
        known[1] = (known[1] + total) % _MODULUS
    return found


def convert_keys(digests: Mapping[str, Iterable[int]]) -> Digests:
    """Convert the keys of a dict of digests from text to ints.

    The keys are log partitions. JSON only has text as keys.
    """
    return {int(partition): list(digest) for partition, digest in digests.items()}


class InputDigests:
    """Digests of the records that one task has read, to detect later whether records have changed.

    "Known" records were also read by an earlier run, "new" ones were not.

    Args:
        known: dict from log partition to the highest offset that an earlier run has read.

    Attributes:
        files: dict from path to the digests of its ``known`` and of its ``new`` records.
        highest: dict from log partition to the highest offset of all records.
    """

    def __init__(self, known: Mapping[int, int]) -> None:
        self._known = known
        self.files: dict[str, dict[str, Digests]] = {}
        self.highest: dict[int, int] = {}

    def add_and_select_unread(self, path: str, records: pa.Table) -> pa.Table:
        """Add records of a file to its digests, and return those that no earlier run has read.

        Args:
            path: path of the file.
            records: a table with some of its records.
        """
        import pyarrow as pa

        of_file = self.files.setdefault(path, {"known": {}, "new": {}})
        fresh = records
        names = ("partition", "offset")
        partition, offset = (records[name].fill_null(-1).to_numpy() for name in names)
        for one in np.unique(partition).tolist():
            highest = int(offset[partition == one].max())
            self.highest[one] = max(self.highest.get(one, -1), highest)
        if self._known:
            old = is_known(records, self._known)
            fresh = records.filter(pa.array(~old))
            found = digests_of(records.filter(pa.array(old)))
            of_file["known"] = combine_digests(of_file["known"], found)
        of_file["new"] = combine_digests(of_file["new"], digests_of(fresh))
        return fresh

    def to_json(self) -> str:
        """Return the digests of the records that this task has read, as JSON text.

        A digest changes if a record changes. The driver merges the texts of all tasks with
        `merge_digests`.
        """
        return json.dumps({"files": self.files, "highest": self.highest})

    def merge_digests(self, digests_json: str) -> None:
        """Add the digests of another task, given as the JSON text that `to_json` returned.

        The result equals the digests of all records that both tasks have read.
        """
        found = json.loads(digests_json)
        for partition, highest in found["highest"].items():
            known = self.highest.get(int(partition), -1)
            self.highest[int(partition)] = max(known, highest)
        for path, kinds in found["files"].items():
            of_file = self.files.setdefault(path, {"known": {}, "new": {}})
            for kind, digests in kinds.items():
                of_file[kind] = combine_digests(of_file[kind], convert_keys(digests))


class MetadataDigests:
    """Digests of the cluster metadata up to each time, to detect whether earlier metadata has
    changed.

    Stored results that depend on metadata are reused only if its digest is the same.

    Args:
        states: the JSON texts of the metadata states with their times, in order of time.
    """

    def __init__(self, states: Iterable[tuple[int, str]]) -> None:
        self._times: list[int] = []
        self._prefixes = [b""]
        for time_ms, text in states:
            self._times.append(time_ms)
            joined = self._prefixes[-1] + text.encode()
            self._prefixes.append(blake2b(joined, digest_size=16).digest())

    def digest_until(self, time_ms: int, further_changes: int = 0) -> bytes:
        """Return the digest of all cluster metadata up to a time, and of some changes after it.

        A simulated rebalance may also depend on metadata shortly after it. ``further_changes`` is
        the number of later changes that are included.
        """
        last = bisect_right(self._times, time_ms) + further_changes
        return self._prefixes[min(last, len(self._prefixes) - 1)]


@lru_cache(maxsize=1)
def metadata_digests(states: tuple[str, ...]) -> MetadataDigests:
    """Compute digests of cluster metadata over time, by which a later run detects changes.

    ``states`` are JSON texts of the metadata. The result is cached for all tasks of a worker
    process.
    """
    timed = [(json.loads(text)["ts_ms"], text) for text in states]
    return MetadataDigests(sorted(timed, key=lambda one: one[0]))
