"""Kernels over offset commits: commits to runs, runs to minutes and stretches."""

# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from partage.kernels import kernel, piece

__all__ = [
    "EMPTY",
    "MINUTE",
    "NUMBERS",
    "RUN",
    "STATE_ROWS",
    "STRETCH",
    "close_minutes",
    "fold_minutes",
    "fold_stretches",
    "reduce_commits",
    "reduce_stretches",
]

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


#: Columns of runs: offsets mean something where there are commits, ``gap`` is -1 for none.
RUN = (
    "series", "stretch", "minute_ms", "first_ms", "last_ms", "first_offset", "last_offset",
    "commits", "transactional", "tombstones", "gap",
)  # fmt: skip


#: Columns of whole minutes.
MINUTE = (
    "series", "minute_ms", "first_offset", "last_offset", "commits", "transactional", "tombstones",
    "gap",
)  # fmt: skip


#: Columns of a series between two records of its group: rows of its first and last run with
#: commits (-1 for none); time between commits and how often; whether offsets were forgotten before
#: the first commit and after the last; the latest time; how far offsets went on;
#: and how many commits.
STRETCH = (
    "series", "stretch", "first", "last", "waited_ms", "waits", "forgotten", "forgets",
    "latest_ms", "progress", "commits",
)  # fmt: skip


#: Of each series three minutes (two are open, one comes): `RUN` from ``minute_ms`` on; then
#: commits and last time of the minute that was closed last.
STATE_ROWS = 3 * 9 + 2


#: In place of a minute's commits: there is no minute.
EMPTY = -1


_COMMITS = 5


_MOST = 1 << 61


@piece
def _close(series, slot, state, out, made):
    """One minute is over; the wait since the minute before belongs to it."""
    at = 9 * slot
    commits, gap = state[at + 5, series], state[at + 8, series]
    if commits > 0 and state[27, series] > 0:
        gap = max(gap, state[at + 1, series] - state[28, series], 0)
    state[27, series], state[28, series] = commits, state[at + 2, series]
    state[at + 5, series] = -1
    out[0, made] = series
    out[1, made] = state[at, series]
    for i in range(2):
        out[2 + i, made] = state[at + 3 + i, series]
    out[4, made] = commits
    for i in range(2):
        out[5 + i, made] = state[at + 6 + i, series]
    out[7, made] = gap


@piece
def _oldest(series, state):
    """The slot of the oldest minute; -1 if there is none."""
    best = -1
    for slot in range(3):
        there = state[9 * slot + 5, series] >= 0
        if there and (best < 0 or state[9 * slot, series] < state[9 * best, series]):
            best = slot
    return best


@piece
def _join(run, series, slot, runs, state):
    """A later run of a minute that is open; tombstones wait for nobody."""
    at = 9 * slot
    commits, more = state[at + 5, series], runs[7, run]
    gap = max(state[at + 8, series], runs[10, run])
    if commits > 0 and more > 0:
        gap = max(gap, runs[3, run] - state[at + 2, series], 0)
    if commits == 0 and more > 0:
        state[at + 1, series] = runs[3, run]
        state[at + 3, series] = runs[5, run]
    if more > 0 or commits == 0:
        state[at + 2, series] = runs[4, run]
        state[at + 4, series] = runs[6, run]
    state[at + 5, series] = commits + more
    for i in range(6, 8):
        state[at + i, series] += runs[2 + i, run]
    state[at + 8, series] = gap


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[:, ::1])")
def fold_minutes(runs, state, out):
    """Puts ``runs`` into the minutes of ``state``; how many are over by now, and in ``out``.

    Two minutes of a series are open at a time: clocks of coordinators differ a little.
    """
    made = 0
    for run in range(runs.shape[1]):
        series, free, known = runs[0, run], -1, -1
        for slot in range(3):
            if state[9 * slot + 5, series] < 0:
                free = slot
            elif state[9 * slot, series] == runs[2, run]:
                known = slot
        if known >= 0:
            _join(run, series, known, runs, state)
            continue
        for i in range(9):
            state[9 * free + i, series] = runs[2 + i, run]
        full = True
        for slot in range(3):
            full = full and state[9 * slot + 5, series] >= 0
        if full:
            _close(series, _oldest(series, state), state, out, made)
            made += 1
    return made


@kernel("int64(int64[:, ::1], int64[:, ::1])")
def close_minutes(state, out):
    """The minutes that are still open, in order; how many."""
    made = 0
    for series in range(state.shape[1]):
        slot = _oldest(series, state)
        while slot >= 0:
            _close(series, slot, state, out, made)
            made += 1
            slot = _oldest(series, state)
    return made


@piece
def _add(run, made, runs, out):
    """A run with commits behind those of its stretch."""
    last = out[3, made]
    if last < 0:
        out[2, made] = run
        out[8, made] = runs[4, run]
    else:
        wait = runs[3, run] - runs[4, last]
        if wait >= 0:
            out[4, made] = min(out[4, made] + wait, _MOST)
            out[5, made] += 1
        # Offsets are within _MOST of 0: the caller has seen to it.
        out[9, made] = min(out[9, made] + max(0, runs[5, run] - runs[6, last]), _MOST)
    out[4, made] = min(out[4, made] + max(0, runs[4, run] - runs[3, run]), _MOST)
    out[5, made] += runs[7, run] - 1
    out[8, made] = max(out[8, made], runs[4, run])
    out[9, made] = min(out[9, made] + max(0, runs[6, run] - runs[5, run]), _MOST)
    out[3, made] = run
    out[7, made] = 0
    out[10, made] += runs[7, run]


@kernel("int64(int64[:, ::1], int64[::1], int64[:, ::1])")
def fold_stretches(runs, newest, out):
    """Fills ``out`` (`STRETCH`, a row a column), in order; how many there are.

    ``newest``: int64, -1 for each series.
    """
    count = 0
    for run in range(runs.shape[1]):
        series = runs[0, run]
        made = newest[series]
        if made < 0 or out[1, made] != runs[1, run]:
            made = count
            newest[series] = made
            count += 1
            for i in range(2, 11):
                out[i, made] = 0
            out[0, made], out[1, made], out[2, made], out[3, made] = series, runs[1, run], -1, -1
        if runs[7, run] > 0:
            _add(run, made, runs, out)
        elif out[3, made] < 0:
            out[6, made] = 1
        else:
            out[7, made] = 1
    return count
