"""Functions over finished replays: `diff`, `check_run` and `owner`.

A run is the folder of a replay, or a `Run`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidCaptureError, InvalidConfigError
from partage.model.arguments import check_argument_types
from partage.results import Run
from partage.runs.published_run import PublishedRun

if TYPE_CHECKING:
    from partage.report.checks import RunCheck
    from partage.report.owners import HistoryGap, Owner
    from partage.report.rates import Recording
    from partage.report.run_diff import RunDiff

__all__ = ["OwnersAt", "check_run", "diff", "matching_names", "owner"]


@check_argument_types
def diff(
    before: Run | str | Path, after: Run | str | Path, *, groups: Sequence[str] | str | None = None
) -> RunDiff:
    """Compare the replays of two recordings of a cluster: rebalances, moves and downtime per hour.

    It shows, for example, whether rebalances became rarer after a change of settings.

    Args:
        before: the first run.
        after: the second run.
        groups: names or patterns (``orders-*``) of groups; None for all.

    Returns:
        The changes of rebalances, moves and time without a reader per hour, each with the
        statement whether it is better, worse or unclear.

    Raises:
        InvalidCaptureError: a folder has no such run.
        InvalidConfigError: an argument is not a run, or a pattern matches no group.
    """
    from partage.report.run_diff import diff_runs

    runs = _recording(before, "before"), _recording(after, "after")
    known = sorted({one for run in runs for one in run.groups})
    return diff_runs(*runs, _matching(groups, known))


@check_argument_types
def check_run(
    run: Run | str | Path,
    *,
    max_unread: float | str | None = None,
    max_rebalances: float | str | None = None,
    no_storms: bool = False,
    groups: Sequence[str] | str | None = None,
    run_id: str | None = None,
) -> RunCheck:
    """Check each consumer group of a finished replay against limits.

    A continuous-integration job can fail if a group exceeds its limit, for example 10 rebalances
    per hour.

    Args:
        run: the finished replay, or its output folder.
        max_unread: maximum fraction of a group's consuming time in which its partitions may have no
            reader, as a number from 0 to 1 or as text in percent (``"1%"``).
        max_rebalances: maximum number of rebalances of a group per hour, or text with a unit
            (``"10/h"``, ``"1/min"``, ``"48/d"``).
        no_storms: whether a rebalance storm (rebalances in quick succession) is a failure.
        groups: names or patterns (``orders-*``) of groups; None for all.
        run_id: id of an earlier run in the folder; None for the newest.

    Raises:
        InvalidCaptureError: the folder has no such run.
        InvalidConfigError: no limit is given, a limit is invalid, or a pattern matches no group.
    """
    from partage.report.checks import Limits, RunCheck, check_groups, parse_rate, parse_share

    if isinstance(max_unread, str):
        max_unread = parse_share(max_unread)
    if isinstance(max_rebalances, str):
        max_rebalances = parse_rate(max_rebalances)
    limits = Limits(max_unread, max_rebalances, no_storms)
    if limits == Limits():
        what = "must be a share, or give max_rebalances or no_storms"
        raise InvalidConfigError("max_unread", what, max_unread)
    if not _is_valid_limit(max_unread) or not 0 <= (max_unread or 0) <= 1:
        what = 'must be a share from 0 to 1, or text such as "1%"'
        raise InvalidConfigError("max_unread", what, max_unread)
    if not _is_valid_limit(max_rebalances) or (max_rebalances or 0) < 0:
        what = 'must be a number of rebalances per hour, or text such as "10/h"'
        raise InvalidConfigError("max_rebalances", what, max_rebalances)
    found = _recording(run, "run", run_id)
    return RunCheck(found, tuple(check_groups(found, limits, _matching(groups, found.groups))))


@dataclass(frozen=True)
class OwnersAt:
    """Owner of each partition at one instant of a recording; the function `owner` returns it.

    Groups are listed separately if their owners are unknown because of a gap in the recorded log.

    Attributes:
        at_ms: the instant, in milliseconds (UTC).
        owners: one entry for each partition and owner.
        unknown: groups whose owners at this instant are unknown, because the log has gaps.
        first_ms: time of the first record of the log; None if it has none.
        last_ms: time of the last record of the log; None if it has none.
    """

    at_ms: int
    owners: tuple[Owner, ...]
    unknown: tuple[HistoryGap, ...]
    first_ms: int | None
    last_ms: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the owner of each partition at the instant as a JSON object.

        ``partage owner --json`` prints it.
        """
        owners, unknown = ([asdict(one) for one in rows] for rows in (self.owners, self.unknown))
        return {"at_ms": self.at_ms, "owners": owners, "not_known": unknown}


