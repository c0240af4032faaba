"""`partage capture` and `partage groups` where a broker asks who is there: TLS, SCRAM, ACLs, tokens."""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from unittest import mock

import pytest
from tests.support.brokers import brokers, free_ports

pytestmark = [pytest.mark.soak, pytest.mark.jvm]

COMMAND = [sys.executable, "-m", "partage"]
READER, NOBODY, STORE = "reader-secret-123", "nobody-secret-456", "store-secret-789"
AUDITOR, SERVICE = "auditor-secret-321", "service-secret-654"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
ACL = "org.apache.kafka.tools.AclCommand"
OAUTH = "org.apache.kafka.common.security.oauthbearer"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    """An authority, the broker's certificate of it for 127.0.0.1, another authority; PEM and JKS."""
    home = tmp_path_factory.mktemp("tls")
    for name in ("ca", "stranger"):
        _run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
             f"/CN={name}", "-keyout", f"{home}/{name}.key", "-out", f"{home}/{name}.pem")  # fmt: skip
    _run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=broker",
         "-keyout", f"{home}/own.key", "-out", f"{home}/own.csr")  # fmt: skip
    (home / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    _run("openssl", "x509", "-req", "-in", f"{home}/own.csr", "-CA", f"{home}/ca.pem", "-CAkey",
         f"{home}/ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{home}/names",
         "-out", f"{home}/own.pem")  # fmt: skip
    (home / "broker.pem").write_text(
        (home / "own.key").read_text() + (home / "own.pem").read_text()
    )
    _run("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", f"{home}/ca.pem",
         "-keystore", f"{home}/trust.jks", "-storetype", "JKS", "-storepass", STORE)  # fmt: skip
    return home


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _key_set(certificates: Path) -> str:
    """The public key of the authority as a JSON Web Key Set, in which the broker finds it."""
    key = str(certificates / "ca.key")
    done = subprocess.run(
        ["openssl", "rsa", "-in", key, "-noout", "-modulus"],
        capture_output=True,
        text=True,
        check=True,
    )
    modulus = bytes.fromhex(done.stdout.strip().partition("=")[2])
    one = {"kty": "RSA", "kid": "ca", "alg": "RS256", "n": _base64(modulus), "e": "AQAB"}
    path = certificates / "keys.json"
    path.write_text(json.dumps({"keys": [one]}))
    return path.as_uri()


def _token(key: Path) -> str:
    """A signed token (RS256) of the account ``service``, valid for five minutes."""
    now = int(time.time())
    claims = {"sub": "service", "scope": "kafka", "iat": now, "exp": now + 300}
    parts = ({"alg": "RS256", "kid": "ca"}, claims)
    text = ".".join(_base64(json.dumps(part).encode()) for part in parts)
    done = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", str(key)],
        input=text.encode(), capture_output=True, check=True,
    )  # fmt: skip
    return f"{text}.{_base64(done.stdout)}"


class _Authority(BaseHTTPRequestHandler):
    """An OAuth server's token endpoint: gives a token to the account that knows its secret."""

    def do_POST(self) -> None:
        known = base64.b64encode(f"service:{SERVICE}".encode()).decode()
        allowed = self.headers["Authorization"] == f"Basic {known}"
        self.rfile.read(int(self.headers["Content-Length"]))
        reply = {"access_token": _token(self.server.key), "expires_in": 300} if allowed else {}
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def authority(certificates) -> Iterator[HTTPServer]:
    """A token endpoint whose tokens the broker accepts."""
    server = HTTPServer(("127.0.0.1", 0), _Authority)
    server.key = certificates / "ca.key"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def guarded(certificates):
    """A broker with listeners for SCRAM-SHA-512 over TLS and for OAUTHBEARER, an authorizer, and four
    accounts; plain text is its administrator. The account ``reader`` may READ and DESCRIBE the group
    log, no more.
    """
    controller, plain, secure, tokens = free_ports(4)
    keys = _key_set(certificates)
    properties = {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},"
        f"SECURE://127.0.0.1:{secure},TOKENS://127.0.0.1:{tokens}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,"
        "TOKENS:SASL_PLAINTEXT",
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
        "listener.name.tokens.oauthbearer.sasl.server.callback.handler.class": f"{OAUTH}."
        "OAuthBearerValidatorCallbackHandler",
        "listener.name.tokens.sasl.oauthbearer.jwks.endpoint.url": keys,
        "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
        "listener.name.secure.ssl.keystore.type": "PEM",
        "listener.name.secure.ssl.keystore.location": str(certificates / "broker.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    allowed = {"JAVA_TOOL_OPTIONS": f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"}
    with mock.patch.dict(os.environ, allowed), brokers(properties=properties) as cluster:
        cluster.secure, cluster.tokens = f"127.0.0.1:{secure}", f"127.0.0.1:{tokens}"
        for user, password in (("reader", READER), ("nobody", NOBODY), ("auditor", AUDITOR)):
            _account(cluster, user, password)
        cluster.create_topic("orders", 3)
        _commit(cluster.bootstrap)
        _allow(cluster, "--operation", "Read", "--topic", "__consumer_offsets")
        yield cluster


