"""One Spark session and one replay of the sample for all tests of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.captured import SAMPLE

from partage import kernels

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


@pytest.fixture(scope="session")
def compiled() -> None:
    """Compile every kernel of the package, so that Spark's workers find it in Numba's cache.

    In a fresh clone each worker would otherwise compile the same kernels at the same time.
    """
    for one in tuple(kernels._all):
        if one.interpreted.__module__.startswith("partage."):
            one.compile()


@pytest.fixture(scope="session")
def spark(compiled: None) -> Iterator[object]:
    from partage.jobs.spark.session import spark_session

    with spark_session(is_short=True) as running:
        yield running


@pytest.fixture(scope="session")
def replayed(spark: object, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The sample, replayed once: the folder, the summary, and the progress reports."""
    from partage.jobs.replay.replay import replay

    out: Path = tmp_path_factory.mktemp("replayed") / "out"
    steps: list[tuple[str, int, int]] = []
    summary = replay(SAMPLE, out, spark=spark, progress=lambda *step: steps.append(step))
    return SimpleNamespace(out=out, summary=summary, progress=steps)
