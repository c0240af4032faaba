"""Processes with members, one for each client, shared by the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.clients.members import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def hosts() -> Iterator[Callable[[str], Host]]:
    """A process for a client, started at the first request."""
    running: dict[str, Host] = {}

    def of(client: str) -> Host:
        if client not in running:
            running[client] = Host(client)
        return running[client]

    yield of
    for one in running.values():
        one.kill()
