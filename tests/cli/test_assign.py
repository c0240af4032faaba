"""`partage assign` and `partage compare`: plans, streams of problems, and what can be wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from typer.testing import CliRunner

import partage as pg
from partage.cli.app import app
from partage.groups import registry
from partage.groups.api import PlainStrategy
from partage.model import Plan, Problem

VECTORS = Path(__file__).parents[1] / "data" / "vectors" / "consumer"
PROBLEM = {
    "topics": {"orders": 3, "clicks": 2},
    "members": [
        {"id": "c1", "topics": ["orders"], "owned": [["orders", 2]]},
        {"id": "c2", "topics": ["orders", "clicks"]},
    ],
}


def run(*arguments: str, stdin: str | bytes | None = None):
    return CliRunner().invoke(app, list(arguments), input=stdin)


@pytest.fixture
def problem(tmp_path) -> str:
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(PROBLEM))
    return str(path)


def test_a_plan_is_json_when_nobody_watches(problem) -> None:
    """Into a pipe goes one JSON object: the strategy and the assignment as in the vectors."""
    done = run("assign", problem)
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["strategy"] == "range"
    assert found["assignment"]["c1"] == [["orders", 0], ["orders", 1]]


def test_stdin_and_names(problem) -> None:
    """- reads stdin; the strategy is an option, else the problem's own; Java class names count."""
    text = json.dumps(PROBLEM | {"strategy": "roundrobin"})
    assert json.loads(run("assign", "-", stdin=text).stdout)["strategy"] == "roundrobin"
    named = "org.apache.kafka.clients.consumer.RoundRobinAssignor"
    assert json.loads(run("assign", problem, "-s", named).stdout)["strategy"] == "roundrobin"
    listed = run("assign", problem, "-s", "no-such-one", "-s", "fair")
    assert json.loads(listed.stdout)["strategy"] == "fair"


class Sends(PlainStrategy):
    """A plug-in whose leader sends bytes along, empty ones too."""

    name = "acme:sends"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        plan = registry.find("range").assign(problem)
        return replace(plan, user_data={"c2": b"\xff\x00", "c1": b""})


def test_user_data_of_an_assignment_is_base64(problem, monkeypatch) -> None:
    """What the leader sends along stands beside the assignment, by member; else there is no such key."""
    point = EntryPoint("acme:sends", "acme:Sends", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "_entry_points", lambda: {point.name: point})
    monkeypatch.setattr(EntryPoint, "load", lambda _: Sends)
    sent = {"c2": "/wA=", "c1": ""}
    found = json.loads(run("assign", problem, "--json", "-s", "acme:sends").stdout)
    assert (list(found), found["userData"]) == (["strategy", "assignment", "userData"], sent)
    line = json.dumps(PROBLEM)
    streamed = run("assign", "--jsonl", "-s", "acme:sends", stdin=line).stdout
    assert json.loads(streamed)["userData"] == sent
    for arguments in (["assign", problem, "--json"], ["assign", "--jsonl"]):
        assert "userData" not in json.loads(run(*arguments, stdin=line).stdout)


