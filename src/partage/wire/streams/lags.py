"""From store lags to task lags, as the leader of the KIP-441 document would add them up.

"The leader can use this information, in conjunction with its knowledge of the topology to
determine the task lag": a task's lag is the sum over its stores.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from partage.errors import InvalidProblemError
from partage.wire.streams.drafts import StoreLags
from partage.wire.streams.tasks import NO_VALUES, Tasks, TaskValues

__all__ = ["task_lags_of_stores"]


def task_lags_of_stores(lags: StoreLags, subtopology_of_store: Mapping[str, int]) -> TaskValues:
    """Lag of each task that has a store here, int64, by (sub-topology, partition).

    Args:
        lags: as one client reported them. A store that is there twice counts once, with its last
            lag, as in a map.
        subtopology_of_store: the topology: which sub-topology each store belongs to. A store
            that it does not name is an error, since its lag would be lost.

    Raises:
        InvalidProblemError: a negative lag; a store that the topology does not have; a sum beyond
            int64 (which int32 lags cannot reach with fewer than 2**32 stores).

    Source: the document KIP-441, proposed SubscriptionInfo of version 5.

    >>> lags = StoreLags.of({("a", 0): 5, ("b", 0): 2**31 - 1, ("a", 1): 1})
    >>> task_lags_of_stores(lags, {"a": 0, "b": 0}).to_dict()
    {(0, 0, None): 2147483652, (0, 1, None): 1}
    """
    if not len(lags):
        return NO_VALUES
    if (lags.lag < 0).any():
        place = int(np.argmax(lags.lag < 0))
        raise InvalidProblemError(
            "must be an int32 >= 0: a lag counts offsets",
            path=f"store lags.{lags.names[lags.store[place]]}[{int(lags.partition[place])}]",
            value=int(lags.lag[place]),
        )
    for name in lags.names:
        if name not in subtopology_of_store:
            raise InvalidProblemError(
                "must be a store of the topology", path="store lags", value=name
            )
    last = _last_of_each(lags)
    numbers = np.array([subtopology_of_store[name] for name in lags.names], np.int64)
    task = numbers[lags.store[last]] << 32 | lags.partition[last].astype(np.int64) & 0xFFFFFFFF
    tasks, whose = np.unique(task, return_inverse=True)
    sums = np.zeros(len(tasks), np.int64)
    np.add.at(sums, whose, lags.lag[last].astype(np.int64))
    return TaskValues(
        Tasks(
            (tasks >> 32).astype(np.int32), (tasks & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
        ),
        sums,
    )


def _last_of_each(lags: StoreLags) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Places of the stores' last rows."""
    store = lags.store.astype(np.int64) << 32 | lags.partition.astype(np.int64) & 0xFFFFFFFF
    _, from_end = np.unique(store[::-1], return_index=True)
    found: np.ndarray[tuple[int], np.dtype[np.intp]] = len(store) - 1 - from_end
    return found
