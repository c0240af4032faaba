"""Forecast of rolling deployments: protocols in simulated time, intervals, evidence of the record."""

from __future__ import annotations

from dataclasses import replace

import pytest

import partage as pg
from partage.errors import InvalidConfigError
from partage.forecasts.loads import constant_load
from partage.forecasts.restarts import learn_restarts
from partage.forecasts.rolling import (
    Deployment,
    RestartTime,
    alternatives,
    forecast_rollout,
    kubernetes_lines,
    recorded_slowdown,
    scale_unread,
    simulation_count,
    slowdown_under,
)
from partage.simulation.policies import Policy
from partage.simulation.rounds import ResolvedPolicy


def deployment(policy: str, **more) -> Deployment:
    """Return a deployment of 12 partitions on 4 members, 20 s (16 to 25) a restart."""
    base = Deployment(
        load=constant_load({"orders": 12}, 120.0), policy=Policy.parse(policy), members=4,
        restart=RestartTime.from_range(20.0),
    )  # fmt: skip
    return replace(base, **more)


def test_equal_seeds_give_equal_forecasts() -> None:
    """The forecast is a function of its input and the seed."""
    first, again, other = (forecast_rollout(deployment("range"), seed=n) for n in (3, 3, 4))
    assert (first.unread, first.duration) == (again.unread, again.duration)
    assert first.unread != other.unread


def test_static_members_cost_their_absence_and_no_rebalance() -> None:
    """Within the session timeout the unread time is the sum of partitions times absences."""
    found = forecast_rollout(deployment("eager/range+static"))
    assert (found.rebalances.low, found.rebalances.high) == (0, 0)
    # Each partition is unread once, for one restart: mean of a log-normal with median 20.
    assert found.unread.best == pytest.approx(12 * 20 * 1.016, rel=0.05)
    # The pod before the last one is ready 5 s after its rejoin.
    assert found.duration.best == pytest.approx(4 * 20 * 1.016 + 15, rel=0.05)


def test_a_static_member_that_stays_away_too_long_is_evicted() -> None:
    """With a session timeout of 10 s each restart of 20 s causes two rebalances."""
    found = forecast_rollout(deployment("eager/range+static", session_s=10.0))
    assert found.rebalances.best == pytest.approx(8, abs=0.2)


def test_a_killed_static_member_is_rejected_until_its_session_timeout() -> None:
    """In the consumer protocol the successor waits 45 s (UNRELEASED_INSTANCE_ID), then joins anew."""
    clean = forecast_rollout(deployment("consumer/uniform+static", replaced=1))
    killed = forecast_rollout(deployment("consumer/uniform+static", replaced=1, leaves=False))
    assert clean.rebalances.best == 0
    assert killed.rebalances.best == 2
    # Three partitions wait for 45 s less half a heartbeat interval, then for their new owners.
    assert killed.unread.best > 3 * 40 > clean.unread.best


def test_eager_rebalances_stop_all_members() -> None:
    """A dynamic restart has two rebalances; in each one all partitions wait for a heartbeat."""
    eager = forecast_rollout(deployment("eager/range"))
    sticky = forecast_rollout(deployment("cooperative-sticky"))
    assert eager.rebalances.best == 8
    # Heartbeats are every 3 s. Each member's 3 partitions wait for half of that once, all 12
    # partitions wait for a poll eight times, and for the latest heartbeat in the first rebalance.
    assert 4 * 3 * 1.0 < eager.unread.best < 4 * 3 * 2.0 + 8 * 12 * 0.25 + 12 * 3
    assert sticky.rebalances.best > eager.rebalances.best


