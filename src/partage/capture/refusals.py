"""What a cluster that cannot be reached says, in words that tell what to look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partage.errors import ClusterUnreachableError

__all__ = ["client_errors", "failed", "reason", "unreachable"]


def client_errors() -> type[Exception]:
    """What kafka-python raises, for those who may not import it."""
    from kafka.errors import KafkaError

    kind: type[Exception] = KafkaError
    return kind


def reason(error: BaseException) -> str:
    """What an error of kafka-python says, without the number and the noise.

    >>> reason(ValueError("[Error 58] SASL_AUTHENTICATION_FAILED: no"))
    'SASL_AUTHENTICATION_FAILED: no'
    """
    text = (str(error).strip().splitlines() or [""])[0]
    if text.startswith("[Error "):
        text = text.partition("] ")[2]
    return text[:300] or type(error).__name__


def failed(code: int) -> str:
    """The name of an error code of Kafka."""
    from kafka.errors import for_code

    kind = for_code(code)
    return str(getattr(kind, "message", kind.__name__))


_HINTS = (
    (("ILLEGAL_SASL_STATE", "IllegalSaslState"),
     "the listener at this port expects no SASL: look at security.protocol and the port"),
    (("SASL_AUTHENTICATION_FAILED", "AuthenticationFailed"),
     "look at user name and password in sasl.jaas.config, and at sasl.mechanism"),
    (("UNSUPPORTED_SASL_MECHANISM",), "the broker has another sasl.mechanism"),
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


def unreachable(
    bootstrap: str, settings: Mapping[str, Any], error: Exception, heard: str
) -> ClusterUnreachableError:
    """The error, with the reason that kafka-python logged, and what to look at."""
    own = f"{type(error).__name__} {error}"
    timed_out = "Timeout" in type(error).__name__
    why = heard if timed_out and heard else reason(error)
    for words, hint in _HINTS:
        if any(word in f"{own} {heard}" for word in words):
            return ClusterUnreachableError(bootstrap, why, hint)
    protocol = settings.get("security_protocol", "PLAINTEXT")
    hint = f"is it a broker, and is security.protocol={protocol} right for this port?"
    if str(protocol).startswith("SASL"):
        hint += " And user name and password in sasl.jaas.config, and sasl.mechanism?"
    return ClusterUnreachableError(bootstrap, why, hint)
