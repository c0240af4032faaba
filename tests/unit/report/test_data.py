"""Reading a published run: sums, the newest rebalances, and what is missing or damaged."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyarrow")

from tests.support.published import NASTY, group, published, rebalance, replayed, summary, tables

from partage.errors import InvalidCaptureError
from partage.report import data
from partage.report.gains import back_tests
from partage.report.messages import run_headline
from partage.report.run import FigureRange
from partage.tables.statuses import CUMULATIVE, NOT_YET, PER_REBALANCE, RECORDED, REFUSED


def test_sums_are_by_group_and_over_all(tmp_path) -> None:
    """Each strategy's figures are summed in its group and over the run; groups stay apart."""
    run = data.read_run(published(tmp_path))
    assert run.policies == ("range", "fair")
    assert run.recorded_figures.moved == 12
    assert run.recorded_figures.avoidable == 4
    orders = next(g for g in run.groups if g.name == "orders")
    assert orders.figures["fair"].moved == 6
    assert orders.figures["fair"].is_comparable
    assert {g.name for g in run.groups if g.was_replayed} == {"orders", NASTY}
    assert [g.name for g in run.other_groups] == ["streamy"]


def test_refusals_and_missing_figures_are_not_zeroes(tmp_path) -> None:
    """A refused plan has no figures, one that breaks a rule no avoidable moves: both are counted."""
    rows = tables()
    nothing = dict.fromkeys(("spread", "idle", "moved", "avoidable", "best_spread", "breaches"))
    rows["groups"].append(group("odd", rebalances=2))
    rows["rebalances"] += [rebalance("odd", 1), rebalance("odd", 2)]
    rows["replays"] += [
        replayed("odd", 1, RECORDED, avoidable=None, breaches=4),
        replayed("odd", 2, RECORDED),
        replayed("odd", 1, "fair", status=REFUSED, detail="unequal", **nothing),
        replayed("odd", 2, "fair", spread=2),
        replayed("odd", 1, "sticky", status=NOT_YET, claimed=True, **nothing),
    ]
    run = data.read_run(published(tmp_path, rows))
    odd = next(g for g in run.groups if g.name == "odd").figures
    assert (odd[RECORDED].proven, odd[RECORDED].incomplete, odd[RECORDED].moved) == (1, 1, 6)
    assert (odd["fair"].done, odd["fair"].refused, odd["fair"].is_comparable) == (1, 1, False)
    assert (odd["fair"].even, odd["fair"].judged) == (0, 1)
    assert not odd["sticky"].can_be_simulated
    assert run.policies == ("range", "fair", "sticky")


def test_agreement_counts_only_where_it_counts(tmp_path) -> None:
    """A comparison counts only if all members are Java clients."""
    rows = tables()
    for i, (agrees, counts) in enumerate(
        ((True, True), (False, True), (True, False), (None, True))
    ):
        rows["replays"].append(replayed("orders", 10 + i, "range", agrees=agrees, counts=counts))
    figures = data.read_run(published(tmp_path, rows)).figures["range"]
    assert (figures.counted, figures.agreed) == (2, 1)


def test_what_was_lost_and_would_be_saved_is_a_range(tmp_path) -> None:
    """Savings are added up per rebalance, between the differences of both bounds."""
    rows = {"groups": [group("g")], "rebalances": [rebalance("g", n) for n in (1, 2)],
            "replays": []}  # fmt: skip
    for n, record, other in ((1, (2.0, 10.0), (1.0, 4.0)), (2, (3.0, 4.0), (3.5, 3.5))):
        for policy, (low, high) in ((RECORDED, record), ("eager/sticky", other)):
            rows["replays"].append(
                replayed("g", n, policy, stopped_at_least_ps=low, stopped_at_most_ps=high)
            )
    run = data.read_run(published(tmp_path, rows))
    assert run.downtime_bounds == FigureRange(5.0, 14.0)
    # Generation 1: 1 to 6; generation 2: -0.5 to 0.5, the bounds crossing.
    assert run.figures["eager/sticky"].saved == FigureRange(0.5, 6.5)
    assert run.recorded_figures.saved is None


