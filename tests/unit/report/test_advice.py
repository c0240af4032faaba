"""Advice: each rule speaks where the record shows its case, and is silent elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.made_groups import figures, lost, made_group, made_run

from partage.report import traits as traits_module
from partage.report.advice import (
    RULES,
    advice_for,
    best_policy,
    coverage_advice,
    merge_advice,
    total_savings,
)
from partage.report.client_settings import base_policy, parse_policy, settings_lines
from partage.report.recommendations import recommendations_for
from partage.report.run import CauseShare, Estimate, Traits
from partage.tables.statuses import RECORDED


def saving(policy: str, low: float = 10.0, high: float = 40.0, **more):
    """Return figures of a policy with a saving against the record and against `own`."""
    ends = {
        "saved_low": low,
        "saved_high": high,
        "saved_against_own_low": low,
        "saved_against_own_high": high,
    }
    return figures(
        policy,
        **({"stopped_known": 4, "saved_known": 4, "saved_against_own_known": 4} | ends | more),
    )


#: The simulation of the present settings, equal to the record.
SAME = saving("own", 0.0, 0.0)


def bounced(**more):
    return made_group("g", lost(30, 90), SAME, saving("eager/range+static"),
                      causes=(CauseShare("bounce", 3), CauseShare("join", 1)),
                      traits=Traits(session_ms=10_000, dynamic_members=3), **more)  # fmt: skip


def expired(session: int = 6_000, silence: int = 9_500, protocol: str = "classic"):
    return made_group("g", lost(1, 2), causes=(CauseShare("expiry", 2),),
                      traits=Traits(protocol, session_ms=session, returned=2, longest_silence_ms=silence))  # fmt: skip


def idle_range(**more):
    return made_group(
        "g", figures(RECORDED, idle=5), **({"traits": Traits(copartitioned=False)} | more)
    )


def dealt(**more):
    return made_group(
        "g", figures(RECORDED, **({"moved": 9, "avoidable": 4} | more)), claimed=("roundrobin",)
    )


def stormy(trigger: str, protocol: str = "classic"):
    traits = Traits(protocol, storms=2, stormy=9, triggers=((trigger, 2),))
    return made_group("g", lost(1, 2), traits=traits)


def crowded(rebalances: int = 3, **more):
    traits = Traits(crowded=rebalances, settled=4)
    return made_group("g", lost(1, 2), traits=traits, members_max=9, partitions_max=6, **more)


def late(**more):
    return made_group("g", lost(1, 2), causes=(CauseShare("poll", 2),),
                      **({"traits": Traits(session_ms=6_000, late_polls=2)} | more))  # fmt: skip


def tried(low: float = -9.0, **more):
    others = [saving(name, low, 5.0) for name in ("consumer/uniform", "eager/sticky")] + [SAME]
    made = {"causes": (CauseShare("leave", 3, timed=3, high=9.0),)} | more
    return made_group("g", lost(30, 90), *others, **made)


CASES = {
    "static-members": bounced(),
    "consumer-protocol": made_group("g", lost(30, 90), SAME, saving("consumer/uniform")),
    "cooperative": made_group("g", lost(30, 90), SAME, saving("cooperative/cooperative-sticky")),
    "strategy": made_group("g", lost(30, 90), SAME, saving("eager/sticky")),
    "idle-under-range": idle_range(),
    "roundrobin-moves": dealt(),
    "session-timeout": expired(),
    "storms": stormy("join"),
    "too-many-members": crowded(),
    "late-polls": late(),
    "as-it-is": tried(),
}

SILENT = {
    "static-members": [
        made_group("g", lost(1, 2), causes=(CauseShare("join", 3),)),
        replace(bounced(), traits=Traits(dynamic_members=0)),
        # Share groups have no static members, KIP-1071's coordinator refuses them, and Connect,
        # whose groups are not replayed, has a setting of its own.
        *(replace(bounced(), traits=Traits(p, dynamic_members=3)) for p in ("share", "streams")),
        replace(bounced(), figures={}),
        # Simulated, and it would have cost more.
        made_group("g", lost(30, 90), SAME, saving("eager/range+static", -9.0, 2.0),
                   causes=(CauseShare("bounce", 3),), traits=Traits(dynamic_members=3)),
    ],
    "consumer-protocol": [
        # It runs that already; it may cost more; it refused one; its cost is not known.
        made_group("g", lost(30, 90), SAME, saving("consumer/uniform"), traits=Traits("consumer"),
                   claimed=("server:uniform",)),
        made_group("g", lost(30, 90), SAME, saving("consumer/uniform", -5.0, 40.0)),
        made_group("g", lost(30, 90), SAME, saving("consumer/uniform", done=3, refused=1)),
        made_group("g", lost(30, 90), SAME, figures("consumer/uniform")),
        # Python's clients have no KIP-848; of clients in Go or Rust nobody knows the settings.
        *(made_group("g", lost(30, 90), SAME, saving("consumer/uniform"), clients=clients)
          for clients in (("aiokafka",), ("kafka-python",), ("java", "aiokafka"), ("unknown",))),
        # Own assignors have reasons that no log tells.
        made_group("g", lost(30, 90), SAME, saving("consumer/uniform"), claimed=("faust",)),
        # Not against `own`: not simulated, no better than it, or within the simulation's error.
        made_group("g", lost(30, 90), saving("consumer/uniform")),
        made_group("g", lost(30, 90), SAME, saving("consumer/uniform", saved_against_own_low=0, saved_against_own_high=0)),
        made_group("g", lost(30, 90), saving("own", -41.0, 0.0), saving("consumer/uniform")),
    ],
    "cooperative": [
        made_group("g", lost(30, 90), SAME, saving("cooperative/cooperative-sticky"),
                   claimed=("cooperative-sticky",)),
        # aiokafka is eager only.
        *(made_group("g", lost(30, 90), SAME, saving("cooperative/cooperative-sticky"),
                     clients=(client,)) for client in ("aiokafka", "kafka-python or aiokafka")),
    ],
    "strategy": [
        made_group("g", lost(30, 90), SAME, saving("eager/sticky"), claimed=("sticky",)),
        made_group("g", lost(30, 90), SAME, saving("eager/sticky"), traits=Traits("consumer"),
                   claimed=("server:uniform",)),
    ],
    "idle-under-range": [
        idle_range(claimed=("sticky",)),
        idle_range(traits=Traits(copartitioned=True)),
        idle_range(traits=Traits(copartitioned=None)),
        idle_range(members_max=9),
        made_group("g", figures(RECORDED), traits=Traits(copartitioned=False)),
        # The simulation of range leaves nobody idle: it is wrong by more than could be better.
        made_group("g", figures(RECORDED, idle=5), SAME, saving("cooperative/cooperative-sticky"),
                   traits=Traits(copartitioned=False)),
        idle_range(clients=("aiokafka",)),
    ],
    "roundrobin-moves": [dealt(avoidable=0), replace(dealt(), claimed=("range",)),
                         replace(dealt(), clients=("aiokafka",))],
    "session-timeout": [expired(session=30_000), replace(expired(), causes=()),
                        replace(expired(), traits=Traits(session_ms=6_000)),
                        expired(protocol="streams"), late()],
    "late-polls": [late(traits=Traits(session_ms=6_000)), late(traits=Traits("share", late_polls=1))],
    "storms": [made_group("g", lost(1, 2), traits=Traits(storms=0)),
               made_group("g", lost(1, 2), traits=Traits(storms=None)),
               replace(stormy("join"), rebalances=37), stormy("expiry"), stormy("topics")],
    # Some policy would surely have lost less; nothing is known to be lost; share groups.
    "as-it-is": [tried(1.0), made_group("g", lost(0, 0)), tried(traits=Traits("share")),
                 tried(coverage=0.5),
                 made_group("g", lost(30, 90), SAME, saving("consumer/uniform", -9.0, 5.0))],
    # Two rebalances of four with a successor beside its dead predecessor are no crowd.
    "too-many-members": [crowded(0), crowded(2), crowded(kind="share")],
}  # fmt: skip


def test_every_rule_has_its_cases() -> None:
    """Each rule has a case with advice and a case without."""
    assert set(CASES) == set(SILENT) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_speaks_in_its_case_alone(rule) -> None:
    """A rule advises in its own case, with a reason, and not in similar ones."""
    said = RULES[rule](CASES[rule])
    assert said is not None
    assert said.rule == rule
    assert len(said.why) > 40
    for group in SILENT[rule]:
        assert RULES[rule](group) is None


def test_the_main_cause_names_what_to_do_where_no_setting_helps() -> None:
    """Where no simulated policy is better, the advice's title follows from the main cause."""
    titles = {
        kind: RULES["as-it-is"](tried(causes=(CauseShare(kind, 3, timed=3, high=9.0),))).title
        for kind in ("expiry", "leave", "topics", "strategy")
    }
    assert titles == {
        "expiry": "Find out why members stop",
        "leave": "Start and stop members less often",
        "topics": "Change topics less often",
        "strategy": "Keep the assignment strategy",
    }


