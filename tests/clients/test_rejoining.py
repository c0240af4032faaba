"""kafka-python: a poll that ends in the middle of a rebalance, while its consumer leads it."""

from __future__ import annotations

import pytest
from tests.clients.members import KAFKA_PYTHON, Host, every, settle

pytestmark = [pytest.mark.jvm, pytest.mark.soak]

THEIRS = "kafka-python does not look for a join that its poll() did not wait for"


@pytest.mark.parametrize(
    ("client", "strategy"),
    [
        (KAFKA_PYTHON[2], "slow:sticky"),
        (KAFKA_PYTHON[2], "slow:cooperative-sticky"),
        (KAFKA_PYTHON[1], "slow:sticky"),
        (KAFKA_PYTHON[0], "slow:sticky"),
        *(
            pytest.param(one, "slow:own:range", marks=pytest.mark.xfail(strict=True, reason=THEIRS))
            for one in KAFKA_PYTHON[1:]
        ),
    ],
)
def test_a_leader_whose_poll_ends_too_early_comes_back(broker, client: str, strategy: str) -> None:
    """Its topic grows, and the plan takes longer than a poll: with ours it joins all the same; with
    its own assignor it stays outside, or works on what it had before, which is theirs to mend.
    """
    topic = f"rejoining-{client}-{strategy.replace(':', '-')}"
    broker.create_topic(topic, 2)
    with Host(client) as host:
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