def test_without_leave_group_a_classic_group_waits_for_the_session_timeout() -> None:
    """The new member joins after 20 s, and the group waits for the dead one until 45 s."""
    found = forecast_rollout(deployment("eager/range", leaves=False))
    assert found.unread.best > 6 * forecast_rollout(deployment("eager/range")).unread.best
    # A coordinator of the consumer protocol does not wait: partitions of the dead do, 45 s each.
    consumer = forecast_rollout(deployment("consumer/uniform", leaves=False))
    assert consumer.unread.best < 0.9 * found.unread.best


def test_consumer_groups_have_no_barrier() -> None:
    """Under KIP-848 only partitions that move are unread, for a heartbeat interval at most."""
    found = forecast_rollout(deployment("consumer/uniform"))
    assert found.rebalances.best == 8
    assert found.unread.best < 8 * 3 * 5.5
    # Heartbeats are every 3 s, not every 5 s, where all members learn of a rebalance together.
    assert forecast_rollout(deployment("eager/range")).unread.best < found.unread.best


def test_every_partition_is_read_at_the_end() -> None:
    """Whatever the protocol, no partition stays without a reader, and the cost is finite."""
    for policy, more in (
        ("range", {"leaves": False}), ("sticky", {"max_surge": 2, "max_unavailable": 0}),
        ("cooperative-sticky", {"max_unavailable": 4}), ("cooperative-sticky", {"leaves": False}),
        ("consumer/uniform", {"members": 15}), ("consumer/range", {"leaves": False}),
        ("consumer/uniform", {"members": 1}),
    ):  # fmt: skip
        found = forecast_rollout(deployment(policy, **more))
        assert 0 <= found.unread.low <= found.unread.best <= found.unread.high
        assert found.duration.best > 0


def test_one_member_alone_is_unread_for_its_restart() -> None:
    """A group of one has nobody to take over: its partitions wait for the restart and the join."""
    found = forecast_rollout(deployment("range", members=1))
    # group.initial.rebalance.delay.ms of an empty group adds 3 s.
    assert found.unread.best == pytest.approx(12 * (20 * 1.016 + 3), rel=0.06)


def test_surge_keeps_the_number_of_readers() -> None:
    """With additional pods no partition waits for a restart, and the deployment is as long."""
    found = forecast_rollout(deployment("cooperative-sticky", max_surge=1, max_unavailable=0))
    usual = forecast_rollout(deployment("cooperative-sticky"))
    assert found.unread.best < 1.2 * usual.unread.best
    assert found.duration.best == pytest.approx(usual.duration.best, rel=0.1)


def test_records_read_twice_follow_from_commits() -> None:
    """Members that commit when they stop read nothing twice; others half an interval on average."""
    assert forecast_rollout(deployment("range")).reread.best == 0
    found = forecast_rollout(deployment("range", commits_on_stop=False, commit_s=4.0))
    # Each of 8 rebalances stops nearly all partitions, each with 10 records/s and 2 s on average.
    assert found.reread.best == pytest.approx(8 * 12 * 10 * 2, rel=0.15)


def test_a_partial_deployment_costs_its_share() -> None:
    """One of four members is replaced: two rebalances."""
    found = forecast_rollout(deployment("range", replaced=1))
    assert found.rebalances.best == 2
    with pytest.raises(InvalidConfigError, match="replaced"):
        deployment("range", replaced=5)


def test_restart_times_are_learnt_with_a_prior_spread() -> None:
    """Few restarts widen the interval; a given time has a default spread."""
    one = RestartTime.fit([10.0])
    many = RestartTime.fit([9.5, 10.0, 10.5] * 20)
    assert one is not None
    assert many is not None
    assert (one.median, one.count) == (pytest.approx(10.0), 1)
    assert one.high / one.low > many.high / many.low
    assert many.high == pytest.approx(10.7, abs=0.3)
    assert RestartTime.fit([]) is None
    with pytest.raises(InvalidConfigError, match="restart_time"):
        RestartTime.from_range(30.0, 10.0)


