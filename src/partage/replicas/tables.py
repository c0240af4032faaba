"""Rows of a reassignment's report: brokers, racks, disks, copies, network, batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.replicas.moves import ReplicaMoves

__all__ = ["batch_rows", "broker_rows", "disk_rows", "move_rows", "network_rows", "rack_rows"]

_COLUMNS = ("replicas", "leaders", "bytes", "load")


def broker_rows(task: ReplicaTask, replica: NDArray[np.int32]) -> list[dict[str, Any]]:
    """Return a report row for each broker, with its load before and after a reassignment plan.

    A row has replicas, leaders, bytes and write load, each with the range that counts as balanced.
    Leaders before are the current ones, leaders after are the preferred ones. Excluded topics do
    not count.

    Args:
        task: the cluster with its current replicas, and the constraints of the reassignment.
        replica: int32, the plan: the broker of each new replica, by index in the cluster.
    """
    before = _held(
        task,
        task.cluster.start,
        task.cluster.replication_factors,
        task.cluster.replicas_leader_first,
    )
    after = _held(task, task.first_replica, task.factor, replica)
    bands = _bands_of(task)
    known = _known(task)
    return [
        {
            "id": broker.id,
            "rack": broker.rack,
            "before": {name: int(before[name][b]) for name in known},
            "after": {name: int(after[name][b]) for name in known},
            "band": {name: [int(bands[name][0][b]), int(bands[name][1][b])] for name in known},
        }
        for b, broker in enumerate(task.cluster.brokers)
    ]


def _bands_of(task: ReplicaTask) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    # Lower and upper limits of brokers, then of racks.
    return {
        "replicas": (task.low[1], task.high[1]),
        "leaders": (task.lead_low, task.lead_high),
        "bytes": (task.low[2], task.high[2]),
        "load": (task.low[3], task.high[3]),
    }


def rack_rows(task: ReplicaTask, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a report row for each rack, with its load before and after a reassignment plan.

    The load of a rack is the sum of its brokers' loads. If there are several racks, a row also has
    the range in which each load counts as balanced.

    Args:
        task: the cluster and the constraints of the reassignment, with these ranges.
        rows: the brokers' rows, from `broker_rows`.
    """
    out: dict[str | None, dict[str, Any]] = {}
    for row in rows:
        mine = out.setdefault(
            row["rack"], {"rack": row["rack"], "brokers": 0, "before": {}, "after": {}}
        )
        mine["brokers"] += 1
        for when in ("before", "after"):
            for name, value in row[when].items():
                mine[when][name] = mine[when].get(name, 0) + value
    if task.balanced_rack_count:
        bands, brokers = _bands_of(task), len(task.alive)
        for r, rack in enumerate(task.cluster.racks):
            out[rack]["band"] = {
                name: [int(bands[name][0][brokers + r]), int(bands[name][1][brokers + r])]
                for name in _known(task)
            }
    return [out[rack] for rack in sorted(out, key=lambda rack: (rack is None, rack or ""))]


def disk_rows(moves: ReplicaMoves, directory: NDArray[np.int32] | None) -> list[dict[str, Any]]:
    """Return a report row for each log directory, with its bytes before and after a reassignment.

    Only brokers with several log directories have rows, and only if the directory of each replica
    is known. Without partition sizes, rows count replicas.

    Args:
        moves: the replica copies of the plan.
        directory: log directory of each new replica, from `directories`; None if no broker has
            several.
    """
    if directory is None:
        return []
    task, cluster = moves.task, moves.task.cluster
    width = max(map(len, cluster.directories))
    held = []
    for owner, replica, place in (
        (task.current_partition, cluster.replica, cluster.directory),
        (task.partition_of_replica, moves.replica, directory),
    ):
        weight = np.ones(len(task.factor), np.int64) if cluster.size is None else cluster.size
        known = place >= 0
        at = replica[known].astype(np.int64) * width + place[known]
        sums = np.zeros(len(cluster.brokers) * width, np.int64)
        np.add.at(sums, at, weight[owner][known])
        held.append(sums.reshape(-1, width))
    bands = _disk_bands(moves)
    return [
        {
            "broker": cluster.brokers[b].id,
            "path": path,
            "capacity": room if room >= 0 else None,
            "before": int(held[0][b, d]),
            "after": int(held[1][b, d]),
            "band": bands[b, d],
        }
        for b, mine in enumerate(cluster.directories)
        if (b, 0) in bands
        for d, (path, room) in enumerate(mine)
    ]


def _disk_bands(moves: ReplicaMoves) -> dict[tuple[int, int], list[int]]:
    # By (broker, disk on it), in bytes; in replicas if sizes are unknown.
    task, disks = moves.task, moves.task.disks
    if disks is None:
        return {}
    k = 1 if task.cluster.size is None else 2
    held = np.zeros(len(task.alive), np.int64)
    np.add.at(held, moves.replica, task.weight[k][task.partition_of_replica])
    low, high = disks.balance_limits(k, held)
    return {
        (b, d - int(disks.start[b])): [int(low[d]), int(high[d])]
        for d, b in enumerate(disks.broker_of_disk.tolist())
    }


