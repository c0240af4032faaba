"""Members and strategies that misbehave, on a real broker: named, bounded, and the group goes on."""

from __future__ import annotations

import itertools

import pytest
from tests.clients.members import AIOKAFKA, KAFKA_PYTHON, Host, every, settle, wait

pytestmark = pytest.mark.jvm

NEWEST = [KAFKA_PYTHON[-1], AIOKAFKA[-1]]


def _start(host, broker, group, topic, *strategies, **more):
    return host.start(
        bootstrap=broker.bootstrap, group=group, topics=[topic], strategies=strategies, **more
    )


@pytest.mark.soak
@pytest.mark.parametrize("client", NEWEST)
@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky", "optimal", "server:uniform"])
def test_garbage_gets_a_fair_share_and_one_warning(broker, client: str, strategy: str) -> None:
    """User data that nobody can read: thirds for all, the others keep theirs, one warning."""
    if strategy == "cooperative-sticky" and client == AIOKAFKA[-1]:
        pytest.skip("aiokafka is not cooperative: nothing tells what its members had")
    topic = f"garbage-{client}-{strategy.replace(':', '-')}"
    broker.create_topic(topic, 9)
    with Host(client) as host:
        good = [_start(host, broker, topic, topic, strategy) for _ in range(2)]
        settle(good, every({topic: 9}))
        bad = _start(host, broker, topic, topic, ("garbage", {"name": strategy}))
        settle([*good, bad], every({topic: 9}))
        kept = {m.id: m.owns for m in good}
        assert [len(m.owns) for m in (*good, bad)] == [3, 3, 3]
        third = _start(host, broker, topic, topic, strategy)
        settle([*good, bad, third], every({topic: 9}))
        assert all(m.owns <= kept[m.id] for m in good)
        warned = [
            one["what"]
            for one in host.logs
            if "user data" in one["what"] or "claims" in one["what"]
        ]
        assert len(warned) == 1, warned
        assert bad.member in warned[0]


@pytest.mark.parametrize("client", NEWEST)
def test_a_strategy_that_raises_is_named_and_does_not_spin(broker, client: str) -> None:
    """The error names strategy, group and generation; the member joins again, ever more slowly."""
    topic = f"broken-{client}"
    broker.create_topic(topic, 1)
    with Host(client) as host:
        one = _start(host, broker, topic, topic, "broken")
        tried = lambda: [e for e in host.logs if e["level"] == "ERROR"]  # noqa: E731
        wait(lambda: len(tried()) >= 4, "it keeps joining")
        assert any(
            f"strategy broken failed in group {topic}, generation 1:" in e for e in one.errors
        )
        gaps = [b["at"] - a["at"] for a, b in itertools.pairwise(tried())]
        # Half a second, doubled each time (a busy machine only adds).
        assert all(gap > 0.45 * 2**n for n, gap in enumerate(gaps[:3])), gaps
