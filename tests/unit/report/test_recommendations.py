"""Recommendations: expected gains, their order, and what a person needs to carry them out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.made_groups import figures, made_group, made_run

from partage.report import messages
from partage.report.advice import best_policy, total_savings
from partage.report.client_settings import poll_lines, settings_lines
from partage.report.gains import gain_of, gains_by_policy, simulation_error
from partage.report.json_document import json_document
from partage.report.messages import groups_unit
from partage.report.recommendations import (
    combined_gain,
    count_changed_groups,
    present_settings,
    recommendations_for,
    sum_estimated_gains,
    verification_lines,
    with_command,
)
from partage.report.run import CauseShare, PolicyFigures, Traits
from partage.report.view_model import cause_list, group_row, policy_rows
from partage.tables.metrics import SHOWN, OutputLevel
from partage.tables.statuses import RECORDED


def estimated(best: float, spread: float, low: float, high: float) -> PolicyFigures:
    """Return the record's figures: bounds, and an estimate with a symmetric interval."""
    return figures(
        RECORDED, stopped_known=4, stopped_low=low, stopped_high=high,
        stopped_estimate_known=4, stopped_estimate_best=best,
        stopped_estimate_below=spread, stopped_estimate_below_square=spread**2,
        stopped_estimate_above=spread, stopped_estimate_above_square=spread**2,
    )  # fmt: skip


def simulated(name: str, saves: tuple[float, float], error: tuple[float, float] = (0, 0)):
    return figures(
        name, stopped_known=4, stopped_low=0.0, stopped_high=1_000.0, saved_known=4,
        saved_low=error[0], saved_high=error[1], saved_against_own_known=4,
        saved_against_own_low=saves[0], saved_against_own_high=saves[1],
    )  # fmt: skip


COOPERATIVE = "cooperative/cooperative-sticky"


def paged(error: float = 0.0, saves: tuple[float, float] = (0, 800), **more):
    """Return a group with a downtime of 100 (80 to 120) between bounds of 0 and 1,000."""
    made = {
        "causes": (CauseShare("expiry", 1, timed=1, high=700.0, best=60.0),
                   CauseShare("join", 6, timed=6, high=300.0, best=40.0)),
        "traits": Traits(session_ms=6_000, returned=1, longest_silence_ms=9_000, poll_ms=15_000,
                         newest_members=3),
        "assigned_ps": 5_000.0, "span_ms": 1_800_000,
    } | more  # fmt: skip
    return made_group(
        "g", estimated(100, 20, 0, 1_000), simulated("own", (0, 0), (-error, error)),
        simulated(COOPERATIVE, saves), **made,
    )  # fmt: skip


def test_a_gain_has_the_length_of_the_estimated_stops() -> None:
    """The upper bounds differ by 800 of 1,000; stops are a tenth of that, or half of it to all of the
    downtime.
    """
    gain = gain_of(paged(), COOPERATIVE)
    assert (gain.best, gain.low, gain.high) == pytest.approx((80, 32, 100))


def test_a_gain_within_the_simulations_error_is_no_measurable_difference() -> None:
    """The error widens the interval; an interval that contains zero promises nothing."""
    certain, uncertain = paged(error=200.0), paged(error=400.0)
    assert simulation_error(certain) == pytest.approx(20)
    assert gain_of(certain, COOPERATIVE).low == pytest.approx(12)
    assert best_policy(certain).policy == COOPERATIVE
    assert gain_of(uncertain, COOPERATIVE).low < 0
    assert best_policy(uncertain) is None
    others = [simulated(name, (0, 10)) for name in ("eager/sticky", "consumer/range")]
    tried = {f.policy: f for f in others} | dict(uncertain.figures)
    group = paged(figures=tried, traits=Traits(), error=400.0)
    (only,) = recommendations_for(group)
    assert (only.gain_text, only.confidence) == ("no measurable gain from settings", "")


