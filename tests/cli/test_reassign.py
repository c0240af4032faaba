"""`partage place` and `partage reassign`: tables, JSON, files, the page, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from partage.cli.app import app

SAMPLE = Path(__file__).parents[2] / "src" / "partage" / "sample"


def run(*words, code=0):
    """What a command prints on stdout, or on stderr when it fails."""
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def file(tmp_path):
    """Four brokers on two racks, the first of which holds too much."""
    partitions = [
        {"p": i, "leader": 1, "replicas": [1, 2 + 2 * (i % 2)], "size": 1000 + i, "load": 5}
        for i in range(12)
    ]
    given = {
        "brokers": [{"id": i, "rack": "ab"[i % 2]} for i in (1, 2, 3, 4)],
        "topics": {"<b>t</b>": {"partitions": partitions}},
    }
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(given), "utf-8")
    return path


def test_files_escape_characters_that_a_terminal_obeys(file, tmp_path) -> None:
    """A topic of the input may have any name; the values in the files stay the same."""
    name = "t\u202e\x9b2J"
    given = json.loads(file.read_text())
    given["topics"] = {name: given["topics"]["<b>t</b>"]}
    file.write_text(json.dumps(given), "utf-8")
    run("reassign", "rebalance", file, "--out", tmp_path / "plan")
    files = list((tmp_path / "plan").glob("*.json"))
    assert not any({"\u202e", "\x9b"} & set(one.read_text("utf-8")) for one in files)
    batch = json.loads((tmp_path / "plan" / "batch-001.json").read_text("utf-8"))
    assert {row["topic"] for row in batch["partitions"]} == {name}


def test_a_plan_with_its_files(file, tmp_path) -> None:
    """Tables with bounds on stdout; batches, their way back, an election and a page in files."""
    out, page = tmp_path / "plan", tmp_path / "page.html"
    output = run("reassign", "rebalance", file, "--out", out, "--page", page, "--max-moves", 3,
               "--throttle", 1000)  # fmt: skip
    assert "no plan below" in output
    assert "copied from rack to rack: " in output
    assert "at 1.0 kB/s a broker: at least" in output
    plan = json.loads((out / "plan.json").read_text())
    assert plan["figures"]["replicas"] == plan["figures"]["leaders"] == 0
    assert plan["bytes_moved"] == plan["figures"]["moved"] == sum(m["bytes"] for m in plan["moves"])
    assert [b["after"]["replicas"] for b in plan["brokers"]] == [6, 6, 6, 6]
    batches = sorted(out.glob("batch-*.json"))
    assert len(batches) == len(plan["batches"]) >= 2
    backs = [json.loads(one.read_text()) for one in sorted(out.glob("rollback-*.json"))]
    for there, back in zip(batches, backs, strict=True):
        made = json.loads(there.read_text())
        assert list(made) == ["version", "partitions"]
        keys = [(r["topic"], r["partition"]) for r in made["partitions"]]
        assert keys == [(r["topic"], r["partition"]) for r in back["partitions"]]
    html = page.read_text("utf-8")
    assert "<b>t</b>" not in html
    assert "http://" not in html
    assert "&lt;b&gt;t" in html
    assert "is not empty" in run("reassign", "rebalance", file, "--out", out, code=1)


@pytest.mark.parametrize(
    ("words", "check"),
    [
        (["drain-broker", "--broker", 4], lambda p: p["brokers"][3]["after"]["replicas"] == 0),
        (["add-broker", "--broker", 3], lambda p: {m["to"] for m in p["moves"]} == {3}),
        (["replace-broker", "--broker", 1, "--by", 3], lambda p: p["replicas_moved"] == 12),
        (["change-rf", "-r", 3], lambda p: p["replicas_moved"] == 12),
        (["fix-racks"], lambda p: p["replicas_moved"] == 0),
        (["elect-leaders"], lambda p: p["replicas_moved"] == 0 and p["partitions_changed"] > 0),
    ],
)
def test_every_command(file, words, check) -> None:
    """Each does its own thing; its JSON has figures, bounds, brokers, moves."""
    plan = json.loads(run("reassign", words[0], file, *words[1:], "--json"))
    assert check(plan)
    assert all(plan["figures"][name] >= bound for name, bound in plan["bounds"].items())


def test_a_capture_and_kafkas_sizes(tmp_path) -> None:
    """A capture's folder is read at its last line; sizes come from what kafka-log-dirs prints."""
    output = run("reassign", "rebalance", SAMPLE)
    assert "replicas copied" in output
    partitions = [{"partition": "t-0", "size": 70, "offsetLag": 0, "isFuture": False}]
    folder = {"logDir": "/d", "error": None, "partitions": partitions}
    dirs = tmp_path / "dirs.txt"
    printed = {"version": 1, "brokers": [{"broker": 1, "logDirs": [folder]}]}
    dirs.write_text("Received log directory information\n" + json.dumps(printed) + "\n")
    small = tmp_path / "small.json"
    small.write_text(json.dumps({
        "brokers": [{"id": 1}, {"id": 2}],
        "topics": {"t": {"partitions": [{"p": 0, "leader": 1, "replicas": [1]}]}},
    }))  # fmt: skip
    plan = json.loads(
        run("reassign", "drain-broker", small, "--broker", 1, "--log-dirs", dirs, "--json")
    )
    assert plan["bytes_moved"] == 70


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["drain-broker", "--broker", 4, "--broker", 4], "the broker is named twice"),
        (["drain-broker", "--broker", 9], "no such broker; the cluster has 1, 2, 3, 4, got 9"),
        (["add-broker", "--broker", 9], "no such broker; the cluster has 1, 2, 3, 4, got 9"),
        (["rebalance", "--pin", "x"], "pin: no such topic, got 'x'"),
        (["change-rf", "-r", 5], r"no feasible plan (replication factor): 5 replicas need"),
        (["change-rf", "-r", 2, "--topic", "x"], "topic: no such topic, got 'x'"),
        (["rebalance", "--tolerance", "bytes=-1"], "tolerance.bytes: must be a fraction"),
        (["rebalance", "--throttle", 0], "--throttle: must be at least 1"),
        (["rebalance", "--max-moves", 0], "max-moves: must be at least 1"),
        (["replace-broker", "--broker", 1, "--by", 1], "cannot take over from itself"),
    ],
)
def test_what_is_refused(file, words, said) -> None:
    """One line: what, which, and what would be right."""
    assert said in run("reassign", words[0], file, *words[1:], code=1)


