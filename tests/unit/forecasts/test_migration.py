"""Readiness for KIP-848 and for cooperative rebalances: statuses, findings, steps."""

from __future__ import annotations

import pytest

from partage.forecasts.migration import (
    BLOCKED,
    BLOCKER,
    CHANGE,
    CHANGES,
    CHECK,
    DONE,
    NOTE,
    Migration,
    plan_migration,
)


def member(client: str = "java", **more) -> dict:
    row = {"client": client, "certainty": "certain", "subscription_version": 3, "rack": None,
           "instance": None, "session_timeout_ms": 45_000, "topics": ["orders"]}  # fmt: skip
    return row | more


def plan(
    to: str, *members: dict, kind: str = "classic", strategy: str = "sticky", **more
) -> Migration:
    return plan_migration("g", to, kind=kind, strategy=strategy, members=members, **more)


def texts(found: Migration, kind: str) -> str:
    return " | ".join(one.text for one in found.findings if one.kind == kind)


def test_a_java_group_is_ready_after_changes() -> None:
    """Settings that the client rejects are removed; steps and the rollback are listed."""
    found = plan("consumer", member(), member())
    assert found.status == CHANGES
    assert "heartbeat.interval.ms" in texts(found, CHANGE)
    assert "4.0 or later" in texts(found, CHECK)
    assert any("group.protocol=consumer" in one for one in found.steps)
    assert any("group.protocol=classic" in one for one in found.back)
    assert [one.kind for one in found.findings] == sorted(
        (one.kind for one in found.findings), key=["blocker", "change", "check", "note"].index
    )


@pytest.mark.parametrize("client", ["aiokafka", "kafka-python", "kafka-python or aiokafka"])
def test_python_clients_block(client: str) -> None:
    """Clients without the protocol block the migration; then there are no steps."""
    found = plan("consumer", member(), member(client))
    assert (found.status, found.steps, found.back) == (BLOCKED, (), ())
    assert client in texts(found, BLOCKER)


@pytest.mark.parametrize("to", ["consumer", "cooperative"])
@pytest.mark.parametrize(("strategy", "said"), [("stream", "KIP-1071"), ("sessioned", "Connect")])
def test_streams_applications_and_connect_clusters_are_no_consumers(
    to: str, strategy: str, said: str
) -> None:
    """Their assignors are no custom assignors of consumers: one blocker says what they are."""
    found = plan(to, member(), member(), strategy=strategy)
    assert (found.status, found.policy, len(found.findings)) == (BLOCKED, "", 1)
    assert said in texts(found, BLOCKER)


def test_findings_count_in_singular_and_plural() -> None:
    """One static member is no "static members"."""
    one = plan("consumer", member(instance="i"), member(client="unknown"))
    assert "1 static member: instance ids stay" in texts(one, NOTE)
    assert "1 member with an unknown client" in texts(one, CHECK)
    two = plan("consumer", member(instance="i"), member(instance="j"))
    assert "2 static members" in texts(two, NOTE)


def test_old_clients_are_upgraded_first() -> None:
    """A subscription before version 3 shows a Java client before 3.5."""
    assert "1 Java member sent" in texts(plan("consumer", member(subscription_version=1)), CHANGE)
    assert "2.4" in texts(plan("cooperative", member(subscription_version=0)), CHANGE)


def test_session_timeouts_move_to_the_broker() -> None:
    """Values that brokers reject by default need a lower limit first."""
    assert "consumer.session.timeout.ms=50000" in texts(
        plan("consumer", member(session_timeout_ms=50_000)), CHANGE
    )
    low = texts(plan("consumer", member(session_timeout_ms=6_000)), CHANGE)
    assert "group.consumer.min.session.timeout.ms" in low
    assert "no longer counts" not in texts(plan("consumer", member()), CHANGE)


def test_what_is_lost_is_named() -> None:
    """Racks, fencing by instance id, enforceRebalance, other topics, range."""
    rows = [member(rack="a"), member(rack="b", instance="i-1", topics=["clicks"])]
    found = plan("consumer", *rows, strategy="range", causes={"request"})
    assert "2 racks" in texts(found, NOTE)
    assert "UNRELEASED_INSTANCE_ID" in texts(found, NOTE)
    assert "different topics" in texts(found, NOTE)
    assert "enforceRebalance" in texts(found, CHECK)
    assert "group.remote.assignor=range" in texts(found, CHANGE)


def test_custom_assignors_and_other_kinds_block() -> None:
    """Streams, Connect and custom assignors cannot become consumer groups."""
    assert plan("consumer", member(), strategy="acme").status == BLOCKED
    assert "KIP-1071" in texts(plan("consumer", member(), kind="streams"), BLOCKER)
    share = plan("consumer", member(), kind="share")
    assert (share.status, {one.kind for one in share.findings}) == (BLOCKED, {BLOCKER})
    assert share.policy == ""  # the command does not ask to simulate it
    assert "no members" in texts(plan("consumer"), BLOCKER)


def test_a_migrated_group_is_done() -> None:
    """A group of the protocol is done, unless classic members are left in it."""
    of_protocol = member(subscription_version=None, session_timeout_ms=-1)
    assert plan("consumer", of_protocol, kind="consumer").status == DONE
    assert plan("cooperative", of_protocol, kind="classic+consumer").status == DONE
    assert plan("cooperative", member(), strategy="cooperative-sticky").status == DONE
    assert plan("consumer", of_protocol, member(), kind="consumer").status == CHANGES


