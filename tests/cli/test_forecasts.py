"""`partage size`, `partage forecast` and `partage migrate`: output, exit codes, JSON."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("pyarrow")

from tests.support.compared_runs import member_row, owned_row
from tests.support.published import group, published, rebalance
from typer.testing import CliRunner

import partage as pg
from partage.cli.app import app
from partage.commands import live_groups
from partage.forecasts.measured import measurement_to_group
from partage.forecasts.migration import Effect, Migration
from partage.forecasts.pictures import migration_picture, rollout_picture
from partage.tables.sums import Estimate

MINUTE = 60_000
NUMBERS = ("--partitions", "12", "--rate", "600", "--capacity", "200")
DEPLOYMENT = ("--rolling-restart", "--partitions", "12", "--members", "4", "--restart-time", "20s")


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def _rate(topic: str, partition: int, minute: int, last: int) -> dict:
    return {"group": "billing", "topic": topic, "partition": partition,
            "minute_ms": minute * MINUTE, "first_offset": 0, "last_offset": last, "commits": 12,
            "transactional": 0, "tombstones": 0, "largest_gap_ms": 5_000}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a group of two members that catches up in one minute and restarts twice."""
    return published(tmp_path_factory.mktemp("run") / "out", _rows())


def _rows() -> dict[str, list[dict]]:
    """Return the rows of the run's tables."""
    totals, offset = [], 0
    for step in (60, 60, 60, 900, 60, 60, 60):
        offset += step
        totals.append(offset)
    events = [
        ("leave", 100, None), ("bounce", 110, "was m0, away for 10000 ms"),
        ("leave", 200, None), ("bounce", 212, "was m1, away for 12000 ms"),
    ]  # fmt: skip
    return {
        "groups": [group("billing")],
        "rebalances": [rebalance("billing", n, time_ms=n * MINUTE) for n in (1, 2, 3)],
        "members": [member_row("billing", 3, i, 45_000) for i in range(2)],
        "ownership": [owned_row("billing", p) for p in range(2)],
        "commit_rates": [
            _rate("orders", p, m, at) for p in range(2) for m, at in enumerate(totals)
        ],
        "events": [
            {"group": "billing", "incarnation": 0, "generation": 2, "log_partition": 0,
             "log_offset": i, "position": 0, "time_ms": at * 1_000, "event": kind, "member": f"m-{at}",
             "instance": None, "source": "inferred", "detail": detail}
            for i, (kind, at, detail) in enumerate(events)
        ],
        "replays": [], "unread": [], "pauses": [],
    }  # fmt: skip


@pytest.mark.parametrize("command", [("size",), ("forecast", "--rolling-restart")])
def test_a_group_that_fails_does_not_hide_the_others(tmp_path: Path, command: tuple) -> None:
    """Its error is a line on stderr, and the exit code is 1. Alone it is the command's error."""
    both = [group("billing"), group("job", kind="offsets only")]
    folder = published(tmp_path / "out", _rows() | {"groups": both})
    done = run(*command, str(folder), "--group", "*", "--json")
    assert done.exit_code == 1
    assert [one["group"] for one in json.loads(done.stdout)] == ["billing"]
    assert "job: --group: has no members in the run, got 'job'" in done.stderr
    alone = run(*command, str(folder), "--group", "job")
    assert (alone.exit_code, alone.stdout) == (1, "")
    assert "partage: --group: has no members in the run, got 'job'" in alone.stderr


def test_size_from_numbers_alone() -> None:
    """A sentence, a table, and settings of both scalers."""
    done = run("size", *NUMBERS)
    assert done.exit_code == 0, done.stderr
    for words in ("5 consumers keep the lag within 30 s, also after one has left cleanly",
                  "spread/s", "lag at least that long",
                  "minReplicaCount: 5", "maxReplicas: 12", "a dead consumer is detected after 45 s",
                  "100%"):  # fmt: skip
        assert words in done.stdout, words


def test_numbers_alone_have_the_given_name() -> None:
    """The lines of the autoscaler name the group that --group names."""
    done = run("size", *NUMBERS, "--group", "billing")
    assert "consumerGroup: 'billing'" in done.stdout


