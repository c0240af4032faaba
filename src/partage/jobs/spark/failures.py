"""Turn errors of Spark, Java and Python workers into Partage's own errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from partage import errors
from partage.errors import (
    InvalidCaptureError,
    InvalidConfigError,
    PartageError,
    SparkFailedError,
)

__all__ = ["java_message", "job_errors", "jvm_errors", "worker_errors", "write_errors"]

_AGAIN = "nothing was published; run again"


@contextmanager
def job_errors(out: Path) -> Iterator[None]:
    """Convert Spark's errors in a ``with`` block to Partage errors with a clear message.

    The block runs a Spark job that reads a capture and writes tables. ``out`` is the output folder,
    for the message.

    Raises:
        InvalidCaptureError: a worker could not read the capture.
        InvalidConfigError: a table cannot be written.
        SparkFailedError: a worker was killed.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PythonException

    try:
        with write_errors(out):
            yield
    except PythonException as e:
        _raise_known(str(e), out)
        raise
    except Py4JJavaError as e:  # a worker's error too, where rows come one by one
        _raise_known(_text(e), out)
        if re.search(r"Python worker exited|pyspark\.daemon", _text(e)):
            what = "a Python worker ended in the middle of the run (killed, or out of memory?)"
            raise SparkFailedError(f"{what}: {_AGAIN}") from None
        raise


@contextmanager
def write_errors(out: Path) -> Iterator[None]:
    """Convert file system errors in a ``with`` block that writes tables to a Partage error.

    For example, the disk is full. ``out`` is the output folder, for the message.

    Raises:
        InvalidConfigError: a table cannot be written.
    """
    try:
        yield
    except ConnectionError:
        raise  # the JVM's: see `jvm_errors`
    except OSError as e:
        what = f"cannot be written ({e.strerror or e})"
        raise InvalidConfigError("out", what, e.filename or str(out)) from None


def _raise_known(trace: str, out: Path) -> None:
    """Raise the Partage error that the traceback of a Spark worker names, if there is one.

    A file system error in the traceback is raised as an error about the output folder.

    Args:
        trace: text of the traceback.
        out: the output folder, for the message.
    """
    said = re.search(r"partage\.errors\.InvalidCaptureError: (.+)", trace)
    if said is not None:
        raise InvalidCaptureError(said[1].strip()) from None
    # Workers read under `InvalidCaptureError`: what else the system refuses is a table's file.
    said = re.search(r"^\w*Error: \[Errno \d+\] (.+)$", trace, re.MULTILINE)
    if said is not None:
        raise InvalidConfigError("out", f"cannot be written ({said[1]})", str(out)) from None


def java_message(error: Exception) -> str:
    """Return the first line of the Java exception's message in a Py4J error.

    The result is "" if the error has no Java exception, or if the JVM no longer runs.
    """
    exception = getattr(error, "java_exception", None)
    if exception is None:
        return ""
    try:
        said = str(exception.getMessage() or exception.toString())
    except Exception:  # noqa: BLE001 - the JVM that holds the text may be gone
        return ""
    return next((line.strip() for line in said.splitlines() if line.strip()), "")


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever it is, there is no text
        return ""


@contextmanager
def jvm_errors() -> Iterator[None]:
    """Raise `SparkFailedError` if Spark's JVM is killed during the ``with`` block.

    It replaces various network errors of Py4J by one clear message.

    Raises:
        SparkFailedError: the JVM no longer answers.
    """
    from py4j.protocol import Py4JNetworkError

    try:
        yield
    except (Py4JNetworkError, ConnectionError):
        what = "Spark's Java process ended in the middle of the run (killed, or out of memory?)"
        raise SparkFailedError(f"{what}: {_AGAIN}") from None


@contextmanager
def worker_errors() -> Iterator[None]:
    """Raise the Partage error of a Spark worker instead of Spark's own error, in a ``with`` block.

    Spark wraps errors of its Python workers in long Java exceptions. The original error is found in
    their text.

    Raises:
        PartageError: the error that a worker raised, with its message.
        SparkFailedError: a worker was killed.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as e:
        found = _find_partage_error(str(e))
        if found is not None:
            raise found from None
        if "Python worker exited" in str(e):
            what = "a Python worker ended in the middle of the run (killed, or out of memory?)"
            raise SparkFailedError(f"{what}: run again") from None
        raise


def _find_partage_error(trace: str) -> PartageError | None:
    """Return the Partage error at the end of a worker's traceback; None if there is none.

    The error is created again from its class name and message in the text.
    """
    said = re.findall(r"^partage\.errors\.(\w+): (.+)$", trace, re.MULTILINE)
    if not said:
        said = re.findall(r"partage\.errors\.(\w+): (.+)", trace)
    for name, sentence in reversed(said):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, PartageError):
            error = kind.__new__(kind)
            Exception.__init__(error, sentence.strip())
            return error
    return None
