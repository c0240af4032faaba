"""The user data of Kafka Streams members and leaders.

Start with `subscription_info` (a member's tasks and offset sums) and `assignment_info` (the
leader's reply). `subscription_bytes` and `assignment_bytes` decode and encode them; `versions`
selects a version that both sides support. They build on `tasks` and `partitions` (tasks and
partitions as arrays) and `data_output` (strings as ``DataOutputStream`` writes them).
"""

from __future__ import annotations