def test_size_says_that_numbers_of_consumers_are_a_selection() -> None:
    """Above 32 partitions a line says so, and --all-sizes shows each number."""
    known = ("size", "--partitions", "40", "--rate", "400", "--capacity", "70")
    some, every = run(*known).stdout, run(*known, "--all-sizes").stdout
    assert "are a selection of 1 to 41" in some
    assert "selection" not in every
    table = [line for line in run("size", *NUMBERS).stdout.splitlines() if line.endswith(" yes")]
    assert max(map(len, table)) <= 88


def test_size_learns_the_capacity_from_the_run(folder: Path) -> None:
    """The catch-up minute shows 15 records/s for one consumer; the JSON has the same as Python."""
    done = run("size", str(folder), "--json")
    assert done.exit_code == 0, done.stderr
    (found,) = json.loads(done.stdout)
    assert (found["group"], found["capacity"], found["strategy"]) == ("billing", 15.0, "range")
    assert found["needed"] == pg.size(pg.open_run(folder)).needed
    text = run("size", str(folder), "--group", "billing", "--capacity", "3").stdout
    assert "there are too few partitions" in text
    assert "partage keys" in text
    assert "grows" in text


def test_forecast_from_numbers_alone_and_its_limit() -> None:
    """The table begins with the present settings; --max-unread decides the exit code."""
    done = run("forecast", *DEPLOYMENT, "--policy", "eager/range")
    assert done.exit_code == 0, done.stderr
    for words in ("eager/range, 1 unavailable (present)", "10% less unread time, the intervals overl",
                  "No alternative is measurably better than the present", "partition-seconds"):  # fmt: skip
        assert words in done.stdout, words
    assert "maxSurge" not in done.stdout
    better = run("forecast", *DEPLOYMENT, "--policy", "eager/range+static")
    for words in ("less unread time. Set", "terminationGracePeriodSeconds", "lifecycle.preStop"):
        assert words in run("forecast", *DEPLOYMENT, "--no-leave").stdout, words
    assert better.exit_code == 0
    within = run("forecast", *DEPLOYMENT, "--max-unread", "100000")
    assert (within.exit_code, "within 100000" in within.stdout) == (0, True)
    over = run("forecast", *DEPLOYMENT, "--max-unread", "1", "--json")
    assert over.exit_code == 3
    (found,) = json.loads(over.stdout)
    assert (found["passed"], found["present"]["members"]) == (False, 4)
    assert (
        found["alternatives"][0]["unread_partition_seconds"]["best"]
        < (found["present"]["unread_partition_seconds"]["best"])
    )


def test_forecast_learns_restarts_from_the_run(folder: Path) -> None:
    """Restart time, members, session timeout and LeaveGroup come from the record."""
    done = run("forecast", str(folder), "--rolling-restart", "--json")
    assert done.exit_code == 0, done.stderr
    (found,) = json.loads(done.stdout)
    present = found["present"]
    assert present["restart_seconds"]["count"] == 2
    # Without the 1.5 s for which a classic rebalance waits for heartbeats.
    assert present["restart_seconds"]["median"] == pytest.approx((8.5 * 10.5) ** 0.5, abs=0.1)
    assert (present["members"], present["leaves"], present["policy"]) == (2, True, "eager/range")
    learnt = pg.forecast(folder, "billing")[0]
    assert learnt.unread.best == present["unread_partition_seconds"]["best"]


