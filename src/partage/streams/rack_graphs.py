"""The two networks in which tasks flow to clients (KIP-925)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from partage.errors import UnsupportedProblemError
from partage.streams.flow import FlowGraph

__all__ = ["balance_subtopology", "min_traffic"]

Int64Array = NDArray[np.int64]


def min_traffic(held: NDArray[np.bool_], cost: Int64Array) -> list[int]:
    """The cheapest owner of each task, every client keeping its number of tasks.

    Args:
        held: bool[tasks, clients], who has which now; exactly one each.
        cost: int64[tasks, clients].

    Returns:
        The column of each task. The search starts from what is held.

    Raises:
        UnsupportedProblemError: a task is held by nobody or by two, as Kafka's class.
    """
    tasks, clients = held.shape
    _once(held)
    task = np.arange(1, tasks + 1)
    client = np.arange(tasks + 1, tasks + clients + 1)
    number = held.sum(axis=0, dtype=np.int64)
    has = held.astype(np.int64).ravel()
    ones = np.ones(tasks, np.int64)
    graph = FlowGraph.of(
        np.concatenate([np.repeat(task, clients), np.zeros(tasks, np.int64), client]),
        np.concatenate([np.tile(client, tasks), task, np.full(clients, tasks + clients + 1)]),
        np.concatenate([np.ones(tasks * clients, np.int64), ones, number]),
        np.concatenate([cost.ravel(), 0 * ones, 0 * number]),
        np.concatenate([has, ones, number]),
    )
    graph.cheapen()
    return _owners(graph.flows()[: tasks * clients].reshape(tasks, clients))


def balance_subtopology(
    held: NDArray[np.bool_], cost: Int64Array, groups: Sequence[Sequence[int]]
) -> list[int]:
    """As `min_traffic`, but with a client's share of each sub-topology bounded as well.

    A client may have at most ceil(its share of all tasks times the tasks of the group), in
    IEEE doubles in Kafka's order of operations. The search starts from a greatest flow that
    forgets what is held.

    Args:
        held: see `min_traffic`.
        cost: see `min_traffic`.
        groups: rows of each group in order; together every row once.
    """
    tasks, clients = held.shape
    _once(held)
    number = held.sum(axis=0).tolist()
    rows = [row for group in groups for row in group]
    second = tasks + clients * len(groups) + 1
    origin, end, capacity, price = [], [], [], []
    first_task = 1
    for at, group in enumerate(groups):
        first_stage = tasks + clients * at + 1
        for j in range(clients):
            for i, row in enumerate(group):
                origin.append(first_task + i)
                end.append(first_stage + j)
                capacity.append(1)
                price.append(int(cost[row, j]))
        first_task += len(group)
    stages = len(origin)
    for at, group in enumerate(groups):
        for j in range(clients if group else 0):
            origin.append(tasks + clients * at + 1 + j)
            end.append(second + j)
            capacity.append(math.ceil(number[j] * 1.0 / tasks * len(group)))
    origin += [0] * tasks + list(range(second, second + clients))
    end += [*range(1, tasks + 1), *[second + clients] * clients]
    capacity += [1] * tasks + number
    price += [0] * (len(origin) - len(price))
    graph = FlowGraph.of(
        np.array(origin, np.int64),
        np.array(end, np.int64),
        np.array(capacity, np.int64),
        np.array(price, np.int64),
        np.zeros(len(origin), np.int64),
    )
    if graph.fill() != tasks:
        raise UnsupportedProblemError("the shares of sub-topologies cannot hold all tasks")
    graph.cheapen()
    flows = graph.flows()[:stages]
    used = np.flatnonzero(flows > 0)
    owner = [0] * tasks
    for edge in used.tolist():
        owner[rows[origin[edge] - 1]] = (end[edge] - tasks - 1) % clients
    return owner


def _owners(flows: Int64Array) -> list[int]:
    owners: list[int] = flows.argmax(axis=1).tolist()
    return owners


def _once(held: NDArray[np.bool_]) -> None:
    holders = held.sum(axis=1)
    if (holders != 1).any():
        _not_once(int(np.flatnonzero(holders != 1)[0]), holders)


def _not_once(row: int, holders: NDArray[np.int64]) -> NoReturn:
    many = "nobody" if holders[row] == 0 else f"{holders[row]} clients"
    raise UnsupportedProblemError(f"task {row} of those to optimise is held by {many}")
