"""Requests of a capture's connection, with a stand-in for kafka-python's connection manager."""

from __future__ import annotations

import asyncio

import pytest

from partage.capture.connection import ClusterConnection, error_reason

errors = pytest.importorskip("kafka.errors")


class Manager:
    """Connection manager that learns of restarted brokers only by `refresh_metadata`."""

    def __init__(self, known: set[int], running: set[int]) -> None:
        self.known, self.running, self.cluster = known, running, self
        self.refreshed = 0

    async def refresh_metadata(self) -> None:
        self.refreshed += 1
        self.known = set(self.running)

    def send(self, request: str, *, node_id: int) -> asyncio.Future[str]:
        if node_id not in self.known:
            raise errors.UnknownBrokerIdError(node_id)
        response: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        response.set_result(f"{request} of {node_id}")
        return response

    def run(self, coroutine):
        return asyncio.run(coroutine())


def connected(manager: Manager) -> ClusterConnection:
    """Return a connection that did not connect."""
    connection = object.__new__(ClusterConnection)
    connection._manager = manager
    return connection


def test_a_broker_that_was_restarted_is_found_again() -> None:
    """Fetch and config requests reach a restarted broker after one refresh of the metadata."""
    manager = Manager(known={0, 2}, running={0, 1, 2})
    answers = connected(manager).ask_each({0: "fetch", 1: "fetch"})
    assert answers == {0: "fetch of 0", 1: "fetch of 1"}
    assert manager.refreshed == 1
    assert connected(Manager({0}, {0, 1})).request_response("config", 1) == "config of 1"


def test_a_broker_that_is_still_down_is_that_requests_error() -> None:
    """A request to a broker that is still down fails alone; the others are answered."""
    manager = Manager(known={0, 2}, running={0, 2})
    answers = connected(manager).ask_each({0: "fetch", 1: "fetch"})
    assert answers[0] == "fetch of 0"
    assert isinstance(answers[1], errors.UnknownBrokerIdError)


def test_a_broker_without_connection_is_named() -> None:
    """The reason says which broker has no connection, instead of the name of an exception."""
    reason = error_reason(errors.NodeNotReadyError(2))
    assert reason == "no connection to broker 2; is it running?"
    assert error_reason(errors.NodeNotReadyError()) == "no connection to broker; is it running?"
