"""The recorded cluster: assignments of Java leaders that ran the sticky classes, first plans of each."""

from __future__ import annotations

from collections import Counter

from tests.support.captured import clusters, generations, group_records

from partage.history.agreement import check_agreement


def test_recorded_plans_come_out() -> None:
    """174 of 178 agree; of the rest the leaders had not yet seen a topic.

    Kafka's own classes, fed from this log, give the same 174. A 179th plan was no leader's: it was
    taken over from the target assignment when the group was migrated (`unit/history/test_agreement`).
    """
    counts: Counter = Counter()
    reasons = {}
    for group in group_records():
        for found in generations(group):
            name, asked = found.first.strategy, check_agreement(found, clusters())
            if asked.counts and name in ("sticky", "cooperative-sticky"):
                counts[name, asked.agrees] += 1
                if not asked.agrees:
                    reasons[group, found.generation_number] = asked.why
    assert counts == {
        ("sticky", True): 47, ("sticky", False): 2,
        ("cooperative-sticky", True): 127, ("cooperative-sticky", False): 2,
    }  # fmt: skip
    assert sorted(reasons) == [
        ("clicks-ml", 2), ("clicks-ml", 3), ("sensor-alarms", 3), ("sensor-alarms", 16),
    ]  # fmt: skip
    assert all(why.startswith("leader's metadata was ") for why in reasons.values())