def test_no_change_promises_more_than_the_downtime_or_the_best_settings() -> None:
    """A gain ends at the group's downtime, and the sum over groups has the best settings only."""
    all_of_it = paged(saves=(900, 5_000))
    assert gain_of(all_of_it, COOPERATIVE).best == 100
    assert gain_of(all_of_it, COOPERATIVE).high == 100
    saved, helped = total_savings(made_run(all_of_it))
    assert (saved.best, helped) == (100, 1)


@pytest.mark.parametrize(("error", "words"), [(0.3, "equals the record"), (30.0, "by up to 3")])
def test_an_error_too_small_to_show_is_called_none(error, words) -> None:
    """No sentence says that something differs by 0 partition-seconds."""
    group = paged(error=error)
    assert simulation_error(group) == pytest.approx(error / 10)
    assert words in recommendations_for(group)[0].advice.why.replace("\xa0", " ")


@pytest.mark.parametrize("saves", [(0, 0), (0, 400), (0, 800), (900, 5_000)])
@pytest.mark.parametrize("expiry", [0.0, 60.0, 100.0, 400.0])
def test_no_change_promises_more_than_all_of_them(saves, expiry) -> None:
    """Simulated or not, one change saves at most what all save together, and that the downtime."""
    causes = (CauseShare("expiry", 1, timed=1, high=700.0, best=expiry),)
    group = paged(saves=saves, causes=causes)
    found, together = recommendations_for(group), combined_gain(group)
    gains = [one.gain_ps for one in found]
    assert len(found) >= 1
    if together is None:
        assert not any(gains)
    else:
        assert max(gains) <= together + 1e-9
        assert together <= group.downtime_estimate.best + 1e-9
    saved, _ = total_savings(made_run(group))
    assert saved is None or saved.best <= (together or 0) + 1e-9


def test_the_first_recommendation_has_the_largest_simulated_gain() -> None:
    """Settings whose gain was simulated stand before changes that the log only suggests."""
    first, second = recommendations_for(paged())
    assert (first.advice.rule, first.confidence) == ("cooperative", "medium")
    assert first.gain_text == "80\xa0p·s (32–100)"
    assert second.advice.rule == "session-timeout"
    assert second.gain_text == "about 6.7\xa0p·s: 1 rejoin of evicted members"
    assert second.confidence == "low"


def test_unsimulated_changes_stand_in_the_order_of_their_gains() -> None:
    """The largest gain comes first, whatever the order of the rules."""
    causes = (
        CauseShare("expiry", 1, timed=1, high=300.0, best=20.0),
        CauseShare("poll", 4, timed=4, high=700.0, best=80.0),
        CauseShare("join", 4, timed=4, high=100.0, best=8.0),
    )
    traits = Traits(session_ms=6_000, returned=1, longest_silence_ms=9_000, poll_ms=15_000,
                    newest_members=3, late_polls=2)  # fmt: skip
    found = recommendations_for(paged(causes=causes, traits=traits, saves=(0, 0)))
    assert [one.advice.rule for one in found][:2] == ["late-polls", "session-timeout"]
    assert found[0].gain_ps > found[1].gain_ps > 0


@pytest.mark.parametrize(("partitions", "gain"), [
    (1, 60 / 6 - 3 * 1 / 3 * 6), (30, None),
])  # fmt: skip
def test_a_longer_session_timeout_counts_dead_members(partitions, gain) -> None:
    """Three of four evicted members did not rejoin: their partitions would be unread for longer."""
    causes = (CauseShare("expiry", 4, timed=4, high=700.0, best=60.0),
              CauseShare("join", 6, timed=6, high=300.0, best=60.0))  # fmt: skip
    group = replace(paged(causes=causes), partitions_max=partitions, members_max=3)
    found = [one for one in recommendations_for(group) if one.advice.rule == "session-timeout"]
    assert [one.gain_ps for one in found] == ([] if gain is None else [pytest.approx(gain)])
    for one in found:
        assert "session.timeout.ms=12000" in one.advice.lines
        assert one.gain_text.endswith("less the later detection of dead members")


