"""Spark's master, checked before Java starts: Spark itself tries an unknown host for a minute."""

from __future__ import annotations

import re
import socket

from partage.errors import InvalidConfigError

__all__ = ["expect_reachable"]

_STANDALONE = re.compile(r"spark://(.+)")
_SECONDS = 5.0


def expect_reachable(master: str) -> None:
    """Raise unless a host of a standalone master accepts connections; other masters pass.

    Args:
        master: as Spark takes it; ``spark://HOST:PORT[,HOST:PORT...]`` is checked.

    Raises:
        InvalidConfigError: an address is malformed, or no host of them can be reached.
    """
    match = _STANDALONE.fullmatch(master)
    if match is None:
        return
    failures = []
    for address in match[1].split(","):
        host, _, port = address.strip().rpartition(":")
        if not (host and port.isdigit() and 0 < int(port) < 65_536):
            raise InvalidConfigError("--master", "must be spark://HOST:PORT", master)
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS):
                return
        except OSError as e:
            failures.append(f"{address}: {_reason(e)}")
    what = f"cannot be reached ({'; '.join(failures)}); check host and port of the master"
    raise InvalidConfigError("--master", what, master)


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "unknown host"
    if isinstance(error, TimeoutError):
        return f"no answer within {_SECONDS:.0f} s"
    return str(error.strerror or error)
