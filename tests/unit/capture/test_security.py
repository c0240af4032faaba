"""Kafka's property names: what they become, and that no secret is ever said."""

from __future__ import annotations

import ssl

import pytest

from partage.capture.security import (
    ClientProperties,
    connection_settings,
    parse_jaas,
    read_properties,
)
from partage.errors import InvalidConfigError

SECRET = "hunter2-Geheim"  # noqa: S105 - what must not be seen
JAAS = f'org.x.ScramLoginModule required username="me" password="{SECRET}";'


def settings(**given):
    return connection_settings(ClientProperties({n.replace("_", "."): v for n, v in given.items()}))


def test_scram_over_tls_becomes_what_the_client_wants():
    """Protocol, mechanism, user and password; a context that checks host names."""
    made = settings(
        security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=JAAS
    )
    assert made["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (made["sasl_plain_username"], made["sasl_plain_password"]) == ("me", SECRET)
    assert made["ssl_context"].check_hostname
    assert made["ssl_context"].verify_mode is ssl.CERT_REQUIRED


def test_an_empty_algorithm_turns_the_check_of_the_host_off():
    """As in Kafka: ssl.endpoint.identification.algorithm= (empty)."""
    given = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    assert not connection_settings(ClientProperties(given))["ssl_context"].check_hostname


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"security.protocol": "TLS"}, "security.protocol"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "MD5"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config"),
        ({"security.protocol": "PLAINTEXT", "sasl.jaas.config": JAAS}, "security.protocol"),
        ({"sasl.jaas.confg": JAAS}, "sasl.jaas.confg"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
          "sasl.jaas.config": f"x password={SECRET}"}, "sasl.jaas.config"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
          "sasl.jaas.config": f'x required password="{SECRET}";'}, "sasl.jaas.config"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/no/such.pem",
          "ssl.truststore.password": SECRET}, "ssl.truststore.location"),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": SECRET},
         "ssl.truststore.certificates"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "TLS_X"}, "ssl.cipher.suites"),
        ({"security.protocol": "SSL", "ssl.keystore.key": SECRET,
          "ssl.keystore.certificate.chain": SECRET}, "ssl.keystore.key"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named_and_no_secret_is_said(given, named):
    """Each error names the property; the secret is in no message and no repr."""
    with pytest.raises(InvalidConfigError) as raised:
        connection_settings(ClientProperties(given))
    assert raised.value.setting == named
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(raised.value)
    assert (
        SECRET not in repr(ClientProperties(given)) or "certificates" in named
    )  # those are public


@pytest.mark.parametrize(
    ("given", "versions"),
    [("TLSv1.3", ("TLSv1_3", "TLSv1_3")), ("TLSv1.3, TLSv1.2", ("TLSv1_2", "TLSv1_3"))],
)
def test_only_the_tls_versions_that_are_enabled(given, versions):
    """Who demands TLS 1.3 gets no 1.2."""
    properties = {"security.protocol": "SSL", "ssl.enabled.protocols": given}
    context = connection_settings(ClientProperties(properties))["ssl_context"]
    assert (context.minimum_version.name, context.maximum_version.name) == versions


def test_a_file_and_the_command_line(tmp_path):
    """The command line goes before; a line that goes on, and escapes, as Java reads them."""
    file = tmp_path / "client.properties"
    file.write_text(
        f'# ours\nsasl.jaas.config=a.B required \\\n  username="u" \\\n  password="{SECRET}";\nclient.id: x\n'
    )
    found = read_properties(file, ["client.id=y"])
    assert found["client.id"] == "y"
    assert parse_jaas(found["sasl.jaas.config"])[1] == {"username": "u", "password": SECRET}


def test_a_property_without_equals_sign_is_not_repeated():
    """It may be a secret pasted by mistake."""
    with pytest.raises(InvalidConfigError) as raised:
        read_properties(None, [SECRET])
    assert SECRET not in str(raised.value)
