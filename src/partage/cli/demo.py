"""`partage demo`: the recorded history of a real cluster, replayed; opens on the report."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from partage.cli.consoles import name, out
from partage.cli.replay import Wanted, replay_and_report

__all__ = ["demo"]


def demo(
    to: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for tables and report.")
    ] = Path("partage-demo"),
    open_it: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open", show_default=False,
            help="Open the report in a browser; by default if there is a screen.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Replay the recorded history of a real Kafka cluster on Spark, and open the report.

    The recording ships with Partage: 94,434 records of `__consumer_offsets` that Kafka 4.3.1
    wrote in eight minutes, while some thirty-five groups joined, left, crashed and froze. It
    takes half a minute on two cores; Java 17 must be there, nothing else is started.

        partage demo

        partage demo --out /tmp/demo --no-open
    """
    console = out()
    what = f"the recorded history of a real Kafka cluster, told of in {sample() / 'README.md'}"
    console.print(name(what, "dim"), soft_wrap=True)
    replay_and_report(sample(), to, Wanted(), open_it=open_it)


def sample() -> Path:
    """The folder of the recording."""
    return Path(str(resources.files("partage"))) / "sample"
