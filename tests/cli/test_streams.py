"""`partage streams`: the table, the JSON, the page, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from partage.cli.app import app
from partage.errors import InvalidConfigError, InvalidProblemError
from partage.simulation.streams import read_application

APP: dict[str, Any] = {
    "name": "counts",
    "seconds": 3600,
    "subtopologies": [{"sources": {"lines": 4}, "stores": {"words": {"records": 6_000_000}}}],
    "clients": {
        "a": {"restoreBytesPerSecond": 10_000_000},
        "b": {"restoreBytesPerSecond": 10_000_000},
    },
    "events": [{"at": 600, "do": "crash", "client": "b", "disk": False, "backSeconds": 120}],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The application in a file."""
    path = tmp_path / "app.json"
    path.write_text(json.dumps(APP), "utf-8")
    return path


def _run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["streams", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output


def test_settings_and_assignors_stand_side_by_side(file: Path) -> None:
    """A line for each combination, with the seconds that the tasks were away."""
    output = _run(file, "-a", "high-availability", "--sweep", "num.standby.replicas=0,1")
    rows = [line.split() for line in output.splitlines() if line.startswith("high-availability")]
    assert [row[1:4] for row in rows] == [["0", "336.2", "168.1"], ["1", "96.2", "48.1"]]


def test_settings_of_a_streams_group_need_its_assignor(tmp_path: Path) -> None:
    """Without it the classic protocol is simulated: a note names the settings and the assignor."""
    file = tmp_path / "app.json"
    settings = {"streams.session.timeout.ms": "6000"}
    file.write_text(json.dumps({**APP, "settings": settings}), "utf-8")
    note = "streams.session.timeout.ms: settings of a streams group"
    assert note in _run(file)
    assert note not in _run(file, "-a", "server-sticky@4.3")


def test_json_tells_measures_rebalances_and_spans(file: Path) -> None:
    """What a program reads: figures, plans, and who ran what when."""
    (found,) = json.loads(_run(file, "--json"))
    assert found["assignor"] == "streams:high-availability"
    assert found["measures"]["unavailable_seconds"]["0_1"] == 168.1
    assert [one["causes"] for one in found["rebalances"]][1:3] == [["b was missed"], ["b joined"]]
    warm = {"client": "b", "task": "0_1", "kind": "warm-up", "from": 723.0, "to": 1326.0}
    assert warm in found["spans"]


def test_the_page_shows_warm_ups_and_needs_no_network(file: Path, tmp_path: Path) -> None:
    """One file with a timeline for each combination; foreign names are escaped."""
    changed = {**APP, "name": "<script>x</script>"}
    file.write_text(json.dumps(changed), "utf-8")
    page = tmp_path / "page.html"
    _run(file, "--sweep", "num.standby.replicas=0,1", "-o", page)
    text = page.read_text("utf-8")
    assert "<script" not in text
    assert "http:" not in text
    assert "https:" not in text
    assert 'class="warm-up" style="left:20.083%;width:16.75%"' in text
    assert "Tasks are unavailable for 96.2 to 336.2 s; least: high-availability" in text


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"subtopologies": []}, "subtopologies"),
        ({"clients": {}}, "clients"),
        ({"start": []}, "start"),
        ({"clients": {"a": {"threads": 0}}}, "clients.a.threads"),
        ({"clients": {"a": {"rack": 3}}}, "clients.a.rack"),
        ({"clients": {"a": {"process": "7"}}}, "clients.a.process"),
        ({"clients": {"a": {"restoreBytesPerSecond": 0}}}, "clients.a.restoreBytesPerSecond"),
        ({"subtopologies": [{"sources": ["x"]}]}, "subtopologies.0.sources"),
        ({"events": ["x"]}, "events.0"),
        ({"clients": {"a": {"restore": 3}}}, "clients.a.restore"),
        ({"events": [{"at": 1, "do": "crash", "client": "z"}]}, "events.0.client"),
        ({"events": [{"at": -1, "do": "crash", "client": "a"}]}, "events.0.at"),
        ({"events": [{"at": 1, "do": "explode"}]}, "events.0.do"),
        ({"events": [{"at": 1, "do": "crash", "client": "a", "disk": 1}]}, "events.0.disk"),
        ({"events": [{"at": 1, "do": "join", "client": c} for c in "ab"]}, "events"),
        ({"seconds": float("nan")}, "seconds"),
        ({"seconds": 10**400}, "seconds"),
        ({"racks": {"lines": [["r"]]}}, "racks.lines"),
        ({"racks": {"lonely": []}}, "racks.lonely"),
        ({"start": "half"}, "start"),
        ({"settings": {"num.standby.replica": 1}}, "settings.num.standby.replica"),
        ({"settings": {"session.timeout.ms": 0}}, "settings.session.timeout.ms"),
        ({"colour": 1}, "problem.colour"),
    ],
)
def test_what_is_malformed_is_named_with_its_path(change: dict[str, Any], path: str) -> None:
    """Every field of the description says where it is wrong."""
    with pytest.raises(InvalidProblemError) as error:
        read_application({**APP, **({"events": []} if "clients" in change else {}), **change})
    assert error.value.path == path