def test_static_members_are_not_advised_where_they_always_cost() -> None:
    """No policy of a group gains by static members: they are not advised for another one either."""
    without, static = saving("eager/sticky", -9.0, 5.0), saving("eager/sticky+static", -30.0, -9.0)
    first, second = (
        replace(bounced(), figures={one.policy: one for one in (SAME, *more)})
        for more in ([without], [without, static])
    )
    assert RULES["static-members"](first) is not None
    assert RULES["static-members"](second) is None


@pytest.mark.parametrize("rule", RULES)
def test_a_group_without_anything_gets_no_advice(rule) -> None:
    """A group without any known figure gets no advice."""
    assert RULES[rule](made_group("g", rebalances=0, claimed=(), members_max=0)) is None


def test_lines_can_be_put_into_a_file_as_they_are() -> None:
    """Each line is a property or a comment, so that it can be copied into a file."""
    for rule in ("static-members", "consumer-protocol", "cooperative", "session-timeout"):
        whole = "\n".join(RULES[rule](CASES[rule]).lines).replace("\\\n  ", "")
        for line in whole.splitlines():
            assert line.startswith("# ") or line.partition("=")[2], line
    said = RULES["session-timeout"](expired())
    assert said.lines == ("session.timeout.ms=45000", "heartbeat.interval.ms=3000")
    assert "Kafka's default is 45\xa0s; 12\xa0s would have sufficed here" in said.why
    longer = RULES["session-timeout"](expired(50_000, 60_000))
    assert longer.lines[0] == "session.timeout.ms=76000"