def test_alternatives_differ_from_the_present_settings() -> None:
    """A group that has everything gets no alternative twice, and static members get no surge."""
    found = alternatives(deployment("range"))
    assert len({one.text for one in found}) == len(found)
    assert all(one.text != deployment("range").text for one in found)
    assert not [one for one in found if one.policy.static and one.max_surge]
    assert "kind: StatefulSet" in kubernetes_lines(found[0])


def test_alternatives_have_a_session_timeout_that_their_protocol_can_have() -> None:
    """Clients set it in the classic protocol; brokers set it in the consumer protocol."""
    short = deployment("cooperative-sticky+static", session_s=10.0)
    found = alternatives(short)
    assert found[0].session_s == pytest.approx(37.5)
    assert found[0].text == short.text
    assert found[0].text_beside(short) == f"{short.text}, session 37.5 s"
    assert {one.session_s for one in found if one.policy.protocol == "consumer"} == {45.0}
    slow = RestartTime.from_range(60.0)  # 75 s at the 90th percentile: 112.5 s are needed
    for policy in ("eager/range", "eager/range+static"):
        for one in alternatives(deployment(policy, restart=slow)):
            is_server = one.policy.protocol == "consumer"
            needed = (60.0 if is_server else 112.5) if one.policy.static else 45.0
            assert one.session_s == pytest.approx(needed), one.text
    for one in alternatives(deployment("consumer/uniform", restart=slow, session_s=9.0,
                                       server_session_s=9.0)):  # fmt: skip
        is_server = one.policy.protocol == "consumer"
        needed = (60.0 if is_server else 112.5) if one.policy.static else 9.0 if is_server else 45.0
        assert one.session_s == pytest.approx(needed), one.text


def test_larger_batches_are_an_alternative_for_many_pods() -> None:
    """Twice as many pods at a time if the others can take over their load: at most a quarter."""
    load = constant_load({"orders": 12}, 120.0)
    for members, expected in ((4, set()), (7, set()), (8, {2}), (12, {2})):
        found = alternatives(deployment("eager/range", members=members, load=load))
        assert {one.max_unavailable for one in found} - {0, 1} == expected
    static = alternatives(deployment("eager/range+static", members=12, load=load))
    assert {one.max_unavailable for one in static} == {1}


def test_alternatives_need_a_client_library_that_has_the_protocol() -> None:
    """What `partage migrate` calls a blocker is no alternative."""
    for clients, expected in (
        ((), {"eager", "cooperative", "consumer"}),
        (("java", "librdkafka"), {"eager", "cooperative", "consumer"}),
        (("java", "kafka-python"), {"eager", "cooperative"}),
        (("aiokafka",), {"eager"}),
    ):
        found = alternatives(deployment("eager/range", clients=clients))
        assert {one.policy.protocol for one in found} == expected


def test_a_restart_ends_with_the_last_stop_before_it() -> None:
    """A static member that announces several stops under one id has a restart after each."""
    events = [event("away", 10, member="a"), event("restart", 14, "was a", "b"),
              event("away", 50, member="a"), event("restart", 58, "was a", "c")]  # fmt: skip
    consumer = [{**generation(1, 2, 0), "protocol": "consumer"}]
    found = learn_restarts({"events": events, "rebalances": consumer}, session_s=45.0).restart
    assert found is not None
    assert (found.count, found.median) == (2, pytest.approx((4 * 8) ** 0.5))


def event(
    kind: str, at_s: float, detail: str | None = None, member: str = "", generation: int = 0
) -> dict:
    return {"event": kind, "time_ms": int(1_000 * at_s), "detail": detail, "log_partition": 0,
            "log_offset": int(10 * at_s), "member": member or f"member-{at_s}", "incarnation": 0,
            "generation": generation or int(10 * at_s)}  # fmt: skip


def member(name: str, instance: str | None = None) -> dict:
    return {"incarnation": 0, "generation": 1, "member": name, "instance": instance}


