"""An error of ours that a worker raised comes back through Spark as text: it is ours again here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from partage import errors
from partage.errors import PartageError, SparkFailedError

__all__ = ["told_by_workers"]


@contextmanager
def told_by_workers() -> Iterator[None]:
    """Around jobs whose result comes back to the driver.

    Raises:
        PartageError: the one that a worker raised, with its sentence.
        SparkFailedError: a worker was killed.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as e:
        found = _ours(str(e))
        if found is not None:
            raise found from None
        if "Python worker exited" in str(e):
            what = "a Python worker ended in the middle of the run (killed, or out of memory?)"
            raise SparkFailedError(f"{what}: run again") from None
        raise


def _ours(trace: str) -> PartageError | None:
    """The error that the traceback ends with, if it is one of ours."""
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