def test_librdkafka_cannot_list_both_assignors() -> None:
    """To cooperative, Java members restart twice, and librdkafka members stop together."""
    assert len(plan("cooperative", member()).steps) == 3
    assert "stop all members" in plan("cooperative", member("librdkafka")).steps[0]
    assert plan("cooperative", member("aiokafka")).status == BLOCKED


def test_a_librdkafka_group_with_user_data_changes_at_once() -> None:
    """The broker refuses a mixed group whose assignments have user data; range has none."""
    sticky = plan("consumer", member("librdkafka"), strategy="cooperative-sticky")
    assert "GROUP_ID_NOT_FOUND" in texts(sticky, CHANGE)
    assert "stop all members" in sticky.steps
    for other in (plan("consumer", member("librdkafka"), strategy="range"),
                  plan("consumer", member("java"), strategy="cooperative-sticky")):  # fmt: skip
        assert "stop all members" not in other.steps
        assert any(one.startswith("one member:") for one in other.steps)


def test_a_client_that_may_be_kafka_python_can_become_cooperative() -> None:
    """Its bytes are those of aiokafka, which has no cooperative protocol: that is to be checked."""
    assert plan("cooperative", member("aiokafka")).status == BLOCKED
    unsure = plan("cooperative", member("kafka-python or aiokafka"))
    assert "aiokafka" in texts(unsure, CHECK)
    assert unsure.status != BLOCKED


def test_the_way_back_names_the_patterns_that_the_broker_matches() -> None:
    """A classic Java consumer rejects SubscriptionPattern: the code changes first."""
    new = member(subscription_version=None, session_timeout_ms=-1, pattern="^orders-.*")
    done = plan("consumer", new, kind="consumer")
    assert done.status == DONE
    assert "^orders-.*" in texts(done, NOTE)
    assert done.back[0].startswith("code: subscribe to ^orders-.* with java.util.regex.Pattern")
    mixed = plan("consumer", new, member(), kind="consumer")
    assert mixed.back[0] == done.back[0]
    assert "no record of a classic member" in texts(mixed, CHECK)


def test_without_a_pattern_the_way_back_has_no_change_of_code() -> None:
    """A pattern of a classic member is unknown: the check says so, and no step claims one."""
    found = plan("consumer", member(pattern=None))
    assert not any(step.startswith("code:") for step in found.back)
    assert "no record of a classic member shows them" in texts(found, CHECK)
    of_protocol = member(subscription_version=None, session_timeout_ms=-1)
    assert any("group.protocol=classic" in step
               for step in plan("consumer", of_protocol, kind="consumer").back)  # fmt: skip


def test_steps_write_assignors_as_the_client_library_does() -> None:
    """Java takes classes, librdkafka names, Python clients classes in code."""
    package = "org.apache.kafka.clients.consumer."
    java = plan("cooperative", member(), strategy="range")
    assert java.steps[0].endswith(
        f"={package}CooperativeStickyAssignor,{package}RangeAssignor"
    )  # fmt: skip
    assert java.back[1].endswith(f"partition.assignment.strategy={package}RangeAssignor")
    librdkafka = plan("cooperative", member("librdkafka"), strategy="range")
    assert librdkafka.back == (
        "stop all members, start them with partition.assignment.strategy=range",
    )
    python = plan("cooperative", member("kafka-python or aiokafka"), strategy="range")
    assert "[CooperativeStickyAssignor, RangePartitionAssignor] in code" in python.steps[0]
    mixed = plan("consumer", member(), member("librdkafka"), strategy="range").back[0]
    assert f"={package}RangeAssignor (Java) or partition.assignment.strategy=range (librd" in mixed


def test_the_class_names_are_those_of_the_report() -> None:
    """Both packages print the same classes for the same strategies."""
    from partage.forecasts.migration import _KAFKA_STRATEGIES
    from partage.report.client_settings import _CLASSES

    assert _KAFKA_STRATEGIES == _CLASSES


def test_the_rollback_restores_the_session_timeout() -> None:
    """The migration removes session.timeout.ms from the clients: the rollback sets it again."""
    short = plan("consumer", member(session_timeout_ms=6_000)).back[0]
    assert "group.protocol=classic, session.timeout.ms=6000 as before and" in short
    assert "session.timeout.ms" not in plan("consumer", member()).back[0]
    of_protocol = member(subscription_version=None, session_timeout_ms=-1)
    done = plan("consumer", of_protocol, kind="consumer").back[0]
    assert "the former session.timeout.ms" in done


def test_session_timeouts_name_the_limit_to_change() -> None:
    """A short timeout needs a lower minimum, a long one a higher maximum: one of both is printed."""
    low = texts(plan("consumer", member(session_timeout_ms=6_000)), CHANGE)
    assert "lower group.consumer.min.session.timeout.ms to 6000" in low
    assert "group.consumer.max" not in low
    high = texts(plan("consumer", member(session_timeout_ms=90_000)), CHANGE)
    assert "raise group.consumer.max.session.timeout.ms to 90000" in high
    assert "group.consumer.min" not in high


def test_heartbeats_of_no_client_are_claimed() -> None:
    """The record has no heartbeat interval: the note names both settings with their defaults."""
    found = texts(plan("consumer", member(session_timeout_ms=6_000)), NOTE)
    assert "5 s by default" in found
    assert "not 3 s" not in found
