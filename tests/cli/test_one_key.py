"""`partage keys --key K --partitions N`: one key in every client, and custom partitioners."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import partage as pg
from partage.cli.app import app

EXAMPLE = "partage.keys.default_09:DefaultPartitioner"


def run(*arguments: str):
    return CliRunner().invoke(app, ["keys", *arguments])


def test_one_key_has_a_partition_in_every_client() -> None:
    """Without an input the key itself is placed: by each partitioner that goes by keys."""
    done = run("--key", "user-1", "--partitions", "12,24", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["key"], found["bytes"]) == ("user-1", b"user-1".hex())
    rows = {row["name"]: row["partitions"] for row in found["partitioners"]}
    assert tuple(rows) == pg.keys.by_key()
    for name in ("murmur2", "librdkafka:consistent_random", "sarama:hash"):
        for count in (12, 24):
            (expected,) = pg.partition_for([b"user-1"], partitions=count, partitioner=name).tolist()
            assert rows[name][str(count)] == expected
    assert rows["streams:windowed"] == rows["murmur2"]
    shown = run("--key", "user-1", "--partitions", "12").stdout
    assert "librdkafka:consistent" in shown
    assert "of 12" in shown


def test_a_serializer_and_a_custom_class_apply_to_one_key() -> None:
    """Numbers become the serializer's bytes; a class of one's own has a row."""
    done = run(
        "--key", "42", "-p", "12", "--serializer", "long", "--partitioner", EXAMPLE, "--json"
    )
    found = json.loads(done.stdout)
    assert found["bytes"] == "000000000000002a"
    assert found["partitioners"][-1] == {"name": EXAMPLE, "partitions": {"12": 4}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--key", "x", "--serializer", "long"], "is no number for long"),
        (["--key", "x", "--serializer", "avro"], "is unknown"),
        (["--key", "x", "-p", "0"], "a topic has at least 1"),
        (["--key", "x", "--partitioner", "mumur2"], "did you mean murmur2"),
        (["--key", "x", "--partitioner", "no_such_module:One"], "cannot be loaded"),
    ],
)
def test_what_cannot_be_placed_is_one_line(arguments, said) -> None:
    """A wrong serializer, count or partitioner: exit code 1 and the reason."""
    done = run(*arguments)
    assert (done.exit_code, said in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("key", "serializer"), [("-1", "long"), ("200", "long"), ("nan", "double")]
)
def test_clients_that_hash_text_do_not_hide_the_others(key, serializer) -> None:
    """Bytes that are no UTF-8 have a partition in every client that takes them."""
    done = run(f"--key={key}", "-p", "12", "--serializer", serializer, "--json")
    assert done.exit_code == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["partitioners"]}
    assert rows["murmur2"]["partitions"]["12"] is not None
    assert "refused" not in rows["murmur2"]
    assert rows["scala:0.8.2"]["partitions"]["12"] is None
    assert "not UTF-8" in rows["scala:0.8.2"]["refused"]
    shown = run(f"--key={key}", "-p", "12", "--serializer", serializer).stdout
    assert "x: no partition, the key is not UTF-8" in shown


@pytest.mark.parametrize(
    "option",
    [("--out", "somewhere"), ("--time", "t"), ("--max-share", "0"), ("--conf", "spark.a=b")],
)
def test_options_of_an_input_are_not_ignored_for_one_key(option) -> None:
    """An option that needs an INPUT is wrong usage beside a single key."""
    done = run("--key", "x", "-p", "12", *option)
    assert done.exit_code == 2
    assert option[0] in done.stderr


class _Raising:
    """A custom partitioner that fails on every key."""

    def configure(self, configs: object) -> None:
        """Take no settings."""

    def partition(self, *record: object) -> int:  # the record of Kafka's interface
        """Fail."""
        raise ValueError("boom")

    def close(self) -> None:
        """Do nothing."""


def test_a_custom_class_that_fails_is_named() -> None:
    """An exception of the user's class is an error of its setting, with the exception's text."""
    with pytest.raises(pg.InvalidConfigError, match=r"failed on a key \(ValueError: boom\)"):
        pg.partition_for([b"a"], partitions=3, partitioner=_Raising)
