"""The first phase of a cooperative rebalance: what may be without owner, and what may not."""

from __future__ import annotations

import numpy as np

from partage.judge import check
from partage.model import Cluster, Group, Member, Plan

CLUSTER = Cluster.from_topics({"t": 3})
GROUP = Group([Member("a", ["t"], owned={"t": [0, 1]}), Member("b", ["t"])])


def plan(owned, withheld):
    array = np.array(withheld, np.int32)
    return Plan.of(CLUSTER.index, owned, withheld=array, destined=np.ones_like(array))


def test_a_partition_that_must_be_given_up_first_may_have_no_owner():
    """Member a has t-1 and loses it, so that b can get it only in the next phase."""
    first = plan({"a": {"t": [0]}, "b": {"t": [2]}}, [1])
    assert check(first, GROUP, CLUSTER) == []
    assert check(first.settled(), GROUP, CLUSTER) == []
    assert first.settled().to_dict() == {"a": {"t": [0]}, "b": {"t": [2, 1]}}


def test_nobody_has_to_give_up_what_nobody_owns():
    """A strategy cannot excuse an unowned partition by calling it withheld."""
    first = plan({"a": {"t": [0]}, "b": {}}, [1, 2])
    assert [str(b) for b in check(first, GROUP, CLUSTER)] == ["t-2 has subscribers but no owner"]


def test_what_its_owner_keeps_is_not_withheld():
    """Kept and withheld at once changes nothing: the partition has its owner."""
    kept = plan({"a": {"t": [0, 1]}, "b": {"t": [2]}}, [])
    assert check(kept, GROUP, CLUSTER) == []
    assert kept.settled() is kept


def test_an_unowned_partition_is_still_a_breach():
    """Without the word withheld the rule is as strict as ever."""
    first = plan({"a": {"t": [0]}, "b": {"t": [2]}}, [])
    assert [str(b) for b in check(first, GROUP, CLUSTER)] == ["t-1 has subscribers but no owner"]