def generation(number: int, members: int, time_ms: int, cause: str = "join") -> dict:
    return {"incarnation": 0, "generation": number, "members": members, "time_ms": time_ms,
            "cause_kind": cause}  # fmt: skip


def unread_row(member: str, new_owner: str, ms: int, generation: int = 1) -> dict:
    return {"incarnation": 0, "generation": generation, "member": member, "new_owner": new_owner,
            "stopped_ms": 0, "assigned_ms": ms, "unread_ms": ms}  # fmt: skip


def test_restarts_of_recognised_clients_are_learnt() -> None:
    """A bounce says how long the client was away; LeaveGroup follows from the kinds of departures."""
    events = [event("leave", 10), event("bounce", 18, "was m, away for 8000 ms"),
              event("bounce", 30, "was n, away for 12500 ms"), event("expiry", 40)]  # fmt: skip
    rebalances = [generation(1, 3, 0), generation(2, 2, 1_000), generation(3, 3, 1_500),
                  generation(4, 0, 9_000)]  # fmt: skip
    found = learn_restarts(
        {"rebalances": rebalances, "events": events, "members": [member("a"), member("b", "i")]}
    )
    assert found.restart is not None
    assert found.restart.count == 2
    assert found.restart.median == pytest.approx(10.0)
    assert (found.leaves, found.members, found.static) == (True, 3, False)


def test_restarts_of_new_pods_are_matched_in_order() -> None:
    """A new pod has another host: joins follow departures in their order."""
    events = [event("leave", 10), event("join", 25), event("leave", 30), event("join", 46)]
    found = learn_restarts({"events": events})
    assert found.restart is not None
    assert found.restart.median == pytest.approx((15 * 16) ** 0.5, rel=0.01)


def test_members_with_one_client_id_exchange_successors() -> None:
    """Member b left after 40 s and returned after 95 s, as c left. The successor of c came after
    120 s. The log's rules take the first for the successor of c, because it came at once.
    """
    events = [event("leave", 40, None, "b"), event("bounce", 95, "was c, away for 45 ms", "b-2"),
              event("join", 120, "was b, away for 80000 ms", "c-2")]  # fmt: skip
    stops = [{**unread_row("b", "x", 9_000), "stopped_ms": 40_000},
             {**unread_row("c", "x", 9_000), "stopped_ms": 94_900}]  # fmt: skip
    shared = [{**member(name), "client_id": "sessions"} for name in "abc"]
    found = learn_restarts({"events": events, "members": shared, "unread": stops}).restart
    assert found is not None
    assert found.median == pytest.approx((55 * 25.1) ** 0.5)
    own = [{**member(name), "client_id": name} for name in "abc"]
    found = learn_restarts({"events": events, "members": own, "unread": stops}).restart
    assert found is not None
    assert found.median == pytest.approx((0.2 * 80) ** 0.5)


def test_static_members_that_rejoin_together_did_not_restart() -> None:
    """Their coordinator failed: each rejoins less than a heartbeat interval after another one."""
    stops = [{**unread_row(name, "x", 9_000), "stopped_ms": at}
             for name, at in (("a", 31_000), ("b", 33_500), ("c", 35_000), ("d", 90_000))]  # fmt: skip
    events = [event("restart", 32, "was a"), event("restart", 34, "was b"),
              event("restart", 36, "was c"), event("restart", 99, "was d")]  # fmt: skip
    members = [member(name, name) for name in "abcd"]
    tables = {"events": events, "members": members, "unread": stops}
    found = learn_restarts(tables, session_s=12.0).restart
    assert found is not None
    assert (found.count, found.median) == (1, pytest.approx(9.0))
    tables["events"] = events[:3]  # without any other restart they count
    found = learn_restarts(tables, session_s=12.0).restart
    assert found is not None
    assert found.count == 3


