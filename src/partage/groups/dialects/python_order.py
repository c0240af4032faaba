"""In which order the Python clients' sticky assignors look at partitions."""

from __future__ import annotations

import heapq

from partage.groups.dialects.python_claims import Believed
from partage.groups.dialects.scene import PeerScene

__all__ = ["in_order", "in_turns", "subscriptions_identical"]


def subscriptions_identical(scene: PeerScene) -> bool:
    """Whether all topics have one audience and all members one list of topics, order included.

    The order of the names as sent counts: two members that name the same topics in another
    order have "different" subscriptions, as a client's own set of names may well give them.
    """
    audience, lists = scene.audience, scene.subscribed
    return all(one == audience[0] for one in audience) and all(one == lists[0] for one in lists)


def in_order(scene: PeerScene, believed: Believed) -> list[int]:
    """All spots: those with the fewest subscribers first, then by topic and number.

    Where something is owned and subscriptions are identical, what is owned comes before that,
    always one from the member that has most left: first what had another owner before (the
    clients take any of these; here it is the first by topic and number), then from the end
    of its list.
    """
    crowd = [len(audience) for audience in scene.audience]
    rest = sorted(range(len(scene.topic_of)), key=lambda spot: crowd[scene.topic_of[spot]])
    if believed.fresh or not subscriptions_identical(scene):
        return rest
    out = in_turns(scene, believed)
    done = set(out)
    return out + [spot for spot in rest if spot not in done]


def in_turns(scene: PeerScene, believed: Believed) -> list[int]:
    """What is owned, always one from the member that has most left, of equals the last by id."""
    moved = believed.previous
    last = [[s for s in mine if s not in moved] for mine in believed.owned]
    first = [sorted((s for s in mine if s in moved), reverse=True) for mine in believed.owned]
    rank = scene.id_rank
    heap = [(-len(mine), -rank[m], m) for m, mine in enumerate(believed.owned) if mine]
    heapq.heapify(heap)
    out = []
    while heap:
        left, _, m = heap[0]
        out.append((first[m] or last[m]).pop())
        if left < -1:
            heapq.heapreplace(heap, (left + 1, -rank[m], m))
        else:
            heapq.heappop(heap)
    return out
