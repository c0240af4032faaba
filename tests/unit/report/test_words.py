"""The sentences of a report: each says what its figures say."""

from __future__ import annotations

import pytest

from partage.report import words
from partage.report.run import Figures, Group, Run
from partage.statuses import RECORDED

COVERAGE = {"first_ms": 0, "last_ms": 501_000}


def figures(name: str, **more) -> Figures:
    return Figures(name, **({"rebalances": 4, "done": 4, "proven": 4} | more))


def run(*of: Figures, rebalances: int = 4) -> Run:
    mine = {one.strategy: one for one in of}
    group = Group(
        "g", "g0", "classic", "replayed", None, (), (), 0, 0, rebalances, 0, 0, 2, mine, ()
    )
    names = tuple(n for n in mine if n != RECORDED)
    return Run({"coverage": COVERAGE}, (group,), names, mine, ())


@pytest.mark.parametrize(
    ("recorded", "rebalances", "said"),
    [
        ({"moved": 9, "avoidable": 2}, 4, "They moved 9 partitions, 2 of them in vain."),
        ({"moved": 9, "avoidable": 2}, 6, "The 4 that were replayed moved 9 partitions"),
        ({"moved": 9, "avoidable": 2, "proven": 3}, 4, "at least 2 of them in vain."),
        ({"moved": 9}, 4, "They moved 9 partitions, none of them provably in vain."),
        ({}, 4, "They moved no partition."),
        ({"done": 0}, 4, "none of them could be replayed."),
    ],
)
def test_the_headline_says_what_the_figures_say(recorded, rebalances, said) -> None:
    """All, some or none replayed; moves avoidable, not avoidable, or not wholly known."""
    text = words.headline(run(figures(RECORDED, **recorded), rebalances=rebalances))
    assert said in text
    assert text.startswith(f"{rebalances} rebalances in 1 classic group within 8\xa0min 21\xa0s")


def test_the_headline_without_rebalances() -> None:
    """A log without classic groups is said to be one."""
    assert "No group" in words.headline(run(rebalances=0))


def test_the_alternative_is_one_that_does_the_same_work() -> None:
    """Neither who refuses, nor who leaves partitions or members without, is called better."""
    fit = figures("fair", moved=7)
    unfit = [
        figures("refuses", moved=1, done=3, refused=1),
        figures("leaves", moved=1, incomplete=1),
        figures("idles", moved=1, idle=5),
        figures("absent", moved=0, done=0, missing=4),
    ]
    found = run(figures(RECORDED, moved=9, idle=1), *unfit, fit)
    assert words.best_alternative(found) == fit
    assert "With fair, the same 4 rebalances would have moved 7" in words.advice(found)
    assert words.advice(found).endswith("22.2\xa0% fewer.")
    dearer = run(figures(RECORDED, moved=9), figures("fair", moved=7, rack_mismatches=3))
    assert "fewer, but owned 3 more partitions outside their racks." in words.advice(dearer)


def test_when_nothing_is_better_that_is_said() -> None:
    """A record that no strategy beats is not talked down; without candidates neither."""
    found = run(figures(RECORDED, moved=5), figures("fair", moved=8, avoidable=1))
    assert "No strategy replayed would have moved fewer" in words.advice(found)
    assert "fair with 8 (1 avoidable), 3 more than recorded" in words.advice(found)
    assert "as many as recorded" in words.advice(
        run(figures(RECORDED, moved=5), figures("fair", moved=5))
    )
    assert "No strategy that Partage has" in words.advice(run(figures(RECORDED, moved=5)))
    assert words.advice(run(figures(RECORDED, done=0))) == ""


def test_shares_are_never_rounded_to_all_or_none() -> None:
    """99.96 % is not 100 %, and one in a million is not 0 %."""
    assert words.percent(9_996, 10_000) == "99.9\xa0%"
    assert words.percent(1, 1_000_000) == "0.1\xa0%"
    assert words.percent(0, 0) == "-"