def _deployed(folder: Path, client: str = "java", session_ms: int = 8_000, **more: dict) -> Path:
    """Return a run with a slow eager group of three members; the brokers' session timeout is 6 s."""
    members = [member_row("billing", 3, i, session_ms) | {"client": client} for i in range(3)]
    members = [one | more.get("member", {}) for one in members]
    rows = {
        "groups": [group("billing")],
        "rebalances": [
            rebalance("billing", n, time_ms=n * MINUTE, members=3, **more.get("rebalance", {}))
            for n in (1, 2, 3)
        ],
        "members": members,
        "ownership": [owned_row("billing", p) for p in range(6)],
        "events": [
            {"group": "billing", "incarnation": 0, "generation": 2, "log_partition": 0,
             "log_offset": 1, "position": 0, "time_ms": 2 * MINUTE, "event": "bounce", "member": "m1",
             "instance": None, "source": "inferred", "detail": "was m0, away for 10000 ms"}
        ],
        "unread": [
            {"group": "billing", "incarnation": 0, "generation": n, "topic": "orders", "topic_id": None,
             "partition": p, "member": f"m{p}", "new_owner": "m9", "stopped_ms": n * MINUTE - 9_000,
             "stopped_p10_ms": 0, "stopped_p90_ms": 0, "assigned_ms": n * MINUTE,
             "unread_ms": 9_000, "unread_p10_ms": 9_000, "unread_p90_ms": 9_000,
             "no_consumer_ms": 0}
            for n in (2, 3) for p in range(6)
        ],
        "commit_rates": [], "replays": [], "pauses": [],
    }  # fmt: skip
    return published(folder, rows, session_timeout_ms=6_000)


def test_a_policy_and_its_alternative_have_one_forecast(tmp_path: Path) -> None:
    """`--policy` forecasts what the table shows: scaled by past rebalances, and with the session
    timeout of the policy's protocol.
    """
    made = _deployed(tmp_path / "out")
    now, *others = pg.forecast(made)
    assert now.deployment.session_s == 8.0
    row = next(one for one in others if one.deployment.text == "consumer/uniform, 1 unavailable")
    (given,) = pg.forecast(made, policy="consumer/uniform", compare=False)
    assert given.deployment.text == row.deployment.text
    assert (given.unread, given.deployment.session_s) == (row.unread, 6.0)
    # Past rebalances were slow, so that the simulation alone says less.
    plain = pg.forecast(topics={"orders": 6}, members=3, policy="consumer/uniform", compare=False,
                        session_timeout=6.0, restart_time=10.0)[0]  # fmt: skip
    assert given.unread.best > 1.5 * plain.unread.best


def test_migrate_compares_deployments_that_are_scaled_alike(tmp_path: Path) -> None:
    """Before and after the migration have the values of `partage forecast` for both policies."""
    from partage.results.forecasts import RecordedGroup, _forecast_deployments

    made = _deployed(tmp_path / "out")
    now, *others = pg.forecast(made)
    row = next(one for one in others if one.deployment.text == "consumer/uniform, 1 unavailable")
    found = _forecast_deployments(RecordedGroup(pg.open_run(made)), "consumer/uniform")
    assert found == (row.unread, now.unread)


def test_lines_are_those_of_the_client_library(tmp_path: Path) -> None:
    """Python clients get arguments in code, and no protocol that their library lacks."""
    made = _deployed(tmp_path / "out", "kafka-python or aiokafka")
    (found,) = json.loads(run("forecast", str(made), "--rolling-restart", "--json").stdout)
    policies = [one["policy"] for one in found["alternatives"]]
    assert "cooperative/cooperative-sticky" in policies
    assert not [one for one in policies if one.startswith("consumer/")]
    lines = "\n".join(line for one in found["alternatives"] for line in one["client_lines"])
    assert "org.apache.kafka" not in lines
    assert "group_instance_id=" in lines
    assert "set cooperative/cooperative-sticky in code" in lines


def test_a_consumer_group_gets_settings_that_it_can_have(tmp_path: Path) -> None:
    """Brokers set its session timeout; the classic protocol needs group.protocol=classic."""
    made = _deployed(
        tmp_path / "out", "unknown", -1, member={"subscription_version": None},
        rebalance={"protocol": "consumer", "strategy": "uniform"},
    )  # fmt: skip
    options = ("forecast", str(made), "--rolling-restart", "--restart-time", "30s")
    (found,) = json.loads(run(*options, "--json").stdout)
    assert found["present"]["session_timeout_seconds"] == 6.0
    lines = {one["policy"]: one for one in found["alternatives"] if not one["max_surge"]}
    static = lines["consumer/uniform+static"]
    assert static["session_timeout_seconds"] == pytest.approx(1.5 * 30 * 1.25)
    assert [line.split("=")[0] for line in static["client_lines"]] == [
        "group.instance.id",
        "kafka-configs.sh --alter --entity-type groups --entity-name billing "
        "--add-config consumer.session.timeout.ms",
    ]
    classic = "\n".join(lines["cooperative/cooperative-sticky"]["client_lines"])
    assert "group.protocol=classic" in classic
    assert "CooperativeStickyAssignor" in classic
    assert "RangeAssignor" not in classic