def test_costs_that_are_not_known_are_no_zeroes(tmp_path) -> None:
    """Without commits around rebalances, downtime and savings are unknown."""
    run = data.read_run(published(tmp_path))
    assert run.downtime_bounds is None
    assert run.figures["fair"].saved is None
    assert run.figures["fair"].stopped_known == 0


def test_a_policys_own_past_is_the_main_reading(tmp_path) -> None:
    """The two simulations do not mix; a run with one of them shows that one."""
    rows = tables()
    rows["replays"] += [
        replayed("orders", n, "fair", reading=PER_REBALANCE, moved=50) for n in (1, 2)
    ]
    rows["replays"] += [
        replayed("orders", n, "only", reading=PER_REBALANCE, moved=9) for n in (1, 2)
    ]
    orders = next(g for g in data.read_run(published(tmp_path, rows)).groups if g.name == "orders")
    assert orders.figures["fair"].moved == 6
    assert orders.per_rebalance["fair"].moved == 100
    assert orders.figures["only"].moved == 18
    assert "only" not in orders.per_rebalance


def test_rebalances_that_do_not_happen_are_counted_apart(tmp_path) -> None:
    """A static member's bounce is spared; a second phase is one rebalance more."""
    rows = tables()
    rows["replays"] += [
        replayed("orders", 1, "x+static", caused=False, moved=0),
        replayed("orders", 2, "x+static"),
        replayed("orders", 2, "x+static", step=1),
    ]
    found = data.read_run(published(tmp_path, rows)).figures["x+static"]
    assert (found.rows, found.spared, found.happened) == (3, 1, 2)


def test_causes_have_their_share_of_the_time(tmp_path) -> None:
    """Downtime counts for the main cause; the cause with the largest downtime comes first."""
    rows = {"groups": [group("g", rebalances=3)], "rebalances": [], "replays": []}
    for n, kind, high in ((1, "join", 1.0), (2, "bounce", 8.0), (3, "join", None)):
        rows["rebalances"].append(
            rebalance("g", n, cause_kind=kind, cause_source="recorded" if n == 1 else "inferred")
        )
        low = None if high is None else high / 2
        rows["replays"].append(
            replayed("g", n, RECORDED, stopped_at_least_ps=low, stopped_at_most_ps=high)
        )
    bounce, join = data.read_run(published(tmp_path, rows)).causes
    assert (bounce.kind, bounce.rebalances, bounce.low, bounce.high) == ("bounce", 1, 4.0, 8.0)
    assert (join.kind, join.rebalances, join.recorded, join.timed, join.high) == (
        "join",
        2,
        1,
        1,
        1.0,
    )


