"""Errors of a command: one line on stderr, and an exit code."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import typer

from partage.cli.console import print_message, shorten_message
from partage.errors import PartageError

__all__ = ["FAILED", "FAILED_CHECK", "FAILED_GROUP", "FAILED_JUDGE", "UNDECIDED", "exit_on_error"]

FAILED = 1
FAILED_JUDGE = 3
#: A run exceeds a limit, or is worse than another one.
FAILED_CHECK = 3
#: A replay was published, and an unforeseen exception ended some of its groups.
FAILED_GROUP = 4
#: The log has too little of the history for a decision.
UNDECIDED = 5
_INTERRUPTED = 130
#: The extra that installs an optional library, by the name of its top module.
_EXTRAS = {
    "aiokafka": "aiokafka", "aws_msk_iam_sasl_signer": "msk", "deltalake": "delta",
    "faust": "faust",
    "google_crc32c": "capture", "highspy": "plan", "jinja2": "report",
    "kafka": "capture", "markupsafe": "report", "numba": "fast",
    "pandas": "spark", "prometheus_client": "watch", "py4j": "spark", "pyarrow": "report",
    "pyiceberg": "iceberg", "pyspark": "spark",
}  # fmt: skip
#: Options of output files and folders, and the names of their parameters in the commands.
_OUTPUTS = {"--out": "to", "--page": "page", "--junit": "junit"}
_REPORT = "this is a mistake in Partage: run again with PARTAGE_DEBUG=1 and report what it prints"


def exit_on_error(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command so that an error becomes one line on stderr and an exit code.

    Without it, the user would see a traceback.
    """

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> None:
        try:
            _expect_stdout()
            for option, parameter in _OUTPUTS.items():
                if named.get(parameter) is not None:
                    from partage.model.validation import expect_local

                    expect_local(named[parameter], option)
            command(*arguments, **named)
            sys.stdout.flush()
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            print_message("interrupted")
            raise typer.Exit(_INTERRUPTED) from None
        except BrokenPipeError:
            # The reader (head, less) closed the pipe: this is no error.
            _close_stdout()
            raise typer.Exit(0) from None
        except Exception as e:
            if type(e).__module__.partition(".")[0] in {"typer", "click"}:
                raise  # wrong usage: typer prints it
            if os.environ.get("PARTAGE_DEBUG") == "1":
                raise
            if _is_interrupt(e):
                print_message("interrupted")
                raise typer.Exit(_INTERRUPTED) from None
            print_message(f"partage: {describe_error(e)}", "bold red")
            _close_if_full(e)
            raise typer.Exit(FAILED) from None

    return run


def _is_interrupt(error: BaseException) -> bool:
    """Return whether Ctrl-C is the direct or indirect cause of an error.

    For example, a clean-up after the interrupt may have failed.
    """
    seen: set[int] = set()
    causes: list[BaseException | None] = [error]
    while causes:
        one = causes.pop()
        if one is None or id(one) in seen:
            continue
        if isinstance(one, KeyboardInterrupt):
            return True
        seen.add(id(one))
        causes += [one.__cause__, one.__context__]
    return False


def _expect_stdout() -> None:
    if sys.stdout is None:
        raise OSError("standard output is closed: no result could be printed")


def describe_error(error: Exception) -> str:
    """Describe an error in one line of text: what is wrong, where, and what to do.

    It is printed on stderr before the command exits.
    """
    if isinstance(error, PartageError):
        return shorten_message(str(error))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        if not where and _is_stdout_failing(error):
            where = "standard output: "
        return f"{where}{error.strerror}" if error.strerror else str(error)
    if isinstance(error, MemoryError):
        return "not enough memory for this input"
    if isinstance(error, ImportError) and error.name:
        library = error.name.partition(".")[0]
        if library == "py4j":  # a dependency of pyspark that replay imports first
            library = "pyspark"
        if library in _EXTRAS:
            return f"{library} is not installed: pip install 'partage[{_EXTRAS[library]}]'"
    # Spark's message contains a worker's whole traceback; its last line is the error itself.
    message = (str(error).strip().splitlines() or ["no message"])[-1].strip()
    return f"unexpected {type(error).__name__}: {shorten_message(message)}; {_REPORT}"


def _is_stdout_failing(error: OSError) -> bool:
    if sys.stdout is None:
        return False
    try:
        sys.stdout.flush()
    except OSError as again:
        return again.errno == error.errno
    return False


def _close_if_full(error: Exception) -> None:
    # Otherwise Python's flush at exit would fail again on a full disk.
    if isinstance(error, OSError) and error.filename is None:
        _close_stdout()


def _close_stdout() -> None:
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        return
