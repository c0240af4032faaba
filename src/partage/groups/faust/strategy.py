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
    """Base class of the assignors for Faust groups.

    A subclass assigns each group of copartitioned topics. Its members remember the `FaustMetadata`
    of their last assignment and send it when they join again. Both strategies send the same, so one
    group can have members of both; the leader decides.
    """

    settings: FaustSettings = field(default_factory=FaustSettings)

    # Faust writes 4 into the header of both messages; fields of versions 1 to 4 do not follow.
    version = 4

    def configure(self, config: Mapping[str, object]) -> Self:
        """Check the settings of a configuration, and return the strategy with them.

        Raises:
            InvalidConfigError: a setting has the wrong type.
        """
        return replace(self, settings=self.settings.with_config(config))

    def subscription_user_data(self, topics: Sequence[str], memory: object = None) -> bytes:
        """Encode the metadata of the member's last assignment, and its URL.

        The metadata is empty before the first assignment.
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
        """Return the member's memory: the metadata that the leader sent with the assignment.

        Raises:
            WireFormatError: the leader's bytes are not Faust's.
        """
        if user_data is not None:
            return read_faust_assignment(user_data)
        pairs = [pair for owned in assignment.to_pairs().values() for pair in owned]
        return FaustMetadata(partitions_by_topic(pairs), url=self.settings.url)

    def assign(self, problem: Problem, memory: object = None) -> FaustPlan:
        """Return the leader's plan, with the user data that each member gets with its assignment.

        Raises:
            PeerAssignorError: Faust's class fails on this problem, or a global table's changelog is
                not among the subscribed topics.
            ProblemTooLargeError: ``faust:copartitioned`` only: topics with more than 16 million
                pairs of partition and member.
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
        """Choose the active and standby partitions of each subscriber of copartitioned topics.

        The result is in the order of the subscribers.

        Args:
            topics: one group of copartitioned topics, with its subscribers.
            metadata: the decoded user data of each member of the consumer group.
        """
