"""The truth of unread times, on histories small enough to check by hand."""

from __future__ import annotations

from tests.support.unread_truth import UnreadInterval, loss_by_rebalance, unread_intervals


def saw(ts_ms: int, member: str, ev: str, *numbers: int) -> dict:
    parts = [["t", list(numbers)]] if numbers else []
    return {"ts_ms": ts_ms, "group": "g", "id": member, "ev": ev, "parts": parts}


def done(ts_ms: int, member: str, what: str) -> dict:
    return {"ts_ms": ts_ms, "group": "g", "id": member, "what": what}


def found(observed: list[dict], events: list[dict] | None = None) -> list[tuple]:
    return sorted(
        (one.partition, one.from_ms, one.to_ms, one.begin, one.end, one.no_client_ms)
        for one in unread_intervals(observed, events or [])
    )


def test_a_first_assignment_ends_no_pause() -> None:
    """A partition that nobody read before has no interval."""
    assert found([saw(10, "a", "started"), saw(20, "a", "assigned", 0, 1)]) == []


def test_an_eager_rebalance_stops_every_partition() -> None:
    """Also the partition that returns to its owner is unread in between."""
    observed = [
        saw(10, "a", "assigned", 0, 1), saw(15, "b", "started"), saw(20, "a", "revoked", 0, 1),
        saw(30, "a", "assigned", 0), saw(31, "b", "assigned", 1),
    ]  # fmt: skip
    assert found(observed) == [
        (0, 20, 30, "revoked", "assigned", 0), (1, 20, 31, "revoked", "assigned", 0),
    ]  # fmt: skip


def test_parts_of_a_cooperative_rebalance_are_changes() -> None:
    """A partition that nobody revokes is read all the time; an empty callback changes nothing."""
    observed = [
        saw(10, "a", "assigned", 0, 1), saw(15, "b", "started"), saw(20, "a", "revoked", 1),
        saw(20, "a", "assigned"), saw(24, "b", "assigned", 1),
    ]  # fmt: skip
    assert found(observed) == [(1, 20, 24, "revoked", "assigned", 0)]


def test_a_killed_member_says_nothing_more() -> None:
    """Its partitions are unread from the kill on, and no callback says so."""
    observed = [
        saw(10, "a", "assigned", 0), saw(11, "b", "assigned", 1), saw(80, "b", "revoked", 1),
        saw(90, "b", "assigned", 0, 1),
    ]  # fmt: skip
    assert found(observed, [done(50, "a", "kill")]) == [
        (0, 50, 90, "kill", "assigned", 0), (1, 80, 90, "revoked", "assigned", 0),
    ]  # fmt: skip


def test_a_thaw_ends_a_pause_of_a_partition_that_nobody_took() -> None:
    """Of two partitions of a frozen member, the one that was assigned ended earlier."""
    observed = [
        saw(10, "a", "assigned", 0, 1), saw(11, "b", "started"), saw(60, "b", "assigned", 1),
        saw(80, "a", "lost", 0, 1), saw(95, "b", "assigned", 0),
    ]  # fmt: skip
    events = [done(50, "a", "freeze"), done(70, "a", "thaw")]
    assert found(observed, events) == [
        (0, 50, 70, "freeze", "thaw", 0), (0, 80, 95, "lost", "assigned", 0),
        (1, 50, 60, "freeze", "assigned", 0),
    ]  # fmt: skip


def test_time_without_clients_is_apart() -> None:
    """The group had no client from 20 to 50."""
    observed = [
        saw(10, "a", "assigned", 0), saw(18, "a", "revoked", 0), saw(20, "a", "closed"),
        saw(50, "b", "started"), saw(57, "b", "assigned", 0),
    ]  # fmt: skip
    assert found(observed) == [(0, 18, 57, "revoked", "assigned", 30)]
    (one,) = unread_intervals(observed, [])
    assert one.lost_ms == 9


def test_a_pause_counts_for_the_last_rebalance_before_its_end() -> None:
    """A pause longer than a minute, and one before the first record, count for none."""

    def pause(partition: int, from_ms: int, to_ms: int) -> UnreadInterval:
        return UnreadInterval("g", "t", partition, from_ms, to_ms, "revoked", "assigned", "a")

    known = {"g": [(100, (0, 1)), (200, (0, 2)), (300, (0, 3))]}
    pauses = [pause(0, 150, 200), pause(1, 150, 199), pause(2, 1, 60_400), pause(3, 10, 20)]
    assert loss_by_rebalance(pauses, known) == {
        ("g", 0, 2): {("t", 0): 50.0}, ("g", 0, 1): {("t", 1): 49.0},
    }  # fmt: skip


def test_a_hard_bounce_is_a_kill_and_a_clean_one_is_not() -> None:
    """A member that bounces cleanly stops with its callback."""
    observed = [
        saw(10, "a", "assigned", 0), saw(11, "b", "assigned", 1), saw(40, "b", "revoked", 1),
        saw(90, "c", "assigned", 0, 1),
    ]  # fmt: skip
    events = [done(30, "b", "bounce"), done(50, "a", "bounce") | {"hard": True}]
    assert [one[1:3] for one in found(observed, events)] == [(50, 90), (40, 90)]


def test_time_without_a_subscriber_is_apart() -> None:
    """From 30 to 70 the only client of the group reads another topic."""

    def reads(ts_ms: int, *topics: str) -> dict:
        return saw(ts_ms, "a", "resubscribed") | {"topics": list(topics)}

    observed = [
        reads(5, "t", "u"), saw(10, "a", "assigned", 0), saw(20, "a", "revoked", 0),
        reads(30, "u"), reads(70, "t"), saw(90, "a", "assigned", 0),
    ]  # fmt: skip
    (one,) = unread_intervals(observed, [])
    assert (one.no_client_ms, one.no_subscriber_ms, one.lost_ms) == (0, 40, 30)


def test_a_client_that_exceeded_its_poll_interval_runs_on() -> None:
    """A client of librdkafka reports it and joins again; one that another client fenced stops."""
    for error, no_client_ms in (("_MAX_POLL_EXCEEDED", 0), ("_FATAL", 20)):
        observed = [
            saw(10, "a", "started"), saw(10, "b", "assigned", 0), saw(20, "a", "poll_error"),
            saw(60, "a", "assigned", 0),
        ]  # fmt: skip
        observed[2]["error"] = f"KafkaError{{code={error}}}"
        assert found(observed, [done(40, "b", "kill")]) == [
            (0, 40, 60, "kill", "assigned", no_client_ms)
        ]


def test_an_assignment_that_a_stalled_client_reports_late_counts_for_nothing() -> None:
    """The client has left the group meanwhile, and another member reads the partition."""
    observed = [
        saw(10, "b", "assigned", 0), saw(500, "a", "assigned", 0), saw(501, "a", "poll_error"),
        saw(502, "a", "lost", 0), saw(900, "b", "revoked", 0), saw(950, "b", "assigned", 0),
    ]  # fmt: skip
    observed[2]["error"] = "KafkaError{code=_MAX_POLL_EXCEEDED}"
    assert found(observed) == [(0, 900, 950, "revoked", "assigned", 0)]