@check_argument_types
def owner(
    run: Run | str | Path,
    at: str | int,
    *,
    topic: str | None = None,
    groups: Sequence[str] | str | None = None,
    run_id: str | None = None,
) -> OwnersAt:
    """Return which consumer owned which partition at one instant of a recording.

    If a rebalance happened exactly at that instant, the new owner is returned.

    Args:
        run: the finished replay, or its output folder.
        at: the instant, as ISO text (UTC if it has no offset) or epoch milliseconds.
        topic: name of a topic; None for all.
        groups: names or patterns (``orders-*``) of groups; None for all.
        run_id: id of an earlier run in the folder; None for the newest.

    Raises:
        InvalidCaptureError: the folder has no such run.
        InvalidConfigError: the time is malformed, a pattern matches no group, or no member ever
            owned a partition of the topic.
    """
    from partage.jobs.replay.selection import parse_time
    from partage.report.owners import gaps_at, owners_at

    at_ms = parse_time(str(at), "at")
    folder, known_id = _to_folder_and_id(run, "run")
    published = PublishedRun(folder, run_id or known_id)
    names = (
        None if groups is None else _matching(groups, _distinct_names(published, "groups", "group"))
    )
    found = owners_at(published, at_ms, topic=topic, groups=names)
    if not found and topic is not None:
        known = _distinct_names(published, "ownership", "topic")
        if topic not in known:
            raise InvalidConfigError("topic", unknown_name_message("topic", topic, known), topic)
    cover = published.summary.get("coverage", {})
    gaps = gaps_at(published, at_ms, groups=names)
    bounds = cover.get("first_ms"), cover.get("last_ms")
    return OwnersAt(at_ms, tuple(found), tuple(gaps), *bounds)


def matching_names(patterns: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the names that match shell patterns, such as ``orders-*``.

    It selects the consumer groups of a run. ``known`` are all names.

    Raises:
        InvalidConfigError: a pattern matches no group; the error lists similar names.

    >>> matching_names(["b*", "a"], ["a", "b", "bc"])
    ['b', 'bc', 'a']
    """
    names = list(known)
    found: dict[str, None] = {}
    for pattern in patterns:
        named = [one for one in names if one == pattern] or sorted(
            one for one in names if fnmatchcase(one, pattern)
        )
        if not named:
            raise InvalidConfigError(
                "groups", unknown_name_message("group", pattern, names), pattern
            )
        found.update(dict.fromkeys(named))
    return list(found)


def unknown_name_message(what: str, name: str, known: Sequence[str]) -> str:
    """Return the error message for a topic or group that does not occur in a replay's results.

    It suggests up to three similar names.

    Args:
        what: the kind of name, such as "group".
        name: the unknown name.
        known: the names that exist.

    >>> unknown_name_message("topic", "order", ["orders", "users"])
    'no such topic in this run; did you mean orders?'
    """
    near = get_close_matches(name, known, 3)
    return f"no such {what} in this run" + (f"; did you mean {', '.join(near)}?" if near else "")


def _matching(groups: Sequence[str] | str | None, known: Iterable[str]) -> list[str] | None:
    if not groups:
        return None
    return matching_names([groups] if isinstance(groups, str) else groups, known)


def _to_folder_and_id(run: Run | str | Path, argument: str) -> tuple[Path, str | None]:
    """Convert the argument of a user, a run or a folder, to the run's output folder and id.

    The id is None for a folder, which stands for its newest run.

    Args:
        run: the run, or its folder.
        argument: name of the caller's argument, for the error.

    Raises:
        InvalidConfigError: the argument is neither a run nor a folder.
    """
    if isinstance(run, Run):
        return run.folder, run.id
    if isinstance(run, str | Path):
        return Path(run), None
    raise InvalidConfigError(argument, "must be a Run or the folder of a replay", run)


def _recording(run: Run | str | Path, argument: str, run_id: str | None = None) -> Recording:
    from partage.report.rates import read_recording

    folder, known_id = _to_folder_and_id(run, argument)
    return read_recording(folder, run_id or known_id)


def _is_valid_limit(value: object) -> bool:
    """Return whether a value can be a limit of `check_run`: None (no limit) or a finite number.

    Strings and booleans are not valid.

    >>> [_is_valid_limit(one) for one in (None, 0.01, True, "1%", float("nan"))]
    [True, True, False, False, False]
    """
    if value is None:
        return True
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return -math.inf < value < math.inf


def _distinct_names(run: PublishedRun, table: str, column: str) -> list[str]:
    """Return the distinct names in one column of a run's output table, such as all consumer groups.

    Names that the user gives are checked against them.

    Args:
        run: the finished run.
        table: name of the table, such as "events".
        column: name of the column.

    Raises:
        InvalidCaptureError: the table does not have the column.
    """
    found = run.table(table, [column])
    if column not in found.column_names:
        what = f"table {table} has no column {column}; run partage replay again"
        raise InvalidCaptureError(f"{run.out}: {what}")
    return [str(one) for one in found[column].unique().to_pylist() if one is not None]
