"""Descriptions of recorded Kafka Streams applications, and the gain of one standby."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partage.errors import InvalidProblemError, UnsupportedProblemError
from partage.simulation.streams import read_application, standby_gain
from partage.streams.recorded_application import (
    ChangelogSize,
    RecordedApplication,
    RecordedClient,
    RecordedSubtopology,
    describe_application,
)

UUID = "00000000-0000-0000-0000-00000000000{}"
WORDS = "shop-words-changelog"
SHOP = RecordedApplication(
    "shop", False, 0,
    (RecordedSubtopology(0, {"lines": 2}, changelogs=(WORDS,)),
     RecordedSubtopology(1, {"ticks": 1})),
    (RecordedClient("a", UUID.format(1), 2, "r1", {"zone": "z"}, ("0_0", "1_0"), (), {"0_1": 7}),
     RecordedClient("b", UUID.format(2), 1, "r2", {}, ("0_1",))),
    {(WORDS, 0): ChangelogSize(6_000_000, 600_000_000, 50.0),
     (WORDS, 1): ChangelogSize(1_000_000, 100_000_000, 0.0)},
    {"num.standby.replicas": "0"}, {"lines": (("r1",), ("r2",))},
)  # fmt: skip


def test_the_file_has_each_task_with_its_size() -> None:
    """Lists of records are one number a task; bytes become the mean size of a record."""
    described = describe_application(SHOP)
    app = read_application(described)
    sizes = {str(task): app.state_of(task) for task in app.layout.partitions_of}
    assert {task: one.records for task, one in sizes.items()} == {
        "0_0": 6_000_000, "0_1": 1_000_000, "1_0": 0,
    }  # fmt: skip
    assert (sizes["0_0"].record_bytes, sizes["0_0"].writes_per_second) == (100, 25.0)
    assert (app.clients["a"].threads, app.clients["a"].rack) == (2, "r1")
    assert app.racks["lines"] == (frozenset({"r1"}), frozenset({"r2"}))
    assert described["events"][0]["client"] == "a"


def test_one_standby_saves_the_time_to_restore() -> None:
    """The crash of a costs 600 MB at 50 MB/s, besides the session timeout and the rebalance."""
    gain = standby_gain(read_application(describe_application(SHOP)), SHOP.default_assignor)
    assert (gain.standbys, gain.is_present) == (1, False)
    # 46.8 s until the crash is known, as its times after a heartbeat are 0 to 2.4 s; 12 s to
    # restore. The task without state returns to a for 3 s.
    assert gain.worst_s == pytest.approx(46.8 + 12, abs=0.1)
    assert gain.worst_with_s == pytest.approx(46.8 + 3, abs=0.1)
    assert gain.disk_bytes == 700_000_000
    assert gain.write_bytes_per_second == pytest.approx(2 * 25 * 100)


@pytest.mark.parametrize("at", [600, 600.3, 602.4])
@pytest.mark.parametrize(
    ("assignor", "longer_s"),
    [("streams:server-sticky@4.3", 5.1), ("streams:high-availability", 0.0)],
)
def test_the_gain_does_not_depend_on_the_time_of_the_crash(
    at: float, assignor: str, longer_s: float
) -> None:
    """Two applications with little state differ by the handover of a standby only.

    A member of a streams group releases its standby with one heartbeat and runs the task with the
    next one, 5 s later. A crash just before a heartbeat is noticed earlier than one just after it.
    """
    stores = {"s": {"records": 10}}
    app = read_application({
        "subtopologies": [{"sources": {"in": 4}, "stores": stores}], "clients": {"a": {}, "b": {}},
        "events": [{"at": at, "do": "crash", "client": "b", "disk": False, "backSeconds": 120}],
    })  # fmt: skip
    gain = standby_gain(app, assignor)
    assert gain.worst_with_s - gain.worst_s == pytest.approx(longer_s, abs=0.4)
    assert gain.handover_s == (5.0 if longer_s else 0.0)


def test_what_the_file_cannot_describe_is_an_error() -> None:
    """A gap in the sub-topologies, or one without sources, is named."""
    gap = replace(SHOP, subtopologies=SHOP.subtopologies[1:])
    with pytest.raises(UnsupportedProblemError, match="sub-topologies"):
        describe_application(gap)
    empty = replace(SHOP, subtopologies=(RecordedSubtopology(0, {}),))
    with pytest.raises(UnsupportedProblemError, match="no source topic"):
        describe_application(empty)
    with pytest.raises(UnsupportedProblemError, match="no client"):
        describe_application(replace(SHOP, clients=()))


@pytest.mark.parametrize("records", [[], [1], [1, 2, 3], [1, -2]])
def test_lists_of_records_have_a_number_for_each_task(records: list[int]) -> None:
    """A list of another length, or a wrong number in it, is an error with its path."""
    app = {"subtopologies": [{"sources": {"in": 2}, "stores": {"s": {"records": records}}}],
           "clients": {"a": {}}}  # fmt: skip
    with pytest.raises(InvalidProblemError, match=r"subtopologies\.0\.stores"):
        read_application(app)
