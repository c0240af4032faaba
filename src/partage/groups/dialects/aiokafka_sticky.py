"""aiokafka's sticky assignor."""

from __future__ import annotations

from collections.abc import Sequence

from partage.groups.base import PlainStrategy
from partage.groups.dialects.python_sticky import balanced
from partage.groups.dialects.python_userdata import claims_of, user_data_of
from partage.groups.dialects.remembered import Remembered
from partage.groups.dialects.scene import PeerScene
from partage.model import Assignment, Plan, Problem
from partage.model.repeated_state import loop_attributes

__all__ = ["AiokafkaSticky"]


class AiokafkaSticky(PlainStrategy):
    """As kafka-python's sticky, with Java's user data, and sometimes without an end.

    Differs from Java's ``sticky`` as `partage.groups.dialects.kafka_python_sticky` says, but for
    the user data, which is Java's (version 1 only: what is left over does not matter, and
    version 0 cannot be read). And it lacks kafka-python's cure for exchanges that undo each
    other: where two moves of one topic keep calling for each other, the class never
    returns. Here that is a refusal, told from a state that comes again.

    Not imitated: the class keeps what it remembers on the class, so that all consumers of a
    process share it; here each member has its own.

    Exact to ``aiokafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor`` of
    aiokafka 0.14.0; where the class takes "any" of a hash set, the first by topic and number.

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"A": 2, "B": 2})
    >>> group = Group([Member(c, ["A", "B"]) for c in ("C1", "C2", "C3")])
    >>> AiokafkaSticky().assign(Problem(group, cluster)).to_dict()
    {'C1': {'A': [0], 'B': [1]}, 'C2': {'A': [1]}, 'C3': {'B': [0]}}
    """

    name = "aiokafka:sticky"
    exact_to = (
        "aiokafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor"
        " aiokafka 0.14.0"
    )
    aliases: tuple[str, ...] = (
        "aiokafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor",
    )

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes:
        """The last assignment and its generation; empty before the first."""
        mine = Remembered.of(memory)
        if mine is None:
            return b""
        return user_data_of(mine.partitions, mine.generation, version_first=False)

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> Remembered:
        """Remembers the partitions and the generation."""
        return Remembered.given(assignment, generation)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Return the plan, with a warning if the class never returns.

        Raises:
            PeerRefusal: as the class raises; says why.
        """
        scene = PeerScene(problem)
        claims = [claims_of(m.user_data, version_first=False) for m in problem.group]
        lists, loop = balanced(scene, claims, swaps=False)
        return scene.plan(lists, **loop_attributes(loop, self.exact_to))
