"""Plans of our own leaders, asked for again: what members of ours tell each other is in the log."""

from __future__ import annotations

import pytest

from partage.clients.shared import Consumer, Joined, configure_strategy
from partage.clients.shared.loads import Loads
from partage.history.agreement import check_agreement
from partage.history.classic_groups import ClassicGroup, ClassicRecord
from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.history.records import LogPosition, parse_classic_state
from partage.wire.consumer_protocol import decode_assignment
from unit.clients.groups_of_ours import view

STATE = {"ts_ms": 0, "brokers": [{"id": 1, "rack": None}],
         "topics": {"t": {"id": None, "partitions": [
             {"p": p, "leader": 1, "replicas": [1]} for p in range(9)]}}}  # fmt: skip
LOADS = {("t", p): (39.0 if p == 4 else 5.0 + p) for p in range(9)}


def simulated_records(strategy: str, *, loads: bool, keeps: bool = False) -> list[dict]:
    """Values of the group's records: two members, a third, and a rebalance more.

    Args:
        strategy: of all of them.
        loads: whether they measure.
        keeps: whether they keep what they have while they join.
    """
    mine: dict[str, Consumer] = {}
    records = []
    for number, came in enumerate(("a", "b", "c", None), 1):
        if came:
            mine[came] = Consumer(
                configure_strategy(strategy, {}), loads=Loads() if loads else None
            )
        sent = {
            m: one.subscription(["t"], cooperative=keeps, measured={p: LOADS[p] for p in one.owned})
            for m, one in mine.items()
        }
        joined = [Joined(m, data) for m, data in sent.items()]
        answer = mine["a"].assign(joined, view({"t": 9}), group="g", generation=number)
        for m, data in answer.sent.items():
            got = decode_assignment(data)
            mine[m].store_assignment(got.partitions, got.user_data, number)
        records.append({
            "protocolType": "consumer", "generation": number, "protocol": strategy, "leader": "a",
            "currentStateTimestamp": number, "members": [
                {"memberId": m, "groupInstanceId": None, "clientId": m,
                 "clientHost": "/h", "rebalanceTimeout": 1, "sessionTimeout": 1,
                 "subscription": sent[m], "assignment": answer.sent[m]} for m in mine
            ],
        })  # fmt: skip
    return records


def judged(records: list[dict]):
    group = ClassicGroup()
    found = [
        one for n, value in enumerate(records)
        for one in group.process_record(ClassicRecord(LogPosition(0, n), 1000 + n, parse_classic_state(value)))
    ]  # fmt: skip
    clusters = ClusterHistory([STATE])
    return [
        check_agreement(one, clusters)
        for one in (*found, *group.finish_generations())
        if isinstance(one, Generation)
    ]


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(
    ("strategy", "loads"), [("optimal", True), ("optimal", False), ("server:uniform", False)]
)
def test_our_own_plans_come_out(strategy, loads, keeps) -> None:
    """Claims and loads stand behind the user data, the loads in use with the assignments, those of
    what is withheld with its next owner: with them each plan is the recorded one.
    """
    verdicts = judged(simulated_records(strategy, loads=loads, keeps=keeps))
    assert [one.agrees for one in verdicts] == [True] * 4
    assert {one.judged_by for one in verdicts} == {strategy}


def test_a_leader_that_does_not_see_instances_is_a_cause() -> None:
    """kafka-python 2.0 orders static members by their ids: found, and named."""
    records = simulated_records("range", loads=False)
    for number, one in enumerate(records[2]["members"]):
        one["groupInstanceId"] = f"at-{9 - number}"
    verdict = judged(records[:3])[-1]
    assert verdict.agrees is False
    assert verdict.why == "the leader does not see group.instance.id"
