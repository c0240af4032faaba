"""Where a cluster with its replicas comes from: a capture, a JSON file, or a running cluster."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidCaptureError, InvalidConfigError, InvalidProblemError

if TYPE_CHECKING:
    from partage.model import ReplicaCluster

__all__ = ["described", "read_cluster"]

_MOST_BYTES = 4 << 30
_LONGEST = 7 * 86_400.0


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
    """A capture's folder or ``cluster.jsonl`` (its last line), a JSON file, or ``host:port,...``.

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
    """What the source says, unchecked, and sizes and directories where brokers were asked."""
    path = Path(source)
    if not source:
        what = "name a capture's folder, a file, or host:port of a running cluster"
        raise InvalidConfigError("CLUSTER", what, source)
    if not path.exists() and ":" in source and "/" not in source:
        for one in source.split(","):
            if not one.rpartition(":")[2].isdecimal():
                raise InvalidConfigError("CLUSTER", "must be host:port, ... or a file", source)
        from partage.capture.replicas import read_replicas
        from partage.cli.capture import settings_of

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
    """The last line that is an object: Kafka's tools print sentences around theirs."""
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
