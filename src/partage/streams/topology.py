"""A topology as Kafka Streams' leader sees it: sub-topologies and their topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from partage.errors import InvalidProblemError, InvalidTopologyError
from partage.java.hash_order import hash_order
from partage.java.strings import string_hash

__all__ = ["Subtopology", "Topology"]


@dataclass(frozen=True)
class Subtopology:
    """Processors that are joined, and so run as one task per partition (``TopicsInfo``).

    Attributes:
        number: of the group of nodes.
        sources: topics that it reads, repartition topics among them.
        sinks: topics that it writes.
        repartition: repartition topics among its sources -> partition count fixed by the
            user, None where Kafka decides.
        changelogs: changelog topics of its stores; one that is a source too is not created.
        stores: names of its stores, logged or not; by default one for each changelog.
        topology: name of its topology, None where topologies have no names.
    """

    number: int
    sources: tuple[str, ...]
    sinks: tuple[str, ...] = ()
    repartition: Mapping[str, int | None] = field(default_factory=dict)
    changelogs: tuple[str, ...] = ()
    stores: tuple[str, ...] | None = None
    topology: str | None = None

    def __post_init__(self) -> None:
        where = f"subtopologies.{self.number}"
        for topic, count in self.repartition.items():
            if topic not in self.sources:
                raise InvalidProblemError(
                    "must be one of its sources too", path=f"{where}.repartition", value=topic
                )
            if count is not None and count < 1:
                raise InvalidProblemError(
                    "must be at least 1", path=f"{where}.repartition.{topic}", value=count
                )

    @property
    def stateful(self) -> bool:
        """Whether it has any store (``isStateful`` of KIP-924)."""
        return bool(self.changelogs if self.stores is None else self.stores)

    @property
    def external(self) -> tuple[str, ...]:
        """Sources that the user makes."""
        return tuple(topic for topic in self.sources if topic not in self.repartition)


class Topology:
    """All sub-topologies of an application, and which topics are joined by key.

    Attributes:
        subtopologies: by (topology, number).
        copartitioned: sets of topics that must have equal partition counts.
        named: whether topologies have names.

    Raises:
        InvalidProblemError: a sub-topology is there twice, or some have names and some not.
        InvalidTopologyError: a source topic is read by two sub-topologies.

    >>> Topology([Subtopology(1, ("b",)), Subtopology(0, ("a",))]).subtopologies[0].sources
    ('a',)
    """

    def __init__(
        self,
        subtopologies: Iterable[Subtopology],
        copartitioned: Iterable[Iterable[str]] = (),
    ) -> None:
        self.subtopologies = tuple(
            sorted(subtopologies, key=lambda one: (one.topology or "", one.number))
        )
        self.copartitioned = tuple(frozenset(group) for group in copartitioned)
        names = [(one.topology, one.number) for one in self.subtopologies]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidProblemError("is there twice", path="subtopologies", value=twice)
        kinds = {one.topology is None for one in self.subtopologies}
        if len(kinds) > 1:
            raise InvalidProblemError(
                "must all have a topology's name or none", path="subtopologies", value=names
            )
        self.named = kinds == {False}
        self._check_readers()

    def _check_readers(self) -> None:
        reader: dict[str, Subtopology] = {}
        for one in self.subtopologies:
            for topic in one.sources:
                other = reader.setdefault(topic, one)
                if other is not one and other.topology == one.topology:
                    raise InvalidTopologyError(
                        f"is read by sub-topologies {other.number} and {one.number}; "
                        "sub-topologies with a source in common are one",
                        topics=[topic],
                        java_exception="TopologyException",
                    )

    def in_map_order(self, some: Iterable[Subtopology]) -> list[Subtopology]:
        """Sub-topologies as a ``HashMap`` of them is walked (by number and name)."""
        given = list(some)
        hashes = [
            961 + 31 * one.number + (0 if one.topology is None else string_hash(one.topology))
            for one in given
        ]
        return [given[place] for place in hash_order(hashes, rank=lambda: range(len(given)))]