def test_a_run_of_an_older_partage_is_read(tmp_path) -> None:
    """Missing columns and tables of an older run are unknown values, not errors."""
    import pyarrow as pa
    from pyarrow import parquet

    published(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    for table, gone in (
        ("replays", ["policy", "reading", "stopped_at_least_ps"]),
        ("groups", ["coverage"]),
    ):
        for one in manifest["tables"][table]:
            path = tmp_path / one["path"]
            parquet.write_table(pa.table(parquet.read_table(path)).drop_columns(gone), path)
    del manifest["tables"]["pauses"]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    run = data.read_run(tmp_path)
    assert run.recorded_figures.moved == 12
    assert run.figures["fair"].reading == CUMULATIVE
    assert run.downtime_bounds is None


def test_an_earlier_run_is_read_by_its_id(tmp_path) -> None:
    """Earlier runs remain readable by id; an unknown id is an error, a path too."""
    published(tmp_path)
    assert data.read_run(tmp_path, "run-1").recorded_figures.moved == 12
    for name in ("run-2", "../run-1", ""):
        with pytest.raises(InvalidCaptureError, match="run-1"):
            data.read_run(tmp_path, name)


def test_no_run_is_said_with_the_place(tmp_path) -> None:
    """The error for a folder without a run names the missing file and the command to run."""
    with pytest.raises(InvalidCaptureError, match=r"manifest\.json.*partage replay"):
        data.read_run(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 99}', "\x00"])
def test_a_damaged_manifest_is_said(tmp_path, text) -> None:
    """A manifest that is no JSON object of this format raises InvalidCaptureError."""
    published(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InvalidCaptureError, match="partage replay"):
        data.read_run(tmp_path)


def test_a_missing_or_damaged_table_is_said_by_name(tmp_path) -> None:
    """The error for a missing or damaged file names the table."""
    published(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (path,) = [f["path"] for f in manifest["tables"]["replays"]]
    (tmp_path / path).write_bytes(b"PAR1 no more")
    with pytest.raises(InvalidCaptureError, match="replays"):
        data.read_run(tmp_path)
    (tmp_path / path).unlink()
    with pytest.raises(InvalidCaptureError, match="replays"):
        data.read_run(tmp_path)


def test_a_span_that_was_asked_for_is_the_reports(tmp_path) -> None:
    """Time span, headline and counts cover --from to --to, not the whole capture."""
    rows = {
        "groups": [group("g", rebalances=9)],
        "rebalances": [rebalance("g", 8), rebalance("g", 9)], "replays": [],
    }  # fmt: skip
    out = published(tmp_path, rows)
    cover = {"first_ms": 0, "last_ms": 9_000_000, "rebalances": 9, "missing_before": 0,
             "missing_within": 0}  # fmt: skip
    for path in (out / "summary.json", *out.glob("runs/*/summary.json")):
        summary_json = json.loads(path.read_text())
        summary_json["coverage"] |= cover
        summary_json["selection"] = {"from_ms": 3_000_000, "to_ms": 6_600_000}
        path.write_text(json.dumps(summary_json))
    found = data.read_run(out)
    assert found.groups[0].rebalances == 2
    assert (found.summary["coverage"]["first_ms"], found.summary["coverage"]["last_ms"]) == (
        3_000_000, 6_600_000,
    )  # fmt: skip
    assert "in 1\xa0h" in run_headline(found)


def test_a_poll_timeout_needs_a_member_that_joined_again(tmp_path) -> None:
    """A departed member without commits has no poll timeout unless it rejoined."""

    def event(group: str, kind: str, member: str, detail: str | None = None) -> dict:
        return {"group": group, "incarnation": 0, "generation": 1, "log_partition": 0,
                "log_offset": 1, "position": 0, "time_ms": 5 if kind == "poll" else 2_005, "event": kind, "source": "inferred",
                "member": member, "instance": None, "detail": detail}  # fmt: skip

    rows = tables()
    rows["events"] = [
        event("orders", "poll", "a-1", "a: silent for 16000 ms"),
        event("orders", "join", "a-2", "was a-1, away for 2000 ms after its eviction"),
        event("orders", "poll", "b-1", "b: silent for 16000 ms"),
        event("orders", "join", "c-1", "c"),
    ]
    rows["members"] = [member_of("orders", 1)]
    found = {g.name: g.traits for g in data.read_run(published(tmp_path, rows)).groups}
    assert (found["orders"].late_polls, found["orders"].longest_poll_ms) == (1, 17_000)


def member_of(group_name: str, generation: int, number: int = 0) -> dict:
    """A row of table ``members``: a dynamic member with a max.poll.interval.ms of 15 s."""
    return {
        "group": group_name, "incarnation": 0, "generation": generation, "position": number,
        "member": f"m-{number}", "instance": None, "client_id": "m", "client_host": "/h",
        "session_timeout_ms": 6_000, "rebalance_timeout_ms": 15_000, "client": "java",
        "certainty": "certain", "leader": number == 0, "rack": None, "subscription": "h",
        "topics": ["orders"], "subscription_version": 1, "user_data": None, "claims": [],
        "claims_generation": -1, "assignment_version": 1, "assignment": [],
    }  # fmt: skip


def test_static_members_are_those_of_the_largest_rebalance(tmp_path) -> None:
    """At the end of the log one of three members is left; the group has three."""
    rows = tables()
    sizes = {1: 3, 2: 1}
    rows["members"] = [member_of("orders", g, n) for g, size in sizes.items() for n in range(size)]
    found = {g.name: g.traits for g in data.read_run(published(tmp_path, rows)).groups}
    assert (found["orders"].static_members, found["orders"].newest_members) == (0, 3)


def test_the_strategy_is_the_one_chosen_last(tmp_path) -> None:
    """A group that was migrated and went back has its first strategy again."""
    rows = tables()
    rows["groups"] = [group("g", rebalances=3, claimed=["range", "server:uniform"])]
    rows["rebalances"] = [rebalance("g", n, strategy=strategy, log_offset=n) for n, strategy in
                          enumerate(("range", "server:uniform", "range", None), 1)]  # fmt: skip
    rows["replays"] = []
    (found,) = data.read_run(published(tmp_path, rows)).groups
    assert found.last_strategy == "range"
    assert found.claimed == ("server:uniform", "range")


def test_no_loss_in_few_rebalances_is_not_known(tmp_path) -> None:
    """In a compacted log, zero downtime is unknown: of the run, groups, policies and causes."""
    rows = tables()
    rows["groups"] = [group("g", rebalances=1, missing_generations=30, coverage=1 / 31)]
    rows["rebalances"] = [rebalance("g", 31)]
    none = {"stopped_at_least_ps": 0.0, "stopped_at_most_ps": 0.0}
    rows["replays"] = [replayed("g", 31, RECORDED, reading=RECORDED, **none),
                       replayed("g", 31, "eager/range", reading=CUMULATIVE, **none)]  # fmt: skip
    cover = {**summary()["coverage"], "rebalances": 1, "missing_before": 30, "missing_within": 0}
    run = data.read_run(published(tmp_path, rows, coverage=cover))
    (found,) = run.groups
    assert (run.downtime_bounds, found.downtime_bounds) == (None, None)
    for figures in (*run.figures.values(), *found.figures.values()):
        assert (figures.stopped, figures.saved) == (None, None)
    assert not any(cause.timed for cause in (*run.causes, *found.causes))


def test_a_change_of_settings_is_a_back_test_of_the_simulation() -> None:
    """Cooperative for three rebalances, then consumer; the old policy is simulated on the later ones."""
    import pyarrow as pa

    strategies = ["cooperative-sticky"] * 4 + ["server:uniform"] * 3
    rebalances, replays = [], []
    for number, strategy in enumerate(strategies):
        key = {"group": "g", "incarnation": 0, "generation": number}
        rebalances.append(key | {
            "log_partition": 0, "log_offset": number, "time_ms": 1_000 * number,
            "strategy": strategy, "follow_up": number == 1,
        })  # fmt: skip
        for policy, best in (("recorded", 6.0), ("cooperative/cooperative-sticky", 8.0 + number)):
            replays.append(key | {
                "policy": policy, "reading": "recorded" if policy == "recorded" else "cumulative",
                "stopped_ps": best, "stopped_p10_ps": best - 1, "stopped_p90_ps": best + 1,
            })  # fmt: skip
    recorded, simulated = pa.Table.from_pylist(rebalances), pa.Table.from_pylist(replays)
    (found,) = back_tests(recorded, simulated)
    assert (found.old, found.new) == ("cooperative/cooperative-sticky", "consumer/uniform")
    assert (found.time_ms, found.before.best, found.after.best) == (4_000, 8.0, 6.0)
    assert found.simulated.best == 13.0
    assert not found.agrees_with_recording
    assert not list(back_tests(recorded.slice(0, 5), simulated))
