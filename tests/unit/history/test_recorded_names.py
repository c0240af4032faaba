"""Names of strategies in a log: they are looked up, and nothing is imported for them."""

from __future__ import annotations

import sys

import pytest
from tests.support.simulated_histories import generation, history, member, topics

from partage.history.agreement import check_agreement
from partage.history.clients import candidate_strategies
from partage.simulation.policies import recorded_strategy

NAMES = ["this:that", "antigravity:fly", "os:system", "range,sticky", "java:range", "acme"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_a_log_is_never_imported(name) -> None:
    """A protocol name of a client has no effect on this process, whatever it looks like."""
    before = set(sys.modules)
    (found,) = history((1_000, [member("a", [0, 1])]), strategy=name)
    assert check_agreement(found, topics(t=2)).agrees is None
    assert recorded_strategy(found) is None
    assert not (set(sys.modules) - before) & {"this", "antigravity"}


def test_a_leader_in_java_is_judged_by_javas_own() -> None:
    """There is no dialect of that name, and none is looked for elsewhere."""
    from partage.groups.registry import find

    found = generation(1, 1_000, [member("a", [0, 1])])
    assert candidate_strategies(found.first, find("range")) == [find("range")]