def test_settings_of_options_are_not_called_present(tmp_path: Path) -> None:
    """A policy from the command line is given; rows that differ in the session timeout show it."""
    made = _deployed(tmp_path / "out")
    options = ("forecast", str(made), "--rolling-restart", "--restart-time", "30s")
    own = run(*options).stdout
    assert "eager/range, 1 unavailable (present)" in own
    assert "eager/range+static, 1 unavailable, session 56.25 s" in own
    given = run(*options, "--policy", "eager/range+static").stdout
    assert "eager/range+static, 1 unavailable (given)" in given
    assert "(present)" not in given


def test_an_unknown_strategy_can_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors name the option of the command, and the option works, also for a live group."""
    made = _deployed(tmp_path / "out", rebalance={"strategy": "acme"})
    wrong = run("forecast", str(made), "--rolling-restart")
    assert (wrong.exit_code, "--policy: of group billing is unknown" in wrong.stderr) == (1, True)
    given = run("forecast", str(made), "--rolling-restart", "--policy", "eager/range")
    assert given.exit_code == 0, given.stderr
    streams = _deployed(tmp_path / "streams", rebalance={"strategy": "stream"})
    done = run("forecast", str(streams), "--rolling-restart")
    assert "Kafka Streams application" in " ".join(done.stderr.split())
    found = measurement_to_group(
        "billing", protocol="classic", strategy="acme", topics={"orders": 12},
        rates={("orders", p): 5.0 for p in range(12)}, instances=(None,), seconds=1.0, lag=0,
    )  # fmt: skip
    monkeypatch.setattr(live_groups, "measure_group", lambda *_, **__: found)
    options = ("size", "-b", "b:1", "--group", "billing", "--capacity", "100")
    wrong = run(*options)
    assert (wrong.exit_code, "--strategy: of group billing is unknown" in wrong.stderr) == (1, True)
    assert run(*options, "--strategy", "range").exit_code == 0


def test_commits_can_be_given() -> None:
    """Without a commit at the stop, each reader repeats half a commit interval on average."""
    known = ("forecast", *DEPLOYMENT, "--rate", "120", "--json", "--no-commit-on-stop")
    short, long = (
        json.loads(run(*known, "--commit-interval", text).stdout)[0]["present"]["reread_records"]
        for text in ("2s", "10s")
    )
    assert long["best"] == pytest.approx(5 * short["best"], rel=0.01)


def test_pictures_are_svg_with_escaped_names(tmp_path: Path) -> None:
    """Each bar has its value as text; a file that cannot be written is an error of one line."""
    file = tmp_path / "picture.svg"
    assert run("size", *NUMBERS, "--picture", str(file)).exit_code == 0
    root = ET.parse(file).getroot()  # noqa: S314 - our own file
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"5 consumers", "75%, one down 75%"} <= set(texts)
    found = pg.forecast(
        topics={"t": 2}, members=2, restart_time=5, policy="range", replaced=1, compare=False
    )
    picture = rollout_picture(found, "</svg><b>\x1b\u202e")
    assert "<b>" not in picture
    assert r"&lt;b&gt;\x1b\u202e" in picture
    ET.fromstring(picture)  # noqa: S314 - our own file; XML has no escape character
    assert "eager/range, 1 unavailable" in picture
    failed = run("size", *NUMBERS, "--picture", str(tmp_path / "no" / "file.svg"))
    assert (failed.exit_code, "cannot be written" in failed.stderr) == (1, True)


def test_growth_and_migrations_have_pictures(tmp_path: Path) -> None:
    """Each old partition has its share that moves; a loss is drawn to the left of the line."""
    file = tmp_path / "growth.svg"
    grown = run("keys", "--grow", "4", "6", "--lag", "audit=9000", "--picture", str(file))
    assert grown.exit_code == 0
    drawn = file.read_text(encoding="utf-8")
    assert "67% to 2, 4" in drawn
    assert "audit: 9,000 old records, read after an unknown time" in drawn
    loss = Effect("consumer/uniform", 9, 7, Estimate(-5.0, -10.0, 10.0))
    found = [
        Migration(f"<{name}>", "consumer", "ready", {}, (), effect, (), ())
        for name, effect in (("a", loss), ("b", None))
    ]
    picture = migration_picture(found)
    ET.fromstring(picture)  # noqa: S314 - our own text
    assert "<a>" not in picture
    assert "-5 (-10 to 10)" in picture
    assert 'x="125.0"' in picture  # a quarter of the width from the line at 230
    assert "gain unknown" in picture


def test_streams_groups_are_refused(tmp_path: Path) -> None:
    """Forecasts are about consumers: the error for a streams group names the other command."""
    rows = {
        "groups": [group("shop", kind="streams")],
        "rebalances": [rebalance("shop", 1, protocol="streams")],
        "members": [], "ownership": [owned_row("shop", 0)], "events": [], "unread": [],
        "commit_rates": [
            _rate("orders", 0, m, 60 * m) | {"group": "shop"} for m in range(5)
        ],
        "replays": [], "pauses": [],
    }  # fmt: skip
    made = published(tmp_path / "out", rows)
    done = run("size", str(made), "--capacity", "5")
    assert done.exit_code == 1
    assert "is a Kafka Streams application" in done.stderr


def test_migrate_lists_groups_and_prints_one(folder: Path) -> None:
    """A line for each group; with --group findings, steps and the rollback."""
    assert "ready after changes" in run("migrate", str(folder)).stdout
    one = run("migrate", str(folder), "--group", "billing").stdout
    for words in ("group.protocol=consumer", "rollback", "2 java", "check"):
        assert words in one, words
    found = json.loads(run("migrate", str(folder), "--protocol", "cooperative", "--json").stdout)
    assert found["groups"][0]["protocol"] == "cooperative"
    assert pg.migrate(folder)[0].status == "ready after changes"


def test_migrate_says_why_no_effect_is_known(folder: Path) -> None:
    """A run without the target policy has no gain: the output names the policy to replay with."""
    text = " ".join(run("migrate", str(folder), "--group", "billing").stdout.split())
    assert "effect unknown: the run does not simulate consumer/range for this group" in text
    assert "replay with --policy own --policy consumer/range" in text


def test_results_have_the_printed_lines_and_a_short_text() -> None:
    """Python results have the lines to set, and print no arrays."""
    found = pg.forecast(topics={"t": 500}, members=4, restart_time=20, policy="range", replaced=1)
    assert found[0].kubernetes_lines[0] == "kind: Deployment"
    assert len(repr(found[0])) < 1_500
    assert found[0].duration.low > 0
    sizing = pg.size(topics={"t": 12}, rate=600, capacity=200)
    assert "minReplicaCount: 5" in sizing.autoscaler_lines("g")


def test_migrate_has_a_style_for_each_status_and_kind() -> None:
    """A status or kind without a style would be a KeyError in the output."""
    from partage.cli import migrate
    from partage.forecasts import migration

    statuses = {migration.READY, migration.CHANGES, migration.BLOCKED, migration.DONE}
    kinds = {migration.BLOCKER, migration.CHANGE, migration.CHECK, migration.NOTE}
    assert (set(migrate._STYLES), set(migrate._FINDINGS)) == (statuses, kinds)
    assert migrate._LISTED == {
        migration.CHANGES: migration.CHANGE, migration.BLOCKED: migration.BLOCKER,
    }  # fmt: skip


def test_migrate_lists_groups_in_short_cells(folder: Path) -> None:
    """The table names what to change in a few words; texts of findings are for one group."""
    text = run("migrate", str(folder)).stdout
    assert "ready after changes (to consumer): 1 group" in text
    assert "assignor, settings" in text
    assert max(map(len, text.splitlines())) <= 80
    for one in pg.migrate(folder)[0].findings:
        assert one.text not in text
        assert len(one.title) <= 24


def test_keys_grow_prints_moves_and_the_safe_sequence(tmp_path: Path) -> None:
    """Successors of partitions, drain times and steps; with an input also its own keys."""
    done = run("keys", "--grow", "12", "24", "--lag", "billing=40000", "--drain-rate", "800")
    assert done.exit_code == 0, done.stderr
    for words in ("50% of the keys move", "partition 1: keys go to 1, 13",
                  "billing: 40,000 old records, read after 50 s", "Before", "stop all producers", "and so on for 8 more"):  # fmt: skip
        assert words in done.stdout, words
    found = json.loads(run("keys", "--grow", "6", "9", "--json").stdout)
    assert found["growth"]["moved"] == pytest.approx(2 / 3)
    file = tmp_path / "keys.csv"
    file.write_text("id\n" + "\n".join(f"k{i}" for i in range(200)) + "\n")
    whole = run("keys", str(file), "--key", "id", "--grow", "2", "4", "-q").stdout
    assert "2 → 4" in whole
    assert "Safe sequence" in whole
    both = json.loads(run("keys", str(file), "--key", "id", "--grow", "2", "4", "--json").stdout)
    assert (both["format"], both["growth"]["after"], both["records"]) == ("partage-growth", 4, 200)
    assert (
        "give --drain-rate for the time" in run("keys", "--grow", "2", "4", "--lag", "a=9").stdout
    )


def test_keys_grow_names_the_hottest_keys_that_move(tmp_path: Path) -> None:
    """Each named key is in another partition afterwards, by Kafka's partitioner."""
    file = tmp_path / "keys.csv"
    keys = [f"user-{i}" for i in range(8)]
    file.write_text("id\n" + "\n".join(key for i, key in enumerate(keys) for _ in range(9 - i)))
    old, new = (pg.partition_for([k.encode() for k in keys], partitions=n) for n in (6, 9))
    moved = [f"{k} ({a} → {b})" for k, a, b in zip(keys, old, new, strict=True) if a != b]
    whole = run("keys", str(file), "--key", "id", "--grow", "6", "9", "-q").stdout
    assert f"6 → 9: of the hottest keys {len(moved)} move: {', '.join(moved)}" in whole
    found = json.loads(run("keys", str(file), "--key", "id", "--grow", "6", "9", "--json").stdout)
    assert [h["partition"]["6"] for h in found["hottest"]] == old.tolist()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("size",), 2, "or --partitions"),
        (("size", *NUMBERS, "--max-lag", "soon"), 2, "must be a duration"),
        (("size", *NUMBERS, "--for", "5m"), 2, "needs --bootstrap-server"),
        (("forecast", *DEPLOYMENT[1:]), 2, "say what to forecast"),
        (("forecast", "--rolling-restart"), 2, "or --partitions"),
        (("forecast", *DEPLOYMENT, "--policy", "eager/rnage"), 1, "eager/range"),
        (("forecast", *DEPLOYMENT, "--max-unavailable", "0"), 1, "--max-unavailable: "),
        (
            ("keys", "--grow", "12", "6"),
            1,
            "--grow: needs two counts from 1 to 2147483647, the sec",
        ),
        (("keys", "--grow", "6", "12", "--lag", "a=9", "--lag", "a=8"), 1, "names a group twice"),
        (
            ("keys", "--grow", "6", "12", "--partitioner", "nosuch"),
            2,
            "needs an INPUT beside --gro",
        ),
        (("forecast", *DEPLOYMENT, "--max-unread", "nan"), 2, "must be a number of at least 0"),
        (("forecast", *DEPLOYMENT, "--max-surge", "-1"), 1, "--max-surge: must not be negative"),
        (("forecast", *DEPLOYMENT, "--rate", "nan"), 1, "--rate: must be a number, got nan"),
        (("forecast", *DEPLOYMENT, "--policy", ""), 1, "partage: "),
        (
            ("size", "--partitions", "12", "--rate", "0", "--capacity", "9"),
            1,
            "--rate: must be pos",
        ),
        (
            ("keys", "--grow", "6", "12", "--lag", "a=9", "--drain-rate", "0"),
            1,
            "--drain-rate: must be a positive number",
        ),
        (("keys", "--grow", "6", "12", "--key", "a"), 2, "needs an INPUT beside --grow"),
        (("keys", "--grow", "6", "12", "--partitions", "3"), 2, "has the partition counts"),
        (("keys", "--key", "a", "--lag", "x=1"), 2, "needs --grow"),
        (("keys", "--key", "a", "--picture", "f.svg"), 2, "needs --grow"),
        (("keys", "--grow", "6", "12", "--lag", "x"), 1, "GROUP=RECORDS"),
        (("migrate", "no-such-folder"), 1, "no published run"),
        (("keys", "--grow", "6", "12", "--topic", "t"), 2, "--bootstrap-server and --topic go"),
        (("keys", "--grow", "6", "12", "--drain-rate", "9"), 2, "--drain-rate: needs --lag"),
        (
            ("keys", "--grow", "6", "12", "--lag", "a=9", "--drain-rate", "1", "--drain-rate", "2"),
            1,
            "--drain-rate: is given twice",
        ),
        (("keys", "--grow", "6", "12", "--value", "v"), 2, "--value: needs an INPUT"),
        (("keys", "--grow", "6", "12", "--property", "a=b"), 2, "--property: needs an INPUT"),
        (("keys", "--grow", "6", "12", "--who-agrees"), 2, "--who-agrees: runs alone"),
        (("keys", "--list", "--key", "a"), 2, "--list: runs alone"),
        (("forecast", *DEPLOYMENT, "--run", "7"), 2, "--run: needs DIR"),
        (("forecast", *DEPLOYMENT, "--property", "a=b"), 2, "--property: needs --bootstrap-server"),
        (("forecast", *DEPLOYMENT, "-g", "a", "-g", "b"), 2, "--group: needs DIR"),
        (("forecast", *DEPLOYMENT, "--max-unavailable", "99"), 1, "must be at most 4"),
        (
            ("forecast", *DEPLOYMENT, "--policy", "range+static", "--max-surge", "1"),
            1,
            "--max-surge: must be 0 for static members",
        ),
        (("forecast", *DEPLOYMENT, "--pause", "9999h"), 1, "--pause: must be 0 to 604800 s"),
        (
            ("forecast", *DEPLOYMENT, "--policy", "range+timeout=9s", "--session-timeout", "8s"),
            1,
            "--session-timeout: is in the policy",
        ),
        (
            ("size", "--partitions", "12", "--rate", "1e300", "--capacity", "9"),
            1,
            "--rate: must be 0 to 1e+12",
        ),
        (
            ("size", "--partitions", "12", "--rate", "9", "--capacity", "9", "--strategy", ""),
            1,
            "no strategy named",
        ),
    ],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], code: int, message: str) -> None:
    """Errors say what is wrong and what to do, without a traceback."""
    done = run(*arguments)
    assert done.exit_code == code
    assert message in " ".join(done.stderr.replace("│", " ").split())