@pytest.mark.parametrize("kind", ["range", "roundrobin"])
def test_every_vector_as_a_stream(kind) -> None:
    """150 problems in, 150 answers out, each what Kafka's own class printed, order included."""
    lines = (VECTORS / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()
    done = run("assign", "--jsonl", stdin="\n".join(lines).encode())
    assert done.exit_code == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    plans = [{k: v for k, v in one.items() if k != "warnings"} for one in answers]
    assert plans == [json.loads(line)["out"] for line in lines]


def test_a_stream_warns_of_missing_topics_as_a_single_problem_does() -> None:
    """`--jsonl` has the warnings that `pg.assign` and a single problem have, topics included."""
    text = '{"topics": {"t": 1}, "members": [{"id": "c", "topics": ["t", "gone"]}]}'
    expected = "c subscribes to 'gone', which is not among the topics"
    assert json.loads(run("assign", "--jsonl", stdin=text).stdout)["warnings"] == [expected]
    assert expected in run("assign", "-", stdin=text).stderr


def test_a_damaged_line_costs_its_own_answer_only() -> None:
    """A bad line is answered with its error and number; the others are answered; exit code 1."""
    good = json.dumps(PROBLEM)
    bad = ["{", "[]", '{"topics": {"t": -1}, "members": []}', "\x00", '"\\ud800"', "[" * 100_000]
    text = "\n".join([good, *bad, "", good]) + "\n"
    done = run("assign", "--jsonl", stdin=text.encode())
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 1
    assert [a.get("line") for a in answers] == [None, 2, 3, 4, 5, 6, 7, None]
    assert answers[0] == answers[-1]
    assert "topics.t" in answers[3]["error"]
    assert "6 of 8 lines" in done.stderr


def test_lines_that_are_not_utf8_are_errors_of_their_own() -> None:
    """Bytes that are no UTF-8 are that line's error."""
    done = run("assign", "--jsonl", stdin=b'\xff\xfe{}\n{"topics": {}, "members": []}\n')
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 1
    assert answers == [{"error": answers[0]["error"], "line": 1}, {"assignment": {}}]


def test_a_name_of_half_a_pair_comes_back() -> None:
    """JSON may name a topic by half a surrogate pair: the answer is JSON that says the same."""
    text = '{"topics": {"\\ud800": 1}, "members": [{"id": "c", "topics": ["\\ud800"]}]}'
    found = json.loads(run("assign", "-", stdin=text).stdout)
    assert found["assignment"] == {"c": [["\ud800", 0]]}


def test_a_plan_that_breaks_the_rules_is_exit_code_3(problem) -> None:
    """Fail-over as documented gives a member what it does not subscribe to: the judge objects."""
    arguments = ("--strategy", "failover", "--as-documented")
    done = run("assign", problem, *arguments)
    assert done.exit_code == 3
    assert json.loads(done.stdout)["assignment"]["c1"]
    assert "judge: c1 has clicks-0 without subscribing to clicks" in done.stderr
    lines = run("assign", "--jsonl", *arguments, stdin=json.dumps(PROBLEM))
    assert lines.exit_code == 3
    assert len(json.loads(lines.stdout)["breaches"]) == 2


def test_settings_reach_the_strategy(problem) -> None:
    """--config gives a strategy its settings; a wrong value is an error that names it."""
    key = "assignment.failover.as_documented"
    assert run("assign", problem, "-s", "failover", "-c", f"{key}=true").exit_code == 3
    wrong = run("assign", problem, "-s", "failover", "-c", f"{key}=perhaps")
    assert wrong.exit_code == 1
    assert key in wrong.stderr
    assert run("assign", problem, "-c", "novalue").exit_code == 2


def test_wrong_usage_is_exit_code_2(problem) -> None:
    """No problem, an unknown option, an unknown command."""
    assert run("assign").exit_code == 2
    assert run("assign", problem, "--no-such-option").exit_code == 2
    assert run("no-such-command").exit_code == 2


def _lines(done) -> list[str]:
    return done.stderr.strip().splitlines()


@pytest.mark.parametrize("command", ["assign", "compare"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON in UTF-8"),
        (b"[1, 2]", "must be a JSON object"),
        (b'{"members": []}', "topics: is missing"),
        (b'{"topics": {"t": "three"}, "members": []}', "topics.t"),
        (b'{"topics": {"t": 1e9}, "members": []}', "topics.t"),
        (b'{"topics": {"t": NaN}, "members": []}', "topics.t"),
        (b'{"topics": {}, "members": [{"id": 1}]}', "members[0].id"),
        (b"[" * 100_000, "is not JSON"),
        (b"PAR1" + bytes(range(256)) * 40, "is not JSON"),
    ],
)
def test_a_bad_file_is_one_line_that_says_what(tmp_path, command, content, said) -> None:
    """Empty, damaged, binary or malformed: exit code 1 and one line with place and reason."""
    path = tmp_path / "problem.json"
    path.write_bytes(content)
    done = run(command, str(path))
    assert done.exit_code == 1
    assert len(_lines(done)) == 1
    assert said in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("command", ["assign", "compare"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, command) -> None:
    """A missing file and a folder: one line with its name and why."""
    done = run(command, str(tmp_path / "none.json"))
    assert (done.exit_code, len(_lines(done))) == (1, 1)
    assert "none.json: No such file" in done.stderr
    done = run(command, str(tmp_path))
    assert (done.exit_code, len(_lines(done))) == (1, 1)
    assert "directory" in done.stderr


def test_an_unknown_strategy_says_which_are_near(problem) -> None:
    """A misspelt name: exit code 1, and what was probably meant."""
    done = run("assign", problem, "-s", "rnage")
    assert done.exit_code == 1
    assert "did you mean range" in done.stderr


def test_compare_has_a_row_for_every_strategy(problem) -> None:
    """All strategies are shown side by side, with the reason of a failed one, and the optimum."""
    found = json.loads(run("compare", problem, "--json").stdout)
    names = [
        n for n in registry.strategies_to_compare() if n != "server:simple"
    ]  # for share groups only
    assert [row["strategy"] for row in found] == names
    refused = {row["strategy"] for row in found if row["refused"]}
    assert "roundrobin:0.8" in refused
    shown = run("compare", problem).stdout
    assert all(name in shown for name in names)
    assert "roundrobin:0.8 is not applicable" in shown
    assert "optimum: spread 1" in shown


def test_a_share_group_may_have_several_owners(problem) -> None:
    """The share groups' assignor gives a partition to several members: valid for share groups, and shown."""
    done = run("assign", problem, "-s", "server:simple")
    assert done.exit_code == 0, done.stderr
    given = [tuple(one) for of in json.loads(done.stdout)["assignment"].values() for one in of]
    assert set(given) >= {("orders", 0), ("clicks", 1)}
    (row,) = json.loads(run("compare", problem, "-s", "server:simple", "--json").stdout)
    assert row["valid"]


def test_much_of_the_same_is_cut_short() -> None:
    """Two hundred equal warnings, a refusal that lists hundreds of topics: a few lines."""
    topics = [f"topic-{i}" for i in range(300)]
    members = [{"id": f"m{i}", "topics": topics[i:], "userData": "AA=="} for i in range(200)]
    text = json.dumps({"topics": dict.fromkeys(topics, 1), "members": members})
    shown = run("compare", "-", "-s", "failover", "-s", "roundrobin:0.8", stdin=text)
    assert shown.exit_code == 0
    assert "failover: and 197 more" in shown.stdout
    assert len(shown.stdout) < 2_500
    one = run("assign", "-", "-s", "roundrobin:0.8", stdin=text)
    assert (one.exit_code, len(_lines(one))) == (1, 1)
    assert len(one.stderr) < 500


def test_compare_marks_the_best_of_a_column() -> None:
    """The least spread is marked where strategies differ, and in no row that is worse."""
    text = json.dumps(
        {
            "topics": {"a": 3, "b": 3},
            "members": [{"id": i, "topics": ["a", "b"]} for i in ("x", "y")],
        }
    )
    shown = run("compare", "-", "-s", "range", "-s", "roundrobin", stdin=text).stdout
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line.strip()}
    assert rows["range"][2] == "2"
    assert rows["roundrobin"][2] == "0*"


def test_strategies_are_listed_with_their_exactness() -> None:
    """Every strategy, and the class that it equals; as JSON too."""
    import partage as pg

    done = run("strategies")
    assert done.exit_code == 0
    assert all(name in done.stdout for name in pg.strategies())
    assert "RangeAssignor 4.3.1" in done.stdout
    rows = json.loads(run("strategies", "--json").stdout)
    assert [row["name"] for row in rows] == list(pg.strategies())


def test_version_and_help() -> None:
    """--version prints it; every command has a help text with an example."""
    import partage

    assert run("--version").stdout.strip() == f"partage {partage.__version__}"
    for command in ("assign", "compare", "decode", "replay", "demo", "strategies"):
        text = run(command, "--help").stdout
        assert f"partage {command}" in text.partition("Options")[0].replace("Usage: root", "")


def test_a_mistake_of_ours_is_reported_in_one_line(problem, monkeypatch) -> None:
    """An exception that nobody expected: one line, how to report it, exit code 1; no traceback."""
    from partage.groups import registry

    def broken(*_: object) -> None:
        raise ZeroDivisionError("Traceback\n  File ...\noops")

    monkeypatch.setattr(registry, "find", broken)
    done = run("assign", problem)
    assert done.exit_code == 1
    assert len(_lines(done)) == 1
    assert "unexpected ZeroDivisionError: oops;" in done.stderr
    assert "PARTAGE_DEBUG=1" in done.stderr
    monkeypatch.setenv("PARTAGE_DEBUG", "1")
    assert isinstance(run("assign", problem).exception, ZeroDivisionError)


def test_an_interrupt_is_exit_code_130(problem, monkeypatch) -> None:
    """Ctrl-C ends quietly with the shell's own code for it."""
    from partage.groups import registry

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "find", interrupted)
    done = run("assign", problem)
    assert done.exit_code == 130
    assert "Traceback" not in done.stderr


