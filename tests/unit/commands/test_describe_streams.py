"""Kafka Streams applications of the recorded cluster as files of `partage streams`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pq = pytest.importorskip("pyarrow.parquet")

from tests.support.captured import DATA, SAMPLE  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

import partage as pg  # noqa: E402
from partage.cli.app import app  # noqa: E402
from partage.simulation.streams import read_application, read_client_states  # noqa: E402

FILES = ("consumer_offsets.parquet", "cluster.jsonl", "cluster-config.json")


@pytest.fixture(scope="module")
def without_topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded cluster without the records of its topics, as `partage capture` records it."""
    folder = tmp_path_factory.mktemp("capture")
    for name in FILES:
        (folder / name).symlink_to(SAMPLE / name)
    return folder


@pytest.fixture(scope="module")
def changelogs() -> dict[tuple[str, int], tuple[int, int]]:
    """Records and bytes of each changelog partition, counted in Python."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    table = pq.read_table(SAMPLE / "topics.parquet", columns=["topic", "partition", "key", "value"])
    for row in table.to_pylist():
        if row["topic"].endswith("-changelog"):
            place = (row["topic"], row["partition"])
            records, size = found.get(place, (0, 0))
            more = len(row["key"] or b"") + len(row["value"] or b"")
            found[place] = (records + 1, size + more)
    return found


@pytest.mark.parametrize("name", ["ship-join", "views-join"])
def test_sizes_are_the_bytes_of_the_changelogs(name: str, changelogs) -> None:
    """Each task has the records of its changelogs, and the simulation reads the file."""
    found = pg.describe_streams(SAMPLE, name)
    application = read_application(found.description)
    assert {t for one in application.topology.subtopologies for t in one.changelogs} == {
        topic for topic, _ in changelogs if topic.startswith(f"{name}-")
    }
    for one in application.topology.subtopologies:
        places = [(t, p) for t in one.changelogs for p in range(application.all_counts[t])]
        known = [changelogs[place] for place in places if place in changelogs]
        states = [
            application.state_of(task) for task in application.layout.partitions_of
            if task.subtopology == one.number
        ]  # fmt: skip
        assert sum(state.records for state in states) == sum(records for records, _ in known)
        size = sum(state.records * state.record_bytes for state in states)
        assert size == pytest.approx(sum(size for _, size in known), rel=0.02)
    assert found.gain is not None
    size = application.state_of
    tasks = application.layout.changelogs_of
    stored = sum(size(task).records * size(task).record_bytes for task in tasks)
    assert (found.gain.standbys, found.gain.disk_bytes) == (1, stored)
    assert any("bytes of the recorded changelogs" in note for note in found.notes)


def test_a_streams_group_is_described_by_its_records(without_topics: Path) -> None:
    """Topology, standbys and clients equal those that Kafka's own code decoded."""
    found = pg.describe_streams(without_topics, "ship-join")
    first, second = found.description["subtopologies"]
    assert set(first["sources"]) == {"ship-prices", "ship-views"}
    assert first["sinks"] == ["ship-join-bucket-repartition"]
    assert set(first["stores"]) == {"counts", "right-store"}
    assert set(second["sources"]) == {"ship-join-bucket-repartition"}
    assert found.description["settings"]["num.standby.replicas"] == "1"
    assert found.description["settings"]["streams.session.timeout.ms"] == "6000"
    assert (found.gain, found.assignor) == (None, "streams:server-sticky@4.3")
    assert any("not in the capture" in note for note in found.notes)
    observed = (json.loads(line) for line in (DATA / "observed.jsonl").read_text().splitlines())
    known = {one["id"] for one in observed if one.get("group") == "ship-join"}
    names = set(found.description["clients"])
    assert names
    assert {f"ship-join-{name}" for name in names} <= known


def test_a_classic_group_has_the_offsets_that_clients_reported(without_topics: Path) -> None:
    """Without records of topics sizes are in records; the file serves one rebalance, too."""
    found = pg.describe_streams(without_topics, "views-join")
    assert any("in records" in note for note in found.notes)
    assert found.assignor == "streams:high-availability"
    assert "recordBytes" not in found.description["subtopologies"][0]
    state = read_client_states(found.description)
    tasks = [task for of_client in state.active.values() for task in of_client]
    assert sorted(tasks) == sorted(state.application.layout.partitions_of)
    assert found.gain is not None
    assert found.gain.disk_bytes > 0
    assert found.source_lag is None


def test_the_command_writes_a_file_and_answers_in_a_sentence(tmp_path: Path) -> None:
    """The file is the input of `partage streams`; --json has the same numbers."""
    file, picture = tmp_path / "views.json", tmp_path / "standby.svg"
    arguments = ["streams", "--from-capture", str(SAMPLE), "--application-id", "views-join",
                 "--out", str(file)]  # fmt: skip
    done = CliRunner().invoke(app, [*arguments, "--picture", str(picture)])
    assert done.exit_code == 0, done.stderr
    assert "worst outage" in done.stdout
    assert "of disk" in done.stdout
    drawn = picture.read_text()
    assert "worst task, 1 standby<" in drawn
    assert drawn.count('class="bar"') == 4
    assert done.stdout.rsplit("; ", 1)[1].strip().replace("\n", " ") in drawn
    assert CliRunner().invoke(app, ["streams", str(file)]).exit_code == 0
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert found["standby"]["disk_bytes"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "give APP.json"),
        (("--from-capture", str(SAMPLE)), 2, "name the application: ship-join, views-join"),
        (("app.json", "--picture", "x.svg"), 2, "a standby buys"),
        (
            ("--from-capture", str(SAMPLE), "--application-id", "fifo"),
            1,
            "groups: ship-join, views-join",
        ),
        (("--from-capture", "no-such", "--application-id", "x"), 1, "no such file or folder"),
    ],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], code: int, message: str) -> None:
    """An application that is missing, or half of the options, is an error that says what to do."""
    done = CliRunner().invoke(app, ["streams", *arguments])
    assert done.exit_code == code
    assert message in " ".join(done.stderr.replace("│", " ").split())