def test_a_measurement_assumes_that_members_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster shows no LeaveGroup: the output says what is assumed, and --no-leave costs more."""
    found = measurement_to_group(
        "billing", protocol="classic", strategy="range", topics={"orders": 12}, rates={},
        instances=(None, None, None), seconds=1.0, lag=0,
    )  # fmt: skip
    monkeypatch.setattr(live_groups, "measure_group", lambda *_, **__: found)
    options = ("forecast", "-b", "b:1", "--group", "billing", "--rolling-restart",
               "--restart-time", "5s", "--session-timeout", "10s")  # fmt: skip
    assumed, given = run(*options), run(*options, "--no-leave")
    assert "(assumed; --no-leave for pods that are killed)" in assumed.stdout.replace("\n", " ")
    assert "assumed" not in given.stdout
    leaving, killed = (
        json.loads(run(*options, *more, "--json").stdout)[0]["present"]
        for more in ((), ("--no-leave",))
    )
    unread = "unread_partition_seconds"
    assert killed[unread]["low"] > leaving[unread]["high"]


def test_patterns_name_groups_of_a_running_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """With -b a pattern stands for all groups that it matches, as with a run."""
    measured = []

    def measure(_: str, name: str, **__: object) -> object:
        measured.append(name)
        return measurement_to_group(
            name, protocol="classic", strategy="range", topics={"orders": 2},
            rates={("orders", 0): 5.0}, instances=(None,), seconds=1.0, lag=0,
        )  # fmt: skip

    monkeypatch.setattr(live_groups, "measure_group", measure)
    monkeypatch.setattr(live_groups, "matching_live_groups", lambda *_, **__: ["b-1", "b-2"])
    done = run("size", "-b", "b:1", "--group", "b-*", "--capacity", "100", "--json")
    assert done.exit_code == 0, done.stderr
    assert [one["group"] for one in json.loads(done.stdout)] == measured == ["b-1", "b-2"]


def test_each_group_drains_at_its_own_rate() -> None:
    """A rate without a group is that of the others."""
    done = run("keys", "--grow", "6", "12", "--lag", "a=100", "--lag", "b=100",
               "--drain-rate", "10", "--drain-rate", "b=50", "--json")  # fmt: skip
    found = json.loads(done.stdout)["drain_times"]
    assert [one["seconds"] for one in found] == [10, 2]
    wrong = run("keys", "--grow", "6", "12", "--lag", "a=100", "--drain-rate", "c=50")
    assert (wrong.exit_code, "--drain-rate: names a group without --lag" in wrong.stderr) == (
        1, True,
    )  # fmt: skip


def test_lags_of_a_running_cluster_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --topic the lag of each group on this topic is that of the cluster."""
    from partage.cli import keys

    places = {("orders", 0): 9, ("orders", 1): 50, ("other", 0): 1_000}
    found = [
        SimpleNamespace(id="a", committed={("orders", 0): 5, ("orders", 1): 20, ("other", 0): 0}),
        SimpleNamespace(id="b", committed={("other", 0): 0}),
    ]
    monkeypatch.setattr("partage.capture.groups.live_groups", lambda *_: (found, places, None))
    monkeypatch.setattr("partage.capture.connection.ClusterConnection", lambda *_: nullcontext())
    assert live_groups.topic_lags("b:1", "orders") == {"a": 34}
    spread: list[object] = []
    monkeypatch.setattr(keys, "analyse_and_print", lambda *_, **more: spread.append(more["more"]))
    done = run("keys", "-b", "b:1", "--topic", "orders", "--grow", "2", "4", "--json")
    assert done.exit_code == 0, done.stderr
    assert [one["lag"] for one in spread[0]["drain_times"]] == [34]


