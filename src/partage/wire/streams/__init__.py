"""What members and leader of a Kafka Streams application tell each other in user data.

Start with `subscription_info` (a member's, with its tasks and offset sums) and `assignment_info`
(the leader's answer); `subscription_bytes` and `assignment_bytes` read and write them; `versions`
is how both sides agree on a version of them. Below stand
`tasks` (many tasks as a few arrays), `partitions` (lists of partitions, likewise) and `java_text`
(strings as ``DataOutputStream`` writes them).
"""

from __future__ import annotations