@pytest.mark.parametrize(
    ("subtopologies", "message"),
    [
        (
            [{"sources": {"r": None}, "sinks": ["q"]}, {"sources": {"q": None}, "sinks": ["r"]}],
            "topics q, r: partition counts cannot be derived",
        ),
        ([{"sources": {"r": None}}], "topic r: partition counts cannot be derived"),
        (
            [{"sources": {"x": 2}}, {"sources": {"x": 3}}],
            "topic x: is read by sub-topologies 0 and 1",
        ),
    ],
)
def test_a_topology_that_makes_no_tasks_is_named_by_its_topics(
    subtopologies: list[dict[str, Any]], message: str, tmp_path: Path
) -> None:
    """A cycle of repartition topics, one that nobody writes, a source of two: one line each."""
    path = tmp_path / "app.json"
    path.write_text(json.dumps({**APP, "subtopologies": subtopologies}), "utf-8")
    assert _run(path, code=1).startswith(f"partage: {message}")


def test_settings_that_kafka_refuses_are_refused(file: Path) -> None:
    """A value out of bounds is one line and exit code 1; a sweep without values is wrong usage."""
    with pytest.raises(InvalidConfigError):
        read_application({**APP, "settings": {"max.warmup.replicas": 0}})
    _run(file, "--sweep", "max.warmup.replicas=0", code=1)
    _run(file, "--sweep", "max.warmup.replicas=", code=2)
    _run(file, "-a", "no-such", code=1)


RACKED: dict[str, Any] = {
    **APP,
    "clients": {"a": {"rack": "r1"}, "b": {"rack": "r2"}},
    "racks": {"lines": [["r1"], ["r2"], ["r1"], ["r2"]]},
}
STRATEGY = "rack.aware.assignment.strategy"


def _output(tmp_path: Path, given: dict[str, Any], *arguments: str) -> tuple[str, str]:
    path = tmp_path / "given.json"
    path.write_text(json.dumps(given), "utf-8")
    done = CliRunner().invoke(app, ["streams", str(path), *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_unknown_racks_are_reported(tmp_path: Path) -> None:
    """No figure where nothing is known, a least one where a part is, and why a strategy does nothing."""
    shown, said = _output(tmp_path, APP)
    assert shown.splitlines()[2].split()[-4] == "-"
    assert "rack" not in said
    shown, said = _output(tmp_path, RACKED, "--sweep", f"{STRATEGY}=none,min_traffic")
    assert ">= " in shown
    assert "the racks of these topics are unknown: counts-words-changelog" in said
    # Without standbys nobody looks at the racks of changelogs.
    assert "no effect" not in said
    more = ("--sweep", "num.standby.replicas=1", "--sweep", f"{STRATEGY}=min_traffic")
    assert (
        f"{STRATEGY} has no effect: the racks are unknown of counts-words-changelog"
        in _output(tmp_path, RACKED, *more)[1]
    )
    homeless = {**RACKED, "clients": {"a": {"rack": "r1"}, "b": {}}}
    assert "no effect: b has none" in _output(
        tmp_path, homeless, "--sweep", f"{STRATEGY}=min_traffic"
    )[1]  # fmt: skip
    whole = {**RACKED, "racks": {**RACKED["racks"], "counts-words-changelog": [["r1"]] * 4}}
    shown, said = _output(tmp_path, whole, *more)
    assert ">=" not in shown
    assert said == ""


def test_a_narrow_terminal_gets_every_figure(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into a table is printed as sentences; nothing is cut."""
    from partage.cli import console

    monkeypatch.setattr(console, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    sweep = ("--sweep", "num.standby.replicas=0,1", "--sweep", "max.warmup.replicas=1,2")
    output = " ".join(_run(file, *sweep).split())
    assert "high-availability, num.standby.replicas=0, max.warmup.replicas=1" in output
    assert "away s 336.2, worst s 168.1, restored 2.4 GB" in output
    assert "\u2026" not in output


def test_what_the_numbers_of_tasks_mean_and_what_happens(file: Path, tmp_path: Path) -> None:
    """Sub-topologies below the table and on the page, and there the events too; ties are named."""
    assert "sub-topology 0: reads lines, keeps words" in _run(file)
    page = tmp_path / "page.html"
    _run(
        file,
        "--sweep",
        "max.warmup.replicas=2,3",
        "--sweep",
        "num.standby.replicas=0,1",
        "-o",
        page,
    )
    text = page.read_text("utf-8")
    assert "0: reads lines, keeps words" in text
    assert "600 s: crash b without its disk back after 120 s" in text
    assert "max.warmup.replicas=2, num.standby.replicas=1 or high-availability" in text


@pytest.mark.parametrize(("size", "records"), [(1_950, [20, 20]), ([1_000, 0], [10, 0])])
def test_a_store_has_its_size_in_bytes(size: object, records: list[int]) -> None:
    """Bytes are divided by the size of a record, for all tasks or each; both units are an error."""
    store: dict[str, object] = {"bytes": size}
    given = {
        "subtopologies": [{"sources": {"in": 2}, "stores": {"s": store}, "recordBytes": 100}],
        "clients": {"a": {}},
    }
    app = read_application(given)
    tasks = sorted(app.layout.changelogs_of)
    assert [app.state_of(task).records for task in tasks] == records
    store["records"] = 1
    with pytest.raises(InvalidProblemError, match="bytes or records"):
        read_application(given)