def move_rows(moves: ReplicaMoves) -> list[dict[str, Any]]:
    """Return a report row for each copied replica: topic, partition, source, target and bytes.

    A copy between two disks has the same broker as source and target, and names two directories.
    ``moves`` are the copies of the plan.
    """
    cluster, within = moves.task.cluster, moves.disk_moves
    sized = cluster.size is not None
    inner = [
        {
            "topic": cluster.topics[cluster.topic[p]],
            "partition": int(cluster.number[p]),
            "to": cluster.brokers[b].id,
            "from": cluster.brokers[b].id,
            "to_dir": cluster.directories[b][target][0],
            "from_dir": cluster.directories[b][source][0],
            **({"bytes": size} if sized else {}),
        }
        for p, b, source, target, size in zip(
            within.partition.tolist(), within.broker.tolist(), within.source.tolist(),
            within.target.tolist(), within.bytes.tolist(), strict=True,
        )
    ]  # fmt: skip
    return inner + [
        {
            "topic": cluster.topics[cluster.topic[p]],
            "partition": int(cluster.number[p]),
            "to": cluster.brokers[target].id,
            "from": cluster.brokers[source].id if source >= 0 else None,
            **({"bytes": size} if sized else {}),
        }
        for p, target, source, size in zip(
            moves.partition_of_copy.tolist(), moves.target_broker.tolist(),
            moves.source_broker.tolist(),
            moves.copy_bytes.tolist(), strict=True,
        )
    ]  # fmt: skip


def network_rows(moves: ReplicaMoves) -> list[dict[str, Any]]:
    """Return a report row for each pair of racks between which replicas are copied.

    A row has the number of replicas and their bytes. Followers copy from the leader, so the
    leader's rack is the source. ``moves`` are the copies of the plan.
    """
    cluster = moves.task.cluster
    senders = _senders(moves)
    sums: dict[tuple[str | None, str | None], list[int]] = {}
    racks = [b.rack for b in cluster.brokers]
    for sender, target, size in zip(
        senders.tolist(), moves.target_broker.tolist(), moves.copy_bytes.tolist(), strict=True
    ):
        pair = sums.setdefault((racks[sender], racks[target]), [0, 0])
        pair[0] += 1
        pair[1] += size
    return [
        {"from": pair[0], "to": pair[1], "replicas": sums[pair][0], "bytes": sums[pair][1]}
        for pair in sorted(sums, key=lambda pair: tuple((one is None, one or "") for one in pair))
    ]


def batch_rows(
    moves: ReplicaMoves, batches: Sequence[Sequence[int]], throttle: int | None
) -> list[dict[str, Any]]:
    """Return a report row for each batch: partitions, copied replicas, bytes and estimated seconds.

    The estimate ignores copies between disks of a broker, which have a separate throttle.

    Args:
        moves: the copies of the plan.
        batches: the partitions of each batch.
        throttle: bytes per second that each broker may send, and may receive; a batch takes as long
            as its busiest broker.
    """
    brokers = len(moves.task.cluster.brokers)
    of_batch = np.full(moves.task.cluster.partitions, -1, np.int64)
    for i, batch in enumerate(batches):
        of_batch[list(batch)] = i
    mine, senders = of_batch[moves.partition_of_copy], _senders(moves)
    inner = of_batch[moves.disk_moves.partition]
    rows = []
    for i, batch in enumerate(batches):
        at = mine == i
        sent = np.bincount(senders[at], weights=moves.copy_bytes[at], minlength=brokers)
        got = np.bincount(moves.target_broker[at], weights=moves.copy_bytes[at], minlength=brokers)
        row: dict[str, Any] = {
            "partitions": len(batch),
            "replicas": int(at.sum()),
            "bytes": int(moves.copy_bytes[at].sum()),
            "between_disks": int((inner == i).sum()),
            "bytes_between_disks": int(moves.disk_moves.bytes[inner == i].sum()),
        }  # fmt: skip
        if throttle is not None:
            row["seconds"] = float(max(sent.max(initial=0), got.max(initial=0))) / throttle
        rows.append(row)
    return rows


def _senders(moves: ReplicaMoves) -> NDArray[np.int64]:
    # The leader, or the first replica of a partition without a leader.
    cluster = moves.task.cluster
    p = moves.partition_of_copy
    if not len(p):
        return np.zeros(0, np.int64)
    leader = cluster.leader[p]
    return np.where(leader >= 0, leader, cluster.replica[cluster.start[p]]).astype(np.int64)


def _known(task: ReplicaTask) -> list[str]:
    # Bytes and load may be missing.
    missing = {
        "bytes": task.cluster.size is None,
        "load": task.cluster.load is None,
    }
    return [name for name in _COLUMNS if not missing.get(name, False)]


def _held(
    task: ReplicaTask,
    start: NDArray[np.int64],
    factor: NDArray[np.int64],
    replica: NDArray[np.int32],
) -> dict[str, NDArray[np.int64]]:
    brokers = len(task.cluster.brokers)
    owner = np.repeat(np.arange(len(factor)), factor)
    out = {}
    for k, name in ((1, "replicas"), (2, "bytes"), (3, "load")):
        out[name] = np.zeros(brokers, np.int64)
        np.add.at(out[name], replica, task.weight[k][owner])
    there = (factor > 0) & task.counted
    out["leaders"] = np.bincount(replica[start[:-1][there]], minlength=brokers).astype(np.int64)
    return out