def _account(cluster, user: str, password: str) -> None:
    done = cluster.run_tool(
        "kafka.admin.ConfigCommand", "--bootstrap-server", cluster.bootstrap, "--alter",
        "--add-config", f"SCRAM-SHA-512=[password={password}]",
        "--entity-type", "users", "--entity-name", user,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def _allow(cluster, *what: str, user: str = "reader") -> None:
    done = cluster.run_tool(
        ACL,
        "--bootstrap-server",
        cluster.bootstrap,
        "--add",
        "--allow-principal",
        f"User:{user}",
        *what,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _commit(bootstrap: str) -> None:
    from kafka import KafkaConsumer
    from kafka.structs import OffsetAndMetadata, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id="billing")
    consumer.assign([TopicPartition("orders", 0)])
    consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(3, "", -1)})
    consumer.close()


def _client(folder: Path, certificates: Path, **other: str) -> str:
    """A client.properties file of the reader, by Kafka's names with ``_`` for dots."""
    user, password = other.pop("user", "reader"), other.pop("password", READER)
    lines = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} username="{user}" password="{password}";',
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates / "ca.pem"),
        **{name.replace("_", "."): value for name, value in other.items()},
    }  # fmt: skip
    path = folder / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return str(path)


def _asked(*words: str) -> subprocess.CompletedProcess[str]:
    """A command; whatever comes of it, no secret is in what it says, and no traceback."""
    done = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "PARTAGE_DEBUG": ""},
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert not [
        one for one in (READER, NOBODY, AUDITOR, SERVICE, STORE, "wrong-secret") if one in said
    ]
    assert "Traceback" not in said
    return done


@pytest.mark.parametrize("store", ["PEM", "JKS"])
def test_a_capture_through_tls_and_scram(guarded, certificates, tmp_path, store: str) -> None:
    """An account that may READ the group log, and nothing else, records it; so it goes on, too."""
    other = {} if store == "PEM" else {
        "ssl_truststore_type": "JKS", "ssl_truststore_password": STORE,
        "ssl_truststore_location": str(certificates / "trust.jks"),
    }  # fmt: skip
    config = _client(tmp_path, certificates, **other)
    out = tmp_path / "out"
    asked = ["capture", "-b", guarded.secure, "-o", str(out), "--command-config", config, "--json"]
    done = _asked(*asked)
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)
    assert first["records"] > 0
    assert first["troubles"] == []
    _commit(guarded.bootstrap)
    again = _asked(*asked)
    assert json.loads(again.stdout)["records"] > first["records"]
    assert not [f for f in out.rglob("*") if f.is_file() and READER.encode() in f.read_bytes()]


@pytest.mark.parametrize(
    ("other", "hint"),
    [
        ({"password": "wrong-secret"}, "sasl.jaas.config"),
        ({"user": "nobody", "password": NOBODY}, "READ and DESCRIBE"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "security.protocol"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "sasl.mechanism"),
        ({"stranger": "yes"}, "ssl.truststore.location"),
    ],
)
def test_what_is_wrong_is_one_line(guarded, certificates, tmp_path, other, hint: str) -> None:
    """Wrong password, no permission, no TLS, another mechanism, a certificate of nobody we trust."""
    if other.pop("stranger", ""):
        other = {"ssl_truststore_location": str(certificates / "stranger.pem")}
    config = _client(tmp_path, certificates, **other)
    for words in (["capture", "-o", str(tmp_path / "out")], ["groups"]):
        if words == ["groups"] and "READ" in hint:
            continue  # groups need other rights: below
        done = _asked(*words, "-b", guarded.secure, "--command-config", config)
        assert done.returncode == 1
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert hint in done.stderr


