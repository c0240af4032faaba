"""`partage streams`: a Streams application over time, assignors and settings side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.consoles import first_of, name, show, tell, write_json

if TYPE_CHECKING:
    from rich.table import Table

    from partage.simulation.streams import Application, Cell, Measures, Played

__all__ = ["streams"]

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
#: A page with more timelines than that is no page any more.
_MOST_ON_PAGE = 24
_TITLES = (
    "away\ns", "worst\ns", "restored", "spare", "cross-\nrack", "rebal-\nances", "moved", "spread",
)  # fmt: skip


def streams(
    application: Annotated[
        Path, typer.Argument(metavar="APP.json", help="Application as JSON; - reads stdin.")
    ],
    assignor: Annotated[
        list[str] | None,
        typer.Option(
            "--assignor", "-a", metavar="NAME", show_default=False,
            help="Who assigns tasks; repeatable. Without it, high availability.",
        ),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep", "-s", metavar="KEY=A,B,C", show_default=False,
            help="Play each of these values of a setting; repeatable.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    to: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="PAGE.html", help="Write a page with timelines.",
                     show_default=False),
    ] = None,
) -> None:  # fmt: skip
    """What standbys, warm-ups and settings buy: a Streams application played over time.

    The file tells sub-topologies with the state of their tasks, clients with racks, tags and
    restore bandwidth, and a trace: join, leave, crash, rollingRestart, scaleOut, brokerLag.

        partage streams app.json

        partage streams app.json -a high-availability -a legacy-sticky --out page.html

        partage streams app.json --sweep num.standby.replicas=0,1,2 --sweep max.warmup.replicas=1,4

    **away**: seconds without an active that has all its state, summed over tasks; **worst**: of
    the task that had most. **restored**: bytes read by copies that were behind. **spare**: mean
    bytes of state beside the actives'. **cross-rack**: bytes read from another rack. **rebalances**
    after the first; **moved**: tasks that came to run on another client. **spread**: mean of most
    minus fewest active tasks per thread.
    """
    from partage.cli.problems import read_problem
    from partage.simulation.streams import cells, played_cell, read

    app = read(read_problem(application))
    combinations = cells(assignor or ["streams:high-availability"], _sweeps(sweep or ()))
    if to is not None and len(combinations) > _MOST_ON_PAGE:
        what = f"a page shows at most {_MOST_ON_PAGE} combinations, these are {len(combinations)}"
        raise typer.BadParameter(what, param_hint="--out")
    found = [(cell, *_kept(played_cell(app, cell), keep=to is not None or as_json))
             for cell in combinations]  # fmt: skip
    if to is not None:
        _write_page(app, found, to)
    if as_json:
        write_json([_plain(*one) for one in found], indent=1)
    else:
        show(_table([(cell, measures) for cell, _, measures in found]))
        if len(found) == 1:
            _tell_worst(found[0][2])


def _write_page(
    app: Application, found: Sequence[tuple[Cell, Played | None, Measures]], to: Path
) -> None:
    from partage.report.streams import write_streams_page

    swept = list(dict(found[0][0].config))
    write_streams_page(
        [_plain(*one) for one in found],
        to,
        title=app.name,
        seconds=app.length_ms / 1000,
        heads=[
            "assignor",
            *swept,
            *(
                one.replace("rebal-\n", "rebal").replace("-\n", "-").replace("\n", " ")
                for one in _TITLES
            ),
        ],
        rows=[
            [cell.assignor.removeprefix("streams:"), *dict(cell.config).values(), *_cells(its)]
            for cell, _, its in found
        ],
    )
    tell(f"page: {to}")


def _kept(both: tuple[Played, Measures], *, keep: bool) -> tuple[Played | None, Measures]:
    """Ten thousand timelines are kept only if somebody looks at them."""
    return (both[0] if keep else None), both[1]


def _sweeps(given: Sequence[str]) -> dict[str, list[str]]:
    sweeps: dict[str, list[str]] = {}
    for one in given:
        key, equals, values = one.partition("=")
        listed = [value.strip() for value in values.split(",") if value.strip()]
        if not equals or not key.strip() or not listed:
            what = "a setting and its values: max.warmup.replicas=1,2,4"
            raise typer.BadParameter(what, param_hint="--sweep")
        if key.strip() in sweeps:
            raise typer.BadParameter(f"{key.strip()} is there twice", param_hint="--sweep")
        sweeps[key.strip()] = list(dict.fromkeys(listed))
    return sweeps


def _plain(cell: Cell, played: Played | None, measures: Measures) -> dict[str, Any]:
    return {
        "assignor": cell.assignor,
        "settings": dict(cell.config),
        "measures": measures.to_dict(),
        **(played.to_dict() if played else {}),
    }


def _table(found: Sequence[tuple[Cell, Measures]]) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    table.add_column("assignor", overflow="fold", min_width=10)
    for key in dict(found[0][0].config):
        table.add_column(key.replace(".", ".\n"), justify="right", no_wrap=True)
    for title in _TITLES:
        table.add_column(title, justify="right", no_wrap=True)
    for cell, its in found:
        table.add_row(
            name(cell.assignor.removeprefix("streams:")),
            *(name(value) for _, value in cell.config),
            *map(name, _cells(its)),
        )
    return table


def _cells(its: Measures) -> list[str]:
    return [
        f"{its.total_unavailable:,.1f}",
        f"{its.worst_unavailable:,.1f}",
        amount(its.restored_bytes),
        amount(its.standby_bytes),
        amount(its.cross_rack_bytes),
        str(its.rebalances),
        str(its.moved),
        f"{its.spread:.2f}",
    ]


def amount(count: float) -> str:
    """Bytes as one reads them.

    >>> amount(12_300_000)
    '12.3 MB'
    """
    unit = 0
    while count >= 999.95 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.1f} {_UNITS[unit]}" if unit else f"{count:.0f} B"


def _tell_worst(its: Measures) -> None:
    away: Mapping[str, float] = its.unavailable_seconds
    worst = sorted((task for task in away if away[task] > 0), key=lambda t: (-away[t], t))
    for line in first_of([f"task {task} was away for {away[task]:,.1f} s" for task in worst]):
        show(name(line, "dim"))
