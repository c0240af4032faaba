"""Partitioners that agree: found by running, shown in the terminal, as JSON and in the docs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from partage.cli.app import app
from partage.keys import by_key
from partage.keys.agreement import who_agrees

DOCS = Path(__file__).parents[3] / "docs" / "keys.md"


@pytest.fixture(scope="module")
def found():
    return who_agrees()


def test_groups_are_of_one_hash_and_fold(found) -> None:
    """All that use murmur2 agree; librdkafka's default agrees with one of Sarama's; and so on."""
    group = {name: one for one in found.groups for name in one}
    assert {"java:0.8", "java:builtin", "kafka-python", "aiokafka", "franz-go:uniform-bytes",
            "librdkafka:murmur2_random", "sarama:murmur2", "streams:windowed"} <= set(group["murmur2"])  # fmt: skip
    assert "sarama:crc32" in group["librdkafka:consistent_random"]
    assert "sarama:hash" in group["librdkafka:fnv1a"]
    assert group["sarama:reference"] == ("sarama:reference",)
    assert group["scala:0.8.1"] == ("scala:0.8.1",)
    assert sorted(group) == sorted(by_key())


def test_shares_are_of_chance_between_hashes_and_half_between_folds(found) -> None:
    """Another hash meets by chance; the same hash folded otherwise meets where h is not negative."""
    at = {name: i for i, name in enumerate(found.names)}
    assert 0.03 < found.share[at["murmur2"], at["librdkafka:consistent"]] < 0.25
    assert 0.4 < found.share[at["sarama:hash"], at["sarama:reference"]] < 0.8
    assert 0.4 < found.share[at["scala:0.8.1"], at["scala:0.8.2"]] < 0.8


def test_the_documentation_has_the_table_as_it_is_found(found) -> None:
    """Each group that was found is a row of docs/keys.md."""
    text = DOCS.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    documented = {
        tuple(name.strip(" `") for name in line.split("|")[1].split(",")) for line in rows
    }
    assert set(found.groups) <= documented


def test_terminal_and_json_show_the_same() -> None:
    """`partage keys --who-agrees`: every partitioner is named; as JSON, with its groups."""
    run = CliRunner()
    shown = run.invoke(app, ["keys", "--who-agrees"])
    assert shown.exit_code == 0
    assert all(name in shown.stdout for name in by_key())
    shown = run.invoke(app, ["keys", "--who-agrees", "--json"])
    document = json.loads(shown.stdout)
    assert [name for group in document["groups"] for name in group].count("aiokafka") == 1
    assert {one["name"] for one in document["partitioners"]} == set(by_key())


def test_the_list_says_what_each_equals() -> None:
    """`partage keys --list`: a line a partitioner with its class; without an option, wrong usage."""
    run = CliRunner()
    shown = run.invoke(app, ["keys", "--list", "--json"])
    rows = json.loads(shown.stdout)
    assert all(row["exact_to"] and row["summary"] for row in rows)
    assert "RoundRobinPartitioner 4.3.1" in run.invoke(app, ["keys", "--list"]).stdout
    assert run.invoke(app, ["keys"]).exit_code == 2


def test_the_list_has_the_class_that_partitioner_names() -> None:
    """`partage keys --list --partitioner pkg:Class` lists the class, or says why it cannot be used."""
    run, path = CliRunner(), "partage.keys.default_09:DefaultPartitioner"
    shown = json.loads(run.invoke(app, ["keys", "--list", "--partitioner", path, "--json"]).stdout)
    assert shown[-1]["name"] == path
    assert len(shown) == 1 + len(json.loads(run.invoke(app, ["keys", "--list", "--json"]).stdout))
    missing = run.invoke(app, ["keys", "--list", "--partitioner", "partage.keys:Missing"])
    assert (missing.exit_code, "cannot be loaded" in missing.output) == (1, True)
