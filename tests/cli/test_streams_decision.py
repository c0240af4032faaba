"""`partage streams --decide`: one rebalance from given lags, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import partage as pg
from partage.cli.app import app
from partage.errors import InvalidProblemError
from partage.simulation.streams import decide, read_client_states
from partage.streams import (
    ProcessId,
    StreamsApplication,
    StreamsMember,
    compute_group_assignment,
    find_assignor,
)

STATE: dict[str, Any] = {
    "name": "orders",
    "subtopologies": [{"sources": {"orders": 4}, "stores": {"totals": {"records": 3_000_000}}}],
    "clients": {
        "a1": {"active": ["0_0", "0_1", "0_2", "0_3"]},
        "b1": {"standby": ["0_1"], "lags": {"0_1": 1200}},
        "c1": {},
    },
    "settings": {"num.standby.replicas": 1},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The state in a file."""
    path = tmp_path / "state.json"
    path.write_text(json.dumps(STATE), "utf-8")
    return path


def _run(*arguments: object, code: int = 0) -> Any:
    done = CliRunner().invoke(app, ["streams", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def test_the_table_shows_roles_and_what_follows(file: Path) -> None:
    """A caught-up standby becomes active, a new client warms up, and a probing rebalance follows."""
    lines = _run(file, "--decide").output.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["client", "active", "standby", "warm-up"],
        ["a1", "0_0,", "0_2,", "0_3", "0_1", "-"],
        ["b1", "0_1", "0_0,", "0_2,", "0_3", "-"],
        ["c1", "-", "-", "0_1,", "0_2"],
    ]
    assert "release 0_1" in " ".join(lines[4:])
    assert lines[-1] == "probing rebalance: after 600 s"


def test_json_has_the_same(file: Path) -> None:
    """What a program reads: roles by client, the follow-up, and the probing rebalance."""
    (found,) = json.loads(_run(file, "--decide", "--json").stdout)
    assert found["clients"]["b1"]["active"] == ["0_1"]
    assert found["clients"]["c1"] == {"active": [], "standby": [], "warmup": ["0_1", "0_2"]}
    assert found["revokedFirst"] == ["0_1"]
    assert found["probingRebalance"] is True
    assert found["probingRebalanceAfterMs"] == 600_000


def test_the_decision_is_that_of_the_whole_leader() -> None:
    """The leader's rebalance from the same offsets, bytes and threads included, has the same tasks."""
    state = read_client_states(STATE)
    found = decide(state, find_assignor("high-availability"))
    given = state.application
    end = 3_000_000
    ends = {one: end for logs in given.layout.changelogs_of.values() for one in logs}
    tasks = {str(task): task for task in given.layout.changelogs_of}
    sums = [
        dict.fromkeys(tasks.values(), -2),
        {tasks["0_1"]: end - 1200},
        {},
    ]
    members = [
        StreamsMember(name, one.process, given.layout.partitions_of if place == 0 else (), said)
        for place, ((name, one), said) in enumerate(zip(given.clients.items(), sums, strict=True))
    ]
    members[0] = StreamsMember("a1", ProcessId(0, 1), [("orders", n) for n in range(4)], sums[0])
    answer = compute_group_assignment(
        StreamsApplication(given.topology, given.all_counts, given.settings, end_offsets=ends),
        members,
        leader=ProcessId(0, 1),
        now_ms=0,
    )
    assert answer.plan is not None
    assert answer.plan.to_dict() == found.plan.to_dict()
    assert answer.plan.probing
    withheld = [str(t) for one in answer.consumers.values() for t in one.withheld]
    assert withheld == [str(t) for t in found.revoked]


def test_the_balance_factor_of_the_document_can_be_swept(file: Path) -> None:
    """With a factor of 4 everything stays; other assignors have no such setting."""
    command = (
        file,
        "--decide",
        "-a",
        "kip-441-document",
        "--sweep",
        "balance_factor=1,4",
        "--json",
    )
    one, four = json.loads(_run(*command).stdout)
    assert one["settings"] == {"balance_factor": "1"}
    assert four["clients"]["a1"]["active"] == ["0_0", "0_1", "0_2", "0_3"]
    assert one["clients"]["a1"]["active"] == ["0_0", "0_2", "0_3"]
    done = _run(file, "--decide", "-a", "sticky", "--sweep", "balance_factor=2", code=1)
    assert "kip-441-document only" in done.stderr.replace("\n", " ")
    done = _run(file, "--decide", "-a", "kip-441-document", "--sweep", "balance_factor=x", code=1)
    assert "whole number >= 1" in done.stderr.replace("\n", " ")


def test_a_document_that_would_rebalance_for_ever_is_reported() -> None:
    """One task on the second client stays there: no probing, and a warning names the move."""
    state = read_client_states({
        "subtopologies": [{"sources": {"in": 1}, "stores": {"s": {"records": 90_000}}}],
        "clients": {"a": {"lags": {"0_0": 0}}, "b": {"active": ["0_0"]}},
    })  # fmt: skip
    found = decide(state, find_assignor("kip-441-document"))
    assert found.tasks_of(1)["active"] == ["0_0"]
    assert found.probing_after_ms is None
    assert "would rebalance for ever" in found.warnings[0]
    assert "task 0_0" in found.warnings[0]


def test_more_standbys_than_clients_are_a_warning_with_the_possible_number(file: Path) -> None:
    """Both ways to run the command warn; a number that is possible warns of nothing."""
    output = (
        "num.standby.replicas=5 is not possible on 3 clients: each task gets at most 2 standbys"
    )
    assert output in _run(file, "--decide", "--sweep", "num.standby.replicas=5").stderr.replace(
        "\n", " "
    )
    assert "not possible" not in _run(file, "--decide", "--sweep", "num.standby.replicas=2").stderr
    plain = {
        **STATE,
        "seconds": 60,
        "clients": {"a": {}, "b": {}},
        "settings": {"num.standby.replicas": 5},
    }
    file.write_text(json.dumps(plain), "utf-8")
    shown = _run(file).stderr.replace("\n", " ")
    assert "num.standby.replicas=5 is not possible on 2 clients" in shown
    assert "at most 1 standby" in shown


def test_the_name_of_kafkas_class_leads_there(file: Path) -> None:
    """As an assignor it is high availability; as a strategy of groups the error names the command."""
    output = json.loads(_run(file, "--decide", "-a", "StreamsPartitionAssignor", "--json").stdout)
    assert output[0]["assignor"] == "streams:high-availability"
    group, cluster = pg.Group([pg.Member("a", ["t"])]), pg.Cluster.from_topics({"t": 1})
    for name in (
        "StreamsPartitionAssignor",
        "org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor",
    ):
        with pytest.raises(pg.UnknownStrategyError, match=r"partage streams APP\.json --decide"):
            pg.assign(name, group, cluster)


@pytest.mark.parametrize(
    ("client", "path"),
    [
        ({"active": ["7_7"]}, "clients.c1.active.0"),
        ({"active": ["x"]}, "clients.c1.active.0"),
        ({"active": ["0_0", "0_0"]}, "clients.c1.active"),
        ({"lags": {"0_0": -1}}, "clients.c1.lags.0_0"),
        ({"lags": {"0_0": "much"}}, "clients.c1.lags.0_0"),
        ({"lag": {}}, "clients.c1.lag"),
    ],
)
def test_a_malformed_state_is_named_by_its_path(client: dict[str, Any], path: str) -> None:
    """Unknown tasks, tasks named twice, wrong lags and misspelt fields."""
    problem = {**STATE, "clients": {**STATE["clients"], "c1": client}}
    with pytest.raises(InvalidProblemError) as error:
        decide(read_client_states(problem), find_assignor("high-availability"))
    assert error.value.path == path


def test_the_coordinators_assignor_has_no_decision_from_lags(file: Path) -> None:
    """It knows no lags; neither does a page or Spark make sense for one rebalance."""
    done = _run(file, "--decide", "-a", "server-sticky", code=1)
    assert "without lags" in done.stderr.replace("\n", " ")
    assert _run(file, "--decide", "--master", "local[1]", code=2)


@pytest.mark.parametrize("value", ["-1", "1.5", "x", "0"])
def test_a_wrong_balance_factor_is_shown_as_given(file: Path, value: str) -> None:
    """The message repeats the value of the sweep, not a number that nobody gave."""
    done = _run(
        file, "--decide", "-a", "kip-441-document", "--sweep", f"balance_factor={value}", code=1
    )
    assert f"got {value}" in done.stderr.replace("'", "")
