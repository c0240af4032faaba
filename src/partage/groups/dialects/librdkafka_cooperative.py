"""librdkafka's cooperative sticky assignor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from partage.groups.api import RebalanceProtocol
from partage.groups.base import PlainStrategy
from partage.groups.dialects.librdkafka_balance import balanced
from partage.groups.dialects.librdkafka_scene import LibrdkafkaScene
from partage.groups.dialects.remembered import Remembered
from partage.model import Assignment, Plan, Problem, Unresolved
from partage.model.repeated_state import loop_attributes
from partage.wire.codec import encode
from partage.wire.messages import STICKY_ASSIGNOR_USER_DATA

__all__ = ["LibrdkafkaCooperativeSticky"]


class LibrdkafkaCooperativeSticky(PlainStrategy):
    """Balanced first, then few moves, by Kafka's general algorithm of 2.4; then in two phases.

    Differs from Java's ``cooperative-sticky``: no faster algorithm of its own for equal
    subscriptions; ties go by member id, not by hash; two claims of **any** one generation on
    a partition make it nobody's; with racks a member without one (this library sends the empty
    text) fits no rack, and gives up all it has; a list has what stays first and what is new
    after it, so a topic may stand in it twice; and what is claimed but is no longer given
    out, of a deleted topic say, goes **back** to its last claimant.

    Guarantees: as `partage.groups.sticky.CooperativeSticky`, but for what is said above.

    Cost: O(P log P + moves log M); the library itself takes O(P² M).

    Not imitated: where it reads freed memory (a partition moves against one of its topic that
    moved before, or moves twice) or crashes, this refuses.

    Exact to ``rd_kafka_sticky_assignor_assign_cb`` of librdkafka 2.16.0, the order in which a
    member's topics stand aside.

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"t": 3})
    >>> group = Group([Member("a", ["t"], owned={"t": [0, 1, 2]}), Member("b", ["t"])])
    >>> LibrdkafkaCooperativeSticky().assign(Problem(group, cluster)).to_dict()
    {'a': {'t': [1, 2]}, 'b': {}}
    """

    name = "librdkafka:cooperative-sticky"
    exact_to = "rd_kafka_sticky_assignor_assign_cb librdkafka 2.16.0"
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes:
        """The last assignment and its generation, in Java's form; empty before the first."""
        mine = Remembered.of(memory)
        if mine is None:
            return b""
        runs = groupby(mine.partitions, key=lambda pair: pair[0])
        values = {
            "previousAssignment": [
                {"topic": topic, "partitions": [p for _, p in run]} for topic, run in runs
            ],
            "generation": mine.generation,
        }
        return encode(STICKY_ASSIGNOR_USER_DATA, values, version=1, path="userData")

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
        """Return the plan for this phase, with a warning if the library never returns.

        ``unresolved`` has the claims that go back to a member and do not exist.

        Raises:
            PeerRefusal: the library would crash or do what nobody can tell; or a member
                subscribes to nothing.
        """
        scene = LibrdkafkaScene(problem)
        if not len(problem.group):
            return scene.plan([])
        dense = scene.dense.tolist()
        balanced_lists, loop = balanced(scene)
        given = {dense[s]: m for m, mine in enumerate(balanced_lists) for s in mine}
        claimant, lost = _claimants(problem)
        lists: list[list[int]] = [[] for _ in problem.group]
        stays = {p for p, m in given.items() if p in claimant and _same(problem, m, claimant[p])}
        for p in given:
            if p in stays:
                lists[claimant[p]].append(p)
        for p, member in given.items():
            if p not in claimant:
                lists[member].append(p)
        for p, member in claimant.items():
            if p not in given:
                lists[member].append(p)
        gone = [(p, m) for p, m in given.items() if p in claimant and p not in stays]
        made: Plan = Plan.from_lists(
            problem.index,
            problem.group.ids,
            lists,
            unresolved=tuple(lost),
            withheld=np.array([p for p, _ in gone], np.int32),
            destined=np.array([m for _, m in gone], np.int32),
            **loop_attributes(loop, self.exact_to),
        )
        return made


def _same(problem: Problem, member: int, other: int) -> bool:
    """Whether the library takes two members for one: those of one instance id are, to it."""
    instance = problem.group[member].instance_id
    return member == other or (
        instance is not None and instance == problem.group[other].instance_id
    )


def _claimants(problem: Problem) -> tuple[dict[int, int], Iterator[Unresolved]]:
    """The last member to claim each partition of the cluster, and the claims on others."""
    start, dense = problem.claims
    known: dict[int, int] = {}
    others: dict[tuple[str, int], int] = {}
    for member, one in enumerate(problem.group):
        mine = dense[start[member] : start[member + 1]].tolist()
        for pair, p in zip(one.owned, mine, strict=True):
            if p >= 0:
                known[p] = member
            else:
                others[pair] = member
    ids = problem.group.ids
    return known, (Unresolved(ids[m], topic, p) for (topic, p), m in others.items())
