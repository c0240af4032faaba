"""Evicted members that rejoined soon are distinguished from those that died."""

from __future__ import annotations

from collections import Counter

from partage.report.traits import MAX_TIMEOUTS, Snapshot, find_silent_times

SESSION = 6_000


def rebalance(time: int, members: str, *, evicted: bool = False) -> Snapshot:
    return Snapshot(time, evicted, Counter(members), SESSION)


def test_a_member_that_rejoins_soon_was_slow() -> None:
    """Its silence is the session timeout plus the time until it rejoins."""
    assert find_silent_times(
        [rebalance(0, "ab"), rebalance(9_000, "a", evicted=True), rebalance(12_000, "ab")]
    ) == [9_000]


def test_a_member_that_does_not_rejoin_does_not_count() -> None:
    """A member that never rejoins, or only after several session timeouts, was dead or restarted."""
    gone = [rebalance(0, "ab"), rebalance(9_000, "a", evicted=True)]
    assert find_silent_times([*gone, rebalance(12_000, "ac")]) == []
    assert find_silent_times([*gone, rebalance(9_001 + (MAX_TIMEOUTS - 1) * SESSION, "ab")]) == []


def test_other_members_with_the_same_identity_do_not_count() -> None:
    """Of two members with one client id and host, the one that stayed has not rejoined."""
    gone = [rebalance(0, "aab"), rebalance(9_000, "ab", evicted=True)]
    assert find_silent_times([*gone, rebalance(10_000, "ab")]) == []
    assert find_silent_times([*gone, rebalance(10_000, "ab"), rebalance(11_000, "aab")]) == [8_000]


def test_only_session_timeouts_count() -> None:
    """A member that leaves and rejoins was not evicted; a first rebalance has no predecessor."""
    assert find_silent_times([rebalance(0, "ab"), rebalance(1, "a"), rebalance(2, "ab")]) == []
    assert find_silent_times([rebalance(0, "a", evicted=True), rebalance(1, "ab")]) == []


def test_without_a_session_timeout_the_silence_is_unknown() -> None:
    """Members of the consumer protocol send none; the table has -1."""
    rows = [rebalance(0, "ab"), rebalance(9_000, "a", evicted=True), rebalance(12_000, "ab")]
    assert find_silent_times([row._replace(session_ms=0) for row in rows]) == []
