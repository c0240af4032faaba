"""Kafka Streams applications under other settings: page, terminal, JSON and Python."""

from __future__ import annotations

import io

import pytest

pytest.importorskip("pyarrow")

from tests.support.published import published, tables

import partage as pg
from partage.report.data import read_run
from partage.report.html import render_run_page
from partage.report.json_document import json_document
from partage.report.terminal import terminal_summary
from partage.report.view_model import streams_card
from partage.tables.statuses import RECORDED

#: Facts that all rows of the application share.
HEAD = {
    "group": "streamy", "incarnation": 0, "from_ms": 1_000, "to_ms": 601_000, "events": 4,
    "clients": 3, "tasks": 8, "standbys": 0, "unit": "bytes",
}  # fmt: skip


def row(position: int, total: float | None, **more) -> dict:
    """A row of table ``streams_settings`` with this total of outages."""
    found = {
        **HEAD, "position": position, "simulated": position > 0, "protocol": "classic",
        "assignor": "streams:high-availability" if position else RECORDED, "settings": "",
        "rebalances": 6.0, "moved": 4.0, "outages": 4.0, "outage_s": total,
        "mean_outage_s": None if total is None else total / 4, "worst_outage_s": total,
        "restored": 2_500_000, "disk": 1_000,
    }  # fmt: skip
    return found | more


def with_rows(tmp_path, *rows: dict):
    """The folder of a run whose group ``streamy`` has these rows."""
    found = tables()
    found["streams_settings"] = list(rows)
    return published(tmp_path, found)


ROWS = (
    row(0, 110.0, restored=None, disk=None),
    row(1, 120.0),
    row(2, 40.0, settings="num.standby.replicas=1", standbys=1, disk=2_000_000_000),
    row(3, 130.0, settings="session.timeout.ms=45000"),
    row(4, None, settings="num.standby.replicas=2", outages=None, detail="too many standbys"),
    row(5, 100.0, assignor="streams:server-sticky@4.3", protocol="streams"),
)


def test_an_application_is_no_group_without_a_replay(tmp_path) -> None:
    """Its group leaves the list of groups not replayed and has a card of its own."""
    run = read_run(with_rows(tmp_path, *ROWS))
    assert [group.name for group in run.other_groups] == []
    (application,) = run.simulated_applications
    card = streams_card(application)
    assert card.best == (
        "Shortest outages: num.standby.replicas=1, 40 s in all (now 120 s), the worst 40 s "
        "(now 120 s); +2.0 GB of disk."
    )
    assert card.facts.startswith("3 clients, 8 tasks, 0 standbys per task; simulated: 4 recorded")
    assert [label for label, _ in card.rows] == [
        "as recorded (without restoring)", "present settings", "num.standby.replicas=1",
        "session.timeout.ms=45000", "num.standby.replicas=2", "group.protocol=streams",
    ]  # fmt: skip
    cells = [cell.text for cell in card.rows[1][1]]
    assert cells == ["120.0", "30.0", "120.0", "6.0", "4.0", "2.5 MB", "1.0 kB"]
    assert card.rows[0][1][-1].text == "?"
    assert card.rows[4][1][0].text == "not applicable"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((row(0, 200.0), row(1, 120.0), row(2, 60.0, settings="a=1")), "80 s is the error"),
        ((row(0, 120.0), row(1, 120.0), row(2, 118.0, settings="a=1")), "No other settings"),
        ((row(0, 0.0, events=0), row(1, 0.0, events=0)), "No client started or stopped"),
        (
            (row(0, 120.0, unit=None), row(1, 120.0, disk=None, unit=None),
             row(2, 20.0, settings="a=1", disk=None, unit=None)),
            "Costs of disk are unknown",
        ),
    ],
)  # fmt: skip
def test_a_gain_within_the_error_is_none(tmp_path, rows, words) -> None:
    """The error is the difference between recorded and simulated present settings."""
    (application,) = read_run(with_rows(tmp_path, *rows)).simulated_applications
    assert words in streams_card(application).best


def test_page_terminal_and_json_have_the_rows(tmp_path) -> None:
    """All three show each combination of settings with its outages, restored state and disk."""
    from rich.console import Console

    out = with_rows(tmp_path, *ROWS)
    run = read_run(out)
    page = render_run_page(run)
    assert "Kafka Streams under other settings" in page
    assert "group.\u200bprotocol=streams" in page
    assert "2.0 GB" in page
    console = Console(file=io.StringIO(), width=100, color_system=None)
    for part in terminal_summary(run):
        console.print(part)
    text = console.file.getvalue()
    assert "Kafka Streams, streamy: Shortest outages: num.standby.replicas=1" in text
    assert "num.standby.replicas=1" in text.split("present settings")[1]
    (group,) = [one for one in json_document(run)["groups"] if one["name"] == "streamy"]
    assert [one["outage_s"] for one in group["streams_settings"]] == [
        110.0, 120.0, 40.0, 130.0, None, 100.0,
    ]  # fmt: skip


def test_python_has_the_rows(tmp_path) -> None:
    """`Run.streams_settings` and that of a group are tables with typed rows; others are empty."""
    run = pg.open_run(with_rows(tmp_path, *ROWS))
    assert len(run.streams_settings) == 6
    (one,) = run.streams_settings.where(settings="num.standby.replicas=1")
    assert (one.worst_outage_s, one.restored, one.unit) == (40.0, 2_500_000, "bytes")
    assert len(run.group("orders").streams_settings) == 0
    assert len(run.group("streamy").streams_settings) == 6


def test_a_run_of_an_older_version_has_no_rows(tmp_path) -> None:
    """A run without the table opens, and its Streams groups are listed as not replayed."""
    run = pg.open_run(published(tmp_path))
    assert len(run.group("streamy").streams_settings) == 0
    assert "Kafka Streams under other settings" not in render_run_page(read_run(tmp_path))


def test_an_application_that_cannot_be_described_says_why(tmp_path) -> None:
    """Its group stays in the list of groups not replayed, with the reason."""
    why = "streamy: the capture shows sub-topologies [1] only"
    rows = {"group": "streamy", "incarnation": 0, "position": 0, "simulated": False,
            "protocol": "", "assignor": RECORDED, "settings": "", "detail": why}  # fmt: skip
    run = read_run(with_rows(tmp_path, rows))
    assert [group.name for group in run.other_groups] == ["streamy"]
    assert why in render_run_page(run)