def test_session_timeouts_of_the_consumer_protocol_are_the_groups() -> None:
    """With group.protocol=consumer members have no session.timeout.ms of their own."""
    said = RULES["session-timeout"](expired(protocol="consumer"))
    assert (said.where, said.lines) == ("group", ("consumer.session.timeout.ms=45000",))


def test_advice_to_leave_the_classic_protocol_and_longer_timeouts_agree() -> None:
    """`consumer-protocol` removes session.timeout.ms, so no other advice for the group sets it."""
    group = replace(expired(), figures=CASES["consumer-protocol"].figures)
    moved, timeout = advice_for(group)[:2]
    assert (moved.rule, timeout.rule) == ("consumer-protocol", "session-timeout")
    assert any("remove" in line and "session.timeout.ms" in line for line in moved.lines)
    lines = ("# after the move to group.protocol=consumer", "consumer.session.timeout.ms=45000")
    assert (timeout.where, timeout.lines) == ("group", lines)
    assert "there this is a setting of the group on the brokers" in timeout.why
    (found,) = (one for one in recommendations_for(group) if one.advice.rule == "session-timeout")
    assert found.rollout.startswith("After the move to the consumer protocol")
    (kept,) = recommendations_for(expired(protocol="consumer"))
    assert kept.rollout.startswith("No restart")


def test_what_would_have_been_saved_is_the_replays_own_range() -> None:
    """Without an estimate, advice has the range of the simulation, at most the group's downtime."""
    assert RULES["static-members"](bounced()).saves == Estimate(25.0, 10.0, 40.0)
    capped = made_group("g", lost(5, 20), SAME, saving("consumer/uniform"))
    assert best_policy(capped).saved == Estimate(20.0, 10.0, 20.0)
    without = replace(bounced(), figures={RECORDED: lost(30, 90)})
    assert RULES["static-members"](without).saves is None


def test_the_first_members_of_a_classic_group_are_waited_for() -> None:
    """The broker's initial delay is advised for empty classic groups only."""
    lines = ("group.initial.rebalance.delay.ms=10000",)
    assert RULES["storms"](stormy("first")).lines == lines
    (found,) = recommendations_for(stormy("first"))
    assert "mostly when the group started, because its members joined" in found.advice.why
    assert found.rollout == "One rolling restart of the brokers."
    for trigger, protocol in (("join", "classic"), ("bounce", "classic"), ("first", "share")):
        assert RULES["storms"](stormy(trigger, protocol)).lines == ()


