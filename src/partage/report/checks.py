"""Comparison of a run's groups with limits on unread time, rebalances per hour, and storms.

A group with poor coverage passes no limit: what the log has may exceed a limit, but what it lacks
is unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from xml.etree import ElementTree as ET

from partage.errors import InvalidConfigError
from partage.report.messages import digits, plural, share_text
from partage.report.rates import REBALANCES, UNREAD, GroupRates, Recording
from partage.tables.escaping import escape_document_line, escape_document_text

__all__ = [
    "FORMAT",
    "PASSED",
    "UNKNOWN",
    "VERSION",
    "VIOLATED",
    "CheckResult",
    "Limits",
    "RunCheck",
    "check_groups",
    "parse_rate",
    "parse_share",
]  # fmt: skip

FORMAT, VERSION = "partage-check", 1
PASSED, VIOLATED, UNKNOWN = "passed", "failed", "unknown"
_HOUR_S = 3_600
#: Unit of a rate -> its number in an hour.
_PER_HOUR = {"min": 60.0, "h": 1.0, "d": 1 / 24}
MOST_SHOWN = 10  # results in a repr, as many as the rows of a table


@dataclass(frozen=True, slots=True)
class Limits:
    """The user's limits for consumer groups, such as a maximum number of rebalances per hour.

    `partage check` compares each group with them. None or False means no limit.

    Attributes:
        max_unread: maximum share of the time that a group's partitions may have no consumer.
        max_rebalances: maximum number of rebalances per hour.
        no_storms: whether a rebalance storm (rebalances in quick succession) is a violation.
    """

    max_unread: float | None = None
    max_rebalances: float | None = None
    no_storms: bool = False


def parse_share(text: str, setting: str = "max_unread") -> float:
    """Parse a share in percent, such as ``1%``, and return it as a fraction.

    ``setting`` is the name of the option that has the text; error messages show it.

    Raises:
        InvalidConfigError: the text is not a share from 0% to 100%.

    >>> parse_share("1%"), parse_share("0.5 %"), parse_share(".5%")
    (0.01, 0.005, 0.005)
    """
    found = re.fullmatch(r"\s*(\d*\.?\d+)\s*%\s*", text)
    if found is None or float(found[1]) > 100:
        raise InvalidConfigError(setting, "must be a share from 0% to 100%", text)
    return float(found[1]) / 100


def parse_rate(text: str, setting: str = "max_rebalances") -> float:
    """Parse a rate, such as ``10/h`` or ``1/min``, and return it as a number per hour.

    ``setting`` is the name of the option that has the text; error messages show it.

    Raises:
        InvalidConfigError: the text is not a rate.

    >>> parse_rate("10/h"), parse_rate("0.5/min"), parse_rate("48/d")
    (10.0, 30.0, 2.0)
    """
    found = re.fullmatch(r"\s*(\d*\.?\d+)\s*/\s*(min|h|d)\s*", text)
    if found is None:
        raise InvalidConfigError(setting, "must be a number by min, h or d, such as 10/h", text)
    return float(found[1]) * _PER_HOUR[found[2]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of comparing one consumer group with one limit: passed, failed or unknown.

    It is unknown if the log lacks much of the group's history.

    Attributes:
        group: group id.
        limit: option that sets the limit, such as ``max-unread``.
        status: `PASSED`, `VIOLATED` or `UNKNOWN`.
        value: the measured share, rebalances per hour or number of storms; None if unknown.
        bound: the value that the option sets.
        text: value and limit in words, and the reason if the value is unknown.
    """

    group: str
    limit: str
    status: str
    value: float | None
    bound: float
    text: str


#: Result for a run without groups. Otherwise a gate in CI would pass without a comparison.
_NO_GROUP = CheckResult(
    "", "groups", UNKNOWN, 0, 1, "unknown: the run has no group with recorded generations"
)


