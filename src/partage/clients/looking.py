"""The leader's own look at the cluster: how fast partitions fill, whoever reads them or not.

    from partage.clients.kafka_python import assignor, cluster_look

    look = cluster_look(["orders"], bootstrap_servers="broker:9092")
    KafkaConsumer("orders", group_id="billing",
                  partition_assignment_strategy=[assignor("optimal", weights=look)])

An assignor is asked in the middle of a rebalance and cannot wait for a broker. So a thread asks
every few seconds, and what it has is the answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from partage.clients.sampling import Sampler

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ClusterLook"]

log = logging.getLogger("partage.clients")

Partition = tuple[str, int]


class ClusterLook:
    """Records a second that arrive, by topic and partition: what ``weights=`` of an assignor takes.

    Args:
        ends: asks the cluster for the end offsets now; called in a thread of its own. One that
            raises is told once, and asked again.
        seconds: between two looks.
        window: over which what arrives is counted, in seconds.

    >>> with ClusterLook(dict, seconds=60.0) as look:
    ...     look()
    {}
    """

    def __init__(
        self,
        ends: Callable[[], Mapping[Partition, int]],
        *,
        seconds: float = 5.0,
        window: float = 60.0,
    ) -> None:
        self._ends = ends
        self._sampler = Sampler("throughput", window=window)
        self._seconds = seconds
        self._ended = threading.Event()
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="partage-look", daemon=True)
        self._thread.start()

    def __call__(self) -> Mapping[Partition, float]:
        """The loads as they were seen last; nothing before two looks."""
        return self._sampler.loads()

    def close(self) -> None:
        """Look no more."""
        self._ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                ends = dict(self._ends())
            except Exception as e:  # noqa: BLE001 - a broker that is away, foreign code
                if not self._failed:
                    log.warning("the look at the cluster failed (%s: %s)", type(e).__name__, e)
                self._failed = True
            else:
                self._failed = False
                self._sampler.see((ends, ends), time.monotonic())
            self._ended.wait(self._seconds)