def test_no_advice_to_clients_follows_from_a_brokers_fault() -> None:
    """Rebalances that a broker caused are no reason to change a client."""
    assert RULES["storms"](stormy("broker")) is None
    assert RULES["storms"](replace(stormy("join"), rebalances=36)) is not None
    broken = made_group("g", lost(1, 2), causes=(CauseShare("broker", 5),),
                        traits=Traits(session_ms=10_000, returned=2, longest_silence_ms=20_000))  # fmt: skip
    assert advice_for(broken) == ()


def test_advice_that_saves_most_comes_first() -> None:
    """A group has one advice about its settings; over all groups, the largest saving is first."""
    group = made_group("g", lost(30, 90), SAME, saving("eager/range+static", 1, 2),
                       saving("consumer/uniform", 20, 60), causes=(CauseShare("bounce", 1),),
                       traits=Traits(session_ms=10_000, dynamic_members=1))  # fmt: skip
    assert [a.rule for a in advice_for(group)] == ["consumer-protocol"]
    found = merge_advice([CASES["static-members"], group, CASES["consumer-protocol"]])
    assert [m.advice.rule for m in found] == ["consumer-protocol", "static-members"]
    assert found[0].saves.best == 65.0
    assert 30.0 < found[0].saves.low < found[0].saves.high < 100.0
    assert [a.saves for _, a in found[0].groups] == [Estimate(40, 20, 60), Estimate(25, 10, 40)]


def test_the_best_policy_can_be_set_and_surely_saves() -> None:
    """The best policy has a client setting, no possible loss, and no more idle members."""
    unfit = [
        saving("eager/optimal", 30, 90),
        saving("eager/sticky", -1, 80),
        saving("eager/roundrobin", 20, 70, idle=3),
        saving("consumer/range", 20, 70, incomplete=1),
    ]
    group = made_group("g", lost(30, 90), SAME, *unfit, saving("consumer/uniform", 5, 9))
    assert best_policy(group).policy == "consumer/uniform"
    assert best_policy(made_group("g", lost(30, 90), SAME, *unfit)) is None


def test_a_timeout_alone_is_no_reason_for_static_members() -> None:
    """A policy that differs by its session timeout only gives no advice on group.instance.id."""
    members = Traits(session_ms=10_000, dynamic_members=2)
    longer = saving("eager/range+timeout=60s", 20, 60)
    group = made_group("g", lost(30, 90), SAME, longer, traits=members)
    assert best_policy(group) is None
    assert "static-members" not in [advice.rule for advice in advice_for(group)]


def test_of_settings_about_as_good_the_smallest_change_is_taken() -> None:
    """Static members before a strategy, before cooperative rebalancing, before another protocol."""
    names = ["consumer/uniform", "cooperative/cooperative-sticky", "eager/sticky",
             "eager/range+static"]  # fmt: skip
    for i, name in enumerate(names):
        alike = [saving(n, 10, 40 + j / 10) for j, n in enumerate(names[: i + 1])]
        group = made_group("g", lost(30, 90), SAME, *alike, traits=Traits(dynamic_members=2))
        assert best_policy(group).policy == name
    better = [saving("eager/sticky", 10, 40), saving("consumer/uniform", 20, 60)]
    assert best_policy(made_group("g", lost(30, 90), SAME, *better)).policy == "consumer/uniform"


POLICIES = ["own", "eager/sticky", "eager/range+static", "cooperative/cooperative-sticky",
            "consumer/uniform", "consumer/range"]  # fmt: skip
_ends = st.tuples(st.integers(-50, 90), st.integers(0, 90)).map(lambda e: (e[0], e[0] + e[1]))
_clients = st.sampled_from([("java",), ("librdkafka",), ("aiokafka",), ("java", "aiokafka"),
                            ("kafka-python",), ("unknown",)])  # fmt: skip


