"""kafka-python 3: a poll that ends in the middle of a rebalance, while its consumer leads it."""

from __future__ import annotations

import pytest
from tests.clients.members import KAFKA_PYTHON, Host, every, settle

pytestmark = [pytest.mark.jvm, pytest.mark.soak]

THEIRS = "kafka-python 3.0.12 does not look for a join that its poll() did not wait for"


@pytest.mark.parametrize(
    "strategy",
    [
        "slow:sticky",
        "slow:cooperative-sticky",
        pytest.param("slow:own:range", marks=pytest.mark.xfail(strict=True, reason=THEIRS)),
    ],
)
def test_a_leader_whose_poll_ends_too_early_comes_back(broker, strategy: str) -> None:
    """Its topic grows, and the plan takes longer than a poll: with ours it joins all the same; with
    its own assignor it stays outside, which is theirs to mend.
    """
    topic = f"rejoining-{strategy.replace(':', '-')}"
    broker.create_topic(topic, 2)
    with Host(KAFKA_PYTHON[-1]) as host:
        mine = []
        for _ in range(2):
            mine.append(
                host.start(
                    bootstrap=broker.bootstrap, group=topic, topics=[topic], session=6000,
                    strategies=[strategy], poll_ms=300,
                )
            )  # fmt: skip
            settle(mine, every({topic: 2}))
        broker.ask("grow-topic", name=topic, partitions=6)
        settle(mine, every({topic: 6}), seconds=30)
