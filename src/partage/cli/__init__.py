"""The command line: one subcommand per file; heavy modules are imported inside the command.

Exit codes: 0 done, 1 an error of ours (one line on stderr), 2 wrong usage, 3 a plan broke a rule of
Kafka, an audit found broken joins or a run exceeds a limit, 4 a replay was published without groups
that failed, 5 the log has too little for a decision, 130 interrupted.

* all commands: `app` (table of subcommands, entry point), `options` (shared options),
  `command_errors` (one line on stderr, exit code), `console` (stdout, stderr, JSON), `progress`,
  `secrets` (hidden in everything on stderr);
* one problem or live groups: `assign`, `groups` (`compare` and `groups`), `strategies`, with
  `problems` (input); `keys`, with `key_results` (output); `audit`; `place`; `reassign`; `streams`;
* recordings: `capture`, `decode`, `replay`, `watch`;
* finished runs: `report`, `owner`, `diff`, `check`;
* planned changes: `forecast`, `size`, with `forecast_options`; `migrate`.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line ``partage``: set up the terminal, and call the subcommand.

    From then on, secrets are hidden on stderr.
    """
    import sys

    from partage.cli.app import app
    from partage.cli.console import escape_unencodable
    from partage.cli.secrets import guard_stderr

    escape_unencodable()
    guard_stderr(sys.argv[1:])
    app(prog_name="partage")
