"""The soak's own checks can fail: each is shown what it has to find."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.clients.faust_workers import Worker
from tests.clients.members import One
from tests.clients.records import Written

from chaos.faust_history import given_otherwise
from chaos.fausts import failed_by_ours, near
from chaos.history import assigned_otherwise, decided_otherwise
from chaos.ledger import Ledger
from chaos.party import Party
from chaos.whereabouts import Whereabouts
from partage.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from partage.wire.faust import FaustMetadata

A, B = ("t", 0), ("t", 1)


def member(name: str, *events: dict) -> One:
    one = One(SimpleNamespace(client="java"), name, "g")
    for event in events:
        one.take(event)
    return one


def assigned(name: str, generation: int, *owns: tuple[str, int]) -> dict:
    return {"event": "assigned", "member": name, "generation": generation, "owns": owns,
            "partitions": owns}  # fmt: skip


def party(*members: One) -> Party:
    return Party("g", "t", "range", "", 2, 6000, live=list(members), all=list(members))


def logged(generation: int, **owners: list[tuple[str, int]]) -> Written:
    said = decode_subscription(encode_subscription(["t"]))
    given = {m: decode_assignment(encode_assignment(pairs)) for m, pairs in owners.items()}
    return Written(generation, "range", "a", dict.fromkeys(owners, said), given,
                   dict.fromkeys(owners), {})  # fmt: skip


@pytest.mark.parametrize(
    ("of_a", "of_b", "found"),
    [
        ((1, A), (1, B), ""),
        ((1, A, B), (1, B), "several owners"),
        ((1, A), (1,), "nobody owns"),
        ((1, A), (2, B), "several generations"),
        ((1, A, ("t", 7)), (1, B), "there is no"),
    ],
)
def test_a_group_that_is_unwell_is_seen(of_a, of_b, found) -> None:
    """Two owners, none, two generations, a partition that is not there; and a group that is well."""
    wrong = party(member("a", assigned("a", *of_a)), member("b", assigned("b", *of_b))).wrong
    assert (found in wrong) if found else not wrong


def test_what_the_log_does_not_have_is_seen() -> None:
    """A member's word against the log: other partitions, a generation that is missing, and a
    partition that the log gives twice.
    """
    mine = party(member("a", assigned("a", 1, A)), member("b", assigned("b", 1, B)))
    assert assigned_otherwise(mine, [logged(1, a=[A], b=[B])]) == []
    assert len(assigned_otherwise(mine, [logged(1, a=[B], b=[A])])) == 2
    assert len(assigned_otherwise(mine, [logged(2, a=[A], b=[B])])) == 2
    assert "twice" in assigned_otherwise(mine, [logged(1, a=[A, B], b=[B])])[0]


def test_a_plan_of_nobody_s_is_seen() -> None:
    """Range gives a its first and b its second partition, however far the topic has grown."""
    mine = party()
    assert decided_otherwise(mine, [logged(1, a=[A], b=[B])], 2) == []
    assert len(decided_otherwise(mine, [logged(1, a=[B], b=[A])], 2)) == 1


def test_a_record_that_nobody_has_read_is_seen() -> None:
    """Acknowledged and not read is lost; read twice is not."""
    ledger = Ledger.__new__(Ledger)
    ledger.acknowledged = {"t": {("t", 0, 0), ("t", 0, 1)}}
    once = {"event": "read", "records": [["t", 0, 0]]}
    assert ledger.unread(party(member("a", once, once))) == {("t", 0, 1)}


def test_a_strategy_that_failed_is_seen() -> None:
    """Errors of brokers are life; an assignor's own are violations."""
    failed = {"event": "error", "what": "AssignorError: strategy x failed in group g"}
    assert party(member("a", {"event": "error", "what": "TimeoutError"})).broken() == []
    assert len(party(member("a", failed)).broken()) == 1


