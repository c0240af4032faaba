"""Java's hash order of task ids, those included that are no task of the problem any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from partage.java.hash_order import DEFAULT_TABLE, copied_hash_set_table, hash_order
from partage.streams.ids import TaskId, task_hash, task_order_key

__all__ = ["tasks_in_hash_order"]


def tasks_in_hash_order(
    tasks: Iterable[TaskId],
    *,
    copied: bool = False,
    hash_of: Callable[[TaskId], int] = task_hash,
) -> list[TaskId]:
    """Distinct tasks as a ``HashMap`` or ``HashSet`` walks them that got them in this order.

    With ``copied``, one that was made from a collection of this order and size.

    >>> [str(task) for task in tasks_in_hash_order([TaskId(0, 0), TaskId(0, 1)])]
    ['0_1', '0_0']
    """
    distinct = list(dict.fromkeys(tasks))
    table = copied_hash_set_table(len(distinct)) if copied else DEFAULT_TABLE

    def rank() -> list[int]:
        ranks = [0] * len(distinct)
        for place, i in enumerate(
            sorted(range(len(distinct)), key=lambda i: task_order_key(distinct[i]))
        ):
            ranks[i] = place
        return ranks

    places = hash_order([hash_of(task) for task in distinct], table=table, rank=rank)
    return [distinct[place] for place in places]
