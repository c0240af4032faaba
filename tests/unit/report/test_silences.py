"""Members that were put out and came back are told from those that died."""

from __future__ import annotations

from collections import Counter

from partage.report.silences import MOST_TIMEOUTS, returns

SESSION = 6_000


def scene(time: int, kinds: str, *, expired: bool = False):
    return (time, expired, Counter(kinds), SESSION)


def test_who_comes_back_soon_was_only_slow() -> None:
    """The silence is the session timeout and the time until the return."""
    assert returns([scene(0, "ab"), scene(9_000, "a", expired=True), scene(12_000, "ab")]) == [
        9_000
    ]


def test_who_does_not_come_back_counts_for_nothing() -> None:
    """Dead, or away for longer than slowness explains: killed, and started again later."""
    gone = [scene(0, "ab"), scene(9_000, "a", expired=True)]
    assert returns([*gone, scene(12_000, "ac")]) == []
    assert returns([*gone, scene(9_001 + (MOST_TIMEOUTS - 1) * SESSION, "ab")]) == []


def test_others_of_its_kind_are_no_return() -> None:
    """Two of one client and host: the one that stayed is not the one that came back."""
    gone = [scene(0, "aab"), scene(9_000, "ab", expired=True)]
    assert returns([*gone, scene(10_000, "ab")]) == []
    assert returns([*gone, scene(10_000, "ab"), scene(11_000, "aab")]) == [8_000]


def test_only_expiries_are_looked_at() -> None:
    """Who leaves and joins again was not put out; a first rebalance has nobody to miss."""
    assert returns([scene(0, "ab"), scene(1, "a"), scene(2, "ab")]) == []
    assert returns([scene(0, "a", expired=True), scene(1, "ab")]) == []


def test_without_a_timeout_nobody_knows_how_long_a_silence_was() -> None:
    """Members of the new protocols send none; the table has -1."""
    rows = [scene(0, "ab"), scene(9_000, "a", expired=True), scene(12_000, "ab")]
    assert returns([(*row[:3], 0) for row in rows]) == []
