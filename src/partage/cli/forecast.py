"""`partage forecast`: the cost of a rolling deployment, and the settings that lower it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.command_errors import FAILED, FAILED_CHECK
from partage.cli.console import print_tables, short_name, styled_name, write_json
from partage.cli.forecast_options import ForecastOptions, RunFolder
from partage.cli.options import (
    ClusterOptions,
    parse_seconds,
    with_options,
    write_picture,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from partage.forecasts.rolling import Deployment, RolloutForecast
    from partage.tables.sums import Estimate

__all__ = ["forecast"]

#: The option of each argument that an error of `pg.forecast` may name.
_OPTIONS = {
    "commit_interval": "--commit-interval", "max_unavailable": "--max-unavailable",
    "group": "--group", "members": "--members", "partitions": "--partitions", "pause": "--pause",
    "policy": "--policy", "replaced": "--replaced",
    "rate": "--rate", "max_surge": "--max-surge", "restart_time": "--restart-time",
    "session_timeout": "--session-timeout", "strategy": "--policy",
}  # fmt: skip
_ASSUMED = " (assumed; --no-leave for pods that are killed)"
_STAGES = {"forecast": "simulating deployments"}


@with_options
def forecast(
    folder: RunFolder = None,
    *,
    rolling_restart: Annotated[
        bool, typer.Option("--rolling-restart", help="Forecast a rolling deployment.")
    ] = False,
    members: Annotated[
        int | None,
        typer.Option("--members", metavar="N", show_default=False,
                     help="Number of members; replaces that of the run or cluster."),
    ] = None,
    restart_time: Annotated[
        str | None,
        typer.Option("--restart-time", metavar="TIME", show_default=False,
                     help="Time from a member's shutdown to its rejoin, or its 80% range, such as "
                     "15s..30s. Without it, learnt from the restarts in the run."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="POLICY", show_default=False,
                     help="Policy: protocol/strategy with options. For example eager/range+static; "
                     "without it, the group's own, or eager/range."),
    ] = None,
    max_unavailable: Annotated[
        int, typer.Option("--max-unavailable", metavar="N", help="Pods that may be missing.")
    ] = 1,
    max_surge: Annotated[
        int, typer.Option("--max-surge", metavar="N", help="Additional pods at a time.")
    ] = 0,
    pause: Annotated[
        str,
        typer.Option("--pause", metavar="TIME",
                     help="Time from a member's rejoin until its pod is ready."),
    ] = "5s",
    replaced: Annotated[
        int | None,
        typer.Option("--replaced", metavar="N", show_default=False,
                     help="Number of members that are replaced. Without it, all."),
    ] = None,
    leave: Annotated[
        bool | None,
        typer.Option("--leave/--no-leave", show_default=False,
                     help="Whether members shut down cleanly, with LeaveGroup, or are killed. "
                     "Without it, as in the run; cleanly without a run."),
    ] = None,
    commit_interval: Annotated[
        str | None,
        typer.Option("--commit-interval", metavar="TIME", show_default=False,
                     help="Time between two offset commits. Without it, that of the run, or 5s."),
    ] = None,
    commit_on_stop: Annotated[
        bool | None,
        typer.Option("--commit-on-stop/--no-commit-on-stop", show_default=False,
                     help="Whether members commit when they stop or revoke partitions. Without it, "
                     "as in the run; they do without a run."),
    ] = None,
    max_unread: Annotated[
        float | None,
        typer.Option("--max-unread", metavar="PARTITION-SECONDS", show_default=False,
                     help="Largest unread time that is accepted. Exit with 3 if the forecast for "
                     "the present settings exceeds it."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of Java's Random.")] = 0,
    options: ForecastOptions,
    cluster: ClusterOptions,
) -> None:  # fmt: skip
    """Show what a rolling deployment will cost, and under which settings it costs less.

        partage forecast run --group billing --rolling-restart

        partage forecast --rolling-restart --partitions 12 --members 4 --restart-time 20s

        partage forecast run --group billing --rolling-restart --max-unread 300

        partage forecast -b broker:9092 --group billing --rolling-restart --restart-time 20s

    The deployment is simulated 10 to 100 times. Restart times, LeaveGroup, instance ids, session
    timeout and commits are those of the run. Values are means with 80% intervals.
    """
    from partage.cli.progress import show_progress
    from partage.results.forecasts import forecast as forecast_rollouts

    if max_unread is not None and not 0 <= max_unread < float("inf"):
        raise typer.BadParameter("must be a number of at least 0", param_hint="--max-unread")
    if not rolling_restart:
        raise typer.BadParameter("say what to forecast: --rolling-restart")
    needed = (options.partitions, members, restart_time)
    what = "--partitions, --members and --restart-time"
    options.expect_one_source(folder, cluster, what, *needed)
    if cluster.bootstrap_server is not None and restart_time is None:
        what = "is needed: a measurement shows no restarts"
        raise typer.BadParameter(what, param_hint="--restart-time")
    settings: dict[str, Any] = {
        **options.settings(), "members": members, "policy": policy, "replaced": replaced,
        "max_unavailable": max_unavailable, "max_surge": max_surge, "leaves": leave, "seed": seed,
        "commit_interval": None if commit_interval is None
        else parse_seconds(commit_interval, "commit-interval"),
        "commits_on_stop": commit_on_stop,
        "pause": parse_seconds(pause, "pause"),
        "restart_time": None if restart_time is None else _parse_range(restart_time),
    }  # fmt: skip
    with show_progress(_STAGES, quiet=options.as_json) as progress:
        found, failed = options.forecast_each(
            folder, cluster, partial(forecast_rollouts, **settings, progress=progress), _OPTIONS
        )
    if options.picture is not None:
        from partage.forecasts.pictures import rollout_picture

        one, rows = next(iter(found.items()))
        write_picture(options.picture, rollout_picture(rows, short_name(one)))
    if options.as_json:
        write_json([_document(one, rows, max_unread) for one, rows in found.items()])
    else:
        origin = _Source(
            is_measured=cluster.bootstrap_server is not None,
            leave_is_assumed=cluster.bootstrap_server is not None and leave is None,
            is_replaced=(folder is not None or cluster.bootstrap_server is not None)
            and (policy, members, options.session_timeout, leave) != (None,) * 4,
        )
        for one, rows in found.items():
            _print(one, rows, max_unread, origin)
    if failed:
        raise typer.Exit(FAILED)
    if any(_exceeds(rows[0], max_unread) for rows in found.values()):
        raise typer.Exit(FAILED_CHECK)


@dataclass(frozen=True)
class _Source:
    """Source of a consumer group's present settings in a forecast: a run, a cluster or options.

    The output of ``partage forecast`` names it.

    Attributes:
        is_measured: whether the group was measured on a running cluster.
        leave_is_assumed: whether nothing shows that members send LeaveGroup.
        is_replaced: whether options replace settings of the run or the cluster.
    """

    is_measured: bool
    leave_is_assumed: bool
    is_replaced: bool

    @property
    def label(self) -> str:
        """Label of the first forecast in the table of ``partage forecast``.

        It is "present", or "given" if command-line options replace measured settings.
        """
        return "given" if self.is_replaced else "present"


def _parse_range(text: str) -> float | tuple[float, float]:
    """Parse the time of the option ``--restart-time``, such as ``20s`` or ``15s..30s``.

    The result is in seconds; a range gives a pair of numbers.
    """
    low, dots, high = text.partition("..")
    if not dots:
        return parse_seconds(low, "restart-time")
    return parse_seconds(low, "restart-time"), parse_seconds(high, "restart-time")


def _exceeds(found: RolloutForecast, max_unread: float | None) -> bool:
    return max_unread is not None and found.unread.best > max_unread


def _document(
    group: str, rows: tuple[RolloutForecast, ...], max_unread: float | None
) -> dict[str, Any]:
    from partage.forecasts.rolling import kubernetes_lines

    def one(found: RolloutForecast) -> dict[str, Any]:
        deployment = found.deployment
        return {
            "settings": deployment.text_beside(rows[0].deployment),
            "policy": deployment.policy.name,
            "members": deployment.members, "replaced": deployment.pods,
            "max_unavailable": deployment.max_unavailable, "max_surge": deployment.max_surge,
            "session_timeout_seconds": deployment.session_s, "leaves": deployment.leaves,
            "restart_seconds": asdict(deployment.restart),
            "unread_partition_seconds": asdict(found.unread),
            "duration_seconds": asdict(found.duration), "rebalances": asdict(found.rebalances),
            "reread_records": asdict(found.reread), "samples": found.samples,
            "client_lines": list(_client_lines(deployment, rows[0].deployment, group)),
            "kubernetes_lines": list(kubernetes_lines(deployment)),
        }  # fmt: skip

    return {
        "format": "partage-forecast", "version": 1, "group": group,
        "passed": not _exceeds(rows[0], max_unread), "max_unread": max_unread,
        "present": one(rows[0]), "alternatives": [one(row) for row in rows[1:]],
    }  # fmt: skip


def _print(
    group: str,
    rows: tuple[RolloutForecast, ...],
    max_unread: float | None,
    source: _Source,
) -> None:
    """Print the forecasts of one consumer group as a table, followed by the settings to change.

    The title says what a rolling deployment costs at present, and whether this exceeds the limit.

    Args:
        group: name of the group.
        rows: the forecast for the present settings, then alternatives.
        max_unread: largest acceptable time without a reader (partition-seconds); None without one.
        source: origin of the settings.
    """
    from partage.forecasts.rolling import kubernetes_lines

    now = rows[0]
    best = _best_settings(rows)
    deployment, restart = now.deployment, now.deployment.restart
    pods = _replaced_members(deployment)
    origin = f"learnt from {restart.count}" if restart.count else "given"
    verdict = ""
    if max_unread is not None:
        verdict = f"; {'over' if _exceeds(now, max_unread) else 'within'} {max_unread:g}"
    print_tables(
        styled_name(
            f"{short_name(group)}: a rolling deployment of {pods} "
            f"costs {_format_estimate(now.unread)} partition-seconds without a reader{verdict}",
            "bold red" if _exceeds(now, max_unread) else "bold",
        ),
        styled_name(
            f"{deployment.load.cluster.index.partitions} partitions; restart "
            f"{restart.median:.1f} s ({restart.low:.1f} to {restart.high:.1f}, {origin}); session "
            f"timeout {deployment.session_s:g} s; LeaveGroup at shutdown: "
            f"{'yes' if deployment.leaves and not deployment.policy.static else 'no'}"
            f"{_ASSUMED if source.leave_is_assumed and not deployment.policy.static else ''}"
        ),
        _table(rows, best, source),
    )
    if best is now:
        print_tables(styled_name(f"The {source.label} settings are the best of these."))
        return
    saved = 1 - best.unread.best / now.unread.best
    text = best.deployment.text_beside(deployment)
    if best.unread.high >= now.unread.low:
        print_tables(
            styled_name(
                f"No alternative is measurably better than the {source.label} settings ({text}: "
                f"{saved:.0%} less unread time, the intervals overlap)."
            )
        )
        return
    print_tables(styled_name(f"{text}: {saved:.0%} less unread time. Set", "bold"))
    lines = _client_lines(best.deployment, deployment, group)
    if lines and source.is_measured:
        print_tables(
            styled_name(
                "  # properties of the Java client: a measurement shows no client library", "dim"
            )
        )
    for line in (*lines, *kubernetes_lines(best.deployment)):
        print_tables(styled_name(f"  {line}", "dim" if line.startswith("#") else ""))


def _best_settings(rows: Sequence[RolloutForecast]) -> RolloutForecast:
    """Choose the forecast with the best settings for a rolling deployment of a consumer group.

    It is the one with the least unread time (time without a reader). Forecasts whose intervals
    overlap with it are equally good; among them, the one that changes the fewest settings is
    chosen. If the present settings are equally good, the result is the one with the least unread
    time.

    Args:
        rows: the forecast for the present settings, then alternatives.
    """
    now, least = rows[0], min(rows, key=lambda row: row.unread.best)
    if least is now or least.unread.high >= now.unread.low:
        return least
    equal = [
        row
        for row in rows
        if row.unread.low <= least.unread.high and row.unread.high < now.unread.low
    ]
    return min(
        equal, key=lambda row: (_count_changes(row.deployment, now.deployment), row.unread.best)
    )


def _count_changes(one: Deployment, other: Deployment) -> int:
    """Count the settings in which two forecast deployments of a consumer group differ.

    Examples of such settings are the rebalance protocol, the session timeout and Kubernetes'
    ``maxSurge``.
    """
    settings = (
        (
            each.policy.protocol, each.policy.short, each.policy.static, each.session_s,
            each.max_surge, each.max_unavailable,
        )
        for each in (one, other)
    )  # fmt: skip
    return sum(a != b for a, b in zip(*settings, strict=True))


def _replaced_members(deployment: Deployment) -> str:
    """Return a text that says how many members a deployment replaces.

    Examples are ``all 5 members`` and ``2 of 5 members``.
    """
    if deployment.members == 1:
        return "the only member"
    replaced = "all" if deployment.pods == deployment.members else f"{deployment.pods} of"
    return f"{replaced} {deployment.members} members"


def _client_lines(recommended: Deployment, present: Deployment, group: str) -> tuple[str, ...]:
    """Return the settings that make a rolling deployment cost less, as lines of text.

    They are client properties, keyword arguments for Python clients, commands for settings of the
    brokers, and comments.

    Args:
        recommended: the deployment with the recommended settings.
        present: the deployment with the present settings.
        group: name of the group.
    """
    from partage.report.client_settings import client_family, settings_lines, translate_lines

    if recommended.policy == present.policy and recommended.session_s == present.session_s:
        return ()
    family = client_family(recommended.clients)
    is_server = recommended.policy.protocol == "consumer"
    was_server = present.policy.protocol == "consumer"
    strategy = f"{'server:' if was_server else ''}{present.policy.short}"
    same = recommended.policy.short == present.policy.short and is_server == was_server
    found = settings_lines(
        recommended.policy.name, recommended.policy.short if same and not is_server else strategy,
        family=family,
    )  # fmt: skip
    lines = list(found or ())
    if found is None:
        clients = ", ".join(sorted(set(recommended.clients)))
        lines.append(
            f"# Python clients take assignor classes: set {recommended.policy.name} in code"
            f"{'; aiokafka lacks it' if recommended.policy.protocol == 'cooperative' else ''}"
            if family == "python"
            else f"# no common properties for {clients}: set {recommended.policy.name} in each"
        )
    if is_server and was_server:  # the group has the protocol: only static membership is new
        lines = [one for one in lines if one.startswith("group.instance.id")]
    if is_server and recommended.session_s > recommended.server_session_s:
        ms = int(1_000 * recommended.session_s)
        lines.append(
            f"kafka-configs.sh --alter --entity-type groups --entity-name {group} "
            f"--add-config consumer.session.timeout.ms={ms}"
        )
    elif recommended.session_s > present.session_s and not is_server:
        lines.append(f"session.timeout.ms={int(1_000 * recommended.session_s)}")
    return translate_lines(lines, family)


def _table(rows: tuple[RolloutForecast, ...], best: RolloutForecast, source: _Source) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("settings", overflow="fold")
    for column in ("unread (partition-s)", "duration (s)", "rebalances", "read twice"):
        table.add_column(column, justify="right")
    for i, row in enumerate(rows):
        text = row.deployment.text_beside(rows[0].deployment)
        text += f" ({source.label})" if i == 0 else ""
        table.add_row(
            styled_name(text),
            *map(_format_estimate, (row.unread, row.duration, row.rebalances, row.reread)),
            style="bold green" if row is best else "",
        )
    return table


def _format_estimate(estimate: Estimate) -> str:
    """Format an estimated value with its interval, such as ``12 (8 to 20)``.

    The first number is the best estimate. The interval is left out if it is very narrow.
    """
    if estimate.high - estimate.low < 0.05:
        return _number(estimate.best)
    return f"{_number(estimate.best)} ({_number(estimate.low)} to {_number(estimate.high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 or value == int(value) else f"{value:.1f}"
