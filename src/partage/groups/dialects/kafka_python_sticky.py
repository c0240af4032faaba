"""kafka-python's sticky assignor."""

from __future__ import annotations

from collections.abc import Sequence

from partage.groups.base import PlainStrategy
from partage.groups.dialects.python_sticky import balanced
from partage.groups.dialects.python_userdata import claims_of, user_data_of
from partage.groups.dialects.remembered import Remembered
from partage.groups.dialects.scene import PeerScene
from partage.model import Assignment, Plan, Problem
from partage.model.repeated_state import loop_attributes

__all__ = ["KafkaPythonSticky"]


class KafkaPythonSticky(PlainStrategy):
    """Balanced first, then few moves, by the general algorithm of Kafka 2.3 for every group.

    Differs from Java's ``sticky``: no racks, and no faster algorithm of its own for equal
    subscriptions; ties go by member id in order of code points and not by hash; each list is
    sorted by topic and number; and its user data has the version in front, so it forgets
    what Java or aiokafka members owned, and they what its members owned
    (`partage.groups.dialects.python_userdata`).

    Guarantees: loads differ by at most one, or no partition can go from a member to one that
    has at least two less. A partition stays where the newest claim has it, unless balance needs it.

    Cost: O(P log P + moves log M), where the class itself takes O(P² M).

    Where it is not optimal: as Java's general algorithm; and after a conflict of generations a
    partition may go back to a previous owner that no longer subscribes to it.

    Exact to ``kafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor`` of
    kafka-python 3.0.12; where the class takes "any" of a hash set, the first by topic and number.

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"A": 2, "B": 2})
    >>> group = Group([Member(c, ["A", "B"]) for c in ("C1", "C2", "C3")])
    >>> KafkaPythonSticky().assign(Problem(group, cluster)).to_dict()
    {'C1': {'A': [0], 'B': [1]}, 'C2': {'A': [1]}, 'C3': {'B': [0]}}
    """

    name = "kafka-python:sticky"
    exact_to = (
        "kafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor"
        " kafka-python 3.0.12"
    )
    aliases: tuple[str, ...] = (
        "kafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor",
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
        return user_data_of(mine.partitions, mine.generation, version_first=True)

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
        claims = [claims_of(m.user_data, version_first=True) for m in problem.group]
        lists, loop = balanced(scene, claims, swaps=True)
        return scene.plan(lists, **loop_attributes(loop, self.exact_to))
