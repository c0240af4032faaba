"""Tokens for SASL OAUTHBEARER: OAuth client credentials (KIP-768), and AWS MSK IAM.

A provider keeps its token until shortly before it expires. Errors and ``repr`` show no secret.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from partage.errors import InvalidConfigError, MissingExtraError

__all__ = ["TokenCache", "client_credentials", "msk_iam", "token_provider"]

#: Longest time for an answer of the token endpoint, in seconds.
_TIMEOUT = 15.0
#: Share of a token's lifetime after which a new one is requested, as in Kafka's Java client.
_REFRESH_AT = 0.8
#: Lifetime of a token whose response does not state one, in seconds.
_UNSTATED = 300.0
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
#: Fetches a token; returns it with its lifetime in seconds.
Fetch = Callable[[], tuple[str, float]]


class TokenCache:
    """Cache of an access token, which is fetched again shortly before it expires.

    Args:
        fetch: function that returns a token and its lifetime in seconds.
        clock: function that returns the time in seconds.

    >>> tokens = iter([("a", 10.0), ("b", 10.0)])
    >>> now = iter([0.0, 7.0, 9.0])
    >>> cache = TokenCache(lambda: next(tokens), clock=lambda: next(now))
    >>> cache.token(), cache.token(), cache.token()
    ('a', 'a', 'b')
    """

    def __init__(self, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch, self._clock = fetch, clock
        self._token: str | None = None
        self._until = 0.0

    def token(self) -> str:
        """Return the access token; fetch a new one if the last one expires soon."""
        now = self._clock()
        if self._token is None or now >= self._until:
            self._token, seconds = self._fetch()
            self._until = now + _REFRESH_AT * seconds
        return self._token


def token_provider(fetch: Fetch) -> Any:
    """Wrap a function that fetches tokens as kafka-python's ``AbstractTokenProvider``.

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
            return cache.token()

    return Provider()


def client_credentials(url: str, client_id: str, secret: str, scope: str | None) -> Fetch:
    """Return a function that fetches a token by the OAuth 2.0 client credentials grant.

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
            token, seconds = found["access_token"], float(found.get("expires_in", _UNSTATED))
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
    """Return a function that signs tokens for Amazon MSK with AWS credentials.

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
