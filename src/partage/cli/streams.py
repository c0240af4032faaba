"""`partage streams`: a Streams application over time, assignors and settings side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.console import (
    first_lines,
    fits_terminal,
    format_bytes,
    print_message,
    print_tables,
    styled_name,
    write_json,
)
from partage.cli.options import (
    OutputOptions,
    SparkMaster,
    named_options,
    output_option,
    with_options,
    write_picture,
)
from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from partage.commands.applications import DescribedApplication, SimulatedCell
    from partage.simulation.streams import (
        SimulatedApplication,
        StandbyGain,
        StreamsMetrics,
        SweepCell,
        TraceEvent,
    )
    from partage.simulation.streams.decision import LeaderDecision

__all__ = ["streams"]

#: Beginning of the names of task assignors of the group coordinator (KIP-1071).
_SERVER_PREFIX = "streams:server-"
#: Most timelines on one page.
_MOST_ON_PAGE = 24
#: Applications of a capture that an error names.
_MOST_NAMED = 10
#: Show progress from this number of combinations.
_WORTH_TELLING = 8
_STAGES = {"start Spark": "starting Spark", "play": "playing combinations"}
_TITLES = (
    "away\ns", "worst\ns", "restored", "spare", "cross-\nrack", "rebal-\nances", "moved", "spread",
)  # fmt: skip


@with_options
def streams(
    application: Annotated[
        Path | None,
        typer.Argument(metavar="[APP.json]", show_default=False,
                       help="Application as JSON; - reads stdin."),
    ] = None,
    *,
    from_capture: Annotated[
        Path | None,
        typer.Option("--from-capture", metavar="CAPTURE", show_default=False,
                     help="Describe an application of this capture as a file for partage streams."),
    ] = None,
    application_id: Annotated[
        str | None,
        typer.Option("--application-id", metavar="ID", show_default=False,
                     help="Which application of the capture (application.id)."),
    ] = None,
    assignor: Annotated[
        list[str] | None,
        typer.Option(
            "--assignor", "-a", metavar="NAME", show_default=False,
            help="Task assignor; repeatable. Without it, high availability.",
        ),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep", metavar="KEY=A,B,C", show_default=False,
            help="Simulate each of these values of a setting; repeatable.",
        ),
    ] = None,
    to: Annotated[
        Path | None, output_option("Page with timelines, or description.", "FILE")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", show_default=False,
                     help="Write a picture of the result as SVG. Needs --from-capture."),
    ] = None,
    decide: Annotated[
        bool,
        typer.Option("--decide", help="Print one rebalance from the lags in the file."),
    ] = False,
    master: SparkMaster = None,
    output: OutputOptions,
) -> None:  # fmt: skip
    """Simulate a Streams application over time: the gain from standbys, warm-ups and settings.

    The file describes sub-topologies with the state of their tasks, clients with racks, tags and
    restore bandwidth, and a trace: join, leave, crash, rollingRestart, scaleOut, brokerLag.

        partage streams app.json

        partage streams app.json -a high-availability -a legacy-sticky --out page.html

        partage streams app.json --sweep num.standby.replicas=0,1,2 --sweep max.warmup.replicas=1,4

        partage streams state.json --decide -a kip-441-document --sweep balance_factor=1,2

        partage streams --from-capture capture --application-id shop --out shop.json

    `--from-capture` writes the description of a recorded application, with the crash of a client,
    and says what the last standby of each task, or a first one, buys and costs. `--picture` draws
    it.

    `--decide` simulates nothing. Clients in the file have `active`, `standby` and `lags`; the
    output is which client gets which active, standby and warm-up tasks, and when the next rebalance
    follows.

    Sweeps of many combinations are simulated in parallel on Spark: `--master "local[*]"`.

    **away**: seconds without an active that has all its state, summed over tasks; **worst**: the
    same for the task that had most. **restored**: bytes read by copies that were behind.
    **spare**: mean bytes of state apart from that of active tasks. **cross-rack**: bytes read
    from another rack. **rebalances** after the first; **moved**: tasks that moved to another
    client. **spread**: mean of most
    minus fewest active tasks per thread.
    """
    if from_capture is not None or application_id is not None:
        if from_capture is None or application is not None:
            what = "give both --from-capture and --application-id, and no APP.json"
            raise typer.BadParameter(what)
        if application_id is None:
            what = f"name the application: {_name_applications(from_capture)}"
            raise typer.BadParameter(what, param_hint="--application-id")
        _reject_simulation_options({
            "--assignor": assignor, "--sweep": sweep, "--decide": decide or None,
            "--master": master,
        })  # fmt: skip
        _describe_application(from_capture, application_id, to, picture, output)
        return
    if picture is not None:
        what = "it draws what a standby buys a recorded application; --out FILE draws timelines"
        raise typer.BadParameter(what, param_hint="--picture")
    if application is None:
        raise typer.BadParameter("give APP.json, or --from-capture and --application-id")
    from partage.cli.problems import read_problem
    from partage.cli.progress import show_progress
    from partage.commands.applications import simulate_streams
    from partage.simulation.streams import read_application, sweep_cells

    names = assignor or ["streams:high-availability"]
    sweeps = _sweeps(sweep or ())
    combinations = sweep_cells(names, sweeps)
    if decide:
        if to is not None or master is not None:
            what = "it prints one rebalance; --out and --master are for a simulation over time"
            raise typer.BadParameter(what, param_hint="--decide")
        show_decisions(read_problem(application), names, sweeps, as_json=output.as_json)
        return
    app = read_application(read_problem(application))
    if to is not None and len(combinations) > _MOST_ON_PAGE:
        what = f"a page shows at most {_MOST_ON_PAGE} combinations, these are {len(combinations)}"
        raise typer.BadParameter(what, param_hint="--out")
    keep = to is not None or output.as_json
    quiet = output.quiet or (master is None and len(combinations) < _WORTH_TELLING)
    with show_progress(_STAGES, quiet=quiet) as progress:
        found = simulate_streams(
            app, assignors=names, sweeps=sweeps, timelines=keep, master=master, progress=progress
        )
    prefix, why = cross_rack_marks(app)
    configs = [dict(cell.config) for cell in combinations]
    group_note = _streams_group_note(app.config, names)
    for line in (rack_note(app, configs), *standby_notes(app, configs), why, group_note):
        if line is not None:
            print_message(line)
    if to is not None:
        _write_page(app, found, to, prefix)
    if output.as_json:
        write_json([_plain(app, *one) for one in found], indent=1)
    else:
        table = _table(found, prefix)
        if fits_terminal(table):
            print_tables(table)
        else:
            print_tables(*_blocks(found, prefix))
        if len(found) == 1:
            _tell_worst(app, found[0][1])


def _streams_group_note(settings: Mapping[str, object], assignors: Sequence[str]) -> str | None:
    """Return a warning if settings for streams groups have no effect on an application.

    They only have an effect if the group coordinator assigns the tasks (KIP-1071). The result is
    None if there is nothing to warn of.

    Args:
        settings: the application's settings.
        assignors: names of the task assignors that are simulated.
    """
    given = sorted(key for key in settings if key.startswith("streams."))
    names = [one if one.startswith("streams:") else f"streams:{one}" for one in assignors]
    if not given or any(one.startswith(_SERVER_PREFIX) for one in names):
        return None
    return (
        f"{', '.join(given)}: settings of a streams group (KIP-1071), which is simulated with "
        "-a server-sticky or -a server-sticky@4.3"
    )


def _name_applications(source: Path) -> str:
    """Return the ids of the Kafka Streams applications in a recording, for an error message.

    ``source`` is the folder of the recording.
    """
    from partage.commands.applications import streams_application_ids

    names = streams_application_ids(source)
    if not names:
        return "the capture has none"
    return ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")


def _reject_simulation_options(options: Mapping[str, object]) -> None:
    """Raise an error if an option is set that has no effect with ``--from-capture``.

    ``options`` has the values of all such options by name.

    Raises:
        typer.BadParameter: such an option is given.
    """
    for option, value in options.items():
        if value is not None and value != []:
            what = "is for APP.json: --from-capture writes one"
            raise typer.BadParameter(what, param_hint=option)


def _describe_application(
    source: Path,
    application_id: str,
    to: Path | None,
    picture: Path | None,
    output: OutputOptions,
) -> None:
    """Write the description of a recorded Kafka Streams application, and print a standby's gain.

    The gain is how much shorter an outage would be with one more standby replica.

    Args:
        source: folder of the recording.
        application_id: its ``application.id``.
        to: path of the JSON file.
        picture: path of an SVG picture of the gain; None for none.
        output: whether to print tables or JSON.
    """
    from partage.commands.applications import describe_streams

    with named_options(application_id="--application-id", path="--out"):
        try:
            found = describe_streams(source, application_id)
        except InvalidConfigError as e:
            if e.setting != "application_id":
                raise
            what = f"{e.what}; Streams groups: {_name_applications(source)}"
            raise InvalidConfigError(e.setting, what, e.value) from None
        file = re.sub(r"[^\w.-]", "_", application_id)
        path = found.write(to or Path(f"{file}.json"))
    if picture is not None:
        _draw_standby_gain(found, application_id, picture)
    if output.as_json:
        gain = None if found.gain is None else asdict(found.gain)
        write_json({
            "format": "partage-streams-capture", "version": 1, "application": application_id,
            "file": str(path), "assignor": found.assignor, "standby": gain,
            "source_lag": found.source_lag, "notes": list(found.notes),
        })  # fmt: skip
        return
    for note in found.notes:
        print_message(note, "dim")
    described = found.description
    tasks = sum(max(one["sources"].values()) for one in described["subtopologies"])
    clients = len(described["clients"])
    lag = "" if found.source_lag is None else f", {found.source_lag:,} records behind"
    print_tables(
        styled_name(
            f"{application_id}: {len(described['subtopologies'])} sub-topologies, {tasks} tasks, "
            f"{clients} client{'' if clients == 1 else 's'}{lag}; description: {path}"
        ),
        styled_name(_gain_sentence(found, clients), "bold"),
    )
    if found.assignor.startswith(_SERVER_PREFIX):
        assignor = found.assignor.removeprefix("streams:")
        what = f"other settings of this streams group: partage streams {path} -a {assignor} --sweep"
        print_message(f"{what} KEY=V1,V2", "dim")


def _draw_standby_gain(described: DescribedApplication, application_id: str, picture: Path) -> None:
    """Draw an SVG picture of how one more standby replica shortens an outage in Kafka Streams.

    A note is printed instead if the outage time is unknown.

    Args:
        described: the application with the simulated gain of a standby.
        application_id: its ``application.id``.
        picture: path of the SVG file.
    """
    if described.gain is None:
        print_message("no picture: the application has no state, or its size is unknown")
        return
    from partage.forecasts.pictures import standby_picture

    write_picture(
        picture, standby_picture(described.gain, application_id, _describe_cost(described.gain))
    )


def _describe_cost(gain: StandbyGain) -> str:
    """Describe in words what one more standby replica of Kafka Streams tasks costs.

    The costs are disk space and changelog reads.
    """
    cost = f"costs {format_bytes(gain.disk_bytes)} of disk"
    if gain.write_bytes_per_second:
        cost += f" and {format_bytes(gain.write_bytes_per_second)}/s of changelog reads"
    return cost


def _gain_sentence(described: DescribedApplication, clients: int) -> str:
    """Describe in a sentence what one more standby of each Kafka Streams task gains and costs.

    The gain is a shorter outage after a client (instance) has crashed and lost its disk.

    Args:
        described: the application, with the simulated gain.
        clients: number of its clients (instances).
    """
    gain = described.gain
    if gain is None:
        return "no answer about standbys: the application has no state, or its size is unknown"
    what = "one standby" if gain.standbys == 1 else f"standby {gain.standbys} of each task"
    what += " (as now)" if gain.is_present else ""
    if clients <= gain.standbys:
        return f"{what}: buys nothing, because no client is left for it ({clients} in the capture)"
    crashed = described.description["events"][0]["client"]
    cost = _describe_cost(gain)
    before, after = f"{gain.worst_s:,.0f} s", f"{gain.worst_with_s:,.0f} s"
    crash = f"when {crashed} crashes and loses its disk"
    if round(gain.worst_with_s) < round(gain.worst_s):
        return f"{what}: worst outage {before} to {after} {crash}; {cost}"
    sentence = f"{what}: no shorter worst outage ({before} without, {after} with it) {crash}"
    if gain.handover_s:
        sentence += (
            f", because a member of a streams group releases its standby one heartbeat "
            f"({gain.handover_s:g} s) before it runs the task"
        )
    return f"{sentence}; {cost}"


def _write_page(
    app: SimulatedApplication, found: Sequence[SimulatedCell], to: Path, prefix: str
) -> None:
    from partage.report.streams import write_streams_page

    swept = list(dict(found[0][0].config))
    write_streams_page(
        [_plain(app, *one) for one in found],
        to,
        title=app.name,
        seconds=app.length_ms / 1000,
        heads=[
            "assignor",
            # Where a long name may be broken.
            *(key.replace(".", ".\u200b") for key in swept),
            *(
                one.replace("rebal-\n", "rebal").replace("-\n", "-").replace("\n", " ")
                for one in _TITLES
            ),
        ],
        rows=[
            [
                cell.assignor.removeprefix("streams:"),
                *dict(cell.config).values(),
                *_cells(its, prefix),
            ]
            for cell, its, _ in found
        ],
        events=event_labels(app),
        subtopologies=subtopology_lines(app),
    )
    print_message(f"page: {to}")


def _sweeps(given: Sequence[str]) -> dict[str, list[str]]:
    sweeps: dict[str, list[str]] = {}
    for one in given:
        key, equals, values = one.partition("=")
        listed = [value.strip() for value in values.split(",") if value.strip()]
        if not equals or not key.strip() or not listed:
            what = "a setting and its values: max.warmup.replicas=1,2,4"
            raise typer.BadParameter(what, param_hint="--sweep")
        if key.strip() in sweeps:
            raise typer.BadParameter(f"{key.strip()} is given twice", param_hint="--sweep")
        sweeps[key.strip()] = list(dict.fromkeys(listed))
    return sweeps


def _plain(
    app: SimulatedApplication, cell: SweepCell, measures: StreamsMetrics, played: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "assignor": cell.assignor,
        "settings": dict(cell.config),
        "config": {**app.config, **dict(cell.config)},
        "measures": measures.to_dict(),
        **played,
    }


def _blocks(found: Sequence[SimulatedCell], prefix: str) -> list[Text]:
    titles = [title.replace("-\n", "").replace("\ns", " s") for title in _TITLES]
    lines = []
    for cell, its, _ in found:
        config = [f"{key}={value}" for key, value in cell.config]
        lines.append(
            styled_name(", ".join([cell.assignor.removeprefix("streams:"), *config]), "bold")
        )
        figures = zip(titles, _cells(its, prefix), strict=True)
        lines.append(styled_name("  " + ", ".join(f"{title} {value}" for title, value in figures)))
    return lines


def _table(found: Sequence[SimulatedCell], prefix: str) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    table.add_column("assignor", overflow="fold", min_width=10)
    for key in dict(found[0][0].config):
        table.add_column(key.replace(".", ".\n"), justify="right", no_wrap=True)
    for title in _TITLES:
        table.add_column(title, justify="right", no_wrap=True)
    for cell, its, _ in found:
        table.add_row(
            styled_name(cell.assignor.removeprefix("streams:")),
            *(styled_name(value) for _, value in cell.config),
            *map(styled_name, _cells(its, prefix)),
        )
    return table


def _cells(its: StreamsMetrics, prefix: str = "") -> list[str]:
    across = "-" if prefix == "-" else f"{prefix} {format_bytes(its.cross_rack_bytes)}".strip()
    return [
        f"{its.total_unavailable:,.1f}",
        f"{its.worst_unavailable:,.1f}",
        format_bytes(its.restored_bytes),
        format_bytes(its.standby_bytes),
        across,
        f"{its.rebalances:,}",
        f"{its.moved:,}",
        f"{its.spread:.2f}",
    ]


def _tell_worst(app: SimulatedApplication, its: StreamsMetrics) -> None:
    away: Mapping[str, float] = its.unavailable_seconds
    worst = sorted((task for task in away if away[task] > 0), key=lambda t: (-away[t], t))
    for line in first_lines([f"task {task} was away for {away[task]:,.1f} s" for task in worst]):
        print_tables(styled_name(line, "dim"))
    if worst:
        for line in subtopology_lines(app):
            print_tables(styled_name(f"sub-topology {line}", "dim"))


_MOST_NAMED = 5


def _without_racks(app: SimulatedApplication, *, changelogs: bool = True) -> list[str]:
    layout = app.layout
    rows = [*layout.partitions_of.values(), *(layout.changelogs_of.values() if changelogs else ())]
    topics = {topic for row in rows for topic, _ in row}
    return sorted(topic for topic in topics if not all(app.racks.get(topic, [None])))


def cross_rack_marks(app: SimulatedApplication) -> tuple[str, str | None]:
    """Return how exact a Kafka Streams application's cross-rack traffic is, as marks for a table.

    The traffic cannot be computed for topics whose racks are unknown.

    Args:
        app: the simulated application.

    Returns:
        A prefix, "-" if the traffic is unknown, ">=" if it is a lower bound, else ""; and a note
            with the topics whose racks are unknown, or None.
    """
    if not app.racks or all(client.rack is None for client in app.clients.values()):
        return "-", None
    missing = _without_racks(app)
    if missing:
        return ">=", f"cross-rack: the racks of these topics are unknown: {_some(missing)}"
    return "", None


def rack_note(app: SimulatedApplication, configs: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why Kafka Streams' rack-aware strategy has no effect for an application, as a warning.

    Kafka ignores the strategy in the same cases, for example if racks are unknown. None if the
    strategy has an effect or is not set.

    Args:
        app: the simulated Streams application.
        configs: the compared configurations.
    """
    key = "rack.aware.assignment.strategy"
    asking = [
        every
        for config in configs
        if (every := {**app.config, **config}).get(key, "none") != "none"
    ]
    if not asking:
        return None
    # Without standbys nobody looks at the racks of changelogs.
    standbys = any(int(every.get("num.standby.replicas", 0)) for every in asking)
    missing = _without_racks(app, changelogs=standbys)
    homeless = sorted(name for name, one in app.clients.items() if one.rack is None)
    why = [f"the racks are unknown of {_some(missing)}"] if missing else []
    why += [f"{_some(homeless)} {'has' if len(homeless) == 1 else 'have'} none"] if homeless else []
    return f"{key} has no effect: {'; '.join(why)}" if why else None


