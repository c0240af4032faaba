"""Kafka 0.9's default partitioner, the worked example of a custom partitioner."""

from __future__ import annotations

from collections.abc import Mapping

from partage.errors import InvalidConfigError
from partage.java.random import JavaRandom
from partage.keys.hashing import murmur2
from partage.keys.partitioner import clear_sign_bit
from partage.model import Cluster

__all__ = ["DefaultPartitioner"]


class DefaultPartitioner:
    """Default partitioner of Kafka's Java producer 0.9, as an example of a custom partitioner.

    It places a key by its murmur2 hash, and records without a key round robin. It equals
    ``org.apache.kafka.clients.producer.internals.DefaultPartitioner`` of 0.9.0.1, with one counter
    for all topics. In Kafka the counter starts at a random int. Here it starts at the setting
    ``partage.counter``, or at the first number of ``java.util.Random(partage.seed)`` (0 by
    default).

    >>> partitioner = DefaultPartitioner()
    >>> partitioner.configure({"partage.counter": 5})
    >>> cluster = Cluster.from_topics({"orders": 4})
    >>> [partitioner.partition("orders", None, None, None, b"v", cluster) for _ in range(3)]
    [1, 2, 3]
    """

    def __init__(self) -> None:
        self._counter = 0

    def configure(self, configs: Mapping[str, object]) -> None:
        """Read the start of the round-robin counter from the producer's settings.

        The setting is ``partage.counter``. Without it, the start is drawn at random with the seed
        ``partage.seed``.

        Raises:
            InvalidConfigError: a setting is not an int.
        """
        for name in ("partage.counter", "partage.seed"):
            value = configs.get(name, 0)
            if not isinstance(value, int) or isinstance(value, bool):
                raise InvalidConfigError(name, "must be an int", value)
        seed, counter = configs.get("partage.seed", 0), configs.get("partage.counter")
        first, _ = JavaRandom.from_seed(int(str(seed))).next_int()
        self._counter = first if counter is None else int(str(counter))

    def partition(  # noqa: PLR0917 - Kafka's own signature
        self,
        topic: str,
        key: object,  # noqa: ARG002 - the contract hands it over
        key_bytes: bytes | None,
        value: object,  # noqa: ARG002 - the same
        value_bytes: bytes | None,  # noqa: ARG002 - the same
        cluster: Cluster,
    ) -> int:
        """Return a record's partition: by the murmur2 hash of its key, else round robin.

        Only ``key_bytes`` matters; the value is ignored. Round robin skips partitions without a
        leader, if there are others.
        """
        partitions = cluster.partitions_of(topic)
        if not len(partitions):
            raise InvalidConfigError("topic", "the cluster has no such topic", topic)
        if key_bytes is not None:
            return clear_sign_bit(murmur2(key_bytes)) % len(partitions)
        turn = self._counter
        self._counter = (turn + 1 + (1 << 31)) % (1 << 32) - (1 << 31)  # an int of Java's
        led = [i for i, p in enumerate(partitions.tolist()) if cluster.leader[p] >= 0]
        if led:
            return led[clear_sign_bit(turn) % len(led)]
        return clear_sign_bit(turn) % len(partitions)

    def close(self) -> None:
        """Do nothing, because the partitioner has no resources to release.

        The method exists because Kafka's interface ``Partitioner`` has it.
        """
