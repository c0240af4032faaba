"""Secrets of the command's options: no message, log line or traceback has their values."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from partage.capture.secrets import hide_secrets, is_secret, secrets_in, shown_settings
from partage.cli import secrets
from partage.cli.options import spark_settings
from partage.cli.secrets import GuardedStream
from partage.errors import InvalidConfigError
from partage.jobs.spark.session import _start_error, expect_reachable

SECRET = "hunter2-and-more"  # noqa: S105 - a made-up value that must not be printed
KEY = "spark.hadoop.fs.s3a.secret.key"


def run(*words: str, debug: str = "") -> str:
    """Run the command without Java and return all that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "partage", *words],
        capture_output=True, text=True, check=False, timeout=120,
        env={"PATH": "/nowhere", "JAVA_HOME": "/nowhere", "PARTAGE_DEBUG": debug,
             "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.returncode in {1, 2}, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("debug", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [
        ["--conf", f"fs.s3a.secret.key={SECRET}"],
        ["--conf", f"{SECRET}"],
        ["--conf", f"{KEY}={SECRET}", "--master", f"spark://{SECRET}:7077"],
        [f"--conf={KEY}={SECRET}", "--from", SECRET],
        ["-X", SECRET],
        ["-X", f"sasl.jaas.config=x required password={SECRET};", "--from", SECRET],
        ["--conf", f"{KEY}=a", f"{KEY}={SECRET}"],
        ["--from", f"s3a://KEY:{SECRET}@bucket/x"],
    ],
)
def test_no_option_shows_a_secret(words, debug, tmp_path) -> None:
    """Neither the line for users nor the traceback of PARTAGE_DEBUG=1 has the value."""
    said = run("replay", str(tmp_path), "--out", str(tmp_path / "out"), *words, debug=debug)
    assert SECRET not in said
    assert said


def test_a_client_properties_file_shows_no_secret(tmp_path) -> None:
    """Secrets of --command-config are hidden where another option repeats them."""
    config = tmp_path / "client.properties"
    config.write_text(f"ssl.key.password={SECRET}\nsasl.mechanism={SECRET}\n")
    said = run("groups", "-b", f"{SECRET}:x", "--command-config", str(config), debug="1")
    assert SECRET not in said
    assert "[hidden]" in said


@pytest.mark.parametrize(
    "words",
    [
        ["groups", "-b", f"me:{SECRET}@localhost:1"],
        ["report", f"s3a://KEY:{SECRET}@bucket/run"],
        ["keys", "x.parquet", "--key", "a", "--out", f"s3a://KEY:{SECRET}@bucket/out"],
    ],
)
def test_passwords_in_addresses_are_hidden(words) -> None:
    """Messages repeat an address without its password."""
    said = run(*words)
    assert SECRET not in said
    assert "[hidden]" in said


def test_each_value_of_a_setting_given_twice_is_hidden() -> None:
    """A setting that only the user's own expression makes secret has both of its values hidden."""
    spark_settings(["spark.redaction.regex=pin", "spark.a.pin=4711-first", "spark.a.pin=4711-last"])
    stream = io.StringIO()
    GuardedStream(stream, secrets._SECRETS).write("4711-first 4711-last")
    assert stream.getvalue() == "[hidden] [hidden]"


def test_a_session_that_does_not_start_shows_settings_without_secrets() -> None:
    """Settings are repeated with [hidden]; what Java says of them is searched for their values."""
    conf = {KEY: SECRET, "spark.executor.memory": "lots", "spark.acme.pin": "4711-4711",
            "spark.redaction.regex": "(?i)pin$"}  # fmt: skip
    said = str(_start_error(f"bad value {SECRET} or 4711-4711", "local[*]", conf))
    assert f"{KEY}=[hidden]" in said
    assert "spark.acme.pin=[hidden]" in said
    assert "spark.executor.memory=lots" in said
    assert "(bad value [hidden] or [hidden])" in said
    assert SECRET not in said
    assert "4711-4711" not in said


