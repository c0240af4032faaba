"""The fewest partitions that keep the hottest one within a share of all records, or within a rate.

A share is of all records. A rate is of the hour in which one partition got most: a key that is a
twentieth of a year may be nine tenths of one evening. The keys of that hour are counted by
themselves, and its seconds are those that the input has of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.keys.columns import Columns
    from partage.jobs.keys.counts import Spec

__all__ = ["HOUR_MS", "KeyBound", "Limits", "fewest"]

HOUR_MS = 3_600_000
#: Partition counts tried in one pass over the distinct keys.
_TRIED_AT_ONCE = 64
#: The largest partition count that is tried.
_LARGEST_TRIED = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What the hottest partition may have.

    Attributes:
        share: of all keyed records, above 0 and at most 1.
        rate: records per second in the hour that is worst for some partition.
    """

    share: float | None = None
    rate: float | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self.share is not None or self.rate is not None

    def expect(self, columns: Columns, where: str) -> None:
        """Whether they make sense.

        Raises:
            InvalidConfigError: one does not; says which.
        """
        if self.share is not None and not 0 < self.share <= 1:
            raise InvalidConfigError("--max-share", "must be above 0 and at most 1", self.share)
        if self.rate is None:
            return
        if not self.rate > 0:
            raise InvalidConfigError("--max-rate", "must be above 0", self.rate)
        if columns.time is None and not where.startswith("kafka://"):
            raise InvalidConfigError("--max-rate", "needs a column of times: --time", self.rate)


@dataclass(frozen=True)
class KeyBound:
    """Some distinct keys, and the records that a partition of theirs may have.

    Attributes:
        loads: of (spec, counts) what the keys' records make at each count: rows of `LOADS_DDL`.
        records: at most.
        all: keyed records of them.
        hottest: records of the key that has most.
    """

    loads: Callable[[Spec, range], pa.Table]
    records: float
    all: int
    hottest: int


def fewest(bounds: Sequence[KeyBound], spec: Spec) -> tuple[int | None, int]:
    """The fewest partitions that keep to all bounds, and the largest count tried.

    None where no count does: 0 were tried where one key alone is more than it may be.
    """
    some = [one for one in bounds if one.all]
    if not some or any(one.hottest > one.records for one in some):
        return None, 0
    low = max(1, *(int(np.ceil(one.all / one.records - 1e-9)) for one in some))
    tried = 0
    while low <= _LARGEST_TRIED:
        high = min(low + _TRIED_AT_ONCE, _LARGEST_TRIED + 1)
        fit = set(range(low, high))
        for one in some:
            fullest = _fullest(one, spec, range(low, high))
            fit = {n for n in fit if fullest.get(n, 0) <= one.records}
        tried = high - 1
        if fit:
            return min(fit), tried
        low = high
    return None, tried


def _fullest(bound: KeyBound, spec: Spec, counts: range) -> dict[int, int]:
    """Partition count -> records of its fullest partition."""
    sums = bound.loads(spec, counts).group_by(["n", "partition"]).aggregate([("records", "sum")])
    most = sums.group_by("n").aggregate([("records_sum", "max")])
    return dict(zip(most["n"].to_pylist(), most["records_sum_max"].to_pylist(), strict=True))
