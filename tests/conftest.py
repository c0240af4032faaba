"""What all tests share: how hard Hypothesis tries, and how many problems each tier runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.brokers import brokers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.brokers import Brokers

# One fixed sequence in `make test` (a red run must be red for everybody), fresh ones in the heavy tiers.
settings.register_profile(
    "sample",
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "full", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("PARTAGE_HYPOTHESIS", "sample"))


def _number(name: str, otherwise: int) -> int:
    return int(os.environ.get(name, otherwise))


@pytest.fixture(scope="session")
def parity_n() -> int:
    """How many problems a strategy faces against Kafka's own class: 300, `make parity` 100,000."""
    return _number("PARTAGE_PARITY_N", 300)


@pytest.fixture(scope="session")
def fuzz_n() -> int:
    """How many damaged inputs a reader faces: 20,000, `make fuzz` 1,000,000."""
    return _number("PARTAGE_FUZZ_N", 20_000)


@pytest.fixture(scope="session")
def broker() -> Iterator[Brokers]:
    """One Kafka 4.3.1 broker for all tests that need no more; topics and groups have names of their own."""
    with brokers() as cluster:
        yield cluster


#: What costs seconds to start is started once in a run: its tests stay in one process, and begin first.
_SHARED = {"spark": ("spark", "replayed"), "broker": ("broker", "hosts")}
_LIVE = ("live", "clients", "hurt", "replicas")


def _company(item: pytest.Item) -> str:
    """The tests that must run in this one's process: those of its file, or of its Spark or broker."""
    fixtures = getattr(item, "fixturenames", ())
    if item.get_closest_marker("spark"):
        return "spark"
    for name, wanted in _SHARED.items():
        if any(fixture in fixtures for fixture in wanted):
            return name
    if item.path.parent.name in _LIVE and "unit" not in item.path.parts:
        return "broker"
    return str(item.path)


class _Sorted:
    """After all who mix the tests: the longest companies first, so that none waits for another at the end."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Those with a Spark, those with a broker, those with a JVM, all others."""
        rank = {name: at for at, name in enumerate(_SHARED)}
        items.sort(
            key=lambda item: (
                rank.get(_company(item), len(rank)),
                "parity" not in item.path.parts,
            )
        )


def pytest_configure(config: pytest.Config) -> None:
    """Sort for processes side by side (`make test`: pytest-xdist with --dist loadgroup)."""
    config.pluginmanager.register(_Sorted())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tiers by place and name: tests/parity, tests/fuzz; soak tests wait for `make soak`.

    Before pytest-xdist reads the marks: tests of one company run in one process.
    """
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_company(item)))
        if "parity" in item.path.parts:
            item.add_marker(pytest.mark.parity)
        if "fuzz" in item.path.parts or "fuzz" in item.path.stem or "fuzz" in item.name:
            item.add_marker(pytest.mark.fuzz)
        if item.get_closest_marker("soak") and not os.environ.get("PARTAGE_SOAK"):
            item.add_marker(pytest.mark.skip(reason="soak: runs in `make soak`"))
