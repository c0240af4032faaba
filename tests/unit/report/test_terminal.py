"""A run's closing words on a terminal."""

from __future__ import annotations

import io

import pytest

pytest.importorskip("pyarrow")

from tests.support.published import group, published, rebalance, replayed, tables
from tests.support.synthetic_runs import published_run, synthetic

from partage.report.data import read_run
from partage.report.terminal import _WrappingName, terminal_summary
from partage.tables.statuses import FAILED, RECORDED, REFUSED


def printed(out, width: int = 100) -> str:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None)
    for part in terminal_summary(read_run(out)):
        console.print(part)
    return console.file.getvalue()


def test_coverage_comes_first(tmp_path) -> None:
    """The output starts with coverage, then records, then reproduced assignments."""
    lines = [line for line in printed(published(tmp_path)).splitlines() if line.strip()]
    assert lines[0].startswith("coverage")
    assert lines[1].startswith("records     10 read = 9 decoded + 1 damaged")
    assert lines[2].startswith("reproduced  1 of 2")


def test_a_name_cannot_command_the_terminal(tmp_path) -> None:
    """An escape sequence or markup in a group's name is printed as text."""
    rows = tables()
    name = "\x1b[2J[red]x"
    rows["groups"].append(group(name, rebalances=9))
    rows["rebalances"].append(rebalance(name, 1))
    rows["replays"].append(replayed(name, 1, RECORDED))
    text = printed(published(tmp_path, rows))
    assert "\x1b" not in text
    assert r"\x1b[2J[red]x" in text


def test_a_star_marks_what_must_not_be_compared(tmp_path) -> None:
    """A strategy without a plan for some rebalance has an explained star."""
    rows = tables()
    rows["replays"].append(replayed("orders", 3, "fair", status=REFUSED, moved=None))
    text = printed(published(tmp_path, rows))
    assert "? *" in text
    assert "* not comparable: no plan for some rebalances" in text


def test_a_strategy_that_failed_is_named_with_its_error(tmp_path) -> None:
    """A plug-in that raised errors has a row and a line with number and error."""
    rows = tables()
    why = "ZeroDivisionError: \x1b[2Jby zero"
    for generation in (1, 2):
        rows["replays"].append(
            replayed("orders", generation, "acme", status=FAILED, moved=None, detail=why)
        )
    failures = [{"group": "orders", "generation": 1, "strategy": "acme", "why": why}]
    lines = printed(published(tmp_path, rows, failures=failures), 200).splitlines()
    (line,) = (one for one in lines if one.startswith("failed"))
    assert r"acme in 2 of 2 rebalances: ZeroDivisionError: \x1b[2Jby" in line
    (row,) = (one for one in lines if one.startswith("acme"))
    assert row.split()[-1] == FAILED
    whole = printed(published(tmp_path / "whole"), 200)
    assert FAILED not in whole


def test_lines_to_copy_are_never_broken(tmp_path) -> None:
    """A configuration line stands on one line of an ordinary terminal."""
    out = published_run(tmp_path, synthetic(2))
    text = printed(out, 80)
    lines = [line.strip() for line in text.splitlines()]
    assert "group.protocol=consumer" in lines
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "would have saved" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_fits_any_terminal(tmp_path, width) -> None:
    """No line is wider than the terminal."""
    assert all(len(line) <= width for line in printed(published(tmp_path), width).splitlines())


@pytest.mark.parametrize("width", [55, 70])
def test_a_narrow_table_of_policies_keeps_their_names(tmp_path, width) -> None:
    """Last columns are left out and named; no policy's name is hidden, no figure is cut."""
    out = published_run(tmp_path, synthetic(2))
    whole, narrow = (printed(out, columns).splitlines() for columns in (200, width))
    (wide_row,) = (line.split() for line in whole if line.startswith("own "))
    (row,) = (line.split() for line in narrow if line.startswith("own "))
    assert row == wide_row[: len(row)]
    assert len(row) < len(wide_row)
    assert "idle: in a wider terminal, or with | less -S" in " ".join(map(str.strip, narrow))


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (18, ["cooperative/", "cooperative-", "sticky+static"]),
        (80, ["cooperative/cooperative-sticky+static"]),
    ],
)
def test_policies_fold_between_words(width, lines) -> None:
    """A policy's name is folded behind / + or -, never within a word."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(_WrappingName("cooperative/cooperative-sticky+static"))
    assert [line.rstrip() for line in console.file.getvalue().splitlines()] == lines


def test_a_name_of_32_kb_does_not_fill_the_terminal(tmp_path) -> None:
    """Names are cut; the whole run takes few lines."""
    rows = tables()
    name = "x" * 32_767
    rows["groups"].append(group(name, rebalances=9))
    rows["rebalances"].append(rebalance(name, 1))
    rows["replays"].append(replayed(name, 1, RECORDED))
    text = printed(published(tmp_path, rows))
    assert "x" * 30 in text
    assert text.count("\n") < 100
