"""What a log of `__consumer_offsets` tells: from decoded records to states and problems.

Pure: no files, no clock, no Spark. The way in is `groups.GroupHistory`: one group's records and
runs of commits in log order, out come generations with their causes, lives, events, what members
hold, and pauses. Which file answers what:

* a group of the classic protocol: `records` (a decoded record as a value), `classic` (its
  generations), `clients` (which library a member is), `dialects` (whose rule its leader used);
* a group of the other protocols: `server_records`, `server_members`, `server` (its epochs),
  `targets` (what the coordinator went by), `tasks` (what tasks read), `held` (what a member has);
* both: `events` (what happened), `causes` and `reasons` (why), `departures` (who may come back),
  `second_steps` (rebalances in which nobody changed), `ownership` (who had what and when),
  `storms`, `coordinators` (when they moved), `blob` (a state as bytes);
* commits: `commits` reduces them, `transactions` tells which count, `pauses` what they say
  about a rebalance, `stops` which partitions stood still in it;
* the cluster: `clusters` is the metadata over time, `topic_book` has names of ids;
* agreement: `verdicts` asks whether a record is what its strategy decides, by `problems`,
  `agreement` (classic), `coordinator` and `stream_targets` (targets); `neighbours` are states
  that somebody may have seen instead.
"""

from __future__ import annotations
