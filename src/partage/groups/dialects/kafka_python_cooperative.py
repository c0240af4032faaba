"""kafka-python's cooperative sticky assignor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partage.groups.api import RebalanceProtocol
from partage.groups.base import PlainStrategy
from partage.groups.dialects.python_sticky import balanced
from partage.groups.dialects.scene import PeerScene
from partage.model import Plan, Problem
from partage.model.repeated_state import loop_attributes

__all__ = ["KafkaPythonCooperativeSticky"]


class KafkaPythonCooperativeSticky(PlainStrategy):
    """As its sticky, in two phases: what somebody else still claims is given to nobody first.

    Differs from Java's ``cooperative-sticky``: the placement is that of ``kafka-python:sticky``;
    claims are the subscription's owned partitions, their generation only that of the
    subscription (version 2 and later; its own members send version 1, so theirs is always -1,
    and of two that claim one partition the first is believed); and a partition is withheld
    where the **last** member to claim it is not its new owner, whoever was believed.

    Exact to ``kafka.coordinator.assignors.cooperative_sticky.CooperativeStickyAssignor`` of
    kafka-python 3.0.12. Cost: as `partage.groups.dialects.kafka_python_sticky`.

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"t": 3})
    >>> group = Group([Member("a", ["t"], owned={"t": [0, 1, 2]}), Member("b", ["t"])])
    >>> KafkaPythonCooperativeSticky().assign(Problem(group, cluster)).to_dict()
    {'a': {'t': [0, 1]}, 'b': {}}
    """

    name = "kafka-python:cooperative-sticky"
    version = 1
    exact_to = (
        "kafka.coordinator.assignors.cooperative_sticky.CooperativeStickyAssignor"
        " kafka-python 3.0.12"
    )
    aliases = ("kafka.coordinator.assignors.cooperative_sticky.CooperativeStickyAssignor",)
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes:
        """Empty, not null: the claims are the subscription's owned partitions."""
        return b""

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Return the plan for this phase, with a warning if the class never returns.

        Raises:
            PeerRefusal: as the class raises; says why.
        """
        scene = PeerScene(problem)
        claims = [(list(m.owned), m.generation) for m in problem.group]
        lists, loop = balanced(scene, claims, swaps=True)
        claimant = _last_claimants(scene)
        gone: list[tuple[int, int]] = []
        for member, mine in enumerate(lists):
            gone += [(s, member) for s in mine if claimant.get(s, member) != member]
            mine[:] = [s for s in mine if claimant.get(s, member) == member]
        return scene.plan(
            lists,
            withheld=scene.dense[np.array([s for s, _ in gone], np.int32)],
            destined=np.array([m for _, m in gone], np.int32),
            **loop_attributes(loop, self.exact_to),
        )


def _last_claimants(scene: PeerScene) -> dict[int, int]:
    """Spot -> the last member, in join order, that claims it."""
    out = {}
    for member, one in enumerate(scene.problem.group):
        for topic, number in one.owned:
            k = scene.place.get(topic, -1)
            spot = scene.spot_by_number[k].get(number) if k >= 0 else None
            if spot is not None:
                out[spot] = member
    return out
