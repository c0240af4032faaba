"""`partage streams --decide`: one rebalance of a Streams application from given lags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from partage.cli.consoles import name, show, tell, write_json

if TYPE_CHECKING:
    from rich.table import Table

    from partage.simulation.streams import SweepCell
    from partage.simulation.streams.decision import LeaderDecision

__all__ = ["show_decisions"]


def show_decisions(
    problem: Mapping[str, Any], cells: Sequence[SweepCell], *, as_json: bool
) -> None:
    """Print what each assignor decides on a given state, for each combination of settings.

    Raises:
        PartageError: the problem, a setting or an assignor is refused.
    """
    from partage.errors import InvalidConfigError
    from partage.simulation.streams.decision import GivenClientStates, decide, read_client_states
    from partage.simulation.streams.sweep import prepared
    from partage.streams.kip1071_sticky import ServerSticky

    state = read_client_states(problem)
    found: list[tuple[SweepCell, LeaderDecision]] = []
    for cell in cells:
        application, assignor = prepared(state.application, cell)
        if isinstance(assignor, ServerSticky):
            what = "assigns without lags (KIP-1071): there is no decision from lags"
            raise InvalidConfigError("--assignor", what, assignor.name)
        given = GivenClientStates(application, state.active, state.standby, state.lags)
        found.append((cell, decide(given, assignor)))
    if as_json:
        rows = [{**one.to_dict(), "settings": dict(cell.config)} for cell, one in found]
        write_json(rows, indent=1)
        return
    for line in dict.fromkeys(line for _, one in found for line in one.warnings):
        tell(f"warning: {line}", "yellow")
    for cell, one in found:
        settings = [f"{key}={value}" for key, value in cell.config]
        if len(found) > 1:
            show(name(", ".join([one.assignor.removeprefix("streams:"), *settings]), "bold"))
        show(_table(one))
        for line in _next(one):
            show(name(line))


def _table(one: LeaderDecision) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    for title in ("client", "active", "standby", "warm-up"):
        table.add_column(title, overflow="fold")
    for number, client in enumerate(one.clients):
        tasks = one.tasks_of(number)
        row = (", ".join(tasks[role]) or "-" for role in ("active", "standby", "warmup"))
        table.add_row(name(client), *map(name, row))
    return table


def _next(one: LeaderDecision) -> list[str]:
    """Return what follows the rebalance: the follow-up, then the probing rebalance."""
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