@pytest.mark.parametrize(
    ("missing", "committed", "table", "passed", "behind"),
    [
        (set(), 5, 5, {}, {}),
        ({(0, 4)}, 4, 4, {}, {}),  # it waits: nobody has passed it over
        ({(0, 3), (0, 4)}, 5, 3, {0: [3, 4]}, {}),
        ({(0, 4)}, 4, 3, {}, {0: 1}),
        (set(), 5, 3, {}, {0: 2}),
    ],
)
def test_where_a_record_is_that_nobody_counted(missing, committed, table, passed, behind) -> None:
    """One that waits at its place is late; one that was passed over, or that the table lacks, is lost."""
    seen = Whereabouts(missing, {0: committed}, {"w0": table})
    assert (seen.passed(), seen.behind({0: 5})) == (passed, behind)


def received(
    actives: dict[str, list[int]], standbys: dict[str, list[int]], fetched: list[int] | None = None
) -> tuple[list, FaustMetadata]:
    has = actives.get("words", []) if fetched is None else fetched
    return [("x-words", p) for p in has], FaustMetadata(
        {f"x-{topic}": numbers for topic, numbers in actives.items()},
        {f"x-{topic}": numbers for topic, numbers in standbys.items()},
        url="http://a:1",
    )


def faust_generation(**changed) -> dict:
    """Two members, as it should be but for what is changed."""
    right = {
        "a": ({"words": [0], "counts-changelog": [0], "__assignor-__leader": [0]},
              {"counts-changelog": [1]}),
        "b": ({"words": [1], "counts-changelog": [1]}, {"counts-changelog": [0]}),
    }  # fmt: skip
    return {1: {member: received(*one) for member, one in (right | changed).items()}}


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        (
            {"b": ({"words": [0], "counts-changelog": [0]}, {"counts-changelog": [0]})},
            ["owner", "own"],
        ),
        ({"b": ({}, {"counts-changelog": [0]})}, ["owner"]),
        (
            {"b": ({"words": [1], "counts-changelog": [1]}, {"counts-changelog": [0]}, [0])},
            ["owner", "Faust received"],
        ),
        ({"b": ({"words": [1], "counts-changelog": []}, {"counts-changelog": [0]})}, ["other"]),
        ({"b": ({"words": [1], "counts-changelog": [1]}, {})}, ["standbys"]),
        ({"a": ({"words": [0], "counts-changelog": [0]}, {"counts-changelog": [1]})}, ["leader"]),
    ],
)
def test_a_generation_of_faust_that_an_assignor_should_not_make_is_seen(changed, found) -> None:
    """Words, table, leader and standbys: each has its place, once."""
    wrong = given_otherwise("x", 2, faust_generation(**changed))
    assert len(wrong) == len(found)
    assert all(what in said for what, said in zip(found, wrong, strict=True))


def test_a_worker_whose_strategy_failed_is_seen(tmp_path) -> None:
    """Faust's own class decided in its place; and a traceback that goes through ours."""
    log = tmp_path / "log"
    worker = Worker.__new__(Worker)
    worker._log, worker.kind = log, "faust"
    log.write_text(
        "strategy faust failed in group g, generation 1: x; Faust's own assignor decides"
    )
    assert len(failed_by_ours([worker])) == 1
    log.write_text('File "/x/src/partage/clients/faust.py", line 1, in f\nZeroDivisionError')
    assert len(failed_by_ours([worker])) == 1
    log.write_text("[WARNING] Heartbeat failed for group g because it is rebalancing")
    assert failed_by_ours([worker]) == []


@pytest.mark.parametrize(("died_at", "excused"), [(100.0, True), (500.0, False), (None, False)])
def test_a_lost_record_is_excused_by_a_broker_s_death_only(died_at, excused) -> None:
    """Acknowledged at 130: a broker that died half a minute before may be to blame."""
    deaths = [] if died_at is None else [died_at]
    assert near(130.0, deaths) is excused
