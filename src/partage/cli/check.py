"""`partage check`: limits on a finished replay, for CI and cron."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partage.cli.command_errors import FAILED_CHECK, UNDECIDED
from partage.cli.console import name, short_name, show, write_json
from partage.cli.options import AsJson, GroupPatterns, RunId, named_options, with_options
from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    from rich.text import Text

    from partage.report.checks import CheckResult

__all__ = ["check", "parse_rate", "parse_share"]

#: Unit of a rate -> its number in an hour.
_PER_HOUR = {"min": 60.0, "h": 1.0, "d": 1 / 24}
_STYLES = {"failed": "bold red", "unknown": "yellow", "passed": "green"}


class Unknown(str, Enum):
    """Values of ``--unknown``: whether a group passes if its log is too incomplete to check a
    limit.
    """

    fail = "fail"
    passes = "pass"


@with_options
def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Output folder of partage replay.")],
    *,
    max_unread: Annotated[
        str | None,
        typer.Option("--max-unread", metavar="SHARE", show_default=False,
                     help="Largest unread time that is accepted. As a share of the group's "
                     "consuming time, such as 1%."),
    ] = None,
    max_rebalances: Annotated[
        str | None,
        typer.Option("--max-rebalances", metavar="RATE", show_default=False,
                     help="Most rebalances of a group, such as 10/h; units are min, h and d."),
    ] = None,
    no_storms: Annotated[
        bool, typer.Option("--no-storms", help="Fail if a group has a rebalance storm.")
    ] = False,
    group: GroupPatterns = None,
    unknown: Annotated[
        Unknown,
        typer.Option("--unknown", help="Meaning of an outcome that the log does not show: fail "
                     "(exit code 5) or pass."),
    ] = Unknown.fail,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", show_default=False,
                     help="Write the outcomes as JUnit XML."),
    ] = None,
    as_json: AsJson = False,
    run: RunId = None,
) -> None:  # fmt: skip
    """Check each group of a replayed run against limits.

        partage check run --max-unread 1% --max-rebalances 10/h --no-storms

        partage check run --max-unread 0.5% --group 'billing*' --junit partage.xml

    Exit code 0 if every group is within the limits, 3 if one exceeds a limit, and 5 if none does
    but the log has too little of a group's history to tell.
    """
    from partage.commands.runs import check_run
    from partage.report.checks import UNKNOWN, VIOLATED

    share = None if max_unread is None else parse_share(max_unread)
    rate = None if max_rebalances is None else parse_rate(max_rebalances)
    if share is None and rate is None and not no_storms:
        raise typer.BadParameter("give --max-unread, --max-rebalances or --no-storms")
    with named_options(groups="--group", max_rebalances="--max-rebalances"):
        found = check_run(
            folder, max_unread=share, max_rebalances=rate, no_storms=no_storms, groups=group,
            run_id=run,
        )  # fmt: skip
    found = replace(found, unknown_passes=unknown is Unknown.passes)
    if junit is not None:
        _write(junit, found.to_junit())
    if as_json:
        write_json(found.to_dict())
    else:
        show(*_lines(found.results))
    if found.status == VIOLATED:
        raise typer.Exit(FAILED_CHECK)
    if found.status == UNKNOWN:
        raise typer.Exit(UNDECIDED)


def parse_share(text: str) -> float:
    """Parse a share in percent, such as ``1%``, and return it as a fraction.

    Raises:
        BadParameter: the text is not a share from 0% to 100%.

    >>> parse_share("1%"), parse_share("0.5 %"), parse_share(".5%")
    (0.01, 0.005, 0.005)
    """
    found = re.fullmatch(r"\s*(\d*\.?\d+)\s*%\s*", text)
    if found is None or float(found[1]) > 100:
        raise typer.BadParameter(
            f"must be a share from 0% to 100%, got {text!r}", param_hint="--max-unread"
        )
    return float(found[1]) / 100


def parse_rate(text: str) -> float:
    """Parse a rate such as ``10/h`` or ``1/min`` and return it per hour.

    Raises:
        BadParameter: the text is not a rate.

    >>> parse_rate("10/h"), parse_rate("0.5/min"), parse_rate("48/d")
    (10.0, 30.0, 2.0)
    """
    found = re.fullmatch(r"\s*(\d*\.?\d+)\s*/\s*(min|h|d)\s*", text)
    if found is None:
        raise typer.BadParameter(
            f"must be a number by min, h or d, such as 10/h, got {text!r}",
            param_hint="--max-rebalances",
        )
    return float(found[1]) * _PER_HOUR[found[2]]


def _write(path: Path, document: bytes) -> None:
    try:
        path.write_bytes(document)
    except OSError as e:
        what = f"the outcomes cannot be written ({e.strerror or e})"
        raise InvalidConfigError("--junit", what, str(path)) from None


def _lines(outcomes: Sequence[CheckResult]) -> Iterator[Text]:
    from partage.report.messages import plural

    counts = Counter(one.status for one in outcomes)
    for status in ("failed", "unknown"):
        for one in outcomes:
            if one.status == status:
                group = f"{short_name(one.group)}  " if one.group else ""
                text = f"{status:8}{group}{one.limit}: {one.text}"
                yield name(text, _STYLES[status])
    groups = len({one.group for one in outcomes if one.group})
    each = ", ".join(f"{counts[status]} {status}" for status in ("passed", "failed", "unknown"))
    worst = next((one for one in ("failed", "unknown") if counts[one]), "passed")
    yield name(
        f"{plural(len(outcomes), 'check')} of {plural(groups, 'group')}: {each}", _STYLES[worst]
    )