def test_secret_names_are_sparks_kafkas_and_the_users() -> None:
    """Spark's default expression, Kafka's names, and the user's own expression count together; an
    expression that Python cannot compile hides every value.
    """
    names = ["spark.x.PASSWORD", "spark.x.token", "fs.s3a.access.key", "sasl.jaas.config"]
    assert all(is_secret(name) for name in names)
    assert not is_secret("spark.executor.memory")
    assert is_secret("spark.executor.memory", r"\p{javaLowerCase}")
    assert shown_settings({"spark.jvm": "-Dpassword=x"}) == {"spark.jvm": "[hidden]"}
    assert secrets_in({"spark.x.token.enabled": "true"}) == set()


LONG = "Q7zK" + "x9Yw" * 150  # as long as a session token


@pytest.mark.parametrize(
    "words",
    [
        ["replay", "x", "--out", "o", f"{KEY}={LONG}"],
        ["report", f"s3a://KEY:{LONG}@bucket/run"],
        ["keys", f"s3a://KEY:{LONG}@bucket/x", "--key", "k", "--out", "o"],
    ],
)
def test_a_long_secret_is_hidden_where_it_is_wrapped_or_cut(words) -> None:
    """The box of a usage error wraps a value of 600 characters, other messages cut it."""
    said = run(*words)
    assert "x9Yw" not in said
    assert "[hidden]" in said


def test_a_wrapped_secret_with_blanks_is_hidden() -> None:
    """A box breaks lines at blanks, too; text that has only the letters of a secret stays."""
    box = "│ got a pass phrase of │\n│ four words           │"
    assert hide_secrets(box, {"pass phrase of four words"}) == "│ got a [hidden]           │"
    assert hide_secrets("hun ter22\nhunt", {"hunter22"}) == "hun ter22\nhunt"
    assert hide_secrets("a hunt… b hunter2…", {"hunter22"}) == "a [hidden]… b [hidden]…"


def test_escaped_and_short_secrets_are_hidden() -> None:
    """A value is found as Python and JSON escape it; a short one as a whole word only."""
    assert hide_secrets(repr("a'b\n\"c"), {"a'b\n\"c"}) == "'[hidden]'"
    assert hide_secrets("to be or b", {"b"}) == "to be or [hidden]"


@pytest.mark.parametrize(
    ("master", "reason"),
    [
        ("spark://no-such-host.invalid:7077", "no-such-host.invalid:7077: unknown host"),
        ("spark://127.0.0.1:1", "127.0.0.1:1: Connection refused"),
        ("spark://host", "must be spark://HOST:PORT"),
    ],
)
def test_a_master_that_cannot_be_reached_is_named(master: str, reason: str) -> None:
    """An unknown host and a closed port are errors of --master before Java starts."""
    with pytest.raises(InvalidConfigError, match="--master") as caught:
        expect_reachable(master)
    assert reason in str(caught.value)


def test_other_masters_are_left_to_spark() -> None:
    """Only standalone masters have an address to check."""
    for master in ("local[2]", "yarn", "k8s://https://nowhere.invalid", "local-cluster[1,1,1024]"):
        expect_reachable(master)


@pytest.mark.parametrize(
    "words",
    [
        ["capture", "-b", "h:1"], ["demo"], ["report", "x"], ["audit", "x"],
        ["keys", "x", "--key", "a"], ["streams", "x.json"], ["reassign", "rebalance", "x"],
        ["reassign", "drain-broker", "x", "--broker", "1"],
    ],
)  # fmt: skip
def test_a_remote_output_is_refused(words, tmp_path, monkeypatch) -> None:
    """Commands with --out say that addresses cannot be written to, and make no folder; replay can."""
    from typer.testing import CliRunner

    from partage.cli.app import app

    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*words, "--out", "s3a://bucket/out"])
    assert done.exit_code == 1
    assert "--out: must be a local folder or file" in done.output
    assert "got 's3a://bucket/out'" in done.output
    done = CliRunner().invoke(app, [*words, "--out", "file:///tmp/x"])
    assert done.exit_code == 1
    assert "give the path without file://, got 'file:///tmp/x'" in done.output
    assert not list(tmp_path.iterdir())
