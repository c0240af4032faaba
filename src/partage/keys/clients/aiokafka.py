"""aiokafka's partitioner: Java's hash, null keys by chance."""

from __future__ import annotations

from typing import ClassVar

from partage.keys.clients.by_chance import ByChance
from partage.keys.hashing import MURMUR2
from partage.keys.rule import KeyRule

__all__ = ["Aiokafka"]


class Aiokafka(ByChance):
    """As Java hashes keys; each null key by chance among those with a leader.

    Places are looked up in the list of the metadata, which is not sorted: with holes or in another
    order than 0, 1, 2, ... that is a partition of another number.
    """

    name = "aiokafka"
    exact_to = "aiokafka.partitioner.DefaultPartitioner aiokafka 0.14.0"
    aliases: ClassVar[tuple[str, ...]] = ("aiokafka.partitioner.DefaultPartitioner",)
    rule: ClassVar[KeyRule | None] = KeyRule(MURMUR2, "masked")

    def refusal(self, partition: int, partitions: int) -> str:
        """The AssertionError of ``send``."""
        return "Unrecognized partition"
