"""Errors of a cluster that cannot be reached: the reason, and what to check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partage.errors import ClusterUnreachableError

__all__ = ["client_errors", "failed", "reason", "unreachable"]


def client_errors() -> type[Exception]:
    """Return kafka-python's base exception, for modules that may not import it."""
    from kafka.errors import KafkaError

    kind: type[Exception] = KafkaError
    return kind


def reason(error: BaseException) -> str:
    """Return the message of a kafka-python error, without its number and repeated class names.

    >>> reason(ValueError("[Error 58] SaslError: SaslError: no"))
    'SaslError: no'
    """
    text = (str(error).strip().splitlines() or [""])[0]
    if text.startswith("[Error "):
        text = text.partition("] ")[2]
    head, _, rest = text.partition(": ")
    if rest.startswith(f"{head}: "):
        text = rest
    return text[:300] or type(error).__name__


def failed(code: int) -> str:
    """Return the name of one of Kafka's error codes."""
    from kafka.errors import for_code

    kind = for_code(code)
    return str(getattr(kind, "message", kind.__name__))


_LOGIN = "look at user name and password in sasl.jaas.config, and at sasl.mechanism"
_HINTS = (
    (("ILLEGAL_SASL_STATE", "IllegalSaslState"),
     "the listener at this port expects no SASL: look at security.protocol and the port"),
    (("SASL_AUTHENTICATION_FAILED", "AuthenticationFailed"),
     _LOGIN),
    (("UNSUPPORTED_SASL_MECHANISM", "UnsupportedSaslMechanism"),
     "the broker has another sasl.mechanism"),
    (("CERTIFICATE_VERIFY_FAILED", "certificate verify failed"),
     "the broker's certificate is not trusted: look at ssl.truststore.location"),
    (("WRONG_VERSION_NUMBER", "wrong version number", "Handshake failed", "SSL"),
     "the listener does not speak TLS like that: look at security.protocol and the port"),
    (("refused", "ECONNREFUSED", "Errno 111"), "no broker listens there: look at host and port"),
    (("Name or service not known", "getaddrinfo", "nodename", "name resolution", "DNS"),
     "there is no such host"),
    (("IncompatibleBrokerVersion", "UNSUPPORTED_VERSION", "UnrecognizedBroker"),
     "the broker is too old: Partage needs 0.11 or later"),
)  # fmt: skip


_CLOSED = ("disconnect", "closed", "reset", "Timeout")


def unreachable(
    bootstrap: str,
    settings: Mapping[str, Any],
    error: Exception,
    heard: str,
    *,
    is_broker: bool = False,
) -> ClusterUnreachableError:
    """Return the error of a cluster that cannot be reached, with the reason and what to check.

    Args:
        bootstrap: the addresses.
        settings: of kafka-python.
        error: what kafka-python raised.
        heard: the reason that it logged.
        is_broker: whether a broker answered before the connection broke.
    """
    own = f"{type(error).__name__} {error}"
    timed_out = "Timeout" in type(error).__name__
    why = heard if timed_out and heard else reason(error)
    for words, hint in _HINTS:
        if any(word in f"{own} {heard}" for word in words):
            return ClusterUnreachableError(bootstrap, why, hint)
    protocol = str(settings.get("security_protocol", "PLAINTEXT"))
    with_login = protocol.startswith("SASL")
    if with_login and is_broker and any(word in f"{why} {own}" for word in _CLOSED):
        # A broker that refuses a login closes the connection, often before its answer is read.
        why = f"authentication failed: the broker closed the connection during the login, {why}"
        return ClusterUnreachableError(bootstrap, why, _LOGIN)
    hint = f"is it a broker, and is security.protocol={protocol} right for this port?"
    if with_login:
        hint += f" If it is, {_LOGIN}"
    return ClusterUnreachableError(bootstrap, why, hint)