@st.composite
def groups(draw):
    strategy = draw(st.sampled_from(["range", "roundrobin", "sticky", "cooperative-sticky",
                                     "server:uniform", "own.Assignor"]))  # fmt: skip
    made = [lost(30, 90)]
    for name in POLICIES:
        (low, high), (g_low, g_high) = draw(_ends), draw(_ends)
        made.append(saving(name, low, high, saved_against_own_low=g_low, saved_against_own_high=g_high,
                           idle=draw(st.integers(0, 2)), avoidable=draw(st.integers(0, 9))))  # fmt: skip
    protocol = "consumer" if strategy.startswith("server:") else "classic"
    traits = Traits(protocol, session_ms=6_000, dynamic_members=draw(st.integers(0, 2)),
                    copartitioned=False, returned=1, longest_silence_ms=9_000)  # fmt: skip
    causes = tuple(CauseShare(kind, 2, timed=2, high=9.0) for kind in ("bounce", "leave", "expiry"))
    return made_group(draw(st.text(max_size=3)), *made, claimed=(strategy,), traits=traits,
                      causes=causes, clients=draw(_clients))  # fmt: skip


@given(st.lists(groups(), min_size=1, max_size=5))
def test_advice_never_contradicts_itself(some) -> None:
    """A group has one change of settings, with lines and beyond the error; sums stay below the best's."""
    settings = {"consumer-protocol", "cooperative", "strategy", "static-members",
                "idle-under-range", "roundrobin-moves", "as-it-is"}  # fmt: skip
    run = made_run(*some)
    whole, _ = total_savings(run)
    for group in some:
        given_ = [a for a in advice_for(group) if a.rule in settings]
        assert len(given_) <= 1
        for a in given_:
            assert a.lines or a.rule == "as-it-is"
            if a.policy is not None:
                # The log shows no library of a consumer group's members: all of them are unknown.
                unsupported = {"aiokafka", "kafka-python"}
                unsupported |= {"unknown"} if group.traits.protocol == "classic" else set()
                # Static membership alone is a setting of Python clients, too.
                protocol, strategy, _ = parse_policy(a.policy)
                static_only = f"{protocol}/{strategy}" == base_policy(group.last_strategy)
                assert static_only or not unsupported & set(group.clients)
                assert a.policy != base_policy(group.last_strategy)
            if a.saves is not None:
                own = group.figures["own"].saved
                assert a.saves.high > max(abs(own.low), abs(own.high))
                assert 0 < a.saves.low <= a.saves.best <= a.saves.high <= group.downtime_bounds.high
    for one in merge_advice(some):
        if one.saves is not None:
            assert (one.saves.low, one.saves.high) <= (whole.low, whole.high)
            assert one.saves.high <= whole.high


@pytest.mark.parametrize(("missing", "speaks"), [(0, False), (1, False), (3, True)])
def test_poor_coverage_says_how_to_record(missing, speaks) -> None:
    """Below nine tenths of coverage, advice has the lines that delay compaction."""
    found = coverage_advice(made_run(rebalances=9, missing_before=missing))
    assert (found is not None) is speaks
    assert not speaks or any("min.compaction.lag.ms" in line for line in found.lines)


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ("consumer/range", "group.remote.assignor=range"),
        ("eager/roundrobin", "  org.apache.kafka.clients.consumer.RoundRobinAssignor"),
        ("eager/range+static+timeout=30s", "session.timeout.ms=30000"),
        ("server:uniform", "group.protocol=consumer"),
    ],
)  # fmt: skip
def test_a_policys_lines(policy, line) -> None:
    """A policy becomes Kafka's settings for protocol, assignor class, static membership and timeout."""
    assert line in settings_lines(policy)
    assert settings_lines("own") is None


@pytest.mark.parametrize(
    ("clients", "lines"),
    [
        (("java", "unknown"), 4),
        (("librdkafka",), 2),
    ],
)
def test_lines_are_those_of_the_clients_that_the_group_has(clients, lines) -> None:
    """Librdkafka gets no Java class names; a group with several libraries has no common settings."""
    group = replace(CASES["cooperative"], clients=clients)
    said = RULES["cooperative"](group)
    assert said is not None
    assert len(said.lines) == lines
    assert any("org.apache" in line for line in said.lines) is ("unknown" in clients)
    if clients == ("librdkafka",):
        assert said.lines[-1] == "partition.assignment.strategy=cooperative-sticky"


def test_the_trigger_of_storms_is_that_of_most_rebalances() -> None:
    """A long storm counts more than two short ones."""
    storms = [(2, "first"), (3, "first"), (35, "leave")]
    assert traits_module._triggers(storms) == (("leave", 35), ("first", 5))