@pytest.mark.parametrize(
    "more", [("-a", "legacy-sticky"), ("--sweep", "x=1"), ("--decide",), ("--master", "local[1]")]
)
def test_options_of_a_simulation_are_errors_beside_a_capture(more: tuple[str, ...]) -> None:
    """`--from-capture` simulates nothing but a crash: an option without effect is named."""
    done = run("streams", "--from-capture", "c", "--application-id", "a", *more)
    assert (done.exit_code, "is for APP.json" in done.stderr) == (2, True)


def test_one_member_and_no_restart_time_in_words() -> None:
    """A group of one has no "all 1 members"; a restart takes some time."""
    numbers = ("forecast", "--rolling-restart", "--partitions", "2", "--members", "1")
    done = run(*numbers, "--restart-time", "5s")
    assert "a rolling deployment of the only member costs" in done.stdout
    done = run(*numbers, "--restart-time", "0s")
    assert done.exit_code == 1
    assert "--restart-time: must be a positive time" in done.stderr


def test_of_equal_settings_those_with_fewest_changes_are_recommended() -> None:
    """A clean shutdown saves as much as a new protocol, within the intervals."""
    numbers = ("forecast", "--rolling-restart", "--partitions", "12", "--members", "4")
    done = run(*numbers, "--restart-time", "20s", "--policy", "consumer/uniform", "--no-leave")
    assert "\nconsumer/uniform, 1 unavailable: 87% less unread time. Set\n" in done.stdout
    assert "group.protocol=classic" not in done.stdout
