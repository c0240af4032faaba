"""A group's state as bytes: a history resumed from it equals an uninterrupted one."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
from tests.support.captured import clusters, group_records
from tests.support.commit_runs import fed
from tests.support.rebuilt import SESSION_MS, commit_runs, moves, rebuilt, record

from partage.errors import InvalidCaptureError
from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.history.group_history import GroupHistory
from partage.history.records import LogPosition, MemberState, Subscription
from partage.history.state_store import VERSION, pack_state, unpack_state
from partage.history.stop_model import UnreadInterval


def in_order(group: str) -> list:
    rows = [(LogPosition(r["partition"], r["offset"]), 0, r) for r in group_records()[group]]
    rows += [(run.first_place, 1, run) for run in commit_runs().get(group, [])]
    return sorted(rows, key=lambda one: one[:2])


@pytest.mark.parametrize(
    "group", ["checkout-workers", "pos-terminals", "ship-join", "work-queue-2", "one-off #1"]
)
def test_a_broken_history_is_the_whole_one(group: str) -> None:
    """Stored and resumed at random places, every group yields what it yields in one go."""
    draw = random.Random(group)
    rows = in_order(group)
    breaks = set(draw.sample(range(len(rows)), min(25, len(rows))))
    history = GroupHistory(clusters(), SESSION_MS, moves())
    found = []
    for i, (_, kind, row) in enumerate(rows):
        if i in breaks:
            history = GroupHistory.from_bytes(history.to_bytes(), clusters(), SESSION_MS, moves())
        found.extend(fed(history, row) if kind else history.process_record(record(row)))
    found.extend(history.finish_history())
    whole, wanted = rebuilt(group)
    assert found == list(wanted)
    assert (history.missing_before, history.missing_within, history.deletion_count) == (
        whole.missing_before, whole.missing_within, whole.deletion_count,
    )  # fmt: skip


def test_the_blob_of_another_version_is_refused() -> None:
    """An unknown layout raises an error that names it, and nothing is read."""
    blob = GroupHistory(ClusterHistory([])).to_bytes()
    assert blob[:4] == b"PGH" + bytes([VERSION])
    with pytest.raises(InvalidCaptureError, match=f"layout {VERSION + 1}"):
        GroupHistory.from_bytes(blob[:3] + bytes([VERSION + 1]) + blob[4:], ClusterHistory([]))


def test_damaged_blobs_are_refused() -> None:
    """Cut off, changed or foreign bytes are an error of ours, whatever they are."""
    blob = rebuilt("one-off #1")[0].to_bytes()
    draw = random.Random(5)
    foreign = [b"", b"PGH", b"PK\3\4", pack_state([1, 2]), pack_state({"classic": 1})]
    bombs = [
        b"PGH" + bytes([VERSION]) + zlib.compress(text)
        for text in (
            b"{",
            b'{"o":["Nobody",{}]}',
            b'{"x":1}',
            b'{"o":["LogPosition",{"a":1}]}',
            b'{"o":["LogPosition",[1]]}',
            b'{"r":["LogPosition",1,2]}',
            b'{"s":0}',
            b'{"n":[99999999999]}',
            b"[" * 99_999,
        )
    ]
    cut = [blob[: draw.randrange(len(blob))] for _ in range(20)]
    for bad in (*foreign, *bombs, *cut):
        with pytest.raises(InvalidCaptureError, match="rebuild it from the log"):
            GroupHistory.from_bytes(bad, ClusterHistory([]))


def test_what_is_shared_is_written_once_and_comes_back_shared() -> None:
    """A value that stands at a hundred places takes the room of one, and is one afterwards."""
    one = next(found for found in rebuilt("billing")[1] if isinstance(found, Generation))
    blob = pack_state([one] * 100)
    assert len(blob) < len(pack_state(one)) + 200
    back = unpack_state(blob)
    assert back == [one] * 100
    assert all(copy is back[0] for copy in back)


def member_of(number: int, subscription: Subscription) -> MemberState:
    """Return a member with three or four partitions."""
    assigned = (("t", tuple(range(3 * number, 3 * number + 3 + number % 2))),)
    data = b"x" if number % 2 else None
    return MemberState(f"m{number}", None, "c", "/h", 1, 2, subscription, assigned, 1, data, None)


def test_long_lists_are_stored_by_columns_and_come_back_equal() -> None:
    """Many members, mappings and named tuples take little room; types and identity are kept."""
    subscription = Subscription(1, ("t",), None, (), 3, None, None)
    members = tuple(member_of(i, subscription) for i in range(400))
    intervals = [UnreadInterval("t", i, "m", "?", 1, 2, 3, i, 0.5 + i, 0.1, 2.5, 0)
                 for i in range(40)]  # fmt: skip
    owned = {f"m{i}": np.arange(i % 3, dtype=np.int32) for i in range(40)}
    several = members, owned, members[:40], (members[1], members[5]), intervals, [(1, 2)] * 20
    blob = pack_state(several)
    assert len(blob) < 6_000
    back = unpack_state(blob)
    assert back[0] == members
    assert back[2:] == (members[:40], (members[1], members[5]), intervals, [(1, 2)] * 20)
    assert back[3][0] is back[2][1] is back[0][1]
    assert all(one.subscription is back[0][0].subscription for one in back[0])
    assert type(back[0][3].assigned[0][1][0]) is int
    assert list(back[1]) == list(owned)
    for name, partitions in owned.items():
        assert back[1][name].dtype == np.int32
        assert back[1][name].tolist() == partitions.tolist()


@pytest.mark.parametrize(
    "text",
    [
        b'{"c":["t","LogPosition",[{"q":"AAAAAAAAAAA="}]]}',
        b'{"c":["t","LogPosition",[{"q":"AAAAAAAAAAA="},{"l":[]}]]}',
        b'{"c":["t","Nobody",[{"l":[1]}]]}',
        b'{"v":["AQAAAA==",{"l":[1,2]}]}',
        b'{"u":[{"l":[1]},"BQAAAA=="]}',
        b'{"h":["t","AAAAAA=="]}',
        b'{"m":[{"l":[1]},{"l":[]}]}',
    ],
)
def test_damaged_columns_are_refused(text: bytes) -> None:
    """Columns of unequal length, unknown classes and wrong positions are an error of ours."""
    blob = b"PGH" + bytes([VERSION]) + zlib.compress(text)
    with pytest.raises(InvalidCaptureError, match="damaged"):
        unpack_state(blob)


def test_only_listed_classes_are_stored() -> None:
    """A value of a class that is not in the list is an internal error and raises one at once."""
    with pytest.raises(TypeError, match="cannot be stored"):
        pack_state({"a": object()})