def test_doubtful_problems_are_answered_and_doubted(problem) -> None:
    """A topic that does not exist is a warning, in the plan as on the command line."""
    members = [{"id": "c1", "topics": ["orders", "order"]}]
    text = json.dumps({"topics": {"orders": 1}, "members": members})
    done = run("assign", "-", stdin=text)
    assert done.exit_code == 0
    assert done.stderr == "warning: c1 subscribes to 'order', which is not among the topics\n"
    assert run("compare", "-", "-s", "range", stdin=text).stderr == done.stderr
    group, where = pg.Group.from_json(text), pg.Cluster.from_json(text)
    assert pg.assign("range", group, where).warnings == (done.stderr[9:-1],)
    assert pg.compare(group, where, strategies=["range"])[0].plan.warnings == (done.stderr[9:-1],)
    assert not run("assign", problem).stderr


def test_sticky_counts_what_members_own_through_every_door() -> None:
    """Python, `assign`, its stream and `compare` make user data from owned, with one warning."""
    members = [
        {"id": "c1", "topics": ["t"], "owned": {"t": [1, 3]}},
        {"id": "c2", "topics": ["t"], "owned": {"t": [0, 2]}},
    ]
    text = json.dumps({"topics": {"t": 4}, "members": members})
    group, where = pg.Group.from_json(text), pg.Cluster.from_json(text)
    plan = pg.assign("sticky", group, where)
    assert plan.to_dict() == {"c1": {"t": [1, 3]}, "c2": {"t": [0, 2]}}
    (warning,) = plan.warnings
    assert "sticky reads what members own from their userData; c1, c2 sent none" in warning
    (row,) = json.loads(run("compare", "-", "-s", "sticky", "--json", stdin=text).stdout)
    assert row["measures"]["moved"] == 0
    assert (row["assignment"], row["warnings"]) == (plan.to_json(), [warning])
    alone = run("assign", "-", "-s", "sticky", stdin=text)
    assert json.loads(alone.stdout)["assignment"] == plan.to_json()
    assert alone.stderr == f"warning: {warning}\n"
    (line,) = run("assign", "--jsonl", "-s", "sticky", stdin=text).stdout.splitlines()
    assert json.loads(line) == {"assignment": plan.to_json(), "warnings": [warning]}
    (first,) = pg.play("sticky", where, [pg.Join(*group)])
    assert first.plan.to_dict() == plan.to_dict()
    assert not run("assign", "-", "-s", "cooperative-sticky", stdin=text).stderr