def test_a_recommendation_can_be_carried_out() -> None:
    """It has present values beside Kafka's defaults, the risk, the restarts and how to verify."""
    first, second = recommendations_for(paged())
    assert [one.setting_text for one in first.now] == [
        "partition.assignment.strategy: range (default range, cooperative-sticky)"
    ]
    assert first.rollout.startswith("Two rolling restarts")
    assert "listeners" in first.risk
    assert "2.0\xa0% of its partition-time unread, 8 rebalances per hour" in first.verify
    assert [one.setting_text for one in second.now] == [
        "session.timeout.ms: 6000 (default 45000)",
        "heartbeat.interval.ms: not in the log (default 3000)",
    ]
    assert second.rollout == "One rolling restart."


def test_every_change_of_strategy_in_java_keeps_a_common_strategy() -> None:
    """Members without a common strategy are rejected: the old one stays for the first restart."""
    lines = settings_lines("eager/sticky", "range")
    assert [line.strip() for line in lines[2:]] == [
        "org.apache.kafka.clients.consumer.StickyAssignor,\\",
        "org.apache.kafka.clients.consumer.RangeAssignor",
    ]


def test_a_brokers_failure_asks_nothing_of_clients() -> None:
    """With cause broker in front, no recommendation without a simulated gain is given."""
    broker = CauseShare("broker", 4, timed=4, best=90.0)
    failed = paged(
        causes=(broker, *paged().causes), figures={RECORDED: estimated(100, 20, 0, 1_000)}
    )
    assert recommendations_for(failed) == ()
    assert group_row(failed).action == "Nothing for its clients: check the brokers"


def test_settings_have_the_names_of_the_clients_library() -> None:
    """Python clients spell settings with underscores; their defaults differ and are left out."""
    found = [one.setting_text for one in present_settings(paged(clients=("aiokafka",)))]
    assert "session_timeout_ms: 6000" in found
    remote = paged(claimed=("server:uniform",), traits=Traits("consumer", session_ms=45_000))
    texts = [one.setting_text for one in present_settings(remote)]
    assert "group.remote.assignor: uniform (default)" in texts
    assert "consumer.session.timeout.ms: 45000 (default)" in texts


def test_the_headline_is_one_number_with_its_share() -> None:
    """Headline, lead and JSON carry the estimate, its distribution and the main cause."""
    small = made_group("small", estimated(50, 5, 0, 80), assigned_ps=1_000.0)
    run = made_run(paged(), small, causes=paged().causes)
    text = messages.run_headline(run)
    assert text == (
        "Rebalances kept partitions unread for 150\xa0partition-seconds (128 to 172): "
        "2.5\xa0% of all consuming time."
    )
    lead = messages.opening_sentences(run, *total_savings(run))
    assert "66.7\xa0% of the downtime is in 1 group: g 66.7\xa0%." in lead
    assert (
        "Main cause: a member was evicted by session timeout (60.0\xa0% of the downtime)." in lead
    )
    found = json_document(run)
    assert found["unread_partition_seconds"]["best"] == 150
    assert found["groups"][0]["unread_share"] == pytest.approx(0.02)
    first = found["groups"][0]["advice"][0]
    assert first["defaults"] == {"partition.assignment.strategy": "range, cooperative-sticky"}
    assert first["saves_partition_seconds"]["best"] == pytest.approx(80)


def test_causes_have_one_measure_and_one_order() -> None:
    """Bars, figures and order are of the estimate; without any downtime, of the rebalances."""
    causes = (
        CauseShare("leave", 9, timed=9, high=900.0, best=10.0),
        CauseShare("join", 2, timed=2, high=100.0, best=70.0),
    )
    found = cause_list(causes)
    assert (found.measure, found.largest) == ("downtime", 70.0)
    assert [(row.label, row.size) for row in found.rows] == [("join", 70.0), ("leave", 10.0)]
    counted = cause_list(CauseShare(c.kind, c.rebalances) for c in causes)
    assert counted.measure == "share of rebalances"
    assert [row.figure for row in counted.rows] == ["81.8\xa0%", "18.2\xa0%"]