def test_groups_with_what_an_account_may_see(guarded, certificates, tmp_path) -> None:
    """Without DESCRIBE on groups or the cluster the missing right is the error; with DESCRIBE on the
    group it is listed.
    """
    config = _client(tmp_path, certificates)
    asked = ["groups", "-b", guarded.secure, "--command-config", config, "--every", "0.1", "--json"]
    before = _asked(*asked)
    assert before.returncode == 1
    assert "not authorized for groups: the account needs DESCRIBE" in before.stderr
    _allow(guarded, "--operation", "Describe", "--group", "*", "--topic", "orders")
    done = _asked(*asked)
    assert done.returncode == 0, done.stderr
    (group,) = json.loads(done.stdout)["groups"]
    assert group["group"] == "billing"


def test_the_printed_permissions_are_sufficient(guarded, certificates, tmp_path) -> None:
    """An account without any permission may not capture (exit code 3). With the ACLs that the check
    prints nothing is missing any more, and the capture reads the log.
    """
    config = _client(tmp_path, certificates, user="auditor", password=AUDITOR)
    asked = ["capture", "-b", guarded.secure, "--command-config", config]
    done = _asked(*asked, "--check")
    assert done.returncode == 3, done.stderr
    assert "A capture is not possible" in done.stdout
    before = json.loads(_asked(*asked, "--check", "--json").stdout)
    missing = [one for one in before["permissions"] if one["allowed"] is False]
    assert [one["operation"] for one in missing if one["required"]] == ["DESCRIBE", "READ"]
    assert before["partitions"] == []
    for one in missing:
        assert one["acl"] in done.stdout
        _allow(guarded, *shlex.split(one["acl"]), user="auditor")
    found = json.loads(_asked(*asked, "--check", "--json").stdout)
    still = [one for one in found["permissions"] if one["allowed"] is False]
    for one in still:  # of topics and groups the log names those that the account may not describe
        _allow(guarded, *shlex.split(one["acl"]), user="auditor")
    found = json.loads(_asked(*asked, "--check", "--json").stdout)
    assert [one["allowed"] for one in found["permissions"]] == [True] * 7
    assert (found["can_capture"], found["complete_share"], found["groups"]) == (True, 1.0, 1)
    recorded = json.loads(_asked(*asked, "--out", str(tmp_path / "out"), "--json").stdout)
    assert recorded["records"] == sum(one["end"] for one in found["partitions"])


def _oauth(folder: Path, endpoint: HTTPServer, secret: str) -> str:
    lines = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{endpoint.server_port}/token",
        "sasl.oauthbearer.client.credentials.client.id": "service",
        "sasl.oauthbearer.client.credentials.client.secret": secret,
    }  # fmt: skip
    path = folder / "oauth.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return str(path)


def test_a_capture_with_tokens_of_an_oauth_server(
    guarded, authority, certificates, tmp_path
) -> None:
    """A token by client credentials is accepted by Kafka's own validator, and its account needs the
    same permissions; a wrong secret and a token of another authority are errors of one line.
    """
    config = _oauth(tmp_path, authority, SERVICE)
    asked = ["capture", "-b", guarded.tokens, "--command-config"]
    out = ["-o", str(tmp_path / "out")]
    before = _asked(*asked, config, "--check")
    assert before.returncode == 3, before.stderr
    _allow(guarded, "--operation", "Read", "--topic", "__consumer_offsets", user="service")
    done = _asked(*asked, config, *out, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] > 0
    refused = _asked(*asked, _oauth(tmp_path, authority, "wrong-secret"), *out)
    assert (refused.returncode, len(refused.stderr.strip().splitlines())) == (1, 1), refused.stderr
    authority.key = certificates / "stranger.key"
    forged = _asked(*asked, _oauth(tmp_path, authority, SERVICE), *out)
    assert (forged.returncode, len(forged.stderr.strip().splitlines())) == (1, 1), forged.stderr
    assert "issuer and the claim aud that the broker expects" in forged.stderr
