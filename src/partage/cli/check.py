"""`partage check`: limits on a finished replay, for CI and cron."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partage.cli.command_errors import FAILED_CHECK, UNDECIDED
from partage.cli.console import print_tables, short_name, styled_name, write_json
from partage.cli.options import AsJson, GroupPatterns, RunId, named_options, with_options
from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    from rich.text import Text

    from partage.report.checks import CheckResult

__all__ = ["check"]

_STYLES = {"failed": "bold red", "unknown": "yellow", "passed": "green"}


class UnknownResult(str, Enum):
    """Values of the option ``--unknown``: whether a check with unknown result passes or fails.

    The result of a check is unknown if the recorded log is too incomplete.
    """

    # A result is unknown if the log does not show it.

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
        UnknownResult,
        typer.Option("--unknown", help="Meaning of an outcome that the log does not show: fail "
                     "(exit code 5) or pass."),
    ] = UnknownResult.fail,
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

    Exit code 0 if every group is within the limits, 3 if a group exceeds a limit. It is 5 if none
    exceeds a limit, but a group's recorded history is too incomplete to check it.
    """
    from partage.commands.runs import check_run
    from partage.report.checks import UNKNOWN, VIOLATED, parse_rate, parse_share

    share = _parse_limit(parse_share, max_unread, "--max-unread")
    rate = _parse_limit(parse_rate, max_rebalances, "--max-rebalances")
    if share is None and rate is None and not no_storms:
        raise typer.BadParameter("give --max-unread, --max-rebalances or --no-storms")
    with named_options(groups="--group", max_rebalances="--max-rebalances"):
        found = check_run(
            folder, max_unread=share, max_rebalances=rate, no_storms=no_storms, groups=group,
            run_id=run,
        )  # fmt: skip
    found = replace(found, unknown_passes=unknown is UnknownResult.passes)
    if junit is not None:
        _write(junit, found.to_junit())
    if as_json:
        write_json(found.to_dict())
    else:
        print_tables(*_lines(found.results))
    if found.overall_status == VIOLATED:
        raise typer.Exit(FAILED_CHECK)
    if found.overall_status == UNKNOWN:
        raise typer.Exit(UNDECIDED)


def _parse_limit(parse: Callable[[str, str], float], text: str | None, option: str) -> float | None:
    """Parse the limit that a command-line option sets, such as "1%" of ``--max-unread 1%``.

    The result is None if the user did not set the option.

    Args:
        parse: function that parses the limit.
        text: value of the option.
        option: name of the option.

    Raises:
        BadParameter: the text is not such a limit.
    """
    if text is None:
        return None
    try:
        return parse(text, option)
    except InvalidConfigError as e:
        raise typer.BadParameter(f"{e.what}, got {text!r}", param_hint=option) from None


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
                yield styled_name(text, _STYLES[status])
    groups = len({one.group for one in outcomes if one.group})
    each = ", ".join(f"{counts[status]} {status}" for status in ("passed", "failed", "unknown"))
    worst = next((one for one in ("failed", "unknown") if counts[one]), "passed")
    yield styled_name(
        f"{plural(len(outcomes), 'check')} of {plural(groups, 'group')}: {each}", _STYLES[worst]
    )
