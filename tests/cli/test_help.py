"""The help of the command line, which is printed without an import of the commands."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.main import get_command

from partage.cli.app import COMMANDS, app


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_first_sentence_of_the_commands_help(name: str) -> None:
    """`partage --help` and `partage COMMAND --help` agree."""
    command = get_command(app).commands[name]  # type: ignore[attr-defined]  # a group
    assert COMMANDS[name][1] == command.help.partition("\n\n")[0].replace("\n", " ")


def test_help_imports_no_command() -> None:
    """`partage --help` lists commands that it does not import."""
    code = (
        "import sys; from partage.cli import main; sys.argv = ['partage', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([f'partage.cli.{m}' in sys.modules for m in ('replay', 'assign', 'reassign')])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "reassign" in out
    assert out.splitlines()[-1] == "[False, False, False]"
