"""Commits to runs in one pass: what `history.commits.runs` does by sorting, for many rows.

A series is one group, topic and partition. Of each the newest run is known, and the one before
it: clocks may go back over a minute, so that a commit belongs to an older run of its stretch.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from partage.kernels import kernel, piece

__all__ = ["NUMBERS", "reduce_commits", "reduce_stretches"]

#: What is known of each run: rows of its first, last, earliest and latest commit; the run of the
#: series before it; counts; and the longest wait.
NUMBERS = (
    "first", "last", "early", "late", "before", "commits", "transactional", "tombstones", "gap",
)  # fmt: skip
#: Older runs that are looked at for one commit. Where clocks are that wild, sorting is as good.
_MOST_STEPS = 64


@piece
def _run_of(row, series, minute, stretch, newest, found, count):
    """The run of a commit: a known one, ``count`` for a new one, or -1 for too many steps."""
    run = newest[series]
    steps = 0
    while run >= 0:
        head = found[0, run]
        if stretch[head] != stretch[row]:
            break
        if minute[head] == minute[row]:
            return run
        run = found[4, run]
        steps += 1
        if steps > _MOST_STEPS:
            return -1
    return count


@piece
def _begin(row, run, before, found):
    found[0, run] = row
    found[2, run] = row
    found[3, run] = row
    found[4, run] = before
    for i in range(5, 9):
        found[i, run] = 0


@kernel(
    "int64(int32[::1], int64[::1], int64[::1], int64[::1], uint8[::1], uint8[::1], int64[::1], "
    "int64[:, ::1])"
)
def reduce_commits(series, minute, stretch, time_ms, real, transactional, newest, found):
    """Fills ``found`` (`NUMBERS`, a row a column); how many runs there are, -1 for no answer.

    ``newest``: int64, -1 for each series.
    """
    count = 0
    for row in range(len(series)):
        mine = series[row]
        run = _run_of(row, mine, minute, stretch, newest, found, count)
        if run < 0:
            return -1
        if run == count:
            _begin(row, run, newest[mine], found)
            newest[mine] = run
            count += 1
        found[1, run] = row
        if real[row] == 0:
            found[7, run] += 1
            if found[5, run] == 0:  # of tombstones alone, the last one is the latest
                found[3, run] = row
            continue
        if found[5, run] == 0:
            found[2, run] = row
        else:
            wait = time_ms[row] - time_ms[found[3, run]]
            found[8, run] = max(found[8, run], wait)
        found[3, run] = row
        found[5, run] += 1
        found[6, run] += transactional[row]
    return count


@kernel(
    "void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[::1])"
)
def reduce_stretches(
    group, partition, offset, record_group, record_partition, record_offset, newest, out
):
    """Numbers that change at each record of a group; commits and records are in log order."""
    at = 0
    for row in range(len(group)):
        while at < len(record_group) and (
            record_partition[at] < partition[row]
            or (record_partition[at] == partition[row] and record_offset[at] < offset[row])
        ):
            newest[record_group[at]] = at + 1
            at += 1
        out[row] = newest[group[row]]
