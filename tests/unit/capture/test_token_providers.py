"""Tokens for SASL OAUTHBEARER: an HTTP server of our own as token endpoint, and a fake AWS signer."""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qs

import pytest

pytest.importorskip("kafka")

from kafka.net.sasl.oauth import SaslMechanismOAuth

import partage as pg
from partage.capture.secrets import secrets_in
from partage.capture.security import ClientProperties, connection_settings

SECRET = "s3cr3t:of/ours"  # noqa: S105 - made up
JAAS = f'a.OAuthBearerLoginModule required clientId="me" clientSecret="{SECRET}" scope="kafka";'


class _Endpoint(BaseHTTPRequestHandler):
    """A token endpoint that sends the reply of its server, and keeps the requests."""

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.seen.append((self.headers["Authorization"], form))
        status, body = self.server.reply
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def endpoint() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), _Endpoint)
    server.seen = []
    server.reply = (200, json.dumps({"access_token": "t0ken", "expires_in": 300}).encode())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def settings(endpoint: HTTPServer, **more: str) -> dict:
    given = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{endpoint.server_port}/token",
        "sasl.login.callback.handler.class": "a.OAuthBearerLoginCallbackHandler",
    }  # fmt: skip
    return connection_settings(ClientProperties({**given, **(more or {"sasl.jaas.config": JAAS})}))


def test_a_token_is_fetched_once_and_sent_to_the_broker(endpoint) -> None:
    """kafka-python's own mechanism takes the provider; the second connection reuses the token."""
    made = settings(endpoint)
    for _ in range(2):
        mechanism = SaslMechanismOAuth(**made)
        assert mechanism.auth_bytes() == b"n,,\x01auth=Bearer t0ken\x01\x01"
    ((header, form),) = endpoint.seen
    assert base64.b64decode(header.removeprefix("Basic ")).decode() == f"me:{SECRET}"
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    assert SECRET not in repr(made)


def test_properties_of_kafka_4_1_name_the_client(endpoint) -> None:
    """Without JAAS and without a scope."""
    prefix = "sasl.oauthbearer.client.credentials.client."
    properties = {f"{prefix}id": "me", f"{prefix}secret": SECRET}
    made = settings(endpoint, **properties)
    assert made["sasl_oauth_token_provider"].token() == "t0ken"
    assert "scope" not in endpoint.seen[0][1]
    assert SECRET in secrets_in(properties)
    assert SECRET not in repr(ClientProperties(properties))


@pytest.mark.parametrize(
    ("status", "body", "what"),
    [
        (401, b'{"error": "invalid_client"}', "HTTP 401"),
        (200, b"<html>", "access_token"),
        (200, b"[]", "access_token"),
        (200, b'{"access_token": ""}', "empty"),
    ],
)
def test_errors_of_the_endpoint_have_no_secret(endpoint, status, body, what) -> None:
    """The message names the property and the cause."""
    endpoint.reply = status, body
    with pytest.raises(pg.InvalidConfigError, match=what) as raised:
        settings(endpoint)["sasl_oauth_token_provider"].token()
    assert raised.value.setting == "sasl.oauthbearer.token.endpoint.url"
    assert SECRET not in str(raised.value)


def test_a_dead_endpoint_ends_a_capture_before_the_broker_is_asked(endpoint, monkeypatch) -> None:
    """The error is that of the token endpoint, not that of the broker."""
    from partage.capture import connection

    endpoint.reply = 500, b""
    monkeypatch.setattr(connection, "_check_reachable", lambda *_: None)
    with pytest.raises(pg.InvalidConfigError, match="HTTP 500"):
        connection.ClusterConnection("127.0.0.1:1", settings(endpoint))


@pytest.mark.parametrize(
    ("more", "setting"),
    [
        ({"sasl.jaas.config": 'a.B required clientId="me";'}, "client.secret"),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd",
          "sasl.jaas.config": JAAS}, "endpoint.url"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "x"}, "jwks.endpoint.url"),
    ],
)  # fmt: skip
def test_wrong_properties_are_named(endpoint, more, setting) -> None:
    """A missing secret, a file as endpoint, an unknown property."""
    with pytest.raises(pg.InvalidConfigError) as raised:
        settings(endpoint, **more)
    assert raised.value.setting.endswith(setting)
    assert SECRET not in str(raised.value)


class _Signer:
    """The functions of aws-msk-iam-sasl-signer-python that are called."""

    @staticmethod
    def generate_auth_token(region: str) -> tuple[str, int]:
        return f"default-{region}", int((time.time() + 900) * 1000)

    @staticmethod
    def generate_auth_token_from_profile(region: str, profile: str) -> tuple[str, int]:
        return f"{profile}-{region}", int((time.time() + 900) * 1000)

    @staticmethod
    def generate_auth_token_from_role_arn(region: str, role: str) -> tuple[str, int]:
        raise RuntimeError(f"{role} in {region} has {SECRET}")


IAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}
MODULE = "software.amazon.msk.auth.iam.IAMLoginModule required"


def test_msk_tokens_are_signed_for_the_region(monkeypatch) -> None:
    """Default credentials, a profile, and an error that does not repeat AWS's text."""
    monkeypatch.setitem(
        sys.modules, "aws_msk_iam_sasl_signer", SimpleNamespace(MSKAuthTokenProvider=_Signer)
    )
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    made = connection_settings(ClientProperties({**IAM, "sasl.jaas.config": f"{MODULE};"}))
    assert made["sasl_mechanism"] == "OAUTHBEARER"
    assert made["sasl_oauth_token_provider"].token() == "default-eu-north-1"
    jaas = f'{MODULE} awsProfileName="prod";'
    made = connection_settings(ClientProperties({**IAM, "sasl.jaas.config": jaas}))
    assert made["sasl_oauth_token_provider"].token() == "prod-eu-north-1"
    jaas = f'{MODULE} awsRoleArn="arn";'
    made = connection_settings(ClientProperties({**IAM, "sasl.jaas.config": jaas}))
    with pytest.raises(pg.InvalidConfigError, match="RuntimeError") as raised:
        made["sasl_oauth_token_provider"].token()
    assert SECRET not in str(raised.value)


def test_msk_needs_the_library_a_region_and_tls(monkeypatch) -> None:
    """Each is named by what to do."""
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(pg.MissingExtraError, match="msk"):
        connection_settings(ClientProperties(IAM))
    monkeypatch.setitem(
        sys.modules, "aws_msk_iam_sasl_signer", SimpleNamespace(MSKAuthTokenProvider=_Signer)
    )
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(pg.InvalidConfigError, match="AWS_REGION"):
        connection_settings(ClientProperties(IAM))
    with pytest.raises(pg.InvalidConfigError, match="SASL_SSL"):
        connection_settings(ClientProperties({**IAM, "security.protocol": "SASL_PLAINTEXT"}))
