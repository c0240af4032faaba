"""Compiled kernels that reduce offset commits to runs, and combine runs to minutes and stretches.

A series is one group (or none, within one group), topic and partition. Runs of a series form a
linked list, newest first: clocks may go back over a minute, so that a commit belongs to an older
run of its stretch. `partage.history.commits` calls the kernels and has the reference forms.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from partage.kernels import kernel, kernel_helper

__all__ = [
    "EMPTY",
    "MINUTE",
    "NEVER",
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

#: Rows of the table of runs: first and last record in the log, first and last commit (``early``,
#: ``late``), the previous run of the series, counts, the longest wait, and the last commit with a
#: higher offset than the commit before (-1 for none).
NUMBERS = (
    "first", "last", "early", "late", "before", "commits", "transactional", "tombstones", "gap",
    "advanced",
)  # fmt: skip

#: Older runs that are searched for one commit; beyond that, sorting is as fast.
_MOST_STEPS = 64


@kernel_helper
def _find_run(commit, series, minute, stretch, newest, summaries, count):
    """Find the summary ("commit run") to which an offset commit belongs; return its index.

    A commit run covers the commits of one partition within one minute. The result is ``count`` if
    the commit begins a new run, and -1 if the search takes too long.

    Args:
        commit: index of the commit.
        series: number of its group, topic and partition.
        minute: start of each commit's minute.
        stretch: number of each commit's interval between two group records.
        newest: the newest run of each series, -1 for none.
        summaries: the runs so far, one per column (`NUMBERS`).
        count: number of runs so far.
    """
    # The result is `count` if the commit begins a new run, and -1 if the search takes more than
    # _MOST_STEPS steps.
    run = newest[series]
    steps = 0
    while run >= 0:
        head = summaries[0, run]
        if stretch[head] != stretch[commit]:
            break
        if minute[head] == minute[commit]:
            return run
        run = summaries[4, run]
        steps += 1
        if steps > _MOST_STEPS:
            return -1
    return count


@kernel_helper
def _begin_run(commit, run, previous_run, summaries):
    """Begin a new summary ("commit run") of a partition's offset commits with one commit.

    Args:
        commit: index of the commit.
        run: index of the new summary.
        previous_run: the partition's previous summary, -1 for none.
        summaries: all summaries, one per column; changed.
    """
    summaries[0, run] = commit
    summaries[2, run] = commit
    summaries[3, run] = commit
    summaries[4, run] = previous_run
    for i in range(5, 9):
        summaries[i, run] = 0
    summaries[9, run] = -1


@kernel(
    "int64(int32[::1], int64[::1], int64[::1], int64[::1], int64[::1], uint8[::1], int64[::1], "
    "int64[:, ::1])"
)
def reduce_commits(series, minute, stretch, time_ms, offset, kind, newest, summaries):
    """Summarise offset commits per partition and minute; return the number of summaries.

    A summary ("commit run") ends earlier if a record of the consumer group lies between two
    commits. The result is -1 if timestamps jump too often; the caller then sorts instead.

    Args:
        series: number of each commit's group, topic and partition.
        minute: start of each commit's minute (ms).
        stretch: number of each commit's interval between two group records.
        time_ms: time of each commit.
        offset: committed offset.
        kind: 0 for a tombstone, 1 for a commit, 3 for a transactional commit.
        newest: newest run of each series, initially -1.
        summaries: receives the rows `NUMBERS`, with one column per run.
    """
    count = 0
    for row in range(len(series)):
        own = series[row]
        run = _find_run(row, own, minute, stretch, newest, summaries, count)
        if run < 0:
            return -1
        if run == count:
            _begin_run(row, run, newest[own], summaries)
            newest[own] = run
            count += 1
        summaries[1, run] = row
        if kind[row] == 0:
            summaries[7, run] += 1
            if summaries[5, run] == 0:  # only tombstones so far: the last one is the latest
                summaries[3, run] = row
            continue
        if summaries[5, run] == 0:
            summaries[2, run] = row
        else:
            wait = time_ms[row] - time_ms[summaries[3, run]]
            summaries[8, run] = max(summaries[8, run], wait)
            if offset[row] > offset[summaries[3, run]]:
                summaries[9, run] = row
        summaries[3, run] = row
        summaries[5, run] += 1
        summaries[6, run] += kind[row] >> 1
    return count


@kernel(
    "void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[::1])"
)
def reduce_stretches(
    group, partition, offset, record_group, record_partition, record_offset, newest, out
):
    """Number the offset commits of each consumer group by the group record that precedes them.

    A group record is written at each rebalance, so commits of a group with equal numbers have no
    rebalance between them.

    Args:
        group: group of each commit.
        partition: log partition of each commit.
        offset: log offset of each commit; commits are in log order.
        record_group: group of each group record.
        record_partition: log partition of each group record.
        record_offset: log offset of each group record; records are in log order.
        newest: number of each group's newest record so far, initially 0.
        out: receives the number of each commit.
    """
    at = 0
    for row in range(len(group)):
        while at < len(record_group) and (
            record_partition[at] < partition[row]
            or (record_partition[at] == partition[row] and record_offset[at] < offset[row])
        ):
            newest[record_group[at]] = at + 1
            at += 1
        out[row] = newest[group[row]]


#: Time of a commit that does not exist.
NEVER = -(1 << 63)

#: Rows of a table of runs. Offsets have a meaning if there are commits; ``gap`` is -1 for none.
#: ``advanced_ms`` is the time of the last commit with a higher offset than the commit before, or
#: `NEVER`.
RUN = (
    "series", "stretch", "minute_ms", "first_ms", "last_ms", "first_offset", "last_offset",
    "commits", "transactional", "tombstones", "gap", "advanced_ms",
)  # fmt: skip

#: Rows of a table of whole minutes.
MINUTE = (
    "series", "minute_ms", "first_offset", "last_offset", "commits", "transactional", "tombstones",
    "gap",
)  # fmt: skip

#: Rows of a table of stretches: series, number of the stretch, first and last run with commits (-1
#: for none), sum and number of the intervals between commits, whether a tombstone precedes the
#: first commit and follows the last, latest time, sum of advancing steps, number of commits, time
#: of the last commit that advances (or `NEVER`).
STRETCH = (
    "series", "stretch", "first", "last", "waited_ms", "waits", "forgotten", "forgets",
    "latest_ms", "progress", "commits", "advanced_ms",
)  # fmt: skip

#: Rows of the state of a series: three slots for minutes (two open ones and the next one), each
#: with `RUN` from ``minute_ms`` to ``gap``; then commits and last time of the minute closed last::
#:
#:     row   0 .. 8    9 .. 17   18 .. 26   27        28
#:           slot 0    slot 1    slot 2     commits   last_ms
STATE_ROWS = 3 * 9 + 2

#: Number of commits of a slot without a minute.
EMPTY = -1

_COMMITS = 5

_MOST = 1 << 61


@kernel_helper
def _close_minute(series, slot, state, out, column):
    """Write the statistics of a partition's offset commits in one complete minute to the output.

    The minute is complete: later commits belong to later minutes.

    Args:
        series: number of the partition.
        slot: column in ``state`` with the minute; it becomes free.
        state: statistics of incomplete minutes; changed.
        out: receives the complete minute.
        column: column of ``out`` to write.
    """
    # The longest wait between commits includes the wait since the minute before.
    at = 9 * slot
    commits, gap = state[at + 5, series], state[at + 8, series]
    if commits > 0 and state[27, series] > 0:
        gap = max(gap, state[at + 1, series] - state[28, series], 0)
    state[27, series], state[28, series] = commits, state[at + 2, series]
    state[at + 5, series] = -1
    out[0, column] = series
    out[1, column] = state[at, series]
    for i in range(2):
        out[2 + i, column] = state[at + 3 + i, series]
    out[4, column] = commits
    for i in range(2):
        out[5 + i, column] = state[at + 6 + i, series]
    out[7, column] = gap


@kernel_helper
def _oldest(series, state):
    best = -1
    for slot in range(3):
        there = state[9 * slot + 5, series] >= 0
        if there and (best < 0 or state[9 * slot, series] < state[9 * best, series]):
            best = slot
    return best


@kernel_helper
def _add_run_to_minute(run, series, slot, runs, state):
    """Add a summary of offset commits to the statistics of its partition and minute.

    Args:
        run: index of the summary (commit run).
        series: number of the partition.
        slot: place of the minute in ``state``.
        runs: all summaries, one per column.
        state: statistics of incomplete minutes; changed.
    """
    # A tombstone does not end a wait for the next commit.
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
    """Add summaries of offset commits to statistics per partition and minute.

    A minute is complete, and written to ``out``, when two later minutes of its partition have
    begun.

    Returns:
        The number of minutes that are now complete and written to ``out``.

    Args:
        runs: one run per column, fields as in `RUN`.
        state: incomplete minutes of each partition, in three slots.
        out: receives the complete minutes, one per column (`MINUTE`).
    """
    # A partition has up to three incomplete minutes at a time, because clocks of coordinators
    # differ a little.
    made = 0
    for run in range(runs.shape[1]):
        series, free, known = runs[0, run], -1, -1
        for slot in range(3):
            if state[9 * slot + 5, series] < 0:
                free = slot
            elif state[9 * slot, series] == runs[2, run]:
                known = slot
        if known >= 0:
            _add_run_to_minute(run, series, known, runs, state)
            continue
        for i in range(9):
            state[9 * free + i, series] = runs[2 + i, run]
        full = True
        for slot in range(3):
            full = full and state[9 * slot + 5, series] >= 0
        if full:
            _close_minute(series, _oldest(series, state), state, out, made)
            made += 1
    return made


@kernel("int64(int64[:, ::1], int64[:, ::1])")
def close_minutes(state, out):
    """Write the offset commit statistics of all incomplete minutes to ``out``, when the log ends.

    Return the number of minutes. They are sorted by partition and time.
    """
    made = 0
    for series in range(state.shape[1]):
        slot = _oldest(series, state)
        while slot >= 0:
            _close_minute(series, slot, state, out, made)
            made += 1
            slot = _oldest(series, state)
    return made


@kernel_helper
def _add_run_to_stretch(run, column, runs, out):
    """Add one minute's summary of a partition's offset commits to a longer summary.

    The longer one covers all commits between two rebalance records of the group.

    Args:
        run: index of the summary of one minute (commit run).
        column: column of ``out`` with the longer summary.
        runs: all summaries of minutes, one per column.
        out: the longer summaries; changed.
    """
    last = out[3, column]
    if last < 0:
        out[2, column] = run
        out[8, column] = runs[4, run]
    else:
        wait = runs[3, run] - runs[4, last]
        if wait >= 0:
            out[4, column] = min(out[4, column] + wait, _MOST)
            out[5, column] += 1
        # The caller clips offsets to _MOST, so the difference fits into int64.
        out[9, column] = min(out[9, column] + max(0, runs[5, run] - runs[6, last]), _MOST)
        if runs[5, run] > runs[6, last] or out[7, column] == 1:
            out[11, column] = runs[3, run]
    out[4, column] = min(out[4, column] + max(0, runs[4, run] - runs[3, run]), _MOST)
    out[5, column] += runs[7, run] - 1
    out[8, column] = max(out[8, column], runs[4, run])
    out[9, column] = min(out[9, column] + max(0, runs[6, run] - runs[5, run]), _MOST)
    out[3, column] = run
    out[7, column] = 0
    out[10, column] += runs[7, run]
    if runs[11, run] != NEVER:
        out[11, column] = runs[11, run]


@kernel("int64(int64[:, ::1], int64[::1], int64[:, ::1])")
def fold_stretches(runs, newest, out):
    """Combine one-minute summaries of offset commits into one per partition and generation.

    The records of a group in the log (one per rebalance) divide its commits into generations.

    Returns:
        The number of combined summaries ("stretches").

    Args:
        runs: one run per column, fields as in `RUN` (int64[len(`RUN`), n]).
        newest: the newest stretch of each series, initially -1 (int64).
        out: receives the stretches, one per column, fields as in `STRETCH`.
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
            out[11, made] = NEVER
        if runs[7, run] > 0:
            _add_run_to_stretch(run, made, runs, out)
        elif out[3, made] < 0:
            out[6, made] = 1
        else:
            out[7, made] = 1
    return count
