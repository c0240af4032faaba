"""Records that are no offset commits: counted and looked at once, where they are read.

Those of classic groups, nearly all of them, are looked at by the column; nothing of them is an
object but the name of their group. The engine reads the others, and whatever is not plain: errors
are always its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import WireFormatError
from partage.jobs.replay.decoded_rows import Kind
from partage.jobs.replay.placed import Placed, RawRecord
from partage.jobs.replay.selection import Selection
from partage.jobs.replay.tally import Tally
from partage.wire.columns.classic_groups import classic_columns, pays
from partage.wire.columns.commits import OffsetCommits
from partage.wire.group_log import RECORD_TYPES, decode_key, decode_record

__all__ = ["Others", "bad_row", "other_records"]

_CLASSIC = 2
#: A record type and the name of a group; or why a key says neither.
_Named = tuple[int, str] | WireFormatError


class Others(NamedTuple):
    """Records of groups that go on to the next job, and those that are damaged.

    Attributes:
        rows: int64[n]: of the placed columns.
        groups: the group of each.
        bad: rows of bad records.
    """

    rows: NDArray[np.int64]
    groups: list[str]
    bad: list[dict[str, Any]]


def other_records(
    placed: Placed, found: OffsetCommits, tally: Tally, selection: Selection
) -> Others:
    """The rows that are no commits; they are counted in ``tally``, damaged commits too."""
    look = _Look(placed, tally)
    damaged = dict(found.errors) | look.at(found.others)
    bad = []
    for row, error in damaged.items():
        raw = placed.raw(row)
        named = look.named(row)
        part, group = ("key", None) if isinstance(named, WireFormatError) else ("value", named[1])
        bad.append(bad_row(raw, part, str(error), group))
    tally.bad += len(damaged)
    rows, groups = [], []
    for row in found.others.tolist():
        named = look.named(row)
        if row in damaged or isinstance(named, WireFormatError):
            continue
        if selection.group(named[1]) and not selection.over(int(placed.timestamp_ms[row])):
            rows.append(row)
            groups.append(named[1])
    return Others(np.array(rows, np.int64), groups, bad)


def bad_row(raw: RawRecord, part: str, why: str, group: str | None) -> dict[str, Any]:
    """A row of a bad record: which part of it is to blame, and why."""
    return {
        "kind": Kind.BAD_RECORD, "group": group, "part": part, "text": why,
        "log_partition": raw.partition, "log_offset": raw.offset,
        "timestamp_ms": raw.timestamp_ms, "key": raw.key, "value": raw.value,
    }  # fmt: skip


class _Look:
    """Looks at records and counts them; each distinct key is read once."""

    def __init__(self, placed: Placed, tally: Tally) -> None:
        self._placed, self._tally = placed, tally
        self._known: dict[bytes | None, _Named] = {}

    def named(self, row: int) -> _Named:
        """What a row's key says."""
        key = self._placed.key[row]
        known = self._known.get(key)
        if known is None:
            try:
                number, names = decode_key(key)
                known = number, str(names["groupId"] if "groupId" in names else names["group"])
            except WireFormatError as error:
                known = error.with_traceback(None)
            self._known[key] = known
        return known

    def at(self, rows: NDArray[np.int64]) -> dict[int, WireFormatError]:
        """Some rows; those that are damaged."""
        there = self._placed.value.is_valid()
        classic: list[int] = []
        others: list[int] = []
        for row in rows.tolist():
            named = self.named(row)
            whole = not isinstance(named, WireFormatError) and named[0] == _CLASSIC and there[row]
            (classic if whole else others).append(row)
        if classic and pays(rows=len(classic)):
            for some in classic_columns(self._placed.value, np.array(classic, np.int64)):
                versions, counts = np.unique(some.column("version"), return_counts=True)
                for version, count in zip(versions.tolist(), counts.tolist(), strict=True):
                    self._tally.type(_CLASSIC, RECORD_TYPES[_CLASSIC], version, count)
                others += some.odd.tolist()
        else:
            others += classic
        return self._by_engine(sorted(others))

    def _by_engine(self, rows: list[int]) -> dict[int, WireFormatError]:
        damaged: dict[int, WireFormatError] = {}
        for row in rows:
            try:
                record = decode_record(self._placed.key[row], self._placed.value[row])
            except WireFormatError as error:
                damaged[row] = error
            else:
                self._tally.type(record.key_version, record.type, record.value_version)
        return damaged
