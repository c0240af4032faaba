"""What all tests share: how hard Hypothesis tries, and how many problems each tier runs."""

from __future__ import annotations

import gc
import os
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.support.brokers import brokers
from tests.support.kernel_cache import compile_each_once
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.brokers import Brokers

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
    """How many damaged inputs a reader faces: 8,000, `make fuzz` 1,000,000."""
    return _number("PARTAGE_FUZZ_N", 8_000)


@pytest.fixture(scope="session")
def broker() -> Iterator[Brokers]:
    """One Kafka 4.3.1 broker for all tests that need no more; topics and groups have names of their own."""
    with brokers() as cluster:
        yield cluster


#: What costs seconds to start or to read is shared: the tests of these folders stay in one process.
_COMPANIES = {
    "architecture": "source",
    "jobs": "spark",
    "live": "broker",
    "clients": "broker",
    "chaos": "broker",
    "replicas": "broker",
}
#: Helpers that cache recorded histories, and the company of the test files that import them. Each
#: process that has such a file would rebuild the histories.
_CACHES = {
    "tests.support.rebuilt": "sample",
    "tests.support.recordings": "recordings",
}


#: What a test file of the jobs has that shares the Spark session or the replay of the sample.
_STARTS_SPARK = re.compile(r"\b(spark|replayed)\b")


@cache
def _company(path: str) -> str:
    """Return the name of the tests that run in one process with those of a file."""
    folders = path.split("/")
    if folders[0] != "tests" or len(folders) < 3:
        return path
    text = (ROOT / path).read_text(encoding="utf-8")
    # Tests of the jobs without Spark run in other processes: those with Spark take the longest.
    if folders[1] in _COMPANIES and (folders[1] != "jobs" or _STARTS_SPARK.search(text)):
        return _COMPANIES[folders[1]]
    found = (name for helper, name in _CACHES.items() if f"from {helper} import" in text)
    return next(found, path)


#: Folders with long tests. They start after the companies and before all others.
_LONG = ("jobs", "fuzz", "property", "simulation", "cli", "browser", "parity")


class _Sorted:
    """After all who mix the tests: the longest companies first, so that none waits for another at the end."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort the tests of Spark first, then those of the broker, the long ones, and all others.

        In a fresh clone the first test with a JVM fetches and compiles Kafka's classes. The tests of
        the broker do that while a third process runs tests that need none. Parity is therefore the
        last of the long ones.
        """
        items.sort(key=lambda item: _rank(item.nodeid.split("::")[0]))


def _rank(path: str) -> int:
    """Return the place of a file in the order of the run."""
    companies = ("spark", "broker", *_CACHES.values(), "source")
    if _company(path) in companies:
        return companies.index(_company(path))
    folder = path.split("/")[1] if path.startswith("tests/") else ""
    return len(companies) + (_LONG.index(folder) if folder in _LONG else len(_LONG))


def pytest_configure(config: pytest.Config) -> None:
    """Sort for processes side by side; let them compile each kernel once."""
    config.pluginmanager.register(_Sorted())
    if "PYTEST_XDIST_WORKER" in os.environ:
        compile_each_once(config.cache.mkdir("kernel-locks"))


def pytest_collection_finish() -> None:
    """Exempt modules and collected tests from garbage collection: they live until the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Deal out whole companies. (xdist's own way, marks in the names of tests, is lost on pytest 9.2.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Companies(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _company(nodeid.split("::", maxsplit=1)[0])

    return Companies(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tiers by place and name: tests/parity, tests/fuzz; soak tests wait for `make soak`."""
    for item in items:
        if "parity" in item.path.parts:
            item.add_marker(pytest.mark.parity)
        if "fuzz" in item.path.parts or "fuzz" in item.path.stem or "fuzz" in item.name:
            item.add_marker(pytest.mark.fuzz)
        if item.get_closest_marker("soak") and not os.environ.get("PARTAGE_SOAK"):
            item.add_marker(pytest.mark.skip(reason="soak: runs in `make soak`"))