def standby_notes(app: SimulatedApplication, configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return warnings if a Kafka Streams application has too few clients for its standby replicas.

    A client is an instance of the application. Two replicas of a task never share a client.

    Args:
        app: the simulated Streams application.
        configs: the compared configurations; `num.standby.replicas` is read from each.
    """
    from partage.streams.standbys import standby_shortage

    key = "num.standby.replicas"
    wanted = dict.fromkeys(int({**app.config, **config}.get(key, 0)) for config in configs)
    notes = (standby_shortage(replicas, len(app.clients)) for replicas in wanted)
    return [f"warning: {note}" for note in notes if note is not None]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def subtopology_lines(app: SimulatedApplication) -> list[str]:
    """Describe each sub-topology of a Kafka Streams application in a line of text.

    A line has the sub-topology's number, source topics and state stores. The number is the first
    part of a task id, such as 1 in ``1_0``.
    """
    lines = []
    for one in app.topology.subtopologies:
        stores = [
            log.removeprefix(f"{app.name}-").removesuffix("-changelog") for log in one.changelogs
        ]
        kept = f", keeps {', '.join(stores)}" if stores else ""
        lines.append(f"{one.number}: reads {', '.join(one.sources)}{kept}")
    return lines


def event_labels(app: SimulatedApplication) -> list[dict[str, Any]]:
    """Return the time (s) and a description of each simulated event in a Kafka Streams application.

    An event is, for example, a crash. The descriptions are shown on a page with timelines.
    """
    return [{"at": one.at_ms / 1000, "label": _event(one)} for one in app.events]


def _event(one: TraceEvent) -> str:
    words = [one.kind, *one.clients[:_MOST_NAMED]]
    if one.kind == "brokerLag":
        words.append(f"for {one.for_ms / 1000:,.0f} s, {one.factor:.0%} of the rate")
    if one.kind == "crash" and not one.disk:
        words.append("without its disk")
    if one.back_ms is not None:
        words.append(f"back after {one.back_ms / 1000:,.0f} s")
    return " ".join(words)


def show_decisions(
    problem: Mapping[str, Any],
    assignors: Sequence[str],
    sweeps: Mapping[str, Sequence[str]],
    *,
    as_json: bool,
) -> None:
    """Print the tasks that each Kafka Streams task assignor gives to each client in one rebalance.

    A client is an application instance. Each assignor is combined with each combination of the
    setting values to try.

    Args:
        problem: clients and tasks as a JSON object.
        assignors: names of the task assignors.
        sweeps: values to try by setting; each combination is printed.
        as_json: whether to print JSON.

    Raises:
        PartageError: the problem, a setting or an assignor is invalid.
    """
    from partage.commands.applications import decide_streams

    with named_options(assignors="--assignor"):
        found = decide_streams(problem, assignors=assignors, sweeps=sweeps)
    if as_json:
        rows = [{**one.to_dict(), "settings": dict(cell.config)} for cell, one in found]
        write_json(rows, indent=1)
        return
    for line in dict.fromkeys(line for _, one in found for line in one.warnings):
        print_message(f"warning: {line}", "yellow")
    for cell, one in found:
        settings = [f"{key}={value}" for key, value in cell.config]
        if len(found) > 1:
            print_tables(
                styled_name(", ".join([one.assignor.removeprefix("streams:"), *settings]), "bold")
            )
        print_tables(_decision_table(one))
        for line in _next(one):
            print_tables(styled_name(line))


def _decision_table(one: LeaderDecision) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    for title in ("client", "active", "standby", "warm-up"):
        table.add_column(title, overflow="fold")
    for number, client in enumerate(one.clients):
        tasks = one.tasks_of(number)
        row = (", ".join(tasks[role]) or "-" for role in ("active", "standby", "warmup"))
        table.add_row(styled_name(client), *map(styled_name, row))
    return table


def _next(one: LeaderDecision) -> list[str]:
    lines = []
    if one.revoked:
        tasks = ", ".join(map(str, one.revoked))
        lines.append(
            f"follow-up rebalance: at once; previous owners release {tasks} in this rebalance,"
            " the new owners get them in the follow-up"
        )
    if one.plan.follow_up:
        clients = ", ".join(one.clients[number] for number in one.plan.follow_up)
        lines.append(f"follow-up rebalance: at once, requested by {clients}")
    if one.probing_after_ms is None:
        lines.append("probing rebalance: none")
    else:
        lines.append(f"probing rebalance: after {one.probing_after_ms / 1000:,.0f} s")
    return lines
