"""The history of a group, rebuilt from the decoded records of `__consumer_offsets`.

Pure: no files, no clock, no Spark. The entry point is `group_history.GroupHistory`. It takes one
group's records and offset commits in log order and yields generations with their causes,
lifecycle events, current assignments of members, and pauses.

    group_history        the history of one group across protocols; start here

Input:
    records              decoded group records as values
    commits              offset commits reduced to runs, and runs folded to stretches
    commit_kernels       compiled kernels of `commits`
    transactions         which transactional commits took effect
    clusters             the cluster's metadata over time, moves of coordinators
    clients              the client library of a member

Groups:
    events               the event model of all protocols; two successive states compared
    classic_groups       generations of a classic group
    consumer_groups      epochs of consumer, share and streams groups

Interpretation:
    causes               why a rebalance happened
    departures           departed members, and which joining member is one of them
    ownership            intervals in which a member owned a partition
    pauses               time without offset commits around a rebalance
    stop_model           when a member stopped consuming, as a time with an uncertainty
    unread_state         state and owner statistics of the estimates of unread time
    unread               who consumes which partition; unread time of a rebalance and a partition
    storms               rebalances that follow each other faster than a group can settle

Agreement with the group's own strategy:
    problems             a recorded generation as the input of a strategy
    agreement            the recorded assignment against the strategy's result
    streams_application  the topology of a Streams application, read from its assignments
    streams_agreement    the same comparison for classic Kafka Streams groups

Storage and live groups:
    state_store          the state of a history as bytes, so that a later run resumes it
    live_log             a growing log, decoded in the order in which records take effect
    live_groups          histories of all groups while the log grows
"""

from __future__ import annotations