def test_files_that_are_none(tmp_path) -> None:
    """A missing file, no JSON, a key twice, a reassignment under way."""
    assert "No such file" in run("reassign", "rebalance", tmp_path / "no.json", code=1)
    bad = tmp_path / "bad.json"
    for text, said in (
        ("{", "is no JSON"),
        ('{"a": 1, "a": 2}', "a key is there twice"),
        ('{"brokers": [{"id": 1}], "topics": {"t": {"partitions": [{"p": 0, "replicas": [1],'
         ' "adding": [2]}]}}}', "a reassignment of it is in progress"),
    ):  # fmt: skip
        bad.write_text(text)
        assert said in run("reassign", "rebalance", bad, code=1)


def test_placement() -> None:
    """A line a partition, or the JSON that Kafka's tool takes; partitions added to a topic too."""
    output = run("place", "0,1,2,3,4", "-p", 2, "-r", 3, "-s", "rack-aware", "--start-index", 0)
    assert output.splitlines()[:2] == ["topic-0: 0, 1, 2", "topic-1: 1, 2, 3"]
    made = json.loads(run("place", "1:a,2:b", "-p", 1, "-r", 2, "--topic", "t", "--json"))
    assert sorted(made["partitions"][0]["replicas"]) == [1, 2]
    more = json.loads(run("place", SAMPLE, "--topic", "LegacyERP", "--add", "-p", 2, "--json"))
    assert more["partitions"][0]["partition"] > 0
    assert "larger than available brokers: 2" in run(
        "place", "1,2", "-r", 3, "-s", "rack-aware", code=1
    )
    assert "needs a cluster" in run("place", "1,2", "--add", code=1)