def test_static_restarts_and_commits_are_learnt() -> None:
    """A successor with the same instance id ends the restart; rewinds show missing commits."""
    unread = [unread_row("a-1", "a-2", 7_000), unread_row("b-1", "a-2", 9_000)]
    members = [member("a-1", "a"), member("a-2", "a"), member("b-1", "b")]
    events = [event("restart", 7, "was a-1", "a-2")]
    rates = [{"commits": 12}, {"commits": 60}, {"commits": 12}, {"commits": 1}]
    pauses = [{"rewind": 5}, {"rewind": 0}, {"rewind": None}]
    found = learn_restarts(
        {"members": members, "unread": unread, "commit_rates": rates, "pauses": pauses,
         "events": events}
    )  # fmt: skip
    assert found.restart is not None
    assert (found.restart.count, found.restart.median) == (1, pytest.approx(7.0))
    assert (found.static, found.commit_s, found.commits_on_stop) == (True, 5.0, False)


def test_restarts_longer_than_the_session_timeout_are_learnt() -> None:
    """A member of the consumer protocol was away for its session timeout before its eviction; for
    one of the classic protocol the log shows when it stopped.
    """
    events = [event("expiry", 10),
              event("join", 30, "was m, away for 20000 ms since its session timeout expired"),
              event("join", 40, "was n, away for 26000 ms, evicted")]  # fmt: skip
    found = learn_restarts(
        {"events": events, "rebalances": [{**generation(1, 2, 0), "protocol": "consumer"}]},
        session_s=6.0,
    )
    assert found.restart is not None
    assert (found.restart.count, found.restart.median) == (2, pytest.approx(26.0))


def test_a_restart_is_measured_from_the_estimated_stop() -> None:
    """The table `unread` tells when a member stopped; the classic rebalance that ended the restart
    waited for half a heartbeat interval of 1.5 s. A successor that replaces a static member without
    a rebalance waited for nothing.
    """
    stops = [{**unread_row(name, "x", 9_000), "stopped_ms": at}
             for name, at in (("m", 2_000), ("m", 10_000), ("n", 40_000))]  # fmt: skip
    joined = event("join", 15.75, "was m, away for 99 ms, evicted")
    classic = [{**generation(1, 2, 0), "protocol": "classic"}]
    tables = {"events": [joined], "unread": stops, "rebalances": classic}
    found = learn_restarts(tables, session_s=6.0).restart
    assert found is not None
    assert found.median == pytest.approx(5.0)
    tables["events"] = [event("restart", 45, "was n")]
    found = learn_restarts(tables, session_s=6.0).restart
    assert found is not None
    assert found.median == pytest.approx(5.0)


def test_a_fenced_member_that_rejoins_is_no_restart() -> None:
    """A consumer keeps its member id as long as its process runs (KIP-848)."""
    events = [event("join", 10, "was m, away for 232 ms", "m"),
              event("join", 30, "was n, away for 8000 ms", "o")]  # fmt: skip
    found = learn_restarts({"events": events}).restart
    assert found is not None
    assert (found.count, found.median) == (1, pytest.approx(8.0))


def test_an_announced_absence_is_no_crash() -> None:
    """A static member of the consumer protocol that closes announces it; its eviction follows when
    the restart takes longer than the session timeout.
    """
    events = [event("away", 10, member="a"), event("expiry", 16, member="a"),
              event("join", 19, "was a, away for 3000 ms since its session timeout expired", "b")]  # fmt: skip
    consumer = [{**generation(1, 2, 0), "protocol": "consumer"}]
    found = learn_restarts({"events": events, "rebalances": consumer}, session_s=6.0)
    assert found.restart is not None
    assert (found.leaves, found.restart.median) == (True, pytest.approx(9.0))


def test_heartbeats_between_two_milliseconds_end() -> None:
    """A session timeout of 8 s has a heartbeat every 1333.3 ms: waiting members pass each one."""
    found = forecast_rollout(deployment("consumer/range", session_s=8.0, members=3))
    assert found.unread.best > 0


