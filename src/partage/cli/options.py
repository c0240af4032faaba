"""Options that several commands share: the cluster, Spark's settings, and replica clusters."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from partage.capture.secrets import HIDDEN
from partage.cli.secrets import protect
from partage.errors import InvalidCaptureError, InvalidConfigError, InvalidProblemError

if TYPE_CHECKING:
    from partage.model import ReplicaCluster

__all__ = [
    "CONF", "CONFIG", "MASTER", "PROPERTY", "described", "properties_of", "read_cluster",
    "settings_of", "spark_settings",
]  # fmt: skip

_MOST_BYTES = 4 << 30
_LONGEST = 7 * 86_400.0
_NAME = re.compile(r"spark(\.[A-Za-z]+)+")

CONFIG = typer.Option(
    "--command-config", show_default=False,
    help="A client.properties file: security.protocol, sasl.*, ssl.*, as Kafka's own tools take.",
)  # fmt: skip
PROPERTY = typer.Option(
    "--property", "-X", metavar="NAME=VALUE", show_default=False,
    help="One such property; repeatable. Secrets belong into the file: others see a command line.",
)  # fmt: skip
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


def settings_of(config: Path | None, properties: list[str] | None) -> dict[str, Any]:
    """Return the connection settings of a cluster, by Kafka's property names.

    Raises:
        InvalidConfigError: a file or a property cannot be used; no secret is in the message.
    """
    from partage.capture.properties import Properties
    from partage.capture.security import connection_settings

    return connection_settings(Properties(properties_of(config, properties)))


def properties_of(config: Path | None, properties: list[str] | None) -> dict[str, str]:
    """Return properties of the client by Kafka's names; their secrets are hidden on stderr from
    now on.

    Raises:
        InvalidConfigError: the file cannot be read, or a property has no equals sign.
    """
    from partage.capture.properties import read_properties

    found = read_properties(config, properties or ())
    protect(found)
    return found


def read_cluster(
    source: str,
    *,
    log_dirs: Path | None = None,
    gone: Collection[int] = (),
    excluded: Collection[str] = (),
    command_config: Path | None = None,
    seconds: float | None = None,
    earlier: Path | None = None,
) -> ReplicaCluster:
    """Read a capture's folder or ``cluster.jsonl`` (last line), a JSON file, or ``host:port,...``.

    Raises:
        InvalidCaptureError: there is no such file, or it is no JSON.
        InvalidProblemError: it says something that cannot be.
        ClusterUnreachableError: nobody answers.
    """
    from partage.replicas.reading import cluster_from_json, sizes_from_log_dirs

    if seconds is not None and not 0 < seconds < _LONGEST:
        raise InvalidConfigError("--write-load", "must be seconds, more than 0", seconds)
    if (earlier is None) != (log_dirs is None or seconds is None):
        what = "goes with --log-dirs FILE and --write-load SECONDS, and these two with it"
        raise InvalidConfigError("--log-dirs-before", what, str(earlier))
    given, live = described(source, command_config, seconds if earlier is None else None)
    sizes = live
    if log_dirs is not None:
        sizes = sizes_from_log_dirs(_parsed(_last_object(log_dirs), log_dirs))
    if earlier is not None and sizes is not None and seconds is not None:
        from partage.capture.replicas import write_loads

        before = sizes_from_log_dirs(_parsed(_last_object(earlier), earlier))
        write_loads(given.get("topics", {}), before, sizes, seconds)
    elif seconds is not None and live is None:
        what = "a running cluster's sizes are looked at twice; of a file give --log-dirs-before"
        raise InvalidConfigError("--write-load", what, seconds)
    return cluster_from_json(given, log_dirs=sizes, gone=gone, excluded=excluded)


def described(
    source: str, command_config: Path | None = None, seconds: float | None = None
) -> tuple[Any, dict[tuple[str, int], dict[int, tuple[int, str]]] | None]:
    """Return the source's JSON unchecked, with sizes and directories from running brokers."""
    path = Path(source)
    if not source:
        what = "name a capture's folder, a file, or host:port of a running cluster"
        raise InvalidConfigError("CLUSTER", what, source)
    if not path.exists() and ":" in source and "/" not in source:
        for one in source.split(","):
            if not one.rpartition(":")[2].isdecimal():
                raise InvalidConfigError("CLUSTER", "must be host:port, ... or a file", source)
        from partage.capture.replicas import read_replicas
        from partage.cli.options import settings_of

        settings = settings_of(command_config, None)
        return read_replicas(source, settings, seconds=seconds)
    if path.is_dir():
        path /= "cluster.jsonl"
    lines = path.suffix == ".jsonl"
    return _parsed(_last_object(path) if lines else _text(path), path), None


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidCaptureError(f"{path}: larger than {_MOST_BYTES >> 30} GiB")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidCaptureError(f"{path}: is no UTF-8 text") from None
    except OSError as e:
        raise InvalidCaptureError(f"{path}: {e.strerror}") from None


def _last_object(path: Path) -> str:
    """Return the last line that is a JSON object: Kafka's tools print sentences around it."""
    lines = [line for line in _text(path).splitlines() if line.lstrip().startswith("{")]
    if not lines:
        raise InvalidCaptureError(f"{path}: no line of it is a JSON object")
    return lines[-1]


def _parsed(text: str, path: Path) -> Any:
    from partage.model.json_values import parse_json

    try:
        return parse_json(text)
    except (json.JSONDecodeError, RecursionError) as e:
        raise InvalidCaptureError(f"{path}: is no JSON ({e})") from None
    except InvalidProblemError as e:
        raise InvalidCaptureError(f"{path}: {e}") from None
