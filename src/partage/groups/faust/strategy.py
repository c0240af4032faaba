"""Base class of both Faust strategies: the members' user data, and the steps of an assignment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from partage.groups.api import PlainStrategy
from partage.groups.faust.inputs import (
    CopartitionedTopics,
    collect_warnings,
    find_copartitioned_topics,
    partitions_by_topic,
    read_metadata,
)
from partage.groups.faust.plan import CopartitionedAssignment, FaustPlan, build_plan
from partage.groups.faust.settings import FaustSettings
from partage.model import Assignment, Problem
from partage.wire.faust import FaustMetadata, read_faust_assignment, write_faust_subscription

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FaustStrategy"]


@dataclass(frozen=True, repr=False)
class FaustStrategy(PlainStrategy, ABC):
    """Base class of both assignors for Faust, a stream processing library on Kafka.

    A subclass implements `assign_copartitioned`. Members store the `FaustMetadata` of their last
    assignment and send it when they join again. Both assignors send the same user data, so one
    group can have members of both; the leader's assignor is used.
    """

    settings: FaustSettings = field(default_factory=FaustSettings)

    # Faust writes 4 into the header of both messages; fields of versions 1 to 4 do not follow.
    version = 4

    def configure(self, config: Mapping[str, object]) -> Self:
        """Return a copy of the assignor with the settings of a client's configuration.

        ``config`` has values by setting name, such as ``assignment.faust.standby.replicas``;
        unknown names are ignored.

        Raises:
            InvalidConfigError: a setting has the wrong type.
        """
        return replace(self, settings=self.settings.with_config(config))

    def subscription_user_data(self, topics: Sequence[str], memory: object = None) -> bytes:
        """Encode a Faust member's last assignment and its URL as user data.

        The member sends it when it joins its group, so that the leader can leave partitions where
        they are.

        Args:
            topics: the subscribed topics; not used.
            memory: the metadata of the last assignment; None before the first one.
        """
        previous = memory if isinstance(memory, FaustMetadata) else FaustMetadata()
        return write_faust_subscription(replace(previous, url=self.settings.url or previous.url))

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> FaustMetadata:
        """Return the metadata that a Faust member stores until the next rebalance, when it reports
        them.

        The leader sent them with the assignment. Without user data, the metadata are built from the
        assigned partitions.

        Args:
            assignment: the partitions that the member got; not used.
            user_data: the leader's metadata as bytes.
            generation: the group's generation; not used.
            memory: the metadata stored so far.

        Raises:
            WireFormatError: the user data is not Faust metadata.
        """
        if user_data is not None:
            return read_faust_assignment(user_data)
        pairs = [pair for owned in assignment.to_pairs().values() for pair in owned]
        return FaustMetadata(partitions_by_topic(pairs), url=self.settings.url)

    def assign(self, problem: Problem, memory: object = None) -> FaustPlan:
        """Assign active and standby partitions to the members of a Faust group, as its leader does.

        The plan has the user data that each member gets with its assignment. ``problem`` is the
        group and the cluster; ``memory`` (state between rebalances) is not used.

        Raises:
            PeerAssignorError: Faust itself fails on this problem, or a global table's changelog is
                not among the subscribed topics.
            ProblemTooLargeError: topics have more than 16 million pairs of partition and member
                (only with ``faust:copartitioned``).
        """
        metadata, warnings = read_metadata(problem)
        groups, without_partitions = find_copartitioned_topics(problem)
        assignments = [self.assign_copartitioned(topics, metadata) for topics in groups]
        warnings += collect_warnings(problem, groups, without_partitions, self.settings)
        placed = list(zip(groups, assignments, strict=True))
        return build_plan(problem, placed, metadata, self.settings, warnings)

    @abstractmethod
    def assign_copartitioned(
        self, topics: CopartitionedTopics, metadata: Sequence[FaustMetadata]
    ) -> list[CopartitionedAssignment]:
        """Choose the active and standby members of each partition of copartitioned topics.

        Copartitioned topics have equal partition counts and subscribers, and partitions with the
        same number go to the same member. Subclasses implement this method.

        Args:
            topics: topics with equal partition counts and subscribers, which are assigned together.
            metadata: the decoded user data of each member of the consumer group.

        Returns:
            The active and standby partitions of each subscriber.
        """
