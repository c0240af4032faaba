"""The column of times: as milliseconds since 1970, whatever it is written in.

Timestamps, dates, text (ISO 8601, with a zone or in UTC; up to nine digits behind the second), and
numbers, also as text, which are milliseconds. What is no time is refused, and so are numbers that
are plainly seconds or microseconds: a load by hours of 1970 or of the year 55840 says nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NO_TIME", "millis"]

_Longs = NDArray[np.int64]
#: Stands for a time that is not there; times before 1970 are in no hour either.
NO_TIME = -1
#: The end of the year 9999, in milliseconds: no later one can be told.
_LAST = 253_402_300_800_000
#: Numbers of which all are in between are seconds of 1986 to 2286; as milliseconds they would be
#: of some months of 1970.
_SECONDS = (500_000_000, 10_000_000_000)
_ZONED = r":\d\d(\.\d+)?\s?(Z|[+-]\d\d(:?\d\d)?)$"
_NUMBER = r"^\s*-?\d+\s*$"


def millis(column: pa.Array, name: str) -> _Longs:
    """int64[n]; `NO_TIME` for null.

    Raises:
        InvalidConfigError: the column holds no times; says why.

    >>> import pyarrow as pa
    >>> millis(pa.array(["1970-01-01 00:00:01", None, "1970-01-01T01:00:00+01:00"]), "").tolist()
    [1000, -1, 0]
    """
    import pyarrow as pa
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    try:
        if types.is_string(kind) or types.is_large_string(kind):
            column = _parsed(column)
        elif types.is_floating(kind):
            column = compute.if_else(compute.is_finite(column), column, pa.scalar(None, kind))
        elif not (types.is_timestamp(kind) or types.is_date(kind) or types.is_integer(kind)
                  or types.is_null(kind)):  # fmt: skip
            told = f"is no time (the column is {kind}; timestamps, dates, text, or milliseconds)"
            raise InvalidConfigError("--time", told, name)
        numbers = types.is_integer(column.type) or types.is_floating(column.type)
        if not numbers:
            column = compute.cast(column, pa.timestamp("ms"), safe=False)
        found = compute.cast(column, pa.int64(), safe=False).fill_null(NO_TIME)
    except pa.ArrowException as e:
        raise InvalidConfigError("--time", f"is no time ({e})", name) from None
    at = np.asarray(found.to_numpy(zero_copy_only=False), np.int64)
    _expect(at, name, numbers=numbers)
    return at


def _expect(at: _Longs, name: str, *, numbers: bool) -> None:
    """Times that somebody can have meant."""
    there = at[at > NO_TIME]
    if not len(there):
        return
    least, most = int(there.min()), int(there.max())
    if most >= _LAST:
        unit = (
            "; are these microseconds or nanoseconds? numbers are milliseconds" if numbers else ""
        )
        told = f"{most:,} ms is after the year 9999{unit}"
        raise InvalidConfigError("--time", told, name)
    if numbers and _SECONDS[0] <= least and most <= _SECONDS[1]:
        told = f"{least:,} to {most:,} ms is early in 1970: are these seconds? multiply by 1,000"
        raise InvalidConfigError("--time", told, name)


def _parsed(column: pa.Array) -> pa.Array:
    """Text as times, with and without a zone in one column; or as whole numbers."""
    import pyarrow as pa
    from pyarrow import compute

    if len(column) == column.null_count:
        return pa.nulls(len(column), pa.int64())
    if compute.all(compute.match_substring_regex(column, _NUMBER)).as_py():
        return compute.cast(compute.utf8_trim_whitespace(column), pa.int64())
    zoned = compute.match_substring_regex(column, _ZONED)
    none = pa.scalar(None, column.type)
    parts = compute.if_else(zoned, column, none), compute.if_else(zoned, none, column)
    for unit in ("us", "ns"):
        with suppress(pa.ArrowInvalid):
            with_zone = compute.cast(parts[0], pa.timestamp(unit, tz="UTC"))
            without = compute.cast(parts[1], pa.timestamp(unit))
            return compute.coalesce(compute.cast(with_zone, pa.timestamp(unit)), without)
    return compute.cast(parts[1], pa.timestamp("ms"))  # says what it stumbles over