def test_causes_without_a_row_are_named_with_the_number_of_all_rebalances() -> None:
    """The rows and the sentence together have every rebalance."""
    causes = [CauseShare(kind, n, timed=n, best=n) for kind, n in (("join", 30), ("bounce", 9),
              ("topics", 1_000))]  # fmt: skip
    assert cause_list(causes, max_rows=3).rest == ""
    found = cause_list(causes, max_rows=1)
    assert [row.label for row in found.rows] == ["topics"]
    assert found.rest == (
        "Rebalances with other causes: join 30, quick rejoin 9. All together: 1,039 rebalances."
    )
    assert found.largest == 1_000


def test_a_report_has_one_unit_for_its_sum_and_its_parts() -> None:
    """The largest group decides, unless the sum would have too many digits."""
    one = made_group("one", estimated(6_000, 500, 0, 20_000), assigned_ps=100_000.0)
    two = made_group("two", estimated(3_000, 500, 0, 20_000), assigned_ps=100_000.0)
    run = made_run(one, two, causes=(CauseShare("join", 3, timed=3, best=9_000.0),))
    unit = groups_unit(run.groups)
    assert unit.brief == "min"
    assert "150\xa0partition-minutes" in messages.run_headline(run)
    assert cause_list(run.causes, unit).rows[0].figure == "150\xa0p·min"
    many = [made_group(str(i), estimated(100, 5, 0, 200)) for i in range(200)]
    assert groups_unit(many[:3]).brief == "s"
    assert groups_unit(many).brief == "min"


def with_estimates(own: float, other: float, **more):
    """Return the group of `paged` whose policies have estimates of their unread time."""
    group = paged(**more)
    sums = {"own": own, COOPERATIVE: other}
    figures_of = dict(group.figures)
    for name, best in sums.items():
        known = dict(figures_of[name].sums) | {
            "stopped_estimate_known": 4, "stopped_estimate_best": best,
        }  # fmt: skip
        figures_of[name] = replace(figures_of[name], sums=known)
    return replace(group, figures=figures_of)


def test_a_gain_is_the_difference_of_two_estimates() -> None:
    """70 of 98 are left under the policy; bounds say 80, and the error is 2."""
    group = with_estimates(98.0, 28.0)
    assert simulation_error(group) == pytest.approx(2)
    gain = gain_of(group, COOPERATIVE)
    assert gain.best == pytest.approx(70)
    assert gain.low == pytest.approx(min(32, 70 * 80 / 100 / 2) - 2)
    assert best_policy(group).saved == gain


def test_a_gain_counts_only_if_both_methods_exclude_zero() -> None:
    """The estimates differ, the bounds do not: the difference is within the error."""
    group = with_estimates(98.0, 28.0, saves=(-10, 0))
    assert gain_of(group, COOPERATIVE).low < 0
    assert best_policy(group) is None


@pytest.mark.parametrize(("own", "other", "shown"), [
    (98.0, 28.0, "70\xa0p·s (26–100)"), (60.0, 50.0, "within error"),
])  # fmt: skip
def test_tables_of_policies_show_savings_outside_the_error_only(own, other, shown) -> None:
    """A saving within the difference of `own` and the record is no saving."""
    group = with_estimates(own, other)
    rows = policy_rows([COOPERATIVE], group.figures, OutputLevel.TERMINAL, gains_by_policy([group]))
    at = [metric.name for metric in SHOWN[OutputLevel.TERMINAL]].index("saved")
    assert [row.cells[at].text for row in rows] == ["", shown]


def test_a_column_has_one_unit() -> None:
    """The largest downtime decides the unit of downtimes and gains, in tables of groups, policies
    and causes.
    """
    large = made_group("large", estimated(9_000, 500, 0, 20_000))
    small = paged()
    unit = groups_unit([large, small])
    rows = [group_row(one, unit) for one in (large, small)]
    assert [row.downtime.text for row in rows] == [
        "2.5\xa0p·h (2.4–2.6)", "0.03\xa0p·h (0.02–0.03)",
    ]  # fmt: skip
    assert rows[1].gain.text == "0.02\xa0p·h (0.01–0.03)"
    known = with_estimates(98.0, 28.0).figures | {RECORDED: estimated(400, 20, 0, 1_000)}
    policies = policy_rows([COOPERATIVE], known, OutputLevel.TERMINAL, {})
    texts = [row.cells[0].text.replace("\xa0", " ") for row in policies]
    assert texts == ["6.7 p·min (6.3–7)", "0.47 p·min (0.47–0.47)"]
    causes = (
        CauseShare("join", 1, timed=1, best=20.0),
        CauseShare("leave", 1, timed=1, best=600.0),
    )
    assert [row.figure for row in cause_list(causes).rows] == ["10\xa0p·min", "0.33\xa0p·min"]