def test_a_first_step_says_what_follows(monkeypatch) -> None:
    """A cooperative plan on a terminal: what is given to nobody yet, and who is to get it."""
    monkeypatch.setattr("partage.cli.assign.is_terminal", lambda: True)
    members = [
        {"id": "c1", "topics": ["t"], "owned": {"t": [0, 1, 2, 3]}, "generation": 1},
        {"id": "c2", "topics": ["t"]},
    ]
    text = json.dumps({"topics": {"t": 4}, "members": members})
    shown = " ".join(run("assign", "-", "-s", "cooperative-sticky", stdin=text).stdout.split())
    assert "first of two steps" in shown
    assert "(2 to c2)" in shown
    assert "two steps" not in run("assign", "-", "-s", "range", stdin=text).stdout


def test_a_long_topic_name_is_folded_not_cut(monkeypatch) -> None:
    """On a terminal of 80 columns every character of a topic's name is there."""
    monkeypatch.setattr("partage.cli.assign.is_terminal", lambda: True)
    monkeypatch.setattr("partage.cli.console.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    topic = "warehouse." + ".".join(f"reservations-{i}" for i in range(9))
    text = json.dumps({"topics": {topic: 2}, "members": [{"id": "c1", "topics": [topic]}]})
    shown = run("assign", "-", stdin=text).stdout
    assert "…" not in shown
    assert topic in "".join(shown.split("c1", 1)[1].split())
    assert max(map(len, shown.splitlines())) <= 80


class Breaks(PlainStrategy):
    """A plug-in that raises what is no error of ours."""

    name = "acme:breaks"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        raise ValueError("boom")


def test_a_plug_in_that_breaks_costs_its_own_answer_only(problem, monkeypatch) -> None:
    """A plug-in's error is reported with its name; other lines and other strategies go on."""
    point = EntryPoint("acme:breaks", "acme:Breaks", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "_entry_points", lambda: {point.name: point})
    monkeypatch.setattr(EntryPoint, "load", lambda _: Breaks)
    lines = [json.dumps(PROBLEM | {"strategy": one}) for one in ("range", "acme:breaks", "fair")]
    done = run("assign", "--jsonl", stdin="\n".join(lines))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert ["assignment" in one for one in answers] == [True, False, True]
    assert "acme:breaks: the plug-in failed (ValueError: boom)" in answers[1]["error"]
    alone = run("assign", problem, "-s", "acme:breaks")
    assert alone.exit_code == 1
    assert "acme:breaks: the plug-in failed (ValueError: boom)" in alone.stderr
    rows = {row["strategy"]: row for row in json.loads(run("compare", problem, "--json").stdout)}
    assert rows["acme:breaks"]["refused"] == "the plug-in failed (ValueError: boom)"
    assert rows["range"]["valid"]


def test_a_strategys_settings_are_shown() -> None:
    """Every setting that `configure` takes is listed with default and meaning, with a name and without."""
    from partage.groups.optimal.settings import _PARSERS, OPTIONS, PREFIX

    assert [one.key for one in OPTIONS] == [PREFIX + key for key in _PARSERS]
    rows = {row.name: row for row in registry.describe()}
    for shown in (run("strategies").stdout, run("strategies", "optimal", "failover").stdout):
        for row in (rows["optimal"], rows["failover"]):
            assert all(x in shown for one in row.settings for x in one), row.name
    (row,) = json.loads(run("strategies", "failover", "--json").stdout)
    assert row["settings"][0]["key"] == "assignment.consumer.priority"
    assert "no settings" in run("strategies", "range").stdout
    assert "sticky" in run("strategies", "stiky").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["-s", "optimal", "-c", "assignment.optimal.max.mvoes=1"],
            "optimal has no such setting; did you mean assignment.optimal.max.moves? "
            "see `partage strategies optimal`",
        ),
        (["-s", "range", "-c", "a=1"], "range has no settings"),
        (["-s", "failover", "-c", "assignment.consumer.priority=99"], "is a member's own setting"),
        (["-s", "failover", "-c", "assignment.consumer.priority.orders=99"], "member's own"),
    ],
)
def test_a_setting_that_cannot_act_is_an_error(problem, arguments, said) -> None:
    """A misspelt setting, one of another strategy, and a member's own given to the leader."""
    done = run("assign", problem, *arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
    assert said in run("compare", problem, *arguments).stderr
    assert not run("assign", problem, "-s", "optimal", "-c", "assignment.optimal.racks=no").stdout


def test_what_goes_through_a_pipe_has_whole_lines_without_blanks_at_the_end(tmp_path) -> None:
    """Nothing is wrapped or cut at 80 columns, and no name is broken."""
    long = "consumer-of-the-payments-team-" + "x" * 60
    members = [{"id": f"{long}{i}", "topics": ["t"][:i], "userData": "AA=="} for i in range(2)]
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"topics": {"t": 3}, "members": members}))
    for command in (["compare", str(path)], ["strategies"], ["strategies", "optimal"]):
        shown = run(*command).stdout
        assert all(line == line.rstrip() for line in shown.splitlines()), command
    assert (
        f"failover: {long}0 has 1 byte of user data where 4 are due: it gets the lowest priority\n"
        in run("compare", str(path)).stdout
    )