def test_what_placement_refuses_and_tells(tmp_path) -> None:
    """Kafka's own line makes the topic so; a topic that is there is added to, or left alone."""
    done = CliRunner().invoke(app, ["place", "1:a,2:b", "-p", "2", "-r", "1", "--topic", "t"])
    assert "--create --topic t --replica-assignment" in done.stderr
    there = CliRunner().invoke(
        app, ["place", str(SAMPLE), "--topic", "LegacyERP", "--add", "-p", "1"]
    )
    assert "--alter --partitions" in there.stderr
    assert "use --add to add partitions" in run("place", SAMPLE, "--topic", "LegacyERP", code=1)
    assert "the topic's own factor 2" in run(
        "place", SAMPLE, "--topic", "LegacyERP", "--add", "-r", 3, code=1
    )
    assert "must be host:port" in run("place", "x:a", code=1)
    assert "0 is not positive" in run("place", "1:a,2:b", "-p", 0, code=1)
    for factor in (0, -1):
        output = run("place", "0,1,2", "-p", 2, "-r", factor, code=1)
        assert f"invalid replication factor {factor}: it must be positive" in output
    assert "name a capture's folder" in run("place", "", code=1)


FAKE = """#!/bin/sh
echo "$0 $*" >> "$LOG"
case "$*" in
    *--verify*) if [ -e "$LOG.once" ]; then cat "$SAID"
        else touch "$LOG.once"; echo "Reassignment of partition t-0 is still in progress."; fi ;;
esac
"""


def test_the_scripts_of_a_plan(file, tmp_path) -> None:
    """Batch after batch, each until it is through; back in reverse; stopped by the tool's words."""
    run(
        "reassign", "rebalance", file, "--out", tmp_path / "plan", "--max-moves", 3, "--throttle", 7
    )
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("reassign-partitions", "leader-election"):
        (tools / f"kafka-{name}.sh").write_text(FAKE)
        (tools / f"kafka-{name}.sh").chmod(0o755)

    def ran(script, said):
        log, words = tmp_path / "log", tmp_path / "said"
        log.unlink(missing_ok=True)
        words.write_text(said)
        done = subprocess.run(
            ["sh", tmp_path / "plan" / script], capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"], "BOOTSTRAP": "x:1", "KAFKA": str(tools),
                 "PAUSE": "0", "LOG": str(log), "SAID": str(words)},
        )  # fmt: skip
        return done, log.read_text().splitlines()

    done, calls = ran("execute.sh", "Reassignment of partition payment-errors-0 is completed.")
    assert done.returncode == 0, done.stderr
    files = [call.split("--reassignment-json-file ")[1].split()[0] for call in calls[:-1]]
    assert files == sorted(files)
    assert len(set(files)) >= 2
    assert all("--throttle 7" in call for call in calls if "--execute" in call)
    assert "leader-election" in calls[-1]
    done, calls = ran("rollback.sh", "Reassignment of partition t-0 is completed.")
    files = [call.split("--reassignment-json-file ")[1].split()[0] for call in calls[:-1]]
    assert files == sorted(files, reverse=True)
    done, calls = ran("execute.sh", "There is no active reassignment of partition t-0, but ...")
    assert done.returncode == 1
    assert "stopped at batch-001.json" in done.stderr


def test_write_load_from_two_looks(file, tmp_path) -> None:
    """What partitions grew by between two prints of kafka-log-dirs is their load."""
    prints = []
    for number, more in enumerate((0, 600)):
        listed = [
            {"partition": f"<b>t</b>-{p}", "size": 1000 + more * p, "isFuture": False}
            for p in range(12)
        ]
        folders = [{"logDir": "/d", "error": None, "partitions": listed}]
        prints.append(tmp_path / f"{number}.txt")
        prints[-1].write_text(json.dumps({"brokers": [{"broker": 1, "logDirs": folders}]}))
    measured = ["--log-dirs", prints[1], "--log-dirs-before", prints[0], "--write-load", 60]
    plan = json.loads(run("reassign", "rebalance", file, *measured, "--json"))
    assert plan["brokers"][0]["before"]["load"] == sum(10 * p for p in range(12))
    assert "looked at twice" in run("reassign", "rebalance", file, "--write-load", 5, code=1)
    assert "more than 0" in run("reassign", "rebalance", file, "--write-load", 0, code=1)
    assert "goes with" in run("reassign", "rebalance", file, "--log-dirs-before", file, code=1)


def test_place_bounds_the_number_of_partitions() -> None:
    """Millions of partitions are an error with the reason, before any memory is taken."""
    shown = run("place", "0,1,2", "-p", "99999999", code=1)
    assert (
        "--partitions: can be at most 200,000: a KRaft controller creates at most 10,000" in shown
    )
