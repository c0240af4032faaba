"""The cluster whose replicas `place` and `reassign` work on: a capture, a file or live brokers."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from partage.cli.options import ClusterOptions
from partage.errors import InvalidCaptureError, InvalidConfigError, InvalidProblemError

if TYPE_CHECKING:
    from partage.model import ReplicaCluster

__all__ = ["read_cluster"]

_MOST_BYTES = 4 << 30
_LONGEST = 7 * 86_400.0


def read_cluster(
    source: str | None,
    cluster: ClusterOptions,
    *,
    log_dirs: Path | None = None,
    gone: Collection[int] = (),
    excluded: Collection[str] = (),
    seconds: float | None = None,
    earlier: Path | None = None,
) -> ReplicaCluster:
    """Read a `ReplicaCluster` from a capture's folder, a JSON file, or live brokers.

    Args:
        source: capture's folder, ``cluster.jsonl`` (its last line counts), JSON file, or
            host:port,...; None if the options name the brokers.
        cluster: the running cluster and its client properties.
        log_dirs: file with sizes and directories, as kafka-log-dirs.sh prints them.
        gone: brokers that may be down.
        excluded: topics to leave out.
        seconds: time over which the write load is measured.
        earlier: a file like ``log_dirs``, printed ``seconds`` earlier.

    Raises:
        InvalidCaptureError: the file does not exist or is not JSON.
        InvalidProblemError: the description contradicts itself.
        ClusterUnreachableError: no broker answers.
    """
    from partage.replicas.reading import cluster_from_json, sizes_from_log_dirs

    if seconds is not None and not 0 < seconds < _LONGEST:
        raise InvalidConfigError("--write-load", "must be seconds, more than 0", seconds)
    if (earlier is None) != (log_dirs is None or seconds is None):
        what = "goes with --log-dirs FILE and --write-load SECONDS, and these two with it"
        raise InvalidConfigError("--log-dirs-before", what, str(earlier))
    given, live = _read_source(source, cluster, seconds if earlier is None else None)
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


def _read_source(
    source: str | None, cluster: ClusterOptions, seconds: float | None
) -> tuple[Any, dict[tuple[str, int], dict[int, tuple[int, str]]] | None]:
    if cluster.bootstrap_server is not None:
        if source is not None:
            raise typer.BadParameter("give either CLUSTER or --bootstrap-server, not both")
        return _read_brokers("--bootstrap-server", cluster.bootstrap_server, cluster, seconds)
    if source is None:
        raise typer.BadParameter("give CLUSTER or --bootstrap-server")
    if not source:
        what = "name a capture's folder, a file, or a running cluster by --bootstrap-server"
        raise InvalidConfigError("CLUSTER", what, source)
    path = Path(source)
    if not path.exists() and ":" in source and "/" not in source:
        return _read_brokers("CLUSTER", source, cluster, seconds)
    if path.is_dir():
        path /= "cluster.jsonl"
    lines = path.suffix == ".jsonl"
    return _parsed(_last_object(path) if lines else _text(path), path), None


def _read_brokers(
    option: str, brokers: str, cluster: ClusterOptions, seconds: float | None
) -> tuple[Any, dict[tuple[str, int], dict[int, tuple[int, str]]]]:
    from partage.capture.replicas import read_replicas

    for one in brokers.split(","):
        if not one.rpartition(":")[2].isdecimal():
            raise InvalidConfigError(option, "must be host:port, ... or a file", brokers)
    return read_replicas(brokers, cluster.connection(), seconds=seconds)


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
    # Kafka's tools print text around the JSON object.
    lines = [line for line in _text(path).splitlines() if line.lstrip().startswith("{")]
    if not lines:
        raise InvalidCaptureError(f"{path}: no line of it is a JSON object")
    return lines[-1]


def _parsed(text: str, path: Path) -> Any:
    from partage.model.validation import parse_json

    try:
        return parse_json(text)
    except (json.JSONDecodeError, RecursionError) as e:
        raise InvalidCaptureError(f"{path}: is no JSON ({e})") from None
    except InvalidProblemError as e:
        raise InvalidCaptureError(f"{path}: {e}") from None