def test_names_of_32_kb_are_cut_in_tables_and_warnings(tmp_path, monkeypatch) -> None:
    """They filled a thousand lines of a terminal; JSON has them in full."""
    long = "x" * 32_000
    path = tmp_path / "long.json"
    members = [{"id": f"m{long}", "topics": [f"t{long}", f"gone{long}"], "userData": "AA=="}]
    path.write_text(json.dumps({"topics": {f"t{long}": 3}, "members": members}))
    for arguments in (
        ("compare", str(path), "-s", "failover", "-s", "range"),
        ("keys", "--key", long, "--partitions", "3"),
    ):
        done = run(*arguments)
        assert len(done.stdout) + len(done.stderr) < 4_000
        assert "… (32,00" in done.stdout
    done = run("assign", str(path), "-s", "failover")
    assert f"m{long}" in json.loads(done.stdout)["assignment"]
    assert len(done.stderr) < 4_000
    monkeypatch.setattr("partage.cli.assign.is_terminal", lambda: True)
    done = run("assign", str(path), "-s", "failover")
    assert len(done.stdout) < 4_000


def test_the_first_of_two_steps_says_where_it_leads(tmp_path) -> None:
    """JSON of a cooperative plan that withholds partitions has the settled plan beside it."""
    members = [
        {"id": "C1", "topics": ["A", "B"], "owned": [["A", 0], ["A", 1]]},
        {"id": "C2", "topics": ["A", "B"]},
        {"id": "C3", "topics": ["A"]},
    ]
    path = tmp_path / "problem.json"
    path.write_text(json.dumps({"topics": {"A": 2, "B": 2}, "members": members}))
    result = CliRunner().invoke(app, ["assign", str(path), "-s", "optimal", "--json"])
    answer = json.loads(result.stdout)
    given = sorted(p for pairs in answer["assignment"].values() for p in map(tuple, pairs))
    later = sorted(p for pairs in answer["settled"].values() for p in map(tuple, pairs))
    assert given == [("A", 0), ("B", 0), ("B", 1)]
    assert later == [("A", 0), ("A", 1), ("B", 0), ("B", 1)]


