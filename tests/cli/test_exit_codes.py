"""What the commands tell about plans that break a rule, and what they must not leave out."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from partage.cli.app import app

# The highest priority (a lower id breaks the tie) does not subscribe to the topic u.
PROBLEM = json.dumps(
    {
        "topics": {"t": 3, "u": 1},
        "members": [{"id": "a", "topics": ["t"]}, {"id": "b", "topics": ["u"]}],
    }
)
AS_DOCUMENTED = "assignment.failover.as_documented=true"


def run(*arguments: str, stdin: str = PROBLEM):
    return CliRunner().invoke(app, list(arguments), input=stdin)


def test_compare_ends_with_3_when_a_plan_fails_the_judge() -> None:
    """Shown all the same, as a table and as JSON, with the breach; 0 when all plans are valid."""
    assert run("compare", "-", "-s", "failover", "-s", "range").exit_code == 0
    shown = run("compare", "-", "-s", "range", "-s", "failover", "-c", AS_DOCUMENTED)
    assert shown.exit_code == 3
    assert "failover breaks the rules: a has u-0 without subscribing to u" in shown.stdout
    plain = run("compare", "-", "-s", "range", "-s", "failover", "-c", AS_DOCUMENTED, "--json")
    assert plain.exit_code == 3
    assert [row["valid"] for row in json.loads(plain.stdout)] == [True, False]


def test_a_stream_of_answers_keeps_the_warnings() -> None:
    """One answer a line: it has the strategy's warnings, and a plan without any has no such field."""
    done = run("assign", "--jsonl", "-s", "failover", stdin=f"{PROBLEM}\n")
    (warning,) = json.loads(done.stdout)["warnings"]
    assert "no member has assignment.consumer.priority" in warning
    assert "warnings" not in json.loads(run("assign", "--jsonl", stdin=f"{PROBLEM}\n").stdout)


def test_the_columns_of_strategies_do_not_run_together() -> None:
    """The longest class name, the coordinator's, leaves room before the protocols."""
    lines = run("strategies").stdout.splitlines()
    wide = lines[0].index("protocols")
    rows = [line for line in lines[1:] if not line.startswith("  ")]
    assert len(rows) > 5
    assert all(row[wide - 1] == " " and row[wide] != " " for row in rows)


def test_task_assignors_stand_apart_and_can_be_asked_for() -> None:
    """`partage strategies` ends with those of Kafka Streams; by name there is all about one."""
    from partage.streams.registry import describe_task_assignors

    listed = run("strategies").stdout
    assert all(row.name in listed for row in describe_task_assignors())
    assert "max.warmup.replicas" in run("strategies", "streams:high-availability").stdout
    (row,) = json.loads(run("strategies", "streams:0.11", "--json").stdout)
    assert row["exact_to"].endswith("0.11.0.3")
    assert "streams:0.11" in run("strategies", "streams:0.1").stderr