def check_groups(
    recording: Recording, limits: Limits, names: Sequence[str] | None = None
) -> list[CheckResult]:
    """Compare the consumer groups of a recording with limits, such as a maximum of rebalances per
    hour.

    Return one result for each group and limit, in the order of the report. A recording without
    groups has one result with status unknown.

    Args:
        recording: the recorded run, with the metrics of each group per hour.
        limits: the limits.
        names: names of the groups to check; None for all.
    """
    if not recording.groups:
        return [_NO_GROUP]
    wanted = None if names is None else set(names)
    return [
        outcome
        for group in recording.groups.values()
        if wanted is None or group.name in wanted
        for outcome in _outcomes(group, limits)
    ]


def _outcomes(group: GroupRates, limits: Limits) -> Iterator[CheckResult]:
    if limits.max_unread is not None:
        yield _unread(group, limits.max_unread)
    if limits.max_rebalances is not None:
        yield _rebalances(group, limits.max_rebalances)
    if limits.no_storms:
        yield _storms(group)


def _check_status(group: GroupRates, *, exceeds: bool, certainly: bool) -> str:
    """Return the status of one check (group and limit): `PASSED`, `VIOLATED` or `UNKNOWN`.

    The status is unknown if the log lacks much of the group's history and the value is not
    certainly above the limit. ``exceeds`` says whether the value is above the limit, ``certainly``
    whether even the lower end of its interval is.
    """
    # If the log lacks much of the group's history, a value that is not certainly above the limit is
    # unknown.
    if group.has_enough_generations:
        return VIOLATED if exceeds else PASSED
    return VIOLATED if certainly else UNKNOWN


def _unread(group: GroupRates, bound: float) -> CheckResult:
    rate = group.hourly_rate(UNREAD)
    if rate is None or rate.interval is None:
        return _unknown(group, "max-unread", bound)
    value = rate.per_hour / _HOUR_S
    ends = [end / rate.hours / _HOUR_S if rate.hours else 0.0
            for end in (rate.interval.low, rate.interval.high)]  # fmt: skip
    status = _check_status(group, exceeds=value > bound, certainly=ends[0] > bound)
    text = f"{share_text(value)} of its consuming time unread"
    if rate.total:
        text += f" ({share_text(ends[0])} to {share_text(ends[1])})"
    text += f", limit {share_text(bound)}{_excess_text(status, value, bound)}"
    if status == VIOLATED and ends[0] <= bound:
        text += "; the interval contains the limit"
    return _outcome(group, "max-unread", status, (value, bound), text)


def _rebalances(group: GroupRates, bound: float) -> CheckResult:
    rate = group.hourly_rate(REBALANCES)
    if rate is None:
        return _unknown(group, "max-rebalances", bound)
    value = rate.per_hour
    status = _check_status(group, exceeds=value > bound, certainly=value > bound)
    text = (
        f"{plural(int(rate.total), 'rebalance')} in {digits(rate.hours)} h are {digits(value)}/h, "
        f"limit {digits(bound)}/h{_excess_text(status, value, bound)}"
    )
    return _outcome(group, "max-rebalances", status, (value, bound), text)


def _storms(group: GroupRates) -> CheckResult:
    storms = group.storms
    if storms is None:
        return _unknown(group, "no-storms", 0)
    status = _check_status(group, exceeds=storms > 0, certainly=storms > 0)
    text = "no rebalance storm"
    if storms:
        of = plural(group.group.traits.stormy, "rebalance")
        text = f"{plural(storms, 'rebalance storm')} of {of} in all, limit 0"
    return _outcome(group, "no-storms", status, (storms, 0), text)


def _excess_text(status: str, value: float, bound: float) -> str:
    """Return text such as ``: 3 times the limit`` for a violated limit, otherwise an empty string.

    Args:
        status: result of the check: `PASSED`, `VIOLATED` or `UNKNOWN`.
        value: the measured value.
        bound: the limit.
    """
    if status != VIOLATED or not bound:
        return ""
    return f": {digits(value / bound)} times the limit"


def _unknown(group: GroupRates, limit: str, bound: float) -> CheckResult:
    return CheckResult(group.name, limit, UNKNOWN, None, bound, f"unknown: {group.why_unknown}")