def test_standbys_of_faust_are_shown(tmp_path, monkeypatch) -> None:
    """`assign` and `compare` show where Faust's standbys are: in JSON, in a line and in the table."""
    topics = {"topics": {"t": 2}, "members": [{"id": m, "topics": ["t"]} for m in "ab"]}
    path = tmp_path / "faust.json"
    path.write_text(json.dumps(topics))
    standbys = {"a": {"t": [1]}, "b": {"t": [0]}}
    done = run("assign", str(path), "-s", "faust", "--json")
    assert json.loads(done.stdout)["standbys"] == standbys
    done = run("assign", "--jsonl", "-s", "faust", stdin=json.dumps(topics) + "\n")
    assert json.loads(done.stdout)["standbys"] == standbys
    rows = json.loads(run("compare", str(path), "-s", "faust", "-s", "range", "--json").stdout)
    assert [row.get("standbys") for row in rows] == [standbys, None]
    owned = topics | {"members": [{"id": "a", "topics": ["t"], "owned": {"t": [0]}}]}
    path.write_text(json.dumps(owned))
    shown = run("compare", str(path), "-s", "faust").stdout
    assert "faust: reads what members own from their userData" in shown
    path.write_text(json.dumps(topics))
    table = run("compare", str(path), "-s", "faust", "-s", "range").stdout.splitlines()
    assert "standbys" in "".join(table[:2])
    assert [line.split()[-1] for line in table if line.startswith(("faust ", "range "))] == [
        "2",
        "-",
    ]
    assert "standbys" not in run("compare", str(path), "-s", "range").stdout
    monkeypatch.setattr("partage.cli.assign.is_terminal", lambda: True)
    table = run("assign", str(path), "-s", "faust").stdout.splitlines()
    assert table[0].split() == ["member", "partitions", "which", "standbys"]
    assert table[1].split() == ["a", "1", "t", "0", "t", "1"]