def test_a_pause_of_whole_heartbeat_intervals_costs_as_much_as_another() -> None:
    """No clock of a deployment keeps step with the members' heartbeats, which are every 0.5 s here."""
    each = [
        forecast_rollout(deployment("consumer/uniform", session_s=3.0, pause_s=pause)).unread.best
        for pause in (5.0, 5.25)
    ]
    assert each[0] == pytest.approx(each[1], rel=0.05)


def test_members_evicted_together_count_once() -> None:
    """They lost their coordinator or were frozen: no sign of crashes, and no restarts."""
    events = [
        *(event("expiry", 10, member=name, generation=2) for name in "abc"),
        *(event("join", 11, f"was {name}, away for 9000 ms, evicted") for name in "abc"),
        event("leave", 20, member="d"), event("bounce", 24, "was d, away for 4000 ms"),
    ]  # fmt: skip
    found = learn_restarts({"events": events})
    assert found.restart is not None
    assert (found.leaves, found.restart.count, found.restart.median) == (
        True,
        1,
        pytest.approx(4.0),
    )


def test_the_last_generation_counts_until_the_last_event() -> None:
    """A group whose members all joined at its start has had its usual size ever since."""
    rebalances = [generation(1, 1, 0), generation(2, 3, 1_000)]
    found = learn_restarts({"rebalances": rebalances, "events": [event("restart", 60, "was m")]})
    assert found.members == 3


def test_restarts_do_not_lower_the_usual_number_of_members() -> None:
    """A group of three that has two members for most of the recording still has three pods."""
    rebalances = [generation(1, 3, 0), generation(2, 2, 3_000), generation(3, 5, 9_900),
                  generation(4, 3, 10_000)]  # fmt: skip
    assert learn_restarts({"rebalances": rebalances}).members == 3


def test_past_rebalances_are_learnt_by_cause() -> None:
    """Rebalances in which members joined or left count, with their second steps, and no others."""
    rebalances = [generation(1, 3, 0, "first"), generation(2, 2, 1, "leave"),
                  generation(3, 3, 2, "topics"), generation(4, 3, 3, "follow-up")]  # fmt: skip
    unread = [unread_row("a", "b", ms, of) for of, ms in
              ((1, 9_000), (2, 1_000), (2, 3_000), (3, 500), (4, 4_000), (4, 0))]  # fmt: skip
    found = learn_restarts({"rebalances": rebalances, "unread": unread})
    assert (found.unread_s, found.rebalances) == (pytest.approx(8 / 3), 2)


def test_slow_rebalances_of_the_past_raise_the_forecast() -> None:
    """The simulated time counts like six rebalances; fast rebalances lower nothing."""
    found = forecast_rollout(deployment("eager/range"))
    factor = recorded_slowdown(5 * found.wait_s, 6, found)
    assert factor == pytest.approx(3.0)
    assert scale_unread(found, factor).unread.best == pytest.approx(3 * found.unread.best)
    assert recorded_slowdown(found.wait_s / 5, 60, found) == recorded_slowdown(0.0, 0, found) == 1.0
    assert scale_unread(found, 1.0) is found


def test_slowness_lasts_as_many_seconds_under_other_settings() -> None:
    """Each stop is longer by the same time: long stops are not multiplied."""
    past, other = (forecast_rollout(deployment(p)) for p in ("eager/range", "cooperative-sticky"))
    assert slowdown_under(3.0, past, past) == pytest.approx(3.0)
    factor = slowdown_under(3.0, past, other)
    assert (factor - 1) * other.wait_s == pytest.approx(2 * past.wait_s)
    assert 1 < factor < 3


def test_static_and_killed_members_are_not_slowed() -> None:
    """Their restarts and session timeouts decide, which are learnt by themselves."""
    for policy, leaves in (("eager/range+static", True), ("eager/range", False)):
        found = forecast_rollout(deployment(policy, replaced=1, leaves=leaves))
        assert recorded_slowdown(99.0, 60, found) == 1.0
        assert scale_unread(found, 3.0) is found


