"""The history of a group, rebuilt from the decoded records of `__consumer_offsets`.

Pure: no files, no clock, no Spark. The entry point is `group_history.GroupHistory`. It takes one
group's records and offset commits in log order and yields generations with their causes,
lifecycle events, current assignments of members, and pauses.

* **Input**: `records` (decoded records as values), `commits` (offset commits reduced to runs, with
  their kernels in `commit_kernels`), `transactions` (which commits took effect), `clusters` (the
  cluster's metadata over time, moves of coordinators), `clients` (the library of a member).
* **Groups**: `classic_groups` (generations), `consumer_groups` (epochs of consumer, share and
  streams groups). Both yield the types of `events`, the event model of all protocols.
* **Interpretation**: `causes` (why a rebalance happened, which joining member is a former
  one), `ownership` (intervals), `pauses` (time without commits), `storms`.
* **Agreement**: `agreement` compares a recorded assignment with the strategy's own, from
  `problems`; `streams_agreement` does so for Kafka Streams applications of the classic protocol,
  whose topology `streams_application` reads from the record.
* **Storage**: `state_store` turns the state of a history into bytes and back.
"""

from __future__ import annotations
