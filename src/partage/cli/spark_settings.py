"""The options of Spark, as commands take them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import typer

from partage.capture.secrets import HIDDEN
from partage.cli.secrets import protect
from partage.errors import InvalidConfigError

__all__ = ["CONF", "MASTER", "spark_settings"]

_NAME = re.compile(r"spark(\.[A-Za-z]+)+")

MASTER = typer.Option("--master", help="Spark's master.", show_default="local[*]")
CONF = typer.Option(
    "--conf", metavar="K=V", help="A setting of Spark; repeatable.", show_default=False
)


def spark_settings(conf: Sequence[str]) -> dict[str, str]:
    """Return the settings of ``K=V`` words; their secrets are hidden on stderr from now on.

    Raises:
        InvalidConfigError: one has no equals sign, or does not begin with ``spark.``.

    >>> spark_settings(["spark.executor.memory=4g"])
    {'spark.executor.memory': '4g'}
    """
    words = [one.partition("=") for one in conf]
    made = {key.strip(): value for key, _, value in words}
    for key, _, value in words:  # a name given twice has two values
        protect({**made, key.strip(): value})
    for key, equals, _ in words:
        if not equals:
            # The word may be a secret all the same; the name of a setting is none.
            got = key if _NAME.fullmatch(key) else HIDDEN
            raise InvalidConfigError("--conf", "must be spark.something=value", got)
        if not key.startswith("spark."):
            got = f"{key}={HIDDEN}"
            raise InvalidConfigError("--conf", "must be spark.something=value", got)
    return made
