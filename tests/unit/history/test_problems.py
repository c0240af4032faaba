from __future__ import annotations

import pytest
from tests.support.simulated_histories import (
    SimulatedHistory,
    cause,
    generation,
    history,
    member,
    topics,
)

from partage.history.agreement import UNEXPLAINED, check_agreement
from partage.history.events import Generation
from partage.history.problems import unsupported_reason
from partage.history.records import ClassicState, LogPosition, MemberState


def test_members_that_cannot_be_replayed_are_named() -> None:
    """Damaged bytes, other protocols and Streams give a reason, and no rows."""
    damaged = MemberState("m", None, "c", "", 0, 0, None, (), -1, None, "topics at byte 2: cut")
    sound = (member("a"),)
    states = [
        (ClassicState("consumer", 1, "range", "m", None, (damaged,)), "member m: topics at byte 2"),
        (ClassicState("connect", 1, "sessioned", None, None, (damaged,)), "protocol type connect"),
        (ClassicState("", 1, None, None, None, (damaged,)), "protocol type not set"),
        (ClassicState("consumer", 1, None, None, None, ()), "no members"),
        (ClassicState("consumer", 1, "stream", "a", None, sound), "Kafka Streams assigns tasks"),
    ]
    for state, words in states:
        assert words in str(unsupported_reason(state))
        simulated = SimulatedHistory(
            [Generation(0, LogPosition(0, 1), 1, state, state, 1, 0, None)], topics(t=1)
        )
        assert (
            simulated.recorded()
            == simulated.cumulative("eager/range")
            == simulated.per_rebalance("range")
            == []
        )


def test_a_wrong_record_is_not_explained_away() -> None:
    """A plan that no cluster and no memory explains disagrees, without an invented reason."""
    found = generation(1, 100, [member("a", (0, 3)), member("b", (1, 2))], cause("first"))
    asked = check_agreement(found, topics(t=4))
    assert (asked.agrees, asked.why) == (False, UNEXPLAINED)
    rows = SimulatedHistory([found], topics(t=4)).per_rebalance("eager/range")
    assert [(r.agrees, r.detail, r.changed) for r in rows] == [(False, UNEXPLAINED, 2)]


def test_each_policy_lives_with_its_own_past() -> None:
    """Moves are counted against the policy's own plan before, not against the record's."""
    steps = [[member("a", (0, 3)), member("b", (1, 2))], [member("a", (3, 0)), member("b", (2, 1))]]
    made = history((1_000, steps[0], cause("first")), (2_000, steps[1], cause("unknown")))
    simulated = SimulatedHistory(made, topics(t=4))
    for policy in ("eager/range", "eager/roundrobin"):
        assert [r.measured.moved for r in simulated.cumulative(policy)] == [0, 0]
        # From the record both would move: range 1 and 3, roundrobin 0 and 3 stay where they are.
        assert [r.measured.moved for r in simulated.per_rebalance(policy)][1] == 2


@pytest.mark.parametrize("when", [-5, 0, 50])
def test_before_the_first_state_there_is_no_topic(when: int) -> None:
    """A record from before the metadata is replayed on a cluster without topics."""
    clusters = topics(t=3)
    assert len(clusters.cluster_at(when).partitions_of("t")) == (3 if when >= 0 else 0)