def _outcome(
    group: GroupRates, limit: str, status: str, values: tuple[float, float], text: str
) -> CheckResult:
    value, bound = values
    if status == UNKNOWN:
        text = f"unknown: {group.why_unknown}; recorded: {text}"
    text = text.replace("\N{NO-BREAK SPACE}", " ")  # for grep, and for other programs
    return CheckResult(group.name, limit, status, value, bound, text)


@dataclass(frozen=True, slots=True)
class RunCheck:
    """The results of `partage check`: all groups of a run compared with all limits.

    A CI job can fail if a group exceeds a limit.

    Attributes:
        recording: the published run.
        results: one result for each group and limit, as `check_groups` returns them.
        unknown_passes: whether a result that the log cannot decide counts as passed.
    """

    recording: Recording
    results: tuple[CheckResult, ...]
    unknown_passes: bool = False

    def __repr__(self) -> str:
        """Summarize the check: how many results passed, failed or are unknown.

        One line follows for each of the first results that did not pass.
        """
        counts = Counter(one.status for one in self.results)
        found = ", ".join(f"{counts[one]} {one}" for one in (PASSED, VIOLATED, UNKNOWN))
        open_results = [one for one in self.results if one.status != PASSED]
        lines = [
            f"{one.status}  {escape_document_line(one.group)}  {one.limit}: {one.text}"
            for one in open_results[:MOST_SHOWN]
        ]
        if len(open_results) > MOST_SHOWN:
            lines.append(f"... {len(open_results) - MOST_SHOWN:,} more in results")
        run = self.recording.run.summary.get("run_id")
        return "\n".join([f"RunCheck of run {run}: {self.overall_status} ({found})", *lines])

    @property
    def overall_status(self) -> str:
        """Status of the whole check: violated, unknown or passed.

        It is violated if any group exceeds a limit. Otherwise it is unknown if at least one result
        is unknown and `unknown_passes` is False.
        """
        statuses = {one.status for one in self.results}
        if VIOLATED in statuses:
            return VIOLATED
        return UNKNOWN if UNKNOWN in statuses and not self.unknown_passes else PASSED

    @property
    def passed(self) -> bool:
        """Return whether the check passed as a whole.

        No group may exceed a limit. A result that is unknown counts as passed only with
        `unknown_passes`.
        """
        return self.overall_status == PASSED

    def to_dict(self) -> dict[str, Any]:
        """Return the results of the check as a dict that can be written as JSON.

        It has the format's name and version, the run, the number of results by status, and each
        result.
        """
        counts = Counter(one.status for one in self.results)
        return {
            "format": FORMAT,
            "version": VERSION,
            "folder": str(self.recording.folder),
            "run_id": self.recording.run.summary.get("run_id"),
            "hours": round(self.recording.hours, 6),
            "passed": self.passed,
            "checks_by_status": {one: counts[one] for one in (PASSED, VIOLATED, UNKNOWN)},
            "checks": [asdict(one) for one in self.results],
        }

    def to_junit(self) -> bytes:
        """Return the results as JUnit XML in UTF-8, with one test case for each group and limit.

        An unknown result is an error, or a skipped test case if it counts as passed.
        """
        counts = Counter(one.status for one in self.results)
        unknown = str(counts[UNKNOWN])
        counted = {
            "tests": str(len(self.results)),
            "failures": str(counts[VIOLATED]),
            "errors": "0" if self.unknown_passes else unknown,
            "skipped": unknown if self.unknown_passes else "0",
        }
        root = ET.Element("testsuites", {"name": "partage check", **counted})
        folder = escape_document_text(str(self.recording.folder))
        suite = ET.SubElement(root, "testsuite", {"name": folder, **counted})
        for one in self.results:
            case = ET.SubElement(
                suite,
                "testcase",
                classname=one.limit,
                name=escape_document_text(one.group) or "run",
            )
            text = escape_document_text(one.text)
            if one.status == VIOLATED:
                ET.SubElement(case, "failure", type=one.limit, message=text).text = text
            elif one.status == UNKNOWN:
                kind = "skipped" if self.unknown_passes else "error"
                ET.SubElement(case, kind, type="coverage", message=text).text = text
            else:
                ET.SubElement(case, "system-out").text = text
        ET.indent(root)
        found: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
        return found + b"\n"
