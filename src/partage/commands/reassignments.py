"""Reassignment of replicas: the function `reassign`, its input and its files.

`read_cluster` reads the cluster, `plan_task` plans, and `PlannedReassignment` has the summary and
writes the files for Kafka's tools.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidCaptureError, InvalidConfigError, InvalidProblemError
from partage.model import ReplicaCluster
from partage.model.arguments import check_argument_types
from partage.model.validation import expect_local, reject_text
from partage.tables.escaping import escape_document_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from partage.api.reassignments import Reassignment
    from partage.model import ReplicaTask
    from partage.replicas.bands import PlanLimits

__all__ = ["PlannedReassignment", "plan_task", "read_cluster", "reassign", "split_plan"]

_MOST_BYTES = 4 << 30
_LONGEST = 7 * 86_400.0
#: By subcommand: the arguments of `reassign` that it needs, and those that it takes besides.
_ARGUMENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "rebalance": ((), ("pinned",)),
    "add-broker": (("brokers",), ("pinned",)),
    "drain-broker": (("brokers",), ()),
    "replace-broker": (("brokers", "by"), ()),
    "change-rf": (("factor",), ("topics",)),
    "fix-racks": ((), ("pinned",)),
    "elect-leaders": ((), ("pinned",)),
}


@check_argument_types
def reassign(
    source: ReplicaCluster | str | Path,
    command: str = "rebalance",
    *,
    brokers: Collection[int] | int | None = None,
    by: int | None = None,
    factor: int | None = None,
    topics: Collection[str] | None = None,
    pinned: Collection[str] | None = None,
    excluded: Collection[str] = (),
    tolerance: Mapping[str, float] | None = None,
    max_moves: int | None = None,
    throttle: int | None = None,
    proof: bool = True,
    properties: Mapping[str, str] | None = None,
    log_dirs: str | Path | None = None,
    write_load: float | None = None,
    log_dirs_before: str | Path | None = None,
) -> PlannedReassignment:
    """Plan which replicas move between brokers, as ``partage reassign COMMAND`` does.

    The plan balances the brokers, or adds, drains or replaces one, with the fewest bytes copied.
    Nothing in the cluster is changed.

    Args:
        source: the cluster; or a capture's folder, a ``cluster.jsonl`` or JSON file, or
            ``host:port``.
        command: ``rebalance``, ``add-broker``, ``drain-broker``, ``replace-broker``,
            ``change-rf``, ``fix-racks`` or ``elect-leaders``.
        brokers: ids of the brokers to add, to drain or (one) to replace.
        by: id of the broker that takes over, for ``replace-broker``.
        factor: the new replication factor, for ``change-rf``.
        topics: topics whose factor changes; None for all.
        pinned: topics that do not move and count for balance.
        excluded: topics that are left out altogether.
        tolerance: allowed distance from the even share, by kind, such as ``{"bytes": 0.1}``.
        max_moves: replicas copied in one batch, at most.
        throttle: rate limit of each broker in bytes per second; the plan then has its duration.
        proof: whether to compute lower bounds.
        properties: client properties of ``host:port``, by Kafka's names.
        log_dirs: file with sizes and directories, as kafka-log-dirs.sh prints them.
        write_load: seconds over which the write load is measured.
        log_dirs_before: a file like ``log_dirs``, printed ``write_load`` seconds earlier.

    Raises:
        InvalidConfigError: an argument is missing, wrong, or not one of the command's.
        InvalidCaptureError, InvalidProblemError: the source cannot be read.
        NoFeasiblePlanError: names the constraint that no plan meets.

    >>> from partage.replicas.cluster_parser import cluster_from_json
    >>> partitions = [{"p": p, "leader": 1, "replicas": [1]} for p in (0, 1)]
    >>> cluster = cluster_from_json({"brokers": [{"id": 1}, {"id": 2}],
    ...                              "topics": {"t": {"partitions": partitions}}})
    >>> planned = reassign(cluster)
    >>> planned.summary["replicas_moved"], planned.summary["optimal"]
    (1, True)
    """
    reject_text(brokers, "brokers", "ids")
    for name, names in (("topics", topics), ("pinned", pinned), ("excluded", excluded)):
        reject_text(names, name)
    ids = [brokers] if isinstance(brokers, int) else brokers
    given = {"brokers": ids, "by": by, "factor": factor, "topics": topics, "pinned": pinned}
    _expect_arguments(command, given)
    if command == "replace-broker" and len(ids or ()) != 1:
        raise InvalidConfigError("brokers", "must be one broker, the one to replace", brokers)
    _expect_source(source)
    if not isinstance(source, ReplicaCluster):
        leaving = command in {"drain-broker", "replace-broker"}
        source = read_cluster(
            source, properties=properties, log_dirs=log_dirs, excluded=excluded,
            gone=tuple(ids or ()) if leaving else (), write_load=write_load,
            log_dirs_before=log_dirs_before,
        )  # fmt: skip
    from partage.replicas.bands import PlanLimits

    limits = PlanLimits(tuple(pinned or ()), tuple(excluded), _known(tolerance or {}))
    task = _task(source, command, given, limits)
    return plan_task(task, command, max_moves=max_moves, throttle=throttle, proof=proof)


def _expect_source(source: object) -> None:
    if not isinstance(source, ReplicaCluster | str | Path):
        what = "must be a ReplicaCluster, a folder, a file or host:port"
        raise InvalidConfigError("source", what, type(source).__name__)


def _expect_arguments(command: str, arguments: Mapping[str, object]) -> None:
    """Check that the arguments fit the subcommand of ``partage reassign``.

    A missing argument is an error, and so is one that has no effect on the subcommand.

    Args:
        command: name of the subcommand.
        arguments: the caller's arguments by name; None for those that were not given.

    Raises:
        InvalidConfigError: names the command or the argument.
    """
    if command not in _ARGUMENTS:
        raise InvalidConfigError("command", f"must be one of {', '.join(_ARGUMENTS)}", command)
    needed, optional = _ARGUMENTS[command]
    for name, value in arguments.items():
        if name in needed and value is None:
            raise InvalidConfigError(name, f"is missing: {command} needs it", value)
        if value is not None and name not in needed + optional:
            raise InvalidConfigError(name, f"has no effect on {command}: leave it out", value)


def _known(tolerance: Mapping[str, float]) -> dict[str, float]:
    from partage.replicas.bands import TOLERANCE

    for kind in tolerance:
        if kind not in TOLERANCE:
            raise InvalidConfigError("tolerance", f"must be of {', '.join(TOLERANCE)}", kind)
    return dict(tolerance)


def _task(
    cluster: ReplicaCluster, command: str, given: Mapping[str, Any], limits: PlanLimits
) -> ReplicaTask:
    from partage.replicas import tasks

    if command == "add-broker":
        return tasks.add_brokers(cluster, given["brokers"], limits)
    if command == "drain-broker":
        return tasks.drain_brokers(cluster, given["brokers"], limits)
    if command == "replace-broker":
        (old,) = given["brokers"]
        return tasks.replace_broker(cluster, old, given["by"], limits)
    if command == "change-rf":
        return tasks.change_factor(cluster, given["factor"], given["topics"], limits)
    builders: dict[str, Callable[[ReplicaCluster, PlanLimits], ReplicaTask]] = {
        "rebalance": tasks.rebalance_task,
        "fix-racks": tasks.fix_racks,
        "elect-leaders": tasks.elect_leaders,
    }
    return builders[command](cluster, limits)


@dataclass(frozen=True, eq=False)
class PlannedReassignment:
    """Plan for moving replicas between brokers, split into batches; `reassign` returns it.

    Its batches can be written as JSON files for ``kafka-reassign-partitions``.

    Attributes:
        result: the reassignment task, the plan, and its checked quality.
        summary: the object that ``--json`` prints: balance with lower bounds, brokers, racks, moves
            and batches.
        batches: partition indices of each batch.
        elected: indices of the partitions that need a leader election.
        directory: log directory of each new replica; None if the input has no directories.
    """

    result: Reassignment
    summary: dict[str, Any]
    batches: list[list[int]]
    elected: list[int]
    directory: NDArray[np.int32] | None

    def write(self, folder: str | Path) -> Path:
        """Write the files with which Kafka's tools execute the plan to a new folder.

        The files are ``batch-001.json``, ``rollback-001.json``, ..., ``election.json``,
        ``plan.json``, ``execute.sh`` and ``rollback.sh``. The path of the folder is returned.

        Raises:
            InvalidConfigError: the folder has files already, or cannot be written.
        """
        expect_local(folder, "folder")
        to = Path(folder)
        try:
            self._write(to)
        except OSError as e:
            what = f"cannot be written ({e.strerror or e})"
            raise InvalidConfigError("folder", what, str(to)) from None
        return to

    def _write(self, to: Path) -> None:
        from partage.replicas.kafka_json import (
            leader_election_json,
            reassignment_json,
            rollback_json,
        )
        from partage.replicas.scripts import execution_scripts

        to.mkdir(parents=True, exist_ok=True)
        if any(to.iterdir()):
            raise InvalidConfigError("folder", "the folder is not empty: name a new one", str(to))
        task, replica = self.result.task, self.result.plan.replica
        folders = self.directory is not None
        width = max(3, len(str(len(self.batches))))  # in the order of their names, however many
        for i, batch in enumerate(self.batches, 1):
            made = reassignment_json(task, replica, self.directory, batch)
            _write_json(to / f"batch-{i:0{width}}.json", made)
            undone = rollback_json(task.cluster, batch, directories=folders)
            _write_json(to / f"rollback-{i:0{width}}.json", undone)
        every = [p for batch in self.batches for p in batch]
        _write_json(to / "rollback.json", rollback_json(task.cluster, every, directories=folders))
        _write_json(to / "election.json", leader_election_json(task.cluster, self.elected))
        for file, text in execution_scripts(
            self.summary["throttle"], elect=bool(self.elected)
        ).items():
            (to / file).write_text(text, encoding="utf-8")
        _write_json(to / "plan.json", self.summary)


def plan_task(
    task: ReplicaTask,
    command: str,
    *,
    max_moves: int | None = None,
    throttle: int | None = None,
    proof: bool = True,
) -> PlannedReassignment:
    """Compute the plan of a replica reassignment and split it into batches.

    Batches are executed one after the other, which limits the load that copying causes.

    Args:
        task: the cluster and the constraints that its replicas must meet.
        command: name of the subcommand, for the summary.
        max_moves: maximum number of replicas that one batch copies.
        throttle: rate limit of each broker in bytes per second; the plan then has its duration.
        proof: whether to compute lower bounds, which show how far the plan is from the optimum.

    Raises:
        InvalidConfigError: the throttle is not positive.
        NoFeasiblePlanError: names the constraint that no plan meets.
    """
    from partage.api.reassignments import reassign as plan

    if throttle is not None and throttle < 1:
        raise InvalidConfigError("throttle", "must be at least 1 byte a second", throttle)
    return split_plan(plan(task, proof=proof), command, max_moves=max_moves, throttle=throttle)


def split_plan(
    planned: Reassignment,
    command: str,
    *,
    max_moves: int | None = None,
    throttle: int | None = None,
) -> PlannedReassignment:
    """Split the replica copies of a reassignment plan into batches, and summarize the plan.

    The summary is the object that ``partage reassign --json`` prints.

    Args:
        planned: the plan of a reassignment task.
        command: name of the subcommand, for the summary.
        max_moves: maximum number of replicas that one batch copies.
        throttle: rate limit of each broker in bytes per second; None for none.
    """
    from partage.replicas.batches import split_into_batches
    from partage.replicas.kafka_json import partitions_to_elect
    from partage.replicas.moves import log_directories
    from partage.replicas.tables import batch_rows

    task, moves = planned.task, planned.moves
    split = split_into_batches(moves, max_copies=max_moves)
    rows = batch_rows(moves, split, throttle)
    directory = log_directories(moves)
    every = sorted({p for batch in split for p in batch})
    elected = sorted({*every, *partitions_to_elect(task, planned.plan.replica)})
    sized = task.cluster.size is not None
    summary = {
        "command": command,
        "partitions": task.cluster.partitions,
        "unit": "bytes" if sized else "replicas",
        **_proven(planned),
        "replicas_moved": len(moves.partition_of_copy),
        "bytes_moved": int(moves.copy_bytes.sum()) if sized else None,
        "replicas_between_disks": len(moves.disk_moves.partition),
        "bytes_between_disks": int(moves.disk_moves.bytes.sum()) if sized else None,
        "partitions_changed": len(every),
        "led_by_others": len(elected) - len(every),
        "throttle": throttle,
        "seconds": sum(row["seconds"] for row in rows) if throttle is not None and sized else None,
        "gone": _find_missing_brokers(planned, every),
        "leaderless": _find_leaderless(planned),
        "emptied": [
            b.id for b, alive in zip(task.cluster.brokers, task.alive, strict=True) if not alive
        ],
        **_where(planned, directory),
        "batches": rows,
    }
    return PlannedReassignment(planned, summary, split, elected, directory)


def _proven(found: Reassignment) -> dict[str, Any]:
    verdict = found.verdict
    return {
        "before": found.before,
        "figures": verdict.figures,
        "bounds": verdict.bounds,
        "gap": verdict.avoidable_fraction,
        "optimal": verdict.optimal,
        "solver": found.plan.solver,
        "solver_bound": found.plan.solver_bound,
        "lacks_solver": found.lacks_solver,
        "too_large_for_solver": _size_limit(found) if found.too_large_for_solver else None,
        "sequential_loss": verdict.sequential_loss,
    }


def _size_limit(planned: Reassignment) -> dict[str, int]:
    """Return a reassignment problem's size, and the largest size for the solver HiGHS.

    A size is a number of (partition, broker) pairs. The result is a dict with ``pairs`` and
    ``most``.
    """
    from partage.api.reassignments import MOST_DUAL_PAIRS

    pairs = int(planned.task.receives.sum()) * planned.task.cluster.partitions
    return {"pairs": pairs, "most": MOST_DUAL_PAIRS}


def _where(found: Reassignment, directory: NDArray[np.int32] | None) -> dict[str, Any]:
    from partage.replicas.tables import (
        broker_rows,
        disk_rows,
        move_rows,
        network_rows,
        rack_rows,
    )

    brokers = broker_rows(found.task, found.plan.replica)
    return {
        "brokers": brokers,
        "racks": rack_rows(found.task, brokers),
        "disks": disk_rows(found.moves, directory),
        "network": network_rows(found.moves),
        "moves": move_rows(found.moves),
    }


def _find_leaderless(planned: Reassignment) -> list[str]:
    """Return the names of partitions that have no leader although the plan copies their replicas.

    Kafka copies from the leader, so these copies wait until a leader is elected.
    """
    cluster = planned.task.cluster
    copied = sorted({*planned.moves.partition_of_copy.tolist()})
    return [cluster.partition_name(p) for p in copied if cluster.leader[p] < 0]


def _find_missing_brokers(planned: Reassignment, partitions: list[int]) -> list[int]:
    """Return the ids of brokers that have replicas but are missing in the cluster metadata.

    Such brokers have failed or were removed, so the plan cannot be rolled back to them now.

    Args:
        planned: the planned reassignment.
        partitions: indices of the partitions to check.
    """
    cluster = planned.task.cluster
    held = {b for p in partitions for b in cluster.replica[cluster.start[p] : cluster.start[p + 1]]}
    return sorted(cluster.brokers[b].id for b in held if cluster.missing[b])


def _write_json(path: Path, what: dict[str, Any]) -> None:
    # Kafka's tool reads a line or many; a temporary name, so that a file that is there is whole.
    draft = path.with_suffix(".part")
    draft.write_text(
        escape_document_text(json.dumps(what, ensure_ascii=False), in_json=True), "utf-8"
    )
    os.replace(draft, path)  # noqa: PTH105 - Path.replace is the same and returns a path


def read_cluster(
    source: str | Path | None,
    *,
    bootstrap: str | None = None,
    properties: Mapping[str, str] | None = None,
    log_dirs: str | Path | None = None,
    gone: Collection[int] = (),
    excluded: Collection[str] = (),
    write_load: float | None = None,
    log_dirs_before: str | Path | None = None,
) -> ReplicaCluster:
    """Read the brokers, topics and replicas of a Kafka cluster, as input of a reassignment.

    The source is a capture, a JSON file or the running cluster itself.

    Args:
        source: capture's folder, ``cluster.jsonl`` (its last line counts), JSON file, or
            host:port,...; None if ``bootstrap`` names the brokers.
        bootstrap: brokers of the running cluster; None if ``source`` says what to read.
        properties: client properties, by Kafka's names.
        log_dirs: file with sizes and directories, as kafka-log-dirs.sh prints them.
        gone: brokers that may be down.
        excluded: topics to leave out.
        write_load: seconds over which the write load is measured.
        log_dirs_before: a file like ``log_dirs``, printed ``write_load`` seconds earlier.

    Raises:
        InvalidCaptureError: the file does not exist or is not JSON.
        InvalidProblemError: the description contradicts itself.
        ClusterUnreachableError: no broker answers.
    """
    from partage.replicas.cluster_parser import cluster_from_json, sizes_from_log_dirs

    seconds, earlier = write_load, log_dirs_before
    if seconds is not None and not 0 < seconds < _LONGEST:
        raise InvalidConfigError("write_load", "must be seconds, more than 0", seconds)
    if (earlier is None) != (log_dirs is None or seconds is None):
        what = "goes with log_dirs and write_load, and these two with it"
        raise InvalidConfigError("log_dirs_before", what, str(earlier))
    given, live = _read_source(
        source, bootstrap, properties or {}, seconds if earlier is None else None
    )
    sizes = live
    if log_dirs is not None:
        sizes = sizes_from_log_dirs(_parsed(_read_last_object(Path(log_dirs)), log_dirs))
    if earlier is not None and sizes is not None and seconds is not None:
        from partage.capture.replicas import set_write_loads

        before = sizes_from_log_dirs(_parsed(_read_last_object(Path(earlier)), earlier))
        set_write_loads(given.get("topics", {}), before, sizes, seconds)
    elif seconds is not None and live is None:
        what = "needs a running cluster, which is looked at twice; for a file give log_dirs_before"
        raise InvalidConfigError("write_load", what, seconds)
    return cluster_from_json(given, log_dirs=sizes, removed_brokers=gone, excluded=excluded)


def _read_source(
    source: str | Path | None,
    bootstrap: str | None,
    properties: Mapping[str, str],
    seconds: float | None,
) -> tuple[Any, dict[tuple[str, int], dict[int, tuple[int, str]]] | None]:
    """Read the description of a Kafka cluster from a file or from its brokers.

    Running brokers also report the size and directory of each replica; for a file, the second value
    is None. The description is not checked.

    Args:
        source: path of the file, or ``host:port,...``; None if ``bootstrap`` is given.
        bootstrap: brokers of the running cluster; None if ``source`` is given.
        properties: client properties, by Kafka's names.
        seconds: duration over which the write load of live brokers is measured.
    """
    if (source is None) == (bootstrap is None):
        what = "give either a folder, a file or host:port, or bootstrap"
        raise InvalidConfigError("source", what, source)
    if bootstrap is not None:
        return _read_brokers("bootstrap", bootstrap, properties, seconds)
    if not str(source):
        what = "name a capture's folder, a file, or a running cluster by host:port"
        raise InvalidConfigError("source", what, source)
    text = str(source)
    path = Path(text)
    if not path.exists() and ":" in text and "/" not in text:
        return _read_brokers("source", text, properties, seconds)
    if path.is_dir():
        path /= "cluster.jsonl"
    lines = path.suffix == ".jsonl"
    return _parsed(_read_last_object(path) if lines else _text(path), path), None


def _read_brokers(
    argument: str, brokers: str, properties: Mapping[str, str], seconds: float | None
) -> tuple[Any, dict[tuple[str, int], dict[int, tuple[int, str]]]]:
    from partage.capture.replicas import read_replicas
    from partage.capture.security import ClientProperties, connection_settings

    for one in brokers.split(","):
        if not one.rpartition(":")[2].isdecimal():
            raise InvalidConfigError(argument, "must be host:port, ... or a file", brokers)
    return read_replicas(
        brokers, connection_settings(ClientProperties(properties)), seconds=seconds
    )


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidCaptureError(f"{path}: larger than {_MOST_BYTES >> 30} GiB")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidCaptureError(f"{path}: is no UTF-8 text") from None
    except OSError as e:
        raise InvalidCaptureError(f"{path}: {e.strerror}") from None


def _read_last_object(path: Path) -> str:
    """Return the last line of a text file that is a JSON object.

    Kafka's tools print other lines around their JSON; these are skipped.

    Raises:
        InvalidCaptureError: the file cannot be read or has no such line.
    """
    lines = [line for line in _text(path).splitlines() if line.lstrip().startswith("{")]
    if not lines:
        raise InvalidCaptureError(f"{path}: no line of it is a JSON object")
    return lines[-1]


def _parsed(text: str, path: str | Path) -> Any:
    from partage.model.validation import parse_json

    try:
        return parse_json(text)
    except (json.JSONDecodeError, RecursionError) as e:
        raise InvalidCaptureError(f"{path}: is no JSON ({e})") from None
    except InvalidProblemError as e:
        raise InvalidCaptureError(f"{path}: {e}") from None
