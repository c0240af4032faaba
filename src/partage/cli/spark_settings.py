"""The options of Spark, as commands take them."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from partage.errors import InvalidConfigError

__all__ = ["CONF", "MASTER", "spark_settings"]

MASTER = typer.Option("--master", help="Spark's master.", show_default="local[*]")
CONF = typer.Option(
    "--conf", metavar="K=V", help="A setting of Spark; repeatable.", show_default=False
)


def spark_settings(conf: Sequence[str]) -> dict[str, str]:
    """``K=V`` as it stands on the command line.

    Raises:
        InvalidConfigError: one has no equals sign, or does not begin with ``spark.``.

    >>> spark_settings(["spark.executor.memory=4g"])
    {'spark.executor.memory': '4g'}
    """
    made = {}
    for one in conf:
        key, equals, value = one.partition("=")
        if not equals or not key.startswith("spark."):
            raise InvalidConfigError("--conf", "must be spark.something=value", one)
        made[key.strip()] = value
    return made
