"""Forecasts for a consumer group: how many consumers it needs, and what a change of it will cost.

Pure: no files, no wall clock; chance comes from a seed. Equal input gives equal results.

    loads    records per second of each partition, and the capacity of a consumer, from commit rates
    sizing   the load of the busiest consumer for each number of consumers, and scaler settings
    rolling  the cost of a rolling deployment, by simulation
    migration  readiness of a group for another rebalance protocol
    restarts  evidence of a group's record about restarts of its members
    measured  a group of a running cluster as the input of forecasts
    group_protocols  groups whose members stop and start in simulated time
    pictures  results as SVG
    growth  keys that a larger partition count moves, and the steps that keep their order
"""

from __future__ import annotations
