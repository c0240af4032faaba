"""Compiled kernels on Spark's workers: taken from the node's cache, not made again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("numba", reason="numba (the extra `fast`) is not installed")


def loaded(_: Iterator[int]) -> Iterator[tuple[int, int, int]]:
    """On a worker: its process, and how often the kernel was found in the cache, and was not."""
    import os

    from partage.wire.columns.commit_kernel import read_commits

    made = read_commits.compile()
    yield os.getpid(), sum(made.stats.cache_hits.values()), sum(made.stats.cache_misses.values())


def test_a_worker_loads_kernels_from_the_cache(spark) -> None:
    """Once one process of the node has made a kernel, workers compile nothing."""
    import os

    from partage.wire.columns.commit_kernel import read_commits

    assert read_commits.compile() is not None
    rows = spark.sparkContext.parallelize(range(2), 2).mapPartitions(loaded).collect()
    assert rows
    for process, hits, misses in rows:
        assert process != os.getpid()
        assert (hits, misses) == (1, 0)