def test_the_interval_includes_the_error_of_the_model() -> None:
    """Even a forecast without chance has an interval of a quarter around its best estimate."""
    known = RestartTime(20.0, 20.0, 20.0)
    unread = forecast_rollout(deployment("eager/range+static", restart=known)).unread
    assert unread.high / unread.best == pytest.approx(1.137, abs=0.02)
    assert unread.best / unread.low == pytest.approx(1.137, abs=0.02)


def test_the_verb_names_what_is_missing() -> None:
    """`pg.forecast` without a run needs topics, members and a restart time."""
    with pytest.raises(InvalidConfigError, match="restart_time"):
        pg.forecast(topics={"t": 2}, members=2)
    with pytest.raises(InvalidConfigError, match="members"):
        pg.forecast(topics={"t": 2}, restart_time=5.0)
    with pytest.raises(InvalidConfigError, match="topics"):
        pg.forecast(members=2, restart_time=5.0)


def test_progress_counts_the_simulated_deployments() -> None:
    """The function is called at the start and after each simulated deployment of each setting."""
    calls: list[tuple[str, int, int]] = []
    settings = {"topics": {"orders": 4}, "members": 2, "restart_time": 5.0, "policy": "range"}
    found = pg.forecast(**settings, progress=lambda *call: calls.append(call))
    total = sum(row.samples for row in found)
    assert calls == [("forecast", done, total) for done in range(total + 1)]
    assert len(found) > 1
    calls.clear()
    pg.forecast(**settings, compare=False, progress=lambda *call: calls.append(call))
    assert calls == [("forecast", done, 100) for done in range(101)]


def test_equal_rebalances_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of 24 pods at a time: the order in which they return leads to few different groups."""
    computed = []
    rebalance = ResolvedPolicy.simulate_rebalance

    def counted(*args, **named):
        computed.append(args)
        return rebalance(*args, **named)

    monkeypatch.setattr(ResolvedPolicy, "simulate_rebalance", counted)
    found = forecast_rollout(deployment("eager/range", members=24, max_unavailable=2))
    # Each of the 40 simulations has 36 rebalances or more. Before, 1,269 were computed.
    assert found.samples * found.rebalances.best > 1_400
    assert len(computed) < 150


def test_many_pods_are_simulated_less_often() -> None:
    """Up to 40 pods there are 40 to 100 simulations, as ever; with 60 pods 20 are enough."""
    found = forecast_rollout(deployment("eager/range+static", members=60))
    assert found.samples == 20
    assert [simulation_count(pods) for pods in (8, 40, 100, 1_000)] == [100, 40, 12, 10]


def test_forecasts_print_as_a_table() -> None:
    """The representation has one row for each setting, and no arrays."""
    found = pg.forecast(topics={"orders": 4}, members=2, restart_time=5.0, policy="range")
    lines = repr(found).splitlines()
    assert lines[0].split()[:2] == ["settings", "unread"]
    assert len(lines) == 1 + len(found)
    assert lines[1].startswith("eager/range, 1 unavailable  ")
    assert repr(found[0]).startswith("RolloutForecast(eager/range, 1 unavailable: unread ")
    assert len(repr(found[0])) < 200


def test_the_timeout_of_a_policy_is_the_session_timeout() -> None:
    """It is not ignored, and alternatives do not carry it in their names."""
    settings = {"topics": {"orders": 4}, "members": 2, "restart_time": 5.0, "leaves": False}
    given, same = (
        pg.forecast(**settings, policy="range+timeout=9s"),
        pg.forecast(**settings, policy="range", session_timeout=9.0),
    )
    assert [one.unread for one in given] == [one.unread for one in same]
    assert {one.deployment.policy.timeout_ms for one in given} == {None}
