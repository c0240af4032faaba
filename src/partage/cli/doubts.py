"""Warnings and remarks about a plan, on the terminal and in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partage.cli.consoles import first_of, name, show, tell

if TYPE_CHECKING:
    from partage.cli.assign import JudgedPlan

__all__ = ["settled", "show_withheld", "warn"]


def settled(found: JudgedPlan) -> dict[str, Any]:
    """Return the plan after the second step for JSON, where the first withholds something."""
    if not len(getattr(found.plan, "withheld", ())):
        return {}
    return {"settled": found.plan.settled().to_json()}  # type: ignore[attr-defined]  # a Plan


def show_withheld(found: JudgedPlan) -> None:
    """Show how many withheld partitions each member gets in the next rebalance."""
    withheld = getattr(found.plan, "withheld", ())
    if not len(withheld):
        return
    settled = found.plan.settled()  # type: ignore[attr-defined]  # it withholds: a Plan
    now = {pair for pairs in found.plan.to_pairs().values() for pair in pairs}
    to_come = {
        member: sum(pair not in now for pair in pairs)
        for member, pairs in settled.to_pairs().items()
    }
    who = ", ".join(f"{count} to {member}" for member, count in to_come.items() if count)
    if who:
        told = "the first of two steps: what changes hands goes to nobody yet, and follows in the"
        show(name(f"{told} next rebalance ({who})", "dim"))


def warn(lines: list[str]) -> None:
    """Print warnings on stderr, the first ones where there are many."""
    for line in first_of(lines):
        tell(f"warning: {line}", "yellow")
