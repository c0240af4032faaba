"""Kafka's client properties, and kafka-python's TLS and SASL settings for them.

Tokens for SASL OAUTHBEARER come from OAuth client credentials (KIP-768) or from AWS MSK IAM; a
provider keeps its token until shortly before it expires. Errors and ``repr`` never show secret
values.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from partage.capture.secrets import HIDDEN, is_secret
from partage.errors import InvalidConfigError, MissingExtraError

__all__ = [
    "ClientProperties",
    "TokenCache",
    "client_credentials",
    "connection_settings",
    "msk_iam",
    "parse_jaas",
    "parse_properties",
    "read_properties",
    "redact_property",
    "token_provider",
]

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def redact_property(name: str, value: str) -> str:
    """Return the value of a Kafka client property in a form that may be shown in a message.

    The value of a secret property, such as a password, becomes ``[hidden]``.

    >>> redact_property("sasl.jaas.config", "x"), redact_property("sasl.mechanism", "PLAIN")
    ('[hidden]', 'PLAIN')
    """
    return HIDDEN if is_secret(name) else value


class ClientProperties:
    """Kafka client properties by name.

    Printing the object hides secret values such as passwords.

    >>> ClientProperties({"ssl.key.password": "x", "client.id": "me"})
    ClientProperties({'client.id': 'me', 'ssl.key.password': '[hidden]'})
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __repr__(self) -> str:
        shown = {n: redact_property(n, v) for n, v in sorted(self._values.items())}
        return f"ClientProperties({shown})"

    def property_names(self) -> Iterable[str]:
        """Return the names of all Kafka client properties that are set.

        They are Kafka's names, such as ``security.protocol``.
        """
        return self._values.keys()

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the value of a Kafka client property, or ``default`` if it is not set.

        ``name`` is Kafka's name of the property, such as ``sasl.mechanism``.
        """
        return self._values.get(name, default)


def read_properties(path: Path | None, overrides: Iterable[str] = ()) -> dict[str, str]:
    """Read Kafka client properties from a ``.properties`` file and from command-line arguments.

    An argument (``NAME=VALUE``) takes precedence over the file.

    Args:
        path: the file; None if there is none.
        overrides: the command-line arguments, each ``NAME=VALUE``.

    Raises:
        InvalidConfigError: the file cannot be read, or an argument has no equals sign.
    """
    values: dict[str, str] = {}
    if path is not None:
        try:
            values |= parse_properties(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as e:
            why = getattr(e, "strerror", None) or "not UTF-8"
            what = f"cannot be read ({why})"
            raise InvalidConfigError("--command-config", what, str(path)) from None
    for one in overrides:
        name, equals, value = one.partition("=")
        if not equals or not name.strip():
            # Text without an equals sign may still be a secret.
            raise InvalidConfigError("--property", "must be NAME=VALUE", HIDDEN)
        values[name.strip()] = value.strip()
    return values


def parse_properties(text: str) -> dict[str, str]:
    r"""Parse the text of a Java ``.properties`` file into a dict.

    Comments, continued lines, escapes and the separators ``=``, ``:`` and space are supported.

    >>> parse_properties("# c\nsecurity.protocol = SASL_SSL\nk:v\nlong=a\\\n   b\nu=\\u00e9\n")
    {'security.protocol': 'SASL_SSL', 'k': 'v', 'long': 'ab', 'u': 'é'}
    """
    found = {}
    for line in _logical_lines(text):
        match = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
        if match:
            found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _logical_lines(text: str) -> Iterable[str]:
    whole = ""
    for line in text.splitlines():
        part = line.lstrip()
        if not whole and (not part or part[0] in "#!"):
            continue
        trailing = len(part) - len(part.rstrip("\\"))
        if trailing % 2:
            whole += part[:-1]
            continue
        yield whole + part
        whole = ""
    if whole:
        yield whole


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", one, text.rstrip(" \t"), flags=re.DOTALL)


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Parse the value of Kafka's property ``sasl.jaas.config``.

    The result is the class of the login module and its options, such as the user name.

    Raises:
        InvalidConfigError: the text is malformed; the message does not repeat it.

    >>> parse_jaas('a.PlainLoginModule required username="me" password="a b";')
    ('a.PlainLoginModule', {'username': 'me', 'password': 'a b'})
    """
    tokens = re.findall(r'"(?:\\.|[^"\\])*"|[^\s=;"]+|=|;', text)
    if len(tokens) < 3 or tokens[-1] != ";" or not re.fullmatch(r"[\w.$]+", tokens[0]):
        what = 'must be: LoginModule required name="value" ... ;'
        raise InvalidConfigError("sasl.jaas.config", what, HIDDEN)
    options = {}
    rest = tokens[2:-1]
    for name, equals, value in zip(rest[::3], rest[1::3], rest[2::3], strict=False):
        if equals != "=":
            break
        options[name] = _unquoted(value)
    if len(options) * 3 != len(rest):
        what = 'has an option that is not name="value"'
        raise InvalidConfigError("sasl.jaas.config", what, HIDDEN)
    return tokens[0], options


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_TLS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM")
#: Property with the address of the OAuth token endpoint.
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
#: Properties of the OAuth client (Kafka 4.1), by the names of the older options in JAAS.
_CLIENT = {
    "clientId": "sasl.oauthbearer.client.credentials.client.id",
    "clientSecret": "sasl.oauthbearer.client.credentials.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
#: Supported security properties; any other ``ssl.``, ``sasl.`` or ``security.`` property is an
#: error.
_KNOWN = {
    "security.protocol", "sasl.mechanism", "sasl.jaas.config", "sasl.kerberos.service.name",
    "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password",
    "ssl.truststore.certificates", "ssl.keystore.location", "ssl.keystore.type",
    "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.keystore.password",
    "ssl.key.password", "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols",
    ENDPOINT, *_CLIENT.values(),
}  # fmt: skip
#: Properties that choose between implementations; they have no effect here.
_HARMLESS = {
    "ssl.protocol", "ssl.provider",
    "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation",
    "sasl.kerberos.kinit.cmd", "sasl.kerberos.ticket.renew.window.factor",
    "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.min.time.before.relogin",
    "security.providers", "sasl.login.callback.handler.class", "sasl.client.callback.handler.class",
    "sasl.oauthbearer.jwt.retriever.class", "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
}  # fmt: skip


def connection_settings(properties: ClientProperties) -> dict[str, Any]:
    """Convert Kafka client properties for TLS and SASL to the settings of kafka-python.

    The properties have the names of Kafka's Java client, such as ``security.protocol``.

    Raises:
        InvalidConfigError: a property is invalid or unsupported, or names an unreadable file. The
            message contains no secret.

    >>> connection_settings(ClientProperties({"security.protocol": "plaintext"}))
    {'security_protocol': 'PLAINTEXT'}
    """
    for name in properties.property_names():
        family = name.split(".", 1)[0] in {"ssl", "sasl", "security"}
        if family and name not in _KNOWN | _HARMLESS:
            known = ", ".join(sorted(_KNOWN))
            raise InvalidConfigError(name, f"is not understood; known are {known}", "it")
    protocol = (properties.get("security.protocol") or "PLAINTEXT").upper()
    _expect(protocol in _PROTOCOLS, "security.protocol", f"must be of {_PROTOCOLS}", protocol)
    made: dict[str, Any] = {"security_protocol": protocol}
    if protocol.startswith("SASL"):
        made |= _sasl(properties)
    elif properties.get("sasl.jaas.config"):
        what = "must be SASL_PLAINTEXT or SASL_SSL where sasl.jaas.config is given"
        raise InvalidConfigError("security.protocol", what, protocol)
    if protocol.endswith("SSL"):
        made["ssl_context"] = _tls(properties)
    if properties.get("client.id"):
        made["client_id"] = properties.get("client.id")
    return made


def _expect(holds: bool, name: str, what: str, value: str) -> None:  # noqa: FBT001 - as assert
    if not holds:
        raise InvalidConfigError(name, what, redact_property(name, value))


def _sasl(properties: ClientProperties) -> dict[str, Any]:
    mechanism = (properties.get("sasl.mechanism") or "GSSAPI").upper()
    _expect(mechanism in _MECHANISMS, "sasl.mechanism", f"must be of {_MECHANISMS}", mechanism)
    made: dict[str, Any] = {"sasl_mechanism": mechanism}
    jaas = properties.get("sasl.jaas.config")
    if mechanism in {"OAUTHBEARER", "AWS_MSK_IAM"}:
        return _with_token(properties, mechanism)
    if mechanism == "GSSAPI":
        service = properties.get("sasl.kerberos.service.name")
        if jaas is not None:
            service = parse_jaas(jaas)[1].get("serviceName", service)
        return {**made, "sasl_kerberos_service_name": service or "kafka"}
    if jaas is None:
        what = f"is missing: {mechanism} needs a user name and a password"
        raise InvalidConfigError("sasl.jaas.config", what, None)
    options = parse_jaas(jaas)[1]
    for name in ("username", "password"):
        if name not in options:
            raise InvalidConfigError("sasl.jaas.config", f"has no {name}", "[hidden]")
    names = {"sasl_plain_username": "username", "sasl_plain_password": "password"}
    return made | {ours: options[theirs] for ours, theirs in names.items()}


def _with_token(properties: ClientProperties, mechanism: str) -> dict[str, Any]:
    jaas = properties.get("sasl.jaas.config")
    options = {} if jaas is None else parse_jaas(jaas)[1]
    if mechanism == "AWS_MSK_IAM":
        protocol = (properties.get("security.protocol") or "").upper()
        _expect(protocol == "SASL_SSL", "security.protocol", f"must be SASL_SSL for {mechanism}",
                protocol)  # fmt: skip
        fetch = msk_iam(options.get("awsProfileName"), options.get("awsRoleArn"))
    else:
        given = {one: properties.get(name) or options.get(one) for one, name in _CLIENT.items()}
        url = properties.get(ENDPOINT)
        if url is None:
            raise InvalidConfigError(ENDPOINT, "is missing: OAUTHBEARER needs it", None)
        client, secret = given["clientId"], given["clientSecret"]
        for option, value in (("clientId", client), ("clientSecret", secret)):
            if value is None:
                what = f"is missing, or {option} of sasl.jaas.config"
                raise InvalidConfigError(_CLIENT[option], what, None)
        fetch = client_credentials(url, str(client), str(secret), given["scope"])
    # Brokers of MSK take signed tokens from clients other than Java's by OAUTHBEARER.
    return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": token_provider(fetch)}


def _tls(properties: ClientProperties) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.maximum_version = _versions(properties)
    # Kafka's default is https; the empty word turns the check of the host's name off.
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") != ""
    trusted = _trusted_certificates(properties)
    if trusted is None:
        context.load_default_certs()
    else:
        name, text = trusted
        try:
            context.load_verify_locations(cadata=text)
        except (ssl.SSLError, ValueError) as e:
            raise InvalidConfigError(name, f"has no certificates ({e})", "[hidden]") from None
    _load_client_certificate(properties, context)
    return context


def _versions(properties: ClientProperties) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    # Kafka's default allows 1.2 and 1.3.
    name = "ssl.enabled.protocols"
    given = properties.get(name, ",".join(_TLS)) or ""
    wanted = [one.strip() for one in given.split(",") if one.strip()]
    _expect(bool(wanted) and set(wanted) <= set(_TLS), name, f"must be of {tuple(_TLS)}", given)
    versions = [_TLS[one] for one in wanted]
    return min(versions), max(versions)


def _trusted_certificates(properties: ClientProperties) -> tuple[str, str] | None:
    # As PEM, with the property they come from.
    inline = properties.get("ssl.truststore.certificates")
    if inline is not None:
        return "ssl.truststore.certificates", inline
    name = "ssl.truststore.location"
    location = properties.get(name)
    if location is None:
        return None
    kind = (properties.get("ssl.truststore.type") or "").upper()
    data = _file(name, location)
    if kind == "PEM" or (not kind and b"-----BEGIN" in data):
        return name, data.decode("utf-8", "replace")
    return name, _read_truststore(location, properties.get("ssl.truststore.password") or "")


def _file(name: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as e:
        raise InvalidConfigError(name, f"cannot be read ({e.strerror})", location) from None


def _read_truststore(location: str, password: str) -> str:
    """Read the certificates of a Java truststore (JKS or PKCS12), and return them as PEM text.

    Java's keytool reads the file, so Java must be installed.

    Args:
        location: path of the truststore.
        password: password of the truststore.
    """
    # The password is passed in an environment variable, because other users can see command lines.
    name = "ssl.truststore.location"
    keytool = shutil.which("keytool")
    if keytool is None:
        what = "is no PEM file, and there is no keytool to read it: install Java, or give PEM"
        raise InvalidConfigError(name, what, location)
    asked = [keytool, "-list", "-rfc", "-keystore", location]
    if password:
        asked += ["-storepass:env", "PARTAGE_STORE_PASSWORD"]
    done = subprocess.run(  # noqa: S603 - Java's own tool, no shell
        asked, capture_output=True, text=True, timeout=60, check=False,
        stdin=subprocess.DEVNULL, env={**os.environ, "PARTAGE_STORE_PASSWORD": password},
    )  # fmt: skip
    if done.returncode or "-----BEGIN" not in done.stdout:
        what = "cannot be opened by keytool: is ssl.truststore.password right, and the type?"
        raise InvalidConfigError(name, what, location)
    return done.stdout


def _load_client_certificate(properties: ClientProperties, context: ssl.SSLContext) -> None:
    # For a broker that requires mutual TLS.
    key, chain = (
        properties.get("ssl.keystore.key"), properties.get("ssl.keystore.certificate.chain"),
    )  # fmt: skip
    password = properties.get("ssl.key.password") or ""
    if key is not None and chain is not None:
        with tempfile.TemporaryDirectory(prefix="partage-tls-") as folder:
            path = Path(folder) / "own.pem"
            path.touch(mode=0o600)  # ssl only takes files; this one is deleted at once
            path.write_text(f"{chain}\n{key}\n", "utf-8")
            _load(context, str(path), password, "ssl.keystore.key")
        return
    location = properties.get("ssl.keystore.location")
    if location is None:
        return
    data = _file("ssl.keystore.location", location)
    if b"-----BEGIN" not in data:
        what = (
            "must be PEM here (ssl.keystore.type=PEM); make one: "
            "openssl pkcs12 -in keystore.p12 -nodes -out keystore.pem"
        )
        raise InvalidConfigError("ssl.keystore.location", what, location)
    _load(context, location, password, "ssl.keystore.location")


def _load(context: ssl.SSLContext, path: str, password: str, name: str) -> None:
    try:
        context.load_cert_chain(path, password=lambda: password)
    except (ssl.SSLError, OSError, ValueError) as e:
        why = getattr(e, "reason", None) or type(e).__name__
        what = f"cannot be used ({why}): is ssl.key.password right?"
        raise InvalidConfigError(name, what, "[hidden]") from None


# --- tokens --------------------------------------------------------------------------------

#: Longest time for an answer of the token endpoint, in seconds.
_TIMEOUT = 15.0
#: Share of a token's lifetime after which a new one is requested, as in Kafka's Java client.
_REFRESH_AT = 0.8
#: Lifetime of a token whose response does not state one, in seconds.
_DEFAULT_LIFETIME = 300.0
#: Fetches a token; returns it with its lifetime in seconds.
Fetch = Callable[[], tuple[str, float]]


class TokenCache:
    """Cache of an OAuth access token, which is fetched again shortly before it expires.

    The token is fetched again shortly before it expires.

    Args:
        fetch: function that returns a token and its lifetime in seconds.
        clock: function that returns the time in seconds.

    >>> tokens = iter([("a", 10.0), ("b", 10.0)])
    >>> now = iter([0.0, 7.0, 9.0])
    >>> cache = TokenCache(lambda: next(tokens), clock=lambda: next(now))
    >>> cache.get_token(), cache.get_token(), cache.get_token()
    ('a', 'a', 'b')
    """

    def __init__(self, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch, self._clock = fetch, clock
        self._token: str | None = None
        self._until = 0.0

    def get_token(self) -> str:
        """Return the OAuth access token with which clients log in to Kafka.

        It comes from the cache, and is fetched again if it expires soon.
        """
        now = self._clock()
        if self._token is None or now >= self._until:
            self._token, seconds = self._fetch()
            self._until = now + _REFRESH_AT * seconds
        return self._token


def token_provider(fetch: Fetch) -> Any:
    """Wrap a function that fetches OAuth tokens as a token provider for kafka-python.

    ``fetch`` returns a token and its lifetime in seconds. The provider caches the token.

    Raises:
        MissingExtraError: kafka-python is not installed.
    """
    try:
        from kafka.net.sasl.oauth import AbstractTokenProvider
    except ImportError:
        raise MissingExtraError("kafka-python", extra="capture") from None

    cache = TokenCache(fetch)

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
        def token(self) -> str:
            return cache.get_token()

    return Provider()


def client_credentials(url: str, client_id: str, secret: str, scope: str | None) -> Fetch:
    """Return a function that fetches an access token by the OAuth 2.0 client credentials grant.

    It is used for SASL OAUTHBEARER (KIP-768).

    Args:
        url: the token endpoint.
        client_id: id of the client, sent with the secret in the header Authorization.
        secret: secret of the client.
        scope: requested scope; None sends none.

    Raises:
        InvalidConfigError: the URL is not http or https. The returned function raises it if the
            endpoint does not answer with a token; no secret is in the message.
    """
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise InvalidConfigError(ENDPOINT, "must be an http or https address", url)
    pair = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    form = {"grant_type": "client_credentials"} | ({} if scope is None else {"scope": scope})
    request = Request(  # noqa: S310 - the scheme was checked
        url, data=urlencode(form).encode(),
        headers={"Authorization": f"Basic {pair}", "Accept": "application/json",
                 "Content-Type": "application/x-www-form-urlencoded"},
    )  # fmt: skip

    def fetch() -> tuple[str, float]:
        try:
            with urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310 - checked above
                found = json.loads(response.read(1 << 20))
            token, seconds = (
                found["access_token"],
                float(found.get("expires_in", _DEFAULT_LIFETIME)),
            )
        except HTTPError as e:
            what = f"rejects the client (HTTP {e.code}): check client id, secret and scope"
            raise InvalidConfigError(ENDPOINT, what, url) from None
        except (URLError, OSError) as e:
            why = getattr(e, "reason", None) or e
            raise InvalidConfigError(ENDPOINT, f"cannot be reached ({why})", url) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            what = "does not answer with an access_token in JSON"
            raise InvalidConfigError(ENDPOINT, what, url) from None
        if not isinstance(token, str) or not token:
            raise InvalidConfigError(ENDPOINT, "answers with an empty access_token", url)
        return token, seconds

    return fetch


def msk_iam(profile: str | None = None, role: str | None = None) -> Fetch:
    """Return a function that creates access tokens for Amazon MSK from AWS credentials.

    The library aws-msk-iam-sasl-signer-python finds the credentials as AWS's own tools do. The
    region is that of ``AWS_REGION`` or ``AWS_DEFAULT_REGION``.

    Args:
        profile: name of a profile of AWS's configuration; None for the default credentials.
        role: ARN of a role to assume; None for none.

    Raises:
        MissingExtraError: the library is not installed.
        InvalidConfigError: no region is set. The returned function raises it if AWS's library
            cannot sign, for example without credentials.
    """
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer
    except ImportError:
        raise MissingExtraError("aws-msk-iam-sasl-signer-python", extra="msk") from None
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        what = "needs the cluster's region: set the environment variable AWS_REGION"
        raise InvalidConfigError("sasl.mechanism", what, "AWS_MSK_IAM")

    def fetch() -> tuple[str, float]:
        try:
            if profile is not None:
                token, expiry_ms = Signer.generate_auth_token_from_profile(region, profile)
            elif role is not None:
                token, expiry_ms = Signer.generate_auth_token_from_role_arn(region, role)
            else:
                token, expiry_ms = Signer.generate_auth_token(region)
        except Exception as e:  # noqa: BLE001 - botocore has many; their texts may have keys
            what = f"cannot sign with AWS credentials ({type(e).__name__}): check AWS's settings"
            raise InvalidConfigError("sasl.mechanism", what, "AWS_MSK_IAM") from None
        return str(token), max(0.0, expiry_ms / 1000 - time.time())

    return fetch
