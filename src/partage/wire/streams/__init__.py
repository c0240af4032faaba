"""The user data that Kafka Streams members and leaders exchange.

`subscription_info` is what a member sends (its tasks and offset sums), `assignment_info` the
leader's reply; `versions` selects a version that both sides support. `arrays` has tasks and
partitions as arrays.
"""

from __future__ import annotations
