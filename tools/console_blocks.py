"""Write the output of the commands in the console blocks of README and docs; --check only compares.

    python tools/console_blocks.py [--check] [--run FOLDER]

A block of language ``console`` has lines that begin with ``$ partage``, each followed by its
output. Commands run in an empty folder with ``examples`` in it. Blocks that name ``demo-out``
need the output folder of `partage demo` (``--run``); without it they are left out.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
DEMO = "demo-out"
#: Commands that take long or print times: only their text is shown.
NOT_RUN = ("partage demo", "partage replay")


def pages() -> list[Path]:
    """Return the pages that have console blocks."""
    every = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in every if BLOCK.search(page.read_text(encoding="utf-8"))]


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a block with its output, both as written."""
    for part in filter(None, re.split(r"^(?=\$ )", block, flags=re.MULTILINE)):
        first, _, output = part.partition("\n")
        if not first.startswith("$ partage "):
            raise ValueError(f"not a command of partage: {first!r}")
        yield first[2:], output


def run(command: str) -> str:
    """Return what a command prints, standard error included, without blanks at line ends."""
    from partage.cli.app import app

    done = CliRunner().invoke(app, shlex.split(command)[1:], prog_name="partage")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return "".join(f"{line.rstrip()}\n" for line in done.output.splitlines())


def renewed(text: str, folder: Path | None) -> str:
    """Return a page with the output of its commands as they print it now.

    Args:
        text: the page.
        folder: output folder of `partage demo`; None leaves out the blocks that need it.
    """

    def block(found: re.Match[str]) -> str:
        whole = found[0]
        if DEMO in whole and folder is None:
            return whole
        return "".join(
            f"$ {command}\n{output if command.startswith(NOT_RUN) else run(command)}"
            for command, output in commands(whole)
        )

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        Path("examples").symlink_to(ROOT / "examples")
        if folder is not None:
            Path(DEMO).symlink_to(folder.resolve())
        try:
            return BLOCK.sub(block, text)
        finally:
            os.chdir(before)


def main() -> int:
    """Exit code 1 if --check was given, and the output on a page is not what is printed now."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", type=Path)
    given = parser.parse_args()
    stale = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        made = renewed(text, given.run)
        if made == text:
            continue
        if given.check:
            stale = 1
            print(f"{page.relative_to(ROOT)}: output differs; run {Path(__file__).name}")
        else:
            page.write_text(made, encoding="utf-8")
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
