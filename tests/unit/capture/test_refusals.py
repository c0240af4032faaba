"""Errors of clusters that cannot be reached: the reason, and what to look at."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from partage.capture.connection import _FailureLog, unreachable_error
from partage.capture.groups import expect_visible_groups
from partage.errors import NotAuthorizedError

LOGIN = {"security_protocol": "SASL_PLAINTEXT"}


class KafkaTimeoutError(Exception):
    """Named as kafka-python's: the bootstrap ended without a connection."""


def test_a_connection_closed_during_the_login_is_an_authentication_failure() -> None:
    """A broker that refuses a login closes the connection, often before its answer is read: a broker
    that answered ApiVersions is no wrong port.
    """
    heard = _FailureLog()
    connection = SimpleNamespace(broker_version=(4, 3))
    logger = logging.getLogger("partage-test")
    closed = ConnectionError("KafkaConnectionError: socket disconnected")
    heard.emit(logger.makeRecord("k", 30, "f", 1, "%s: %s", (connection, closed), None))
    assert (heard.is_broker, heard.last) == (True, "KafkaConnectionError: socket disconnected")
    said = str(
        unreachable_error(
            "h:1", LOGIN, KafkaTimeoutError("no"), heard.last, is_broker=heard.is_broker
        )
    )
    assert "authentication failed" in said
    assert "look at user name and password in sasl.jaas.config" in said
    assert "is it a broker" not in said
    no_broker = str(unreachable_error("h:1", LOGIN, KafkaTimeoutError("no"), heard.last))
    assert "is it a broker" in no_broker
    plain = str(unreachable_error("h:1", {}, KafkaTimeoutError("no"), heard.last, is_broker=True))
    assert "authentication failed" not in plain


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        ("SaslAuthenticationFailedError: Authentication failed: Invalid", "sasl.jaas.config"),
        ("UnsupportedSaslMechanismError", "the broker has another sasl.mechanism"),
    ],
)
def test_the_reason_of_the_login_is_kept(heard: str, expected: str) -> None:
    """What the broker answered to the login is the reason, not the timeout that follows."""
    said = str(unreachable_error("h:1", LOGIN, KafkaTimeoutError("no"), heard))
    assert heard in said
    assert expected in said
    assert "is it a broker" not in said


def test_a_rejected_token_has_a_hint_of_its_own() -> None:
    """Clients with tokens have no user name and password."""
    tokens = {**LOGIN, "sasl_mechanism": "OAUTHBEARER"}
    rejected = 'SaslAuthenticationFailedError: {"status":"invalid_token"}'
    for heard, is_broker in ((rejected, False), ("socket disconnected", True), ("", False)):
        said = str(
            unreachable_error("h:1", tokens, KafkaTimeoutError("no"), heard, is_broker=is_broker)
        )
        assert "issuer and the claim aud that the broker expects" in said, heard
        assert "password" not in said


@pytest.mark.parametrize("may", [True, None, False])
def test_no_groups_without_rights_is_an_error(may) -> None:
    """An empty list counts as "no groups" only where the account may describe the cluster, or where
    the broker is too old to tell.
    """
    connection = SimpleNamespace(may_describe_cluster=lambda: may)
    if may is False:
        with pytest.raises(NotAuthorizedError, match="needs DESCRIBE"):
            expect_visible_groups(connection)
    else:
        expect_visible_groups(connection)
