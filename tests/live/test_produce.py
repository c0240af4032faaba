"""Records that a test sends to a topic it has just created."""

from __future__ import annotations

import time

import pytest
from tests.support.brokers import brokers

pytestmark = pytest.mark.jvm

TOPICS, PARTITIONS = 8, 9
#: Several batches of 16 KiB for each partition. One record takes about 40 bytes.
RECORDS = [(p, None, "x") for p in range(PARTITIONS) for _ in range(1000)]
#: Half of the producer's delivery timeout.
SECONDS = 60


def test_a_topic_takes_records_from_the_moment_it_is_created() -> None:
    """Several batches for each partition of a new topic arrive without waiting for a timeout."""
    with brokers() as broker:
        for number in range(TOPICS):
            broker.create_topic(f"new-{number}", PARTITIONS)
            begin = time.monotonic()
            broker.produce(f"new-{number}", RECORDS)
            assert time.monotonic() - begin < SECONDS