def late(best: float, error: float = 0.0):
    """Return a group with one member that polled too late, whose rebalance cost ``best``."""
    causes = (
        CauseShare("leave", 1, timed=1, best=90.0),
        CauseShare("poll", 1, timed=1, high=700.0, best=best),
    )
    traits = Traits(session_ms=6_000, poll_ms=15_000, late_polls=1, longest_poll_ms=20_000)
    return paged(causes=causes, traits=traits, saves=(0, 0), error=error)


@pytest.mark.parametrize(("best", "error", "advised"), [
    (5.0, 0.0, True), (0.5, 0.0, False), (5.0, 60.0, False), (0.0, 0.0, False),
])  # fmt: skip
def test_a_gain_within_the_error_is_not_recommended(best, error, advised) -> None:
    """The error is a tenth of 60; a gain below 1 % of the downtime is not worth a change either."""
    rules = [one.advice.rule for one in recommendations_for(late(best, error))]
    assert ("late-polls" in rules) is advised


def test_a_small_gain_follows_the_advice_about_the_main_cause() -> None:
    """Five of 100 partition-seconds stand behind the main cause, for which no setting helps; 30 stand
    before it. Each has its share of the downtime and the recommended value.
    """
    others = [simulated(name, (0, 0)) for name in ("eager/sticky", "consumer/range")]
    for best, order in ((5.0, ["as-it-is", "late-polls"]), (30.0, ["late-polls", "as-it-is"])):
        group = late(best)
        group = replace(group, figures=group.figures | {one.policy: one for one in others})
        found = recommendations_for(group)
        assert [one.advice.rule for one in found] == order
        polls = found[order.index("late-polls")]
        assert polls.share_text == f"{best:.1f}\N{NO-BREAK SPACE}% of its downtime"
        assert "max.poll.interval.ms: 15000 → 26000" in [one.change_text for one in polls.now]
        cure = found[order.index("as-it-is")]
        assert cure.advice.title == "Start and stop members less often"


def test_the_first_table_offers_two_settings_for_polls() -> None:
    """One of both is enough, so the table does not list them as two changes."""
    group = late(30.0)
    text = group_row(group, groups_unit([group])).now
    assert text.startswith("max.poll.interval.ms: 15000 → 26000 or max.poll.records:")


def test_more_frequent_polls_have_lines_to_copy() -> None:
    """They have a quarter to spare for the longest time without a poll, 20 s."""
    (found,) = (one for one in recommendations_for(late(5.0)) if one.advice.rule == "late-polls")
    assert found.advice.lines == (
        "# fewer records per poll (if you use the default of 500)",
        "max.poll.records=288",
        "# or allow more time between two polls (now 15000, default 300000)",
        "max.poll.interval.ms=26000",
    )
    assert "(15\xa0s), left, and rejoined after up to 20\xa0s without a poll" in found.advice.why
    assert [one.setting_text for one in found.now] == [
        "max.poll.interval.ms: 15000 (default 300000)",
        "max.poll.records: not in the log (default 500)",
    ]
    assert found.gain_text == "about 5\xa0p·s: 1 of 1 poll timeout rebalance"


@pytest.mark.parametrize(("clients", "last"), [
    (("librdkafka",), "max.poll.interval.ms=26000"), (("aiokafka",), "max_poll_interval_ms=26000"),
])  # fmt: skip
def test_lines_for_polls_are_those_of_the_clients(clients, last) -> None:
    """Librdkafka's poll returns one record, and aiokafka has no default limit of records."""
    lines = poll_lines(clients, 15_000, 20_000)
    assert len(lines) == 2
    assert lines[-1] == last
    kafka_python = poll_lines(("kafka-python",), 15_000, 20_000)
    assert kafka_python[1::2] == ("max_poll_records=288", "max_poll_interval_ms=26000")


def test_a_group_of_several_libraries_has_lines_for_each() -> None:
    """Each block can be copied as it is, in the syntax of its library."""
    group = replace(late(30.0), clients=("java", "aiokafka", "librdkafka"))
    (found,) = [one for one in recommendations_for(group) if one.advice.rule == "late-polls"]
    assert [label for label, _ in found.blocks] == [
        "consumer properties", "librdkafka configuration", "arguments of the Python consumer",
    ]  # fmt: skip
    assert [lines[-1] for _, lines in found.blocks] == [
        "max.poll.interval.ms=26000", "max.poll.interval.ms=26000", "max_poll_interval_ms=26000",
    ]  # fmt: skip
    (one,) = [x for x in recommendations_for(late(30.0)) if x.advice.rule == "late-polls"]
    assert one.blocks == [(one.lines_label, one.advice.lines)]


def test_commands_that_verify_a_change_have_what_is_known() -> None:
    """The run and the group are filled in; names are quoted for the shell."""
    group = replace(paged(), name="my group")
    run = made_run(group)
    run.summary["run_id"] = "20261126T162641-2af91f"
    text = with_command(recommendations_for(group)[0].verify, run, group)
    command = "partage diff runs/20261126T162641-2af91f run-after"
    assert f"then run in the output folder: {command} --group 'my group'. Now:" in text
    assert verification_lines(run)[-1] == command


def test_the_worst_rebalances_of_the_main_cause_have_their_times() -> None:
    """The row of a group names up to three, the worst first, in the unit of the report."""
    causes = (CauseShare("expiry", 4, timed=4, best=600.0, worst=((3_661_000, 400.0), (0, 60.0))),)
    group = replace(paged(), causes=causes)
    text = group_row(group, groups_unit([made_group("g", estimated(600, 5, 0, 900))])).worst
    assert text == (
        "Most downtime by session timeout: rebalances of 1970-01-01 01:01:01 (6.7\xa0p·min), "
        "00:00:00 (1\xa0p·min), UTC."
    )
    assert group_row(replace(group, causes=())).worst == ""
    both = causes[0] + CauseShare("expiry", 1, worst=((5_000, 500.0), (6_000, 1.0)))
    assert [size for _, size in both.worst] == [500.0, 400.0, 60.0]


def test_the_number_of_recommended_changes_is_explained() -> None:
    """One group has a simulated gain, another one a change that was not simulated."""
    other = replace(late(5.0), name="late")
    run = made_run(paged(), other, made_group("calm", figures(RECORDED)))
    changed = count_changed_groups(run.groups_with_rebalances)
    text = messages.opening_sentences(run, *total_savings(run), changed)
    assert (
        "2 groups have a recommended change. In 1 of them its effect was simulated and would have saved"
        in text
    )
    assert text.endswith("; the gain of the other 1 is unknown.")
    text = messages.opening_sentences(run, *total_savings(run), changed, 90.0)
    assert text.endswith(
        "is about 90\xa0partition-seconds, estimated from the number of rebalances that they avoid."
    )
    (only,) = made_run(other).groups_with_rebalances
    text = messages.opening_sentences(made_run(only), None, 0, count_changed_groups([only]))
    assert text.endswith(
        "1 group has a recommended change, whose effect was not simulated; the gain is unknown."
    )
    gains = [recommendations_for(one)[0].gain_ps for one in (other, paged())]
    assert sum_estimated_gains([other, paged()]) == gains[0] > 0


def test_the_lead_asks_for_the_present_settings() -> None:
    """Without the policy own there are no savings, and the lead says how to get them."""
    with_own = made_run(made_group("calm", figures(RECORDED), figures("own")))
    without = made_run(made_group("calm", figures(RECORDED), figures("eager/range")))
    assert "--policy own" in messages.opening_sentences(without, None, 0)
    assert "--policy own" not in messages.opening_sentences(with_own, None, 0)
